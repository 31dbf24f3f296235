/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of cuMemAlloc behind legacy IPC handles.
 *
 * An export shares the whole block of 2 MiB that the allocation lies in, so own allocations fill their blocks. A handle
 * always names the beginning of an allocation: what the importer gets for any other address differs between drivers.
 * Attached allocations have any size, hence the granularity of 1. An importer closes before the owner frees, and a
 * process never opens a handle of its own; the callers see to both.
 *
 * Access to such memory is had by contexts, not by devices: those of the rank's declared devices get it one by one.
 */
#include "memory/kinds.h"

#include <string.h>

enum { BLOCK_BYTES = 2 << 20 };

_Static_assert(sizeof(CUipcMemHandle) == PW_TOKEN_BYTES, "a legacy handle is a token");

static size_t granularity(const pw_gpu *gpu) {
    (void)gpu;
    return 1;
}

static peerwin_status free_memory(pw_gpu *gpu, CUdeviceptr base, peerwin_status first) {
    if (pw_gpu_quiet(gpu, "memory", &first))
        first = pw_gpu_released(gpu, gpu->driver->cuMemFree(base), "cuMemFree", first);
    return first;
}

/* ---- the rank's other devices ---- */

static peerwin_status out_of_reach(CUdevice device, const pw_site *site) {
    return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                   "memory behind a legacy IPC handle is out of reach of device %d, which this rank declares: use "
                   "handles of kind fd",
                   (int)device);
}

/* The driver finds memory in a context that can use it. The context of the device is current. */
static peerwin_status reach_from(const pw_gpu *gpu, CUdevice device, CUcontext owner, CUdeviceptr base,
                                 const pw_site *site) {
    CUdeviceptr start = 0;
    size_t size = 0;
    if (gpu->driver->cuMemGetAddressRange(&start, &size, base) == CUDA_SUCCESS)
        return PEERWIN_OK;
    CUresult code = owner ? gpu->driver->cuCtxEnablePeerAccess(owner, 0) : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (code == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
        return out_of_reach(device, site);
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        return pw_fail_cuda(gpu->driver, site, code, "cuCtxEnablePeerAccess");
    code = gpu->driver->cuMemGetAddressRange(&start, &size, base);
    if (code == CUDA_ERROR_NOT_FOUND)
        return out_of_reach(device, site);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, "cuMemGetAddressRange");
}

peerwin_status pw_legacy_share(pw_gpu *gpu, CUdevice device, CUcontext owner, CUdeviceptr base, const pw_site *site) {
    peerwin_status status = pw_gpu_hold_contexts(gpu, site);
    for (int i = 1; status == PEERWIN_OK && i < gpu->num_access; i++) {
        unsigned long long id = 0;
        CUcontext popped = NULL;
        if (gpu->access[i] == device)
            continue;
        CUresult code = gpu->driver->cuCtxGetId(gpu->contexts[i], &id); /* the program may have reset its device */
        if (code != CUDA_SUCCESS)
            return pw_fail_cuda(gpu->driver, site, code, "cuCtxGetId");
        code = gpu->driver->cuCtxPushCurrent(gpu->contexts[i]);
        if (code != CUDA_SUCCESS)
            return pw_fail_cuda(gpu->driver, site, code, "cuCtxPushCurrent");
        status = reach_from(gpu, gpu->access[i], owner, base, site);
        status = pw_gpu_released(gpu, gpu->driver->cuCtxPopCurrent(&popped), "cuCtxPopCurrent", status);
    }
    return status;
}

/* ---- segments and mappings ---- */

static peerwin_status legacy_alloc(pw_gpu *gpu, const pw_order *order, const pw_site *site, pw_segment *segment_out) {
    pw_segment segment = {.ops = &pw_memory_legacy, .gpu = gpu, .fd = -1, .num_pieces = 1};
    peerwin_status status = pw_round_size(order->bytes, BLOCK_BYTES, site, &segment.mapped);
    if (status != PEERWIN_OK)
        return status;
    if (segment.mapped != 0) {
        CUdeviceptr base = 0;
        CUresult code = gpu->driver->cuMemAlloc(&base, segment.mapped);
        if (code != CUDA_SUCCESS)
            return pw_fail_cuda(gpu->driver, site, code, "cuMemAlloc");
        segment.base = pw_device_pointer(base);
        status = pw_gpu_zero(gpu, segment.base, segment.mapped, site);
        if (status == PEERWIN_OK)
            status = pw_legacy_share(gpu, gpu->device, gpu->context, base, site);
        if (status != PEERWIN_OK)
            return free_memory(gpu, base, status);
    }
    *segment_out = segment;
    return PEERWIN_OK;
}

