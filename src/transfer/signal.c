/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Signals: send, wait, consume, read; in host space here, in CUDA space by streams.
 *
 * Release: the store or addition of pw_signal_send. Acquire: the load in pw_wait_word and in signal_read. So whoever
 * has seen the signal sees everything that its sender stored before it. (In C11 an acquire load of an addition's result
 * synchronizes with every addition of its release sequence, and with SET there is one writer.)
 */
#include "transfer/signal.h"

#include "transfer/door.h"
#include "transfer/stream.h"
#include "transfer/wait.h"

#include <inttypes.h>

peerwin_status pw_signal_check(const peerwin_win *win, const char *call, int rank, unsigned slot,
                               peerwin_signal_op op) {
    if (slot >= win->num_signals)
        return pw_refuse_slot(win, call, slot);
    if (op != PEERWIN_SIGNAL_SET && op != PEERWIN_SIGNAL_ADD)
        return pw_fail(PEERWIN_ERR_ARG, PW_SITE(call, NULL, win->ctx->rank, PW_NONE), "%d is no signal operation",
                       (int)op);
    if (__builtin_expect(pw_on_streams(win->ctx) && pw_win_reaches(win, rank), 0))
        return pw_stream_check_signal(win, rank, op, PW_SITE(call, NULL, win->ctx->rank, rank));
    return PEERWIN_OK;
}

peerwin_status pw_signal_send(peerwin_win *win, const char *call, int rank, unsigned slot, peerwin_signal_op op,
                              uint64_t value, peerwin_stream stream) {
    if (__builtin_expect(pw_on_streams(win->ctx), 0))
        return pw_stream_signal(win, rank, slot, op, value, stream, PW_SITE(call, NULL, win->ctx->rank, rank));
    _Atomic uint64_t *word = &win->peers[rank].signals[slot];
    if (op == PEERWIN_SIGNAL_SET)
        atomic_store_explicit(word, value, memory_order_release);
    else
        atomic_fetch_add_explicit(word, value, memory_order_release);
    if (rank == win->ctx->rank)
        return PEERWIN_OK; /* I am not asleep */
    pw_fence_before_wake(win->ctx);
    pw_pad_wake_sleeper(win->ctx->peers[rank].pad);
    return PEERWIN_OK;
}

peerwin_status peerwin_signal(peerwin_win *win, int rank, unsigned slot, peerwin_signal_op op, uint64_t value,
                              peerwin_stream stream) {
    static const char call[] = "peerwin_signal";
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    if (rank != MPI_PROC_NULL) {
        status = pw_signal_check(win, call, rank, slot, op);
        if (status == PEERWIN_OK && !pw_win_reaches(win, rank))
            status = pw_refuse_rank(win, call, rank);
        if (status == PEERWIN_OK)
            status = pw_signal_send(win, call, rank, slot, op, value, stream);
    }
    pw_ctx_leave(win->ctx);
    return status;
}

static peerwin_status check_slot(const peerwin_win *win, const char *call, unsigned slot) {
    return slot < win->num_signals ? PEERWIN_OK : pw_refuse_slot(win, call, slot);
}

/* Waits for my slot in host space; a time-out says what is there. */
static peerwin_status await(peerwin_win *win, const char *call, unsigned slot, uint64_t value) {
    peerwin_ctx *ctx = win->ctx;
    const _Atomic uint64_t *word = &win->peers[ctx->rank].signals[slot];
    pw_cause cause = pw_wait_word(ctx, word, value);
    if (cause == 0)
        return PEERWIN_OK;
    const pw_site *site = PW_SITE(call, NULL, ctx->rank, PW_NONE);
    if (pw_cause_status(cause) != PEERWIN_ERR_TIMEOUT || pw_cause_rank(cause) != PW_NONE)
        return pw_wait_broken(ctx, cause, site);
    char stopped[200];
    pw_liveness_describe_stopped(&ctx->live, stopped, sizeof stopped);
    return pw_fail(PEERWIN_ERR_TIMEOUT, site,
                   "signal slot %u is %" PRIu64 ", awaited is %" PRIu64 "%s; call again to go on waiting", slot,
                   atomic_load_explicit(word, memory_order_relaxed), value, stopped);
}

peerwin_status peerwin_wait(peerwin_win *win, unsigned slot, uint64_t value, peerwin_stream stream) {
    static const char call[] = "peerwin_wait";
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    status = check_slot(win, call, slot);
    if (status == PEERWIN_OK)
        status = pw_on_streams(win->ctx)
                     ? pw_stream_wait(win, slot, value, stream, PW_SITE(call, NULL, win->ctx->rank, PW_NONE))
                     : await(win, call, slot, value);
    pw_ctx_leave(win->ctx);
    return status;
}

static peerwin_status consume(peerwin_win *win, const char *call, unsigned slot, uint64_t count) {
    peerwin_status status = await(win, call, slot, count);
    if (status == PEERWIN_OK)
        atomic_fetch_sub_explicit(&win->peers[win->ctx->rank].signals[slot], count, memory_order_relaxed);
    return status;
}

peerwin_status peerwin_consume(peerwin_win *win, unsigned slot, uint64_t count, peerwin_stream stream) {
    static const char call[] = "peerwin_consume";
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    status = check_slot(win, call, slot);
    if (status == PEERWIN_OK)
        status = pw_on_streams(win->ctx)
                     ? pw_stream_consume(win, slot, count, stream, PW_SITE(call, NULL, win->ctx->rank, PW_NONE))
                     : consume(win, call, slot, count);
    pw_ctx_leave(win->ctx);
    return status;
}

static peerwin_status read_slot(peerwin_win *win, const char *call, unsigned slot, uint64_t *value_out) {
    const peerwin_ctx *ctx = win->ctx;
    if (!value_out)
        return pw_refuse_null(win, call, "value_out");
    if (pw_on_streams(ctx))
        return pw_stream_read_signal(win, slot, value_out, PW_SITE(call, NULL, ctx->rank, PW_NONE));
    *value_out = atomic_load_explicit(&win->peers[ctx->rank].signals[slot], memory_order_acquire);
    return PEERWIN_OK;
}

peerwin_status peerwin_signal_read(peerwin_win *win, unsigned slot, uint64_t *value_out) {
    static const char call[] = "peerwin_signal_read";
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    status = check_slot(win, call, slot);
    if (status == PEERWIN_OK)
        status = read_slot(win, call, slot, value_out);
    pw_ctx_leave(win->ctx);
    return status;
}
