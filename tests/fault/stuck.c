/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Programs that sit in the driver's own synchronisation, in CUDA space, behind a wait or barrier whose peer dies or
 * aborts, be it the stream's or a kernel's own: the watchdog frees them within a second, and from then on all calls
 * return the cause. Without a watchdog peerwin_stream_sync does so.
 *
 * Nothing ends a wait for an interprocess event whose rank died before it got there: its stream stays stuck. And on a
 * GPU under MPS, which PWTEST_MPS says, a process that is killed may take the others' contexts along, or leave
 * them in a driver that does not answer. That is looked for and named: the library has to say what happened, by
 * peerwin_check where a thread is stuck in the driver, and that ends the test. Before it begins the test waits for the
 * MPS server, which may have to come back from the last death.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/rig.h"
#include "holdings.h"
#include "inject.h"
#include "support/calls.h"
#include "team.h"

enum { TIMEOUT_MS = 20000, TEAM = 2, THREADS_END_MS = 50, GRAPHS = 1500, STUCK_S = 8, ORPHAN_S = 2, SERVER_S = 5 };

/* EVENTS: behind a barrier of kind EVENT that all hosts came to, while the stream of the one who dies never did. No
 * driver frees from that, so the library has to know and to say why */
typedef enum {
    BEHIND_WAIT,
    BEHIND_CONSUME,
    BEHIND_BARRIER,
    BEHIND_EVENTS,
    BEHIND_GRAPHS,
    BEHIND_HALO,
    BEHIND_HALO_GRAPHS,
    IN_KERNELS_WAIT,
    IN_KERNELS_BARRIER
} place;

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
    {"a barrier of events, death", BEHIND_EVENTS, 0, 1, 1, 0},
    {"an exchange of ghosts, death", BEHIND_HALO, 0, 1, 1, 0},
    {"an exchange of ghosts in graphs, death", BEHIND_HALO_GRAPHS, 0, 1, 1, 0},
    {"an exchange of ghosts, abort", BEHIND_HALO, 1, 1, 0, 0},
};
enum { FATES = sizeof(fates) / sizeof(fates[0]) };

static int first_fate, last_fate; /* of this job */

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    peerwin_stream stream;
    CUgraphExec barrier; /* or an exchange */
    peerwin_halo *halo;
    uint64_t *status; /* a kernel's, on the device */
} life;

static int is_halo(const fate *f) {
    return f->where == BEHIND_HALO || f->where == BEHIND_HALO_GRAPHS;
}

/* Thin faces to the right, as many bytes to the left. */
static void make_plan(life *l) {
    const int size = peerwin_size(l->ctx);
    const int right = (peerwin_rank(l->ctx) + 1) % size;
    const int left = (peerwin_rank(l->ctx) + size - 1) % size;
    const peerwin_box thin = {.offset = 0, .count = {8, 40, 1}, .stride = {24}};
    const peerwin_box flat = {.offset = 2000, .count = {320, 1, 1}};
    peerwin_face send[] = {{right, 1, l->win, thin}, {left, 2, l->win, flat}};
    peerwin_face recv[] = {{left, 1, l->win, thin}, {right, 2, l->win, flat}};
    recv[0].box.offset = 8;
    recv[1].box.offset = 3000;
    CHECK_OK(peerwin_halo_create(l->ctx, 2, send, 2, recv, 0, &l->halo));
}

