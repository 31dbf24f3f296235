/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The sequence of barriers and all-reduces, and meeting by memory operations; see stream_meet.h.
 *
 * With epochs: rank w writes its epoch into its line of every peer's arena, a release, and waits until all lines of its
 * own arena have reached it. Epochs only grow and a line has one writer, so barriers may follow each other at once.
 *
 * In two phases, for graphs, whose values are baked in: write 1 to the peers, wait for 1 of all, write 0 to my own
 * flags; then once more on a second set of flags. A flag of the first set is written again by its writer only after the
 * second phase, in which I take part when I have reset it. With one set a fast peer's next 1 could fall to my reset.
 */
#include "transfer/stream_meet.h"

#include "window/sharing.h"
#include "window/watchdog.h"

/* ---- batches ---- */

void pw_batch_begin(pw_batch *batch, pw_step *step) {
    batch->step = step;
    batch->wait_flags = pw_stream_wait_flags(step->ctx);
    batch->count = 0;
}

peerwin_status pw_batch_give(pw_batch *batch) {
    pw_step *step = batch->step;
    if (batch->count == 0)
        return PEERWIN_OK;
    CUresult code =
        step->ctx->gpu->driver->cuStreamBatchMemOp(pw_cu_stream(step->stream), batch->count, batch->operations, 0);
    batch->count = 0;
    return pw_step_gave(step, code, "cuStreamBatchMemOp");
}

static CUstreamBatchMemOpParams *next(pw_batch *batch) {
    CUstreamBatchMemOpParams *operation = &batch->operations[batch->count++];
    *operation = (CUstreamBatchMemOpParams){0};
    return operation;
}

static peerwin_status give_if_full(pw_batch *batch) {
    return batch->count == PW_BATCH ? pw_batch_give(batch) : PEERWIN_OK;
}

peerwin_status pw_batch_write(pw_batch *batch, const void *word, uint64_t value) {
    CUstreamBatchMemOpParams *write = next(batch);
    write->writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    write->writeValue.address = pw_device_address(word);
    write->writeValue.value64 = value;
    return give_if_full(batch);
}

peerwin_status pw_batch_wait(pw_batch *batch, const void *word, uint64_t value) {
    CUstreamBatchMemOpParams *wait = next(batch);
    wait->waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    wait->waitValue.address = pw_device_address(word);
    wait->waitValue.value64 = value;
    wait->waitValue.flags = batch->wait_flags;
    return give_if_full(batch);
}

/* ---- epochs ---- */

static const uint64_t *line_of(const peerwin_ctx *ctx, int owner, int writer) {
    return pw_arena_line(ctx->peers[owner].arena, &ctx->arena_layout, writer);
}

/* The peer that is written to last. */
static int last_peer(const peerwin_ctx *ctx) {
    return (ctx->rank + ctx->size - 1) % ctx->size;
}

/* Writes my epoch to every peer, beginning with the one after me. */
static peerwin_status arrive(pw_batch *batch, uint64_t epoch) {
    const peerwin_ctx *ctx = batch->step->ctx;
    peerwin_status status = PEERWIN_OK;
    for (int i = 1; i < ctx->size && status == PEERWIN_OK; i++)
        status = pw_batch_write(batch, line_of(ctx, (ctx->rank + i) % ctx->size, ctx->rank), epoch);
    return status;
}

/* Waits for every peer's epoch in my own arena. */
static peerwin_status await(pw_batch *batch, uint64_t epoch) {
    const peerwin_ctx *ctx = batch->step->ctx;
    peerwin_status status = PEERWIN_OK;
    for (int rank = 0; rank < ctx->size && status == PEERWIN_OK; rank++)
        if (rank != ctx->rank)
            status = pw_batch_wait(batch, line_of(ctx, ctx->rank, rank), epoch);
    return status;
}

static peerwin_status meet_by_epochs(pw_step *step) {
    peerwin_ctx *ctx = step->ctx;
    uint64_t epoch = ctx->sequence.lines + 1;
    pw_batch batch;
    pw_batch_begin(&batch, step);
    pw_watchdog_expect_barrier(ctx, epoch);
    peerwin_status status = arrive(&batch, epoch);
    if (status == PEERWIN_OK)
        status = await(&batch, epoch);
    if (status == PEERWIN_OK)
        status = pw_batch_give(&batch);
    if (status == PEERWIN_OK)
        status = pw_stream_acquire(ctx, step->stream, step->site);
    if (status == PEERWIN_OK)
        ctx->sequence.lines = epoch;
    return status;
}

/* ---- two phases ---- */

static const char *flag_of(const peerwin_ctx *ctx, int owner, int set, int writer) {
    return ctx->peers[owner].arena + ctx->arena_layout.phase_flags + (size_t)(set * ctx->size + writer) * PW_LINE;
}

static peerwin_status phase(pw_batch *batch, int set) {
    const peerwin_ctx *ctx = batch->step->ctx;
    int me = ctx->rank;
    peerwin_status status = PEERWIN_OK;
    for (int i = 1; i < ctx->size && status == PEERWIN_OK; i++)
        status = pw_batch_write(batch, flag_of(ctx, (me + i) % ctx->size, set, me), 1);
    for (int i = 1; i < ctx->size && status == PEERWIN_OK; i++)
        status = pw_batch_wait(batch, flag_of(ctx, me, set, (me + i) % ctx->size), 1);
    for (int i = 1; i < ctx->size && status == PEERWIN_OK; i++)
        status = pw_batch_write(batch, flag_of(ctx, me, set, (me + i) % ctx->size), 0);
    return status;
}

