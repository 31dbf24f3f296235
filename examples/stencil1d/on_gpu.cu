/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Windows in GPU memory, or on the host where there is no GPU; see stencil1d.h. Compiled by nvcc as any CUDA source: no
 * relocatable device code.
 */
#include "stencil1d.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

static int check(cudaError_t code, const char *call) {
    if (code != cudaSuccess)
        std::fprintf(stderr, "stencil1d: %s: %s\n", call, cudaGetErrorString(code));
    return code != cudaSuccess;
}

/* The view travels inside the struct of arguments, by value. */
__global__ void steps_kernel(rod r, peerwin_status *status) {
    const peerwin_status end = run_steps(&r);
    if (threadIdx.x == 0)
        *status = end;
}

void choose_gpu(int node_rank) {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0)
        (void)check(cudaSetDevice(node_rank % count), "cudaSetDevice");
    else
        (void)cudaGetLastError(); /* no GPU, so peerwin will choose host memory */
}

int store_cells(peerwin_space space, void *to, const double *from, size_t count) {
    if (space == PEERWIN_SPACE_CUDA)
        return check(cudaMemcpy(to, from, count * sizeof *from, cudaMemcpyHostToDevice), "cudaMemcpy");
    std::memcpy(to, from, count * sizeof *from);
    return 0;
}

int load_cells(peerwin_space space, double *to, const void *from, size_t count) {
    if (space == PEERWIN_SPACE_CUDA)
        return check(cudaMemcpy(to, from, count * sizeof *to, cudaMemcpyDeviceToHost), "cudaMemcpy");
    std::memcpy(to, from, count * sizeof *to);
    return 0;
}

static int run_on_gpu(peerwin_ctx *ctx, const rod *r, peerwin_status *status_out) {
    peerwin_status *status = nullptr;
    if (check(cudaMallocHost(&status, sizeof *status), "cudaMallocHost"))
        return 1;
    steps_kernel<<<1, 256>>>(*r, status);
    int failed = check(cudaGetLastError(), "launching the steps");
    if (!failed) {
        /* Like cudaStreamSynchronize, but it notices dead peers. */
        *status_out = peerwin_stream_sync(ctx, NULL);
        if (*status_out == PEERWIN_OK)
            *status_out = *status;
    }
    return check(cudaFreeHost(status), "cudaFreeHost") || failed;
}

/* Which of the two is known at run time; a program for GPUs alone would have the first only. */
int run_rod(peerwin_ctx *ctx, const rod *r, peerwin_status *status_out) {
    if (peerwin_get_space(ctx) == PEERWIN_SPACE_CUDA)
        return run_on_gpu(ctx, r, status_out);
    *status_out = run_rod_on_host(r);
    return 0;
}
