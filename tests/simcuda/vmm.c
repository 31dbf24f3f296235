/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Virtual memory management: allocation handles, and what they are called in other processes. An allocation lives until
 * its last handle is released, its last mapping gone and its last importer has dropped it; the memfd sees to the last.
 */
#include "sim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KNOWN_TYPES ((unsigned)(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC))

struct ref_count {
    size_t total;
    bool imported;
};

static void count_refs(struct sim_object *object, void *data) {
    const struct sim_alloc *alloc = (const struct sim_alloc *)object;
    struct ref_count *count = data;
    if (alloc->phys->imported == count->imported) {
        count->total += (size_t)alloc->refs;
    }
}

size_t sim_vmm_refs(bool imported) {
    struct ref_count count = {0, imported};
    sim_object_each(SIM_ALLOC, count_refs, &count);
    return count.total;
}

struct sim_alloc *sim_alloc_find(CUmemGenericAllocationHandle handle, CUresult *rc_out) {
    struct sim_alloc *alloc = sim_object_find(handle, SIM_ALLOC, CUDA_ERROR_INVALID_VALUE, SIM_DEADLY, rc_out);
    if (alloc != NULL && alloc->refs == 0) {
        (void)sim_misuse(CUDA_SUCCESS, "an allocation handle is used after its release");
    }
    return alloc;
}

void sim_alloc_drop_if_unused(struct sim_alloc *alloc) {
    if (alloc->refs == 0 && alloc->maps == 0) {
        sim_object_remove(&alloc->object);
        sim_phys_unref(alloc->phys);
        free(alloc);
    }
}

static struct sim_alloc *wrap(struct sim_phys *phys) {
    struct sim_alloc *alloc = calloc(1, sizeof *alloc);
    if (alloc == NULL) {
        sim_die("out of host memory");
    }
    alloc->phys = phys;
    alloc->refs = 1;
    sim_object_add(&alloc->object, SIM_ALLOC);
    return alloc;
}

/* ---- creation ---- */

