/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts in CUDA space without MPI; see sides.h.
 */
#include "sides.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const pw_site site = {.call = "sides", .rank = PW_NONE, .peer = PW_NONE};
static CUcontext primary;

struct sides_calls cu;
struct sides_simulator sim;

/* ---- the driver ---- */

static void fetch(void *handle, const char *name, int version, void *pointer) {
    PFN_cuGetProcAddress_v12000 get = NULL;
    void *entry = dlsym(handle, "cuGetProcAddress_v2");
    CUdriverProcAddressQueryResult found;
    memcpy(&get, &entry, sizeof entry);
    entry = NULL;
    CHECK(get && get(name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) == CUDA_SUCCESS && entry);
    memcpy(pointer, &entry, sizeof entry);
}

int sides_load(const char *driver) {
    void *handle = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(handle);
#define FETCH(name, version_) fetch(handle, #name, version_, &cu.name);
    SIDES_CALLS(FETCH)
#undef FETCH
    void *entry = NULL;
#define FETCH(name)                                                                                                    \
    entry = dlsym(handle, #name);                                                                                      \
    memcpy(&sim.name, &entry, sizeof entry);
    SIDES_SIMULATOR(FETCH)
#undef FETCH
    return sim.simcuda_live != NULL;
}

void sim_reset(void) {
    if (sim.simcuda_reset)
        sim.simcuda_reset();
}

int sim_counted(const char *name, unsigned long count) {
    return !sim.simcuda_calls || sim.simcuda_calls(name) == count;
}

static void check_nothing_is_left(void) {
    for (int kind = 0; sim.simcuda_live && kind < SIMCUDA_KINDS; kind++) {
        size_t left = sim.simcuda_live((enum simcuda_kind)kind);
        if (left != 0) {
            sim.simcuda_dump();
            fprintf(stderr, "%s: %zu are left\n", sim.simcuda_kind_name((enum simcuda_kind)kind), left);
            exit(1);
        }
    }
}

/* ---- memory, by a stream of the test's own: the legacy one would wait for others ---- */

static CUstream own_stream;
static void *staging;

static void move(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    CU(cu.cuMemcpyAsync(to, from, bytes, own_stream));
    CU(cu.cuStreamSynchronize(own_stream));
}

void peek(CUdeviceptr from, void *host, size_t bytes) {
    CHECK(bytes <= SEGMENT);
    move((CUdeviceptr)(uintptr_t)staging, from, bytes);
    memcpy(host, staging, bytes);
}

void poke(CUdeviceptr to, const void *host, size_t bytes) {
    CHECK(bytes <= SEGMENT);
    memcpy(staging, host, bytes);
    move(to, (CUdeviceptr)(uintptr_t)staging, bytes);
}

uint64_t peek_word(CUdeviceptr from) {
    uint64_t value = 0;
    peek(from, &value, sizeof value);
    return value;
}

void poke_word(CUdeviceptr to, uint64_t value) {
    poke(to, &value, sizeof value);
}

static CUdeviceptr zeroed(size_t bytes) {
    CUdeviceptr at = 0;
    CU(cu.cuMemAlloc(&at, bytes));
    CU(cu.cuMemsetD8Async(at, 0, bytes, own_stream));
    CU(cu.cuStreamSynchronize(own_stream));
    return at;
}

/* ---- contexts ---- */

static void make_context(const char *driver, side *sides, int count, int rank, int watchdog) {
    const pw_gpu_request request = {.library = driver, .choice = PEERWIN_DEVICE_CURRENT, .timeout_ms = 10000};
    peerwin_ctx *ctx = pw_ctx_new();
    CHECK(ctx);
    ctx->alive = 1;
    ctx->pid = getpid();
    ctx->rank = rank;
    ctx->size = count;
    ctx->space = PEERWIN_SPACE_CUDA;
    ctx->flags = watchdog ? 0 : PEERWIN_NO_WATCHDOG;
    ctx->timeout_ms = 10000;
    ctx->mpi_threads = MPI_THREAD_SERIALIZED; /* waits leave MPI, which nobody has initialized, alone */
    ctx->all_direct = 1;
    pw_gate_init(&ctx->gate, ctx->wiped);
    ctx->layout = pw_pad_layout_of(count);
    ctx->arena_layout = pw_arena_layout_of(count);
    ctx->memory_of_arenas = pw_memory_on_gpu(PEERWIN_HANDLE_FD);
    ctx->peers = calloc((size_t)count, sizeof *ctx->peers);
    CHECK(ctx->peers && ctx->memory_of_arenas);
    OK(pw_liveness_create(&ctx->live, count, &site));
    OK(pw_gpu_open(&request, &site, &ctx->gpu));
    sides[rank].ctx = ctx;
    ctx->pad = aligned_alloc(4096, 4096);
    CHECK(ctx->pad);
    memset(ctx->pad, 0, 4096);
    for (int peer = 0; peer < count; peer++) {
        ctx->peers[peer].path = peer == rank ? PEERWIN_PATH_SELF : PEERWIN_PATH_DIRECT;
        ctx->peers[peer].link = PEERWIN_LINK_SAME_DEVICE;
        ctx->peers[peer].native_atomics = 1;
        ctx->peers[peer].arena = (char *)(uintptr_t)sides[peer].arena;
    }
}

static void make_window(side *sides, int count, int rank) {
    peerwin_win *win = calloc(1, sizeof *win);
    CHECK(win);
    sides[rank].win = win;
    win->ctx = sides[rank].ctx;
    win->peers = calloc((size_t)count, sizeof *win->peers);
    win->num_signals = SLOTS;
    win->id = 7;
    win->ctx->windows = win;
    win->pad_offset = win->ctx->arena_layout.signals;
    CHECK(win->peers);
    for (int peer = 0; peer < count; peer++) {
        pw_win_peer *there = &win->peers[peer];
        there->base = (char *)(uintptr_t)sides[peer].segment;
        there->bytes = SEGMENT;
        there->path = win->ctx->peers[peer].path;
        there->kind = PEERWIN_HANDLE_FD;
        there->slots = pw_arena_signal(win->ctx->peers[peer].arena, win->pad_offset, 0);
    }
}

void sides_make(const char *driver, side *sides, int count, int mine, int watchdog) {
    CUdevice device = 0;
    CHECK(count <= MOST_SIDES);
    CU(cu.cuInit(0));
    CU(cu.cuDeviceGet(&device, 0));
    CU(cu.cuDevicePrimaryCtxRetain(&primary, device));
    CU(cu.cuCtxSetCurrent(primary));
    CU(cu.cuStreamCreate(&own_stream, CU_STREAM_NON_BLOCKING));
    CU(cu.cuMemAllocHost(&staging, SEGMENT));
    memset(sides, 0, (size_t)count * sizeof *sides);
    for (int rank = 0; rank < count; rank++) {
        const pw_arena_layout layout = pw_arena_layout_of(count);
        sides[rank].arena = zeroed(rank < mine ? layout.bytes : layout.signals);
        sides[rank].segment = zeroed(SEGMENT);
        CU(cu.cuStreamCreate(&sides[rank].stream, CU_STREAM_NON_BLOCKING));
    }
    for (int rank = 0; rank < mine; rank++)
        make_context(driver, sides, count, rank, watchdog);
    for (int rank = 0; rank < mine; rank++) {
        peerwin_ctx *ctx = sides[rank].ctx;
        for (int peer = 0; peer < mine; peer++) {
            ctx->peers[peer].pad = sides[peer].ctx->pad;
            ctx->live.goodbyes[peer] = &pw_pad_control(sides[peer].ctx->pad)->goodbye;
        }
        make_window(sides, count, rank);
        if (watchdog >= 0)
            OK(pw_watchdog_start(ctx, &site));
    }
}

static void end_side(side *s) {
    peerwin_ctx *ctx = s->ctx;
    pw_watchdog_stop(ctx);
    CHECK(ctx->gpu->depth == 0);
    pw_gpu_close(ctx->gpu);
    pw_liveness_destroy(&ctx->live);
    free(ctx->peers);
    free(s->win->peers);
    free(s->win);
}

void sides_end(side *sides, int count, int mine) {
    CUdevice device = 0;
    for (int rank = 0; rank < mine; rank++)
        end_side(&sides[rank]);
    for (int rank = 0; rank < mine; rank++) { /* pads and contexts last: others look into them */
        free(sides[rank].ctx->pad);
        pw_ctx_delete(sides[rank].ctx);
    }
    for (int rank = 0; rank < count; rank++) {
        (void)cu.cuStreamDestroy(sides[rank].stream);
        (void)cu.cuMemFree(sides[rank].arena);
        (void)cu.cuMemFree(sides[rank].segment);
    }
    (void)cu.cuStreamDestroy(own_stream);
    (void)cu.cuMemFreeHost(staging);
    CU(cu.cuCtxSetCurrent(NULL));
    CU(cu.cuDeviceGet(&device, 0));
    CU(cu.cuDevicePrimaryCtxRelease(device));
    check_nothing_is_left();
}

/* ---- cases ---- */

const char *library;
pid_t sleeper;

static pid_t start_sleeper(void) {
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a case that fails does not end it */
        pause();
        _exit(0);
    }
    return child;
}

