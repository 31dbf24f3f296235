/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A driver in front of the real one, for machines whose GPUs reach each other: here they do not. What asks whether they
 * do is told no, and memory of another GPU cannot be opened or made accessible. For jobs of one rank per GPU: what
 * comes by a legacy handle is another GPU's then, which the driver does not tell of memory once it is open. Loaded by
 * PEERWIN_CUDA_LIBRARY; NOPEER_LIBRARY names the driver behind it.
 */
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define NOPEER_EXPORT __attribute__((visibility("default")))

static struct {
    PFN_cuGetProcAddress_v12000 get;
    PFN_cuMemSetAccess_v10020 set_access;
    PFN_cuMemRetainAllocationHandle_v11000 retain;
    PFN_cuMemRelease_v10020 release;
    PFN_cuMemGetAllocationPropertiesFromHandle_v10020 properties;
} real;

static CUresult can_access(int *can_out, CUdevice device, CUdevice peer) {
    (void)device;
    (void)peer;
    *can_out = 0;
    return CUDA_SUCCESS;
}

static CUresult p2p_attribute(int *value_out, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
    (void)attribute;
    (void)from;
    (void)to;
    *value_out = 0;
    return CUDA_SUCCESS;
}

static CUresult enable_access(CUcontext context, unsigned flags) {
    (void)context;
    (void)flags;
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

/* Access to memory of a device is that device's only. */
static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *desc, size_t count) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp what;
    CUresult code = real.retain(&handle, (void *)(uintptr_t)at);
    if (code == CUDA_SUCCESS) {
        code = real.properties(&what, handle);
        (void)real.release(handle);
    }
    for (size_t i = 0; code == CUDA_SUCCESS && i < count; i++) {
        if (what.location.type == CU_MEM_LOCATION_TYPE_DEVICE && desc[i].location.id != what.location.id) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
    }
    return real.set_access(at, bytes, desc, count);
}

static CUresult open_handle(CUdeviceptr *at_out, CUipcMemHandle handle, unsigned flags) {
    (void)at_out;
    (void)handle;
    (void)flags;
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

static const struct {
    const char *name;
    void (*entry)(void);
} here[] = {
    {"cuDeviceCanAccessPeer", (void (*)(void))can_access},
    {"cuDeviceGetP2PAttribute", (void (*)(void))p2p_attribute},
    {"cuCtxEnablePeerAccess", (void (*)(void))enable_access},
    {"cuMemSetAccess", (void (*)(void))set_access},
    {"cuIpcOpenMemHandle", (void (*)(void))open_handle},
};

static void fetch(const char *name, int version, void *pointer) {
    void *entry = NULL;
    if (real.get(name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL) != CUDA_SUCCESS || entry == NULL) {
        abort();
    }
    memcpy(pointer, &entry, sizeof entry);
}

static void find_real(void) {
    const char *path = getenv("NOPEER_LIBRARY");
    void *library = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *entry = library != NULL ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (entry == NULL) {
        abort();
    }
    memcpy(&real.get, &entry, sizeof entry);
    fetch("cuMemSetAccess", 10020, &real.set_access);
    fetch("cuMemRetainAllocationHandle", 11000, &real.retain);
    fetch("cuMemRelease", 10020, &real.release);
    fetch("cuMemGetAllocationPropertiesFromHandle", 10020, &real.properties);
}

NOPEER_EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *name, void **entry_out, int version, cuuint64_t flags,
                                                   CUdriverProcAddressQueryResult *found_out) {
    if (real.get == NULL) {
        find_real();
    }
    CUresult code = real.get(name, entry_out, version, flags, found_out);
    for (size_t i = 0; code == CUDA_SUCCESS && i < sizeof here / sizeof here[0]; i++) {
        if (strcmp(here[i].name, name) == 0) {
            memcpy(entry_out, &here[i].entry, sizeof *entry_out);
        }
    }
    return code;
}
