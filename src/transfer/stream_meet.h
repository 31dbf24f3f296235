/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Where ranks meet on streams: what barriers and all-reduces have in common.
 *
 * Barriers and all-reduces of a context form one sequence, whatever their kinds and whatever streams they are on: on
 * another stream than the last one's, the end of the last one is awaited first. Two unordered streams would let the
 * second of them tell the peers that this rank has come, before the first has.
 *
 * What runs eagerly and what is captured are two series with lines, slots and epochs of their own. While a capture is
 * under way nothing runs, so streams of it are joined in the graph; what different graphs do follows the order in which
 * the program launches them, which must be the same on all ranks.
 */
#ifndef PW_TRANSFER_STREAM_MEET_H
#define PW_TRANSFER_STREAM_MEET_H

#include "transfer/stream_door.h"

/* Makes the step's stream await the end of the last step, if that was on another stream. */
PEERWIN_MUST_USE peerwin_status pw_meet_join(pw_step *step);

/* Notes what the last step was; fails only in a capture. */
PEERWIN_MUST_USE peerwin_status pw_meet_done(pw_step *step, pw_last last);

/* Operations for one call to the driver, which takes fewer than 256. */
enum { PW_BATCH = 255 };
typedef struct {
    pw_step *step;
    unsigned wait_flags;
    unsigned count;
    CUstreamBatchMemOpParams operations[PW_BATCH];
} pw_batch;

void pw_batch_begin(pw_batch *batch, pw_step *step);
PEERWIN_MUST_USE peerwin_status pw_batch_write(pw_batch *batch, const void *word, uint64_t value);
PEERWIN_MUST_USE peerwin_status pw_batch_wait(pw_batch *batch, const void *word, uint64_t value);
PEERWIN_MUST_USE peerwin_status pw_batch_give(pw_batch *batch);

/*
 * All ranks meet by memory operations: with epochs, for streams that do not capture, or in two phases, for those that
 * do. Nothing spins, and nothing blocks the host. These count epochs, but say nothing to pw_meet_done.
 */
PEERWIN_MUST_USE peerwin_status pw_meet_by_words(pw_step *step);

/*
 * What kernels that wait need to know, for the step's series: `epochs` are those of barriers or of all-reduces in my
 * arena, and `done` is the last of the eager series.
 */
pw_launch_meeting pw_meeting_of(const pw_step *step, uint64_t *epochs, uint64_t done);
static inline int pw_series_of(const pw_step *step) {
    return step->capture ? PW_SERIES_CAPTURED : PW_SERIES_EAGER;
}
static inline pw_arena_control *pw_my_control(const peerwin_ctx *ctx) {
    return pw_arena_control_of(ctx->peers[ctx->rank].arena, &ctx->arena_layout);
}

/* A barrier of kind EVENT began, and must be repeated: nothing else of the sequence may come before. */
static inline int pw_event_barrier_is_open(const peerwin_ctx *ctx) {
    return ctx->barrier.pending || ctx->sequence.met;
}

/* A barrier of kind EVENT, which blocks the host until all have come; and the end of the last one. stream_event.c. */
PEERWIN_MUST_USE peerwin_status pw_meet_by_events(pw_step *step);
PEERWIN_MUST_USE peerwin_status pw_await_events(pw_step *step);

#endif
