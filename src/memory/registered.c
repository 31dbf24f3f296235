/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared host memory that devices load and store: the memory files of host.c, registered with the driver by everyone
 * who maps them. The pages are pinned, so there is nothing sparse about it.
 *
 * Host and device must know it under one address; where a driver gives it two, the kind is not to be had. A driver
 * registers read-only memory only if it is told so and the device can do it.
 */
#include "memory/kinds.h"

static size_t granularity(const pw_gpu *gpu) {
    return pw_memory_host.granularity(gpu);
}

static peerwin_status unregister(const pw_gpu *gpu, void *base, peerwin_status first) {
    return pw_gpu_released(gpu, gpu->driver->cuMemHostUnregister(base), "cuMemHostUnregister", first);
}

static peerwin_status check_address(const pw_gpu *gpu, void *base, const pw_site *site) {
    CUdeviceptr address = 0;
    CUresult code = gpu->driver->cuMemHostGetDevicePointer(&address, base, 0);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuMemHostGetDevicePointer");
    if (address != pw_device_address(base))
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "device %s knows registered host memory under another address than the host", gpu->about.uuid);
    return PEERWIN_OK;
}

static peerwin_status check_read_only(const pw_gpu *gpu, const pw_site *site) {
    int supported = 0;
    CUresult code = gpu->driver->cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
                                                      gpu->device);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuDeviceGetAttribute");
    if (!supported)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site, "device %s cannot use host memory that is mapped read-only",
                       gpu->about.uuid);
    return PEERWIN_OK;
}

static peerwin_status register_memory(const pw_gpu *gpu, void *base, size_t bytes, unsigned flags,
                                      const pw_site *site) {
    unsigned how = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    if (flags & PW_READ_ONLY) {
        peerwin_status status = check_read_only(gpu, site);
        if (status != PEERWIN_OK)
            return status;
        how |= CU_MEMHOSTREGISTER_READ_ONLY;
    }
    CUresult code = gpu->driver->cuMemHostRegister(base, bytes, how);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuMemHostRegister");
    peerwin_status status = check_address(gpu, base, site);
    return status == PEERWIN_OK ? PEERWIN_OK : unregister(gpu, base, status);
}

static peerwin_status registered_alloc(pw_gpu *gpu, const pw_order *order, const pw_site *site,
                                       pw_segment *segment_out) {
    pw_segment segment;
    pw_order all = *order;
    all.flags &= ~(unsigned)PW_SPARSE;
    peerwin_status status = pw_memory_host.alloc(NULL, &all, site, &segment);
    if (status != PEERWIN_OK)
        return status;
    if (segment.mapped != 0)
        status = register_memory(gpu, segment.base, segment.mapped, 0, site);
    if (status != PEERWIN_OK) {
        (void)pw_memory_host.release(&segment);
        return status;
    }
    segment.ops = &pw_memory_registered;
    segment.gpu = gpu;
    *segment_out = segment;
    return PEERWIN_OK;
}

static peerwin_status registered_seal(pw_segment *segment, unsigned flags, const pw_site *site) {
    return pw_memory_host.seal(segment, flags, site);
}

static peerwin_status registered_export(pw_segment *segment, int piece, pw_handle *handle_out, const pw_site *site) {
    return pw_memory_host.export_handle(segment, piece, handle_out, site);
}

static void registered_exported(pw_segment *segment) {
    pw_memory_host.exported(segment);
}

static peerwin_status registered_map(pw_mapping *mapping, const pw_handle *handle, size_t offset, const pw_site *site) {
    if (mapping->mapped == 0)
        return PEERWIN_OK;
    peerwin_status status = pw_memory_host.map(mapping, handle, offset, site);
    if (status != PEERWIN_OK)
        return status;
    status = register_memory(mapping->gpu, mapping->base, mapping->mapped, mapping->flags, site);
    if (status != PEERWIN_OK)
        (void)pw_memory_host.unmap(mapping);
    return status;
}

static peerwin_status registered_unmap(pw_mapping *mapping) {
    peerwin_status status = PEERWIN_OK;
    if (mapping->base) {
        if (pw_gpu_quiet(mapping->gpu, "a peer's memory", &status))
            status = unregister(mapping->gpu, mapping->base, status);
        else
            mapping->base = NULL; /* the device may still use it */
    }
    (void)pw_memory_host.unmap(mapping);
    return status;
}

static peerwin_status registered_release(pw_segment *segment) {
    peerwin_status status = PEERWIN_OK;
    if (segment->base) {
        if (pw_gpu_quiet(segment->gpu, "memory", &status))
            status = unregister(segment->gpu, segment->base, status);
        else
            segment->base = NULL; /* the device may still use it */
    }
    (void)pw_memory_host.release(segment);
    return status;
}

const pw_memory_ops pw_memory_registered = {
    .size = sizeof(pw_memory_ops),
    .kind = PEERWIN_HANDLE_HOST,
    .name = "host",
    .needs_fd = 1,
    .granularity = granularity,
    .alloc = registered_alloc,
    .seal = registered_seal,
    .export_handle = registered_export,
    .exported = registered_exported,
    .map = registered_map,
    .unmap = registered_unmap,
    .release = registered_release,
};
