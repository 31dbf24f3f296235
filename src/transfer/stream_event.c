/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The barrier of kind EVENT: each rank records an event in its stream, and makes the stream wait for the peers' events.
 *
 * A stream waits for the record that was there when the wait was made, so the hosts meet between the two: when all have
 * come, every event of this barrier has been recorded. Two events are used by turns: who records one again has met the
 * others in the barrier between, and they have made their waits for the first record then. That is why one meeting is
 * enough. The hosts meet as in host space, in the pads, with deadline and an eye on dead peers.
 */
#include "memory/events.h"
#include "transfer/barrier.h"
#include "transfer/stream_meet.h"

/* The events of the barrier that the hosts met in last. */
static unsigned turn_of(const peerwin_ctx *ctx) {
    return (unsigned)(ctx->barrier.epoch & 1);
}

static peerwin_status await_peers(pw_step *step) {
    peerwin_ctx *ctx = step->ctx;
    peerwin_status status = PEERWIN_OK;
    for (int rank = 0; rank < ctx->size && status == PEERWIN_OK; rank++)
        if (ctx->peers[rank].events_import)
            status = pw_event_await(ctx->gpu, ctx->peers[rank].events_import->mapping.base, turn_of(ctx), step->stream,
                                    step->site);
    return status;
}

peerwin_status pw_await_events(pw_step *step) {
    peerwin_ctx *ctx = step->ctx;
    peerwin_status status = pw_event_await(ctx->gpu, ctx->events.base, turn_of(ctx), step->stream, step->site);
    return status == PEERWIN_OK ? await_peers(step) : status;
}

/*
 * The event is recorded once, and the hosts meet once: a barrier that timed out, or failed later, goes on where it was.
 */
peerwin_status pw_meet_by_events(pw_step *step) {
    peerwin_ctx *ctx = step->ctx;
    if (!pw_event_barrier_is_open(ctx)) {
        unsigned next = (unsigned)((ctx->barrier.epoch + 1) & 1);
        peerwin_status status = pw_event_record(ctx->gpu, ctx->events.base, next, step->stream, step->site);
        if (status != PEERWIN_OK)
            return status;
        ctx->sequence.pending = step->number;
    }
    peerwin_status status = ctx->sequence.met ? PEERWIN_OK : pw_barrier_of_hosts(ctx, step->site);
    if (status != PEERWIN_OK)
        return status;
    ctx->sequence.met = 1;
    status = await_peers(step);
    if (status == PEERWIN_OK)
        ctx->sequence.met = 0;
    return status;
}
