/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Notes by MPI, to ranks without a descriptor channel: handles that need no descriptor reach other nodes so.
 */
#ifndef PW_WINDOW_POST_H
#define PW_WINDOW_POST_H

#include "window/context.h"

/* Sends a note; does not wait for its arrival. At most one note of a kind is under way. */
PEERWIN_MUST_USE peerwin_status pw_post_send(peerwin_ctx *ctx, int rank, const pw_note *note, const pw_site *site);

/* Waits for the next note of `rank`. INTERNAL if what came is none. */
PEERWIN_MUST_USE peerwin_status pw_post_receive(peerwin_ctx *ctx, int rank, const pw_site *site, pw_note *note_out);

/* Waits until what was sent is gone from the buffers. */
PEERWIN_MUST_USE peerwin_status pw_post_flush(peerwin_ctx *ctx, const pw_site *site);

#endif
