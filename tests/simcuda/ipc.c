/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Legacy handles of cuMemAlloc memory. An export shares the whole block the allocation lies in; opened again by the
 * same context it gives the same address and counts.
 */
#include "sim.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(sizeof(struct sim_ticket) <= sizeof(CUipcMemHandle), "a ticket fits a handle");

static CUresult get_handle(CUipcMemHandle *handle_out, CUdeviceptr ptr) {
    CUresult rc;
    if (sim_current(&rc) == NULL) {
        return rc;
    }
    const struct sim_range *range = sim_range_at(ptr);
    if (handle_out == NULL || range == NULL || range->kind != SIM_RANGE_DEVICE || sim.topology.mig) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_ticket ticket = sim_ticket_make(range->phys, range->offset, (uint32_t)(range->size / 512));
    ticket.salt = (uint32_t)range->buffer_id;
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

static struct sim_range *opened(const struct sim_context *ctx, uint64_t uid) {
    for (struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        if (r->kind == SIM_RANGE_LEGACY && r->ctx == ctx && r->phys->label->uid == uid) {
            return r;
        }
    }
    return NULL;
}

static CUresult map_block(struct sim_context *ctx, const struct sim_ticket *ticket, struct sim_range **range_out) {
    struct sim_phys *phys = NULL;
    if (ticket->pid_namespace != sim_pid_namespace()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int fd = sim_ticket_redeem(ticket);
    CUresult rc = sim_phys_import(fd, SIM_SHARE_BLOCK, CUDA_ERROR_INVALID_VALUE, &phys);
    if (fd >= 0) {
        close(fd);
    }
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    if (phys->label->node != sim.topology.node) {
        sim_die("a legacy handle of node %d is opened on node %d", (int)phys->label->node, sim.topology.node);
    }
    uintptr_t start = sim_va_take(phys->bytes, SIM_GRANULE);
    if (start == 0 || !sim_va_map(start, phys->bytes, phys, 0, PROT_READ | PROT_WRITE)) {
        sim_phys_unref(phys);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sim_range *range = sim_range_add(SIM_RANGE_LEGACY, start, phys->bytes);
    range->phys = phys;
    range->ctx = ctx;
    range->device = (int)phys->label->device;
    range->buffer_id = ++sim.next_buffer_id;
    range->refs = 0;
    sim_phys_opened(phys, 0, 1);
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
    if (sim.topology.mig || !sim_can_access(ctx->device, ticket.device)) {
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    struct sim_range *range = opened(ctx, ticket.uid);
    if (range == NULL) {
        rc = map_block(ctx, &ticket, &range);
    }
    if (rc == CUDA_SUCCESS) {
        range->refs++;
        *ptr_out = range->start + ticket.offset;
    }
    return rc;
}

SIM_ENTRY cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags) {
    SIM_RUN(cuIpcOpenMemHandle_v2, open_handle(pdptr, &handle, Flags));
}

static CUresult close_handle(CUdeviceptr ptr) {
    CUresult rc;
    struct sim_context *current = sim_current(&rc);
    struct sim_range *range = sim_range_at(ptr);
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