static life begin(const fate *f, MPI_Comm comm) {
    life l = {0};
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = PEERWIN_SPACE_CUDA;
    config.timeout_ms = TIMEOUT_MS;
    config.flags = f->watchdog ? 0 : PEERWIN_NO_WATCHDOG;
    config.barrier = f->where == BEHIND_EVENTS ? PEERWIN_BARRIER_EVENT : PEERWIN_BARRIER_AUTO;
    l.stream = f->own ? device_stream_new() : NULL;
    CHECK_OK(peerwin_init(comm, &config, &l.ctx));
    CHECK_OK(peerwin_win_alloc(l.ctx, 4096, NULL, &l.win));
    CHECK_OK(peerwin_barrier(l.ctx, l.stream));
    CHECK_OK(peerwin_stream_sync(l.ctx, l.stream));
    l.status = device_new(sizeof(*l.status));
    if (is_halo(f)) {
        make_plan(&l);
    }
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

static void exchange(const life *l) {
    CHECK_OK(peerwin_halo_start(l->halo, l->stream));
    CHECK_OK(peerwin_halo_finish(l->halo, l->stream));
}

static void capture_barrier(life *l) {
    CUgraph graph;
    DEVICE_OK(device.cuStreamBeginCapture((CUstream)l->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    if (l->halo != NULL) {
        exchange(l);
    } else {
        CHECK_OK(peerwin_barrier(l->ctx, l->stream));
    }
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
    case BEHIND_HALO_GRAPHS:
        capture_barrier(l);
        DEVICE_OK(device.cuGraphLaunch(l->barrier, (CUstream)l->stream));
        DEVICE_OK(device.cuGraphLaunch(l->barrier, (CUstream)l->stream));
        return;
    case BEHIND_HALO:
        exchange(l);
        exchange(l);
        break;
    case BEHIND_EVENTS:
        CHECK_OK(peerwin_barrier(l->ctx, l->stream));
        break;
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
    CHECK_OK(peerwin_halo_free(l->halo));
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
    if (f->where == BEHIND_EVENTS) {
        CHECK_OK(peerwin_wait(l.win, 0, 1, l.stream));
        CHECK_OK(peerwin_barrier(l.ctx, l.stream));
    }
    test_sleep_ms(100); /* so that the others are in the driver */
    inject_stamp();
    if (!f->aborts) {
        inject_die();
    }
    CHECK_OK(peerwin_abort(l.ctx));
    end(&l);
}

/* ---- deaths that nothing frees from ---- */

/* No driver ends a wait for an event whose rank died before it got there, and nobody else can record it then. */
static int is_orphan(const fate *f) {
    return f->where == BEHIND_EVENTS;
}

static int may_be_lost(const fate *f) {
    return (getenv("PWTEST_MPS") != NULL || is_orphan(f)) && !f->aborts;
}

typedef struct {
    const fate *f;
    const life *l;
    const char *verdict;
    pthread_t thread;
    _Atomic int over;
} referee;

/* Ends the test for a rank whose driver does not answer any more: the library has to know why. */
static void *judge(void *argument) {
    referee *r = argument;
    const int seconds = is_orphan(r->f) ? ORPHAN_S : STUCK_S;
    for (double until = test_seconds() + seconds; test_seconds() < until; test_sleep_ms(10)) {
        if (atomic_load(&r->over)) {
            return NULL;
        }
    }
    const peerwin_status status = peerwin_check(r->l->ctx);
    CHECK(status == PEERWIN_ERR_PEER_LOST || status == PEERWIN_ERR_CONTEXT_LOST);
    printf("stuck behind %s: rank %d is not through %d s after the death, which is named: %s\n", r->f->name, job.rank,
           seconds, peerwin_last_error());
    team_end(r->verdict);
}

static void begin_watch(referee *r) {
    if (may_be_lost(r->f)) {
        CHECK(pthread_create(&r->thread, NULL, judge, r) == 0);
    }
}

static void end_watch(referee *r) {
    atomic_store(&r->over, 1);
    if (may_be_lost(r->f)) {
        CHECK(pthread_join(r->thread, NULL) == 0);
    }
}

/* The driver's own wait. Returns its code if the context is lost, where that may be. */
static CUresult sit_in_driver(const fate *f, const life *l) {
    CUresult code = device.cuStreamSynchronize((CUstream)l->stream);
    if (!may_be_lost(f)) {
        DEVICE_OK(code);
    }
    return code;
}

/* Both ranks of the team hear of it; then there is nothing that could go on. */
static void end_if_lost(const fate *f, const life *l, CUresult code, const char *verdict) {
    peerwin_status status = PEERWIN_OK;
    if (may_be_lost(f)) {
        status = peerwin_stream_sync(l->ctx, l->stream);
    }
    int lost = code != CUDA_SUCCESS || status == PEERWIN_ERR_CONTEXT_LOST;
    if (lost) {
        CHECK(status == PEERWIN_ERR_CONTEXT_LOST || status == PEERWIN_ERR_PEER_LOST);
        CHECK(strlen(peerwin_last_error()) >= 20);
        printf("stuck behind %s: MPS took the context of rank %d along (error %d), which is named: %s\n", f->name,
               job.rank, (int)code, peerwin_last_error());
    }
    lost = (int)team_max(lost);
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
        code = sit_in_driver(f, l);
    } else {
        peerwin_status status = peerwin_stream_sync(l->ctx, l->stream);
        CHECK(status == PEERWIN_ERR_ABORTED || status == PEERWIN_ERR_PEER_LOST || may_be_lost(f));
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
    referee r = {.f = f, .l = &l, .verdict = verdict};
    begin_watch(&r);
    get_stuck(f, &l);
    get_free(f, &l, verdict);
    double late = team_seconds_since_death();
    CHECK(device_stream_is_idle(l.stream));
    CHECK_STATUS(peerwin_stream_sync(l.ctx, l.stream), cause, peer);
    CHECK_STATUS(peerwin_check(l.ctx), cause, peer);
    CHECK(l.win == NULL || peerwin_wait(l.win, 0, 0, l.stream) == cause);
    CHECK(!is_in_kernel(f) || status_of_kernel(&l) == cause);
    if (late > (f->where == BEHIND_GRAPHS ? 5.0 : 1.0) && !may_be_lost(f)) {
        test_fail(__FILE__, __LINE__, "%s: freed after %.3f s", f->name, late);
    }
    end_watch(&r);
    end(&l);
    if (rig.simulated) {
        test_sleep_ms(THREADS_END_MS); /* of the streams; a real driver keeps what it likes */
        holdings_check(&before, f->name);
    }
    late = team_max(late);
    if (job.rank == 0) {
        printf("stuck behind %s: freed after %.3f s\n", f->name, late);
    }
}

/* ---- the job ---- */

static int deaths_before(int end) {
    int deaths = 0;
    for (int i = first_fate; i < end; i++) {
        deaths += !fates[i].aborts;
    }
    return deaths;
}

/* Each death has a victim; one rank after them all is the one that aborts. */
static int odd_one(int i) {
    return TEAM + deaths_before(fates[i].aborts ? last_fate + 1 : i);
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

/* In a process of its own, which ends before this one has any context. */
static int server_answers(void) {
    const pid_t child = fork();
    int status = 1;
    if (child == 0) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        void *init = library != NULL ? dlsym(library, "cuInit") : NULL;
        void *retain = library != NULL ? dlsym(library, "cuDevicePrimaryCtxRetain") : NULL;
        CUresult (*call_init)(unsigned) = NULL;
        CUresult (*call_retain)(CUcontext *, CUdevice) = NULL;
        CUcontext context = NULL;
        memcpy(&call_init, &init, sizeof(init));
        memcpy(&call_retain, &retain, sizeof(retain));
        alarm(SERVER_S);
        _exit(call_init == NULL || call_retain == NULL || call_init(0) != CUDA_SUCCESS ||
              call_retain(&context, 0) != CUDA_SUCCESS);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* Whoever comes here first leaves it in the verdict; the launcher's script makes that a skipped test. */
static void await_server(const char *verdict) {
    for (int tries = 0; getenv("PWTEST_MPS") != NULL && !server_answers(); tries++) {
        if (tries == 3) {
            FILE *file = fopen(verdict, "w");
            if (file != NULL && fprintf(file, "SKIPPED\n") > 0 && fclose(file) == 0) {
                printf("stuck: not run, the MPS server gives no context any more\n");
            }
            fflush(NULL);
            _exit(0);
        }
        test_sleep_ms(1000);
    }
}

/* stuck VERDICT FIRST LAST: some of the fates, on two ranks that stay, a victim for each death, and one that aborts. */
int main(int argc, char **argv) {
    MPI_Comm comms[FATES];
    if (argc < 4) {
        return 2;
    }
    await_server(argv[1]);
    test_begin(argc, argv);
    first_fate = atoi(argv[2]);
    last_fate = atoi(argv[3]);
    CHECK(0 <= first_fate && first_fate <= last_fate && last_fate < FATES);
    rig_begin();
    team_begin(TEAM);
    const int deaths = deaths_before(last_fate + 1);
    CHECK_EQUAL(job.size, TEAM + deaths + (deaths < last_fate - first_fate + 1));
    for (int i = first_fate; i <= last_fate; i++) {
        comms[i] = make_comm(i);
    }
    warm_up();
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = first_fate; i <= last_fate; i++) {
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
