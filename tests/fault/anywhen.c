/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that die at any moment: all ranks make windows, exchange, and free them in a loop, until a timer kills one of
 * them wherever it is. The others notice within a second, in whatever call they are, agree on the cause from then on,
 * and end with nothing left over. Many victims, one after the other; see team.h.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "holdings.h"
#include "inject.h"
#include "support/memory.h"
#include "team.h"

enum { TIMEOUT_MS = 20000, TEAM = 3 };

static void die(int number) {
    (void)number;
    inject_die();
}

/* Dies after 1 to 30 ms, also in the middle of a system call or of MPI. */
static void die_soon(uint64_t seed) {
    struct sigaction action = {.sa_handler = die};
    struct itimerval timer = {{0, 0}, {0, 1000 + (suseconds_t)test_random_in(&seed, 0, 29000)}};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

/* One round of the loop; the first status that is not OK. */
static peerwin_status live(peerwin_ctx *ctx, int round) {
    peerwin_win *win = NULL;
    double value[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int right = (peerwin_rank(ctx) + 1) % peerwin_size(ctx);
    peerwin_status status = peerwin_win_alloc(ctx, (size_t)(round % 7) * 10000 + 64, NULL, &win);
    for (int i = 0; i < 5 && status == PEERWIN_OK; i++) {
        status = peerwin_put_signal(win, right, 0, value, sizeof(value), 0, PEERWIN_SIGNAL_ADD, 1, NULL);
        if (status == PEERWIN_OK) {
            status = peerwin_consume(win, 0, 1, NULL);
        }
        if (status == PEERWIN_OK) {
            status = peerwin_barrier(ctx, NULL);
        }
        if (status == PEERWIN_OK) {
            status = peerwin_allreduce(ctx, value, 8, PEERWIN_DOUBLE, PEERWIN_MAX, NULL);
        }
    }
    return status == PEERWIN_OK ? peerwin_win_free(win) : status;
}

static _Noreturn void be_victim(MPI_Comm comm, int row) {
    peerwin_ctx *ctx = test_context(comm, TIMEOUT_MS);
    CHECK_OK(peerwin_barrier(ctx, NULL));
    die_soon((uint64_t)row * 7919 + (uint64_t)getpid());
    for (int round = 0;; round++) {
        CHECK_OK(live(ctx, round));
    }
}

static void survive(MPI_Comm comm, int row) {
    holdings before = holdings_take();
    peerwin_ctx *ctx = test_context(comm, TIMEOUT_MS);
    char peer[32];
    int round = 0;
    snprintf(peer, sizeof(peer), "peer %d", row % (TEAM + 1));
    CHECK_OK(peerwin_barrier(ctx, NULL));
    peerwin_status status = live(ctx, round);
    while (status == PEERWIN_OK) {
        status = live(ctx, ++round);
    }
    double late = team_seconds_since_death();
    CHECK_STATUS(status, PEERWIN_ERR_PEER_LOST, peer);
    CHECK(late < 1.0);
    CHECK_STATUS(peerwin_check(ctx), PEERWIN_ERR_PEER_LOST, peer);
    CHECK_STATUS(live(ctx, 0), PEERWIN_ERR_PEER_LOST, peer);
    CHECK_OK(peerwin_finalize(ctx));
    holdings_check(&before, "a death");
    late = team_max(late);
    if (job.rank == 0) {
        printf("ok death %d in round %d, rank %d of %d, known after %.3f s\n", row, round, row % (TEAM + 1), TEAM + 1,
               late);
    }
}

/* anywhen VERDICT: as many deaths as there are ranks beside the team. */
int main(int argc, char **argv) {
    test_begin(argc, argv);
    CHECK(argc == 2);
    int rows = job.size - TEAM;
    MPI_Comm *comms = host_new((size_t)rows * sizeof(MPI_Comm));
    test_env("PEERWIN_LOG", "error");
    team_begin(TEAM);
    for (int row = 0; row < rows; row++) {
        int in = job.rank < TEAM || job.rank == TEAM + row;
        int key = job.rank < TEAM ? 2 * job.rank : 2 * (row % (TEAM + 1)) - 1;
        MPI_Comm_split(MPI_COMM_WORLD, in ? 0 : MPI_UNDEFINED, key, &comms[row]);
    }
    for (int row = 0; row < rows; row++) {
        if (comms[row] == MPI_COMM_NULL) {
            continue;
        }
        team_meet(comms[row]);
        if (job.rank >= TEAM) {
            be_victim(comms[row], row);
        }
        survive(comms[row], row);
    }
    team_end(argv[1]);
}
