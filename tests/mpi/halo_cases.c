/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ways in which halo codes failed elsewhere, as halo plans: walls, a process that is its own neighbour, and large thin
 * faces.
 */
#include <stdlib.h>
#include <string.h>

#include "support/device.h"
#include "support/flat.h"
#include "support/memory.h"

static double cell_value(int rank, int step, size_t cell) {
    return rank * 1e6 + step * 1e3 + (double)cell;
}

/* A line of ranks with walls, by faces that are listed for every side: those at the walls go nowhere. */
static void c6_ghosts_at_the_walls_keep_their_values(void) {
    enum { CELLS = 10, DEPTH = 2, LINE = CELLS + 2 * DEPTH };
    const double sentinel = -12345.5;
    const size_t face = DEPTH * sizeof(double);
    const int left = job.rank > 0 ? job.rank - 1 : MPI_PROC_NULL;
    const int right = job.rank < job.size - 1 ? job.rank + 1 : MPI_PROC_NULL;
    double line[LINE];
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, sizeof(line));
    peerwin_halo *halo = NULL;
    const peerwin_face send[] = {{left, 0, win, {.offset = face, .count = {face, 1, 1}}},
                                 {right, 1, win, {.offset = CELLS * sizeof(double), .count = {face, 1, 1}}}};
    const peerwin_face recv[] = {{left, 1, win, {.offset = 0, .count = {face, 1, 1}}},
                                 {right, 0, win, {.offset = (CELLS + DEPTH) * sizeof(double), .count = {face, 1, 1}}}};
    for (size_t i = 0; i < LINE; i++) {
        line[i] = sentinel;
    }
    segment_store(win, 0, line, sizeof(line));
    CHECK_OK(peerwin_halo_create(ctx, 2, send, 2, recv, 0, &halo));
    for (int step = 0; step < 20; step++) {
        double got[LINE];
        for (size_t cell = 0; cell < CELLS; cell++) {
            line[DEPTH + cell] = cell_value(job.rank, step, cell);
        }
        segment_store(win, face, line + DEPTH, CELLS * sizeof(double));
        CHECK_OK(peerwin_halo_start(halo, job.stream));
        CHECK_OK(peerwin_halo_finish(halo, job.stream));
        segment_load(win, 0, got, sizeof(got));
        for (size_t k = 0; k < DEPTH; k++) {
            CHECK(got[k] == (left == MPI_PROC_NULL ? sentinel : cell_value(left, step, CELLS - DEPTH + k)));
            CHECK(got[DEPTH + CELLS + k] == (right == MPI_PROC_NULL ? sentinel : cell_value(right, step, k)));
        }
    }
    CHECK_OK(peerwin_halo_free(halo));
    test_free(ctx, win);
}

static size_t uneven_size(int rank) {
    static const size_t sizes[] = {0, 1, 4097, 3u << 20};
    return sizes[rank % 4];
}

static size_t least_size(int rank, int other) {
    return uneven_size(rank) < uneven_size(other) ? uneven_size(rank) : uneven_size(other);
}

/* An empty face brings nothing, and finish waits for its sender's start all the same. Rank by rank the sender is late.
 */
