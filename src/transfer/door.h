/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The way into a transfer: which window, which rank, which bytes. One inline pass of cheap checks; what is wrong is
 * found out and said out of line.
 */
#ifndef PW_TRANSFER_DOOR_H
#define PW_TRANSFER_DOOR_H

#include "window/window.h"

/* Finds out what is wrong with (win, rank, offset, bytes) and says it. Called only if something is. */
PEERWIN_MUST_USE peerwin_status pw_refuse_rank(const peerwin_win *win, const char *call, int rank);
PEERWIN_MUST_USE peerwin_status pw_refuse_range(const peerwin_win *win, const char *call, int rank, size_t offset,
                                                size_t bytes);
PEERWIN_MUST_USE peerwin_status pw_refuse_store(const peerwin_win *win, const char *call, int rank);
PEERWIN_MUST_USE peerwin_status pw_refuse_null(const peerwin_win *win, const char *call, const char *what);
PEERWIN_MUST_USE peerwin_status pw_refuse_slot(const peerwin_win *win, const char *call, unsigned slot);

/* Enters the window's context. */
PEERWIN_MUST_USE static inline peerwin_status pw_win_enter(peerwin_win *win, const char *call) {
    if (__builtin_expect(!win, 0))
        return pw_refuse_null(NULL, call, "win");
    return pw_ctx_enter(win->ctx, call);
}

static inline int pw_is_rank(const peerwin_win *win, int rank) {
    return (unsigned)rank < (unsigned)win->ctx->size;
}

/* Is `rank` a rank that this window reaches? Ranks that are not in the context count as not reached. */
static inline int pw_win_reaches(const peerwin_win *win, int rank) {
    return pw_is_rank(win, rank) && win->peers[rank].path != PEERWIN_PATH_NONE;
}

/* In CUDA space transfers are work for streams. In the same cache line as the rest that a small put looks at. */
static inline int pw_on_streams(const peerwin_ctx *ctx) {
    return ctx->space == PEERWIN_SPACE_CUDA;
}

static inline int pw_fits(size_t size, size_t offset, size_t bytes) {
    return bytes <= size && offset <= size - bytes;
}

static inline int pw_in_range(const pw_win_peer *peer, size_t offset, size_t bytes) {
    return pw_fits(peer->bytes, offset, bytes);
}

#endif