static peerwin_status meet_in_phases(pw_step *step) {
    pw_batch batch;
    pw_batch_begin(&batch, step);
    pw_watchdog_expect_phases(step->ctx);
    peerwin_status status = phase(&batch, 0);
    if (status == PEERWIN_OK)
        status = phase(&batch, 1);
    if (status == PEERWIN_OK)
        status = pw_batch_give(&batch);
    return status == PEERWIN_OK ? pw_stream_acquire(step->ctx, step->stream, step->site) : status;
}

peerwin_status pw_meet_by_words(pw_step *step) {
    return step->capture ? meet_in_phases(step) : meet_by_epochs(step);
}

/* ---- kernels ---- */

/*
 * A kernel's own deadline is far behind that of the host: a time-out of the host changes nothing, and may be repeated.
 * It is there for a program that waits inside the driver and has no watchdog.
 */
static uint64_t patience_of(const peerwin_ctx *ctx) {
    const int64_t least_ms = 600000;
    int64_t ms = 10 * (int64_t)ctx->timeout_ms;
    return ctx->timeout_ms < 0 ? UINT64_MAX : (uint64_t)((ms > least_ms ? ms : least_ms) * PW_MS);
}

pw_launch_meeting pw_meeting_of(const pw_step *step, uint64_t *epochs, uint64_t done) {
    const peerwin_ctx *ctx = step->ctx;
    return (pw_launch_meeting){.epoch = epochs + pw_series_of(step),
                               .next = done + 1,
                               .known = step->capture == 0,
                               .broken = &pw_my_control(ctx)->broken,
                               .patience = patience_of(ctx),
                               .rank = ctx->rank,
                               .size = ctx->size,
                               .one_device = pw_on_one_device(ctx)};
}

/* ---- the sequence ---- */

/*
 * The end of a barrier by memory operations is that my own writes have been made, and the peers' are here. The last of
 * mine is looked at where it went: writing a line of my own at every barrier would cost more.
 */
static peerwin_status await_lines(pw_step *step) {
    const peerwin_ctx *ctx = step->ctx;
    uint64_t epoch = ctx->sequence.lines;
    pw_batch batch;
    pw_batch_begin(&batch, step);
    peerwin_status status = pw_batch_wait(&batch, line_of(ctx, last_peer(ctx), ctx->rank), epoch);
    if (status == PEERWIN_OK)
        status = await(&batch, epoch);
    return status == PEERWIN_OK ? pw_batch_give(&batch) : status;
}

/* Kernels count what has ended in my own arena. */
static peerwin_status await_epoch(pw_step *step, const uint64_t *word, uint64_t epoch) {
    pw_batch batch;
    pw_batch_begin(&batch, step);
    peerwin_status status = pw_batch_wait(&batch, word, epoch);
    return status == PEERWIN_OK ? pw_batch_give(&batch) : status;
}

static peerwin_status await_last(pw_step *step) {
    const pw_sequence *sequence = &step->ctx->sequence;
    const pw_arena_control *control = pw_my_control(step->ctx);
    switch (sequence->last) {
    case PW_LAST_LINES:
        return await_lines(step);
    case PW_LAST_BARRIER:
        return await_epoch(step, &control->barrier_epoch[PW_SERIES_EAGER], sequence->barriers);
    case PW_LAST_REDUCE:
        return await_epoch(step, &control->reduce_epoch[PW_SERIES_EAGER], sequence->reduces);
    case PW_LAST_EVENTS:
        return pw_await_events(step);
    default:
        return PEERWIN_OK;
    }
}

/* An event that was recorded in a capture joins streams of the capture, which become part of it. */
static peerwin_status join_in_capture(pw_step *step) {
    const pw_sequence *sequence = &step->ctx->sequence;
    const pw_gpu *gpu = step->ctx->gpu;
    if (sequence->capture != step->capture || sequence->captured == step->number)
        return PEERWIN_OK;
    CUresult code = gpu->driver->cuStreamWaitEvent(pw_cu_stream(step->stream), gpu->joint, 0);
    return pw_stream_result(step->ctx, code, "cuStreamWaitEvent", step->site);
}

/* What is only waited for can be waited for again: nothing has been given yet as far as the peers go. */
peerwin_status pw_meet_join(pw_step *step) {
    const pw_sequence *sequence = &step->ctx->sequence;
    if (step->capture)
        return join_in_capture(step);
    if (sequence->last == PW_LAST_NONE || sequence->stream == step->number)
        return PEERWIN_OK;
    peerwin_status status = await_last(step);
    step->given = 0;
    return status;
}

static peerwin_status captured(pw_step *step) {
    pw_sequence *sequence = &step->ctx->sequence;
    const pw_gpu *gpu = step->ctx->gpu;
    CUresult code = gpu->driver->cuEventRecord(gpu->joint, pw_cu_stream(step->stream));
    if (code != CUDA_SUCCESS)
        return pw_stream_result(step->ctx, code, "cuEventRecord", step->site);
    sequence->capture = step->capture;
    sequence->captured = step->number;
    return PEERWIN_OK;
}

peerwin_status pw_meet_done(pw_step *step, pw_last last) {
    if (step->capture)
        return captured(step);
    step->ctx->sequence.last = last;
    step->ctx->sequence.stream = step->number;
    return PEERWIN_OK;
}
