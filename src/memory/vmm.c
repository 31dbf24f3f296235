/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Virtual memory, shared by descriptors (kind fd) or fabric handles (kind fabric): both are the same but for how an
 * allocation is called in another process.
 *
 * A segment is a list of allocations that lie side by side, one if it is our own. A mapping is one reservation which is
 * filled piece by piece from the beginning, so how far it is filled is all that has to be known to undo it. Mapping is
 * not access: every mapping gets it for the importer's own devices. An allocation lives as long as somebody has it
 * mapped, so handles and descriptors go as soon as they have served.
 */
#include "memory/kinds.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define FD_TYPE     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define FABRIC_TYPE ((CUmemAllocationHandleType)PW_FABRIC_TYPE)

static CUmemAllocationHandleType type_of(const pw_memory_ops *ops) {
    return ops->needs_fd ? FD_TYPE : FABRIC_TYPE;
}

/* ---- address ranges ---- */

static CUmemAllocationProp properties(const pw_gpu *gpu, CUmemAllocationHandleType type) {
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = gpu->device;
    prop.requestedHandleTypes = type;
    return prop;
}

static peerwin_status ask_granularity(const pw_gpu *gpu, CUmemAllocationHandleType type, const pw_site *site,
                                      size_t *bytes_out) {
    size_t minimum = 0;
    size_t recommended = 0;
    CUmemAllocationProp prop = properties(gpu, type);
    CUresult code = gpu->driver->cuMemGetAllocationGranularity(&minimum, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (code == CUDA_SUCCESS)
        code = gpu->driver->cuMemGetAllocationGranularity(&recommended, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuMemGetAllocationGranularity");
    *bytes_out = minimum > recommended ? minimum : recommended;
    return PEERWIN_OK;
}

/* Where the driver does not tell, allocating and mapping fail and say so; any size is then as good as another. */
static size_t granularity_of(const pw_gpu *gpu, CUmemAllocationHandleType type) {
    size_t bytes = 1;
    if (ask_granularity(gpu, type, PW_SITE(NULL, NULL, PW_NONE, PW_NONE), &bytes) != PEERWIN_OK)
        return 1;
    return bytes;
}

static size_t fd_granularity(const pw_gpu *gpu) {
    return granularity_of(gpu, FD_TYPE);
}

static size_t fabric_granularity(const pw_gpu *gpu) {
    return granularity_of(gpu, FABRIC_TYPE);
}

static peerwin_status set_access(const pw_gpu *gpu, CUdeviceptr at, size_t bytes, CUmemAccess_flags flags,
                                 const pw_site *site) {
    CUmemAccessDesc *access = calloc((size_t)gpu->num_access, sizeof *access);
    if (!access)
        return pw_fail_errno(site, ENOMEM, "calloc");
    for (int i = 0; i < gpu->num_access; i++) {
        access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access[i].location.id = gpu->access[i];
        access[i].flags = flags;
    }
    CUresult code = gpu->driver->cuMemSetAccess(at, bytes, access, (size_t)gpu->num_access);
    free(access);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, "cuMemSetAccess");
}

static peerwin_status reserve(const pw_gpu *gpu, size_t bytes, const pw_site *site, CUdeviceptr *base_out) {
    CUresult code = gpu->driver->cuMemAddressReserve(base_out, bytes, 0, 0, 0);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, "cuMemAddressReserve");
}

/* Maps an allocation with access; nothing is mapped if that fails. */
static peerwin_status map_at(const pw_gpu *gpu, CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle handle,
                             CUmemAccess_flags flags, const pw_site *site) {
    CUresult code = gpu->driver->cuMemMap(at, bytes, 0, handle, 0);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuMemMap");
    peerwin_status status = set_access(gpu, at, bytes, flags, site);
    if (status != PEERWIN_OK)
        return pw_gpu_released(gpu, gpu->driver->cuMemUnmap(at, bytes), "cuMemUnmap", status);
    return PEERWIN_OK;
}

