/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Programs that sit in the driver's own synchronisation, in CUDA space, behind a wait or barrier whose peer dies or
 * aborts, be it the stream's or a kernel's own: the watchdog frees them within a second, and from then on all calls
 * return the cause. Without a watchdog peerwin_stream_sync does so.
 *
 * On a GPU under MPS, which PWTEST_MPS says, a process that is killed may take the others' contexts along. That is
 * looked for and named; a context that is lost has to be reported as that, and ends the test.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/rig.h"
#include "holdings.h"
#include "inject.h"
#include "support/calls.h"
#include "team.h"

enum { TIMEOUT_MS = 20000, TEAM = 2, THREADS_END_MS = 50, GRAPHS = 1500 };

typedef enum { BEHIND_WAIT, BEHIND_CONSUME, BEHIND_BARRIER, BEHIND_GRAPHS, IN_KERNELS_WAIT, IN_KERNELS_BARRIER } place;

typedef struct {
    const char *name;
    place where;
    int aborts;   /* the last rank, instead of dying */
    int watchdog; /* else the wait is the library's */
    int own;      /* a stream of the test's own, else the legacy one */
    int hasty;    /* frees the window as soon as the context is broken, with work still in the stream */
} fate;

static const fate fates[] = {
    {"a wait, death", BEHIND_WAIT, 0, 1, 1, 0},
    {"a barrier, death", BEHIND_BARRIER, 0, 1, 0, 0},
    {"the library's wait, death", BEHIND_WAIT, 0, 0, 1, 0},
    {"a window freed at once, death", BEHIND_WAIT, 0, 1, 1, 1},
    {"graphs, each of which waits twice, death", BEHIND_GRAPHS, 0, 1, 1, 0},
    {"a kernel's wait, death", IN_KERNELS_WAIT, 0, 1, 1, 0},
    {"a kernel's barrier, death", IN_KERNELS_BARRIER, 0, 1, 0, 0},
    {"a consume, abort", BEHIND_CONSUME, 1, 1, 0, 0},
    {"a barrier, abort", BEHIND_BARRIER, 1, 1, 1, 0},
    {"the library's wait, abort", BEHIND_BARRIER, 1, 0, 0, 0},
    {"a window freed at once, abort", BEHIND_BARRIER, 1, 1, 0, 1},
    {"a kernel's wait, abort", IN_KERNELS_WAIT, 1, 0, 1, 0},
};
enum { FATES = sizeof(fates) / sizeof(fates[0]), DEATHS = 7 };

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    peerwin_stream stream;
    CUgraphExec barrier;
    uint64_t *status; /* a kernel's, on the device */
} life;

static life begin(const fate *f, MPI_Comm comm) {
    life l = {0};
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = PEERWIN_SPACE_CUDA;
    config.timeout_ms = TIMEOUT_MS;
    config.flags = f->watchdog ? 0 : PEERWIN_NO_WATCHDOG;
    l.stream = f->own ? device_stream_new() : NULL;
    CHECK_OK(peerwin_init(comm, &config, &l.ctx));
    CHECK_OK(peerwin_win_alloc(l.ctx, 4096, NULL, &l.win));
    CHECK_OK(peerwin_barrier(l.ctx, l.stream));
    CHECK_OK(peerwin_stream_sync(l.ctx, l.stream));
    l.status = device_new(sizeof(*l.status));
    return l;
}

static int is_in_kernel(const fate *f) {
    return f->where == IN_KERNELS_WAIT || f->where == IN_KERNELS_BARRIER;
}

static void hold(const fate *f, const life *l) {
    rig_hold_args a = {.value = 1, .slot = 6, .barrier = f->where == IN_KERNELS_BARRIER, .status = l->status};
    CHECK_OK(peerwin_win_view(l->win, &a.view));
    rig_launch(RIG_KERNEL_hold, 1, &a, l->stream);
}

static peerwin_status status_of_kernel(const life *l) {
    uint64_t status = 0;
    device_copy(&status, l->status, sizeof(status));
    return (peerwin_status)status;
}

