/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A driver for tests of the kernels; see bare.h.
 */
#include "bare.h"

#include <dlfcn.h>
#include <string.h>

struct bare_calls bare;
const pw_site bare_site = {.call = "kernels", .rank = PW_NONE, .peer = PW_NONE};
static void *handle;

static void fetch(const char *name, int version, void *pointer) {
    PFN_cuGetProcAddress_v12000 get = NULL;
    void *entry = dlsym(handle, "cuGetProcAddress_v2");
    CUdriverProcAddressQueryResult found;
    memcpy(&get, &entry, sizeof entry);
    entry = NULL;
    CHECK(get && get(name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) == CUDA_SUCCESS && entry);
    memcpy(pointer, &entry, sizeof entry);
}

void bare_open(const char *library, pw_gpu *gpu_out) {
    memset(gpu_out, 0, sizeof *gpu_out);
    OK(pw_driver_open(library, &bare_site, &gpu_out->driver));
    OK(pw_device_describe(gpu_out->driver, 0, &bare_site, &gpu_out->about));
    handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle);
#define FETCH(name, version_) fetch(#name, version_, &bare.name);
    BARE_CALLS(FETCH)
#undef FETCH
    CU(bare.cuDeviceGet(&gpu_out->device, 0));
    CU(bare.cuDevicePrimaryCtxRetain(&gpu_out->context, gpu_out->device));
    CU(bare.cuCtxPushCurrent(gpu_out->context));
}

void bare_close(pw_gpu *gpu) {
    CUcontext popped = NULL;
    CU(bare.cuCtxPopCurrent(&popped));
    CHECK(popped == gpu->context);
    CU(bare.cuDevicePrimaryCtxRelease(gpu->device));
    pw_driver_close(gpu->driver);
}

void *bare_simcuda(const char *name) {
    return dlsym(handle, name);
}
