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

/* Bytes of a face that one word carries: so many, or, where something is not aligned to that, half of them. */
enum { PW_WORD_DATA = 4, PW_WORD_DATA_LEAST = 2 };

/* The room of a face in words, in bytes of data: for an even number of words, since two may be stored at once. */
static inline uint64_t pw_word_room(uint64_t bytes) {
    return (bytes + 7) / 8 * 8;
}

/* From box to box. */
pw_push_move pw_lay_move(const pw_move *move);

/*
 * From a box to words, or, if it `takes`, from words to a box; the words are a box without gaps, `data` bytes in each,
 * and their two halves `pitch` bytes apart. They begin `past` bytes after where the move has them.
 */
pw_push_move pw_lay_words(const pw_move *move, int takes, int data, size_t pitch, size_t past);

/* How many bytes of that box of a segment a word can carry; 0 = none. */
uint64_t pw_box_word_data(const void *base, const peerwin_box *box);

/* How many items the move has. */
uint64_t pw_laid_items(const pw_push_move *laid, const pw_move *move);

#endif
