/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The coroutines of threads.h, and the kernel as which the simulated driver knows all of them.
 *
 * A coroutine begins by makecontext; from then on jumps are enough to come and go, and they make no system calls.
 */
#undef _FORTIFY_SOURCE /* its jumps go down a stack only */
#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>

#include "threads.h"

#define SIMK_ABI_ONLY
#include "simkernel.h"

thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace {

const unsigned MOST = 1024;
const size_t STACK = 64 * 1024;

struct coroutine {
    jmp_buf here;
    bool begun, ended;
    ucontext_t first;
    char *stack;
};

/* The block that a thread of the processor runs. */
struct block {
    coroutine threads[MOST];
    double shuffled[MOST];
    unsigned now; /* the one whose turn it is */
    jmp_buf scheduler;
    ucontext_t unused;
    const sim_launch *launch;
};

thread_local block *running;

void begin() {
    block *b = running;

    b->launch->call(b->launch->argument);
    b->threads[b->now].ended = true;
    _longjmp(b->scheduler, 1);
}

void take_turn(block *b, unsigned number) {
    coroutine *c = &b->threads[number];

    b->now = number;
    threadIdx = dim3(number % blockDim.x, number / blockDim.x % blockDim.y, number / (blockDim.x * blockDim.y));
    if (_setjmp(b->scheduler) != 0)
        return;
    if (c->begun)
        _longjmp(c->here, 1);
    c->begun = true;
    if (c->stack == nullptr)
        c->stack = static_cast<char *>(malloc(STACK));
    getcontext(&c->first);
    c->first.uc_stack.ss_sp = c->stack;
    c->first.uc_stack.ss_size = STACK;
    c->first.uc_link = nullptr;
    makecontext(&c->first, begin, 0);
    setcontext(&c->first);
}

/* Every thread as far as its next barrier; how many have ended. */
unsigned round(block *b, unsigned threads) {
    unsigned ended = 0;

    for (unsigned number = 0; number < threads; number++) {
        take_turn(b, number);
        ended += b->threads[number].ended;
    }
    return ended;
}

void run_block(const void *params, const simk_dim3 *grid, const simk_dim3 *size, const simk_dim3 *index) {
    const unsigned threads = size->x * size->y * size->z;

    if (running == nullptr)
        running = static_cast<block *>(calloc(1, sizeof(block)));
    gridDim = dim3(grid->x, grid->y, grid->z);
    blockDim = dim3(size->x, size->y, size->z);
    blockIdx = dim3(index->x, index->y, index->z);
    running->launch = static_cast<const sim_launch *>(params);
    for (unsigned number = 0; number < threads; number++)
        running->threads[number].begun = running->threads[number].ended = false;
    for (unsigned ended = 0; ended < threads;) {
        ended = round(running, threads);
        if (ended != 0 && ended != threads) {
            fprintf(stderr, "threads of one block do not come to the same barriers\n");
            abort();
        }
    }
}

} // namespace

extern "C" void sim_threads_meet(void) {
    block *b = running;

    if (_setjmp(b->threads[b->now].here) == 0)
        _longjmp(b->scheduler, 1);
}

extern "C" double *sim_shuffle_place(unsigned thread) {
    return &running->shuffled[thread];
}

extern "C" __attribute__((visibility("default")))
const simk_kernel simk_example_kernel = {SIMK_ABI, "example_kernel", sizeof(sim_launch), run_block};
