/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Faces and moves of halo plans, against a picture of every byte: whether boxes meet, what is moved where, and by which
 * cells a device may move it, for random boxes of all shapes.
 */
#include <stdlib.h>

#include "halo/face.h"
#include "halo/lay.h"
#include "halo/move.h"
#include "unit/unit.h"

enum { ROOM = 4096, SHIFT = 40, TRIES = 30000 };

static uint64_t random_state = 20261129;

static size_t draw(size_t low, size_t high) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return low + (size_t)(random_state >> 33) % (high - low + 1);
}

/* Where byte number `at` lies, in lexicographic order. */
static size_t place_of(const peerwin_box *box, size_t at) {
    size_t row = at / box->count[0];
    return box->offset + row / box->count[1] * box->stride[1] + row % box->count[1] * box->stride[0] +
           at % box->count[0];
}

/* A box of which no two rows share a byte, its rows and planes in either order; at most some 1,300 bytes from end to
 * end. */
static peerwin_box draw_box(size_t row, size_t rows, size_t planes) {
    size_t near = row + draw(0, 1) * draw(0, 20);
    size_t far = rows * near + draw(0, 1) * draw(0, 30);
    if (draw(0, 3) == 0) {
        size_t nearer = planes * (row + draw(0, 9));
        return (peerwin_box){.offset = draw(0, 300), .count = {row, rows, planes}, .stride = {nearer, nearer / planes}};
    }
    return (peerwin_box){.offset = draw(0, 300), .count = {row, rows, planes}, .stride = {near, far}};
}

static int share_a_byte(const peerwin_box *a, const peerwin_box *b) {
    unsigned char picture[ROOM] = {0};
    for (size_t i = 0; i < pw_box_bytes(a); i++) {
        picture[place_of(a, i)] = 1;
    }
    for (size_t i = 0; i < pw_box_bytes(b); i++) {
        if (picture[place_of(b, i)] != 0) {
            return 1;
        }
    }
    return 0;
}

static void boxes_meet_exactly_if_they_share_a_byte(void **state) {
    int met = 0;
    (void)state;
    for (int i = 0; i < TRIES; i++) {
        const peerwin_box a = draw_box(draw(1, 9), draw(1, 7), draw(1, 5));
        peerwin_box b = draw_box(draw(1, 9), draw(1, 7), draw(1, 5));
        if (draw(0, 1) == 0) { /* rows between rows: most boxes of one array have its strides */
            memcpy(b.stride, a.stride, sizeof(b.stride));
        }
        int share = share_a_byte(&a, &b);
        met += share;
        assert_int_equal(pw_boxes_meet(&a, &b), share);
        assert_int_equal(pw_boxes_meet(&b, &a), share);
    }
    assert_in_range(met, TRIES / 10, TRIES * 9 / 10); /* both outcomes were really tried */
}

static void empty_boxes_meet_nothing(void **state) {
    const peerwin_box full = {.count = {100, 1, 1}};
    const peerwin_box empty = {.offset = 50, .count = {10, 0, 3}, .stride = {10, 10}};
    const peerwin_box repeated = {.offset = 99, .count = {1, 5, 5}}; /* strides of 0: a send box may have them */
    (void)state;
    assert_false(pw_boxes_meet(&full, &empty));
    assert_false(pw_boxes_meet(&empty, &full));
    assert_true(pw_boxes_meet(&full, &repeated));
    assert_true(pw_boxes_meet(&repeated, &full));
}

/* ------------------------------------------------------------------------------------------------- moves */

enum { MOST_MOVES = 6, EACH = 2048 };

typedef struct {
    peerwin_box to, from;
} ends;

/* Boxes of the same bytes; of the same counts, or of other ones. */
static ends draw_ends(int even) {
    size_t counts[] = {draw(1, 6), draw(1, 6), draw(1, 6)};
    ends e;
    e.to = draw_box(counts[0], counts[1], counts[2]);
    e.from = even ? draw_box(counts[0], counts[1], counts[2]) : draw_box(counts[2], counts[0] * counts[1], 1);
    return e;
}

