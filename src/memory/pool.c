/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of a pool that its owner made shareable: attached only, since windows of our own come from better places.
 *
 * The pool travels as a descriptor and the allocation as a token beside it. In an importer all imports of a pool are
 * one pool, which cannot be ended while there are pointers from it: every mapping imports it and tries to end it, and
 * the last one does. A pointer that is imported twice ends with its first free, so a process maps an allocation once.
 * Importers free before the owner does.
 */
#include "memory/kinds.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define FD_TYPE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

_Static_assert(sizeof(CUmemPoolPtrExportData) == PW_TOKEN_BYTES, "an exported pointer is a token");

static CUmemoryPool pool_of(uint64_t native) {
    return (CUmemoryPool)(uintptr_t)native;
}

static size_t granularity(const pw_gpu *gpu) {
    (void)gpu;
    return 1; /* allocations have any size */
}

static peerwin_status pool_alloc(pw_gpu *gpu, const pw_order *order, const pw_site *site, pw_segment *segment_out) {
    (void)gpu;
    (void)order;
    (void)segment_out;
    return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                   "windows are not allocated from memory pools: attach memory of a pool that was created with handle "
                   "type CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, or allow handles of kind fd or legacy");
}

static peerwin_status refuse_read_only(const pw_site *site) {
    return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                   "memory of a pool cannot be mapped read-only: use handles of kind fd");
}

static peerwin_status pool_seal(pw_segment *segment, unsigned flags, const pw_site *site) {
    (void)segment;
    return flags & PW_READ_ONLY ? refuse_read_only(site) : PEERWIN_OK;
}

/* The descriptor of the pool, made once. */
static peerwin_status export_pool(pw_segment *segment, const pw_site *site) {
    const pw_driver *driver = segment->gpu->driver;
    int fd = -1;
    if (segment->fd >= 0)
        return PEERWIN_OK;
    CUresult code = driver->cuMemPoolExportToShareableHandle(&fd, pool_of(segment->native), FD_TYPE, 0);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda_fd(driver, site, code, "cuMemPoolExportToShareableHandle");
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        peerwin_status status = pw_fail_errno(site, errno, "fcntl(F_SETFD)");
        pw_close(&fd);
        return status;
    }
    segment->fd = fd;
    return PEERWIN_OK;
}

/* A pointer can be exported after its pool. */
static peerwin_status pool_export(pw_segment *segment, int piece, pw_handle *handle_out, const pw_site *site) {
    (void)piece; /* there is one */
    peerwin_status status = export_pool(segment, site);
    if (status != PEERWIN_OK)
        return status;
    CUmemPoolPtrExportData data;
    CUresult code = segment->gpu->driver->cuMemPoolExportPointer(&data, pw_device_address(segment->base));
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(segment->gpu->driver, site, code, "cuMemPoolExportPointer");
    pw_handle handle = {.kind = PEERWIN_HANDLE_POOL, .fd = segment->fd, .bytes = segment->mapped};
    memcpy(handle.token, &data, sizeof handle.token);
    explicit_bzero(&data, sizeof data);
    *handle_out = handle;
    return PEERWIN_OK;
}

static void pool_exported(pw_segment *segment) {
    pw_close(&segment->fd);
}

/* Access for the devices of this rank, which must be had before there is a pointer. */
static peerwin_status give_access(const pw_gpu *gpu, CUmemoryPool pool, const pw_site *site) {
    CUmemAccessDesc *access = calloc((size_t)gpu->num_access, sizeof *access);
    if (!access)
        return pw_fail_errno(site, ENOMEM, "calloc");
    for (int i = 0; i < gpu->num_access; i++) {
        access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access[i].location.id = gpu->access[i];
        access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    CUresult code = gpu->driver->cuMemPoolSetAccess(pool, access, (size_t)gpu->num_access);
    free(access);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, "cuMemPoolSetAccess");
}

