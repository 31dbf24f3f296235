/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting for others in CUDA space: the barrier of all ranks, and a message with its signal there and back. Both are
 * work in streams, several in a row, so that what the host does between them is not what is measured.
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <time.h>

enum { IN_A_ROW = 16 };

static void wait_for_stream(const bench *b) {
    bench_check(peerwin_stream_sync(b->ctx, b->device->stream), "peerwin_stream_sync");
}

/* ----------------------------------------------------------------------------------------------- barrier */

static void barrier_peerwin(void *state, long iterations) {
    const bench *b = state;
    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < IN_A_ROW; k++)
            bench_check(peerwin_barrier(b->ctx, b->device->stream), "peerwin_barrier");
        wait_for_stream(b);
    }
}

/*
 * A barrier that lets somebody through early would be fast. One rank after the other comes late, with a number for its
 * right neighbour just before the barrier; after it, every rank must find that of its left one.
 */
static void prove_barrier(const bench *b) {
    const struct timespec lateness = {0, 2000000};
    bench_window window;
    bench_check(bench_cuda_window(b, b->ctx, sizeof(int), &window), "window");
    for (int late = 0; late < b->size; late++) {
        const int number = late + 1;
        int there = 0;
        if (b->rank == late)
            nanosleep(&lateness, NULL);
        bench_check(peerwin_put(window.win, (b->rank + 1) % b->size, 0, &number, sizeof number, b->device->stream),
                    "peerwin_put");
        bench_check(peerwin_barrier(b->ctx, b->device->stream), "peerwin_barrier");
        wait_for_stream(b);
        bench_check(
            pw_gpu_read(b->device->gpu, &there, peerwin_win_ptr(window.win, b->rank), sizeof there, &bench_cuda_site),
            "read");
        if (there != number)
            bench_fail("peerwin_barrier let this rank through before rank %d had arrived",
                       (b->rank + b->size - 1) % b->size);
        bench_check(peerwin_barrier(b->ctx, b->device->stream), "peerwin_barrier");
        wait_for_stream(b);
    }
    bench_cuda_free(b, &window);
}

void bench_cuda_case_barrier(const bench *b) {
    bench loops = *b;
    const measure_row row = {
        .name = "barrier",
        .kind = MEASURE_LATENCY,
        .active = b->size,
        .operations = IN_A_ROW,
        .num_ways = 1,
        .ways = {{"peerwin", barrier_peerwin}},
        .state = &loops,
    };
    prove_barrier(b);
    measure(b, &row);
}

/* ---------------------------------------------------------------------------------------------- pingpong */

typedef struct {
    const bench *b;
    size_t bytes;
    bench_window window;
    void *mine;
    uint64_t messages; /* each way so far, the value of the signals */
} pingpong;

/* Rank 0 begins; a message is answered when its signal is there. */
static void round_trip(pingpong *p) {
    const bench *b = p->b;
    CUstream stream = b->device->stream;
    p->messages++;
    if (b->rank != 0)
        bench_check(peerwin_wait(p->window.win, 0, p->messages, stream), "peerwin_wait");
    bench_check(peerwin_put_signal(p->window.win, b->rank == 0 ? 1 : 0, 0, p->mine, p->bytes, 0, PEERWIN_SIGNAL_SET,
                                   p->messages, stream),
                "peerwin_put_signal");
    if (b->rank == 0)
        bench_check(peerwin_wait(p->window.win, 0, p->messages, stream), "peerwin_wait");
}

static void pingpong_peerwin(void *state, long iterations) {
    pingpong *p = state;
    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < IN_A_ROW; k++)
            round_trip(p);
        wait_for_stream(p->b);
    }
}

void bench_cuda_case_pingpong(const bench *b) {
    static const size_t sizes[] = {8, 1024, 8192, 65536, 1 << 20};
    pingpong p = {.b = b};
    measure_row row = {
        .name = "pingpong",
        .kind = MEASURE_LATENCY,
        .active = 2,
        .operations = 2 * IN_A_ROW, /* one way */
        .num_ways = 1,
        .ways = {{"peerwin", pingpong_peerwin}},
        .state = &p,
    };
    bench_check(bench_cuda_window(b, b->ctx, 1 << 20, &p.window), "window");
    p.mine = bench_cuda_alloc(b, 1 << 20);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (b->opt.quick && i % 2 != 0)
            continue;
        p.bytes = sizes[i];
        row.bytes = sizes[i];
        measure(b, &row);
    }
    bench_cuda_release(b, p.mine);
    bench_cuda_free(b, &p.window);
}
