/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Host memory that devices may touch: registered and allocated page-locked memory.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* What all pages of a range allow, from the kernel's list of mappings: PROT_READ and PROT_WRITE; 0 where there is a
 * hole. */
static int protection_of(uintptr_t start, size_t size) {
    unsigned long long from, to;
    char rights[5], line[512];
    int all = PROT_READ | PROT_WRITE;
    uintptr_t at = start;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL) {
        return all;
    }
    while (at < start + size && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%llx-%llx %4s", &from, &to, rights) != 3 || to <= at) {
            continue;
        }
        if (from > at) {
            break;
        }
        all &= (rights[0] == 'r' ? PROT_READ : 0) | (rights[1] == 'w' ? PROT_WRITE : 0);
        at = (uintptr_t)to;
    }
    fclose(maps);
    return at >= start + size ? all : 0;
}

/* A driver's host range that overlaps, or NULL. */
static struct sim_range *overlapped(uintptr_t start, size_t size) {
    for (struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        if ((r->kind == SIM_RANGE_HOST || r->kind == SIM_RANGE_HOST_OWN) && start < r->start + r->size &&
            r->start < start + size) {
            return r;
        }
    }
    return NULL;
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
    const struct sim_range *there = overlapped((uintptr_t)p, bytes);
    if (there != NULL) {
        return there->kind == SIM_RANGE_HOST ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_ERROR_INVALID_VALUE;
    }
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    int needed = flags & CU_MEMHOSTREGISTER_READ_ONLY ? PROT_READ : PROT_READ | PROT_WRITE;
    if ((protection_of((uintptr_t)p, bytes) & needed) != needed) {
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
        CUresult wrong =
            overlapped((uintptr_t)p, 1) != NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
        return current == NULL ? rc : sim_misuse(wrong, "%p is not the start of a registration", p);
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
        return rc;
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