/*
 * Frees an imported pointer in stream order, and waits for that with the deadline; the driver's own free has none. The
 * synchronisation does not wait any more: without it a driver (580) does not notice that the pointer is free, and the
 * end of the pool leaves a descriptor behind.
 */
static peerwin_status free_pointer(pw_gpu *gpu, CUdeviceptr pointer, peerwin_status first) {
    CUresult code = gpu->driver->cuMemFreeAsync(pointer, gpu->stream);
    first = pw_gpu_released(gpu, code, "cuMemFreeAsync", first);
    if (pw_gpu_quiet(gpu, "a peer's memory", &first))
        first = pw_gpu_released(gpu, gpu->driver->cuStreamSynchronize(gpu->stream), "cuStreamSynchronize", first);
    return first;
}

static peerwin_status import_pointer(pw_gpu *gpu, CUmemoryPool pool, const pw_handle *handle, size_t bytes,
                                     const pw_site *site, CUdeviceptr *pointer_out) {
    CUdeviceptr pointer = 0;
    CUmemPoolPtrExportData data;
    memcpy(&data, handle->token, sizeof data);
    CUresult code = gpu->driver->cuMemPoolImportPointer(&pointer, pool, &data);
    explicit_bzero(&data, sizeof data);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuMemPoolImportPointer");
    peerwin_status status = pw_check_import(gpu, pointer, bytes, site);
    if (status != PEERWIN_OK)
        return free_pointer(gpu, pointer, status);
    *pointer_out = pointer;
    return PEERWIN_OK;
}

/* An invalid value says that other pointers of the pool are still mapped. */
static peerwin_status destroy_pool(const pw_gpu *gpu, CUmemoryPool pool, peerwin_status first) {
    CUresult code = gpu->driver->cuMemPoolDestroy(pool);
    return code == CUDA_ERROR_INVALID_VALUE ? first : pw_gpu_released(gpu, code, "cuMemPoolDestroy", first);
}

static peerwin_status pool_map(pw_mapping *mapping, const pw_handle *handle, size_t offset, const pw_site *site) {
    (void)offset; /* there is one piece */
    const pw_driver *driver = mapping->gpu->driver;
    CUdeviceptr pointer = 0;
    CUmemoryPool pool = NULL;
    if (mapping->mapped == 0)
        return PEERWIN_OK;
    if (mapping->flags & PW_READ_ONLY)
        return refuse_read_only(site);
    CUresult code = driver->cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)handle->fd, FD_TYPE, 0);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda_fd(driver, site, code, "cuMemPoolImportFromShareableHandle");
    peerwin_status status = give_access(mapping->gpu, pool, site);
    if (status == PEERWIN_OK)
        status = import_pointer(mapping->gpu, pool, handle, mapping->mapped, site, &pointer);
    if (status != PEERWIN_OK)
        return destroy_pool(mapping->gpu, pool, status);
    mapping->base = pw_device_pointer(pointer);
    mapping->native = (uint64_t)(uintptr_t)pool;
    return PEERWIN_OK;
}

static peerwin_status pool_unmap(pw_mapping *mapping) {
    peerwin_status status = PEERWIN_OK;
    if (mapping->base) {
        status = free_pointer(mapping->gpu, pw_device_address(mapping->base), status);
        status = destroy_pool(mapping->gpu, pool_of(mapping->native), status);
    }
    *mapping = (pw_mapping){0};
    return status;
}

static peerwin_status pool_release(pw_segment *segment) {
    pw_close(&segment->fd);
    *segment = (pw_segment){.fd = -1};
    return PEERWIN_OK;
}

const pw_memory_ops pw_memory_pool = {
    .size = sizeof(pw_memory_ops),
    .kind = PEERWIN_HANDLE_POOL,
    .name = "pool",
    .needs_fd = 1,
    .granularity = granularity,
    .alloc = pool_alloc,
    .seal = pool_seal,
    .export_handle = pool_export,
    .exported = pool_exported,
    .map = pool_map,
    .unmap = pool_unmap,
    .release = pool_release,
};
