/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * cuMemAlloc and what belongs to it. Small allocations share blocks of 2 MiB, as in a driver: exporting one of them
 * exports its block. Managed memory is ordinary shared memory. The asynchronous freeing of anything ends here.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SMALL_ALIGNMENT = 512 };
#define SMALL_LIMIT ((size_t)1 << 20)

/* A block of the driver's own heap; ranges of small allocations lie in it. */
struct block {
    struct block *next;
    struct sim_phys *phys;
    struct sim_context *ctx;
    uintptr_t start;
    size_t used, live;
};
static struct block *blocks;

static struct block *block_of(const struct sim_phys *phys) {
    for (struct block *b = blocks; b != NULL; b = b->next) {
        if (b->phys == phys) {
            return b;
        }
    }
    return NULL;
}

/* The memory of small allocations becomes dirty as they are made. */
static CUresult make_block(struct sim_context *ctx, size_t bytes, bool small, struct block **block_out) {
    struct sim_phys *phys = NULL;
    CUresult rc = sim_charge(ctx->device, bytes);
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    rc = sim_phys_create(SIM_SHARE_BLOCK, ctx->device, bytes, 0, !small, &phys);
    if (rc != CUDA_SUCCESS) {
        sim_used[ctx->device] -= bytes;
        return rc;
    }
    phys->charged = bytes;
    uintptr_t start = sim_va_take(bytes, SIM_GRANULE);
    if (start == 0 || !sim_va_map(start, bytes, phys, 0, PROT_READ | PROT_WRITE)) {
        sim_phys_unref(phys);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct block *block = calloc(1, sizeof *block);
    if (block == NULL) {
        sim_die("out of host memory");
    }
    *block = (struct block){blocks, phys, ctx, start, 0, 0};
    blocks = block;
    *block_out = block;
    return CUDA_SUCCESS;
}

static struct block *roomy_block(const struct sim_context *ctx, size_t bytes) {
    for (struct block *b = blocks; b != NULL; b = b->next) {
        if (b->ctx == ctx && b->phys->bytes == SIM_GRANULE && b->used > 0 && b->used <= SMALL_LIMIT * 2 - bytes) {
            return b;
        }
    }
    return NULL;
}

static void drop_block(struct block *block) {
    for (struct block **at = &blocks; *at != NULL; at = &(*at)->next) {
        if (*at == block) {
            *at = block->next;
            break;
        }
    }
    sim_va_unmap(block->start, block->phys->bytes);
    sim_va_give(block->start, block->phys->bytes);
    sim_phys_unref(block->phys);
    free(block);
}

static CUresult allocate(CUdeviceptr *ptr_out, size_t bytes) {
    CUresult rc;
    struct sim_context *ctx = sim_current(&rc);
    if (ctx == NULL) {
        return rc;
    }
    if (ptr_out == NULL || bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (bytes > sim.topology.device_bytes) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    bool small = bytes < SMALL_LIMIT;
    struct block *block = small ? roomy_block(ctx, bytes) : NULL;
    if (block == NULL) {
        size_t size = (bytes + SIM_GRANULE - 1) / SIM_GRANULE * SIM_GRANULE;
        rc = make_block(ctx, size, small, &block);
        if (rc != CUDA_SUCCESS) {
            return rc;
        }
    }
    struct sim_range *range = sim_range_add(SIM_RANGE_DEVICE, block->start + block->used, bytes);
    range->phys = block->phys;
    range->offset = block->used;
    range->ctx = ctx;
    range->device = ctx->device;
    range->buffer_id = ++sim.next_buffer_id;
    if (small) {
        sim_phys_dirty(block->phys, block->used, bytes);
    }
    block->used += small ? (bytes + SMALL_ALIGNMENT - 1) / SMALL_ALIGNMENT * SMALL_ALIGNMENT : block->phys->bytes;
    block->live++;
    *ptr_out = range->start;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
    SIM_RUN(cuMemAlloc_v2, allocate(dptr, bytesize));
}

static void free_device(struct sim_range *range) {
    struct block *block = block_of(range->phys);
    if (sim_phys_importers(range->phys, sim_legacy_tag(range)) > 0) {
        (void)sim_misuse(CUDA_SUCCESS, "memory is freed while another process has it open");
    }
    sim_range_remove(range);
    if (--block->live == 0) {
        drop_block(block);
    }
}

CUresult sim_free_range(struct sim_range *range) {
    switch (range->kind) {
    case SIM_RANGE_DEVICE:
        free_device(range);
        return CUDA_SUCCESS;
    case SIM_RANGE_LEGACY:
        sim_legacy_drop(range);
        return CUDA_SUCCESS;
    case SIM_RANGE_POOL:
    case SIM_RANGE_POOL_IN:
        sim_pool_free_range(range);
        return CUDA_SUCCESS;
    case SIM_RANGE_MANAGED:
    case SIM_RANGE_HOST_OWN:
        munmap((void *)range->start, range->offset);
        sim_range_remove(range);
        return CUDA_SUCCESS;
    case SIM_RANGE_HOST:
        sim_range_remove(range);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static void drain(struct sim_object *object, void *data) {
    struct sim_context *ctx = (struct sim_context *)object;
    if (!ctx->destroyed && ctx->lost == CUDA_SUCCESS && ctx->device == *(const int *)data) {
        (void)sim_context_drain(ctx);
    }
}

/* cuMemFree waits for the device, as drivers do: for the streams of every context of this process. */
static CUresult release(CUdeviceptr ptr) {
    CUresult rc = CUDA_SUCCESS;
    struct sim_context *current = sim_current(&rc);
    if (ptr == 0) {
        return rc;
    }
    struct sim_range *range = sim_range_exact(ptr);
    if (range == NULL || range->freeing) {
        return current == NULL && rc != CUDA_ERROR_INVALID_CONTEXT
                   ? rc
                   : sim_misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is no live allocation", ptr);
    }
    switch (range->kind) {
    case SIM_RANGE_DEVICE:
    case SIM_RANGE_POOL:
    case SIM_RANGE_POOL_IN:
    case SIM_RANGE_MANAGED:
        break;
    default:
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx did not come from an allocating call", ptr);
    }
    if (current == NULL && rc == CUDA_ERROR_INVALID_CONTEXT) {
        rc = sim_misuse(CUDA_SUCCESS, "no current context");
    }
    range->freeing = true;
    int device = range->device;
    sim_object_each(SIM_CONTEXT, drain, &device);
    CUresult drained = range->ctx != NULL ? range->ctx->lost : rc;
    range->freeing = false;
    (void)sim_free_range(range);
    return rc != CUDA_SUCCESS ? rc : drained;
}

SIM_ENTRY cuMemFree_v2(CUdeviceptr dptr) {
    SIM_RUN_RELEASE(cuMemFree_v2, release(dptr));
}

static CUresult get_info(size_t *free_out, size_t *total_out) {
    CUresult rc;
    struct sim_context *ctx = sim_current(&rc);
    if (ctx == NULL) {
        return rc;
    }
    if (free_out == NULL || total_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *total_out = sim.topology.device_bytes;
    *free_out = sim.topology.device_bytes - sim_used[ctx->device];
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemGetInfo_v2(size_t *free, size_t *total) {
    SIM_RUN(cuMemGetInfo_v2, get_info(free, total));
}

static CUresult address_range(CUdeviceptr *base_out, size_t *size_out, CUdeviceptr ptr) {
    CUresult rc;
    if (sim_current(&rc) == NULL) {
        return rc;
    }
    const struct sim_range *range = sim_range_at(ptr);
    if (range == NULL || !sim_range_reachable(range)) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (base_out != NULL) {
        *base_out = range->start;
    }
    if (size_out != NULL) {
        *size_out = range->size;
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
    SIM_RUN(cuMemGetAddressRange_v2, address_range(pbase, psize, dptr));
}

static CUresult allocate_managed(CUdeviceptr *ptr_out, size_t bytes, unsigned flags) {
    CUresult rc;
    struct sim_context *ctx = sim_current(&rc);
    if (ctx == NULL) {
        return rc;
    }
    if (ptr_out == NULL || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t rounded = (bytes + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
    void *map = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sim_range *range = sim_range_add(SIM_RANGE_MANAGED, (uintptr_t)map, bytes);
    range->offset = rounded;
    range->ctx = ctx;
    range->device = ctx->device;
    range->buffer_id = ++sim.next_buffer_id;
    *ptr_out = range->start;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
    SIM_RUN(cuMemAllocManaged, allocate_managed(dptr, bytesize, flags));
}
