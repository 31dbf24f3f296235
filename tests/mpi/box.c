/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Boxes: random shapes compared byte by byte with a plain loop, empty boxes, and what is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"

enum { SEGMENT = 1 << 16 };

static int right_of(int rank) {
    return (rank + 1) % job.size;
}

static int left_of(int rank) {
    return (rank + job.size - 1) % job.size;
}

static size_t row_start(const peerwin_box *box, size_t row, size_t plane) {
    return box->offset + row * box->stride[0] + plane * box->stride[1];
}

static size_t box_end(const peerwin_box *box) {
    return row_start(box, box->count[1] - 1, box->count[2] - 1) + box->count[0];
}

/* The meaning of a box copy. */
static void copy_box(unsigned char *dst, const peerwin_box *to, const unsigned char *src, const peerwin_box *from) {
    for (size_t plane = 0; plane < to->count[2]; plane++) {
        for (size_t row = 0; row < to->count[1]; row++) {
            memcpy(dst + row_start(to, row, plane), src + row_start(from, row, plane), to->count[0]);
        }
    }
}

static void random_counts(uint64_t *seed, size_t count_out[3]) {
    static const size_t longest[] = {1, 8, 24, 64, 300};
    count_out[0] = test_random_in(seed, 1, longest[test_random_in(seed, 0, 4)]);
    count_out[1] = test_random_in(seed, 1, test_random_in(seed, 0, 2) == 0 ? 1 : 12);
    count_out[2] = test_random_in(seed, 1, test_random_in(seed, 0, 1) == 0 ? 1 : 6);
    if (test_random_in(seed, 0, 19) == 0) {
        count_out[test_random_in(seed, 0, 2)] = 0;
    }
}

/* A box of these counts whose rows do not overlap. Gaps are drawn; a multiple of 8 as often as not. */
static peerwin_box random_box(uint64_t *seed, const size_t count[3]) {
    peerwin_box box = {.count = {count[0], count[1], count[2]}};
    size_t unit = test_random_in(seed, 0, 1) == 0 ? 1 : 8;
    box.offset = unit * test_random_in(seed, 0, 40);
    box.stride[0] = (count[0] + unit - 1) / unit * unit + unit * test_random_in(seed, 0, 9);
    box.stride[1] = box.stride[0] * count[1] + unit * test_random_in(seed, 0, 9);
    return box;
}

/* A source may be anything: sometimes rows that overlap, or are the same row again. */
static peerwin_box random_source(uint64_t *seed, const size_t count[3]) {
    peerwin_box box = random_box(seed, count);
    if (test_random_in(seed, 0, 3) == 0) {
        box.stride[0] = test_random_in(seed, 0, count[0]);
    }
    if (test_random_in(seed, 0, 3) == 0) {
        box.stride[1] = test_random_in(seed, 0, count[0]);
    }
    return box;
}

static void check_put_box(peerwin_ctx *ctx, peerwin_win *win, uint64_t *seed, unsigned round) {
    size_t count[3];
    random_counts(seed, count);
    peerwin_box from = random_source(seed, count);
    peerwin_box to = random_box(seed, count);
    unsigned char *data = host_new(SEGMENT);
    unsigned char *want = host_new(SEGMENT);
    unsigned char *got = host_new(SEGMENT);
    void *source = buffer_new(SEGMENT);
    pattern_write(data, job.rank, round, SEGMENT);
    buffer_store(source, 0, data, SEGMENT);
    segment_set(win, TEST_GUARD);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    CHECK_OK(peerwin_put_box(win, right_of(job.rank), &to, source, &from, job.stream));
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    pattern_write(data, left_of(job.rank), round, SEGMENT);
    memset(want, TEST_GUARD, SEGMENT);
    copy_box(want, &to, data, &from);
    segment_load(win, 0, got, SEGMENT);
    check_bytes("the segment", got, want, SEGMENT);
    buffer_free(source);
    free(data);
    free(want);
    free(got);
}