enum { NOT_RUN = 77 };

/* Runs one case in a child, which has not touched the driver yet. */
static int run_in_child(const sides_case *one) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        sleeper = start_sleeper();
        int simulated = sides_load(library);
        /* On a device beside many jobs that start, a second driver context takes long; two that are stuck fit in a
         * test. */
        alarm(simulated ? 60 : 40);
        int runs = simulated || !one->simulated;
        if (runs)
            one->run();
        fflush(stdout);
        (void)kill(sleeper, SIGKILL);
        _exit(runs ? 0 : NOT_RUN);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_RUN) {
        printf("skipped %s: for the simulated driver\n", one->name);
        return 0;
    }
    if (status != 0)
        printf("ended with 0x%x\n", status);
    printf("%s %s\n", status == 0 ? "ok" : "FAILED", one->name);
    return status != 0;
}

int sides_main(int argc, char **argv, const sides_case *cases, size_t count) {
    int failed = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: %s LIBRARY [CASE... | PART/PARTS]\n", argv[0]);
        return 2;
    }
    library = argv[1];
    unsigned part = 1;
    unsigned parts = 1;
    int shared = argc == 3 && sscanf(argv[2], "%u/%u", &part, &parts) == 2;
    if (part < 1 || part > parts)
        return 2;
    for (size_t i = 0; i < count; i++) {
        int wanted = argc == 2 || (shared && i % parts == part - 1);
        for (int k = 2; k < argc; k++)
            wanted |= strcmp(argv[k], cases[i].name) == 0;
        if (wanted)
            failed += run_in_child(&cases[i]);
    }
    return failed != 0;
}
