/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The barrier on streams: by memory operations, by a kernel, or by events, as was agreed at init.
 *
 * By a kernel: each lane stores the epoch into this rank's line at a peer, and polls a peer's line in its own arena.
 * The epoch stands in device memory and is counted by the kernel, so a graph can run it again.
 */
#include "transfer/stream_meet.h"
#include "window/watchdog.h"

typedef struct {
    const peerwin_ctx *ctx;
    int series;
} lines;

static char *my_line_at(const void *of, int owner) {
    const lines *l = of;
    const peerwin_ctx *ctx = l->ctx;
    return ctx->peers[owner].arena + ctx->arena_layout.kernel_lines[l->series] + (size_t)ctx->rank * PW_LINE;
}

static peerwin_status meet_by_kernel(pw_step *step) {
    peerwin_ctx *ctx = step->ctx;
    const lines mine = {ctx, pw_series_of(step)};
    const pw_launch_places places = {my_line_at, &mine};
    const pw_launch_meeting meeting = pw_meeting_of(step, pw_my_control(ctx)->barrier_epoch, ctx->sequence.barriers);
    char *in = ctx->peers[ctx->rank].arena + ctx->arena_layout.kernel_lines[mine.series];
    pw_watchdog_expect_kernels(ctx);
    peerwin_status status = pw_launch_barrier(ctx->gpu, step->stream, &meeting, in, &places, &step->given, step->site);
    if (status == PEERWIN_OK && !step->capture)
        ctx->sequence.barriers++;
    return status;
}

static pw_last kind_of(const pw_step *step) {
    const peerwin_ctx *ctx = step->ctx;
    if (step->capture)
        return pw_kernels_meet(ctx) ? PW_LAST_BARRIER : PW_LAST_LINES;
    return ctx->barrier_kind == PEERWIN_BARRIER_KERNEL  ? PW_LAST_BARRIER
           : ctx->barrier_kind == PEERWIN_BARRIER_EVENT ? PW_LAST_EVENTS
                                                        : PW_LAST_LINES;
}

static peerwin_status meet(pw_step *step, pw_last kind) {
    switch (kind) {
    case PW_LAST_BARRIER:
        return meet_by_kernel(step);
    case PW_LAST_EVENTS:
        return pw_meet_by_events(step);
    default:
        return pw_meet_by_words(step);
    }
}

/* An EVENT barrier that timed out is on its stream already. */
static peerwin_status check_state(const pw_step *step) {
    const peerwin_ctx *ctx = step->ctx;
    if (step->capture && ctx->barrier_kind == PEERWIN_BARRIER_EVENT)
        return pw_fail(PEERWIN_ERR_STATE, step->site,
                       "the stream is capturing, and barriers of kind EVENT cannot be captured: use MEMOP or KERNEL");
    if (pw_event_barrier_is_open(ctx) && ctx->sequence.pending != step->number)
        return pw_fail(PEERWIN_ERR_STATE, step->site,
                       "a barrier that timed out or failed must be repeated on the same stream first");
    return PEERWIN_OK;
}

static peerwin_status barrier(pw_step *step) {
    const peerwin_ctx *ctx = step->ctx;
    pw_last kind = kind_of(step);
    peerwin_status status = check_state(step);
    if (status != PEERWIN_OK || ctx->size == 1)
        return status;
    if (!pw_event_barrier_is_open(ctx))
        status = pw_meet_join(step);
    if (status == PEERWIN_OK)
        status = meet(step, kind);
    return status == PEERWIN_OK ? pw_meet_done(step, kind) : status;
}

peerwin_status pw_stream_barrier(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    pw_step step;
    if (!ctx->all_direct)
        return pw_fail(PEERWIN_ERR_UNREACHABLE, site,
                       "a barrier on a stream needs a direct path between all ranks: see peerwin_peer_query");
    peerwin_status status = pw_step_in(&step, ctx, stream, site);
    if (status != PEERWIN_OK)
        return status;
    return pw_step_out(&step, barrier(&step));
}
