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

pw_gpu *bare_open(const char *library) {
    const pw_gpu_request request = {.library = library, .choice = PEERWIN_DEVICE(0), .timeout_ms = 60000};
    pw_gpu *gpu = NULL;
    OK(pw_gpu_open(&request, &bare_site, &gpu));
    handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle);
#define FETCH(name, version_) fetch(#name, version_, &bare.name);
    BARE_CALLS(FETCH)
#undef FETCH
    OK(pw_gpu_enter(gpu, &bare_site));
    return gpu;
}

void bare_close(pw_gpu *gpu) {
    pw_gpu_leave(gpu);
    pw_gpu_close(gpu);
}

void *bare_simcuda(const char *name) {
    return dlsym(handle, name);
}