/* Several moves, some of one shape, each into a part of its own; every byte of the target is compared. */
static void check_moves(unsigned char *to, unsigned char *want, const unsigned char *from) {
    pw_move list[MOST_MOVES];
    pw_moves moves = {.list = list};
    size_t count = draw(1, MOST_MOVES);
    ends e = draw_ends(1);
    memset(to, 0xA5, (size_t)MOST_MOVES * EACH);
    memset(want, 0xA5, (size_t)MOST_MOVES * EACH);
    for (size_t m = 0; m < count; m++) {
        unsigned char *part = to + m * EACH;
        if (draw(0, 1) == 0) {
            e = draw_ends((int)draw(0, 2));
        }
        pw_moves_add(&moves, NULL, (char *)part, &e.to, (const char *)from + m, &e.from);
        for (size_t i = 0; i < pw_box_bytes(&e.to); i++) {
            want[m * EACH + SHIFT + place_of(&e.to, i)] = from[m + 3 + place_of(&e.from, i)];
        }
    }
    pw_moves_settle(&moves);
    pw_moves_run(&moves, SHIFT, 3);
    assert_memory_equal(to, want, (size_t)MOST_MOVES * EACH);
}

static void moves_bring_every_byte_to_its_place_and_no_other(void **state) {
    unsigned char *to = malloc((size_t)MOST_MOVES * EACH);
    unsigned char *want = malloc((size_t)MOST_MOVES * EACH);
    unsigned char *from = malloc(EACH);
    (void)state;
    assert_true(to && want && from);
    for (size_t i = 0; i < EACH; i++) {
        from[i] = (unsigned char)(i * 2654435761u >> 7);
    }
    for (int i = 0; i < TRIES / 4; i++) {
        check_moves(to, want, from);
    }
    free(to);
    free(want);
    free(from);
}

static void rows_that_touch_become_one(void **state) {
    const peerwin_box block = {.offset = 5, .count = {8, 4, 3}, .stride = {8, 32}};
    const peerwin_box planes = {.count = {8, 4, 3}, .stride = {8, 100}};
    const peerwin_box columns = {.count = {8, 4, 3}, .stride = {100, 400}};
    (void)state;
    peerwin_box box = pw_box_simplify(&block);
    assert_int_equal(box.count[0], 96);
    assert_int_equal(box.count[1] * box.count[2], 1);
    assert_int_equal(box.offset, 5);
    box = pw_box_simplify(&planes);
    assert_int_equal(box.count[0], 32);
    assert_int_equal(box.count[1], 3);
    assert_int_equal(box.stride[0], 100);
    box = pw_box_simplify(&columns);
    assert_int_equal(box.count[0], 8);
    assert_int_equal(box.count[1], 12);
    assert_int_equal(box.stride[0], 100);
}

/* ------------------------------------------------------------------------------------------------- cells */

/* 1 if every row of the box begins at a multiple of `cell`, and is one long. */
static int consists_of(const void *base, const peerwin_box *box, size_t cell) {
    for (size_t plane = 0; plane < box->count[2]; plane++) {
        for (size_t row = 0; row < box->count[1]; row++) {
            const size_t at = (size_t)(uintptr_t)base + row * box->stride[0] + plane * box->stride[1];
            if (at % cell != 0) {
                return 0;
            }
        }
    }
    return box->count[0] % cell == 0;
}

static uint32_t largest_cell(const pw_move *move) {
    uint32_t cell = 16;
    while (!consists_of(move->to, &move->to_box, cell) || !consists_of(move->from, &move->from_box, cell)) {
        cell /= 2;
    }
    return cell;
}

/* In a laid move cells or slots are counted as the kernel divides them. */
static void check_laid(const pw_move *move, uint32_t cell) {
    const pw_push_move laid = pw_lay_move(move);
    assert_int_equal(laid.cell, cell);
    assert_true(!laid.slots || (laid.even && cell < 16 && laid.row_bytes > (uint64_t)32 * cell));
    if (!laid.slots) {
        assert_int_equal(laid.to.per_row * cell, move->to_box.count[0]);
        assert_int_equal(laid.from.per_row * cell, move->from_box.count[0]);
        assert_int_equal(pw_laid_items(&laid, move) * cell, pw_box_bytes(&move->to_box));
    }
}

/* Everything about a box a multiple of `unit`. */
static peerwin_box scale(const peerwin_box *box, size_t unit) {
    return (peerwin_box){.offset = box->offset * unit,
                         .count = {box->count[0] * unit, box->count[1], box->count[2]},
                         .stride = {box->stride[0] * unit, box->stride[1] * unit}};
}

