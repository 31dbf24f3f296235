/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The run in CUDA space: the device, then every kind of memory in turn with all cases. A kind that is not to be had
 * here is reported with the library's reason, and the run goes on.
 */
#define _GNU_SOURCE
#include "cuda.h"

#include "base/env.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>

static const bench_case cases[] = {
    {"start", "init, first window, first put and barrier, with the CUDA context there already", 1,
     bench_cuda_case_start},
    {"register", "make and free a window, with the driver's calls in it by stage", 1, bench_cuda_case_register},
    {"first", "first put into a new mapping that nothing has touched, and the next", 1, bench_cuda_case_first},
    {"put", "one put, waited for by the host: peerwin_put, cuMemcpyAsync, a kernel", 1, bench_cuda_case_put},
    {"get", "one get, waited for by the host", 1, bench_cuda_case_get},
    {"put-stream", "64 puts in a stream, up to 1 MiB each", 1, bench_cuda_case_put_stream},
    {"get-stream", "64 gets in a stream, up to 1 MiB each", 1, bench_cuda_case_get_stream},
    {"put-bw", "several puts in a stream, from 1 MiB each", 1, bench_cuda_case_put_bandwidth},
    {"get-bw", "several gets in a stream, from 1 MiB each", 1, bench_cuda_case_get_bandwidth},
    {"barrier", "all ranks, 16 in a stream", 1, bench_cuda_case_barrier},
    {"pingpong", "a message one way, in streams: put_signal + wait", 2, bench_cuda_case_pingpong},
    {"halo", "all ranks, ghosts of a block: halo plan, also in graphs; packing and cuMemcpyAsync or MPI", 1,
     bench_cuda_case_halo},
};

bench_case_list bench_cuda_cases(void) {
    return (bench_case_list){cases, sizeof cases / sizeof *cases};
}

static const struct {
    peerwin_handle bit;
    const char *name;
} kinds[] = {
    {PEERWIN_HANDLE_LEGACY, "legacy"}, {PEERWIN_HANDLE_FD, "fd"},     {PEERWIN_HANDLE_FABRIC, "fabric"},
    {PEERWIN_HANDLE_POOL, "pool"},     {PEERWIN_HANDLE_HOST, "host"},
};

/* ---------------------------------------------------------------------------------------------- the device */

static int node_rank(void) {
    MPI_Comm node;
    int rank = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_free(&node);
    return rank;
}

bool bench_cuda_open(bench_device *d) {
    pw_env env;
    int good = pw_env_read(&bench_cuda_site, &env) == PEERWIN_OK;
    pw_gpu_request request = {.choice = PEERWIN_DEVICE_SPREAD, .node_rank = node_rank(), .timeout_ms = 60000};
    if (good) {
        request.library = env.cuda_library;
        if ((env.set & PW_ENV_DEVICE) != 0)
            request.choice = env.device;
        good = pw_gpu_open(&request, &bench_cuda_site, &d->gpu) == PEERWIN_OK &&
               pw_gpu_enter(d->gpu, &bench_cuda_site) == PEERWIN_OK;
    }
    if (!good)
        fprintf(stderr, "%s\n", peerwin_last_error()); /* it names this program */
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (!good)
        return false;
    d->driver = d->gpu->driver;
    bench_cuda_check(d->driver->cuStreamCreateWithPriority(&d->stream, CU_STREAM_NON_BLOCKING, 0),
                     "cuStreamCreateWithPriority");
    snprintf(d->name, sizeof d->name, "%s, driver for CUDA %d.%d", pw_gpu_about(d->gpu)->name,
             d->driver->version / 1000, d->driver->version % 1000 / 10);
    return true;
}

void bench_cuda_close(bench_device *d) {
    if (d->stream != NULL)
        bench_cuda_check(d->driver->cuStreamDestroy(d->stream), "cuStreamDestroy");
    if (d->driver != NULL)
        pw_gpu_leave(d->gpu);
    pw_gpu_close(d->gpu);
}

/* --------------------------------------------------------------------------------------------- the kinds */

/* A pool whose memory can be shared; false on every rank if one has none. */
static bool open_pool(bench_device *d) {
    const CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->gpu->device},
    };
    int good = d->driver->cuMemPoolCreate(&d->pool, &props) == CUDA_SUCCESS;
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return good != 0;
}

static void close_pool(bench_device *d) {
    if (d->pool != NULL)
        bench_cuda_check(d->driver->cuMemPoolDestroy(d->pool), "cuMemPoolDestroy");
    d->pool = NULL;
}

/* The cases need what `start` has just shown to work. */
static void run_cases(bench *b) {
    bench_check(bench_cuda_init(b, &b->ctx), "peerwin_init");
    for (int i = 0; i < bench_cuda_cases().count; i++)
        if ((b->opt.cases & 1u << i) != 0)
            cases[i].run(b);
    bench_check(peerwin_finalize(b->ctx), "peerwin_finalize");
    b->ctx = NULL;
}

/* The first way through is the proof that the kind is to be had, and the figure for programs that do it once. */
static void run_kind(bench *b) {
    double first[NUM_STARTS];
    if (b->device->kind == PEERWIN_HANDLE_POOL && !open_pool(b->device)) {
        if (b->rank == 0)
            report_missing(b->out, b->kind, "a rank cannot make a memory pool that is shared by descriptor");
        close_pool(b->device);
        return;
    }
    const peerwin_status status = bench_cuda_start(b, first);
    setenv("PEERWIN_LOG", "error", 0); /* what the library has to say of this machine it has said now */
    if (status == PEERWIN_ERR_TIMEOUT || status == PEERWIN_ERR_PEER_LOST)
        bench_fail_call(status, "start");
    if (status == PEERWIN_OK) {
        if ((b->opt.cases & 1u) != 0)
            measure_given(b, "start-1st", b->opt.largest, &first[START_ALL], 1);
        run_cases(b);
    } else if (b->rank == 0) {
        report_missing(b->out, b->kind, peerwin_last_error());
    }
    close_pool(b->device);
}

bool bench_cuda_run(bench *b) {
    bench_device device = {0};
    const bool good = bench_cuda_open(&device);
    b->device = &device;
    if (good && b->rank == 0)
        report_device(b->out, device.name);
    for (size_t i = 0; good && i < sizeof kinds / sizeof *kinds; i++)
        if ((b->opt.kinds & kinds[i].bit) != 0) {
            b->kind = kinds[i].name;
            device.kind = kinds[i].bit;
            run_kind(b);
        }
    bench_cuda_close(&device);
    b->device = NULL;
    return good;
}