/* Gives a reservation back with what is mapped at its beginning; work on it would fault once it is unmapped. */
static peerwin_status take_down(pw_gpu *gpu, CUdeviceptr base, size_t filled, size_t reserved, peerwin_status first) {
    if (filled > 0) {
        if (!pw_gpu_quiet(gpu, "memory", &first))
            return first;
        first = pw_gpu_released(gpu, gpu->driver->cuMemUnmap(base, filled), "cuMemUnmap", first);
    }
    return pw_gpu_released(gpu, gpu->driver->cuMemAddressFree(base, reserved), "cuMemAddressFree", first);
}

/* ---- segments ---- */

/* One allocation of `bytes` bytes in a list of its own. */
static peerwin_status create(const pw_gpu *gpu, CUmemAllocationHandleType type, size_t bytes, const pw_site *site,
                             pw_vmm_pieces **list_out) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = properties(gpu, type);
    pw_vmm_pieces *list = calloc(1, sizeof *list);
    if (!list)
        return pw_fail_errno(site, ENOMEM, "calloc");
    peerwin_status status = PEERWIN_OK;
    CUresult code = gpu->driver->cuMemCreate(&handle, bytes, &prop, 0);
    if (code != CUDA_SUCCESS) {
        status = pw_fail_cuda(gpu->driver, site, code, "cuMemCreate");
        goto drop_list;
    }
    status = pw_vmm_append(list, handle, bytes, site);
    if (status != PEERWIN_OK)
        goto release_handle;
    *list_out = list;
    return PEERWIN_OK;

release_handle:
    status = pw_gpu_released(gpu, gpu->driver->cuMemRelease(handle), "cuMemRelease", status);
drop_list:
    return pw_vmm_drop(gpu, list, status);
}

/* Creates, maps and zeroes the memory of a segment whose size is known. */
static peerwin_status make_memory(pw_segment *segment, const pw_site *site) {
    pw_gpu *gpu = segment->gpu;
    CUdeviceptr base = 0;
    size_t filled = 0;
    pw_vmm_pieces *list = NULL;
    peerwin_status status = create(gpu, type_of(segment->ops), segment->mapped, site, &list);
    if (status != PEERWIN_OK)
        return status;
    status = reserve(gpu, segment->mapped, site, &base);
    if (status != PEERWIN_OK)
        goto drop_list;
    status = map_at(gpu, base, segment->mapped, list->pieces[0].handle, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, site);
    if (status != PEERWIN_OK)
        goto take_down;
    filled = segment->mapped;
    status = pw_gpu_zero(gpu, pw_device_pointer(base), segment->mapped, site);
    if (status != PEERWIN_OK)
        goto take_down;
    segment->base = pw_device_pointer(base);
    segment->details = list;
    return PEERWIN_OK;

take_down:
    status = take_down(gpu, base, filled, segment->mapped, status);
drop_list:
    return pw_vmm_drop(gpu, list, status);
}

static peerwin_status vmm_alloc(const pw_memory_ops *ops, pw_gpu *gpu, size_t bytes, const pw_site *site,
                                pw_segment *segment_out) {
    size_t granularity = 1;
    pw_segment segment = {.ops = ops, .gpu = gpu, .fd = -1, .num_pieces = 1};
    if (bytes != 0) {
        peerwin_status status = ask_granularity(gpu, type_of(ops), site, &granularity);
        if (status == PEERWIN_OK)
            status = pw_round_size(bytes, granularity, site, &segment.mapped);
        if (status == PEERWIN_OK)
            status = make_memory(&segment, site);
        if (status != PEERWIN_OK)
            return status;
    }
    *segment_out = segment;
    return PEERWIN_OK;
}

static peerwin_status fd_alloc(pw_gpu *gpu, const pw_order *order, const pw_site *site, pw_segment *segment_out) {
    return vmm_alloc(&pw_memory_fd, gpu, order->bytes, site, segment_out);
}

