/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Stream-ordered memory. A pool is one sparse memfd; its allocations are pieces of it, accessible from allocation to
 * free. Freeing happens when the stream gets there.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define POOL_BYTES ((size_t)4 << 30)

static struct sim_pool *default_pools[SIM_MAX_DEVICES]; /* by physical device */

static void count_pool(struct sim_object *object, void *data) {
    const struct sim_pool *pool = (const struct sim_pool *)object;
    *(size_t *)data += !pool->is_default && !pool->destroyed;
}

size_t sim_pool_count(void) {
    size_t count = 0;
    sim_object_each(SIM_POOL, count_pool, &count);
    return count;
}

struct sim_pool *sim_pool_find(CUmemoryPool handle, CUresult *rc_out) {
    struct sim_pool *pool = sim_object_find((uint64_t)(uintptr_t)handle, SIM_POOL, CUDA_ERROR_INVALID_VALUE,
                                            CUDA_ERROR_INVALID_VALUE, rc_out);
    if (pool != NULL && pool->destroyed) {
        *rc_out = sim_misuse(CUDA_ERROR_INVALID_VALUE, "a pool is used after its end");
        return NULL;
    }
    return pool;
}

CUresult sim_pool_make(struct sim_phys *phys, struct sim_pool **pool_out) {
    uintptr_t start = sim_va_take(phys->bytes, SIM_GRANULE);
    if (start == 0 || !sim_va_map(start, phys->bytes, phys, 0, PROT_NONE)) {
        sim_phys_unref(phys);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sim_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        sim_die("out of host memory");
    }
    pool->phys = phys;
    pool->imported = phys->imported;
    pool->start = start;
    pool->device = (int)phys->label->device;
    pool->access[pool->device] = 3;
    if (phys->imported && sim_ordinal(pool->device) < 0) {
        memset(pool->access, 3, sizeof pool->access);
    }
    sim_object_add(&pool->object, SIM_POOL);
    *pool_out = pool;
    return CUDA_SUCCESS;
}

static void drop_if_unused(struct sim_pool *pool) {
    if (!pool->destroyed || pool->live > 0) {
        return;
    }
    struct sim_phys *phys = pool->phys;
    sim_va_unmap(pool->start, phys->bytes);
    sim_va_give(pool->start, phys->bytes);
    if (phys->imported) { /* its handle does no harm afterwards */
        pool->phys = NULL;
    } else {
        sim_object_remove(&pool->object);
        free(pool);
    }
    sim_phys_unref(phys);
}

static CUresult create(CUmemoryPool *pool_out, const CUmemPoolProps *props) {
    if (pool_out == NULL || props == NULL || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_device_check(props->location.id) != CUDA_SUCCESS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((props->handleTypes & CU_MEM_HANDLE_TYPE_FABRIC) && !sim.topology.imex) {
        (void)sim_misuse(CUDA_SUCCESS, "a fabric pool without an IMEX channel: drivers crash at its end");
    }
    struct sim_phys *phys = NULL;
    struct sim_pool *pool = NULL;
    CUresult rc = sim_phys_create(SIM_SHARE_POOL, sim.topology.visible[props->location.id], POOL_BYTES,
                                  (unsigned)props->handleTypes, false, &phys);
    if (rc == CUDA_SUCCESS) {
        rc = sim_pool_make(phys, &pool);
    }
    if (rc == CUDA_SUCCESS) {
        *pool_out = (CUmemoryPool)(uintptr_t)pool->object.handle;
    }
    return rc;
}

SIM_ENTRY cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
    SIM_RUN(cuMemPoolCreate, create(pool, poolProps));
}

static size_t held_of(const struct sim_pool *pool) {
    size_t held = 0;
    for (const struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        held += r->pool == pool && !r->freeing;
    }
    return held;
}

