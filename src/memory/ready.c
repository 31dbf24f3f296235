/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See ready.h.
 */
#include "memory/ready.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void drop(const pw_gpu *gpu, pw_ready *ready, peerwin_status first) {
    if (ready->exec)
        first = pw_gpu_released(gpu, gpu->driver->cuGraphExecDestroy(ready->exec), "cuGraphExecDestroy", first);
    if (ready->graph)
        (void)pw_gpu_released(gpu, gpu->driver->cuGraphDestroy(ready->graph), "cuGraphDestroy", first);
    *ready = (pw_ready){.graph = NULL};
}

/* The handles of what failed are nobody's. */
static CUresult make(const pw_gpu *gpu, pw_ready *ready, const char **call_out) {
    union {
        pw_barrier_args barrier;
        pw_reduce_args reduce;
        pw_push_args push;
    } args;
    void *params[] = {&args};
    memset(&args, 0, sizeof args);
    const CUDA_KERNEL_NODE_PARAMS_v2 node = pw_node_params(gpu, ready->kernel, 1, PW_MEETING_LANES, params);
    *call_out = "cuGraphCreate";
    CUresult code = gpu->driver->cuGraphCreate(&ready->graph, 0);
    if (code != CUDA_SUCCESS) {
        ready->graph = NULL;
        return code;
    }
    *call_out = "cuGraphAddKernelNode";
    code = gpu->driver->cuGraphAddKernelNode(&ready->node, ready->graph, NULL, 0, &node);
    if (code != CUDA_SUCCESS)
        return code;
    *call_out = "cuGraphInstantiateWithFlags";
    code = gpu->driver->cuGraphInstantiateWithFlags(&ready->exec, ready->graph, 0);
    if (code != CUDA_SUCCESS)
        ready->exec = NULL;
    return code;
}

static peerwin_status open_one(const pw_gpu *gpu, int kernel, pw_ready *ready, const pw_site *site) {
    const char *call = NULL;
    ready->kernel = kernel;
    CUresult code = make(gpu, ready, &call);
    if (code == CUDA_SUCCESS)
        return PEERWIN_OK;
    peerwin_status status = pw_fail_cuda(gpu->driver, site, code, call);
    drop(gpu, ready, status);
    return status;
}

peerwin_status pw_ready_open(pw_gpu *gpu, const pw_site *site) {
    peerwin_status status = open_one(gpu, PW_KERNEL_BARRIER, &gpu->ready_barrier, site);
    if (status != PEERWIN_OK)
        return status;
    status = open_one(gpu, PW_KERNEL_REDUCE, &gpu->ready_reduce, site);
    if (status != PEERWIN_OK)
        drop(gpu, &gpu->ready_barrier, status);
    return status;
}

void pw_ready_close(pw_gpu *gpu) {
    drop(gpu, &gpu->ready_reduce, PEERWIN_OK);
    drop(gpu, &gpu->ready_barrier, PEERWIN_OK);
}

peerwin_status pw_ready_push_new(pw_gpu *gpu, const pw_site *site, pw_ready **ready_out) {
    pw_ready *ready = calloc(1, sizeof *ready);
    if (!ready)
        return pw_fail_errno(site, ENOMEM, "calloc");
    peerwin_status status = open_one(gpu, PW_KERNEL_PUSH, ready, site);
    if (status == PEERWIN_OK)
        *ready_out = ready;
    else
        free(ready);
    return status;
}

void pw_ready_push_free(pw_gpu *gpu, pw_ready *ready) {
    if (gpu && ready)
        drop(gpu, ready, PEERWIN_OK);
    free(ready);
}

peerwin_status pw_ready_launch(pw_gpu *gpu, const pw_ready *ready, peerwin_stream stream, unsigned blocks,
                               unsigned lanes, void *args, const pw_site *site) {
    void *params[] = {args};
    const CUDA_KERNEL_NODE_PARAMS_v2 node = pw_node_params(gpu, ready->kernel, blocks, lanes, params);
    CUresult code = gpu->driver->cuGraphExecKernelNodeSetParams(ready->exec, ready->node, &node);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuGraphExecKernelNodeSetParams");
    code = gpu->driver->cuGraphLaunch(ready->exec, (CUstream)stream);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, "cuGraphLaunch");
}
