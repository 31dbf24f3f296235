/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Verify: a mapping is trusted only after bytes through it have been seen at the other end.
 *
 * Every rank that maps an allocated segment writes a word of its own at the start and one at the end of it; the owner
 * checks and clears them. A read-only segment is checked the other way round: the owner writes, the others read.
 * Attached memory is left as it is: the owner tells what its first and last bytes are, and the others compare. Segments
 * are made large enough to hold a pair of words for every rank. Device memory is written and read by the copy engine;
 * that kernels get through too was proved for the pair and the kind when the context was made.
 */
#ifndef PW_WINDOW_VERIFY_H
#define PW_WINDOW_VERIFY_H

#include "window/announce.h"

/* Bytes to allocate for a segment of `bytes` bytes. */
size_t pw_verify_room(size_t bytes, int size);

/* The first and the last (up to) 8 bytes of [base, base + bytes), zero-filled. */
PEERWIN_MUST_USE peerwin_status pw_verify_ends(peerwin_ctx *ctx, const void *base, size_t bytes, const pw_site *site,
                                               uint64_t ends_out[2]);

/* Before the exchange, at the owner of a read-only segment. */
PEERWIN_MUST_USE peerwin_status pw_verify_prepare(peerwin_win *win, uint64_t nonce, const pw_site *site);

/* After the exchange: writes my words into my neighbours' segments, or reads theirs. */
PEERWIN_MUST_USE peerwin_status pw_verify_mappings(peerwin_win *win, const pw_assembly *assembly, const pw_site *site);

/* After all have written: checks my own segment and clears the words. */
PEERWIN_MUST_USE peerwin_status pw_verify_segment(peerwin_win *win, const pw_assembly *assembly, const pw_site *site);

#endif
