/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Virtual memory management: allocation handles, reservations, mappings, access. An allocation lives until its last
 * handle is released, its last mapping gone and its last importer has dropped it; the memfd sees to the last.
 */
#include "sim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KNOWN_TYPES ((unsigned)(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC))

struct sim_alloc {
    struct sim_object object;
    struct sim_phys *phys;
    int refs; /* handles held by the caller */
    int maps;
};

struct reservation {
    struct reservation *next;
    uintptr_t start;
    size_t size;
};
static struct reservation *reservations;

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

size_t sim_vmm_reservations(void) {
    size_t count = 0;
    for (const struct reservation *r = reservations; r != NULL; r = r->next) {
        count++;
    }
    return count;
}

static struct sim_alloc *find(CUmemGenericAllocationHandle handle, CUresult *rc_out) {
    struct sim_alloc *alloc =
        sim_object_find(handle, SIM_ALLOC, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, rc_out);
    if (alloc != NULL && alloc->refs == 0) {
        *rc_out = sim_misuse(CUDA_ERROR_INVALID_VALUE, "an allocation handle is used after its release");
        return NULL;
    }
    return alloc;
}

static void drop_if_unused(struct sim_alloc *alloc) {
    if (alloc->refs == 0 && alloc->maps == 0) {
        sim_object_remove(&alloc->object);
        sim_phys_unref(alloc->phys);
        free(alloc);
    }
}

static CUmemGenericAllocationHandle wrap(struct sim_phys *phys) {
    struct sim_alloc *alloc = calloc(1, sizeof *alloc);
    if (alloc == NULL) {
        sim_die("out of host memory");
    }
    alloc->phys = phys;
    alloc->refs = 1;
    sim_object_add(&alloc->object, SIM_ALLOC);
    return alloc->object.handle;
}

/* ---- creation ---- */

