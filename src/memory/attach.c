/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the caller's memory is, and the segment that can share it.
 *
 * The driver knows every address that it gave out; whatever else can be asked is asked of the allocation around the
 * address, since it is shared as a whole and the window's place in it travels beside it. Memory that has no handle for
 * other processes is refused here, by its name and with what to use instead.
 */
#include "memory/kinds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What the driver says of an address. */
typedef struct {
    CUmemorytype type; /* 0: nothing is known */
    int ordinal;
    int managed;
    int legacy;
    CUmemoryPool pool;
    unsigned handle_types;
    CUdeviceptr start; /* of the allocation; of virtual memory, of its reservation */
    size_t size;
    CUcontext context; /* of cudaMalloc memory */
    uint64_t id;
} facts;

enum { CONTEXT, START, SIZE, TYPE, ORDINAL, MANAGED, LEGACY, POOL, HANDLE_TYPES, ID, NUM_FACTS };

static peerwin_status ask(const pw_driver *driver, CUdeviceptr pointer, const pw_site *site, facts *facts_out) {
    static const CUpointer_attribute attributes[NUM_FACTS] = {
        [CONTEXT] = CU_POINTER_ATTRIBUTE_CONTEXT,
        [START] = CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        [SIZE] = CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        [TYPE] = CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        [ORDINAL] = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        [MANAGED] = CU_POINTER_ATTRIBUTE_IS_MANAGED,
        [LEGACY] = CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        [POOL] = CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
        [HANDLE_TYPES] = CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
        [ID] = CU_POINTER_ATTRIBUTE_BUFFER_ID,
    };
    CUpointer_attribute wanted[NUM_FACTS]; /* the driver takes no constants */
    uint64_t values[NUM_FACTS] = {0};      /* each attribute fills the first bytes of its own: 1, 4 or 8 */
    void *places[NUM_FACTS];
    for (int i = 0; i < NUM_FACTS; i++) {
        wanted[i] = attributes[i];
        places[i] = &values[i];
    }
    CUresult code = driver->cuPointerGetAttributes(NUM_FACTS, wanted, places, pointer);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuPointerGetAttributes");
    *facts_out = (facts){.type = (CUmemorytype)values[TYPE],
                         .ordinal = (int)(uint32_t)values[ORDINAL],
                         .managed = values[MANAGED] != 0,
                         .legacy = values[LEGACY] != 0,
                         .pool = (CUmemoryPool)(uintptr_t)values[POOL],
                         .handle_types = (unsigned)values[HANDLE_TYPES],
                         .context = (CUcontext)(uintptr_t)values[CONTEXT],
                         .start = (CUdeviceptr)values[START],
                         .size = (size_t)values[SIZE],
                         .id = values[ID]};
    return PEERWIN_OK;
}

/* ---- refusals ---- */

static peerwin_status refuse_kind(const facts *f, const pw_site *site) {
    if (f->managed)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "managed memory (cudaMallocManaged) cannot be shared between processes: attach memory of "
                       "cudaMalloc, or let peerwin_win_alloc allocate it");
    if (f->type == CU_MEMORYTYPE_HOST)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "host memory that this process has already (page-locked or registered) cannot be mapped by "
                       "another process: attach memory of cudaMalloc, or let peerwin_win_alloc allocate it");
    if (f->type != CU_MEMORYTYPE_DEVICE)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "the CUDA driver does not know this memory: it is private host memory, or device memory that "
                       "was freed. Attach memory of cudaMalloc, or let peerwin_win_alloc allocate it");
    return PEERWIN_OK;
}

static int has_access(const pw_gpu *gpu, CUdevice device) {
    for (int i = 0; i < gpu->num_access; i++)
        if (gpu->access[i] == device)
            return 1;
    return 0;
}

static peerwin_status refuse_device(const pw_gpu *gpu, int ordinal, const pw_site *site) {
    CUdevice device = 0;
    if (ordinal >= 0) {
        CUresult code = gpu->driver->cuDeviceGet(&device, ordinal);
        if (code != CUDA_SUCCESS)
            return pw_fail_cuda(gpu->driver, site, code, "cuDeviceGet");
        if (has_access(gpu, device))
            return PEERWIN_OK;
    }
    return pw_fail(PEERWIN_ERR_ARG, site,
                   "the memory is on device %d, and this context uses device %d: make its context on that device, or "
                   "name the device in peerwin_config.devices",
                   ordinal, gpu->ordinal);
}