/* Refused while there are pointers from it, and good for nothing once it is done. */
static CUresult destroy_imported(struct sim_pool *pool) {
    if (pool->destroyed) {
        return sim_misuse(CUDA_SUCCESS, "an imported pool ends twice");
    }
    if (held_of(pool) > 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pool->destroyed = true;
    drop_if_unused(pool);
    return CUDA_SUCCESS;
}

static CUresult destroy(CUmemoryPool handle) {
    CUresult rc;
    struct sim_pool *pool =
        sim_object_find((uint64_t)(uintptr_t)handle, SIM_POOL, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, &rc);
    if (pool != NULL && pool->imported) {
        return destroy_imported(pool);
    }
    pool = sim_pool_find(handle, &rc);
    if (pool == NULL) {
        return rc;
    }
    if (pool->is_default) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((pool->phys->label->handle_types & CU_MEM_HANDLE_TYPE_FABRIC) && !sim.topology.imex) {
        sim_crash("the end of a fabric pool without an IMEX channel");
    }
    size_t held = held_of(pool);
    if (held > 0) {
        (void)sim_misuse(CUDA_SUCCESS, "a pool ends with %zu allocations in it", held);
    }
    pool->destroyed = true;
    drop_if_unused(pool);
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemPoolDestroy(CUmemoryPool pool) {
    SIM_RUN_RELEASE(cuMemPoolDestroy, destroy(pool));
}

static CUresult default_pool(int device, struct sim_pool **pool_out) {
    if (default_pools[device] == NULL) {
        struct sim_phys *phys = NULL;
        CUresult rc = sim_phys_create(SIM_SHARE_POOL, device, POOL_BYTES, 0, false, &phys);
        if (rc == CUDA_SUCCESS) {
            rc = sim_pool_make(phys, &default_pools[device]);
        }
        if (rc != CUDA_SUCCESS) {
            return rc;
        }
        default_pools[device]->is_default = true;
    }
    *pool_out = default_pools[device];
    return CUDA_SUCCESS;
}

static CUresult get_default(CUmemoryPool *pool_out, CUdevice dev) {
    struct sim_pool *pool = NULL;
    CUresult rc = sim_device_check(dev);
    if (rc == CUDA_SUCCESS && pool_out == NULL) {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    if (rc == CUDA_SUCCESS) {
        rc = default_pool(sim.topology.visible[dev], &pool);
    }
    if (rc == CUDA_SUCCESS) {
        *pool_out = (CUmemoryPool)(uintptr_t)pool->object.handle;
    }
    return rc;
}

SIM_ENTRY cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
    SIM_RUN(cuDeviceGetDefaultMemPool, get_default(pool_out, dev));
}

static size_t pages(size_t bytes) {
    return (bytes + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
}

/* First gap between the pool's allocations. */
static uintptr_t find_room(const struct sim_pool *pool, size_t bytes) {
    uintptr_t at = pool->start;
    for (bool moved = true; moved;) {
        moved = false;
        for (const struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
            if (r->pool == pool && at < r->start + pages(r->size) && r->start < at + bytes) {
                at = r->start + pages(r->size);
                moved = true;
            }
        }
    }
    return at + bytes <= pool->start + pool->phys->bytes ? at : 0;
}

struct sim_range *sim_pool_add_range(struct sim_pool *pool, struct sim_context *ctx, uintptr_t start, size_t bytes,
                                     enum sim_range_kind kind) {
    struct sim_range *range = sim_range_add(kind, start, bytes);
    range->phys = pool->phys;
    range->offset = start - pool->start;
    range->ctx = ctx;
    range->device = pool->device;
    range->buffer_id = ++sim.next_buffer_id;
    range->pool = pool;
    memcpy(range->access, pool->access, sizeof range->access);
    sim_apply_access(range, pages(range->size));
    pool->live++;
    return range;
}

static void make_dirty(const struct sim_range *range) {
    size_t bytes = pages(range->size) < SIM_GRANULE ? pages(range->size) : SIM_GRANULE;
    sim_phys_dirty(range->phys, range->offset, bytes);
}

static CUresult allocate(CUdeviceptr *ptr_out, size_t bytes, struct sim_pool *pool, CUstream handle) {
    CUresult rc;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream == NULL) {
        return rc;
    }
    if (ptr_out == NULL || pool->phys->imported) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (bytes == 0) {
        *ptr_out = 0;
        return CUDA_SUCCESS;
    }
    if (stream->capture != NULL) {
        sim_die("allocation nodes are not simulated");
    }
    rc = sim_charge(pool->device, pages(bytes));
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    uintptr_t start = find_room(pool, pages(bytes));
    if (start == 0) {
        sim_used[pool->device] -= pages(bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sim_range *range = sim_pool_add_range(pool, stream->ctx, start, bytes, SIM_RANGE_POOL);
    make_dirty(range);
    *ptr_out = start;
    return CUDA_SUCCESS;
}

static CUresult allocate_from(CUdeviceptr *ptr_out, size_t bytes, CUmemoryPool handle, CUstream stream) {
    CUresult rc;
    struct sim_pool *pool = sim_pool_find(handle, &rc);
    return pool == NULL ? rc : allocate(ptr_out, bytes, pool, stream);
}

SIM_ENTRY cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    SIM_RUN(cuMemAllocFromPoolAsync, allocate_from(dptr, bytesize, pool, hStream));
}

static CUresult allocate_default(CUdeviceptr *ptr_out, size_t bytes, CUstream handle) {
    CUresult rc;
    struct sim_pool *pool = NULL;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream != NULL) {
        rc = default_pool(stream->ctx->device, &pool);
    }
    return rc == CUDA_SUCCESS ? allocate(ptr_out, bytes, pool, handle) : rc;
}

SIM_ENTRY cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    SIM_RUN(cuMemAllocAsync, allocate_default(dptr, bytesize, hStream));
}

void sim_pool_free_range(struct sim_range *range) {
    struct sim_pool *pool = range->pool;
    uint32_t tag = (uint32_t)(range->offset / SIM_PAGE) + 1;
    if (range->kind == SIM_RANGE_POOL_IN) {
        sim_phys_opened(pool->phys, tag, -1);
    } else {
        if (sim_phys_importers(pool->phys, tag) > 0) {
            (void)sim_misuse(CUDA_SUCCESS, "pool memory is freed while another process has it open");
        }
        sim_used[pool->device] -= pages(range->size);
    }
    sim_va_protect(range->start, pages(range->size), PROT_NONE);
    sim_range_remove(range);
    pool->live--;
    drop_if_unused(pool);
}

static CUresult free_async(CUdeviceptr ptr, CUstream handle) {
    CUresult rc;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    struct sim_range *range = sim_range_exact(ptr);
    if (range == NULL || range->freeing || (range->kind != SIM_RANGE_POOL && range->kind != SIM_RANGE_POOL_IN)) {
        return stream == NULL ? rc : sim_misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is no live pool memory", ptr);
    }
    if (stream == NULL) { /* a lost context runs nothing any more */
        (void)sim_free_range(range);
        return rc;
    }
    range->freeing = true;
    struct sim_op *op = sim_op_new(SIM_OP_FREE, 0);
    op->u.range = range;
    return sim_enqueue(stream, op);
}

SIM_ENTRY cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
    SIM_RUN_RELEASE(cuMemFreeAsync, free_async(dptr, hStream));
}

static CUresult set_access(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count) {
    CUresult rc;
    struct sim_pool *pool = sim_pool_find(handle, &rc);
    if (pool == NULL || (count > 0 && map == NULL)) {
        return pool == NULL ? rc : CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            sim_device_check(map[i].location.id) != CUDA_SUCCESS) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
        int device = sim.topology.visible[map[i].location.id];
        if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ) {
            return CUDA_ERROR_NOT_SUPPORTED;
        }
        if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE && device == pool->device) {
            return CUDA_ERROR_INVALID_DEVICE;
        }
        if (!sim_can_access(device, pool->device)) {
            return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
        }
        pool->access[device] = (unsigned char)map[i].flags;
    }
    for (struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        if (r->pool == pool) {
            memcpy(r->access, pool->access, sizeof r->access);
            sim_apply_access(r, pages(r->size));
        }
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count) {
    SIM_RUN(cuMemPoolSetAccess, set_access(pool, map, count));
}