static CUresult check_prop(const CUmemAllocationProp *prop) {
    if (prop == NULL || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sim.topology.vmm) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sim_device_check(prop->location.id);
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
    if ((types & ~KNOWN_TYPES) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((types & CU_MEM_HANDLE_TYPE_FABRIC) && (!sim.topology.imex || !sim.topology.fabric)) {
        return sim.topology.fabric ? CUDA_ERROR_NOT_PERMITTED : CUDA_ERROR_NOT_SUPPORTED;
    }
    int device = sim.topology.visible[prop->location.id];
    rc = sim_charge(device, size);
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    struct sim_phys *phys = NULL;
    rc = sim_phys_create(SIM_SHARE_VMM, device, size, types, true, &phys);
    if (rc != CUDA_SUCCESS) {
        sim_used[device] -= size;
        return rc;
    }
    phys->charged = size;
    *handle_out = wrap(phys);
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                      unsigned long long flags) {
    SIM_RUN(cuMemCreate, create(handle, size, prop, flags));
}

static CUresult release(CUmemGenericAllocationHandle handle) {
    CUresult rc;
    struct sim_alloc *alloc = find(handle, &rc);
    if (alloc != NULL) {
        alloc->refs--;
        drop_if_unused(alloc);
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
    const struct sim_alloc *alloc = find(handle, &rc);
    if (alloc == NULL) {
        return rc;
    }
    if (prop_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memset(prop_out, 0, sizeof *prop_out);
    prop_out->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop_out->requestedHandleTypes = (CUmemAllocationHandleType)alloc->phys->label->handle_types;
    prop_out->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop_out->location.id = sim_ordinal((int)alloc->phys->label->device);
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle) {
    SIM_RUN(cuMemGetAllocationPropertiesFromHandle, properties(prop, handle));
}

/* ---- reservations ---- */

static struct reservation *reservation_of(uintptr_t start, size_t size) {
    for (struct reservation *r = reservations; r != NULL; r = r->next) {
        if (start >= r->start && size <= r->size && start - r->start <= r->size - size) {
            return r;
        }
    }
    return NULL;
}

static CUresult reserve(CUdeviceptr *ptr_out, size_t size, size_t alignment, unsigned long long flags) {
    if (ptr_out == NULL || size == 0 || flags != 0 || (alignment & (alignment - 1)) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (size % SIM_GRANULE != 0) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "reservation of %zu bytes is no multiple of the granularity", size);
    }
    uintptr_t start = sim_va_take(size, alignment < SIM_GRANULE ? SIM_GRANULE : alignment);
    struct reservation *reservation = malloc(sizeof *reservation);
    if (start == 0 || reservation == NULL) {
        free(reservation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *reservation = (struct reservation){reservations, start, size};
    reservations = reservation;
    *ptr_out = start;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                              unsigned long long flags) {
    (void)addr; /* a hint */
    SIM_RUN(cuMemAddressReserve, reserve(ptr, size, alignment, flags));
}

static bool any_mapping(uintptr_t start, size_t size) {
    for (const struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        if (r->kind == SIM_RANGE_VMM && r->start < start + size && start < r->start + r->size) {
            return true;
        }
    }
    return false;
}

static CUresult address_free(CUdeviceptr ptr, size_t size) {
    for (struct reservation **at = &reservations; *at != NULL; at = &(*at)->next) {
        struct reservation *reservation = *at;
        if (reservation->start != ptr || reservation->size != size) {
            continue;
        }
        if (any_mapping(ptr, size)) {
            return sim_misuse(CUDA_ERROR_INVALID_VALUE, "a reservation is freed with mappings in it");
        }
        sim_va_give(ptr, size);
        *at = reservation->next;
        free(reservation);
        return CUDA_SUCCESS;
    }
    return sim_misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx, %zu is no reservation", ptr, size);
}

SIM_ENTRY cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    SIM_RUN_RELEASE(cuMemAddressFree, address_free(ptr, size));
}

/* ---- mapping ---- */

static CUresult map(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags) {
    CUresult rc;
    struct sim_alloc *alloc = find(handle, &rc);
    if (alloc == NULL) {
        return rc;
    }
    if (flags != 0 || offset != 0 || size == 0) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "flags, offset and size must be 0, 0 and not 0");
    }
    if (ptr % SIM_GRANULE != 0 || size % SIM_GRANULE != 0) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "address and size must be multiples of the granularity");
    }
    if (size > alloc->phys->bytes) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "%zu bytes of an allocation of %zu", size, alloc->phys->bytes);
    }
    if (reservation_of(ptr, size) == NULL) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "the address range is not reserved");
    }
    if (any_mapping(ptr, size)) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "something is mapped there");
    }
    if (!sim_va_map(ptr, size, alloc->phys, 0, PROT_NONE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sim_range *range = sim_range_add(SIM_RANGE_VMM, ptr, size);
    range->phys = alloc->phys;
    range->device = (int)alloc->phys->label->device;
    range->buffer_id = ++sim.next_buffer_id;
    range->alloc = alloc;
    alloc->maps++;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                   unsigned long long flags) {
    SIM_RUN(cuMemMap, map(ptr, size, offset, handle, flags));
}

/* Is [ptr, ptr + size) made of whole mappings without a gap? */
static bool whole_mappings(uintptr_t ptr, size_t size) {
    uintptr_t at = ptr;
    while (at < ptr + size) {
        const struct sim_range *range = sim_range_exact(at);
        if (range == NULL || range->kind != SIM_RANGE_VMM || range->size > ptr + size - at) {
            return false;
        }
        at += range->size;
    }
    return size > 0;
}

static CUresult unmap(CUdeviceptr ptr, size_t size) {
    if (!whole_mappings(ptr, size)) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx, %zu is not made of whole mappings", ptr, size);
    }
    for (uintptr_t at = ptr; at < ptr + size;) {
        struct sim_range *range = sim_range_exact(at);
        struct sim_alloc *alloc = range->alloc;
        at += range->size;
        sim_va_unmap(range->start, range->size);
        sim_range_remove(range);
        alloc->maps--;
        drop_if_unused(alloc);
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemUnmap(CUdeviceptr ptr, size_t size) {
    SIM_RUN_RELEASE(cuMemUnmap, unmap(ptr, size));
}

/* ---- access ---- */

static CUresult check_access(const CUmemAccessDesc *desc, int memory_device) {
    if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult rc = sim_device_check(desc->location.id);
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    int device = sim.topology.visible[desc->location.id];
    bool fabric = sim.topology.imex &&
                  sim_topology_clique(&sim.topology, device) == sim_topology_clique(&sim.topology, memory_device);
    return sim_can_access(device, memory_device) || (fabric && !sim_topology_on_node(&sim.topology, memory_device))
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_DEVICE;
}

static void apply_access(struct sim_range *range) {
    unsigned char best = 0;
    for (int d = 0; d < SIM_MAX_DEVICES; d++) {
        best = range->access[d] > best ? range->access[d] : best;
    }
    sim_va_protect(range->start, range->size, best == 3 ? PROT_READ | PROT_WRITE : best == 1 ? PROT_READ : PROT_NONE);
}

static CUresult set_access(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count) {
    if (desc == NULL || count == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!whole_mappings(ptr, size)) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx, %zu is not made of whole mappings", ptr, size);
    }
    for (uintptr_t at = ptr; at < ptr + size; at += sim_range_exact(at)->size) {
        for (size_t i = 0; i < count; i++) {
            CUresult rc = check_access(&desc[i], sim_range_exact(at)->device);
            if (rc != CUDA_SUCCESS) {
                return rc;
            }
        }
    }
    for (uintptr_t at = ptr; at < ptr + size; at += sim_range_exact(at)->size) {
        struct sim_range *range = sim_range_exact(at);
        for (size_t i = 0; i < count; i++) {
            range->access[sim.topology.visible[desc[i].location.id]] = (unsigned char)desc[i].flags;
        }
        apply_access(range);
    }
    return CUDA_SUCCESS;
}

SIM_ENTRY cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count) {
    SIM_RUN(cuMemSetAccess, set_access(ptr, size, desc, count));
}

static CUresult get_access(unsigned long long *flags_out, const CUmemLocation *location, CUdeviceptr ptr) {
    if (flags_out == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult rc = sim_device_check(location->id);
    const struct sim_range *range = sim_range_at(ptr);
    if (rc == CUDA_SUCCESS && (range == NULL || range->kind != SIM_RANGE_VMM)) {
        rc = CUDA_ERROR_INVALID_VALUE;
    }
    if (rc == CUDA_SUCCESS) {
        *flags_out = range->access[sim.topology.visible[location->id]];
    }
    return rc;
}

SIM_ENTRY cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr) {
    SIM_RUN(cuMemGetAccess, get_access(flags, location, ptr));
}

/* ---- handles for other processes ---- */

static CUresult export_handle(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                              unsigned long long flags) {
    CUresult rc;
    const struct sim_alloc *alloc = find(handle, &rc);
    if (alloc == NULL) {
        return rc;
    }
    if (out == NULL || flags != 0 || type == CU_MEM_HANDLE_TYPE_NONE ||
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
    CUresult rc = sim_phys_import(fd, SIM_SHARE_VMM, CUDA_ERROR_INVALID_VALUE, phys_out);
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
    if (!sim.topology.imex) {
        return CUDA_ERROR_NOT_PERMITTED;
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
        *handle_out = wrap(phys);
    }
    return rc;
}

SIM_ENTRY cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                         CUmemAllocationHandleType shHandleType) {
    SIM_RUN(cuMemImportFromShareableHandle, import_handle(handle, osHandle, shHandleType));
}
