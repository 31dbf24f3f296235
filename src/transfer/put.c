/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Put and get of contiguous bytes: checks, then a copy in host space, or work for the stream in CUDA space.
 *
 * A small put or get by the context's own thread has a way of its own, which calls nothing, saves no register and asks
 * one question of the window: whether the range lies in what the host may store to (or load from), which is nothing in
 * CUDA space, at ranks that are not reached, and where the window is read-only. All the rest is done out of line.
 *
 * The order that signals and barriers promise comes from their release and acquire; a put alone promises none.
 */
#include "transfer/door.h"
#include "transfer/signal.h"
#include "transfer/stream.h"

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

/*
 * Copies 1 to 16 bytes without a call, which would take longer than the copy: as two pieces that may overlap each
 * other. Everything is loaded before anything is stored, so source and target may overlap, too, as in memmove. A second
 * store of the same eight bytes would only be one more for a fence to wait for.
 */
static inline void copy_few(char *to, const char *from, size_t bytes) {
    if (bytes == 8) {
        uint64_t all;
        memcpy(&all, from, 8);
        memcpy(to, &all, 8);
    } else if (bytes > 8) {
        uint64_t first, last;
        memcpy(&first, from, 8);
        memcpy(&last, from + bytes - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + bytes - 8, &last, 8);
    } else if (bytes >= 4) {
        uint32_t first, last;
        memcpy(&first, from, 4);
        memcpy(&last, from + bytes - 4, 4);
        memcpy(to, &first, 4);
        memcpy(to + bytes - 4, &last, 4);
    } else {
        const char first = from[0], middle = from[bytes / 2], last = from[bytes - 1];
        to[0] = first;
        to[bytes / 2] = middle;
        to[bytes - 1] = last;
    }
}

static inline int is_few(size_t bytes) {
    return bytes - 1 < 16; /* and not 0 */
}

static inline void copy(char *to, const char *from, size_t bytes) {
    if (is_few(bytes))
        copy_few(to, from, bytes);
    else
        memmove(to, from, bytes);
}

/* Says what is wrong with a store, if anything is. */
static peerwin_status check_store(const peerwin_win *win, const char *call, int rank, size_t offset, const void *src,
                                  size_t bytes) {
    if (!pw_win_reaches(win, rank))
        return pw_refuse_rank(win, call, rank);
    if (!pw_in_range(&win->peers[rank], offset, bytes))
        return pw_refuse_range(win, call, rank, offset, bytes);
    if (win->peers[rank].read_only)
        return pw_refuse_store(win, call, rank);
    return bytes > 0 && !src ? pw_refuse_null(win, call, "src") : PEERWIN_OK;
}

/* Everything but a store in host space: what is wrong with it, nothing if there is nothing to store, or a stream's. */
static __attribute__((noinline)) peerwin_status store_otherwise(peerwin_win *win, const char *call, int rank,
                                                                size_t offset, const void *src, size_t bytes,
                                                                peerwin_stream stream) {
    if (rank == MPI_PROC_NULL)
        return PEERWIN_OK;
    peerwin_status status = check_store(win, call, rank, offset, src, bytes);
    if (status != PEERWIN_OK || bytes == 0)
        return status;
    return pw_stream_put(win, rank, offset, src, bytes, stream, PW_SITE(call, NULL, win->ctx->rank, rank));
}

static inline peerwin_status store(peerwin_win *win, const char *call, int rank, size_t offset, const void *src,
                                   size_t bytes, peerwin_stream stream) {
    if (__builtin_expect(pw_is_rank(win, rank) && src && bytes > 0, 1)) {
        const pw_win_peer *peer = &win->peers[rank];
        if (__builtin_expect(pw_fits(peer->stores, offset, bytes), 1)) {
            copy(peer->base + offset, src, bytes);
            return PEERWIN_OK;
        }
    }
    return store_otherwise(win, call, rank, offset, src, bytes, stream);
}

static __attribute__((noinline)) peerwin_status put(peerwin_win *win, int rank, size_t offset, const void *src,
                                                    size_t bytes, peerwin_stream stream) {
    static const char call[] = "peerwin_put";
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    status = store(win, call, rank, offset, src, bytes, stream);
    pw_ctx_leave(win->ctx);
    return status;
}

peerwin_status peerwin_put(peerwin_win *win, int rank, size_t offset, const void *src, size_t bytes,
                           peerwin_stream stream) {
    if (__builtin_expect(win && src && is_few(bytes) && pw_ctx_try_own(win->ctx), 1)) {
        int fits = pw_is_rank(win, rank) && pw_fits(win->peers[rank].stores, offset, bytes);
        if (fits)
            copy_few(win->peers[rank].base + offset, src, bytes);
        pw_ctx_leave_own(win->ctx);
        if (fits)
            return PEERWIN_OK;
    }
    return put(win, rank, offset, src, bytes, stream);
}

