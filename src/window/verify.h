/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Verify: a mapping is trusted only after a write through it has been seen by the owner.
 *
 * Every rank that maps a segment writes a word of its own at the start and one at the end of it; the owner checks and
 * clears them. A read-only segment is checked the other way round: the owner writes, the others read. Segments are made
 * large enough to hold a pair of words for every rank.
 */
#ifndef PW_WINDOW_VERIFY_H
#define PW_WINDOW_VERIFY_H

#include "window/announce.h"

/* Bytes to allocate for a segment of `bytes` bytes. */
size_t pw_verify_room(size_t bytes, int size);

/* Before the exchange, at the owner of a read-only segment. */
void pw_verify_prepare(pw_segment *segment, uint64_t nonce);

/* After the exchange: writes my words into my neighbours' segments, or reads theirs. */
PEERWIN_MUST_USE peerwin_status pw_verify_mappings(peerwin_win *win, const pw_assembly *assembly, const pw_site *site);

/* After all have written: checks my own segment and clears the words. */
PEERWIN_MUST_USE peerwin_status pw_verify_segment(peerwin_win *win, const pw_assembly *assembly, const pw_site *site);

#endif
