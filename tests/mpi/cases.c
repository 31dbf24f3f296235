/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ways in which halo codes failed elsewhere, each turned into a small test: offsets lost, domain edges, empty parts,
 * and a process that is its own neighbour.
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

/* ------------------------------------------------------------------------------- an offset inside the segment */

enum { BLOCK = 8 << 20 };

static void check_part(peerwin_ctx *ctx, peerwin_win *win, size_t offset, size_t bytes, unsigned seed) {
    unsigned char *data = host_new(bytes);
    unsigned char *got = host_new(BLOCK);
    void *buffer = buffer_new(bytes);
    segment_set(win, TEST_GUARD);
    pattern_write(data, job.rank, seed, bytes);
    buffer_store(buffer, 0, data, bytes);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    CHECK_OK(peerwin_put(win, right_of(job.rank), offset, buffer, bytes, job.stream));
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    segment_load(win, 0, got, BLOCK);
    pattern_write(data, left_of(job.rank), seed, bytes);
    check_all("before the part", got, TEST_GUARD, offset);
    check_bytes("the part", got + offset, data, bytes);
    check_all("after the part", got + offset + bytes, TEST_GUARD, BLOCK - offset - bytes);
    CHECK_OK(peerwin_get(win, right_of(job.rank), offset, buffer, bytes, job.stream));
    CHECK_OK(peerwin_stream_sync(ctx, job.stream));
    buffer_load(buffer, 0, got, bytes);
    pattern_write(data, job.rank, seed, bytes);
    check_bytes("the part, got back", got, data, bytes);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    buffer_free(buffer);
    free(data);
    free(got);
}

static void c4_offsets_inside_a_block_reach_exactly_those_bytes(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, BLOCK);
    check_part(ctx, win, 768, 1000, 1);
    check_part(ctx, win, (size_t)5 << 20, 4096, 2);
    test_free(ctx, win);
}

/* Many small windows: each has its own bytes, and peers see exactly them. */
static void c4_twenty_small_windows_do_not_touch_each_other(void) {
    enum { COUNT = 20, BYTES = 512 };
    peerwin_win *win[COUNT];
    unsigned char data[BYTES];
    unsigned char got[BYTES];
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (unsigned i = 0; i < COUNT; i++) {
        win[i] = test_window(ctx, BYTES);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        void *buffer = buffer_new(BYTES);
        pattern_write(data, job.rank, i, BYTES);
        buffer_store(buffer, 0, data, BYTES);
        CHECK_OK(peerwin_put(win[i], right_of(job.rank), 0, buffer, BYTES, job.stream));
        CHECK_OK(peerwin_stream_sync(ctx, job.stream));
        buffer_free(buffer);
    }
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    for (unsigned i = 0; i < COUNT; i++) {
        segment_load(win[i], 0, got, BYTES);
        pattern_write(data, left_of(job.rank), i, BYTES);
        check_bytes("a small window", got, data, BYTES);
        CHECK_OK(peerwin_win_free(win[i]));
    }
    CHECK_OK(peerwin_finalize(ctx));
}

/* --------------------------------------------------------------------------------------- walls of the domain */

enum { CELLS = 10, DEPTH = 2, LINE = CELLS + 2 * DEPTH };

static double cell_value(int rank, int step, int cell) {
    return rank * 1e6 + step * 1e3 + cell;
}

/* A line of ranks with walls: ghosts at the walls belong to the program. */
static void c6_ghosts_at_the_walls_keep_their_values(void) {
    const double sentinel = -12345.5;
    size_t face = DEPTH * sizeof(double);
    int left = job.rank > 0 ? job.rank - 1 : MPI_PROC_NULL;
    int right = job.rank < job.size - 1 ? job.rank + 1 : MPI_PROC_NULL;
    double line[LINE];
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, sizeof(line));
    void *buffer = buffer_new(sizeof(line));
    peerwin_signal_op op = test_has_adds(ctx) ? PEERWIN_SIGNAL_ADD : PEERWIN_SIGNAL_SET;
    for (int i = 0; i < LINE; i++) {
        line[i] = sentinel;
    }
    segment_store(win, 0, line, sizeof(line));
    for (int step = 0; step < 20; step++) {
        for (int cell = 0; cell < CELLS; cell++) {
            line[DEPTH + cell] = cell_value(job.rank, step, cell);
        }
        buffer_store(buffer, 0, line, sizeof(line));
        uint64_t value = op == PEERWIN_SIGNAL_ADD ? 1 : (uint64_t)step + 1;
        CHECK_OK(peerwin_barrier(ctx, job.stream));
        CHECK_OK(peerwin_put_signal(win, left, (DEPTH + CELLS) * sizeof(double), (char *)buffer + face, face, 0, op,
                                    value, job.stream));
        CHECK_OK(
            peerwin_put_signal(win, right, 0, (char *)buffer + CELLS * sizeof(double), face, 1, op, value, job.stream));
        CHECK_OK(peerwin_wait(win, 0, right == MPI_PROC_NULL ? 0 : (uint64_t)step + 1, job.stream));
        CHECK_OK(peerwin_wait(win, 1, left == MPI_PROC_NULL ? 0 : (uint64_t)step + 1, job.stream));
        double got[LINE];
        segment_load(win, 0, got, sizeof(got));
        for (int k = 0; k < DEPTH; k++) {
            double low = left == MPI_PROC_NULL ? sentinel : cell_value(left, step, CELLS - DEPTH + k);
            double high = right == MPI_PROC_NULL ? sentinel : cell_value(right, step, k);
            CHECK(got[k] == low);
            CHECK(got[DEPTH + CELLS + k] == high);
        }
        for (int cell = 0; cell < CELLS; cell++) {
            CHECK(got[DEPTH + cell] == sentinel);
        }
    }
    buffer_free(buffer);
    test_free(ctx, win);
}

