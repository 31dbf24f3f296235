/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a plan moves: boxes of memory to boxes of memory of the same number of bytes, in lexicographic order of both.
 *
 * Faces of thin rows touch a cache line for a few bytes, so what counts is how many lines are fetched, and whether the
 * next ones are on their way. Moves of one shape are made together, row by row: the two x-faces of a block share most
 * of their lines, since the end of a row lies beside the beginning of the next.
 */
#ifndef PW_HALO_MOVE_H
#define PW_HALO_MOVE_H

#include "base/error.h"

/* Rows of fewer bytes are thin. */
enum { PW_THIN_ROW = 64 };

/* The boxes have offset 0: it is in the pointers. */
typedef struct {
    char *to;
    const char *from;
    peerwin_box to_box, from_box;
    peerwin_win *win; /* that it goes to */
    int together;     /* this many moves from here on have the same boxes */
} pw_move;

typedef struct {
    pw_move *list;
    int count;
} pw_moves;

/* Takes in a move, if it has bytes; the list has room. Boxes are simplified: rows that touch become one. */
void pw_moves_add(pw_moves *moves, peerwin_win *win, char *to, const peerwin_box *to_box, const char *from,
                  const peerwin_box *from_box);

/* All are in: finds those that are made together. */
void pw_moves_settle(pw_moves *moves);

/* Makes them, at both ends so many bytes beyond what they say. */
void pw_moves_run(const pw_moves *moves, size_t to_shift, size_t from_shift);

/* 1 if both boxes of the move have the same counts. */
int pw_move_is_even(const pw_move *move);

/* The next stretch of a move that is contiguous at both ends. Begins with all 0; its length is 0 at the end. */
typedef struct {
    size_t done;     /* bytes */
    size_t to, from; /* offsets of the stretch */
    size_t bytes;    /* its length */
} pw_stretch;
void pw_move_next(const pw_move *move, pw_stretch *stretch);

/* Rows that touch become one row, planes that continue the rows become rows. */
peerwin_box pw_box_simplify(const peerwin_box *box);

/* The box without gaps that has the counts of `box`, at the offset `offset`. */
peerwin_box pw_box_packed(const peerwin_box *box, size_t offset);

#endif
