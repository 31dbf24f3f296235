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
#include "transfer/gather.h"
#include "transfer/stream.h"
#include "transfer/wait.h"

#include <string.h>

typedef struct {
    void *values;
    int count;
    peerwin_type type;
    peerwin_op op;
    uint64_t shape;
} request;

/* Must be the same on all ranks; travels with the values. */
static uint64_t shape_of(int count, peerwin_type type, peerwin_op op) {
    return (uint64_t)op << 16 | (uint64_t)type << 8 | (uint64_t)(unsigned)count;
}

static void contribute(peerwin_ctx *ctx, uint64_t epoch, uint64_t shape, const void *values, size_t bytes) {
    for (int rank = 0; rank < ctx->size; rank++) {
        pw_reduce_slot *slot = pw_pad_reduce_slot(ctx->peers[rank].pad, &ctx->layout, ctx->rank, epoch);
        slot->shape = shape;
        if (bytes > 0)
            memcpy(slot->values, values, bytes);
        atomic_store_explicit(&slot->epoch, epoch, memory_order_release);
    }
}

static const pw_reduce_slot *slot_of(const peerwin_ctx *ctx, int rank) {
    return pw_pad_reduce_slot(ctx->pad, &ctx->layout, rank, ctx->reduce.epoch);
}

static const _Atomic uint64_t *epoch_of(const peerwin_ctx *ctx, int rank) {
    return &slot_of(ctx, rank)->epoch;
}

/* Gives this rank's values to everyone, and waits for theirs. */
static peerwin_status exchange(peerwin_ctx *ctx, const request *mine, size_t bytes, const pw_site *site) {
    if (!ctx->all_direct)
        return pw_gather_slots(ctx, &ctx->reduce, mine->shape, mine->values, bytes, site);
    int resumed = ctx->reduce.pending;
    if (!resumed)
        contribute(ctx, ++ctx->reduce.epoch, mine->shape, mine->values, bytes);
    ctx->reduce.pending = 1;
    peerwin_status status = pw_wait_all(ctx, epoch_of, ctx->reduce.epoch, !resumed, site);
    if (status == PEERWIN_OK)
        ctx->reduce.pending = 0;
    return status;
}

/* A rank whose arguments are refused takes part all the same, so that all hear of it and nobody waits. */
static peerwin_status reduce(peerwin_ctx *ctx, const request *mine, peerwin_status local, const pw_site *site) {
    size_t bytes = local == PEERWIN_OK ? (size_t)mine->count * pw_type_bytes(mine->type) : 0;
    pw_slot_at *slot_at = ctx->all_direct ? slot_of : pw_gathered_slot;
    if (ctx->reduce.pending && ctx->reduce.shape != mine->shape)
        return pw_fail(PEERWIN_ERR_STATE, site,
                       "an all-reduce that timed out must be repeated with the same arguments");
    ctx->reduce.shape = mine->shape;
    peerwin_status status = exchange(ctx, mine, bytes, site);
    if (status == PEERWIN_OK)
        status = pw_shapes_check(ctx, slot_at, local, site);
    if (status != PEERWIN_OK)
        return status;
    memcpy(mine->values, slot_at(ctx, 0)->values, bytes);
    for (int rank = 1; rank < ctx->size; rank++)
        pw_combine(mine->values, slot_at(ctx, rank)->values, mine->count, mine->type, mine->op);
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
    if (!ctx)
        return pw_refuse_null(NULL, call, "ctx");
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    const pw_site *site = PW_SITE(call, NULL, ctx->rank, PW_NONE);
    request mine = {.values = values, .count = count, .type = type, .op = op};
    if (pw_on_streams(ctx)) {
        status = check(values, count, type, op, site);
        if (status == PEERWIN_OK)
            status = pw_stream_allreduce(ctx, values, count, type, op, stream, site);
    } else if (ctx->barrier.pending) {
        status = pw_fail(PEERWIN_ERR_STATE, site, "a barrier that timed out must be repeated first");
    } else {
        peerwin_status local = check(values, count, type, op, site);
        mine.shape = local == PEERWIN_OK ? shape_of(count, type, op) : PW_SHAPE_REFUSED;
        status = reduce(ctx, &mine, local, site);
    }
    pw_ctx_leave(ctx);
    return status;
}
