/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pools between processes. Exporting a pool shares its file, exporting a pointer tells where in it. An imported pointer
 * is not counted: imported twice it is the same, and the first free is the last.
 */
#include "sim.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define POINTER_MAGIC 0x51c0da9017e5ULL

struct pointer_data {
    uint64_t magic, uid, offset, size;
};
_Static_assert(sizeof(struct pointer_data) <= sizeof(CUmemPoolPtrExportData), "fits");

static CUresult export_pool(void *out, CUmemoryPool handle, CUmemAllocationHandleType type, unsigned long long flags) {
    CUresult rc;
    struct sim_pool *pool = sim_pool_find(handle, &rc);
    if (pool == NULL) {
        return rc;
    }
    if (out == NULL || flags != 0 || pool->phys->imported || type == CU_MEM_HANDLE_TYPE_NONE ||
        ((unsigned)type & pool->phys->label->handle_types) != (unsigned)type) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (type == CU_MEM_HANDLE_TYPE_FABRIC && !sim.topology.imex) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    pool->exported = true;
    if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
        struct sim_ticket ticket = sim_ticket_make(pool->phys, 0, 0);
        memset(out, 0, sizeof(CUmemFabricHandle));
        memcpy(out, &ticket, sizeof ticket);
        sim_ticket_serve();
        return CUDA_SUCCESS;
    }
    int fd = pool->unexportable ? -1 : fcntl(pool->phys->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        pool->unexportable = true; /* drivers do not try again */
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType,
                                           unsigned long long flags) {
    SIM_RUN(cuMemPoolExportToShareableHandle, export_pool(handle_out, pool, handleType, flags));
}

struct search {
    uint64_t uid;
    struct sim_pool *found;
};

static void match(struct sim_object *object, void *data) {
    struct sim_pool *pool = (struct sim_pool *)object;
    struct search *search = data;
    if (pool->imported && !pool->destroyed && pool->phys->label->uid == search->uid) {
        search->found = pool;
    }
}

/* A pool that is imported again is the same. */
static CUresult adopt(struct sim_phys *phys, struct sim_pool **pool_out) {
    struct search search = {phys->label->uid, NULL};
    sim_object_each(SIM_POOL, match, &search);
    if (search.found == NULL) {
        return sim_pool_make(phys, pool_out);
    }
    sim_phys_unref(phys);
    *pool_out = search.found;
    return CUDA_SUCCESS;
}

static CUresult import_pool(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType type,
                            unsigned long long flags) {
    struct sim_phys *phys = NULL;
    struct sim_pool *pool = NULL;
    struct sim_ticket ticket;
    CUresult rc;
    if (pool_out == NULL || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        rc = sim_phys_import((int)(intptr_t)handle, SIM_SHARE_POOL, CUDA_ERROR_UNKNOWN, &phys);
    } else if (type == CU_MEM_HANDLE_TYPE_FABRIC && sim.topology.imex && handle != NULL) {
        memcpy(&ticket, handle, sizeof ticket);
        int fd = sim_ticket_redeem(&ticket);
        rc = sim_phys_import(fd, SIM_SHARE_POOL, CUDA_ERROR_INVALID_VALUE, &phys);
        if (fd >= 0) {
            close(fd);
        }
    } else {
        rc = type == CU_MEM_HANDLE_TYPE_FABRIC ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    }
    if (rc == CUDA_SUCCESS) {
        rc = adopt(phys, &pool);
    }
    if (rc == CUDA_SUCCESS) {
        *pool_out = (CUmemoryPool)(uintptr_t)pool->object.handle;
    }
    return rc;
}

SIM_ENTRY cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType,
                                             unsigned long long flags) {
    SIM_RUN(cuMemPoolImportFromShareableHandle, import_pool(pool_out, handle, handleType, flags));
}

static CUresult export_pointer(CUmemPoolPtrExportData *data_out, CUdeviceptr ptr) {
    const struct sim_range *range = sim_range_exact(ptr);
    if (data_out == NULL || range == NULL || range->kind != SIM_RANGE_POOL || range->freeing ||
        !range->pool->exported) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct pointer_data data = {POINTER_MAGIC, range->phys->label->uid, range->offset, range->size};
    memset(data_out, 0, sizeof *data_out);
    memcpy(data_out, &data, sizeof data);
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr) {
    SIM_RUN(cuMemPoolExportPointer, export_pointer(shareData_out, ptr));
}

static CUresult import_pointer(CUdeviceptr *ptr_out, CUmemoryPool handle, const CUmemPoolPtrExportData *share) {
    CUresult rc;
    struct pointer_data data;
    struct sim_pool *pool = sim_pool_find(handle, &rc);
    struct sim_context *ctx = pool == NULL ? NULL : sim_current(&rc);
    if (ctx == NULL) {
        return rc;
    }
    if (ptr_out == NULL || share == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&data, share, sizeof data);
    if (!pool->phys->imported || data.magic != POINTER_MAGIC || data.uid != pool->phys->label->uid ||
        data.offset % SIM_PAGE != 0 || data.offset + data.size > pool->phys->bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_range_exact(pool->start + data.offset) != NULL) {
        *ptr_out = pool->start + data.offset;
        return sim_misuse(CUDA_SUCCESS, "a pool pointer is imported twice: the first free ends both");
    }
    struct sim_range *range = sim_pool_add_range(pool, ctx, pool->start + data.offset, data.size, SIM_RANGE_POOL_IN);
    sim_phys_opened(pool->phys, (uint32_t)(range->offset / SIM_PAGE) + 1, 1);
    *ptr_out = range->start;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData) {
    SIM_RUN(cuMemPoolImportPointer, import_pointer(ptr_out, pool, shareData));
}
