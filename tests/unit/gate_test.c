/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The gate: whoever is let in is alone, whoever is turned away finds another inside, and the end of the bias, which
 * happens once in a gate's life, is raced for thousands of times.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/gate.h"
#include "unit/unit.h"

enum { ROUNDS = 3000, TRIES = 200 };

typedef struct {
    pw_gate gate;
    long count; /* plain: only who is inside touches it */
    int tries;
    pthread_barrier_t *start;
} room;

static long enter_often(room *r) {
    long entered = 0;
    for (int i = 0; i < r->tries; i++) {
        if (pw_gate_try(&r->gate)) {
            r->count++;
            entered++;
            pw_gate_leave(&r->gate);
        }
    }
    return entered;
}

static void one_thread_is_never_turned_away(void **state) {
    room r = {.tries = 100000};
    (void)state;
    pw_gate_init(&r.gate, 1);
    assert_int_equal(enter_often(&r), 100000);
    assert_int_equal(r.count, 100000);
}

static void *enter_from_elsewhere(void *argument) {
    room *r = argument;
    if (r->start != NULL) {
        pthread_barrier_wait(r->start);
    }
    return (void *)(intptr_t)enter_often(r);
}

static long run_elsewhere(room *r) {
    pthread_t thread;
    void *entered = NULL;
    assert_int_equal(pthread_create(&thread, NULL, enter_from_elsewhere, r), 0);
    assert_int_equal(pthread_join(thread, &entered), 0);
    return (long)(intptr_t)entered;
}

static void a_second_thread_is_turned_away_while_the_first_is_inside(void **state) {
    room r = {.tries = 10};
    (void)state;
    pw_gate_init(&r.gate, 1);
    assert_true(pw_gate_try(&r.gate));
    assert_int_equal(run_elsewhere(&r), 0);
    pw_gate_leave(&r.gate);
    assert_int_equal(run_elsewhere(&r), 10);
    assert_true(pw_gate_try(&r.gate)); /* without its bias the owner still gets in, and keeps others out */
    assert_int_equal(run_elsewhere(&r), 0);
    pw_gate_leave(&r.gate);
    assert_int_equal(enter_often(&r), 10);
    assert_int_equal(r.count, 20);
}

/* Both start together on a fresh gate; the owner uses it before, so that it is inside by its own way as often as not.
 */
static void race_once(pthread_barrier_t *start) {
    room r = {.tries = TRIES, .start = start};
    pthread_t thread;
    void *entered = NULL;
    pw_gate_init(&r.gate, 1);
    long mine = enter_often(&r);
    assert_int_equal(pthread_create(&thread, NULL, enter_from_elsewhere, &r), 0);
    pthread_barrier_wait(start);
    mine += enter_often(&r);
    assert_int_equal(pthread_join(thread, &entered), 0);
    assert_int_equal(r.count, mine + (long)(intptr_t)entered);
}

static void whoever_is_inside_is_alone(void **state) {
    pthread_barrier_t start;
    (void)state;
    assert_int_equal(pthread_barrier_init(&start, NULL, 2), 0);
    for (int round = 0; round < ROUNDS; round++) {
        race_once(&start);
    }
    pthread_barrier_destroy(&start);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_is_never_turned_away),
        cmocka_unit_test(a_second_thread_is_turned_away_while_the_first_is_inside),
        cmocka_unit_test(whoever_is_inside_is_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
