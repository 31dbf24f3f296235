/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Forked children and second threads: refused with a sentence, and the rightful owner is unharmed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/memory.h"

/* ---------------------------------------------------------------------------------------------------- fork */

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
} pair;

/* In the child: 0 if every call is refused with STATE and names the fork, else the number of the first that is not. */
static int calls_of_child(pair p) {
    peerwin_win *win = NULL;
    uint64_t value = 0;
    char bytes[8] = "";
    int right = (job.rank + 1) % job.size;
    peerwin_box box = {.offset = 0, .count = {4, 1, 1}, .stride = {0, 0}};
    peerwin_peer peer = {.size = sizeof(peer)};
#define REFUSED(number, call)                                                                                          \
    if ((call) != PEERWIN_ERR_STATE || !test_text_has(peerwin_last_error(), "fork")) {                                 \
        fprintf(stderr, "child: " #call " said \"%s\"\n", peerwin_last_error());                                       \
        return number;                                                                                                 \
    }
    REFUSED(1, peerwin_put(p.win, right, 0, bytes, 8, job.stream))
    REFUSED(2, peerwin_get(p.win, right, 0, bytes, 8, job.stream))
    REFUSED(3, peerwin_put_box(p.win, right, &box, bytes, &box, job.stream))
    REFUSED(4, peerwin_get_box(p.win, right, &box, bytes, &box, job.stream))
    REFUSED(5, peerwin_signal(p.win, right, 0, PEERWIN_SIGNAL_ADD, 1, job.stream))
    REFUSED(6, peerwin_put_signal(p.win, right, 0, bytes, 8, 0, PEERWIN_SIGNAL_ADD, 1, job.stream))
    REFUSED(7, peerwin_wait(p.win, 0, 1, job.stream))
    REFUSED(8, peerwin_consume(p.win, 0, 1, job.stream))
    REFUSED(9, peerwin_signal_read(p.win, 0, &value))
    REFUSED(10, peerwin_quiet(p.ctx, job.stream))
    REFUSED(11, peerwin_barrier(p.ctx, job.stream))
    REFUSED(12, peerwin_allreduce(p.ctx, bytes, 1, PEERWIN_INT64, PEERWIN_SUM, job.stream))
    REFUSED(13, peerwin_stream_sync(p.ctx, job.stream))
    REFUSED(14, peerwin_win_alloc(p.ctx, 8, NULL, &win))
    REFUSED(15, peerwin_win_attach(p.ctx, bytes, 8, NULL, &win))
    REFUSED(16, peerwin_win_free(p.win))
    REFUSED(17, peerwin_abort(p.ctx))
    REFUSED(18, peerwin_finalize(p.ctx))
    REFUSED(19, peerwin_peer_query(p.ctx, 0, &peer))
    REFUSED(20, peerwin_check(p.ctx))
#undef REFUSED
    return 0;
}

static void check_child(pair p) {
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(calls_of_child(p));
    }
    int status = 0;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
}

static void check_ring(pair p, uint64_t round) {
    int right = (job.rank + 1) % job.size;
    double value = (double)(job.rank * 1000) + (double)round;
    CHECK_OK(peerwin_put_signal(p.win, right, 0, &value, sizeof(value), 7, PEERWIN_SIGNAL_SET, round, job.stream));
    CHECK_OK(peerwin_wait(p.win, 7, round, job.stream));
    segment_load(p.win, 0, &value, sizeof(value));
    CHECK(value == (double)((job.rank + job.size - 1) % job.size * 1000) + (double)round);
    CHECK_OK(peerwin_barrier(p.ctx, job.stream));
}

static void a_forked_child_is_refused_and_the_parent_unharmed(void) {
    pair p;
    p.ctx = test_context(MPI_COMM_WORLD, 0);
    p.win = test_window(p.ctx, 64);
    for (uint64_t round = 1; round <= 3; round++) {
        check_child(p);
        check_ring(p, round);
    }
    CHECK_OK(peerwin_check(p.ctx));
    test_free(p.ctx, p.win);
}

