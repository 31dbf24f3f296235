/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that die. A job has a few survivors and many victims; for each row of a table one victim and some survivors
 * make a context, and the victim is killed at the place that the row names. The survivors must learn of it within a
 * second, from then on get the same cause from every call, and be able to free and finalize, with nothing left over.
 *
 * The launcher's exit status says nothing about such a job: the survivors write a verdict, which survivors.sh reads.
 */
#include <stdlib.h>

#include "holdings.h"
#include "inject.h"
#include "peerwin/device.cuh"
#include "support/memory.h"
#include "team.h"

enum { TIMEOUT_MS = 20000, SHORT_MS = 1000, LATE_MS = 200 };

typedef enum {
    IN_INIT,
    IN_LATE_INIT, /* the others make that call later */
    IN_ALLOC,
    IN_FREE,
    IN_FINALIZE,
    IN_BARRIER,
    IN_ALLREDUCE,
    IN_WAIT,
    IN_HALO,
    IN_DEVICE_WAIT,
    IN_DEVICE_BARRIER,
    NOWHERE
} place;

/** One death: with how many ranks in all, which of them the victim is, where. */
typedef struct {
    const char *name;
    int ranks;
    int victim;
    place where;
    uint64_t calls; /* 0: before the call */
    int nth;
} death;

#define AT(call) INJECT_BIT(INJECT_##call)

static const death deaths[] = {
    {"init, after the ranks met, before they connect", 2, 1, IN_INIT, AT(PIDFD_OPEN), 1},
    {"init, before the others watch it", 3, 1, IN_LATE_INIT, AT(PIDFD_OPEN), 1},
    {"init, connecting", 3, 2, IN_INIT, AT(CONNECT), 2},
    {"init, accepting", 3, 0, IN_INIT, AT(ACCEPT4), 2},
    {"init, exchange of pads", 4, 1, IN_INIT, AT(FCNTL), 2},
    {"init, proof of pads", 8, 5, IN_INIT, AT(MPI_IALLREDUCE), 17},
    {"announce, before it comes", 2, 0, IN_ALLOC, 0, 0},
    {"announce, between its steps", 3, 1, IN_ALLOC, AT(MPI_IALLGATHER), 1},
    {"exchange, before sending", 2, 1, IN_ALLOC, AT(SENDMSG), 1},
    {"exchange, between the steps", 4, 2, IN_ALLOC, AT(SENDMSG), 3},
    {"exchange, before receiving", 8, 0, IN_ALLOC, AT(RECVMSG), 1},
    {"map", 3, 2, IN_ALLOC, AT(MMAP), 2},
    {"verify", 4, 3, IN_ALLOC, AT(MPI_IALLREDUCE), 4},
    {"barrier", 2, 0, IN_BARRIER, 0, 0},
    {"barrier", 8, 7, IN_BARRIER, 0, 0},
    {"allreduce", 2, 1, IN_ALLREDUCE, 0, 0},
    {"allreduce", 8, 3, IN_ALLREDUCE, 0, 0},
    {"what is awaited", 2, 1, IN_WAIT, 0, 0},
    {"what is awaited", 4, 0, IN_WAIT, 0, 0},
    {"what code in a kernel's place awaits", 3, 1, IN_DEVICE_WAIT, 0, 0},
    {"barrier of code in a kernel's place", 4, 2, IN_DEVICE_BARRIER, 0, 0},
    {"free, before it comes", 2, 1, IN_FREE, 0, 0},
    {"free, unmapping", 4, 0, IN_FREE, AT(MUNMAP), 1},
    {"finalize, before it comes", 3, 0, IN_FINALIZE, 0, 0},
    {"finalize, unmapping", 2, 1, IN_FINALIZE, AT(MUNMAP), 1},
    {"finalize, second step", 8, 7, IN_FINALIZE, AT(MPI_IALLREDUCE), 2},
    {"halo exchange", 2, 0, IN_HALO, 0, 0},
    {"halo exchange", 5, 2, IN_HALO, 0, 0},
    /* The last one: Open MPI makes no further communicator while the duplication of this one has not ended. */
    {"init, before it comes", 3, 1, IN_INIT, 0, 0},
};
enum { DEATHS = sizeof(deaths) / sizeof(deaths[0]) };

/* Members of a row: the first survivors, with the victim at its place among them. */
static MPI_Comm make_comm(const death *d, int victim) {
    MPI_Comm comm;
    int in = job.rank == victim || job.rank < d->ranks - 1;
    int key = job.rank == victim ? 2 * d->victim - 1 : 2 * job.rank;
    MPI_Comm_split(MPI_COMM_WORLD, in ? 0 : MPI_UNDEFINED, key, &comm);
    return comm;
}

/* -------------------------------------------------------------------------------------------------- one death */

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    peerwin_halo *halo; /* a ring */
} pair;

static int is_init(const death *d) {
    return d->where == IN_INIT || d->where == IN_LATE_INIT;
}

