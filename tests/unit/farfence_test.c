/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Far fences, as the doorbell uses them: two processes store each their own word and look at the other's, one with
 * nothing but the compiler's order in between, the other with a far fence. Never do both miss the other's store. With a
 * fence of its own processor instead of the far one, or with none, they do within some thousand rounds.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/farfence.h"
#include "unit/unit.h"

enum { ROUNDS = 60000, LONGEST_MS = 8000 };

/* Each word in a line of its own, so that a store into it takes a while. */
typedef struct {
    _Alignas(128) _Atomic int frequent;
    _Alignas(128) _Atomic int seldom;
    _Alignas(128) _Atomic int begun; /* the round that the seldom side is in; -1: no more */
    _Alignas(128) _Atomic int seen;  /* what the frequent side saw, plus 1, once it has looked */
} board;

static board *board_new(void) {
    board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(b != MAP_FAILED);
    return b;
}

static void loiter(unsigned *seed, unsigned most) {
    *seed = *seed * 1103515245u + 12345u;
    const unsigned steps = (*seed >> 16) % most;
    for (unsigned i = 0; i < steps; i++) {
        atomic_signal_fence(memory_order_seq_cst);
    }
}

static _Noreturn void be_frequent(board *b) {
    unsigned seed = 1;
    int registered = pw_far_fence_register();
    for (int round = 1;; round++) {
        int begun;
        while ((begun = atomic_load_explicit(&b->begun, memory_order_acquire)) != -1 && begun < round) {
            pw_relax();
        }
        if (begun == -1) {
            _exit(!registered);
        }
        loiter(&seed, 64);
        atomic_store_explicit(&b->frequent, round, memory_order_relaxed);
        pw_near_order();
        int seen = atomic_load_explicit(&b->seldom, memory_order_relaxed);
        atomic_store_explicit(&b->seen, seen + 1, memory_order_release);
    }
}

/* In one round the frequent side stores `round`, and so does this one. Returns 1 if both saw what was before. */
static int both_miss(board *b, int round, unsigned *seed) {
    atomic_store_explicit(&b->begun, round, memory_order_release);
    loiter(seed, 512); /* the other one hears of the round only now */
    atomic_store_explicit(&b->seldom, round, memory_order_relaxed);
    int fenced = pw_far_fence();
    int mine = atomic_load_explicit(&b->frequent, memory_order_relaxed);
    int others;
    while ((others = atomic_exchange(&b->seen, 0)) == 0) {
        pw_relax();
    }
    assert_true(fenced);
    return mine < round && others - 1 < round;
}

static void one_of_two_sides_sees_the_other(void **state) {
    board *b = board_new();
    unsigned seed = 77;
    int status = -1;
    int missed = 0;
    int64_t end = pw_now() + LONGEST_MS * PW_MS;
    (void)state;
    if (!pw_far_fence_register()) {
        skip(); /* a kernel without, or a filter that keeps it away */
    }
    pid_t other = fork();
    assert_true(other >= 0);
    if (other == 0) {
        be_frequent(b);
    }
    for (int round = 1; round <= ROUNDS && pw_now() < end; round++) {
        missed += both_miss(b, round, &seed);
    }
    atomic_store(&b->begun, -1);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    assert_int_equal(missed, 0);
    assert_int_equal(munmap(b, sizeof(*b)), 0);
}

static void a_process_may_register_more_than_once(void **state) {
    (void)state;
    if (!pw_far_fence_register()) {
        skip();
    }
    assert_true(pw_far_fence_register());
    assert_true(pw_far_fence());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_two_sides_sees_the_other),
        cmocka_unit_test(a_process_may_register_more_than_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
