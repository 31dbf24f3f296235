/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * peerwin_abort: whoever waits in the context, in whatever call, is released with ABORTED within a second; all later
 * calls say so too and name the rank; everyone can free and finalize alone. From another rank, and from another thread
 * of a rank that waits itself.
 */
#include <pthread.h>
#include <stdlib.h>

#include "inject.h"
#include "support/leaks.h"
#include "support/memory.h"

enum { TIMEOUT_MS = 20000, PAUSE_MS = 150 };

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
} pair;

/* --------------------------------------------------------------------------- calls that wait for somebody else */

typedef peerwin_status (*waiting_call)(pair *p);

static peerwin_status in_barrier(pair *p) {
    return peerwin_barrier(p->ctx, NULL);
}

static peerwin_status in_wait(pair *p) {
    return peerwin_wait(p->win, 0, 1, NULL);
}

static peerwin_status in_consume(pair *p) {
    return peerwin_consume(p->win, 1, 5, NULL);
}

static peerwin_status in_allreduce(pair *p) {
    double value = 1;
    peerwin_status status = peerwin_allreduce(p->ctx, &value, 1, PEERWIN_DOUBLE, PEERWIN_SUM, NULL);
    CHECK(value == 1);
    return status;
}

static peerwin_status in_alloc(pair *p) {
    peerwin_win *late = NULL;
    peerwin_status status = peerwin_win_alloc(p->ctx, 100, NULL, &late);
    CHECK(late == NULL);
    return status;
}

static peerwin_status in_attach(pair *p) {
    peerwin_win *late = NULL;
    double value = 1;
    return peerwin_win_attach(p->ctx, &value, sizeof(value), NULL, &late);
}

static peerwin_status in_free(pair *p) {
    return peerwin_win_free(p->win);
}

static peerwin_status in_finalize(pair *p) {
    return peerwin_finalize(p->ctx);
}

static const struct {
    const char *name;
    waiting_call call;
} calls[] = {
    {"barrier", in_barrier}, {"wait", in_wait},     {"consume", in_consume}, {"allreduce", in_allreduce},
    {"alloc", in_alloc},     {"attach", in_attach}, {"free", in_free},       {"finalize", in_finalize},
};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

static void check_aborted(pair *p, int by) {
    char rank[32];
    double value = 1;
    snprintf(rank, sizeof(rank), "peer %d", by);
    CHECK_STATUS(peerwin_check(p->ctx), PEERWIN_ERR_ABORTED, rank, "peerwin_abort");
    CHECK_STATUS(peerwin_barrier(p->ctx, NULL), PEERWIN_ERR_ABORTED, rank);
    CHECK_STATUS(peerwin_put(p->win, 0, 0, &value, 8, NULL), PEERWIN_ERR_ABORTED, rank);
    CHECK_STATUS(peerwin_wait(p->win, 0, 0, NULL), PEERWIN_ERR_ABORTED, rank);
    CHECK_STATUS(in_allreduce(p), PEERWIN_ERR_ABORTED, rank);
    CHECK_STATUS(in_alloc(p), PEERWIN_ERR_ABORTED, rank);
    CHECK_OK(peerwin_abort(p->ctx)); /* once more does no harm and changes nothing */
    CHECK_STATUS(peerwin_check(p->ctx), PEERWIN_ERR_ABORTED, rank);
}

static void end(pair *p) {
    if (job.rank % 2 == 0) {
        CHECK_OK(peerwin_win_free(p->win));
    }
    CHECK_OK(peerwin_finalize(p->ctx));
}

/* By the clock that all processes of a machine share. */
static double aborted_at, released_at;

static void wait_and_be_released(waiting_call call, pair *p) {
    peerwin_status status = call(p);
    released_at = test_seconds();
    CHECK_STATUS(status, PEERWIN_ERR_ABORTED, "peerwin_abort");
}

static peerwin_status abort_after_a_pause(peerwin_ctx *ctx) {
    test_sleep_ms(PAUSE_MS);
    aborted_at = test_seconds();
    return peerwin_abort(ctx);
}

/* From the abort on, not from when the wait began: how late its caller comes is not the library's. Collective. */
static void check_release(const char *name, int by, int waited) {
    MPI_Bcast(&aborted_at, 1, MPI_DOUBLE, by, MPI_COMM_WORLD);
    if (waited && released_at - aborted_at > 1.0) {
        test_fail(__FILE__, __LINE__, "%s: released after %.3f s", name, released_at - aborted_at);
    }
}

/* ------------------------------------------------------------------------------------------------------- cases */

static void abort_from_one_rank_releases_the_others(void) {
    for (int i = 0; i < CALLS; i++) {
        pair p;
        int by = i % job.size;
        p.ctx = test_context(MPI_COMM_WORLD, TIMEOUT_MS);
        p.win = test_window(p.ctx, 64);
        if (job.rank == by) {
            CHECK_OK(abort_after_a_pause(p.ctx));
        } else {
            wait_and_be_released(calls[i].call, &p);
        }
        check_release(calls[i].name, by, job.rank != by);
        check_aborted(&p, by);
        end(&p);
    }
}