static void exchange_uneven(peerwin_ctx *ctx, peerwin_win *out, peerwin_win *in, peerwin_halo *halo, int step) {
    const int right = (job.rank + 1) % job.size;
    const int left = (job.rank + job.size - 1) % job.size;
    const size_t arriving = least_size(left, job.rank);
    const size_t mine = uneven_size(job.rank);
    unsigned char *want = host_new(3u << 20);
    unsigned char *got = host_new(3u << 20);
    double began = 0;
    pattern_write(want, job.rank, (unsigned)step, mine);
    segment_store(out, 0, want, mine);
    segment_set(in, TEST_GUARD);
    test_sleep_ms(step % job.size == job.rank ? 10 : 0);
    const double now = test_seconds();
    CHECK_OK(peerwin_halo_start(halo, job.stream));
    CHECK_OK(peerwin_halo_finish(halo, job.stream));
    check_done(ctx);
    const double ended = test_seconds();
    segment_load(in, 0, got, mine);
    pattern_write(want, left, (unsigned)step, arriving);
    check_bytes("what arrived", got, want, arriving);
    check_all("behind it", got + arriving, TEST_GUARD, mine - arriving);
    MPI_Sendrecv(&now, 1, MPI_DOUBLE, right, 0, &began, 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(ended >= began);
    free(want);
    free(got);
}

/* A ring of windows of 0, 1, 4097 bytes and 3 MiB: each face is as large as the smaller part, often empty. */
static void c7_empty_parts_are_legal_and_are_waited_for(void) {
    const int right = (job.rank + 1) % job.size;
    const int left = (job.rank + job.size - 1) % job.size;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *out = test_window(ctx, uneven_size(job.rank));
    peerwin_win *in = test_window(ctx, uneven_size(job.rank));
    peerwin_halo *halo = NULL;
    const peerwin_face send = {right, 0, out, {.offset = 0, .count = {least_size(job.rank, right), 1, 1}}};
    const peerwin_face recv = {left, 0, in, {.offset = 0, .count = {least_size(left, job.rank), 1, 1}}};
    CHECK_OK(peerwin_halo_create(ctx, 1, &send, 1, &recv, 0, &halo));
    for (int step = 0; step < 8; step++) {
        exchange_uneven(ctx, out, in, halo, step);
    }
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_EQUAL(peerwin_win_bytes(out, rank), uneven_size(rank));
        CHECK_EQUAL(peerwin_win_bytes(in, rank), uneven_size(rank));
    }
    CHECK_OK(peerwin_halo_free(halo));
    CHECK_OK(peerwin_win_free(in));
    test_free(ctx, out);
}

/* Every rank alone, periodic in three dimensions: all ghosts, edges and corners too, come from itself. */
static void c13_a_process_can_be_its_own_neighbour(void) {
    enum { N = 6, G = 2, W = N + 2 * G };
    const int ones[] = {1, 1, 1};
    const size_t extent[] = {W, W, W};
    const size_t depth[] = {G, G, G};
    static double cells[W][W][W];
    MPI_Comm cart = MPI_COMM_NULL;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, sizeof(cells));
    peerwin_halo *halo = NULL;
    MPI_Cart_create(MPI_COMM_SELF, 3, ones, ones, 0, &cart);
    memset(cells, 0, sizeof(cells));
    for (size_t z = 0; z < N; z++) {
        for (size_t y = 0; y < N; y++) {
            for (size_t x = 0; x < N; x++) {
                cells[z + G][y + G][x + G] = (double)(z * 10000 + y * 100 + x);
            }
        }
    }
    segment_store(win, 0, cells, sizeof(cells));
    CHECK_OK(peerwin_halo_create_cart(win, cart, sizeof(double), extent, depth, PEERWIN_HALO_CORNERS, &halo));
    CHECK_OK(peerwin_halo_start(halo, job.stream));
    CHECK_OK(peerwin_halo_finish(halo, job.stream));
    segment_load(win, 0, cells, sizeof(cells));
    for (size_t z = 0; z < W; z++) {
        for (size_t y = 0; y < W; y++) {
            for (size_t x = 0; x < W; x++) {
                size_t want = (z + N - G) % N * 10000 + (y + N - G) % N * 100 + (x + N - G) % N;
                CHECK(cells[z][y][x] == (double)want);
            }
        }
    }
    CHECK_OK(peerwin_halo_free(halo));
    test_free(ctx, win);
    MPI_Comm_free(&cart);
}

/* What row r has in its ghosts after an exchange: cell i of rank k is k * 1e9 + i. */
static void set_ghosts(double *cells, size_t n, size_t depth, size_t r) {
    const size_t row = n + 2 * depth;
    const int left = (job.rank + job.size - 1) % job.size;
    const int right = (job.rank + 1) % job.size;
    for (size_t x = 0; x < depth; x++) {
        cells[r * row + x] = left * 1e9 + (double)(r * row + x + n);
        cells[r * row + n + depth + x] = right * 1e9 + (double)(r * row + depth + x);
    }
}