static void check_get_box(peerwin_ctx *ctx, peerwin_win *win, uint64_t *seed, unsigned round) {
    size_t count[3];
    random_counts(seed, count);
    peerwin_box from = random_source(seed, count);
    peerwin_box to = random_box(seed, count);
    unsigned char *data = host_new(SEGMENT);
    unsigned char *want = host_new(SEGMENT);
    unsigned char *got = host_new(SEGMENT);
    void *target = buffer_new(SEGMENT);
    pattern_write(data, job.rank, round, SEGMENT);
    segment_store(win, 0, data, SEGMENT);
    buffer_set(target, TEST_GUARD, SEGMENT);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    CHECK_OK(peerwin_get_box(win, right_of(job.rank), &from, target, &to, job.stream));
    CHECK_OK(peerwin_stream_sync(ctx, job.stream));
    pattern_write(data, right_of(job.rank), round, SEGMENT);
    memset(want, TEST_GUARD, SEGMENT);
    copy_box(want, &to, data, &from);
    buffer_load(target, 0, got, SEGMENT);
    check_bytes("the target", got, want, SEGMENT);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    buffer_free(target);
    free(data);
    free(want);
    free(got);
}

/* The seed is the same everywhere, so that the target knows what its neighbour drew. */
static void random_boxes_move_exactly_their_bytes(void) {
    uint64_t seed = 20240607;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, SEGMENT);
    for (unsigned round = (unsigned)test_rounds(400, 150); round > 0; round--) {
        check_put_box(ctx, win, &seed, round);
        check_get_box(ctx, win, &seed, round);
    }
    test_free(ctx, win);
}

static peerwin_box box_of(size_t offset, size_t c0, size_t c1, size_t c2, size_t s0, size_t s1) {
    peerwin_box box = {.offset = offset, .count = {c0, c1, c2}, .stride = {s0, s1}};
    return box;
}

static void an_empty_box_moves_nothing(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 4096);
    unsigned char bytes[4096];
    memset(bytes, 0x77, sizeof(bytes));
    for (int zero = 0; zero < 3; zero++) {
        peerwin_box box = box_of(0, 8, 4, 2, 16, 64);
        box.count[zero] = 0;
        CHECK_OK(peerwin_put_box(win, right_of(job.rank), &box, bytes, &box, job.stream));
        CHECK_OK(peerwin_get_box(win, right_of(job.rank), &box, bytes, &box, job.stream));
    }
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    check_all("the buffer", bytes, 0x77, sizeof(bytes));
    segment_load(win, 0, bytes, sizeof(bytes));
    check_all("the segment", bytes, 0, sizeof(bytes));
    test_free(ctx, win);
}

static void strides_of_flat_boxes_are_not_looked_at(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 4096);
    peerwin_box flat = box_of(8, 64, 1, 1, SIZE_MAX, SIZE_MAX);
    peerwin_box planes = box_of(16, 8, 1, 3, SIZE_MAX, 8);
    unsigned char bytes[128];
    pattern_write(bytes, job.rank, 3, sizeof(bytes));
    CHECK_OK(peerwin_put_box(win, right_of(job.rank), &flat, bytes, &flat, job.stream));
    CHECK_OK(peerwin_get_box(win, job.rank, &planes, bytes, &planes, job.stream));
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    test_free(ctx, win);
}

static void check_put_refused(peerwin_win *win, const peerwin_box *to, peerwin_status status, const char *word) {
    peerwin_box from = box_of(0, to->count[0], to->count[1], to->count[2], 0, 0);
    unsigned char source[64];
    memset(source, 0x77, sizeof(source));
    CHECK(to->count[0] <= sizeof(source));
    CHECK_STATUS(peerwin_put_box(win, right_of(job.rank), to, source, &from, job.stream), status, word);
}

static void a_target_whose_rows_overlap_is_refused(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 4096);
    const peerwin_box wrong[] = {
        box_of(0, 16, 2, 1, 15, 0),    /* rows */
        box_of(0, 16, 2, 1, 0, 0),     /* the same row twice */
        box_of(0, 16, 1, 2, 0, 15),    /* planes of one row */
        box_of(0, 16, 4, 2, 16, 63),   /* the next plane begins in the last row */
        box_of(0, 16, 4, 2, 32, 40),   /* planes interleave, but not between the rows */
        box_of(0, 16, 4, 3, 100, 100), /* the next plane begins at the second row */
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        peerwin_box from = box_of(0, wrong[i].count[0], wrong[i].count[1], wrong[i].count[2], 16, 64);
        unsigned char buffer[4096] = {0};
        check_put_refused(win, &wrong[i], PEERWIN_ERR_ARG, "overlap");
        CHECK_STATUS(peerwin_get_box(win, right_of(job.rank), &from, buffer, &wrong[i], job.stream), PEERWIN_ERR_ARG,
                     "overlap");
        check_all("the target", buffer, 0, sizeof(buffer));
        /* As a source the same box is legal. */
        CHECK_OK(done(ctx, peerwin_put_box(win, right_of(job.rank), &from, buffer, &wrong[i], job.stream)));
    }
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    unsigned char got[4096];
    segment_load(win, 0, got, sizeof(got));
    check_all("the segment", got, 0, sizeof(got));
    test_free(ctx, win);
}