/* Every rank is in another call: all are released. */
static void abort_releases_ranks_in_different_calls(void) {
    pair p;
    p.ctx = test_context(MPI_COMM_WORLD, TIMEOUT_MS);
    p.win = test_window(p.ctx, 64);
    int mine = (job.rank + 3) % 4;
    if (job.rank == 0) {
        CHECK_OK(abort_after_a_pause(p.ctx));
    } else {
        wait_and_be_released(calls[mine].call, &p);
    }
    check_release(calls[mine].name, 0, job.rank != 0);
    check_aborted(&p, 0);
    end(&p);
}

static void *abort_later(void *argument) {
    return abort_after_a_pause(argument) == PEERWIN_OK ? NULL : argument;
}

static void abort_from_a_helper_thread_releases_all_ranks(void) {
    for (int i = 0; i < CALLS; i++) {
        pair p;
        pthread_t thread;
        void *failed = NULL;
        p.ctx = test_context(MPI_COMM_WORLD, TIMEOUT_MS);
        p.win = test_window(p.ctx, 64);
        if (job.rank == 0) {
            CHECK_EQUAL(pthread_create(&thread, NULL, abort_later, p.ctx), 0);
        }
        int waits = job.rank == 0 || job.rank < job.size - 1;
        if (waits) {
            wait_and_be_released(calls[i].call, &p);
        } /* else this rank is the one that is waited for */
        if (job.rank == 0) {
            CHECK_EQUAL(pthread_join(thread, &failed), 0);
            CHECK(failed == NULL);
        }
        check_release(calls[i].name, 0, waits);
        MPI_Barrier(MPI_COMM_WORLD);
        check_aborted(&p, 0);
        end(&p);
    }
}

static peerwin_ctx *callback_ctx;

static void abort_here(void) {
    if (peerwin_abort(callback_ctx) != PEERWIN_OK) {
        test_fail(__FILE__, __LINE__, "abort failed");
    }
}

/* Aborts its own context at the nth call of a kind inside alloc. */
static void abort_inside_alloc(inject_call where, int nth) {
    pair p;
    inject_plan plan = {.calls = INJECT_BIT(where), .nth = nth, .action = INJECT_CALLBACK, .callback = abort_here};
    p.ctx = callback_ctx = test_context(MPI_COMM_WORLD, TIMEOUT_MS);
    p.win = test_window(p.ctx, 64);
    if (job.rank == job.size - 1) {
        inject_arm(&plan);
    }
    double start = test_seconds();
    peerwin_win *late = NULL;
    peerwin_status status = peerwin_win_alloc(p.ctx, 100, NULL, &late);
    CHECK(status == PEERWIN_ERR_ABORTED || status == PEERWIN_OK); /* some may have been through already */
    CHECK(test_seconds() - start < 1.0);
    CHECK(job.rank != job.size - 1 || inject_disarm());
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_STATUS(peerwin_check(p.ctx), PEERWIN_ERR_ABORTED, "peerwin_abort");
    end(&p);
}

static void abort_in_the_middle_of_alloc_is_seen_by_all(void) {
    abort_inside_alloc(INJECT_MEMFD_CREATE, 1);
    for (int nth = 1; nth <= 2; nth++) {
        abort_inside_alloc(INJECT_SENDMSG, nth);
        abort_inside_alloc(INJECT_RECVMSG, nth);
        abort_inside_alloc(INJECT_MPI_IALLREDUCE, nth);
    }
}

/* Another context of the same ranks is not touched. */
static void other_contexts_live_on(void) {
    pair p;
    pair other;
    p.ctx = test_context(MPI_COMM_WORLD, TIMEOUT_MS);
    p.win = test_window(p.ctx, 64);
    other.ctx = test_context(MPI_COMM_WORLD, TIMEOUT_MS);
    other.win = test_window(other.ctx, 64);
    if (job.rank == 0) {
        CHECK_OK(abort_after_a_pause(p.ctx));
    } else {
        wait_and_be_released(in_wait, &p);
    }
    check_release("wait", 0, job.rank != 0);
    check_aborted(&p, 0);
    CHECK_OK(peerwin_check(other.ctx));
    CHECK_OK(peerwin_barrier(other.ctx, NULL));
    end(&p);
    CHECK_OK(peerwin_barrier(other.ctx, NULL));
    test_free(other.ctx, other.win);
}

static const test_case cases[] = {
    TEST_CASE(abort_from_one_rank_releases_the_others, 2, 0),
    TEST_CASE(abort_releases_ranks_in_different_calls, 2, 0),
    TEST_CASE(abort_from_a_helper_thread_releases_all_ranks, 2, 0),
    TEST_CASE(abort_in_the_middle_of_alloc_is_seen_by_all, 2, 0),
    TEST_CASE(other_contexts_live_on, 2, 0),
};
TEST_MAIN(cases)