/* Nobody knows yet who the victim is: its absence is noticed at the deadline only. */
static int is_unknown(const death *d) {
    return is_init(d) && d->calls == 0;
}

static peerwin_status do_init(MPI_Comm comm, int timeout_ms, peerwin_ctx **ctx_out) {
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = job.space;
    config.timeout_ms = timeout_ms;
    return peerwin_init(comm, &config, ctx_out);
}

/* These calls make no text: that is the next call's. */
static peerwin_status do_as_kernel(const death *d, const pair *p) {
    peerwin_view view;
    CHECK_OK(peerwin_win_view(p->win, &view));
    peerwin_status status =
        d->where == IN_DEVICE_WAIT ? peerwin_dev_wait(&view, 0, 1) : peerwin_dev_barrier_block(&view);
    CHECK_EQUAL(status, PEERWIN_ERR_PEER_LOST);
    return peerwin_check(p->ctx);
}

static void make_ring(pair *p) {
    const int size = peerwin_size(p->ctx);
    const int right = (peerwin_rank(p->ctx) + 1) % size;
    const int left = (peerwin_rank(p->ctx) + size - 1) % size;
    const peerwin_face send = {right, 1, p->win, {.offset = 0, .count = {1500, 1, 1}}};
    const peerwin_face recv = {left, 1, p->win, {.offset = 2000, .count = {1500, 1, 1}}};
    CHECK_OK(peerwin_halo_create(p->ctx, 1, &send, 1, &recv, 0, &p->halo));
}

/* Ranks that are not neighbours of the victim get on for a few steps. */
static peerwin_status exchange_until_lost(const pair *p) {
    peerwin_status status = PEERWIN_OK;
    while (status == PEERWIN_OK) {
        status = peerwin_halo_start(p->halo, NULL);
        if (status == PEERWIN_OK) {
            status = peerwin_halo_finish(p->halo, NULL);
        }
    }
    return status;
}

static peerwin_status do_place(const death *d, MPI_Comm comm, pair *p) {
    double value = 1;
    peerwin_status status;
    switch (d->where) {
    case IN_INIT:
    case IN_LATE_INIT:
        return do_init(comm, is_unknown(d) ? SHORT_MS : TIMEOUT_MS, &p->ctx);
    case IN_ALLOC:
        return peerwin_win_alloc(p->ctx, 100000, NULL, &p->win);
    case IN_FREE:
        return peerwin_win_free(p->win);
    case IN_FINALIZE:
        status = peerwin_finalize(p->ctx);
        p->win = status == PEERWIN_OK ? NULL : p->win;
        p->ctx = status == PEERWIN_OK ? NULL : p->ctx;
        return status;
    case IN_BARRIER:
        return peerwin_barrier(p->ctx, NULL);
    case IN_ALLREDUCE:
        return peerwin_allreduce(p->ctx, &value, 1, PEERWIN_DOUBLE, PEERWIN_SUM, NULL);
    case IN_HALO:
        return exchange_until_lost(p);
    case IN_DEVICE_WAIT:
    case IN_DEVICE_BARRIER:
        return do_as_kernel(d, p);
    default:
        return peerwin_wait(p->win, 0, 1, NULL);
    }
}

/* What both do before the place: everything that comes earlier in a life. */
static void prepare(const death *d, MPI_Comm comm, pair *p) {
    if (!is_init(d)) {
        CHECK_OK(do_init(comm, TIMEOUT_MS, &p->ctx));
    }
    if (!is_init(d) && d->where != IN_ALLOC) {
        CHECK_OK(peerwin_win_alloc(p->ctx, 4096, NULL, &p->win));
        CHECK_OK(peerwin_barrier(p->ctx, NULL));
    }
    if (d->where == IN_HALO) {
        make_ring(p);
    }
}

static _Noreturn void be_victim(const death *d, MPI_Comm comm) {
    pair p = {0};
    inject_plan plan = {.calls = d->calls, .nth = d->nth, .action = INJECT_KILL};
    prepare(d, comm, &p);
    test_sleep_ms(100); /* so that the others wait */
    if (d->calls == 0) {
        inject_die();
    }
    inject_arm(&plan);
    (void)do_place(d, comm, &p);
    test_fail(__FILE__, __LINE__, "%s: the victim lives on after %d calls", d->name, inject_counted());
}