static peerwin_status fabric_alloc(pw_gpu *gpu, const pw_order *order, const pw_site *site, pw_segment *segment_out) {
    return vmm_alloc(&pw_memory_fabric, gpu, order->bytes, site, segment_out);
}

/* An importer sets its own access, so there is nothing to fix here. */
static peerwin_status vmm_seal(pw_segment *segment, unsigned flags, const pw_site *site) {
    (void)segment;
    (void)flags;
    (void)site;
    return PEERWIN_OK;
}

static peerwin_status export_fd(const pw_driver *driver, pw_vmm_piece *piece, const pw_site *site) {
    int fd = -1;
    CUresult code = driver->cuMemExportToShareableHandle(&fd, piece->handle, FD_TYPE, 0);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda_fd(driver, site, code, "cuMemExportToShareableHandle");
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        peerwin_status status = pw_fail_errno(site, errno, "fcntl(F_SETFD)");
        pw_close(&fd);
        return status;
    }
    piece->fd = fd;
    return PEERWIN_OK;
}

static peerwin_status export_fabric(const pw_driver *driver, pw_vmm_piece *piece, const pw_site *site) {
    CUresult code = driver->cuMemExportToShareableHandle(piece->token, piece->handle, FABRIC_TYPE, 0);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuMemExportToShareableHandle");
    return PEERWIN_OK;
}

static peerwin_status vmm_export(pw_segment *segment, int index, pw_handle *handle_out, const pw_site *site) {
    pw_vmm_pieces *list = segment->details;
    pw_handle handle = {.kind = segment->ops->kind, .fd = -1};
    if (segment->mapped != 0) {
        if (index < 0 || index >= list->count)
            return pw_fail(PEERWIN_ERR_INTERNAL, site, "piece %d of a segment with %d", index, list->count);
        pw_vmm_piece *piece = &list->pieces[index];
        if (!piece->has_export) {
            peerwin_status status =
                (segment->ops->needs_fd ? export_fd : export_fabric)(segment->gpu->driver, piece, site);
            if (status != PEERWIN_OK)
                return status;
            piece->has_export = 1;
        }
        handle.fd = piece->fd;
        handle.bytes = piece->bytes;
        memcpy(handle.token, piece->token, sizeof handle.token);
    }
    *handle_out = handle;
    return PEERWIN_OK;
}

static void vmm_exported(pw_segment *segment) {
    if (segment->details)
        pw_vmm_forget(segment->details);
}

static peerwin_status vmm_release(pw_segment *segment) {
    peerwin_status status = PEERWIN_OK;
    if (segment->base && !segment->attached) {
        CUdeviceptr base = pw_device_address(segment->base);
        status = take_down(segment->gpu, base, segment->mapped, segment->mapped, status);
    }
    status = pw_vmm_drop(segment->gpu, segment->details, status);
    *segment = (pw_segment){.fd = -1};
    return status;
}

/* ---- mappings: `native` is how many bytes from the beginning are filled ---- */

/* Sizes came from another process: trust nothing about them. */
static peerwin_status check_piece(const pw_mapping *mapping, const pw_handle *handle, size_t offset,
                                  const pw_site *site) {
    size_t granularity = 1;
    peerwin_status status = ask_granularity(mapping->gpu, type_of(mapping->ops), site, &granularity);
    if (status != PEERWIN_OK)
        return status;
    if (handle->bytes == 0 || handle->bytes % granularity != 0 || mapping->mapped % granularity != 0)
        return pw_fail(PEERWIN_ERR_INTERNAL, site,
                       "a piece of %zu of %zu bytes is no multiple of the granularity, which is %zu here",
                       handle->bytes, mapping->mapped, granularity);
    if (offset != mapping->native || offset > mapping->mapped || handle->bytes > mapping->mapped - offset)
        return pw_fail(PEERWIN_ERR_INTERNAL, site,
                       "a piece of %zu bytes at %zu of a segment of %zu bytes is not the next one", handle->bytes,
                       offset, mapping->mapped);
    return PEERWIN_OK;
}

