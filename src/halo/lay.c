/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Moves of a plan as its kernels see them: made of which items, and how to find one by its number.
 *
 * Long rows are moved by vectors of 16 bytes, aligned at the target; thin ones by the largest cells that both boxes
 * consist of, so that lanes next to each other go along the next dimension. Where the boxes have different rows, each
 * side finds the cell by itself.
 */
#include "halo/lay.h"

/* Rows of at most so many cells are moved by cells, longer ones by vectors of 16 bytes. */
enum { THIN_ROW_CELLS = 32, VECTOR = 16 };

/* n * factor >> shift is n / by for n < 2^31: factor exceeds 2^shift / by by at most 1, and n * by < 2^shift. */
static pw_divisor divisor_of(uint64_t by) {
    uint32_t bits = 0;
    if (by >> 31 != 0)
        return (pw_divisor){0, 0};
    while ((uint64_t)1 << bits < by)
        bits++;
    return (pw_divisor){(uint32_t)(((uint64_t)1 << (31 + bits)) / by + 1), 31 + bits};
}

static uint64_t bits_of(const void *base, const peerwin_box *box) {
    uint64_t bits = (uint64_t)(uintptr_t)base | box->count[0];
    if (box->count[1] > 1)
        bits |= box->stride[0];
    if (box->count[2] > 1)
        bits |= box->stride[1];
    return bits;
}

/* The largest cell that every row of both boxes is made of. */
static uint32_t cell_of(const pw_move *move) {
    const uint64_t bits = bits_of(move->to, &move->to_box) | bits_of(move->from, &move->from_box);
    return pw_cell_of(bits);
}

/* How many aligned vectors of the target a row touches at most. */
static uint64_t slots_of(const pw_move *move, uint32_t cell) {
    const peerwin_box *box = &move->to_box;
    uint64_t before = VECTOR - cell; /* of the first vector */
    if ((box->count[1] == 1 || box->stride[0] % VECTOR == 0) && (box->count[2] == 1 || box->stride[1] % VECTOR == 0))
        before = (uint64_t)(uintptr_t)move->to % VECTOR;
    return (before + box->count[0] + VECTOR - 1) / VECTOR;
}

static pw_push_side side_of(const void *base, const peerwin_box *box, uint64_t per_row) {
    return (pw_push_side){.base = (char *)(uintptr_t)base,
                          .row = box->stride[0],
                          .plane = box->stride[1],
                          .per_row = per_row,
                          .per_plane = box->count[1],
                          .by_row = divisor_of(per_row),
                          .by_plane = divisor_of(box->count[1])};
}

uint64_t pw_laid_items(const pw_push_move *laid, const pw_move *move) {
    return laid->to.per_row * move->to_box.count[1] * move->to_box.count[2];
}

pw_push_move pw_lay_move(const pw_move *move) {
    pw_push_move laid = {.row_bytes = move->to_box.count[0], .cell = cell_of(move)};
    laid.even = pw_move_is_even(move) != 0;
    laid.slots = laid.even && laid.cell < VECTOR && laid.row_bytes > (uint64_t)THIN_ROW_CELLS * laid.cell;
    const uint64_t slots = laid.slots ? slots_of(move, laid.cell) : 0;
    laid.to = side_of(move->to, &move->to_box, slots ? slots : move->to_box.count[0] / laid.cell);
    laid.from = side_of(move->from, &move->from_box, slots ? slots : move->from_box.count[0] / laid.cell);
    laid.wide = pw_laid_items(&laid, move) >> 31 != 0;
    return laid;
}

uint64_t pw_box_word_data(const void *base, const peerwin_box *box) {
    const uint64_t bits = bits_of((const char *)base + box->offset, box);
    return bits % PW_WORD_DATA == 0 ? PW_WORD_DATA : bits % PW_WORD_DATA_LEAST == 0 ? PW_WORD_DATA_LEAST : 0;
}

/* Either end may move two full words at once, whatever the other does. */
pw_push_move pw_lay_words(const pw_move *move, int takes, int data, size_t pitch, size_t past) {
    const uint64_t bits = takes ? bits_of(move->to, &move->to_box) : bits_of(move->from, &move->from_box);
    const uint32_t pair = 2 * PW_WORD_DATA;
    pw_push_move laid = {
        .cell = data == PW_WORD_DATA && bits % pair == 0 ? pair : (uint32_t)data, .even = 1, .words = 1};
    laid.to = side_of(move->to, &move->to_box, move->to_box.count[0] / laid.cell);
    laid.from = side_of(move->from, &move->from_box, move->from_box.count[0] / laid.cell);
    pw_push_side *words = takes ? &laid.from : &laid.to;
    words->base += past;
    words->plane = pitch;
    return laid;
}
