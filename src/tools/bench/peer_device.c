/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * peerwin's side of --peers: rows in kernels. The kernels are an image within the program, loaded before anything is
 * measured or spins. Loops that wait for the partner tell their time themselves; puts and gets are between events.
 */
#define _GNU_SOURCE
#include "peer_side.h"

#include "peer_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char bench_peer_image[]; /* peer_image.S */

enum {
#define PEER_NUMBER(name) KERNEL_##name,
    PEER_KERNELS(PEER_NUMBER)
#undef PEER_NUMBER
        NUM_KERNELS
};

struct peer_kernels {
    CUmodule module;
    CUfunction functions[NUM_KERNELS];
    peer_finding *finding; /* device memory */
    uint64_t signals;      /* the value of the signal so far */
    uint64_t added;        /* to the partner's word so far */
};

/* ---------------------------------------------------------------------------------------------------- kernels */

static void launch(const peer_side *s, int kernel, int blocks, int lanes, peer_args *args) {
    void *parameters[] = {args};
    bench_cuda_check(s->b->device->driver->cuLaunchKernel(s->kernels->functions[kernel], (unsigned)blocks, 1, 1,
                                                          (unsigned)lanes, 1, 1, 0, s->stream, parameters, NULL),
                     "cuLaunchKernel");
}

/* A kernel that is loaded by its first launch waits for whatever spins: each is launched with nothing to do. */
void peer_kernels_load(peer_side *s) {
    static const char *const names[NUM_KERNELS] = {
#define PEER_NAME(name) "peer_" #name,
        PEER_KERNELS(PEER_NAME)
#undef PEER_NAME
    };
    const pw_driver *driver = s->b->device->driver;
    peer_kernels *k = calloc(1, sizeof *k);
    if (k == NULL)
        bench_fail("out of memory");
    const CUresult code = driver->cuModuleLoadData(&k->module, bench_peer_image);
    if (code != CUDA_SUCCESS) {
        if (s->b->rank == 0)
            fprintf(stderr, "peerwin-bench: no kernels: cuModuleLoadData failed with code %d\n", (int)code);
        free(k);
        return;
    }
    s->kernels = k;
    k->finding = bench_cuda_alloc(s->b, sizeof *k->finding);
    for (int i = 0; i < NUM_KERNELS; i++) {
        peer_args nothing;
        memset(&nothing, 0, sizeof nothing);
        bench_cuda_check(driver->cuModuleGetFunction(&k->functions[i], k->module, names[i]), "cuModuleGetFunction");
        launch(s, i, 1, 32, &nothing);
        bench_cuda_check(driver->cuStreamSynchronize(s->stream), "cuStreamSynchronize");
    }
}

void peer_kernels_unload(peer_side *s) {
    if (s->kernels == NULL)
        return;
    bench_cuda_release(s->b, s->kernels->finding);
    bench_cuda_check(s->b->device->driver->cuModuleUnload(s->kernels->module), "cuModuleUnload");
    free(s->kernels);
    s->kernels = NULL;
}

/* ------------------------------------------------------------------------------------------------- one batch */

static peer_args args_of(const peer_side *s, const plan_row *row, int iterations) {
    peer_args args;
    memset(&args, 0, sizeof args);
    bench_check(peerwin_win_view(s->win, &args.view), "peerwin_win_view");
    args.mine = s->mine;
    args.bytes = row->bytes;
    args.partner = s->partner;
    args.warm = s->warm;
    args.iterations = iterations;
    args.finding = s->kernels->finding;
    return args;
}

/* What a kernel that took its own time has found: microseconds, after a look at its status. */
static double find(const peer_side *s, const plan_row *row, peer_finding *finding_out) {
    peer_wait(s);
    bench_check(pw_gpu_read(s->b->device->gpu, finding_out, s->kernels->finding, sizeof *finding_out, &bench_cuda_site),
                "read");
    if (finding_out->status != PEERWIN_OK)
        bench_fail("%s: in the kernel: %s", row->name, peerwin_strerror((peerwin_status)finding_out->status));
    return (double)finding_out->ns * 1e-3;
}

