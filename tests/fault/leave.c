/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that end early but in order: they finalized first, and are not taken for lost, though their processes are gone
 * while others are still in the same finalize or use other contexts. A rank that ends in order as far as the system is
 * concerned, but without finalizing, is lost.
 *
 * Each row has one leaver, which is gone for good; the team goes on. See team.h.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "holdings.h"
#include "inject.h"
#include "support/memory.h"
#include "team.h"

enum { TIMEOUT_MS = 20000, TEAM = 3, PAUSE_MS = 300, LEAVER = 2 };

typedef struct {
    peerwin_ctx *ctx; /* with the leaver */
    peerwin_win *win;
    peerwin_ctx *own; /* the team's own */
    peerwin_win *own_win;
} parts;

static MPI_Comm everyone; /* the team and the leaver of this row, which is rank LEAVER there */
static int leaver_pid;

static _Noreturn void leave(void) {
    inject_stamp();
    fflush(NULL);
    _exit(0);
}

static int is_gone(void) {
    return kill(leaver_pid, 0) != 0 && errno == ESRCH;
}

static void await_leave(void) {
    double end = test_seconds() + 20;
    while (!is_gone()) {
        CHECK(test_seconds() < end);
        test_sleep_ms(1);
    }
}

static void check_own(parts *p) {
    uint64_t value = 0;
    for (int round = 0; round < 50; round++) {
        CHECK_OK(peerwin_signal(p->own_win, (job.rank + 1) % TEAM, 0, PEERWIN_SIGNAL_ADD, 1, NULL));
        CHECK_OK(peerwin_consume(p->own_win, 0, 1, NULL));
        CHECK_OK(peerwin_barrier(p->own, NULL));
        test_sleep_ms(1);
    }
    CHECK_OK(peerwin_signal_read(p->own_win, 0, &value));
    CHECK_EQUAL(value, 0);
    peerwin_win *late = test_window(p->own, 10000);
    CHECK_OK(peerwin_win_free(late));
    CHECK_OK(peerwin_check(p->own));
}

/* ------------------------------------------------------------------------------------------------- the leaver */

static _Noreturn void finalizes_and_leaves(parts *p) {
    CHECK_OK(peerwin_finalize(p->ctx));
    leave();
}

static _Noreturn void frees_finalizes_and_leaves(parts *p) {
    CHECK_OK(peerwin_win_free(p->win));
    CHECK_OK(peerwin_finalize(p->ctx));
    leave();
}

static _Noreturn void finalizes_after_an_abort_and_leaves(parts *p) {
    CHECK_STATUS(peerwin_wait(p->win, 0, 1, NULL), PEERWIN_ERR_ABORTED, "peer 1");
    CHECK_OK(peerwin_finalize(p->ctx));
    leave();
}

static _Noreturn void leaves_without_finalizing(parts *p) {
    CHECK_OK(peerwin_barrier(p->ctx, NULL));
    leave();
}

/* --------------------------------------------------------------------------------------------------- the team */

/* This rank does not go on at first, and then only with what MPI does for others. */
static void stall_until_it_is_gone(void) {
    double start = test_seconds();
    while (!is_gone()) {
        int arrived = 0;
        if (test_seconds() - start > 1e-3 * PAUSE_MS) {
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &arrived, MPI_STATUS_IGNORE);
        }
        CHECK(test_seconds() - start < 20);
        test_sleep_ms(1);
    }
    test_sleep_ms(100); /* for those who wait for this rank, and see the other one gone */
}

static void arm_for_second_step(void) {
    inject_plan stall = {
        .calls = INJECT_BIT(INJECT_MPI_TEST), .nth = 1, .action = INJECT_CALLBACK, .callback = stall_until_it_is_gone};
    inject_arm(&stall);
}

/*
 * The second step of finalize: one rank stalls when it has done what the leaver needs and not yet what another one
 * needs. MPI passes sums on along a tree (from 0 to 1 and 2, from 1 to 3), so these are ranks 1, 2 and 3.
 */
static void finalize_ends_well_though_one_has_gone_already(parts *p) {
    inject_plan second = {.calls = INJECT_BIT(INJECT_MPI_IALLREDUCE),
                          .nth = 2,
                          .action = INJECT_CALLBACK,
                          .callback = arm_for_second_step};
    int stalls = peerwin_rank(p->ctx) == 1;
    if (stalls) {
        inject_arm(&second);
    }
    CHECK_OK(peerwin_finalize(p->ctx));
    CHECK(!stalls || (inject_disarm() && is_gone()));
}

