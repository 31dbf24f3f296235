/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * put and get: exact bytes at every alignment and length with what lies around them intact, quiet, and the rank that
 * is nobody.
 */
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"

static int right_of(int rank) {
    return (rank + 1) % job.size;
}

static int left_of(int rank) {
    return (rank + job.size - 1) % job.size;
}

static void put_reaches_every_rank_and_get_reads_it_back(void) {
    enum { COUNT = 1000 };
    size_t part = COUNT * sizeof(double);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, part * (size_t)job.size);
    void *buffer = buffer_new(part);
    fill_buffer(buffer, 0, job.rank, 0, COUNT);
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_OK(peerwin_put(win, rank, part * (size_t)job.rank, buffer, part, job.stream));
    }
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    for (int rank = 0; rank < job.size; rank++) {
        check_fill_segment(win, part * (size_t)rank, rank, 0, COUNT);
        CHECK_OK(peerwin_get(win, rank, part * (size_t)left_of(rank), buffer, part, job.stream));
        CHECK_OK(peerwin_stream_sync(ctx, job.stream));
        check_fill_buffer(buffer, 0, left_of(rank), 0, COUNT);
    }
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    buffer_free(buffer);
    test_free(ctx, win);
}

static void a_put_of_no_bytes_is_fine_up_to_the_end_of_the_segment(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 100);
    char byte = 1;
    CHECK_OK(peerwin_put(win, right_of(job.rank), 0, &byte, 0, job.stream));
    CHECK_OK(peerwin_put(win, right_of(job.rank), 100, &byte, 0, job.stream));
    CHECK_OK(peerwin_get(win, right_of(job.rank), 100, &byte, 0, job.stream));
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    unsigned char got[100];
    segment_load(win, 0, got, 100);
    check_all("the segment", got, 0, 100);
    test_free(ctx, win);
}

static void nobody_is_a_successful_no_op(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 64);
    peerwin_box box = {.offset = 1u << 30, .count = {8, 8, 8}, .stride = {1, 1}};
    unsigned char bytes[64];
    memset(bytes, TEST_GUARD, sizeof(bytes));
    CHECK_OK(peerwin_put(win, MPI_PROC_NULL, 1u << 30, bytes, 64, job.stream));
    CHECK_OK(peerwin_get(win, MPI_PROC_NULL, 0, bytes, 64, job.stream));
    CHECK_OK(peerwin_put_box(win, MPI_PROC_NULL, &box, bytes, &box, job.stream));
    CHECK_OK(peerwin_get_box(win, MPI_PROC_NULL, &box, bytes, &box, job.stream));
    CHECK_OK(peerwin_put_signal(win, MPI_PROC_NULL, 0, bytes, 64, 1u << 20, PEERWIN_SIGNAL_SET, 1, job.stream));
    CHECK_OK(peerwin_signal(win, MPI_PROC_NULL, 0, PEERWIN_SIGNAL_ADD, 1, job.stream));
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    check_done(ctx);
    check_all("the buffer", bytes, TEST_GUARD, sizeof(bytes));
    segment_load(win, 0, bytes, 64);
    check_all("the segment", bytes, 0, 64);
    uint64_t value = 1;
    CHECK_OK(peerwin_signal_read(win, 0, &value));
    CHECK_EQUAL(value, 0);
    test_free(ctx, win);
}

static void after_quiet_a_message_may_tell_the_target_to_read(void) {
    enum { BYTES = 40000 };
    unsigned rounds = (unsigned)test_rounds(300, 100);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, BYTES);
    unsigned char *bytes = host_new(BYTES);
    unsigned char *want = host_new(BYTES);
    void *source = buffer_new(BYTES);
    for (unsigned round = 0; round < rounds; round++) {
        unsigned told = round;
        pattern_write(bytes, job.rank, round, BYTES);
        buffer_store(source, 0, bytes, BYTES);
        CHECK_OK(peerwin_put(win, right_of(job.rank), 0, source, BYTES, job.stream));
        CHECK_OK(peerwin_quiet(ctx, job.stream));
        CHECK_OK(peerwin_stream_sync(ctx, job.stream));
        MPI_Sendrecv_replace(&told, 1, MPI_UNSIGNED, right_of(job.rank), 1, left_of(job.rank), 1, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
        CHECK_EQUAL(told, round);
        segment_load(win, 0, bytes, BYTES);
        pattern_write(want, left_of(job.rank), round, BYTES);
        check_bytes("what arrived", bytes, want, BYTES);
        MPI_Sendrecv_replace(&told, 1, MPI_UNSIGNED, left_of(job.rank), 2, right_of(job.rank), 2, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
    }
    buffer_free(source);
    free(bytes);
    free(want);
    test_free(ctx, win);
}

/* ----------------------------------------------------------------------------------------------- misalignment */

enum { OFFSETS = 32, LONGEST = 300, SLOT = 32 + OFFSETS + LONGEST + 32, LENGTHS = LONGEST + 1 };

/* One slot of guards for each length; the data of length n begins at 32 + offset in slot n. */
static void check_slots(const char *what, const unsigned char *got, size_t offset, const unsigned char *data) {
    unsigned char want[SLOT];
    for (size_t length = 0; length < LENGTHS; length++) {
        memset(want, TEST_GUARD, SLOT);
        memcpy(want + 32 + offset, data, length);
        check_bytes(what, got + length * SLOT, want, SLOT);
    }
}

/* All lengths from one source offset to one target offset: put to the right, and got from the left. */
static void check_offsets(peerwin_ctx *ctx, peerwin_win *win, void *buffer, size_t from, size_t to) {
    static unsigned char got[SLOT * LENGTHS];
    unsigned char data[LONGEST];
    unsigned seed = (unsigned)(from * OFFSETS + to);
    pattern_write(data, job.rank, seed, LONGEST);
    segment_set(win, TEST_GUARD);
    buffer_store(buffer, from, data, LONGEST);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    for (size_t length = 0; length < LENGTHS; length++) {
        CHECK_OK(peerwin_put(win, right_of(job.rank), length * SLOT + 32 + to, (unsigned char *)buffer + from, length,
                             job.stream));
    }
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    segment_load(win, 0, got, sizeof(got));
    pattern_write(data, left_of(job.rank), seed, LONGEST);
    check_slots("put", got, to, data);
    /* The longest slot of the right neighbour holds my own bytes: get them back to every length. */
    unsigned char *target = (unsigned char *)buffer + 512;
    size_t source = LONGEST * SLOT + 32 + to;
    buffer_set(target, TEST_GUARD, sizeof(got));
    for (size_t length = 0; length < LENGTHS; length++) {
        CHECK_OK(peerwin_get(win, right_of(job.rank), source, target + length * SLOT + 32 + from, length, job.stream));
    }
    CHECK_OK(peerwin_stream_sync(ctx, job.stream));
    buffer_load(buffer, 512, got, sizeof(got));
    pattern_write(data, job.rank, seed, LONGEST);
    check_slots("get", got, from, data);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
}

static void every_alignment_and_length_to_300_moves_exactly_its_bytes(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, SLOT * LENGTHS);
    void *buffer = buffer_new(512 + SLOT * LENGTHS);
    for (size_t from = 0; from < OFFSETS; from++) {
        for (size_t to = 0; to < OFFSETS; to++) {
            /* On a simulated driver four targets for each source, which together have every distance between them. */
            if (test_rounds(1, (to + 6 * from) % 8 == 0)) {
                check_offsets(ctx, win, buffer, from, to);
            }
        }
    }
    buffer_free(buffer);
    test_free(ctx, win);
}