/* Cells along each edge: a simulated device is slow. */
static size_t cube(void) {
    return device_is_real() ? 256 : (size_t)test_rounds(256, 64);
}

/* x-faces of `depth` cells of a cube, between all ranks along x. */
static void exchange_x_faces(size_t depth) {
    const size_t n = cube();
    const size_t row = n + 2 * depth;
    const size_t bytes = row * n * n * sizeof(double);
    const int sizes[] = {1, 1, job.size};
    const int periodic[] = {0, 0, 1};
    const size_t extent[] = {n, n, row};
    const size_t depths[] = {0, 0, depth};
    double *want = host_new(bytes);
    double *got = host_new(bytes);
    MPI_Comm cart = MPI_COMM_NULL;
    peerwin_halo *halo = NULL;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, bytes);
    MPI_Cart_create(MPI_COMM_WORLD, 3, sizes, periodic, 0, &cart);
    for (size_t i = 0; i < row * n * n; i++) {
        want[i] = job.rank * 1e9 + (double)i;
    }
    segment_store(win, 0, want, bytes);
    CHECK_OK(peerwin_halo_create_cart(win, cart, sizeof(double), extent, depths, 0, &halo));
    CHECK_OK(peerwin_halo_start(halo, job.stream));
    CHECK_OK(peerwin_halo_finish(halo, job.stream));
    segment_load(win, 0, got, bytes);
    for (size_t r = 0; r < n * n; r++) {
        set_ghosts(want, n, depth, r);
    }
    CHECK_EQUAL(memcmp(got, want, bytes), 0);
    CHECK_OK(peerwin_halo_free(halo));
    test_free(ctx, win);
    MPI_Comm_free(&cart);
    free(want);
    free(got);
}

/* The shortest time so far of an exchange of faces of `depth` planes along dimension d of the same cube. */
static double time_faces(size_t depth, int d, double least) {
    enum { ROUNDS = 30 };
    int sizes[] = {1, 1, 1};
    int periodic[] = {0, 0, 0};
    size_t extent[] = {cube(), cube(), cube()};
    size_t depths[] = {0, 0, 0};
    MPI_Comm cart = MPI_COMM_NULL;
    peerwin_halo *halo = NULL;
    sizes[d] = job.size;
    periodic[d] = 1;
    depths[d] = depth;
    extent[d] += 2 * depth;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, extent[0] * extent[1] * extent[2] * sizeof(double));
    MPI_Cart_create(MPI_COMM_WORLD, 3, sizes, periodic, 0, &cart);
    CHECK_OK(peerwin_halo_create_cart(win, cart, sizeof(double), extent, depths, 0, &halo));
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = test_seconds();
        CHECK_OK(peerwin_halo_start(halo, job.stream));
        CHECK_OK(done(ctx, peerwin_halo_finish(halo, job.stream)));
        const double took = test_seconds() - start;
        least = took < least ? took : least;
    }
    MPI_Comm_free(&cart);
    CHECK_OK(peerwin_halo_free(halo));
    test_free(ctx, win);
    return least;
}

