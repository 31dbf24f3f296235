/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Moving boxes in host memory; see move.h.
 *
 * Thin rows are fetched AHEAD rows before they are needed: the hardware does not foresee strides of whole rows of an
 * array. Stores that bypass the cache did not pay.
 */
#include "halo/move.h"

#include <string.h>

enum { AHEAD = 16 };

static int same_counts(const peerwin_box *a, const peerwin_box *b) {
    return a->count[0] == b->count[0] && a->count[1] == b->count[1] && a->count[2] == b->count[2];
}

static int same_shape(const peerwin_box *a, const peerwin_box *b) {
    return same_counts(a, b) && a->stride[0] == b->stride[0] && a->stride[1] == b->stride[1];
}

int pw_move_is_even(const pw_move *move) {
    return same_counts(&move->to_box, &move->from_box);
}

/* ---- shapes */

/* One level less where two boxes of the same counts both allow it; a stride that is not looked at becomes 0. */
static int drop_level(peerwin_box *a, peerwin_box *b) {
    if (a->count[1] == 1 && a->count[2] > 1) {
        a->count[1] = b->count[1] = a->count[2];
        a->stride[0] = a->stride[1];
        b->stride[0] = b->stride[1];
        a->count[2] = b->count[2] = 1;
        return 1;
    }
    if (a->count[1] > 1 && a->stride[0] == a->count[0] && b->stride[0] == b->count[0]) {
        a->count[0] = b->count[0] = a->count[0] * a->count[1];
        a->count[1] = b->count[1] = 1;
        return 1;
    }
    if (a->count[2] > 1 && a->stride[1] == a->count[1] * a->stride[0] && b->stride[1] == b->count[1] * b->stride[0]) {
        a->count[1] = b->count[1] = a->count[1] * a->count[2];
        a->count[2] = b->count[2] = 1;
        return 1;
    }
    return 0;
}

static void forget_strides(peerwin_box *box) {
    if (box->count[1] == 1)
        box->stride[0] = 0;
    if (box->count[2] == 1)
        box->stride[1] = 0;
}

static void simplify_both(peerwin_box *a, peerwin_box *b) {
    while (drop_level(a, b))
        continue;
    forget_strides(a);
    forget_strides(b);
}

peerwin_box pw_box_simplify(const peerwin_box *box) {
    peerwin_box a = *box;
    peerwin_box b = *box;
    simplify_both(&a, &b);
    return a;
}

peerwin_box pw_box_packed(const peerwin_box *box, size_t offset) {
    return (peerwin_box){.offset = offset,
                         .count = {box->count[0], box->count[1], box->count[2]},
                         .stride = {box->count[0], box->count[0] * box->count[1]}};
}

/* ---- lists */

void pw_moves_add(pw_moves *moves, peerwin_win *win, char *to, const peerwin_box *to_box, const char *from,
                  const peerwin_box *from_box) {
    if (to_box->count[0] == 0 || to_box->count[1] == 0 || to_box->count[2] == 0)
        return;
    pw_move *move = &moves->list[moves->count++];
    *move = (pw_move){.win = win,
                      .to = to + to_box->offset,
                      .from = from + from_box->offset,
                      .to_box = *to_box,
                      .from_box = *from_box,
                      .together = 1};
    if (!same_counts(to_box, from_box)) {
        move->to_box = pw_box_simplify(to_box);
        move->from_box = pw_box_simplify(from_box);
    }
    if (pw_move_is_even(move))
        simplify_both(&move->to_box, &move->from_box);
    move->to_box.offset = 0;
    move->from_box.offset = 0;
}

static int is_thin(const pw_move *move) {
    return move->to_box.count[0] < PW_THIN_ROW && move->to_box.count[1] > 1 && pw_move_is_even(move);
}

static int go_together(const pw_move *a, const pw_move *b) {
    return is_thin(a) && same_shape(&a->to_box, &b->to_box) && same_shape(&a->from_box, &b->from_box);
}

static void swap(pw_move *a, pw_move *b) {
    pw_move c = *a;
    *a = *b;
    *b = c;
}

void pw_moves_settle(pw_moves *moves) {
    for (int first = 0; first < moves->count; first += moves->list[first].together) {
        pw_move *head = &moves->list[first];
        head->together = 1;
        for (int i = first + 1; i < moves->count; i++)
            if (go_together(head, &moves->list[i]))
                swap(&moves->list[first + head->together++], &moves->list[i]);
    }
}

/* ---- thin rows */

