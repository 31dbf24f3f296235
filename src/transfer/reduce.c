/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The small all-reduce in host space: every rank writes its values to every peer, and combines what it got in rank
 * order.
 *
 * A writer has two slots in every pad, used alternately. When a rank has seen all values of epoch e, every rank has
 * written epoch e, so has read all of e - 1: the slot of e + 1, which is that of e - 1, is free. The epoch word of a
 * slot is stored last (release) and read first (acquire). Up to six values share one cache line with it.
 *
 * A context in which some pair has no direct path gathers the values by MPI and combines them in the same order.
 */
#include "transfer/combine.h"
#include "transfer/door.h"
#include "transfer/wait.h"

#include <stdio.h>
#include <string.h>

/* Must be the same on all ranks; travels with the values. */
static uint64_t shape_of(int count, peerwin_type type, peerwin_op op) {
    return (uint64_t)op << 16 | (uint64_t)type << 8 | (uint64_t)(unsigned)count;
}

static void contribute(peerwin_ctx *ctx, uint64_t epoch, uint64_t shape, const void *values, size_t bytes) {
    for (int rank = 0; rank < ctx->size; rank++) {
        pw_reduce_slot *slot = pw_pad_reduce_slot(ctx->peers[rank].pad, &ctx->layout, ctx->rank, epoch);
        slot->shape = shape;
        memcpy(slot->values, values, bytes);
        atomic_store_explicit(&slot->epoch, epoch, memory_order_release);
    }
    atomic_thread_fence(memory_order_seq_cst);
    for (int rank = 0; rank < ctx->size; rank++)
        if (rank != ctx->rank)
            pw_pad_wake_sleeper(ctx->peers[rank].pad);
}

static const pw_reduce_slot *slot_of(const peerwin_ctx *ctx, int rank) {
    return pw_pad_reduce_slot(ctx->pad, &ctx->layout, rank, ctx->reduce.epoch);
}

static peerwin_status differ(const peerwin_ctx *ctx, int rank, uint64_t zeros, uint64_t theirs, const char *call) {
    return pw_fail(PEERWIN_ERR_MISMATCH, PW_SITE(call, NULL, ctx->rank, PW_NONE),
                   "rank 0 combines %u values of type %u by operation %u, rank %d %u values of type %u by operation %u",
                   (unsigned)(zeros & 0xff), (unsigned)(zeros >> 8 & 0xff), (unsigned)(zeros >> 16 & 0xff), rank,
                   (unsigned)(theirs & 0xff), (unsigned)(theirs >> 8 & 0xff), (unsigned)(theirs >> 16 & 0xff));
}

static peerwin_status timed_out(const peerwin_ctx *ctx, const pw_site *site) {
    char missing[200] = "";
    char stopped[200] = "";
    size_t used = 0;
    for (int rank = 0; rank < ctx->size && used < sizeof missing - 16; rank++)
        if (atomic_load_explicit(&slot_of(ctx, rank)->epoch, memory_order_relaxed) != ctx->reduce.epoch)
            used += (size_t)snprintf(missing + used, sizeof missing - used, " %d", rank);
    pw_liveness_describe_stopped(&ctx->live, stopped, sizeof stopped);
    return pw_fail(PEERWIN_ERR_TIMEOUT, site, "not arrived: rank%s%s; call again to go on waiting", missing, stopped);
}

/* Waits for everyone's values. */
static peerwin_status collect(peerwin_ctx *ctx, const pw_site *site) {
    pw_waiter waiter = {.ctx = ctx};
    for (int rank = 0; rank < ctx->size; rank++) {
        pw_cause cause = pw_waiter_await(&waiter, &slot_of(ctx, rank)->epoch, ctx->reduce.epoch);
        if (cause == 0)
            continue;
        if (pw_cause_status(cause) == PEERWIN_ERR_TIMEOUT && pw_cause_rank(cause) == PW_NONE)
            return timed_out(ctx, site);
        return pw_wait_broken(ctx, cause, site);
    }
    return PEERWIN_OK;
}

