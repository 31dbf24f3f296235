/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Legacy handles of cuMemAlloc memory. An export shares the whole block the allocation lies in, and the handle says
 * where in it; opened again by the same context it gives the same address and counts.
 */
#include "sim.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(sizeof(struct sim_ticket) <= sizeof(CUipcMemHandle), "a ticket fits a handle");

static CUresult get_handle(CUipcMemHandle *handle_out, CUdeviceptr ptr) {
    CUresult rc;
    const struct sim_context *ctx = sim_current(&rc);
    if (ctx == NULL) {
        return rc;
    }
    const struct sim_range *range = sim_range_at(ptr);
    if (handle_out == NULL || range == NULL || range->kind != SIM_RANGE_DEVICE || sim.topology.mig) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_ticket ticket = sim_ticket_make(range->phys, range->offset, range->size);
    ticket.salt = (uint32_t)range->buffer_id + ((uint32_t)(ctx->device - range->device) << 24);
    memset(handle_out, 0, sizeof *handle_out);
    memcpy(handle_out, &ticket, sizeof ticket);
    return CUDA_SUCCESS;
}

SIM_ENTRY cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr) {
    SIM_RUN(cuIpcGetMemHandle, get_handle(pHandle, dptr));
}

size_t sim_legacy_refs(void) {
    size_t count = 0;
    for (const struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        count += r->kind == SIM_RANGE_LEGACY ? (size_t)r->refs : 0;
    }
    return count;
}

uint32_t sim_legacy_tag(const struct sim_range *range) {
    return (uint32_t)(range->offset / 512) + 1;
}

/* An open allocation of this block: the very one at `offset` if there is, any otherwise. */
static struct sim_range *opened(const struct sim_context *ctx, uint64_t uid, uint64_t offset) {
    struct sim_range *any = NULL;
    for (struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        if (r->kind == SIM_RANGE_LEGACY && r->ctx == ctx && r->phys->label->uid == uid) {
            any = r;
            if (r->offset == offset) {
                return r;
            }
        }
    }
    return any;
}

/* The last allocation of a block to go takes the mapping with it. */
void sim_legacy_drop(struct sim_range *range) {
    struct sim_context *ctx = range->ctx;
    struct sim_phys *phys = range->phys;
    uintptr_t start = range->start - range->offset;
    uint64_t uid = phys->label->uid;
    sim_phys_opened(phys, sim_legacy_tag(range), -1);
    sim_range_remove(range);
    if (opened(ctx, uid, 0) == NULL) {
        sim_va_unmap(start, phys->bytes);
        sim_va_give(start, phys->bytes);
    }
    sim_phys_unref(phys);
}

static CUresult map_block(const struct sim_ticket *ticket, struct sim_phys **phys_out, uintptr_t *start_out) {
    struct sim_phys *phys = NULL;
    if (ticket->pid_namespace != sim_pid_namespace()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int fd = sim_ticket_redeem(ticket);
    CUresult invalid = sim_ticket_orphan(ticket) ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    CUresult rc = sim_phys_import(fd, SIM_SHARE_BLOCK, invalid, &phys);
    if (fd >= 0) {
        close(fd);
    }
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    uintptr_t start = sim_va_take(phys->bytes, SIM_GRANULE);
    if (start == 0 || !sim_va_map(start, phys->bytes, phys, 0, PROT_READ | PROT_WRITE)) {
        sim_phys_unref(phys);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *phys_out = phys;
    *start_out = start;
    return CUDA_SUCCESS;
}

static CUresult open_allocation(struct sim_context *ctx, const struct sim_ticket *ticket,
                                struct sim_range **range_out) {
    struct sim_range *sibling = opened(ctx, ticket->uid, ticket->offset);
    struct sim_phys *phys = NULL;
    uintptr_t start = 0;
    if (sibling != NULL && sibling->offset == ticket->offset) {
        *range_out = sibling;
        return CUDA_SUCCESS;
    }
    if (sibling != NULL) {
        phys = sibling->phys;
        sim_phys_ref(phys);
        start = sibling->start - sibling->offset;
    } else {
        CUresult rc = map_block(ticket, &phys, &start);
        if (rc != CUDA_SUCCESS) {
            return rc;
        }
    }
    struct sim_range *range = sim_range_add(SIM_RANGE_LEGACY, start + ticket->offset, ticket->length);
    range->phys = phys;
    range->offset = ticket->offset;
    range->ctx = ctx;
    range->device = (int)phys->label->device;
    range->buffer_id = ++sim.next_buffer_id;
    range->refs = 0;
    sim_phys_opened(phys, sim_legacy_tag(range), 1);
    *range_out = range;
    return CUDA_SUCCESS;
}

static CUresult open_handle(CUdeviceptr *ptr_out, const CUipcMemHandle *handle, unsigned flags) {
    CUresult rc;
    struct sim_context *ctx = sim_current(&rc);
    struct sim_ticket ticket;
    if (ctx == NULL) {
        return rc;
    }
    if (ptr_out == NULL || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&ticket, handle, sizeof ticket);
    if (ticket.pid_namespace == sim_pid_namespace() && ticket.pid == (int32_t)getpid()) {
        return sim_misuse(CUDA_ERROR_INVALID_CONTEXT, "a process opens its own handle");
    }
    if (ticket.device < 0 || ticket.device >= sim.topology.count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sim_topology_on_node(&sim.topology, ticket.device)) {
        sim_die("a legacy handle of another node is opened on node %d", sim.topology.node);
    }
    if (sim.topology.mig || !sim_can_access(ctx->device, ticket.device)) {
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    struct sim_range *range = NULL;
    rc = open_allocation(ctx, &ticket, &range);
    if (rc == CUDA_SUCCESS) {
        range->refs++;
        *ptr_out = range->start;
    }
    return rc;
}

SIM_ENTRY cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
    SIM_RUN(cuIpcOpenMemHandle_v2, open_handle(pdptr, &handle, Flags));
}

static CUresult close_handle(CUdeviceptr ptr) {
    CUresult rc;
    struct sim_context *current = sim_current(&rc);
    struct sim_range *range = sim_range_exact(ptr);
    if (current == NULL && rc == CUDA_ERROR_INVALID_CONTEXT) {
        return sim_misuse(rc, "no current context");
    }
    if (range == NULL || range->kind != SIM_RANGE_LEGACY) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx was not opened", ptr);
    }
    if (current != NULL && range->ctx != current) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx was opened in another context", ptr);
    }
    if (--range->refs > 0) {
        return rc;
    }
    if (range->ctx->lost == CUDA_SUCCESS) {
        (void)sim_context_drain(range->ctx);
    }
    (void)sim_free_range(range);
    return rc;
}

SIM_ENTRY cuIpcCloseMemHandle(CUdeviceptr dptr) {
    SIM_RUN_RELEASE(cuIpcCloseMemHandle, close_handle(dptr));
}