static void other_contexts_do_not_mind(parts *p) {
    CHECK_OK(peerwin_finalize(p->ctx));
    check_own(p);
    await_leave();
}

static void slow_ranks_finalize_though_one_has_gone(parts *p) {
    CHECK_OK(peerwin_win_free(p->win));
    test_sleep_ms(PAUSE_MS * job.rank);
    CHECK_OK(peerwin_finalize(p->ctx));
}

static void an_aborted_context_stays_aborted(parts *p) {
    if (peerwin_rank(p->ctx) == 1) {
        test_sleep_ms(PAUSE_MS);
        CHECK_OK(peerwin_abort(p->ctx));
    }
    CHECK_STATUS(peerwin_wait(p->win, 0, 1, NULL), PEERWIN_ERR_ABORTED, "peer 1");
    await_leave();
    test_sleep_ms(50);
    CHECK_STATUS(peerwin_check(p->ctx), PEERWIN_ERR_ABORTED, "peer 1");
    CHECK_STATUS(peerwin_barrier(p->ctx, NULL), PEERWIN_ERR_ABORTED, "peer 1");
    CHECK_OK(peerwin_finalize(p->ctx));
}

static void who_does_not_finalize_is_lost(parts *p) {
    CHECK_OK(peerwin_barrier(p->ctx, NULL));
    CHECK_STATUS(peerwin_barrier(p->ctx, NULL), PEERWIN_ERR_PEER_LOST, "peer 2"); /* LEAVER */
    CHECK(team_seconds_since_death() < 1.0);
    CHECK_OK(peerwin_finalize(p->ctx));
}

/* -------------------------------------------------------------------------------------------------------- rows */

static const struct {
    const char *name;
    void (*stay)(parts *p);
    void (*leave)(parts *p);
} rows[] = {
    {"finalize_ends_well_though_one_has_gone_already", finalize_ends_well_though_one_has_gone_already,
     finalizes_and_leaves},
    {"other_contexts_do_not_mind", other_contexts_do_not_mind, finalizes_and_leaves},
    {"slow_ranks_finalize_though_one_has_gone", slow_ranks_finalize_though_one_has_gone, frees_finalizes_and_leaves},
    {"an_aborted_context_stays_aborted", an_aborted_context_stays_aborted, finalizes_after_an_abort_and_leaves},
    {"who_does_not_finalize_is_lost", who_does_not_finalize_is_lost, leaves_without_finalizing},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static void make_parts(parts *p, MPI_Comm comm) {
    p->ctx = test_context(comm, TIMEOUT_MS);
    p->win = test_window(p->ctx, 4096);
    leaver_pid = (int)getpid();
    MPI_Bcast(&leaver_pid, 1, MPI_INT, LEAVER, comm);
}

static void stay(int row) {
    holdings before = holdings_take();
    parts p = {0};
    p.own = test_context(team_comm, TIMEOUT_MS);
    p.own_win = test_window(p.own, 4096);
    make_parts(&p, everyone);
    rows[row].stay(&p);
    check_own(&p);
    test_free(p.own, p.own_win);
    holdings_check(&before, rows[row].name);
    if (job.rank == 0) {
        printf("ok %s\n", rows[row].name);
    }
}

/* leave VERDICT */
int main(int argc, char **argv) {
    test_begin(argc, argv);
    CHECK(argc == 2);
    CHECK_EQUAL(job.size, TEAM + ROWS);
    team_begin(TEAM);
    MPI_Comm comms[ROWS];
    for (int row = 0; row < ROWS; row++) {
        int in = job.rank < TEAM || job.rank == TEAM + row;
        int key = job.rank < TEAM ? 2 * job.rank : 2 * LEAVER - 1;
        MPI_Comm_split(MPI_COMM_WORLD, in ? 0 : MPI_UNDEFINED, key, &comms[row]);
    }
    for (int row = 0; row < ROWS; row++) {
        everyone = comms[row];
        if (everyone != MPI_COMM_NULL) {
            team_meet(everyone);
        }
        if (job.rank == TEAM + row) {
            parts p = {0};
            make_parts(&p, everyone);
            rows[row].leave(&p);
        } else if (job.rank < TEAM) {
            stay(row);
        }
    }
    team_end(argv[1]);
}