static peerwin_status direct_reduce(peerwin_ctx *ctx, void *values, int count, peerwin_type type, peerwin_op op,
                                    const pw_site *site) {
    size_t bytes = (size_t)count * pw_type_bytes(type);
    if (!ctx->reduce.pending)
        contribute(ctx, ++ctx->reduce.epoch, shape_of(count, type, op), values, bytes);
    ctx->reduce.pending = 1;
    peerwin_status status = collect(ctx, site);
    if (status != PEERWIN_OK)
        return status;
    ctx->reduce.pending = 0;
    uint64_t shape = slot_of(ctx, 0)->shape;
    for (int rank = 1; rank < ctx->size; rank++)
        if (slot_of(ctx, rank)->shape != shape)
            return differ(ctx, rank, shape, slot_of(ctx, rank)->shape, site->call);
    memcpy(values, slot_of(ctx, 0)->values, bytes);
    for (int rank = 1; rank < ctx->size; rank++)
        pw_combine(values, slot_of(ctx, rank)->values, count, type, op);
    return PEERWIN_OK;
}

/* ---- by MPI */

static peerwin_status start_gather(peerwin_ctx *ctx, const void *values, size_t bytes, uint64_t shape,
                                   const pw_site *site) {
    pw_series *series = &ctx->reduce;
    pw_reduce_slot *mine = (pw_reduce_slot *)series->buffer + ctx->size;
    mine->shape = shape;
    memcpy(mine->values, values, bytes);
    int code = MPI_Iallgather(mine, (int)sizeof *mine, MPI_BYTE, series->buffer, (int)sizeof *mine, MPI_BYTE,
                              ctx->agree.comm, &series->request);
    if (code != MPI_SUCCESS)
        return pw_fail_mpi(site, code, "MPI_Iallgather");
    series->pending = 1;
    return PEERWIN_OK;
}

static peerwin_status mpi_reduce(peerwin_ctx *ctx, void *values, int count, peerwin_type type, peerwin_op op,
                                 const pw_site *site) {
    pw_series *series = &ctx->reduce;
    size_t bytes = (size_t)count * pw_type_bytes(type);
    peerwin_status status = PEERWIN_OK;
    if (!series->pending)
        status = start_gather(ctx, values, bytes, shape_of(count, type, op), site);
    if (status == PEERWIN_OK)
        status = pw_ctx_resumable_wait(ctx, &series->request, "MPI_Iallgather", site);
    if (status != PEERWIN_OK)
        return status;
    series->pending = 0;
    const pw_reduce_slot *all = series->buffer;
    for (int rank = 1; rank < ctx->size; rank++)
        if (all[rank].shape != all[0].shape)
            return differ(ctx, rank, all[0].shape, all[rank].shape, site->call);
    memcpy(values, all[0].values, bytes);
    for (int rank = 1; rank < ctx->size; rank++)
        pw_combine(values, all[rank].values, count, type, op);
    return PEERWIN_OK;
}

/* ---- the call */

static peerwin_status check(const void *values, int count, peerwin_type type, peerwin_op op, const pw_site *site) {
    if (!values)
        return pw_fail(PEERWIN_ERR_ARG, site, "values is NULL");
    if (count < 1 || count > PW_REDUCE_VALUES)
        return pw_fail(PEERWIN_ERR_ARG, site, "count is %d, not one of 1..%d", count, PW_REDUCE_VALUES);
    if ((unsigned)type > PEERWIN_INT64 || (unsigned)op > PEERWIN_MAX)
        return pw_fail(PEERWIN_ERR_ARG, site, "type %d and operation %d are not known", (int)type, (int)op);
    return PEERWIN_OK;
}

peerwin_status peerwin_allreduce(peerwin_ctx *ctx, void *values, int count, peerwin_type type, peerwin_op op,
                                 peerwin_stream stream) {
    static const char call[] = "peerwin_allreduce";
    (void)stream;
    if (!ctx)
        return pw_refuse_null(NULL, call, "ctx");
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    const pw_site *site = PW_SITE(call, NULL, ctx->rank, PW_NONE);
    status = check(values, count, type, op, site);
    if (status == PEERWIN_OK && ctx->barrier.pending)
        status = pw_fail(PEERWIN_ERR_STATE, site, "a barrier that timed out must be repeated first");
    else if (status == PEERWIN_OK)
        status = ctx->all_direct ? direct_reduce(ctx, values, count, type, op, site)
                                 : mpi_reduce(ctx, values, count, type, op, site);
    pw_ctx_leave(ctx);
    return status;
}
