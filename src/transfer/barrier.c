/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The barrier in host space: one phase, some lines per writer. That of streams is in stream_barrier.c.
 *
 * Rank w stores its epoch into its line of every pad (release) and waits until all lines of its own pad have reached it
 * (acquire). Epochs only grow and a line has one writer, so barriers may follow each other at once: a rank that runs
 * ahead stores an epoch that satisfies those still waiting for an earlier one, and cannot get further without them.
 * Lines are used by turns, so that a rank can fetch those of the next barrier for its stores while it waits in this
 * one: their last polls ended before the barrier in between did.
 *
 * A context in which some pair has no direct path gathers by MPI. Either is resumed after a time-out.
 */
#include "transfer/barrier.h"

#include "transfer/door.h"
#include "transfer/gather.h"
#include "transfer/stream.h"
#include "transfer/wait.h"

static pw_barrier_line *line_at(const peerwin_ctx *ctx, int rank, uint64_t epoch) {
    return pw_pad_barrier_line(ctx->peers[rank].pad, &ctx->layout, ctx->rank, epoch);
}

static const _Atomic uint64_t *line_of(const peerwin_ctx *ctx, int rank) {
    return &pw_pad_barrier_line(ctx->pad, &ctx->layout, rank, ctx->barrier.epoch)->epoch;
}

static void arrive(peerwin_ctx *ctx, uint64_t epoch) {
    for (int rank = 0; rank < ctx->size; rank++) {
        _Atomic uint64_t *word = &line_at(ctx, rank, epoch)->epoch;
        atomic_store_explicit(word, epoch, memory_order_release);
        if (rank != ctx->rank)
            pw_offer(word);
    }
    for (int rank = 0; rank < ctx->size; rank++)
        if (rank != ctx->rank)
            pw_expect_store(&line_at(ctx, rank, epoch + 1)->epoch);
    for (int i = 0; i < ctx->patience.pauses; i++)
        pw_relax();
}

static peerwin_status direct_barrier(peerwin_ctx *ctx, const pw_site *site) {
    int resumed = ctx->barrier.pending;
    if (!resumed)
        arrive(ctx, ++ctx->barrier.epoch);
    ctx->barrier.pending = 1;
    peerwin_status status = pw_wait_all(ctx, line_of, ctx->barrier.epoch, !resumed, site);
    if (status != PEERWIN_OK)
        return status;
    ctx->barrier.pending = 0;
    return PEERWIN_OK;
}

peerwin_status pw_barrier_of_hosts(peerwin_ctx *ctx, const pw_site *site) {
    return direct_barrier(ctx, site);
}

static peerwin_status mpi_barrier(peerwin_ctx *ctx, const pw_site *site) {
    peerwin_status status = pw_gather_slots(ctx, &ctx->barrier, PW_SHAPE_BARRIER, NULL, 0, site);
    return status == PEERWIN_OK ? pw_shapes_check(ctx, pw_gathered_slot, PEERWIN_OK, site) : status;
}

/* Whatever is not a barrier in the pads. */
static __attribute__((noinline)) peerwin_status other_barrier(peerwin_ctx *ctx, peerwin_stream stream,
                                                              const pw_site *site) {
    if (pw_on_streams(ctx))
        return pw_stream_barrier(ctx, stream, site);
    if (ctx->reduce.pending)
        return pw_fail(PEERWIN_ERR_STATE, site, "an all-reduce that timed out must be repeated first");
    return mpi_barrier(ctx, site);
}

peerwin_status peerwin_barrier(peerwin_ctx *ctx, peerwin_stream stream) {
    static const char call[] = "peerwin_barrier";
    if (!ctx)
        return pw_refuse_null(NULL, call, "ctx");
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    const pw_site *site = PW_SITE(call, NULL, ctx->rank, PW_NONE);
    if (__builtin_expect(ctx->host_direct && !ctx->reduce.pending, 1))
        status = direct_barrier(ctx, site);
    else
        status = other_barrier(ctx, stream, site);
    pw_ctx_leave(ctx);
    return status;
}