static void capture_barrier(life *l) {
    CUgraph graph;
    DEVICE_OK(device.cuStreamBeginCapture((CUstream)l->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK_OK(peerwin_barrier(l->ctx, l->stream));
    DEVICE_OK(device.cuStreamEndCapture((CUstream)l->stream, &graph));
    DEVICE_OK(device.cuGraphInstantiateWithFlags(&l->barrier, graph, 0));
    DEVICE_OK(device.cuGraphDestroy(graph));
}

/* More than a driver queues, perhaps: then the program is stuck in here. No call of the library comes after it. */
static void launch_barriers(const life *l) {
    int graphs = device_is_real() ? GRAPHS / 4 : GRAPHS;
    for (int i = 0; i < graphs; i++) {
        DEVICE_OK(device.cuGraphLaunch(l->barrier, (CUstream)l->stream));
    }
}

static void get_stuck(const fate *f, life *l) {
    switch (f->where) {
    case BEHIND_WAIT:
        CHECK_OK(peerwin_wait(l->win, 3, 1000, l->stream));
        CHECK_OK(peerwin_wait(l->win, 4, 1ull << 63, l->stream));
        break;
    case BEHIND_CONSUME:
        CHECK_OK(peerwin_consume(l->win, 5, 2, l->stream));
        CHECK_OK(peerwin_consume(l->win, 5, 2, l->stream));
        break;
    case BEHIND_GRAPHS:
        capture_barrier(l);
        launch_barriers(l);
        return;
    case BEHIND_BARRIER:
        CHECK_OK(peerwin_barrier(l->ctx, l->stream));
        CHECK_OK(peerwin_wait(l->win, 3, 1, l->stream));
        break;
    default:
        hold(f, l);
    }
    for (int i = 0; i < 100; i++) {
        CHECK_OK(peerwin_put(l->win, TEAM, 0, peerwin_win_ptr(l->win, job.rank), 4096, l->stream));
    }
}

static void end(life *l) {
    device_free(l->status);
    CHECK_OK(peerwin_win_free(l->win));
    CHECK_OK(peerwin_finalize(l->ctx));
    if (l->barrier != NULL) {
        DEVICE_OK(device.cuGraphExecDestroy(l->barrier));
    }
    if (l->stream != NULL) {
        device_stream_free(l->stream);
    }
}

/* The rank that the others wait for. */
static void be_waited_for(const fate *f, MPI_Comm comm) {
    life l = begin(f, comm);
    test_sleep_ms(100); /* so that the others are in the driver */
    inject_stamp();
    if (!f->aborts) {
        inject_die();
    }
    CHECK_OK(peerwin_abort(l.ctx));
    end(&l);
}

/* The driver's own wait. Returns its code if the context is lost, where that may be. */
static CUresult sit_in_driver(const life *l) {
    CUresult code = device.cuStreamSynchronize((CUstream)l->stream);
    if (getenv("PWTEST_MPS") == NULL) {
        DEVICE_OK(code);
    }
    return code;
}

/* Both ranks of the team hear of it; then there is nothing that could go on. */
static void end_if_lost(const fate *f, const life *l, CUresult code, const char *verdict) {
    int lost = code != CUDA_SUCCESS;
    if (lost) {
        peerwin_status status = peerwin_stream_sync(l->ctx, l->stream);
        CHECK(status == PEERWIN_ERR_CONTEXT_LOST || status == PEERWIN_ERR_PEER_LOST);
        CHECK(strlen(peerwin_last_error()) >= 20);
        printf("stuck behind %s: MPS took the context of rank %d along (error %d), which is named: %s\n", f->name,
               job.rank, (int)code, peerwin_last_error());
    }
    MPI_Allreduce(MPI_IN_PLACE, &lost, 1, MPI_INT, MPI_MAX, team_comm);
    if (lost) {
        team_end(verdict);
    }
}

static void get_free(const fate *f, life *l, const char *verdict) {
    CUresult code = CUDA_SUCCESS;
    if (f->hasty) {
        while (peerwin_check(l->ctx) == PEERWIN_OK) {
            test_sleep_ms(1);
        }
        CHECK_OK(peerwin_win_free(l->win));
        l->win = NULL;
    } else if (f->watchdog) {
        code = sit_in_driver(l);
    } else {
        peerwin_status status = peerwin_stream_sync(l->ctx, l->stream);
        CHECK(status == PEERWIN_ERR_ABORTED || status == PEERWIN_ERR_PEER_LOST || getenv("PWTEST_MPS") != NULL);
        code = status == PEERWIN_ERR_CONTEXT_LOST ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
    }
    if (!f->aborts) {
        end_if_lost(f, l, code, verdict);
    }
}

static void be_freed(const fate *f, MPI_Comm comm, const char *verdict) {
    char peer[32];
    peerwin_status cause = f->aborts ? PEERWIN_ERR_ABORTED : PEERWIN_ERR_PEER_LOST;
    snprintf(peer, sizeof(peer), "peer %d", TEAM);
    holdings before = holdings_take();
    life l = begin(f, comm);
    get_stuck(f, &l);
    get_free(f, &l, verdict);
    double late = team_seconds_since_death();
    CHECK(device_stream_is_idle(l.stream));
    CHECK_STATUS(peerwin_stream_sync(l.ctx, l.stream), cause, peer);
    CHECK_STATUS(peerwin_check(l.ctx), cause, peer);
    CHECK(l.win == NULL || peerwin_wait(l.win, 0, 0, l.stream) == cause);
    CHECK(!is_in_kernel(f) || status_of_kernel(&l) == cause);
    if (late > (f->where == BEHIND_GRAPHS ? 5.0 : 1.0)) {
        test_fail(__FILE__, __LINE__, "%s: freed after %.3f s", f->name, late);
    }
    end(&l);
    if (rig.simulated) {
        test_sleep_ms(THREADS_END_MS); /* of the streams; a real driver keeps what it likes */
        holdings_check(&before, f->name);
    }
    MPI_Allreduce(MPI_IN_PLACE, &late, 1, MPI_DOUBLE, MPI_MAX, team_comm);
    if (job.rank == 0) {
        printf("stuck behind %s: freed after %.3f s\n", f->name, late);
    }
}

/* The first deaths have a victim each; the last rank but them all is the one that aborts. */
static int odd_one(int i) {
    return TEAM + (i < DEATHS ? i : DEATHS);
}

static MPI_Comm make_comm(int i) {
    MPI_Comm comm;
    int in = job.rank < TEAM || job.rank == odd_one(i);
    MPI_Comm_split(MPI_COMM_WORLD, in ? 0 : MPI_UNDEFINED, job.rank, &comm);
    return comm;
}

/* A simulated driver has threads of its own, from the first use on. */
static void warm_up(void) {
    if (job.rank < TEAM) {
        life l = begin(&fates[0], team_comm);
        device_stream_sync(NULL);
        end(&l);
        test_sleep_ms(THREADS_END_MS);
    }
}

/* stuck VERDICT: two ranks that stay, a victim for each death, one rank that aborts. */
int main(int argc, char **argv) {
    MPI_Comm comms[FATES];
    test_begin(argc, argv);
    CHECK(argc >= 2);
    rig_begin();
    team_begin(TEAM);
    CHECK_EQUAL(job.size, TEAM + DEATHS + 1);
    for (int i = 0; i < FATES; i++) {
        comms[i] = make_comm(i);
    }
    warm_up();
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < FATES; i++) {
        if (comms[i] == MPI_COMM_NULL) {
            continue;
        }
        team_meet(comms[i]);
        if (job.rank >= TEAM) {
            be_waited_for(&fates[i], comms[i]);
        } else {
            be_freed(&fates[i], comms[i], argv[1]);
        }
    }
    if (job.rank >= TEAM) {
        fflush(NULL);
        _Exit(0);
    }
    team_meet(team_comm);
    team_end(argv[1]);
}