static peerwin_status refuse_read_only(const pw_site *site) {
    return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                   "memory behind a legacy IPC handle cannot be mapped read-only: use handles of kind fd");
}

static peerwin_status legacy_seal(pw_segment *segment, unsigned flags, const pw_site *site) {
    if (segment->mapped != 0 && flags & PW_READ_ONLY)
        return refuse_read_only(site);
    return PEERWIN_OK;
}

static peerwin_status legacy_export(pw_segment *segment, int piece, pw_handle *handle_out, const pw_site *site) {
    (void)piece; /* there is one */
    pw_handle handle = {.kind = PEERWIN_HANDLE_LEGACY, .fd = -1, .bytes = segment->mapped};
    if (segment->mapped != 0) {
        CUipcMemHandle native;
        CUresult code = segment->gpu->driver->cuIpcGetMemHandle(&native, pw_device_address(segment->base));
        if (code != CUDA_SUCCESS)
            return pw_fail_cuda(segment->gpu->driver, site, code, "cuIpcGetMemHandle");
        memcpy(handle.token, &native, sizeof handle.token);
        explicit_bzero(&native, sizeof native);
    }
    *handle_out = handle;
    return PEERWIN_OK;
}

static void legacy_exported(pw_segment *segment) {
    (void)segment;
}

static peerwin_status legacy_map(pw_mapping *mapping, const pw_handle *handle, size_t offset, const pw_site *site) {
    (void)offset; /* there is one piece */
    const pw_driver *driver = mapping->gpu->driver;
    if (mapping->mapped == 0)
        return PEERWIN_OK;
    if (mapping->flags & PW_READ_ONLY)
        return refuse_read_only(site);
    CUdeviceptr base = 0;
    CUipcMemHandle native;
    memcpy(&native, handle->token, sizeof native);
    CUresult code = driver->cuIpcOpenMemHandle(&base, native, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    explicit_bzero(&native, sizeof native);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuIpcOpenMemHandle");
    peerwin_status status = pw_check_import(mapping->gpu, base, mapping->mapped, site);
    if (status == PEERWIN_OK)
        status = pw_legacy_share(mapping->gpu, mapping->gpu->device, mapping->gpu->context, base, site);
    if (status != PEERWIN_OK)
        return pw_gpu_released(mapping->gpu, driver->cuIpcCloseMemHandle(base), "cuIpcCloseMemHandle", status);
    mapping->base = pw_device_pointer(base);
    return PEERWIN_OK;
}

static peerwin_status legacy_unmap(pw_mapping *mapping) {
    peerwin_status status = PEERWIN_OK;
    if (mapping->base && pw_gpu_quiet(mapping->gpu, "a peer's memory", &status)) {
        CUresult code = mapping->gpu->driver->cuIpcCloseMemHandle(pw_device_address(mapping->base));
        status = pw_gpu_released(mapping->gpu, code, "cuIpcCloseMemHandle", status);
    }
    *mapping = (pw_mapping){0};
    return status;
}

static peerwin_status legacy_release(pw_segment *segment) {
    peerwin_status status = PEERWIN_OK;
    if (segment->base && !segment->attached)
        status = free_memory(segment->gpu, pw_device_address(segment->base), status);
    *segment = (pw_segment){.fd = -1};
    return status;
}

const pw_memory_ops pw_memory_legacy = {
    .size = sizeof(pw_memory_ops),
    .kind = PEERWIN_HANDLE_LEGACY,
    .name = "legacy",
    .needs_fd = 0,
    .granularity = granularity,
    .alloc = legacy_alloc,
    .seal = legacy_seal,
    .export_handle = legacy_export,
    .exported = legacy_exported,
    .map = legacy_map,
    .unmap = legacy_unmap,
    .release = legacy_release,
};