static peerwin_status refuse_unshareable(const char *what, const pw_site *site) {
    return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                   "%s: attach memory of cudaMalloc, or let peerwin_win_alloc allocate it", what);
}

/* ---- one allocation ---- */

static peerwin_status leaves(size_t offset, size_t bytes, size_t size, const pw_site *site) {
    return pw_fail(PEERWIN_ERR_RANGE, site,
                   "%zu bytes from offset %zu leave the caller's allocation, which has %zu bytes", bytes, offset, size);
}

static peerwin_status refuse_closed(const pw_gpu *gpu, const char *remedy, const pw_site *site) {
    return pw_fail(PEERWIN_ERR_ARG, site, "device %d has no access to the memory: call %s for it first", gpu->ordinal,
                   remedy);
}

/*
 * Memory of another device of this rank must be within reach of the rank's own, whose streams move it: the driver finds
 * it from there once it is.
 */
static peerwin_status reach(const pw_gpu *gpu, CUdeviceptr pointer, const facts *f, const pw_site *site) {
    CUdeviceptr start = 0;
    size_t size = 0;
    CUresult code = gpu->driver->cuMemGetAddressRange(&start, &size, pointer);
    if (code == CUDA_SUCCESS)
        return PEERWIN_OK;
    if (code != CUDA_ERROR_NOT_FOUND)
        return pw_fail_cuda(gpu->driver, site, code, "cuMemGetAddressRange");
    if (!f->legacy || !f->context)
        return refuse_closed(gpu, "cudaMemPoolSetAccess", site);
    code = gpu->driver->cuCtxEnablePeerAccess(f->context, 0);
    if (code == CUDA_SUCCESS || code == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        return PEERWIN_OK;
    return pw_fail_cuda(gpu->driver, site, code, "cuCtxEnablePeerAccess");
}

/* And within reach of the other devices that the rank declared. */
static peerwin_status share_with_others(pw_gpu *gpu, const facts *f, const pw_site *site) {
    CUdevice device = 0;
    CUresult code = gpu->driver->cuDeviceGet(&device, f->ordinal);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuDeviceGet");
    return pw_legacy_share(gpu, device, f->context, f->start, site);
}

/*
 * Memory that is one allocation, with one handle. Where it begins is an attribute of the pointer: cuMemGetAddressRange
 * does not find memory of another device.
 */
static peerwin_status attach_whole(const pw_memory_ops *ops, pw_gpu *gpu, CUdeviceptr pointer, size_t bytes,
                                   const facts *f, const pw_site *site, pw_segment *segment_out, size_t *offset_out) {
    size_t offset = pointer - f->start;
    if (offset > f->size || bytes > f->size - offset)
        return leaves(offset, bytes, f->size, site);
    peerwin_status status = reach(gpu, pointer, f, site);
    if (status == PEERWIN_OK && f->legacy)
        status = share_with_others(gpu, f, site);
    if (status != PEERWIN_OK)
        return status;
    *segment_out = (pw_segment){.ops = ops,
                                .gpu = gpu,
                                .base = pw_device_pointer(f->start),
                                .mapped = f->size,
                                .fd = -1,
                                .attached = 1,
                                .id = f->id,
                                .num_pieces = 1,
                                .native = (uint64_t)(uintptr_t)f->pool};
    *offset_out = offset;
    return PEERWIN_OK;
}

static peerwin_status attach_pool(pw_gpu *gpu, CUdeviceptr pointer, size_t bytes, const facts *f, const pw_site *site,
                                  pw_segment *segment_out, size_t *offset_out) {
    if (!(f->handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return refuse_unshareable("stream-ordered memory (cudaMallocAsync) of a memory pool that is not shareable has "
                                  "no handle for other processes; a pool created with handle type "
                                  "cudaMemHandleTypePosixFileDescriptor is shareable",
                                  site);
    return attach_whole(&pw_memory_pool, gpu, pointer, bytes, f, site, segment_out, offset_out);
}

/* ---- virtual memory: all allocations under the range ---- */

/* Virtual memory is what has an allocation handle. */
static peerwin_status is_virtual(const pw_gpu *gpu, CUdeviceptr pointer, const pw_site *site, int *is_out) {
    CUmemGenericAllocationHandle handle = 0;
    CUresult code = gpu->driver->cuMemRetainAllocationHandle(&handle, pw_device_pointer(pointer));
    *is_out = code == CUDA_SUCCESS;
    if (code == CUDA_SUCCESS)
        return pw_gpu_released(gpu, gpu->driver->cuMemRelease(handle), "cuMemRelease", PEERWIN_OK);
    if (code == CUDA_ERROR_INVALID_VALUE)
        return PEERWIN_OK;
    return pw_fail_cuda(gpu->driver, site, code, "cuMemRetainAllocationHandle");
}

/* A range of virtual memory while it is walked. */
typedef struct {
    pw_vmm_pieces *list;
    CUdeviceptr start, end; /* of what was walked */
    unsigned handle_types;  /* that all allocations have */
    uint64_t id;
} walk;

/* An allocation that this rank's device cannot touch would break its context at the first use. */
static peerwin_status check_access(const pw_gpu *gpu, CUdeviceptr at, const pw_site *site) {
    unsigned long long flags = 0;
    CUmemLocation location;
    memset(&location, 0, sizeof location);
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = gpu->device;
    CUresult code = gpu->driver->cuMemGetAccess(&flags, &location, at);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuMemGetAccess");
    return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? refuse_closed(gpu, "cuMemSetAccess", site) : PEERWIN_OK;
}

static peerwin_status check_allocation(const pw_gpu *gpu, CUmemGenericAllocationHandle handle, CUdeviceptr at,
                                       const pw_site *site, unsigned *types_out) {
    CUmemAllocationProp prop;
    CUresult code = gpu->driver->cuMemGetAllocationPropertiesFromHandle(&prop, handle);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuMemGetAllocationPropertiesFromHandle");
    peerwin_status status = PEERWIN_OK;
    if (prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        status = refuse_unshareable("virtual memory that lies in host memory cannot be shared by peerwin", site);
    if (status == PEERWIN_OK)
        status = refuse_device(gpu, prop.location.id, site);
    if (status == PEERWIN_OK)
        status = check_access(gpu, at, site);
    if (status == PEERWIN_OK)
        *types_out = (unsigned)prop.requestedHandleTypes;
    return status;
}

/* A stretch of several allocations is named by all of them: the same beginning may go on differently next time. */
static uint64_t join_names(uint64_t name, uint64_t next) {
    return (name ^ next) * UINT64_C(0x9e3779b97f4a7c15) | UINT64_C(1) << 63;
}

static peerwin_status adopt(pw_gpu *gpu, walk *w, CUmemGenericAllocationHandle handle, size_t size,
                            const pw_site *site) {
    unsigned types = 0;
    facts f;
    peerwin_status status = check_allocation(gpu, handle, w->end, site, &types);
    if (status == PEERWIN_OK)
        status = ask(gpu->driver, w->end, site, &f);
    if (status == PEERWIN_OK)
        status = pw_vmm_append(w->list, handle, size, site);
    if (status != PEERWIN_OK)
        return status;
    w->id = w->list->count == 1 ? f.id : join_names(w->id, f.id);
    w->handle_types &= types;
    w->end += size;
    return PEERWIN_OK;
}

/* Nothing is known of a range that no device has access to, but that it has an allocation handle. */
static peerwin_status look_for_closed(const pw_gpu *gpu, CUdeviceptr at, const pw_site *site) {
    int has_handle = 0;
    peerwin_status status = is_virtual(gpu, at, site, &has_handle);
    return status == PEERWIN_OK && has_handle ? refuse_closed(gpu, "cuMemSetAccess", site) : status;
}

/* Adds the allocation that begins where the last one ended; *found_out is 0 if something else does, or nothing. */
static peerwin_status add_next(pw_gpu *gpu, walk *w, const pw_site *site, int *found_out) {
    CUdeviceptr start = 0;
    size_t size = 0;
    CUmemGenericAllocationHandle handle = 0;
    *found_out = 0;
    CUresult code = gpu->driver->cuMemGetAddressRange(&start, &size, w->end);
    if (code == CUDA_ERROR_NOT_FOUND)
        return look_for_closed(gpu, w->end, site);
    if (code == CUDA_SUCCESS && start != w->end)
        return PEERWIN_OK;
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuMemGetAddressRange");
    code = gpu->driver->cuMemRetainAllocationHandle(&handle, pw_device_pointer(start));
    if (code == CUDA_ERROR_INVALID_VALUE)
        return PEERWIN_OK;
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuMemRetainAllocationHandle");
    peerwin_status status = adopt(gpu, w, handle, size, site);
    if (status != PEERWIN_OK)
        return pw_gpu_released(gpu, gpu->driver->cuMemRelease(handle), "cuMemRelease", status);
    *found_out = 1;
    return PEERWIN_OK;
}

/* Whole allocations, side by side, until the range is covered. */
static peerwin_status walk_range(pw_gpu *gpu, walk *w, CUdeviceptr pointer, size_t bytes, const pw_site *site) {
    size_t size = 0;
    CUresult code = gpu->driver->cuMemGetAddressRange(&w->start, &size, pointer);
    if (code != CUDA_SUCCESS)
        return code == CUDA_ERROR_NOT_FOUND ? refuse_closed(gpu, "cuMemSetAccess", site)
                                            : pw_fail_cuda(gpu->driver, site, code, "cuMemGetAddressRange");
    peerwin_status status = PEERWIN_OK;
    w->end = w->start;
    while (status == PEERWIN_OK && w->end < pointer + bytes) {
        int found = 0;
        status = add_next(gpu, w, site, &found);
        if (status == PEERWIN_OK && !found)
            return leaves(pointer - w->start, bytes, w->end - w->start, site);
    }
    return status;
}

static const pw_memory_ops *ops_for(unsigned handle_types) {
    if (handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return &pw_memory_fd;
    return handle_types & PW_FABRIC_TYPE ? &pw_memory_fabric : NULL;
}

static peerwin_status attach_vmm(pw_gpu *gpu, CUdeviceptr pointer, size_t bytes, const pw_site *site,
                                 pw_segment *segment_out, size_t *offset_out) {
    walk w = {.list = calloc(1, sizeof *w.list), .handle_types = ~0u};
    if (!w.list)
        return pw_fail_errno(site, ENOMEM, "calloc");
    peerwin_status status = walk_range(gpu, &w, pointer, bytes, site);
    const pw_memory_ops *ops = ops_for(w.handle_types);
    if (status == PEERWIN_OK && !ops)
        status = refuse_unshareable("virtual memory (cuMemCreate) that was created without a handle type, or that "
                                    "belongs to another process, cannot be shared; requestedHandleTypes "
                                    "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR makes it shareable",
                                    site);
    if (status != PEERWIN_OK)
        return pw_vmm_drop(gpu, w.list, status);
    *segment_out = (pw_segment){.ops = ops,
                                .gpu = gpu,
                                .base = pw_device_pointer(w.start),
                                .mapped = w.end - w.start,
                                .fd = -1,
                                .attached = 1,
                                .id = w.id,
                                .num_pieces = w.list->count,
                                .details = w.list};
    *offset_out = pointer - w.start;
    return PEERWIN_OK;
}

/* ---- the choice ---- */

peerwin_status pw_gpu_attach(pw_gpu *gpu, void *base, size_t bytes, const pw_site *site, pw_segment *segment_out,
                             size_t *offset_out) {
    facts f;
    int has_handle = 0;
    CUdeviceptr pointer = pw_device_address(base);
    if (bytes == 0) {
        *segment_out = (pw_segment){.ops = &pw_memory_legacy, .gpu = gpu, .fd = -1, .attached = 1, .num_pieces = 1};
        *offset_out = 0;
        return PEERWIN_OK;
    }
    if (!base)
        return pw_fail(PEERWIN_ERR_ARG, site, "base is NULL and bytes is %zu", bytes);
    if (bytes > UINTPTR_MAX - (uintptr_t)base)
        return pw_fail(PEERWIN_ERR_RANGE, site, "%zu bytes from there leave the address space", bytes);
    peerwin_status status = ask(gpu->driver, pointer, site, &f);
    if (status == PEERWIN_OK)
        status = refuse_kind(&f, site);
    if (status == PEERWIN_OK)
        status = refuse_device(gpu, f.ordinal, site);
    if (status != PEERWIN_OK)
        return status;
    if (f.legacy)
        return attach_whole(&pw_memory_legacy, gpu, pointer, bytes, &f, site, segment_out, offset_out);
    if (f.pool)
        return attach_pool(gpu, pointer, bytes, &f, site, segment_out, offset_out);
    status = is_virtual(gpu, pointer, site, &has_handle);
    if (status != PEERWIN_OK)
        return status;
    if (has_handle)
        return attach_vmm(gpu, pointer, bytes, site, segment_out, offset_out);
    return refuse_unshareable("memory that another process shared with this one cannot be passed on", site);
}
