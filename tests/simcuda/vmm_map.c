/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Virtual memory management: reservations, mappings and access. Drivers map allocations as a whole or not at all.
 */
#include "sim.h"

#include <stdlib.h>
#include <sys/mman.h>

struct reservation {
    struct reservation *next;
    uintptr_t start;
    size_t size;
};
static struct reservation *reservations;

size_t sim_vmm_reservations(void) {
    size_t count = 0;
    for (const struct reservation *r = reservations; r != NULL; r = r->next) {
        count++;
    }
    return count;
}

bool sim_vmm_reservation(uintptr_t address, uintptr_t *start_out, size_t *size_out) {
    for (const struct reservation *r = reservations; r != NULL; r = r->next) {
        if (address >= r->start && address - r->start < r->size) {
            *start_out = r->start;
            *size_out = r->size;
            return true;
        }
    }
    return false;
}

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

/* The first mapping that lies in the range, or at least touches it. */
static struct sim_range *mapping_in(uintptr_t ptr, size_t size) {
    for (struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        if (r->kind == SIM_RANGE_VMM && r->start < ptr + size && ptr < r->start + r->size) {
            return r;
        }
    }
    return NULL;
}

static CUresult address_free(CUdeviceptr ptr, size_t size) {
    for (struct reservation **at = &reservations; *at != NULL; at = &(*at)->next) {
        struct reservation *reservation = *at;
        if (reservation->start != ptr || reservation->size != size) {
            continue;
        }
        if (mapping_in(ptr, size) != NULL) {
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
    struct sim_alloc *alloc = sim_alloc_find(handle, &rc);
    if (alloc == NULL) {
        return rc;
    }
    if (flags != 0 || size == 0) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "flags must be 0, and size not");
    }
    if (size != alloc->phys->bytes || offset != 0) {
        return sim_misuse(CUDA_ERROR_NOT_SUPPORTED,
                          "%zu bytes at %zu of an allocation of %zu: only all of it can be mapped", size, offset,
                          alloc->phys->bytes);
    }
    if (ptr % SIM_GRANULE != 0) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "the address must be a multiple of the granularity");
    }
    if (reservation_of(ptr, size) == NULL) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "the address range is not reserved");
    }
    if (mapping_in(ptr, size) != NULL) {
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

static bool cuts_mapping(uintptr_t ptr, size_t size) {
    for (const struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        bool touches = r->kind == SIM_RANGE_VMM && r->start < ptr + size && ptr < r->start + r->size;
        if (touches && (r->start < ptr || r->start + r->size > ptr + size)) {
            return true;
        }
    }
    return false;
}

/* A driver passes over holes; whoever is strict unmaps what is mapped. */
static CUresult unmap(CUdeviceptr ptr, size_t size) {
    if (size == 0 || reservation_of(ptr, size) == NULL || cuts_mapping(ptr, size)) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx, %zu is not made of whole mappings", ptr, size);
    }
    if (!whole_mappings(ptr, size)) {
        (void)sim_misuse(CUDA_SUCCESS, "0x%llx, %zu has holes", ptr, size);
    }
    for (struct sim_range *range; (range = mapping_in(ptr, size)) != NULL;) {
        struct sim_alloc *alloc = range->alloc;
        sim_va_unmap(range->start, range->size);
        sim_range_remove(range);
        alloc->maps--;
        sim_alloc_drop_if_unused(alloc);
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
    if (sim_device_check(desc->location.id) != CUDA_SUCCESS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int device = sim.topology.visible[desc->location.id];
    bool fabric = sim.topology.imex &&
                  sim_topology_clique(&sim.topology, device) == sim_topology_clique(&sim.topology, memory_device);
    return sim_can_access(device, memory_device) || (fabric && !sim_topology_on_node(&sim.topology, memory_device))
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_DEVICE;
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
        sim_apply_access(range, range->size);
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
    *flags_out = 0;
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
