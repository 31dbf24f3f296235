/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Put and get of contiguous bytes in host space: checks, then a copy.
 *
 * The order that signals and barriers promise comes from their release and acquire; a put alone promises none.
 */
#include "transfer/door.h"
#include "transfer/signal.h"

#include <string.h>

peerwin_status pw_refuse_null(const peerwin_win *win, const char *call, const char *what) {
    return pw_fail(PEERWIN_ERR_ARG, PW_SITE(call, NULL, win ? win->ctx->rank : PW_NONE, PW_NONE), "%s is NULL", what);
}

peerwin_status pw_refuse_rank(const peerwin_win *win, const char *call, int rank) {
    const peerwin_ctx *ctx = win->ctx;
    if (rank < 0 || rank >= ctx->size)
        return pw_fail(PEERWIN_ERR_ARG, PW_SITE(call, NULL, ctx->rank, PW_NONE), "rank %d is not one of 0..%d", rank,
                       ctx->size - 1);
    const pw_site *site = PW_SITE(call, NULL, ctx->rank, rank);
    if (ctx->peers[rank].path == PEERWIN_PATH_NONE)
        return pw_fail(PEERWIN_ERR_UNREACHABLE, site, "no direct path: %s", ctx->peers[rank].reason);
    return pw_fail(PEERWIN_ERR_UNREACHABLE, site, "it is not a neighbour of this window");
}

peerwin_status pw_refuse_range(const peerwin_win *win, const char *call, int rank, size_t offset, size_t bytes) {
    return pw_fail(PEERWIN_ERR_RANGE, PW_SITE(call, NULL, win->ctx->rank, rank),
                   "offset %zu and %zu bytes leave the segment, which has %zu bytes", offset, bytes,
                   win->peers[rank].bytes);
}

peerwin_status pw_refuse_store(const peerwin_win *win, const char *call, int rank) {
    return pw_fail(PEERWIN_ERR_PERMISSION, PW_SITE(call, NULL, win->ctx->rank, rank),
                   "the window is read-only for its peers");
}

peerwin_status pw_refuse_slot(const peerwin_win *win, const char *call, unsigned slot) {
    return pw_fail(PEERWIN_ERR_ARG, PW_SITE(call, NULL, win->ctx->rank, PW_NONE), "signal slot %u is not one of 0..%u",
                   slot, win->num_signals - 1);
}

/* memmove, because within one segment source and target may overlap; it costs the same. */
static peerwin_status store(const peerwin_win *win, const char *call, int rank, size_t offset, const void *src,
                            size_t bytes) {
    if (!pw_win_reaches(win, rank))
        return pw_refuse_rank(win, call, rank);
    const pw_win_peer *peer = &win->peers[rank];
    if (!pw_in_range(peer, offset, bytes))
        return pw_refuse_range(win, call, rank, offset, bytes);
    if (peer->read_only)
        return pw_refuse_store(win, call, rank);
    if (bytes == 0)
        return PEERWIN_OK;
    if (!src)
        return pw_refuse_null(win, call, "src");
    memmove(peer->base + offset, src, bytes);
    return PEERWIN_OK;
}

peerwin_status peerwin_put(peerwin_win *win, int rank, size_t offset, const void *src, size_t bytes,
                           peerwin_stream stream) {
    static const char call[] = "peerwin_put";
    (void)stream;
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    if (rank != MPI_PROC_NULL)
        status = store(win, call, rank, offset, src, bytes);
    pw_ctx_leave(win->ctx);
    return status;
}

static peerwin_status load(const peerwin_win *win, const char *call, int rank, size_t offset, void *dst, size_t bytes) {
    if (!pw_win_reaches(win, rank))
        return pw_refuse_rank(win, call, rank);
    const pw_win_peer *peer = &win->peers[rank];
    if (!pw_in_range(peer, offset, bytes))
        return pw_refuse_range(win, call, rank, offset, bytes);
    if (bytes == 0)
        return PEERWIN_OK;
    if (!dst)
        return pw_refuse_null(win, call, "dst");
    memmove(dst, peer->base + offset, bytes);
    return PEERWIN_OK;
}

peerwin_status peerwin_get(peerwin_win *win, int rank, size_t offset, void *dst, size_t bytes, peerwin_stream stream) {
    static const char call[] = "peerwin_get";
    (void)stream;
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    if (rank != MPI_PROC_NULL)
        status = load(win, call, rank, offset, dst, bytes);
    pw_ctx_leave(win->ctx);
    return status;
}

peerwin_status peerwin_put_signal(peerwin_win *win, int rank, size_t offset, const void *src, size_t bytes,
                                  unsigned slot, peerwin_signal_op op, uint64_t value, peerwin_stream stream) {
    static const char call[] = "peerwin_put_signal";
    (void)stream;
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    if (rank != MPI_PROC_NULL) {
        status = pw_signal_check(win, call, slot, op);
        if (status == PEERWIN_OK)
            status = store(win, call, rank, offset, src, bytes);
        if (status == PEERWIN_OK)
            pw_signal_send(win, rank, slot, op, value);
    }
    pw_ctx_leave(win->ctx);
    return status;
}

/*
 * Other processes of this machine see stores as soon as they are out of the store buffer, which the fence waits for.
 * What is sent afterwards by other means finds them there.
 */
peerwin_status peerwin_quiet(peerwin_ctx *ctx, peerwin_stream stream) {
    static const char call[] = "peerwin_quiet";
    (void)stream;
    if (!ctx)
        return pw_refuse_null(NULL, call, "ctx");
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    atomic_thread_fence(memory_order_seq_cst);
    pw_ctx_leave(ctx);
    return PEERWIN_OK;
}

peerwin_status peerwin_stream_sync(peerwin_ctx *ctx, peerwin_stream stream) {
    static const char call[] = "peerwin_stream_sync";
    (void)stream;
    if (!ctx)
        return pw_refuse_null(NULL, call, "ctx");
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status == PEERWIN_OK)
        pw_ctx_leave(ctx);
    return status;
}
