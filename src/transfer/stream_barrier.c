/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The barrier on streams, by memory operations: no kernel, no spinning, nothing that blocks the host.
 *
 * Rank w writes its epoch into its line of every arena, a release, and waits until all lines of its own arena have
 * reached it. Epochs only grow and a line has one writer, so barriers may follow each other at once, as in host space.
 *
 * Barriers of a context form one sequence, also across streams. On another stream than the last one's, the lines of my
 * own arena, mine included, are awaited for the last epoch before the next is written: that they have it is the very
 * end of the last barrier. It needs no event, and works when the old stream was destroyed meanwhile. Streams are told
 * apart by the driver's number, since a handle may be used again.
 */
#include "transfer/stream_door.h"
#include "window/watchdog.h"

/* Operations of one call to the driver, which takes fewer than 256. */
enum { BATCH = 255 };

typedef struct {
    peerwin_ctx *ctx;
    peerwin_stream stream;
    const pw_site *site;
    unsigned count;
    int given; /* some operations are the driver's already, and cannot be taken back */
    CUstreamBatchMemOpParams operations[BATCH];
} batch;

static peerwin_status give(batch *b) {
    CUresult code = b->ctx->gpu->driver->cuStreamBatchMemOp(pw_cu_stream(b->stream), b->count, b->operations, 0);
    b->count = 0;
    b->given |= code == CUDA_SUCCESS;
    return pw_stream_result(b->ctx, code, "cuStreamBatchMemOp", b->site);
}

static peerwin_status add(batch *b, const CUstreamBatchMemOpParams *operation) {
    b->operations[b->count++] = *operation;
    return b->count == BATCH ? give(b) : PEERWIN_OK;
}

static CUdeviceptr line_of(const peerwin_ctx *ctx, int owner, int writer) {
    return pw_device_address(pw_arena_line(ctx->peers[owner].arena, &ctx->arena_layout, writer));
}

/* Writes my epoch to everyone, myself last. */
static peerwin_status arrive(batch *b, uint64_t epoch) {
    const peerwin_ctx *ctx = b->ctx;
    peerwin_status status = PEERWIN_OK;
    for (int i = 1; i <= ctx->size && status == PEERWIN_OK; i++) {
        int rank = (ctx->rank + i) % ctx->size;
        CUstreamBatchMemOpParams write = {0};
        write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
        write.writeValue.address = line_of(ctx, rank, ctx->rank);
        write.writeValue.value64 = epoch;
        status = add(b, &write);
    }
    return status;
}

/* Waits for everyone's epoch in my own arena. */
static peerwin_status await(batch *b, uint64_t epoch) {
    peerwin_ctx *ctx = b->ctx;
    unsigned flags = pw_stream_wait_flags(ctx);
    peerwin_status status = PEERWIN_OK;
    for (int rank = 0; rank < ctx->size && status == PEERWIN_OK; rank++) {
        CUstreamBatchMemOpParams wait = {0};
        wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
        wait.waitValue.address = line_of(ctx, ctx->rank, rank);
        wait.waitValue.value64 = epoch;
        wait.waitValue.flags = flags;
        status = add(b, &wait);
    }
    return status;
}

static peerwin_status enqueue(batch *b, uint64_t series) {
    peerwin_ctx *ctx = b->ctx;
    peerwin_status status = PEERWIN_OK;
    uint64_t epoch = ctx->stream_epoch + 1;
    pw_watchdog_expect_barrier(ctx, epoch);
    if (ctx->stream_epoch > 0 && ctx->stream_series != series)
        status = await(b, ctx->stream_epoch);
    if (status == PEERWIN_OK)
        status = arrive(b, epoch);
    if (status == PEERWIN_OK)
        status = await(b, epoch);
    if (status == PEERWIN_OK && b->count > 0)
        status = give(b);
    if (status == PEERWIN_OK)
        status = pw_stream_acquire(ctx, b->stream, b->site);
    if (status != PEERWIN_OK)
        return status;
    ctx->stream_epoch = epoch;
    ctx->stream_series = series;
    return PEERWIN_OK;
}

/* The values of a barrier are fixed when it is enqueued, so a graph could not run it twice. */
static peerwin_status barrier(batch *b) {
    const peerwin_ctx *ctx = b->ctx;
    int capturing = 0;
    unsigned long long series = 0;
    peerwin_status status = pw_stream_is_capturing(ctx, b->stream, b->site, &capturing);
    if (status == PEERWIN_OK && capturing)
        status = pw_fail(PEERWIN_ERR_STATE, b->site, "the stream is capturing, and barriers cannot be captured yet");
    if (status != PEERWIN_OK)
        return status;
    CUresult code = ctx->gpu->driver->cuStreamGetId(pw_cu_stream(b->stream), &series);
    status = pw_stream_result(ctx, code, "cuStreamGetId", b->site);
    return status == PEERWIN_OK ? enqueue(b, series) : status;
}

peerwin_status pw_stream_barrier(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    if (!ctx->all_direct)
        return pw_fail(PEERWIN_ERR_UNREACHABLE, site,
                       "a barrier on a stream needs a direct path between all ranks: see peerwin_peer_query");
    peerwin_status status = pw_stream_enter(ctx, stream, site);
    if (status != PEERWIN_OK)
        return status;
    batch b;
    b.ctx = ctx;
    b.stream = stream;
    b.site = site;
    b.count = 0;
    b.given = 0;
    status = barrier(&b);
    if (status != PEERWIN_OK && b.given) /* half a barrier: this rank is out of step */
        pw_ctx_break(ctx, pw_cause_make(status, ctx->rank));
    return pw_stream_leave(ctx, status);
}