/* Plane 1 lies in the gaps between the rows of plane 0: nothing overlaps. */
static void planes_between_the_rows_of_others_are_no_overlap(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 4096);
    peerwin_box to = box_of(5, 16, 4, 2, 40, 20);
    peerwin_box from = box_of(0, 16, 4, 2, 16, 64);
    unsigned char data[128];
    unsigned char want[4096] = {0};
    unsigned char got[4096];
    pattern_write(data, job.rank, 9, sizeof(data));
    CHECK_OK(peerwin_put_box(win, right_of(job.rank), &to, data, &from, job.stream));
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    pattern_write(data, left_of(job.rank), 9, sizeof(data));
    copy_box(want, &to, data, &from);
    segment_load(win, 0, got, sizeof(got));
    check_bytes("the segment", got, want, sizeof(got));
    test_free(ctx, win);
}

static void a_box_that_leaves_the_segment_is_refused_naming_offset_and_size(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 4000);
    const peerwin_box wrong[] = {
        box_of(3993, 8, 1, 1, 0, 0),              /* by one byte */
        box_of(4001, 1, 1, 1, 0, 0),              /* begins outside */
        box_of(0, 8, 2, 1, 3993, 0),              /* the last row */
        box_of(0, 8, 2, 2, 16, 3977),             /* the last plane */
        box_of(SIZE_MAX - 3, 8, 1, 1, 0, 0),      /* offset + bytes overflows */
        box_of(8, 8, 3, 1, SIZE_MAX / 2, 0),      /* rows overflow to a small number */
        box_of(8, 8, 2, 3, 16, SIZE_MAX / 2 + 1), /* planes overflow to zero */
        box_of(0, 8, SIZE_MAX / 8 + 2, 1, 8, 0),  /* the product overflows */
        box_of(0, 1, (size_t)1 << 32, (size_t)1 << 32, (size_t)1 << 32, 1),
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        unsigned char target[64];
        peerwin_box to = wrong[i];
        to.offset = 0;
        check_put_refused(win, &wrong[i], PEERWIN_ERR_RANGE, "4000");
        CHECK(test_text_has(peerwin_last_error(), test_number(wrong[i].offset)));
        if (wrong[i].count[1] == 1) {
            CHECK_STATUS(peerwin_get_box(win, right_of(job.rank), &wrong[i], target, &to, job.stream),
                         PEERWIN_ERR_RANGE, "4000");
        }
    }
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    peerwin_box last = box_of(3992, 8, 1, 1, 0, 0);
    unsigned char bytes[4000] = {0};
    CHECK_OK(peerwin_put_box(win, right_of(job.rank), &last, bytes, &last, job.stream));
    CHECK_EQUAL(box_end(&last), 4000);
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    test_free(ctx, win);
}

static void boxes_of_unequal_counts_are_refused(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 4000);
    unsigned char bytes[256] = {0};
    peerwin_box to = box_of(0, 8, 2, 2, 16, 64);
    for (int k = 0; k < 3; k++) {
        peerwin_box from = to;
        from.count[k]--;
        CHECK_STATUS(peerwin_put_box(win, job.rank, &to, bytes, &from, job.stream), PEERWIN_ERR_ARG, "count");
        CHECK_STATUS(peerwin_get_box(win, job.rank, &from, bytes, &to, job.stream), PEERWIN_ERR_ARG, "count");
    }
    test_free(ctx, win);
}

static const test_case cases[] = {
    TEST_CASE(random_boxes_move_exactly_their_bytes, 1, 0),
    TEST_CASE(an_empty_box_moves_nothing, 1, 0),
    TEST_CASE(strides_of_flat_boxes_are_not_looked_at, 1, 0),
    TEST_CASE(a_target_whose_rows_overlap_is_refused, 1, 0),
    TEST_CASE(planes_between_the_rows_of_others_are_no_overlap, 1, 0),
    TEST_CASE(a_box_that_leaves_the_segment_is_refused_naming_offset_and_size, 1, 0),
    TEST_CASE(boxes_of_unequal_counts_are_refused, 1, 0),
};
TEST_MAIN(cases)
