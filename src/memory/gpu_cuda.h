/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The device of a context as the files see it that call the driver.
 */
#ifndef PW_MEMORY_GPU_CUDA_H
#define PW_MEMORY_GPU_CUDA_H

#include "base/env.h"
#include "memory/driver.h"
#include "memory/gpu.h"
#include "memory/kernels.h"
#include "memory/launch.h"

enum { PW_STAGING_BYTES = 64 << 10, PW_REPORT_BYTES = 64, PW_WITNESSES = 4 };

/* A kernel kept ready (ready.h). */
struct pw_ready {
    int kernel;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
};

struct pw_gpu {
    pw_driver *driver;
    char library[PW_ENV_LIBRARY]; /* of the driver, as asked for */
    pw_device about;
    int ordinal;
    CUdevice device;
    CUcontext context;
    unsigned long long context_id; /* a primary context that was reset comes back with another */
    int retained;                  /* the primary context, which is released at the end; else the caller's */
    int timeout_ms;
    int rank;
    CUstream stream;  /* the library's own, non-blocking */
    int held;         /* it did not answer in time: who gives memory back need not wait again */
    void *staging;    /* page-locked: a copy from or to pageable memory would block, and end later than it returns */
    uint64_t *report; /* page-locked too: kernels tell the host here that they gave up */
    CUevent joint;    /* joins streams of a capture */
    int pushed;       /* by pw_gpu_step_in */
    int num_access;   /* devices that get access to every mapping: this one first, then those declared */
    CUdevice *access;
    CUcontext
        *contexts; /* primary contexts of the declared devices, by the index in `access`; held from their first use */
    int num_contexts; /* entries that have been filled: the first is this device's, which is `context` */
    CUmodule module;
    CUfunction kernels[PW_NUM_KERNELS];
    pw_ready ready_barrier, ready_reduce;
    int depth;                        /* of pw_gpu_enter */
    CUstreamCaptureMode capture_mode; /* of the caller, while inside */
    CUstream witnesses[PW_WITNESSES]; /* the library's own, made when wanted: each in a capture, or idle */
    CUevent met;                      /* takes a witness into a capture; made with the first */
};

/* Loads the module and every kernel of it into gpu->kernels; unloads them. The context is current. launch.c. */
PEERWIN_MUST_USE peerwin_status pw_kernels_load(pw_gpu *gpu, const pw_site *site);
void pw_kernels_unload(pw_gpu *gpu);

/* Waits until the library's own stream has done its work. TIMEOUT if the device does not get to it. */
PEERWIN_MUST_USE peerwin_status pw_gpu_settle(pw_gpu *gpu, const pw_site *site);

/*
 * `stream` captures work of the library: from now on until that capture ends pw_gpu_quiesce knows of it, by a stream
 * that nobody else can end. Not of more than PW_WITNESSES captures at a time. The context is current, in any capture
 * mode. What failed, if anything did, is *call_out. quiesce.c.
 */
CUresult pw_gpu_witness(pw_gpu *gpu, CUstream stream, const char **call_out);
void pw_gpu_end_witnesses(pw_gpu *gpu, peerwin_status first);

/*
 * Before memory goes: 1 if nothing of the library's own work can touch it any more. Else `what` has to stay where it
 * is, since giving it up would wait for whatever holds the device, or fault; that is logged, and *status is TIMEOUT
 * unless it was a failure before.
 */
int pw_gpu_quiet(pw_gpu *gpu, const char *what, peerwin_status *status);

/*
 * For releasing calls, and for those that undo: a failure is logged, and goes no further if there was a `first` one,
 * whose text stays the last error. Returns the first.
 */
peerwin_status pw_gpu_released(const pw_gpu *gpu, CUresult code, const char *call, peerwin_status first);

/* pw_fail_cuda for a call that makes a descriptor: drivers do not tell when the process has none left. */
PEERWIN_MUST_USE peerwin_status pw_fail_cuda_fd(const pw_driver *driver, const pw_site *site, CUresult code,
                                                const char *call);

/* The primary contexts of the declared devices, in gpu->contexts; they stay retained until the end. */
PEERWIN_MUST_USE peerwin_status pw_gpu_hold_contexts(pw_gpu *gpu, const pw_site *site);

static inline CUdeviceptr pw_device_address(const void *pointer) {
    return (CUdeviceptr)(uintptr_t)pointer;
}

static inline void *pw_device_pointer(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

/* A node of a graph that launches a kernel in a row of blocks. */
static inline CUDA_KERNEL_NODE_PARAMS_v2 pw_node_params(const pw_gpu *gpu, int kernel, unsigned blocks, unsigned lanes,
                                                        void **params) {
    return (CUDA_KERNEL_NODE_PARAMS_v2){.func = gpu->kernels[kernel],
                                        .gridDimX = blocks,
                                        .gridDimY = 1,
                                        .gridDimZ = 1,
                                        .blockDimX = lanes,
                                        .blockDimY = 1,
                                        .blockDimZ = 1,
                                        .kernelParams = params};
}

#endif
