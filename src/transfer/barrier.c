/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The barrier in host space: one phase, one line per writer.
 *
 * Rank w stores its epoch into line w of every pad (release) and waits until all lines of its own pad have reached it
 * (acquire). Epochs only grow and a line has one writer, so barriers may follow each other at once: a rank that runs
 * ahead stores epoch e + 1 where e + 1 >= e satisfies those still waiting for e, and cannot get further without them.
 *
 * A context in which some pair has no direct path uses MPI's barrier. Either is resumed after a time-out.
 */
#include "transfer/door.h"
#include "transfer/wait.h"

#include <stdio.h>
#include <string.h>

static void arrive(peerwin_ctx *ctx, uint64_t epoch) {
    for (int rank = 0; rank < ctx->size; rank++)
        atomic_store_explicit(&pw_pad_barrier_line(ctx->peers[rank].pad, &ctx->layout, ctx->rank)->epoch, epoch,
                              memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    for (int rank = 0; rank < ctx->size; rank++)
        if (rank != ctx->rank)
            pw_pad_wake_sleeper(ctx->peers[rank].pad);
}

static const _Atomic uint64_t *line_of(const peerwin_ctx *ctx, int rank) {
    return &pw_pad_barrier_line(ctx->pad, &ctx->layout, rank)->epoch;
}

static peerwin_status timed_out(const peerwin_ctx *ctx, uint64_t epoch, const pw_site *site) {
    char missing[200] = "";
    char stopped[200] = "";
    size_t used = 0;
    for (int rank = 0; rank < ctx->size && used < sizeof missing - 16; rank++)
        if (!pw_reached(atomic_load_explicit(line_of(ctx, rank), memory_order_relaxed), epoch))
            used += (size_t)snprintf(missing + used, sizeof missing - used, " %d", rank);
    pw_liveness_describe_stopped(&ctx->live, stopped, sizeof stopped);
    return pw_fail(PEERWIN_ERR_TIMEOUT, site, "not arrived: rank%s%s; call again to go on waiting", missing, stopped);
}

static peerwin_status direct_barrier(peerwin_ctx *ctx, const pw_site *site) {
    pw_waiter waiter = {.ctx = ctx};
    if (!ctx->barrier.pending)
        arrive(ctx, ++ctx->barrier.epoch);
    ctx->barrier.pending = 1;
    for (int rank = 0; rank < ctx->size; rank++) {
        pw_cause cause = pw_waiter_await(&waiter, line_of(ctx, rank), ctx->barrier.epoch);
        if (cause == 0)
            continue;
        if (pw_cause_status(cause) == PEERWIN_ERR_TIMEOUT && pw_cause_rank(cause) == PW_NONE)
            return timed_out(ctx, ctx->barrier.epoch, site);
        return pw_wait_broken(ctx, cause, site);
    }
    ctx->barrier.pending = 0;
    return PEERWIN_OK;
}

static peerwin_status mpi_barrier(peerwin_ctx *ctx, const pw_site *site) {
    pw_series *series = &ctx->barrier;
    if (!series->pending) {
        atomic_thread_fence(memory_order_seq_cst); /* earlier puts, as in quiet */
        int code = MPI_Ibarrier(ctx->agree.comm, &series->request);
        if (code != MPI_SUCCESS)
            return pw_fail_mpi(site, code, "MPI_Ibarrier");
    }
    series->pending = 1;
    peerwin_status status = pw_ctx_resumable_wait(ctx, &series->request, "MPI_Ibarrier", site);
    if (status == PEERWIN_OK)
        series->pending = 0;
    return status;
}

peerwin_status peerwin_barrier(peerwin_ctx *ctx, peerwin_stream stream) {
    static const char call[] = "peerwin_barrier";
    (void)stream;
    if (!ctx)
        return pw_refuse_null(NULL, call, "ctx");
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    const pw_site *site = PW_SITE(call, NULL, ctx->rank, PW_NONE);
    if (ctx->reduce.pending)
        status = pw_fail(PEERWIN_ERR_STATE, site, "an all-reduce that timed out must be repeated first");
    else
        status = ctx->all_direct ? direct_barrier(ctx, site) : mpi_barrier(ctx, site);
    pw_ctx_leave(ctx);
    return status;
}