/* `width` and `strips` are constants where this is called, if they are common ones. */
static inline __attribute__((always_inline)) void move_rows(const pw_move *moves, int strips, size_t width,
                                                            size_t to_shift, size_t from_shift) {
    const size_t rows = moves->to_box.count[1];
    const size_t to_step = moves->to_box.stride[0];
    const size_t from_step = moves->from_box.stride[0];
    const int to_far = to_step >= PW_THIN_ROW; /* the other end is packed: the hardware sees that coming */
    const int from_far = from_step >= PW_THIN_ROW;
    for (size_t plane = 0; plane < moves->to_box.count[2]; plane++) {
        size_t to = to_shift + plane * moves->to_box.stride[1];
        size_t from = from_shift + plane * moves->from_box.stride[1];
        for (size_t row = 0; row < rows; row++, to += to_step, from += from_step) {
            for (int i = 0; i < strips; i++) {
                if (from_far)
                    __builtin_prefetch(moves[i].from + from + AHEAD * from_step, 0);
                if (to_far)
                    __builtin_prefetch(moves[i].to + to + AHEAD * to_step, 1);
                memcpy(moves[i].to + to, moves[i].from + from, width);
            }
        }
    }
}

static inline __attribute__((always_inline)) void move_strips(const pw_move *moves, size_t width, size_t to_shift,
                                                              size_t from_shift) {
    switch (moves->together) {
    case 1:
        move_rows(moves, 1, width, to_shift, from_shift);
        return;
    case 2:
        move_rows(moves, 2, width, to_shift, from_shift);
        return;
    default:
        move_rows(moves, moves->together, width, to_shift, from_shift);
    }
}

static void move_thin(const pw_move *moves, size_t to_shift, size_t from_shift) {
    switch (moves->to_box.count[0]) {
    case 2:
        move_strips(moves, 2, to_shift, from_shift);
        return;
    case 4:
        move_strips(moves, 4, to_shift, from_shift);
        return;
    case 6:
        move_strips(moves, 6, to_shift, from_shift);
        return;
    case 8:
        move_strips(moves, 8, to_shift, from_shift);
        return;
    case 12:
        move_strips(moves, 12, to_shift, from_shift);
        return;
    case 16:
        move_strips(moves, 16, to_shift, from_shift);
        return;
    case 24:
        move_strips(moves, 24, to_shift, from_shift);
        return;
    case 32:
        move_strips(moves, 32, to_shift, from_shift);
        return;
    default:
        move_strips(moves, moves->to_box.count[0], to_shift, from_shift);
    }
}

/* ---- everything else */

static void move_even(const pw_move *move, size_t to_shift, size_t from_shift) {
    for (size_t plane = 0; plane < move->to_box.count[2]; plane++) {
        char *to = move->to + to_shift + plane * move->to_box.stride[1];
        const char *from = move->from + from_shift + plane * move->from_box.stride[1];
        for (size_t row = 0; row < move->to_box.count[1]; row++)
            memcpy(to + row * move->to_box.stride[0], from + row * move->from_box.stride[0], move->to_box.count[0]);
    }
}

/* Where byte number `at` of a box lies, and how many bytes of its row are left there. */
static size_t locate(const peerwin_box *box, size_t at, size_t *left_out) {
    size_t row = at / box->count[0];
    size_t byte = at % box->count[0];
    *left_out = box->count[0] - byte;
    return row / box->count[1] * box->stride[1] + row % box->count[1] * box->stride[0] + byte;
}

void pw_move_next(const pw_move *move, pw_stretch *stretch) {
    const size_t all = move->to_box.count[0] * move->to_box.count[1] * move->to_box.count[2];
    size_t left_to = 0;
    size_t left_from = 0;
    stretch->done += stretch->bytes;
    stretch->bytes = 0;
    if (stretch->done == all)
        return;
    stretch->to = locate(&move->to_box, stretch->done, &left_to);
    stretch->from = locate(&move->from_box, stretch->done, &left_from);
    stretch->bytes = left_to < left_from ? left_to : left_from;
}

static void move_uneven(const pw_move *move, size_t to_shift, size_t from_shift) {
    pw_stretch stretch = {0};
    for (pw_move_next(move, &stretch); stretch.bytes > 0; pw_move_next(move, &stretch))
        memcpy(move->to + to_shift + stretch.to, move->from + from_shift + stretch.from, stretch.bytes);
}

void pw_moves_run(const pw_moves *moves, size_t to_shift, size_t from_shift) {
    for (int i = 0; i < moves->count; i += moves->list[i].together) {
        const pw_move *move = &moves->list[i];
        if (is_thin(move))
            move_thin(move, to_shift, from_shift);
        else if (pw_move_is_even(move))
            move_even(move, to_shift, from_shift);
        else
            move_uneven(move, to_shift, from_shift);
    }
}