/* Every call of a broken context returns the cause, at once. */
static void check_all_lost(const death *d, pair *p) {
    char peer[32];
    double value = 1;
    double start = test_seconds();
    peerwin_win *late = NULL;
    snprintf(peer, sizeof(peer), "peer %d", d->victim);
    CHECK_STATUS(peerwin_check(p->ctx), PEERWIN_ERR_PEER_LOST, peer);
    CHECK_STATUS(peerwin_barrier(p->ctx, NULL), PEERWIN_ERR_PEER_LOST, peer);
    CHECK_STATUS(peerwin_allreduce(p->ctx, &value, 1, PEERWIN_DOUBLE, PEERWIN_SUM, NULL), PEERWIN_ERR_PEER_LOST, peer);
    CHECK_STATUS(peerwin_quiet(p->ctx, NULL), PEERWIN_ERR_PEER_LOST, peer);
    CHECK_STATUS(peerwin_stream_sync(p->ctx, NULL), PEERWIN_ERR_PEER_LOST, peer);
    CHECK_STATUS(peerwin_win_alloc(p->ctx, 64, NULL, &late), PEERWIN_ERR_PEER_LOST, peer);
    if (p->win != NULL) {
        CHECK_STATUS(peerwin_put(p->win, 0, 0, &value, 8, NULL), PEERWIN_ERR_PEER_LOST, peer);
        CHECK_STATUS(peerwin_get(p->win, 0, 0, &value, 8, NULL), PEERWIN_ERR_PEER_LOST, peer);
        CHECK_STATUS(peerwin_signal(p->win, 0, 0, PEERWIN_SIGNAL_ADD, 1, NULL), PEERWIN_ERR_PEER_LOST, peer);
        CHECK_STATUS(peerwin_wait(p->win, 0, 1, NULL), PEERWIN_ERR_PEER_LOST, peer);
        CHECK_STATUS(peerwin_consume(p->win, 0, 1, NULL), PEERWIN_ERR_PEER_LOST, peer);
    }
    if (p->halo != NULL) {
        CHECK_STATUS(peerwin_halo_start(p->halo, NULL), PEERWIN_ERR_PEER_LOST, peer);
        CHECK_STATUS(peerwin_halo_finish(p->halo, NULL), PEERWIN_ERR_PEER_LOST, peer);
        CHECK_STATUS(peerwin_halo_release(p->halo, NULL), PEERWIN_ERR_PEER_LOST, peer);
    }
    CHECK(test_seconds() - start < 0.5);
}

static void survive(const death *d, MPI_Comm comm) {
    pair p = {0};
    char peer[32];
    snprintf(peer, sizeof(peer), "peer %d", d->victim);
    holdings before = holdings_take();
    const int is_late = d->where == IN_LATE_INIT;
    inject_plan wait = {.calls = d->calls, .nth = is_late, .action = INJECT_DELAY, .value = LATE_MS};
    prepare(d, comm, &p);
    inject_arm(&wait);
    peerwin_status status = do_place(d, comm, &p);
    double late = team_seconds_since_death();
    CHECK_EQUAL(inject_disarm(), is_late);
    if (is_unknown(d)) {
        CHECK_STATUS(status, PEERWIN_ERR_TIMEOUT, "peerwin_init");
    } else {
        CHECK_STATUS(status, PEERWIN_ERR_PEER_LOST, peer);
    }
    if (late > (is_unknown(d) ? 1e-3 * SHORT_MS + 0.5 : 1.0)) {
        test_fail(__FILE__, __LINE__, "%s: it took %.3f s", d->name, late);
    }
    if (p.ctx != NULL) {
        CHECK(!is_init(d));
        check_all_lost(d, &p);
        if (d->ranks % 2 == 0) { /* else finalize frees it */
            CHECK_OK(peerwin_win_free(p.win));
            CHECK_OK(peerwin_halo_free(p.halo));
        }
        CHECK_OK(peerwin_finalize(p.ctx));
    }
    holdings_check(&before, d->name);
    late = team_max(late);
    if (job.rank == 0) {
        printf("ok %s (%d ranks, rank %d dies, known after %.3f s)\n", d->name, d->ranks, d->victim, late);
    }
}

/* ------------------------------------------------------------------------------------------------------ the job */

static int number(const char *text) {
    return text == NULL ? 0 : atoi(text);
}

/* The rows in which a rank has no part pass by: only the team keeps step. */
static void run_row(const death *d, MPI_Comm comm, int victim) {
    if (comm != MPI_COMM_NULL) {
        team_meet(comm);
    }
    if (job.rank == victim) {
        be_victim(d, comm);
    }
    if (job.rank >= team_size) {
        return;
    }
    if (comm != MPI_COMM_NULL) {
        survive(d, comm);
    } else {
        (void)team_max(0);
    }
    team_meet(team_comm);
}

/* kill VERDICT SURVIVORS FIRST LAST: rows first to last, each with a victim of its own. */
int main(int argc, char **argv) {
    test_begin(argc, argv);
    CHECK(argc == 5);
    int first = number(argv[3]);
    int last = number(argv[4]) < DEATHS ? number(argv[4]) : DEATHS - 1;
    MPI_Comm comms[DEATHS];
    team_begin(number(argv[2]));
    CHECK_EQUAL(job.size, team_size + last - first + 1);
    for (int i = first; i <= last; i++) {
        comms[i] = make_comm(&deaths[i], team_size + i - first);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = first; i <= last; i++) {
        run_row(&deaths[i], comms[i], team_size + i - first);
    }
    team_end(argv[1]);
}
