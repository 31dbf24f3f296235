/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The host waits for a stream: with a deadline and an eye on dead peers, which the driver's own wait has not.
 */
#include "transfer/stream_door.h"
#include "transfer/wait.h"
#include "window/watchdog.h"

enum { SPINS = 200, LOOK_EVERY = 64, NAP_NS = 20000, LONG_NAP_NS = 100000, NAPS = 50, RELEASE_MS = 1000 };

static void nap(long nanoseconds) {
    (void)nanosleep(&(const struct timespec){.tv_nsec = nanoseconds}, NULL);
}

static int is_busy(const peerwin_ctx *ctx, peerwin_stream stream) {
    return ctx->gpu->driver->cuStreamQuery(pw_cu_stream(stream)) == CUDA_ERROR_NOT_READY;
}

/* The context is broken: whatever the stream waits for does not come any more. */
static void release(peerwin_ctx *ctx, peerwin_stream stream) {
    int64_t until = pw_now() + RELEASE_MS * PW_MS;
    while (is_busy(ctx, stream) && pw_now() < until) {
        pw_watchdog_release(ctx);
        nap(1000000);
    }
}

static peerwin_status timed_out(peerwin_ctx *ctx, const pw_site *site) {
    char missing[400];
    char stopped[200];
    pw_watchdog_describe(ctx, missing, sizeof missing, site);
    pw_liveness_describe_stopped(&ctx->live, stopped, sizeof stopped);
    return pw_fail(PEERWIN_ERR_TIMEOUT, site, "the stream is not done%s%s; call again to go on waiting", missing,
                   stopped);
}

/* The stream may have got there just before the peer went: then nothing is lost yet. */
static peerwin_status give_up(peerwin_ctx *ctx, peerwin_stream stream, pw_cause cause, const pw_site *site) {
    if (pw_ctx_broken(ctx) == 0) {
        if (!is_busy(ctx, stream))
            return PEERWIN_OK;
        if (pw_cause_status(cause) == PEERWIN_ERR_TIMEOUT && pw_cause_rank(cause) == PW_NONE)
            return timed_out(ctx, site);
        pw_ctx_break(ctx, cause);
    }
    release(ctx, stream);
    return pw_cause_fail(pw_ctx_broken(ctx), &ctx->live, site);
}

peerwin_status pw_stream_drain(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    pw_watch watch = {0};
    for (int round = 1;; round += round < SPINS + NAPS) {
        CUresult code = ctx->gpu->driver->cuStreamQuery(pw_cu_stream(stream));
        if (code != CUDA_ERROR_NOT_READY)
            return pw_stream_result(ctx, code, "cuStreamQuery", site);
        if (round < SPINS && round % LOOK_EVERY != 0) {
            pw_relax();
            continue;
        }
        if (!watch.broken)
            watch = pw_ctx_watch(ctx);
        pw_cause cause = pw_watch_look(&watch);
        if (cause != 0)
            return give_up(ctx, stream, cause, site);
        pw_wait_let_mpi_move(ctx);
        if (round >= SPINS)
            nap(round < SPINS + NAPS ? NAP_NS : LONG_NAP_NS);
    }
}

/* A broken context has let go of waits, so what ran behind them does not count, even if all of it is done. */
static peerwin_status sync_stream(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    int capturing = 0;
    peerwin_status status = pw_stream_is_capturing(ctx, stream, site, &capturing);
    if (status == PEERWIN_OK && capturing)
        status = pw_fail(PEERWIN_ERR_STATE, site, "the stream is capturing: nothing runs that could be waited for");
    if (status == PEERWIN_OK)
        status = pw_stream_drain(ctx, stream, site);
    if (status == PEERWIN_OK)
        pw_watchdog_look(ctx);
    if (status == PEERWIN_OK && pw_ctx_broken(ctx) != 0)
        status = pw_cause_fail(pw_ctx_broken(ctx), &ctx->live, site);
    return status;
}

peerwin_status pw_stream_sync(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    peerwin_status status = pw_stream_enter(ctx, stream, site);
    if (status != PEERWIN_OK)
        return status;
    return pw_stream_leave(ctx, sync_stream(ctx, stream, site));
}

/*
 * Nothing is left to do but to look at the stream. An operation of a stream begins when the earlier ones are complete,
 * and a copy or kernel that writes a peer's memory completes when its writes have been acknowledged there, whatever
 * moved them. What comes after this call on the stream therefore finds the puts at their targets; and so does a message
 * of MPI that the host sends once peerwin_stream_sync has returned.
 */
peerwin_status pw_stream_quiet(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    peerwin_status status = pw_stream_enter(ctx, stream, site);
    return status == PEERWIN_OK ? pw_stream_leave(ctx, status) : status;
}