/* Elements of 1 to 24 bytes, either side out of step by up to 3 bytes. The memory is looked at by nobody. */
static void devices_move_by_the_largest_cells_of_both_ends(void **state) {
    enum { MOST_ELEM = 24 };
    static _Alignas(16) char memory[8192];
    int seen[MOST_ELEM + 1][17] = {{0}};
    (void)state;
    for (int i = 0; i < TRIES; i++) {
        const size_t elem = draw(1, MOST_ELEM);
        const ends e = draw_ends((int)draw(0, 2));
        const peerwin_box to = scale(&e.to, elem);
        const peerwin_box from = scale(&e.from, elem);
        pw_move list[1] = {{0}};
        pw_moves moves = {.list = list};
        pw_moves_add(&moves, NULL, memory + draw(0, 1) * draw(0, 3), &to, memory + draw(0, 1) * draw(0, 3), &from);
        const uint32_t cell = largest_cell(list);
        check_laid(list, cell);
        seen[elem][cell]++;
    }
    for (size_t elem = 1; elem <= MOST_ELEM; elem++) { /* as large as the elements allow, and bytes at odd places */
        const size_t own = elem % 16 == 0 ? 16 : elem % 8 == 0 ? 8 : elem % 4 == 0 ? 4 : elem % 2 == 0 ? 2 : 1;
        assert_true(seen[elem][own] > 0 && seen[elem][1] > 0);
        assert_true(own == 1 || seen[elem][2] > 0);
    }
}

static void rows_of_any_element_have_its_largest_cell(void **state) {
    static _Alignas(16) char memory[32];
    static const struct {
        size_t elem, shift;
        uint32_t cell;
    } rows[] = {{2, 0, 2},  {2, 1, 1}, {6, 0, 2},  {6, 2, 2}, {10, 0, 2}, {10, 3, 1}, {14, 6, 2},
                {12, 0, 4}, {4, 2, 2}, {12, 2, 2}, {8, 4, 4}, {24, 0, 8}, {24, 4, 4}, {16, 0, 16}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const peerwin_box column = {.count = {rows[i].elem, 9, 1}, .stride = {48 * rows[i].elem, 0}};
        for (int end = 0; end < 2; end++) {
            pw_move list[1] = {{0}};
            pw_moves moves = {.list = list};
            pw_moves_add(&moves, NULL, memory + (end ? 0 : rows[i].shift), &column, memory + (end ? rows[i].shift : 0),
                         &column);
            check_laid(list, rows[i].cell);
        }
    }
}

/* One cell to a word, but for two full words that are moved at once: by whichever end can, whatever the other does. */
static void words_carry_what_both_ends_are_aligned_to(void **state) {
    static _Alignas(16) char memory[64];
    static const struct {
        size_t row, offset;
        uint64_t data;
        uint32_t cell;
    } faces[] = {{2, 0, 2, 2}, {6, 4, 2, 2},  {10, 2, 2, 2}, {12, 4, 4, 4}, {8, 4, 4, 4}, {8, 2, 2, 2},
                 {3, 0, 0, 0}, {16, 1, 0, 0}, {24, 8, 4, 8}, {8, 0, 4, 8},  {4, 8, 4, 4}, {14, 3, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof(faces) / sizeof(faces[0]); i++) {
        const peerwin_box box = {
            .offset = faces[i].offset, .count = {faces[i].row, 5, 1}, .stride = {16 * faces[i].row, 0}};
        const peerwin_box words = pw_box_packed(&box, 0);
        assert_int_equal(pw_box_word_data(memory, &box), faces[i].data);
        for (int data = PW_WORD_DATA_LEAST; (uint64_t)data <= faces[i].data; data += PW_WORD_DATA_LEAST) {
            pw_move list[2] = {{0}};
            pw_moves moves = {.list = list};
            pw_moves_add(&moves, NULL, memory, &words, memory, &box);
            pw_moves_add(&moves, NULL, memory, &box, memory, &words);
            const pw_push_move sent = pw_lay_words(&list[0], 0, data, 80, 32);
            const pw_push_move taken = pw_lay_words(&list[1], 1, data, 96, 0);
            assert_int_equal(sent.cell, data < PW_WORD_DATA ? PW_WORD_DATA_LEAST : faces[i].cell);
            assert_int_equal(taken.cell, sent.cell);
            assert_ptr_equal(sent.to.base, memory + 32);
            assert_ptr_equal(taken.from.base, memory);
            assert_int_equal(sent.to.plane, 80);
            assert_int_equal(taken.from.plane, 96);
            assert_int_equal(pw_laid_items(&sent, &list[0]) * sent.cell, pw_box_bytes(&box));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_meet_exactly_if_they_share_a_byte),
        cmocka_unit_test(empty_boxes_meet_nothing),
        cmocka_unit_test(moves_bring_every_byte_to_its_place_and_no_other),
        cmocka_unit_test(rows_that_touch_become_one),
        cmocka_unit_test(devices_move_by_the_largest_cells_of_both_ends),
        cmocka_unit_test(rows_of_any_element_have_its_largest_cell),
        cmocka_unit_test(words_carry_what_both_ends_are_aligned_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