/* The origin moves bytes, the other rank does nothing, or the same. */
static double transfer(const peer_side *s, const plan_row *row, int iterations) {
    const bool puts = row->work != PLAN_GET;
    const int kernel = puts ? KERNEL_put : KERNEL_get;
    float ms = 0.0f;
    if (s->b->rank != 0 && row->work != PLAN_BOTH_PUT)
        return 0.0;
    peer_args args = args_of(s, row, 1);
    args.slice = plan_slice(row->bytes, row->blocks);
    args.mine += puts ? row->from_shift : row->to_shift;
    args.offset = (uint64_t)(puts ? row->to_shift : row->from_shift);
    launch(s, kernel, row->blocks, row->lanes, &args);
    peer_wait(s);
    if (row->work == PLAN_BOTH_PUT)
        MPI_Barrier(MPI_COMM_WORLD);
    args.iterations = iterations;
    bench_cuda_check(s->more.cuEventRecord(s->begin, s->stream), "cuEventRecord");
    launch(s, kernel, row->blocks, row->lanes, &args);
    bench_cuda_check(s->more.cuEventRecord(s->end, s->stream), "cuEventRecord");
    peer_wait(s);
    bench_cuda_check(s->more.cuEventElapsedTime(&ms, s->begin, s->end), "cuEventElapsedTime");
    return (double)ms * 1e3 / iterations;
}

static double pingpong(const peer_side *s, const plan_row *row, int iterations) {
    peer_finding finding;
    peer_args args = args_of(s, row, iterations);
    args.base = s->kernels->signals;
    s->kernels->signals += (uint64_t)(args.warm + iterations);
    launch(s, row->work == PLAN_MESSAGE ? KERNEL_message : KERNEL_put_signal, row->blocks, row->lanes, &args);
    return find(s, row, &finding) / (2.0 * iterations);
}

static double fetch_add(const peer_side *s, const plan_row *row, int iterations) {
    const size_t at = plan_largest(s->quick) + PLAN_SHIFTS;
    peer_finding finding;
    double us = 0.0;
    peer_args args = args_of(s, row, iterations);
    args.offset = at;
    s->kernels->added += (uint64_t)(args.warm + iterations);
    if (s->b->rank == 0) {
        launch(s, KERNEL_fetch_add, row->blocks, row->lanes, &args);
        us = find(s, row, &finding) / iterations;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (s->b->rank == 1) {
        uint64_t sum = 0;
        for (size_t i = 0; i < PLAN_WORDS; i++) {
            uint64_t word = 0;
            const char *from = s->target + at + i * PLAN_WORD_STEP;
            bench_check(pw_gpu_read(s->b->device->gpu, &word, from, sizeof word, &bench_cuda_site), "read");
            sum += word;
        }
        if (sum != s->kernels->added)
            bench_fail("%s: the sum is wrong", row->name);
    }
    return us;
}

static double round_of_all(const peer_side *s, const plan_row *row, int iterations) {
    const int size = s->b->size;
    peer_finding finding;
    peer_args args = args_of(s, row, iterations);
    launch(s, row->work == PLAN_REDUCE ? KERNEL_reduce : KERNEL_barrier, row->blocks, row->lanes, &args);
    const double us = find(s, row, &finding) / iterations;
    if (row->work == PLAN_REDUCE && finding.sum != size * (size + 1) / 2.0)
        bench_fail("%s: the sum is %g", row->name, finding.sum);
    return us;
}

peerwin_status peer_device_batch(peer_side *s, const plan_row *row, int iterations, double *us_out) {
    *us_out = 0.0;
    if (s->kernels == NULL)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, &bench_cuda_site, "this build has no kernels");
    switch (row->work) {
    case PLAN_PUT:
    case PLAN_GET:
    case PLAN_BOTH_PUT:
        *us_out = transfer(s, row, iterations);
        return PEERWIN_OK;
    case PLAN_PUT_SIGNAL:
    case PLAN_MESSAGE:
        *us_out = pingpong(s, row, iterations);
        return PEERWIN_OK;
    case PLAN_FETCH_ADD:
        *us_out = fetch_add(s, row, iterations);
        return PEERWIN_OK;
    case PLAN_BARRIER:
    case PLAN_REDUCE:
        *us_out = round_of_all(s, row, iterations);
        return PEERWIN_OK;
    default:
        bench_fail("%s is no row in a kernel", row->name);
    }
}