static bool is_host(const CUmemAllocationProp *prop) {
    return prop->location.type == CU_MEM_LOCATION_TYPE_HOST || prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

static CUresult check_prop(const CUmemAllocationProp *prop) {
    if (prop == NULL || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sim.topology.vmm) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    /* Drivers share host memory in some cases; nothing here may rely on it. */
    bool known = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ||
                 (is_host(prop) && prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult granularity(size_t *size_out, const CUmemAllocationProp *prop,
                            CUmemAllocationGranularity_flags option) {
    if (size_out == NULL ||
        (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult rc = check_prop(prop);
    if (rc == CUDA_SUCCESS) {
        *size_out = SIM_GRANULE;
    }
    return rc;
}

SIM_ENTRY cuMemGetAllocationGranularity(size_t *size, const CUmemAllocationProp *prop,
                                        CUmemAllocationGranularity_flags option) {
    SIM_RUN(cuMemGetAllocationGranularity, granularity(size, prop, option));
}

static CUresult create_on(CUmemGenericAllocationHandle *handle_out, size_t size, int device, unsigned types) {
    struct sim_phys *phys = NULL;
    CUresult rc = sim_charge(device, size);
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    rc = sim_phys_create(SIM_SHARE_VMM, device, size, types, true, &phys);
    if (rc != CUDA_SUCCESS) {
        sim_used[device] -= size;
        return rc;
    }
    phys->charged = size;
    *handle_out = wrap(phys)->object.handle;
    return CUDA_SUCCESS;
}

static CUresult create_host(CUmemGenericAllocationHandle *handle_out, size_t size) {
    struct sim_phys *phys = NULL;
    CUresult rc = sim_phys_create(SIM_SHARE_VMM, sim.topology.visible[0], size, 0, true, &phys);
    if (rc == CUDA_SUCCESS) {
        struct sim_alloc *alloc = wrap(phys);
        alloc->host = true;
        *handle_out = alloc->object.handle;
    }
    return rc;
}

static CUresult create(CUmemGenericAllocationHandle *handle_out, size_t size, const CUmemAllocationProp *prop,
                       unsigned long long flags) {
    CUresult rc = check_prop(prop);
    if (handle_out == NULL || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    if (size == 0 || size % SIM_GRANULE != 0) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "size %zu is no multiple of the granularity", size);
    }
    unsigned types = (unsigned)prop->requestedHandleTypes;
    if ((types & (unsigned)CU_MEM_HANDLE_TYPE_WIN32) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((types & ~KNOWN_TYPES) != 0) {
        (void)sim_misuse(CUDA_SUCCESS, "handle types 0x%x are unknown", types);
    }
    if ((types & CU_MEM_HANDLE_TYPE_FABRIC) && (!sim.topology.imex || !sim.topology.fabric)) {
        return sim.topology.fabric ? CUDA_ERROR_NOT_PERMITTED : CUDA_ERROR_NOT_SUPPORTED;
    }
    if (is_host(prop)) {
        return create_host(handle_out, size);
    }
    rc = sim_device_check(prop->location.id);
    return rc == CUDA_SUCCESS ? create_on(handle_out, size, sim.topology.visible[prop->location.id], types) : rc;
}

SIM_ENTRY cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                      unsigned long long flags) {
    SIM_RUN(cuMemCreate, create(handle, size, prop, flags));
}

static CUresult release(CUmemGenericAllocationHandle handle) {
    CUresult rc;
    struct sim_alloc *alloc =
        sim_object_find(handle, SIM_ALLOC, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, &rc);
    if (alloc != NULL && alloc->refs == 0) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "an allocation handle is released too often");
    }
    if (alloc != NULL) {
        alloc->refs--;
        sim_alloc_drop_if_unused(alloc);
    }
    return rc;
}

SIM_ENTRY cuMemRelease(CUmemGenericAllocationHandle handle) {
    SIM_RUN_RELEASE(cuMemRelease, release(handle));
}

static CUresult retain(CUmemGenericAllocationHandle *handle_out, const void *address) {
    struct sim_range *range = sim_range_at((uintptr_t)address);
    if (handle_out == NULL || range == NULL || range->kind != SIM_RANGE_VMM) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    range->alloc->refs++;
    *handle_out = range->alloc->object.handle;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
    SIM_RUN(cuMemRetainAllocationHandle, retain(handle, addr));
}

static CUresult properties(CUmemAllocationProp *prop_out, CUmemGenericAllocationHandle handle) {
    CUresult rc;
    const struct sim_alloc *alloc = sim_alloc_find(handle, &rc);
    if (alloc == NULL) {
        return rc;
    }
    if (prop_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memset(prop_out, 0, sizeof *prop_out);
    prop_out->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop_out->requestedHandleTypes =
        (CUmemAllocationHandleType)(alloc->phys->imported ? 0 : alloc->phys->label->handle_types);
    prop_out->location.type = alloc->host ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
    prop_out->location.id = alloc->host ? 0 : sim_ordinal((int)alloc->phys->label->device);
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle) {
    SIM_RUN(cuMemGetAllocationPropertiesFromHandle, properties(prop, handle));
}

/* ---- handles for other processes ---- */

static CUresult export_handle(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                              unsigned long long flags) {
    CUresult rc;
    const struct sim_alloc *alloc = sim_alloc_find(handle, &rc);
    if (alloc == NULL) {
        return rc;
    }
    if (out == NULL || flags != 0 || type == CU_MEM_HANDLE_TYPE_NONE || alloc->phys->imported ||
        ((unsigned)type & alloc->phys->label->handle_types) != (unsigned)type) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        int fd = fcntl(alloc->phys->fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0) {
            return CUDA_ERROR_OPERATING_SYSTEM;
        }
        *(int *)out = fd;
        return CUDA_SUCCESS;
    }
    if (type != CU_MEM_HANDLE_TYPE_FABRIC) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_ticket ticket = sim_ticket_make(alloc->phys, 0, 0);
    memset(out, 0, sizeof(CUmemFabricHandle));
    memcpy(out, &ticket, sizeof ticket);
    sim_ticket_serve();
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                       CUmemAllocationHandleType handleType, unsigned long long flags) {
    SIM_RUN(cuMemExportToShareableHandle, export_handle(shareableHandle, handle, handleType, flags));
}

static CUresult import_fd(int fd, struct sim_phys **phys_out) {
    CUresult rc = sim_phys_import(fd, SIM_SHARE_VMM, CUDA_ERROR_UNKNOWN, phys_out);
    if (rc == CUDA_SUCCESS && (*phys_out)->label->node != sim.topology.node) {
        sim_die("a descriptor of node %d is imported on node %d", (int)(*phys_out)->label->node, sim.topology.node);
    }
    return rc;
}

static CUresult import_fabric(const void *handle, struct sim_phys **phys_out) {
    struct sim_ticket ticket;
    if (handle == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sim.topology.imex || !sim.topology.fabric) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    memcpy(&ticket, handle, sizeof ticket);
    int fd = sim_ticket_redeem(&ticket);
    CUresult rc = sim_phys_import(fd, SIM_SHARE_VMM, CUDA_ERROR_INVALID_VALUE, phys_out);
    if (fd >= 0) {
        close(fd);
    }
    int mine = sim.topology.visible[0];
    if (rc == CUDA_SUCCESS && sim_topology_clique(&sim.topology, (int)(*phys_out)->label->device) !=
                                  sim_topology_clique(&sim.topology, mine)) {
        sim_phys_unref(*phys_out);
        return CUDA_ERROR_NOT_PERMITTED;
    }
    return rc;
}

static CUresult import_handle(CUmemGenericAllocationHandle *handle_out, void *os_handle,
                              CUmemAllocationHandleType type) {
    struct sim_phys *phys = NULL;
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    if (handle_out == NULL) {
        return rc;
    }
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        rc = import_fd((int)(intptr_t)os_handle, &phys);
    } else if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
        rc = import_fabric(os_handle, &phys);
    }
    if (rc == CUDA_SUCCESS) {
        *handle_out = wrap(phys)->object.handle;
    }
    return rc;
}

SIM_ENTRY cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                         CUmemAllocationHandleType shHandleType) {
    SIM_RUN(cuMemImportFromShareableHandle, import_handle(handle, osHandle, shHandleType));
}