static peerwin_status import(const pw_memory_ops *ops, const pw_gpu *gpu, const pw_handle *handle, const pw_site *site,
                             CUmemGenericAllocationHandle *native_out) {
    unsigned char token[PW_TOKEN_BYTES];
    if (ops->needs_fd) {
        CUresult code = gpu->driver->cuMemImportFromShareableHandle(native_out, (void *)(intptr_t)handle->fd, FD_TYPE);
        return code == CUDA_SUCCESS ? PEERWIN_OK
                                    : pw_fail_cuda_fd(gpu->driver, site, code, "cuMemImportFromShareableHandle");
    }
    memcpy(token, handle->token, sizeof token);
    CUresult code = gpu->driver->cuMemImportFromShareableHandle(native_out, token, FABRIC_TYPE);
    explicit_bzero(token, sizeof token);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, "cuMemImportFromShareableHandle");
}

/* Imports and maps one piece where the last one ended. The imported handle has served then. */
static peerwin_status map_piece(pw_mapping *mapping, const pw_handle *handle, const pw_site *site) {
    const pw_gpu *gpu = mapping->gpu;
    CUmemGenericAllocationHandle native = 0;
    CUmemAccess_flags flags =
        mapping->flags & PW_READ_ONLY ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    peerwin_status status = import(mapping->ops, gpu, handle, site, &native);
    if (status != PEERWIN_OK)
        return status;
    CUdeviceptr at = pw_device_address(mapping->base) + mapping->native;
    status = map_at(gpu, at, handle->bytes, native, flags, site);
    if (status == PEERWIN_OK)
        mapping->native += handle->bytes;
    return pw_gpu_released(gpu, gpu->driver->cuMemRelease(native), "cuMemRelease", status);
}

static peerwin_status give_up(pw_mapping *mapping, peerwin_status first) {
    if (mapping->base)
        first = take_down(mapping->gpu, pw_device_address(mapping->base), mapping->native, mapping->mapped, first);
    *mapping = (pw_mapping){0};
    return first;
}

static peerwin_status vmm_map(pw_mapping *mapping, const pw_handle *handle, size_t offset, const pw_site *site) {
    CUdeviceptr base = 0;
    if (mapping->mapped == 0)
        return PEERWIN_OK;
    peerwin_status status = check_piece(mapping, handle, offset, site);
    if (status == PEERWIN_OK && !mapping->base) {
        status = reserve(mapping->gpu, mapping->mapped, site, &base);
        if (status == PEERWIN_OK)
            mapping->base = pw_device_pointer(base);
    }
    if (status == PEERWIN_OK)
        status = map_piece(mapping, handle, site);
    return status == PEERWIN_OK ? PEERWIN_OK : give_up(mapping, status);
}

static peerwin_status vmm_unmap(pw_mapping *mapping) {
    return give_up(mapping, PEERWIN_OK);
}

const pw_memory_ops pw_memory_fd = {
    .size = sizeof(pw_memory_ops),
    .kind = PEERWIN_HANDLE_FD,
    .name = "fd",
    .needs_fd = 1,
    .granularity = fd_granularity,
    .alloc = fd_alloc,
    .seal = vmm_seal,
    .export_handle = vmm_export,
    .exported = vmm_exported,
    .map = vmm_map,
    .unmap = vmm_unmap,
    .release = vmm_release,
};

const pw_memory_ops pw_memory_fabric = {
    .size = sizeof(pw_memory_ops),
    .kind = PEERWIN_HANDLE_FABRIC,
    .name = "fabric",
    .needs_fd = 0,
    .granularity = fabric_granularity,
    .alloc = fabric_alloc,
    .seal = vmm_seal,
    .export_handle = vmm_export,
    .exported = vmm_exported,
    .map = vmm_map,
    .unmap = vmm_unmap,
    .release = vmm_release,
};
