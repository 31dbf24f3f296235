/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The device of a context as the files see it that call the driver.
 */
#ifndef PW_MEMORY_GPU_CUDA_H
#define PW_MEMORY_GPU_CUDA_H

#include "memory/driver.h"
#include "memory/gpu.h"
#include "memory/kernels.h"

struct pw_gpu {
    pw_driver *driver;
    pw_device about;
    int ordinal;
    CUdevice device;
    CUcontext context;
    int retained; /* the primary context, which is released at the end; else the caller's */
    int timeout_ms;
    CUstream stream; /* the library's own, non-blocking */
    int num_access;  /* devices that get access to every mapping: this one first, then those declared */
    CUdevice *access;
    CUmodule module;
    CUfunction kernels[PW_NUM_KERNELS];
    int depth;                        /* of pw_gpu_enter */
    CUstreamCaptureMode capture_mode; /* of the caller, while inside */
};

/* Loads the module and every kernel of it into gpu->kernels; unloads them. The context is current. launch.c. */
PEERWIN_MUST_USE peerwin_status pw_kernels_load(pw_gpu *gpu, const pw_site *site);
void pw_kernels_unload(pw_gpu *gpu);

static inline CUdeviceptr pw_device_address(const void *pointer) {
    return (CUdeviceptr)(uintptr_t)pointer;
}

#endif
