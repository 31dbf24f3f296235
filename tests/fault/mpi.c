/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI call of the library fails on one rank. Then nothing can be agreed on by MPI any more: that rank reports the
 * MPI call, the others learn of it through their pads and do not wait for the deadline, the context is broken for all
 * alike, and everyone can free and finalize alone. Before the pads are mapped only the deadline helps.
 */
#include <stdlib.h>

#include "holdings.h"
#include "inject.h"
#include "support/memory.h"

enum { TIMEOUT_MS = 5000, SHORT_MS = 200, LONG_MS = SHORT_MS * 64, CODE = MPI_ERR_INTERN };
#define AT_ONCE 2.5 /* seconds */

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
} pair;

typedef peerwin_status (*collective)(pair *p);

static peerwin_status do_alloc(pair *p) {
    peerwin_win *second = NULL;
    return peerwin_win_alloc(p->ctx, 70000, NULL, &second);
}

/* Fails on every rank anyway. */
static peerwin_status do_attach(pair *p) {
    peerwin_win *second = NULL;
    double value = 1;
    return peerwin_win_attach(p->ctx, &value, sizeof(value), NULL, &second);
}

static peerwin_status do_free(pair *p) {
    peerwin_status status = peerwin_win_free(p->win);
    p->win = status == PEERWIN_OK ? NULL : p->win;
    return status;
}

static peerwin_status do_finalize(pair *p) {
    peerwin_status status = peerwin_finalize(p->ctx);
    p->win = status == PEERWIN_OK ? NULL : p->win;
    p->ctx = status == PEERWIN_OK ? NULL : p->ctx;
    return status;
}

static int agreed(int mine, MPI_Op op) {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT, op, MPI_COMM_WORLD);
    return mine;
}

/*
 * The rank that is struck last may be the only one to notice: the others have done their part. They do hear that the
 * context is broken.
 */
static void check_outcome(peerwin_status status, double seconds, inject_call call, int victim) {
    char rank[32];
    snprintf(rank, sizeof(rank), "peer %d", victim);
    CHECK(seconds < AT_ONCE);
    if (job.rank == victim) {
        CHECK_STATUS(status, PEERWIN_ERR_MPI, inject_name(call));
    } else if (status != PEERWIN_OK && status != PEERWIN_ERR_UNSUPPORTED) {
        CHECK_STATUS(status, PEERWIN_ERR_ABORTED, rank);
    }
}

/* Returns 0 if there was no such call. */
static int fail_once(const char *name, collective run, inject_call call, int nth, int victim) {
    holdings before = holdings_take();
    inject_plan plan = {.calls = INJECT_BIT(call), .nth = nth, .action = INJECT_FAIL, .value = CODE};
    pair p;
    p.ctx = test_context(MPI_COMM_WORLD, TIMEOUT_MS);
    p.win = test_window(p.ctx, 4096);
    MPI_Barrier(MPI_COMM_WORLD); /* a break now would still reach a rank that is about to leave the allocation */
    if (job.rank == victim) {
        inject_arm(&plan);
    }
    double start = test_seconds();
    peerwin_status status = run(&p);
    double seconds = test_seconds() - start;
    int struck = agreed(job.rank == victim && inject_disarm(), MPI_MAX);
    if (struck) {
        check_outcome(status, seconds, call, victim);
        if (p.ctx != NULL) {
            CHECK_STATUS(peerwin_check(p.ctx), PEERWIN_ERR_ABORTED, "rank");
            CHECK_STATUS(do_alloc(&p), PEERWIN_ERR_ABORTED, "rank");
            CHECK_STATUS(peerwin_barrier(p.ctx, NULL), PEERWIN_ERR_ABORTED, "rank");
        }
    }
    if (job.rank % 2 == 0 || !struck) {
        CHECK_OK(peerwin_win_free(p.win));
    }
    CHECK_OK(peerwin_finalize(p.ctx));
    MPI_Barrier(MPI_COMM_WORLD);
    holdings_check(&before, name);
    return struck;
}

