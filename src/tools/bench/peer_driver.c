/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See peer_driver.h. The library is open already, and stays so.
 */
#define _GNU_SOURCE
#include "peer_driver.h"

#include "base/env.h"
#include "cuda.h"

#include <dlfcn.h>
#include <string.h>

static PFN_cuGetProcAddress_v12000 find_entry(void) {
    pw_env env;
    bench_check(pw_env_read(&bench_cuda_site, &env), "environment");
    void *library = dlopen(env.cuda_library[0] != '\0' ? env.cuda_library : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *entry = library != NULL ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (entry == NULL)
        bench_fail("the CUDA driver cannot be opened once more");
    return (PFN_cuGetProcAddress_v12000)(uintptr_t)entry;
}

/* NULL if the driver has none. */
static void *fetch(PFN_cuGetProcAddress_v12000 get, const char *name, int version) {
    CUdriverProcAddressQueryResult found;
    void *entry = NULL;
    return get(name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) == CUDA_SUCCESS ? entry : NULL;
}

void peer_driver_load(peer_driver *more_out) {
    const PFN_cuGetProcAddress_v12000 get = find_entry();
    void *entry;
#define PEER_FETCH(name, version_)                                                                                     \
    entry = fetch(get, #name, version_);                                                                               \
    memcpy(&more_out->name, &entry, sizeof entry);
#define PEER_NEED(name, version_)                                                                                      \
    if (more_out->name == NULL)                                                                                        \
        bench_fail("the CUDA driver has no " #name);
    PEER_DRIVER_CALLS(PEER_FETCH)
    PEER_DRIVER_OPTIONAL_CALLS(PEER_FETCH)
    PEER_DRIVER_CALLS(PEER_NEED)
#undef PEER_NEED
#undef PEER_FETCH
}