/* A child that lives on holds nothing that keeps memory or sockets of the window alive in a way that disturbs. */
static void a_child_that_outlives_the_context_does_not_disturb_it(void) {
    pair p;
    int pipe_ends[2];
    CHECK(pipe(pipe_ends) == 0);
    p.ctx = test_context(MPI_COMM_WORLD, 0);
    p.win = test_window(p.ctx, 64);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte;
        close(pipe_ends[1]);
        _exit(read(pipe_ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    check_ring(p, 1);
    peerwin_win *second = test_window(p.ctx, 128);
    CHECK_OK(peerwin_win_free(p.win));
    p.win = second;
    check_ring(p, 2);
    test_free(p.ctx, p.win);
    close(pipe_ends[1]);
    int status = 0;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(pipe_ends[0]);
}

/* -------------------------------------------------------------------------------------------------- threads */

typedef struct {
    pair p;
    atomic_int refused;
    atomic_int stop;
    char text[512];
    peerwin_status check;
} intruder;

/* Calls into the context again and again until one call is refused. */
static void *intrude(void *argument) {
    intruder *me = argument;
    for (int tries = 0; tries < 5000 && !me->refused && !me->stop; tries++) {
        uint64_t value = 0;
        test_sleep_ms(1);
        if (peerwin_signal_read(me->p.win, 0, &value) == PEERWIN_ERR_STATE) {
            snprintf(me->text, sizeof(me->text), "%s", peerwin_last_error());
            me->check = peerwin_check(me->p.ctx);
            me->refused = 1;
        }
    }
    return NULL;
}

static void a_second_thread_at_once_is_refused_and_the_first_goes_on(void) {
    intruder thief = {.check = PEERWIN_ERR_INTERNAL};
    pthread_t thread;
    thief.p.ctx = test_context(MPI_COMM_WORLD, 1500);
    thief.p.win = test_window(thief.p.ctx, 64);
    CHECK_EQUAL(pthread_create(&thread, NULL, intrude, &thief), 0);
    peerwin_status status = PEERWIN_ERR_STATE;
    while (status == PEERWIN_ERR_STATE) { /* the other thread may have been in first */
        status = done(thief.p.ctx, peerwin_wait(thief.p.win, 0, 1, job.stream));
    }
    CHECK_EQUAL(status, PEERWIN_ERR_TIMEOUT);
    thief.stop = 1;
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK(thief.refused);
    CHECK(test_text_has(thief.text, "thread"));
    CHECK_EQUAL(thief.check, PEERWIN_OK);
    test_fulfil(thief.p.ctx, thief.p.win, 0, 1);
    check_ring(thief.p, 1);
    test_free(thief.p.ctx, thief.p.win);
}

/* The last error belongs to the thread. */
static void *fail_elsewhere(void *argument) {
    char *text = argument;
    snprintf(text, 512, "%s", peerwin_last_error());
    if (peerwin_quiet(NULL, job.stream) == PEERWIN_OK) {
        return argument;
    }
    return NULL;
}

static void the_last_error_is_each_threads_own(void) {
    char first_seen[512] = "x";
    char before[512];
    pthread_t thread;
    CHECK_STATUS(peerwin_barrier(NULL, job.stream), PEERWIN_ERR_ARG, "peerwin_barrier");
    snprintf(before, sizeof(before), "%s", peerwin_last_error());
    CHECK_EQUAL(pthread_create(&thread, NULL, fail_elsewhere, first_seen), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    CHECK_EQUAL(strlen(first_seen), 0);
    CHECK(strcmp(before, peerwin_last_error()) == 0);
}

static void *abort_later(void *argument) {
    test_sleep_ms(200);
    return peerwin_abort(argument) == PEERWIN_OK ? NULL : argument;
}

static void a_helper_thread_may_end_the_wait_of_the_main_one(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 20000);
    peerwin_win *win = test_window(ctx, 64);
    pthread_t thread;
    void *failed = NULL;
    double start = test_seconds();
    if (job.rank == 0) {
        CHECK_EQUAL(pthread_create(&thread, NULL, abort_later, ctx), 0);
    }
    CHECK_STATUS_ALL(done(ctx, peerwin_wait(win, 0, 1, job.stream)), PEERWIN_ERR_ABORTED, "peer 0", "peerwin_abort");
    CHECK(test_seconds() - start < 1.5);
    CHECK_STATUS(peerwin_check(ctx), PEERWIN_ERR_ABORTED, "peer 0", "peerwin_abort");
    CHECK_STATUS(peerwin_barrier(ctx, job.stream), PEERWIN_ERR_ABORTED, "peer 0", "peerwin_abort");
    if (job.rank == 0) {
        CHECK_EQUAL(pthread_join(thread, &failed), 0);
        CHECK(failed == NULL);
    }
    test_free(ctx, win);
}

/* Two contexts are independent: two threads may use one each at the same time. */
static void *many_puts(void *argument) {
    pair *p = argument;
    double value = 1;
    for (int i = test_rounds(200000, 2000); i > 0; i--) {
        if (peerwin_put(p->win, (job.rank + 1) % job.size, 8, &value, sizeof(value), job.stream) != PEERWIN_OK) {
            return argument;
        }
    }
    return done(p->ctx, PEERWIN_OK) == PEERWIN_OK ? NULL : argument;
}

static void two_contexts_serve_two_threads(void) {
    pair p[2];
    pthread_t thread;
    void *failed = NULL;
    for (int i = 0; i < 2; i++) {
        p[i].ctx = test_context(MPI_COMM_WORLD, 0);
        p[i].win = test_window(p[i].ctx, 64);
    }
    CHECK_EQUAL(pthread_create(&thread, NULL, many_puts, &p[0]), 0);
    CHECK(many_puts(&p[1]) == NULL);
    CHECK_EQUAL(pthread_join(thread, &failed), 0);
    CHECK(failed == NULL);
    for (int i = 0; i < 2; i++) {
        test_free(p[i].ctx, p[i].win);
    }
}

static const test_case cases[] = {
    TEST_CASE(a_forked_child_is_refused_and_the_parent_unharmed, 1, 0),
    TEST_CASE(a_child_that_outlives_the_context_does_not_disturb_it, 1, 0),
    TEST_CASE(a_second_thread_at_once_is_refused_and_the_first_goes_on, 1, 4),
    TEST_CASE(the_last_error_is_each_threads_own, 1, 0),
    TEST_CASE(a_helper_thread_may_end_the_wait_of_the_main_one, 1, 4),
    TEST_CASE(two_contexts_serve_two_threads, 1, 4),
};
TEST_MAIN(cases)
