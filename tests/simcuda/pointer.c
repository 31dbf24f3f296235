/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a pointer is: the attributes an application can ask for.
 */
#include "sim.h"

#include <string.h>

static bool is_host(const struct sim_range *range) {
    return range->kind == SIM_RANGE_HOST || range->kind == SIM_RANGE_HOST_OWN;
}

/* Host memory from cuMemCreate. */
static bool is_vmm_host(const struct sim_range *range) {
    return range->kind == SIM_RANGE_VMM && range->alloc->host;
}

static CUcontext context_of(const struct sim_range *range) {
    bool owned = range->kind == SIM_RANGE_DEVICE || range->kind == SIM_RANGE_LEGACY || is_host(range) ||
                 range->kind == SIM_RANGE_MANAGED;
    return owned && range->ctx != NULL ? (CUcontext)(uintptr_t)range->ctx->object.handle : NULL;
}

static CUmemoryPool pool_of(const struct sim_range *range) {
    return range->pool == NULL ? NULL : (CUmemoryPool)(uintptr_t)range->pool->object.handle;
}

/* Imported memory says none: it cannot be passed on. */
static unsigned handle_types(const struct sim_range *range) {
    bool kind = range->kind == SIM_RANGE_VMM || range->kind == SIM_RANGE_POOL;
    return kind && !range->phys->imported ? range->phys->label->handle_types : 0;
}

/* Of VMM memory the range is its reservation, however it is mapped. */
static void extent(const struct sim_range *range, uintptr_t *start_out, size_t *size_out) {
    *start_out = range->start;
    *size_out = range->size;
    if (range->kind == SIM_RANGE_VMM) {
        (void)sim_vmm_reservation(range->start, start_out, size_out);
    }
}

bool sim_range_reachable(const struct sim_range *range) {
    const struct sim_context *ctx = sim_current_or_null();
    if (ctx == NULL || is_host(range) || range->kind == SIM_RANGE_MANAGED) {
        return true;
    }
    if (range->kind == SIM_RANGE_DEVICE) {
        return ctx->device == range->device || ctx->peers[range->device];
    }
    return sim_accessible(ctx->device, range->start, 1, false);
}

/* Under which address device and host know it; an error where they do not. */
static CUresult address(void *data, CUpointer_attribute which, const struct sim_range *range, CUdeviceptr ptr) {
    bool device = which == CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
    if (device ? !sim_range_reachable(range) : !is_host(range) && range->kind != SIM_RANGE_MANAGED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *(CUdeviceptr *)data = ptr;
    return CUDA_SUCCESS;
}

/* Writes one attribute of a known range in the type the attribute has. */
static CUresult known(void *data, CUpointer_attribute which, const struct sim_range *range, CUdeviceptr ptr) {
    uintptr_t start;
    size_t size;
    extent(range, &start, &size);
    switch ((int)which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = context_of(range);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = is_host(range) || is_vmm_host(range) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return address(data, which, range, ptr);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = range->buffer_id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned char *)data = range->kind == SIM_RANGE_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = range->ctx != NULL && is_host(range) ? range->ctx->ordinal : sim_ordinal(range->device);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned char *)data = range->kind == SIM_RANGE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned char *)data = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)data = handle_types(range);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = pool_of(range);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(int *)data = range->kind == SIM_RANGE_VMM ? range->access[range->device] : 3;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(int *)data = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult one(void *data, CUpointer_attribute which, CUdeviceptr ptr) {
    const struct sim_range *range = sim_range_at(ptr);
    if (data == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (range == NULL || range->freeing) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return known(data, which, range, ptr);
}

SIM_ENTRY cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    SIM_RUN(cuPointerGetAttribute, one(data, attribute, ptr));
}

static size_t attribute_bytes(CUpointer_attribute which) {
    switch ((int)which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return 4;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return 1;
    default:
        return 8;
    }
}

/* The plural form succeeds for any pointer: what does not apply is zero (the ordinal -2). */
static CUresult many(unsigned count, const CUpointer_attribute *attributes, void **data, CUdeviceptr ptr) {
    const struct sim_range *range = sim_range_at(ptr);
    if (count == 0 || attributes == NULL || data == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < count; i++) {
        memset(data[i], 0, attribute_bytes(attributes[i]));
        if (range == NULL && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
            *(int *)data[i] = -2;
        } else if (range != NULL) {
            (void)known(data[i], attributes[i], range, ptr);
        }
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                 CUdeviceptr ptr) {
    SIM_RUN(cuPointerGetAttributes, many(numAttributes, attributes, data, ptr));
}
