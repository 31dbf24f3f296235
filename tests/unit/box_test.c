/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The geometry of boxes, against a picture of every byte: where a box ends, whether its rows overlap, and what a copy
 * moves. Small boxes are tried exhaustively.
 */
#include <stdlib.h>

#include "transfer/box.h"
#include "unit/unit.h"

enum { ROOM = 512 };

static size_t row_start(const peerwin_box *box, size_t row, size_t plane) {
    return row * box->stride[0] + plane * box->stride[1];
}

/* Paints every byte; returns the end of the box, and whether a byte was painted twice. */
static size_t paint(const peerwin_box *box, int *overlap_out) {
    unsigned char picture[ROOM] = {0};
    size_t end = 0;
    *overlap_out = 0;
    for (size_t plane = 0; plane < box->count[2]; plane++) {
        for (size_t row = 0; row < box->count[1]; row++) {
            for (size_t i = 0; i < box->count[0]; i++) {
                size_t at = row_start(box, row, plane) + i;
                assert_true(at < ROOM);
                *overlap_out |= picture[at]++ != 0;
                end = at + 1 > end ? at + 1 : end;
            }
        }
    }
    return end;
}

static void check_box(const peerwin_box *box) {
    int overlap = 0;
    size_t extent = 4711;
    size_t end = paint(box, &overlap);
    assert_int_equal(pw_box_extent(box, &extent), 0);
    if (extent != end || !pw_box_overlaps_itself(box) != !overlap) {
        fail_msg("counts %zu %zu %zu, strides %zu %zu: extent %zu (want %zu), overlap %d (want %d)", box->count[0],
                 box->count[1], box->count[2], box->stride[0], box->stride[1], extent, end, pw_box_overlaps_itself(box),
                 overlap);
    }
}

static void check_strides(const size_t count[3]) {
    for (size_t row = 0; row <= 14; row++) {
        for (size_t plane = 0; plane <= 45; plane++) {
            peerwin_box box = {.count = {count[0], count[1], count[2]}, .stride = {row, plane}};
            check_box(&box);
        }
    }
}

static void every_small_box_is_measured_right(void **state) {
    (void)state;
    for (size_t bytes = 0; bytes <= 5; bytes++) {
        for (size_t rows = 0; rows <= 5; rows++) {
            for (size_t planes = 0; planes <= 5; planes++) {
                const size_t count[3] = {bytes, rows, planes};
                check_strides(count);
            }
        }
    }
}

static void boxes_beyond_the_address_space_have_no_extent(void **state) {
    const peerwin_box wrong[] = {
        {.count = {2, 2, 1}, .stride = {SIZE_MAX - 1, 0}},
        {.count = {8, 3, 1}, .stride = {SIZE_MAX / 2, 0}},
        {.count = {8, 2, 3}, .stride = {16, SIZE_MAX / 2 + 1}},
        {.count = {8, SIZE_MAX / 8 + 2, 1}, .stride = {8, 0}},
        {.count = {SIZE_MAX, 2, 1}, .stride = {1, 0}},
        {.count = {1, (size_t)1 << 32, (size_t)1 << 32}, .stride = {(size_t)1 << 32, 1}},
        {.count = {8, ((size_t)1 << 61) + 1, 1}},
        {.count = {8, (size_t)1 << 20, (size_t)1 << 40}, .stride = {8, 0}},
        {.count = {2, (size_t)1 << 31, (size_t)1 << 31}, .stride = {1, 1}},
    };
    size_t extent = 4711;
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(pw_box_extent(&wrong[i], &extent), -1);
        assert_int_equal(extent, 4711);
    }
}

static void strides_of_flat_boxes_do_not_count(void **state) {
    const peerwin_box flat = {.count = {7, 1, 1}, .stride = {SIZE_MAX, SIZE_MAX}};
    const peerwin_box empty = {.count = {7, 0, SIZE_MAX}, .stride = {SIZE_MAX, SIZE_MAX}};
    size_t extent = 0;
    (void)state;
    assert_int_equal(pw_box_extent(&flat, &extent), 0);
    assert_int_equal(extent, 7);
    assert_false(pw_box_overlaps_itself(&flat));
    assert_int_equal(pw_box_extent(&empty, &extent), 0);
    assert_int_equal(extent, 0);
    assert_false(pw_box_overlaps_itself(&empty));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_box_is_measured_right),
        cmocka_unit_test(boxes_beyond_the_address_space_have_no_extent),
        cmocka_unit_test(strides_of_flat_boxes_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