/* Whether thin faces ever come within ten times the shortest time of as many bytes in one piece; all ranks agree. */
static int thin_faces_are_quick(size_t depth) {
    enum { TRIES = 10 };
    double thin = 1e9;
    double whole = 1e9;
    int quick = 0;
    for (int i = 0; i < TRIES && !quick; i++) { /* beside other jobs a device is shared in turns */
        whole = time_faces(depth, 0, whole);
        thin = time_faces(depth, 2, thin);
        quick = thin <= 10 * whole;
        MPI_Allreduce(MPI_IN_PLACE, &quick, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    }
    if (!quick) {
        fprintf(stderr, "thin faces of depth %zu take %.1f us, whole ones %.1f\n", depth, thin * 1e6, whole * 1e6);
    }
    return quick;
}

/* On a GPU they take at most ten times as long as as many bytes in one piece. */
static void c18_large_thin_faces_are_exact(void) {
    static const size_t depths[] = {1, 3};
    for (int i = 0; i < 2; i++) {
        exchange_x_faces(depths[i]);
        if (device_is_real()) {
            CHECK(thin_faces_are_quick(depths[i]));
        }
    }
}

/* ---------------------------------------------------------------------------------------------------- regrid */

enum { MOST_FACE = 2700 };

/* Bytes that rank `rank` sends in this step: every fourth rank has an empty part. All ranks know it of all. */
static size_t face_bytes(uint64_t seed, int rank) {
    uint64_t state = seed + 77 * (uint64_t)rank;
    return test_random_in(&state, 0, 3) * test_random_in(&state, 1, MOST_FACE / 3);
}

/* A window that only my neighbours map. */
static peerwin_win *window_of(peerwin_ctx *ctx, size_t bytes, int to, int from) {
    const int neighbors[] = {to, from};
    peerwin_win_config config;
    peerwin_win *win = NULL;
    peerwin_win_config_init(&config);
    config.neighbors = neighbors;
    config.num_neighbors = to == job.rank ? 0 : to == from ? 1 : 2;
    CHECK_OK(peerwin_win_alloc(ctx, bytes, &config, &win));
    return win;
}

/* What came up: steps in which my part was empty, or my neighbours were others than before. */
typedef struct {
    int last, empty, changed;
} regrids;

/* A new window of other sizes, some empty, with other neighbours, and a plan for it. */
static void regrid(peerwin_ctx *ctx, uint64_t *state, int step, regrids *seen) {
    const int shift = (int)test_random_in(state, 0, (size_t)job.size - 1);
    const uint64_t seed = test_random(state);
    const int to = (job.rank + shift) % job.size;
    const int from = (job.rank + job.size - shift) % job.size;
    const size_t mine = face_bytes(seed, job.rank);
    const size_t theirs = face_bytes(seed, from);
    peerwin_win *win = window_of(ctx, mine + theirs, to, from);
    peerwin_halo *halo = NULL;
    const peerwin_face send = {to, step, win, {.offset = 0, .count = {mine, 1, 1}}};
    const peerwin_face recv = {from, step, win, {.offset = mine, .count = {theirs, 1, 1}}};
    unsigned char want[2 * MOST_FACE];
    unsigned char got[2 * MOST_FACE];
    pattern_write(want, job.rank, (unsigned)step, mine);
    segment_store(win, 0, want, mine);
    CHECK_OK(peerwin_halo_create(ctx, 1, &send, 1, &recv, 0, &halo));
    CHECK_OK(peerwin_halo_start(halo, job.stream));
    CHECK_OK(peerwin_halo_finish(halo, job.stream));
    segment_load(win, 0, got, mine + theirs);
    pattern_write(want + mine, from, (unsigned)step, theirs);
    check_bytes("the part and its ghosts", got, want, mine + theirs);
    CHECK_OK(peerwin_halo_free(halo));
    CHECK_OK(peerwin_win_free(win));
    seen->empty += mine == 0;
    seen->changed += to != seen->last;
    seen->last = to;
}

static void regrid_2000_times_leaves_memory_flat(void) {
    const int steps = TEST_SANITIZED ? test_rounds(400, 100) : 2000;
    const flat_slack of_driver = {.mappings = SIZE_MAX / 2, .space = 2 << 20, .resident = 2 << 20};
    regrids seen = {0};
    uint64_t state = 11;
    flat_watch *watch = flat_begin(steps, steps / 4, &of_driver);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (int step = 0; step < steps; step++) {
        regrid(ctx, &state, step, &seen);
        flat_look(watch, step);
    }
    CHECK_OK(peerwin_finalize(ctx));
    flat_end(watch);
    CHECK(seen.empty > steps / 8);
    CHECK(job.size == 1 || seen.changed > steps / 4);
}

static const test_case cases[] = {
    TEST_CASE(c6_ghosts_at_the_walls_keep_their_values, 1, 0),
    TEST_CASE(c7_empty_parts_are_legal_and_are_waited_for, 1, 0),
    TEST_CASE(c13_a_process_can_be_its_own_neighbour, 1, 0),
    TEST_CASE(c18_large_thin_faces_are_exact, 1, 2),
    TEST_CASE(regrid_2000_times_leaves_memory_flat, 1, 0),
};
TEST_MAIN(cases)
