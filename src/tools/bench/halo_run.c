/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See halo_run.h: begin, end, proof, and peerwin's own ways. The baselines are in halo_ways.c.
 */
#define _GNU_SOURCE
#include "halo_run.h"

#include "halo_plan.h"

#include <stdio.h>
#include <string.h>

extern const char bench_peer_image[]; /* peer_image.S */

enum { MOST_BLOCKS = 64 };

/* ---------------------------------------------------------------------------------------------------- kernels */

halo_args halo_run_args(const halo_run *run) {
    const halo_shape *s = &run->shape;
    halo_args args;
    memset(&args, 0, sizeof args);
    args.array = peerwin_win_ptr(run->array.win, run->b->rank);
    args.field = shape_field(s);
    args.row = s->dims > 1 ? shape_pitch(s, s->dims - 2) : 0;
    args.plane = s->dims > 2 ? shape_pitch(s, s->dims - 3) : 0;
    args.wrong = run->wrong;
    args.rank = run->b->rank;
    args.fields = s->fields;
    args.elem = (uint32_t)s->elem;
    args.faces = run->num_faces;
    memcpy(args.face, run->faces, sizeof args.face);
    return args;
}

/* Blocks for the largest face; at least one of each kind, also where there is nothing to do. */
void halo_run_launch(const halo_run *run, int kernel, halo_args *args, uint64_t bytes) {
    void *parameters[] = {args};
    uint64_t most = bytes;
    for (int i = 0; bytes == 0 && i < args->faces; i++)
        most = args->face[i].cells > most ? args->face[i].cells : most;
    const uint64_t wanted = (most + HALO_LANES - 1) / HALO_LANES;
    const unsigned across = (unsigned)(wanted > MOST_BLOCKS ? MOST_BLOCKS : wanted < 1 ? 1 : wanted);
    const int rows = bytes == 0 && args->faces > 0 ? args->faces * args->fields : 1;
    bench_cuda_check(run->b->device->driver->cuLaunchKernel(run->kernels[kernel], bytes > 0 ? across * 8 : across,
                                                            (unsigned)rows, 1, HALO_LANES, 1, 1, 0, run->stream,
                                                            parameters, NULL),
                     "cuLaunchKernel");
}

/*
 * A kernel that is loaded by its first launch waits for whatever runs: each is launched alone, with nothing to do, on
 * all ranks before one of them goes on.
 */
static bool load_kernels(halo_run *run) {
    static const char *const names[HALO_NUM_KERNELS] = {
#define HALO_NAME(name) "halo_" #name,
        HALO_KERNELS(HALO_NAME)
#undef HALO_NAME
    };
    const pw_driver *driver = run->b->device->driver;
    halo_args nothing;
    memset(&nothing, 0, sizeof nothing);
    int good = driver->cuModuleLoadData(&run->module, bench_peer_image) == CUDA_SUCCESS;
    for (int i = 0; good && i < HALO_NUM_KERNELS; i++)
        good = driver->cuModuleGetFunction(&run->kernels[i], run->module, names[i]) == CUDA_SUCCESS;
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, run->b->comm);
    for (int i = 0; good && i < HALO_NUM_KERNELS; i++) {
        halo_run_launch(run, i, &nothing, 0);
        bench_cuda_check(driver->cuStreamSynchronize(run->stream), "cuStreamSynchronize");
    }
    if (!good && run->b->rank == 0)
        fputs("peerwin-bench: no kernels for exchanges of ghosts in this build\n", stderr);
    MPI_Barrier(run->b->comm);
    return good;
}

static void unload_kernels(halo_run *run) {
    if (run->module != NULL)
        bench_cuda_check(run->b->device->driver->cuModuleUnload(run->module), "cuModuleUnload");
    run->module = NULL;
}

/* ----------------------------------------------------------------------------------------------- begin and end */

static void open_window(const halo_run *run, size_t bytes, bench_window *window_out) {
    bench_check(bench_cuda_attach(run->ctx, bench_cuda_memory(run->b, bytes), bytes, window_out), "window");
}

static void make_rest(halo_run *run) {
    const bench *b = run->b;
    const halo_shape *s = &run->shape;
    void *host = NULL;
    run->num_faces = shape_faces(s, b->rank, run->faces);
    run->num_out = shape_ranges(s, b->rank, 1, run->out);
    run->num_in = shape_ranges(s, b->rank, 0, run->in);
    run->slots = shape_slot(s, 2 * s->dims);
    open_window(run, (size_t)shape_bytes(s), &run->array);
    open_window(run, (size_t)(HALO_HALVES * run->slots), &run->stage);
    run->packed = bench_cuda_alloc(b, (size_t)run->slots);
    run->wrong = bench_cuda_alloc(b, sizeof *run->wrong);
    bench_cuda_check(b->device->driver->cuMemAllocHost(&host, (size_t)(2 * run->slots)), "cuMemAllocHost");
    run->host = host;
    run->plan = halo_plan_make(b, run->ctx, run->array.win, s);
}

