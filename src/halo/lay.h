/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Moves of a plan as its kernels see them (memory/kernels.h).
 */
#ifndef PW_HALO_LAY_H
#define PW_HALO_LAY_H

#include "halo/move.h"
#include "memory/kernels.h"

/* Bytes of a face that one word carries. */
enum { PW_WORD_DATA = 4 };

/* Words for so many bytes: an even number, since two are stored at once where that is possible. */
static inline uint64_t pw_words_for(uint64_t bytes) {
    return (bytes + 7) / 8 * 2;
}

/* From box to box. */
pw_push_move pw_lay_move(const pw_move *move);

/*
 * From a box to words, or, if it `takes`, from words to a box; the words are a box without gaps, PW_WORD_DATA bytes in
 * each, and their two halves `pitch` bytes apart.
 */
pw_push_move pw_lay_words(const pw_move *move, int takes, size_t pitch);

/* 1 if words can carry that box of a segment. */
int pw_box_has_words(const void *base, const peerwin_box *box);

/* How many items the move has. */
uint64_t pw_laid_items(const pw_push_move *laid, const pw_move *move);

#endif