enum { MIB = 1 << 20, LARGE = MIB + 256 };

/* What is around the data is guards, the data is the sender's. */
static void check_large(const unsigned char *got, size_t offset, size_t length, const unsigned char *data) {
    check_all("before the data", got, TEST_GUARD, offset);
    check_bytes("the data", got + offset, data, length);
    check_all("after the data", got + offset + length, TEST_GUARD, LARGE - offset - length);
}

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    unsigned char *buffer;
    unsigned char *mine;
    unsigned char *lefts;
    unsigned char *got;
} large_copy;

static void check_large_copy(large_copy *c, size_t from, size_t to, size_t length) {
    segment_set(c->win, TEST_GUARD);
    buffer_store(c->buffer, from, c->mine, length);
    CHECK_OK(peerwin_barrier(c->ctx, job.stream));
    CHECK_OK(peerwin_put(c->win, right_of(job.rank), to, c->buffer + from, length, job.stream));
    CHECK_OK(peerwin_barrier(c->ctx, job.stream));
    segment_load(c->win, 0, c->got, LARGE);
    check_large(c->got, to, length, c->lefts);
    buffer_set(c->buffer, TEST_GUARD, LARGE);
    CHECK_OK(peerwin_get(c->win, right_of(job.rank), to, c->buffer + from, length, job.stream));
    CHECK_OK(peerwin_stream_sync(c->ctx, job.stream));
    buffer_load(c->buffer, 0, c->got, LARGE);
    check_large(c->got, from, length, c->mine);
    CHECK_OK(peerwin_barrier(c->ctx, job.stream));
}

static void large_copies_around_one_mebibyte_move_exactly_their_bytes(void) {
    large_copy c;
    c.ctx = test_context(MPI_COMM_WORLD, 0);
    c.win = test_window(c.ctx, LARGE);
    c.buffer = buffer_new(LARGE);
    c.mine = host_new(LARGE);
    c.lefts = host_new(LARGE);
    c.got = host_new(LARGE);
    pattern_write(c.mine, job.rank, 1, LARGE);
    pattern_write(c.lefts, left_of(job.rank), 1, LARGE);
    /* Every length within 17 of a mebibyte, with source and target offsets that go through all pairs modulo 8 ... */
    for (size_t step = 0; step < 35; step++) {
        check_large_copy(&c, step * 7 % OFFSETS, step * 11 % OFFSETS, MIB - 17 + step);
    }
    /* ... and every offset, aligned to each other and not. */
    for (size_t offset = 0; offset < OFFSETS; offset++) {
        check_large_copy(&c, offset, offset, MIB + 17);
        check_large_copy(&c, offset, (offset * 5 + 1) % OFFSETS, MIB - 17);
    }
    buffer_free(c.buffer);
    free(c.mine);
    free(c.lefts);
    free(c.got);
    test_free(c.ctx, c.win);
}

static const test_case cases[] = {
    TEST_CASE(put_reaches_every_rank_and_get_reads_it_back, 1, 0),
    TEST_CASE(a_put_of_no_bytes_is_fine_up_to_the_end_of_the_segment, 1, 0),
    TEST_CASE(nobody_is_a_successful_no_op, 1, 0),
    TEST_CASE(after_quiet_a_message_may_tell_the_target_to_read, 1, 0),
    TEST_CASE(every_alignment_and_length_to_300_moves_exactly_its_bytes, 1, 3),
    TEST_CASE(large_copies_around_one_mebibyte_move_exactly_their_bytes, 1, 3),
};
TEST_MAIN(cases)