/* ---------------------------------------------------------------------------------------------- empty parts */

static size_t uneven_size(int rank) {
    static const size_t sizes[] = {0, 1, 4097, 3u << 20};
    return sizes[rank % 4];
}

static void c7_empty_parts_are_legal_and_their_signals_arrive(void) {
    int right = right_of(job.rank);
    int left = left_of(job.rank);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, uneven_size(job.rank));
    size_t mine = uneven_size(job.rank);
    size_t bytes = mine < uneven_size(right) ? mine : uneven_size(right);
    size_t arriving = mine < uneven_size(left) ? mine : uneven_size(left);
    unsigned char *data = host_new(3u << 20);
    unsigned char *want = host_new(3u << 20);
    void *buffer = buffer_new(3u << 20);
    for (unsigned step = 1; step <= 10; step++) {
        pattern_write(data, job.rank, step, bytes);
        buffer_store(buffer, 0, data, bytes);
        CHECK_OK(peerwin_put_signal(win, right, 0, buffer, bytes, 0, PEERWIN_SIGNAL_SET, step, job.stream));
        CHECK_OK(peerwin_wait(win, 0, step, job.stream));
        segment_load(win, 0, data, arriving);
        pattern_write(want, left, step, arriving);
        check_bytes("what arrived", data, want, arriving);
        CHECK_OK(peerwin_barrier(ctx, job.stream));
    }
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_EQUAL(peerwin_win_bytes(win, rank), uneven_size(rank));
    }
    buffer_free(buffer);
    free(data);
    free(want);
    test_free(ctx, win);
}

/* ---------------------------------------------------------------------------- a process is its own neighbour */

enum { N = 6, G = 1, W = N + 2 * G }; /* interior, ghosts, width with ghosts */

static size_t at(size_t z, size_t y, size_t x) {
    return ((z * W + y) * W + x) * sizeof(double);
}

static peerwin_box face_box(int dim, size_t index, const size_t low[3], const size_t extent[3]) {
    size_t start[3] = {low[0], low[1], low[2]};
    size_t count[3] = {extent[0], extent[1], extent[2]};
    start[dim] = index;
    count[dim] = G;
    peerwin_box box = {.offset = at(start[0], start[1], start[2]),
                       .count = {count[2] * sizeof(double), count[1], count[0]},
                       .stride = {W * sizeof(double), W * W * sizeof(double)}};
    return box;
}

/* Dimension after dimension, ghosts included once they are there, so that corners come out right too. */
static void exchange_with_self(peerwin_win *win, const void *segment) {
    size_t low[3] = {G, G, G};
    size_t extent[3] = {N, N, N};
    for (int dim = 0; dim < 3; dim++) {
        peerwin_box first = face_box(dim, G, low, extent);
        peerwin_box last = face_box(dim, N, low, extent);
        peerwin_box below = face_box(dim, 0, low, extent);
        peerwin_box above = face_box(dim, N + G, low, extent);
        CHECK_OK(peerwin_put_box(win, job.rank, &above, segment, &first, job.stream));
        CHECK_OK(peerwin_put_box(win, job.rank, &below, segment, &last, job.stream));
        low[dim] = 0;
        extent[dim] = W;
    }
}

static void c13_a_process_can_be_its_own_neighbour(void) {
    double cells[W * W * W];
    MPI_Comm alone;
    MPI_Comm_split(MPI_COMM_WORLD, job.rank, 0, &alone);
    peerwin_ctx *ctx = test_context(MPI_COMM_SELF, 0);
    peerwin_win *win = test_window(ctx, sizeof(cells));
    MPI_Comm_free(&alone);
    CHECK_EQUAL(peerwin_win_path(win, 0), PEERWIN_PATH_SELF);
    int world_rank = job.rank;
    job.rank = 0; /* the rank in this context */
    for (size_t i = 0; i < W * W * W; i++) {
        cells[i] = -1;
    }
    for (size_t z = 0; z < N; z++) {
        for (size_t y = 0; y < N; y++) {
            for (size_t x = 0; x < N; x++) {
                cells[at(z + G, y + G, x + G) / sizeof(double)] = (double)(z * 10000 + y * 100 + x);
            }
        }
    }
    segment_store(win, 0, cells, sizeof(cells));
    exchange_with_self(win, peerwin_win_ptr(win, 0));
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    segment_load(win, 0, cells, sizeof(cells));
    for (size_t z = 0; z < W; z++) {
        for (size_t y = 0; y < W; y++) {
            for (size_t x = 0; x < W; x++) {
                size_t want = (z + N - G) % N * 10000 + (y + N - G) % N * 100 + (x + N - G) % N;
                CHECK(cells[at(z, y, x) / sizeof(double)] == (double)want);
            }
        }
    }
    job.rank = world_rank;
    test_free(ctx, win);
}

static const test_case cases[] = {
    TEST_CASE(c4_offsets_inside_a_block_reach_exactly_those_bytes, 1, 0),
    TEST_CASE(c4_twenty_small_windows_do_not_touch_each_other, 1, 0),
    TEST_CASE(c6_ghosts_at_the_walls_keep_their_values, 1, 0),
    TEST_CASE(c7_empty_parts_are_legal_and_their_signals_arrive, 1, 0),
    TEST_CASE(c13_a_process_can_be_its_own_neighbour, 1, 0),
};
TEST_MAIN(cases)