static int sweep(const char *name, collective run, inject_call call) {
    int runs = 0;
    for (int victim = 0; victim < job.size; victim += job.size - 1) {
        for (int nth = 1; fail_once(name, run, call, nth, victim); nth++) {
            runs++;
        }
    }
    if (job.rank == 0) {
        printf("   %s in %s: %d runs with a failure injected\n", inject_name(call), name, runs);
    }
    return runs;
}

static void a_failing_mpi_call_releases_the_others(void) {
    test_env("PEERWIN_LOG", "error");
    CHECK(sweep("alloc", do_alloc, INJECT_MPI_IALLREDUCE) > 4);
    CHECK(sweep("alloc", do_alloc, INJECT_MPI_IALLGATHER) > 0);
    CHECK(sweep("attach", do_attach, INJECT_MPI_IALLREDUCE) > 0);
    CHECK(sweep("free", do_free, INJECT_MPI_IALLREDUCE) > 2);
    CHECK(sweep("finalize", do_finalize, INJECT_MPI_IALLREDUCE) > 2);
    test_env("PEERWIN_LOG", NULL);
}

/* ------------------------------------------------------------------------------------------------------- init */

/* Returns 1 if the call was struck, 0 if there is no such call, -1 if the deadline struck first, as on a busy machine.
 */
static int fail_init_within(int timeout_ms, inject_call call, int nth, int victim) {
    holdings before = holdings_take();
    inject_plan plan = {.calls = INJECT_BIT(call), .nth = nth, .action = INJECT_FAIL, .value = CODE};
    peerwin_config config;
    peerwin_ctx *ctx = NULL;
    peerwin_config_init(&config);
    config.space = job.space;
    config.timeout_ms = timeout_ms;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm); /* given up if the ranks lose step on it */
    if (job.rank == victim) {
        inject_arm(&plan);
    }
    peerwin_status status = peerwin_init(comm, &config, &ctx);
    int struck = agreed(job.rank == victim && inject_disarm(), MPI_MAX);
    int late = !struck && agreed(status == PEERWIN_ERR_TIMEOUT, MPI_MAX);
    if (struck && job.rank == victim) {
        CHECK_STATUS(status, PEERWIN_ERR_MPI, inject_name(call));
    } else if (struck || late) {
        CHECK(status == PEERWIN_OK || status == PEERWIN_ERR_TIMEOUT || status == PEERWIN_ERR_ABORTED);
    } else {
        CHECK_OK(status);
    }
    CHECK((status == PEERWIN_OK) == (ctx != NULL));
    if (struck && ctx != NULL) {
        CHECK_STATUS(peerwin_check(ctx), PEERWIN_ERR_ABORTED, "rank");
    }
    if (late) { /* the deadline may strike once more; then the context is broken and ended by each rank alone */
        status = peerwin_finalize(ctx);
        status = status == PEERWIN_OK ? status : peerwin_finalize(ctx);
        CHECK_OK(status);
    } else {
        CHECK_OK(peerwin_finalize(ctx));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    holdings_check(&before, "init");
    return late ? -1 : struck;
}

/* A short deadline, for the others wait it out each time: it is to be long enough to come to the call at all. */
static int fail_init_once(inject_call call, int nth, int victim) {
    int struck = -1;
    for (int timeout_ms = SHORT_MS; struck < 0 && timeout_ms <= LONG_MS; timeout_ms *= 4) {
        struck = fail_init_within(timeout_ms, call, nth, victim);
    }
    CHECK(struck >= 0);
    return struck;
}

static void an_mpi_call_that_fails_in_init_leaves_no_context(void) {
    static const inject_call calls[] = {INJECT_MPI_COMM_IDUP, INJECT_MPI_IALLREDUCE, INJECT_MPI_IALLGATHER};
    int runs = 0;
    test_env("PEERWIN_LOG", "error");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (int nth = 1; fail_init_once(calls[i], nth, nth % job.size); nth++) {
            runs++;
        }
    }
    test_env("PEERWIN_LOG", NULL);
    if (job.rank == 0) {
        printf("   init: %d runs with a failure injected\n", runs);
    }
    CHECK(runs > 10);
}

static const test_case cases[] = {
    TEST_CASE(a_failing_mpi_call_releases_the_others, 2, 0),
    TEST_CASE(an_mpi_call_that_fails_in_init_leaves_no_context, 2, 0),
};
TEST_MAIN(cases)
