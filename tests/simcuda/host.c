/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Host memory that devices may touch: registered and allocated page-locked memory.
 */
#include "sim.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Are all pages mapped? mincore fails on holes. */
static bool is_mapped(uintptr_t start, size_t size) {
    uintptr_t page = start & ~(uintptr_t)(SIM_PAGE - 1);
    for (; page < start + size; page += SIM_PAGE) {
        unsigned char state;
        if (mincore((void *)page, SIM_PAGE, &state) != 0) {
            return false;
        }
    }
    return true;
}

static bool overlaps(uintptr_t start, size_t size) {
    for (const struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        if ((r->kind == SIM_RANGE_HOST || r->kind == SIM_RANGE_HOST_OWN) && start < r->start + r->size &&
            r->start < start + size) {
            return true;
        }
    }
    return false;
}

static CUresult register_range(void *p, size_t bytes, unsigned flags) {
    const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |
                           CU_MEMHOSTREGISTER_READ_ONLY;
    CUresult rc;
    struct sim_context *ctx = sim_current(&rc);
    if (ctx == NULL) {
        return rc;
    }
    if (p == NULL || bytes == 0 || (flags & ~known) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (overlaps((uintptr_t)p, bytes)) {
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    if (flags & (CU_MEMHOSTREGISTER_READ_ONLY | CU_MEMHOSTREGISTER_IOMEMORY)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!is_mapped((uintptr_t)p, bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_range *range = sim_range_add(SIM_RANGE_HOST, (uintptr_t)p, bytes);
    range->ctx = ctx;
    range->device = ctx->device;
    range->buffer_id = ++sim.next_buffer_id;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags) {
    SIM_RUN(cuMemHostRegister_v2, register_range(p, bytesize, Flags));
}

static CUresult unregister(void *p) {
    CUresult rc;
    struct sim_context *current = sim_current(&rc);
    struct sim_range *range = sim_range_exact((uintptr_t)p);
    if (range == NULL || range->kind != SIM_RANGE_HOST) {
        return current == NULL ? rc : sim_misuse(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "%p is not registered", p);
    }
    if (range->ctx->lost == CUDA_SUCCESS) {
        (void)sim_context_drain(range->ctx);
    }
    sim_range_remove(range);
    return rc;
}

SIM_ENTRY cuMemHostUnregister(void *p) {
    SIM_RUN_RELEASE(cuMemHostUnregister, unregister(p));
}

static CUresult allocate(void **pp, size_t bytes, unsigned flags) {
    CUresult rc;
    struct sim_context *ctx = sim_current(&rc);
    if (ctx == NULL) {
        return rc;
    }
    if (pp == NULL || bytes == 0 || (flags & ~7u) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t rounded = (bytes + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
    void *map = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memset(map, 0xcb, bytes);
    struct sim_range *range = sim_range_add(SIM_RANGE_HOST_OWN, (uintptr_t)map, bytes);
    range->offset = rounded;
    range->ctx = ctx;
    range->device = ctx->device;
    range->buffer_id = ++sim.next_buffer_id;
    *pp = map;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemAllocHost_v2(void **pp, size_t bytesize) {
    SIM_RUN(cuMemAllocHost_v2, allocate(pp, bytesize, 0));
}

SIM_ENTRY cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags) {
    SIM_RUN(cuMemHostAlloc, allocate(pp, bytesize, Flags));
}

static CUresult release(void *p) {
    CUresult rc;
    struct sim_context *current = sim_current(&rc);
    if (p == NULL) {
        return current == NULL ? rc : CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_range *range = sim_range_exact((uintptr_t)p);
    if (range == NULL || range->kind != SIM_RANGE_HOST_OWN) {
        return current == NULL ? rc : sim_misuse(CUDA_ERROR_INVALID_VALUE, "%p was not allocated here", p);
    }
    if (range->ctx->lost == CUDA_SUCCESS) {
        (void)sim_context_drain(range->ctx);
    }
    (void)sim_free_range(range);
    return rc;
}

SIM_ENTRY cuMemFreeHost(void *p) {
    SIM_RUN_RELEASE(cuMemFreeHost, release(p));
}

static CUresult device_pointer(CUdeviceptr *ptr_out, void *p, unsigned flags) {
    CUresult rc;
    if (sim_current(&rc) == NULL) {
        return rc;
    }
    const struct sim_range *range = sim_range_at((uintptr_t)p);
    if (ptr_out == NULL || flags != 0 || range == NULL ||
        (range->kind != SIM_RANGE_HOST && range->kind != SIM_RANGE_HOST_OWN)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *ptr_out = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags) {
    SIM_RUN(cuMemHostGetDevicePointer_v2, device_pointer(pdptr, p, Flags));
}