bool halo_run_open(halo_run *run, const bench *b, peerwin_ctx *ctx, CUstream stream, const peer_driver *more,
                   const halo_shape *shape) {
    *run = (halo_run){.b = b, .ctx = ctx, .stream = stream, .more = more, .shape = *shape};
    if (!load_kernels(run)) {
        unload_kernels(run);
        return false;
    }
    make_rest(run);
    return true;
}

void halo_run_close(halo_run *run) {
    if (run->module == NULL)
        return;
    if (run->ready != NULL)
        bench_cuda_check(run->more->cuGraphExecDestroy(run->ready), "cuGraphExecDestroy");
    if (run->graph != NULL)
        bench_cuda_check(run->more->cuGraphDestroy(run->graph), "cuGraphDestroy");
    bench_check(peerwin_halo_free(run->plan), "peerwin_halo_free");
    bench_cuda_free(run->b, &run->stage);
    bench_cuda_free(run->b, &run->array);
    bench_cuda_check(run->b->device->driver->cuMemFreeHost(run->host), "cuMemFreeHost");
    bench_cuda_release(run->b, run->wrong);
    bench_cuda_release(run->b, run->packed);
    unload_kernels(run);
}

void halo_run_wait(const halo_run *run) {
    bench_check(peerwin_stream_sync(run->ctx, run->stream), "peerwin_stream_sync");
}

/* -------------------------------------------------------------------------------------------------- the proof */

static void fill(const halo_run *run) {
    const uint64_t none = 0;
    halo_args args = halo_run_args(run);
    args.bytes = shape_bytes(&run->shape);
    bench_check(pw_gpu_write(run->b->device->gpu, run->wrong, &none, sizeof none, &bench_cuda_site), "write");
    halo_run_launch(run, HALO_KERNEL_fill, &args, args.bytes);
    halo_run_wait(run);
}

static void check(const halo_run *run) {
    uint64_t wrong = 0;
    halo_args args = halo_run_args(run);
    halo_run_launch(run, HALO_KERNEL_check, &args, 0);
    halo_run_wait(run);
    bench_check(pw_gpu_read(run->b->device->gpu, &wrong, run->wrong, sizeof wrong, &bench_cuda_site), "read");
    if (wrong > 0)
        bench_fail("%llu bytes of the ghosts are wrong", (unsigned long long)wrong);
}

peerwin_status halo_run_prove(halo_run *run, halo_way *way) {
    fill(run);
    MPI_Barrier(run->b->comm); /* nobody's ghosts come before they are filled */
    const peerwin_status status = way(run, 1);
    halo_run_wait(run);
    if (status == PEERWIN_OK)
        check(run);
    MPI_Barrier(run->b->comm);
    return status;
}

/* ---------------------------------------------------------------------------------------------- peerwin's ways */

peerwin_status halo_by_plan(halo_run *run, int times) {
    for (int i = 0; i < times; i++) {
        const peerwin_status status = peerwin_halo_start(run->plan, run->stream);
        if (status == PEERWIN_ERR_UNSUPPORTED)
            return status;
        bench_check(status, "peerwin_halo_start");
        bench_check(peerwin_halo_finish(run->plan, run->stream), "peerwin_halo_finish");
    }
    return PEERWIN_OK;
}

peerwin_status halo_run_capture(halo_run *run) {
    if (run->ready != NULL)
        return PEERWIN_OK;
    bench_cuda_check(run->more->cuStreamBeginCapture(run->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                     "cuStreamBeginCapture");
    const peerwin_status status = halo_by_plan(run, HALO_IN_A_GRAPH);
    bench_cuda_check(run->more->cuStreamEndCapture(run->stream, &run->graph), "cuStreamEndCapture");
    if (status == PEERWIN_OK)
        bench_cuda_check(run->more->cuGraphInstantiateWithFlags(&run->ready, run->graph, 0), "cuGraphInstantiate");
    return status;
}

peerwin_status halo_by_graph(halo_run *run, int times) {
    const peerwin_status status = halo_run_capture(run);
    for (int i = 0; i < times && status == PEERWIN_OK; i++)
        bench_cuda_check(run->more->cuGraphLaunch(run->ready, run->stream), "cuGraphLaunch");
    return status;
}