static __attribute__((noinline)) peerwin_status load_otherwise(peerwin_win *win, const char *call, int rank,
                                                               size_t offset, void *dst, size_t bytes,
                                                               peerwin_stream stream) {
    if (rank == MPI_PROC_NULL)
        return PEERWIN_OK;
    if (!pw_win_reaches(win, rank))
        return pw_refuse_rank(win, call, rank);
    if (!pw_in_range(&win->peers[rank], offset, bytes))
        return pw_refuse_range(win, call, rank, offset, bytes);
    if (bytes == 0)
        return PEERWIN_OK;
    if (!dst)
        return pw_refuse_null(win, call, "dst");
    return pw_stream_get(win, rank, offset, dst, bytes, stream, PW_SITE(call, NULL, win->ctx->rank, rank));
}

static __attribute__((noinline)) peerwin_status get(peerwin_win *win, int rank, size_t offset, void *dst, size_t bytes,
                                                    peerwin_stream stream) {
    static const char call[] = "peerwin_get";
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    if (__builtin_expect(pw_is_rank(win, rank) && dst && bytes > 0 && pw_fits(win->peers[rank].loads, offset, bytes),
                         1))
        copy(dst, win->peers[rank].base + offset, bytes);
    else
        status = load_otherwise(win, call, rank, offset, dst, bytes, stream);
    pw_ctx_leave(win->ctx);
    return status;
}

peerwin_status peerwin_get(peerwin_win *win, int rank, size_t offset, void *dst, size_t bytes, peerwin_stream stream) {
    if (__builtin_expect(win && dst && is_few(bytes) && pw_ctx_try_own(win->ctx), 1)) {
        int fits = pw_is_rank(win, rank) && pw_fits(win->peers[rank].loads, offset, bytes);
        if (fits)
            copy_few(dst, win->peers[rank].base + offset, bytes);
        pw_ctx_leave_own(win->ctx);
        if (fits)
            return PEERWIN_OK;
    }
    return get(win, rank, offset, dst, bytes, stream);
}

/* Enters the device once for both. */
static __attribute__((noinline)) peerwin_status put_signal_on_stream(peerwin_win *win, const char *call, int rank,
                                                                     size_t offset, const void *src, size_t bytes,
                                                                     unsigned slot, peerwin_signal_op op,
                                                                     uint64_t value, peerwin_stream stream) {
    peerwin_status status = check_store(win, call, rank, offset, src, bytes);
    if (status != PEERWIN_OK)
        return status;
    return pw_stream_put_signal(win, rank, offset, src, bytes, slot, op, value, stream,
                                PW_SITE(call, NULL, win->ctx->rank, rank));
}

peerwin_status peerwin_put_signal(peerwin_win *win, int rank, size_t offset, const void *src, size_t bytes,
                                  unsigned slot, peerwin_signal_op op, uint64_t value, peerwin_stream stream) {
    static const char call[] = "peerwin_put_signal";
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    if (rank != MPI_PROC_NULL) {
        status = pw_signal_check(win, call, rank, slot, op);
        if (__builtin_expect(status == PEERWIN_OK && bytes > 0 && pw_on_streams(win->ctx), 0)) {
            status = put_signal_on_stream(win, call, rank, offset, src, bytes, slot, op, value, stream);
            pw_ctx_leave(win->ctx);
            return status;
        }
        if (status == PEERWIN_OK)
            status = store(win, call, rank, offset, src, bytes, stream);
        if (status == PEERWIN_OK)
            status = pw_signal_send(win, call, rank, slot, op, value, stream);
    }
    pw_ctx_leave(win->ctx);
    return status;
}

static __attribute__((noinline)) peerwin_status quiet(peerwin_ctx *ctx, const char *call, peerwin_stream stream) {
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    if (pw_on_streams(ctx))
        status = pw_stream_quiet(ctx, stream, PW_SITE(call, NULL, ctx->rank, PW_NONE));
    else
        pw_full_fence();
    pw_ctx_leave(ctx);
    return status;
}

/*
 * Other processes of this machine see stores as soon as they are out of the store buffer, which the fence waits for.
 * What is sent afterwards by other means finds them there.
 */
peerwin_status peerwin_quiet(peerwin_ctx *ctx, peerwin_stream stream) {
    static const char call[] = "peerwin_quiet";
    if (!ctx)
        return pw_refuse_null(NULL, call, "ctx");
    /* Nothing of the context changes, so its own thread need not hold the gate. */
    if (__builtin_expect(pw_on_streams(ctx) || !pw_ctx_is_mine(ctx), 0))
        return quiet(ctx, call, stream);
    pw_full_fence();
    return PEERWIN_OK;
}

peerwin_status peerwin_stream_sync(peerwin_ctx *ctx, peerwin_stream stream) {
    static const char call[] = "peerwin_stream_sync";
    if (!ctx)
        return pw_refuse_null(NULL, call, "ctx");
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    if (pw_on_streams(ctx))
        status = pw_stream_sync(ctx, stream, PW_SITE(call, NULL, ctx->rank, PW_NONE));
    pw_ctx_leave(ctx);
    return status;
}
