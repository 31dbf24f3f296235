/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Random blocks of Cartesian grids: every cell of the array is what it was, or, in a ghost, what the cell of the
 * neighbour is.
 */
#include <stdlib.h>
#include <string.h>

#include "mpi/halo_random.h"
#include "support/memory.h"

enum { MOST_DIMS = 3, SENTINEL = 0xC7 };

/* What all ranks know. Dimension 0 of the communicator comes first, whichever varies fastest. */
typedef struct {
    int dims, size[MOST_DIMS], periodic[MOST_DIMS];
    size_t inside[MOST_DIMS][MOST_RANKS]; /* extent of each block without ghosts */
    size_t depth[MOST_DIMS], elem;
    unsigned flags, seed;
} grid;

/* My block of it. */
typedef struct {
    int coords[MOST_DIMS];
    size_t extent[MOST_DIMS], first[MOST_DIMS], global[MOST_DIMS]; /* first: global index of the first inside cell */
} block;

static void draw_sizes(grid *g, uint64_t *state, int ranks) {
    g->dims = (int)test_random_in(state, 1, MOST_DIMS);
    for (int d = 0, left = ranks; d < MOST_DIMS; d++) {
        g->size[d] = d < g->dims ? (int)test_random_in(state, 1, (size_t)left) : 1;
        left /= g->size[d];
    }
}

static int blocks_of(const grid *g) {
    return g->size[0] * g->size[1] * g->size[2];
}

/* The n-th one: element sizes take turns, and in every other one numbers of blocks. */
static grid draw_grid(uint64_t *state, int n) {
    grid g = {.elem = 1 + (size_t)n % 16, .seed = (unsigned)test_random_in(state, 1, 1000)};
    do {
        draw_sizes(&g, state, job.size);
    } while (n % 2 == 0 && blocks_of(&g) != 1 + n / 2 % job.size);
    g.flags = (unsigned)test_random_in(state, 0, 3); /* CORNERS and FASTEST_FIRST, or not */
    for (int d = 0; d < g.dims; d++) {
        g.periodic[d] = (int)test_random_in(state, 0, 1);
        g.depth[d] = test_random_in(state, test_random_in(state, 0, 9) == 0 ? 0 : 1, 4);
        for (int i = 0; i < g.size[d]; i++) {
            g.inside[d][i] = g.depth[d] + test_random_in(state, g.depth[d] == 0, 5);
        }
    }
    return g;
}

static block my_block(const grid *g, MPI_Comm cart) {
    block b = {.coords = {0}};
    int rank = 0;
    MPI_Comm_rank(cart, &rank);
    MPI_Cart_coords(cart, rank, g->dims, b.coords);
    for (int d = 0; d < MOST_DIMS; d++) {
        b.extent[d] = b.global[d] = 1;
        for (int i = 0; d < g->dims && i < g->size[d]; i++) {
            b.first[d] += i < b.coords[d] ? g->inside[d][i] : 0;
            b.global[d] += g->inside[d][i];
        }
        if (d < g->dims) {
            b.extent[d] = g->inside[d][b.coords[d]] + 2 * g->depth[d];
            b.global[d]--;
        }
    }
    return b;
}

/* Global index in dimension d of the local index i; -1: beyond a wall. *ghost_out: it is a ghost. */
static long global_index(const grid *g, const block *b, int d, size_t i, int *ghost_out) {
    long n = (long)b->global[d];
    long at = (long)(b->first[d] + i) - (long)g->depth[d];
    *ghost_out = d < g->dims && (i < g->depth[d] || i >= b->extent[d] - g->depth[d]);
    if (d < g->dims && g->periodic[d]) {
        return (at + 4 * n) % n;
    }
    return at < 0 || at >= n ? -1 : at;
}

/* The bytes of the cell with these local indices: inside only, or as they are after an exchange. */
static void set_cell(const grid *g, const block *b, const size_t at[], int step, int exchanged, unsigned char *cell) {
    int ghosts = 0;
    int walls = 0;
    size_t index = 0;
    for (int d = 0; d < MOST_DIMS; d++) {
        int ghost = 0;
        long global = global_index(g, b, d, at[d], &ghost);
        ghosts += ghost;
        walls += global < 0;
        index = index * b->global[d] + (size_t)global;
    }
    int corner = ghosts > 1 && !(g->flags & PEERWIN_HALO_CORNERS);
    if (walls > 0 || corner || (ghosts > 0 && !exchanged)) {
        memset(cell, SENTINEL, g->elem);
        return;
    }
    for (size_t k = 0; k < g->elem; k++) {
        cell[k] = pattern_byte(step, g->seed, index * g->elem + k);
    }
}

/* The whole array; returns its bytes. */
static size_t set_array(const grid *g, const block *b, int step, int exchanged, unsigned char *array) {
    int fastest_first = (g->flags & PEERWIN_HALO_FASTEST_FIRST) != 0;
    size_t place[MOST_DIMS];
    size_t bytes = g->elem;
    for (int n = 0; n < MOST_DIMS; n++) {
        int d = fastest_first ? n : MOST_DIMS - 1 - n;
        place[d] = bytes;
        bytes *= b->extent[d];
    }
    size_t at[MOST_DIMS];
    for (at[0] = 0; at[0] < b->extent[0]; at[0]++) {
        for (at[1] = 0; at[1] < b->extent[1]; at[1]++) {
            for (at[2] = 0; at[2] < b->extent[2]; at[2]++) {
                set_cell(g, b, at, step, exchanged, array + at[0] * place[0] + at[1] * place[1] + at[2] * place[2]);
            }
        }
    }
    return bytes;
}

static void exchange_blocks(peerwin_ctx *ctx, peerwin_win *win, peerwin_halo *halo, const grid *g, const block *b) {
    size_t room = peerwin_win_bytes(win, job.rank);
    unsigned char *want = host_new(room);
    unsigned char *got = host_new(room);
    for (int step = 0; step < 3; step++) {
        size_t bytes = set_array(g, b, step, 0, want);
        segment_store(win, 0, want, bytes);
        if (step != 1) {
            CHECK_OK(peerwin_halo_release(halo, job.stream)); /* else start does it */
        }
        CHECK_OK(peerwin_halo_start(halo, job.stream));
        CHECK_OK(peerwin_halo_finish(halo, job.stream));
        segment_load(win, 0, got, room);
        set_array(g, b, step, 1, want);
        check_bytes("the block after an exchange", got, want, bytes);
        check_all("behind the block", got + bytes, TEST_GUARD, room - bytes);
    }
    check_done(ctx);
    free(want);
    free(got);
}

/* What came up in the grids of a job. Depths, extents and sides count only where there are ghosts. */
typedef struct {
    uint64_t elems, dims, depths, spare, sides, corners, orders, blocks;
} coverage;

/* Sides of a dimension: a wall, or periodic of one block, of two, of more. Edges and corners: none of them is at a
 * wall, some are, all are, so that there is no neighbour.
 */
enum { SIDE_WALL = 0, SIDE_SELF = 1, SIDE_TWIN = 2, SIDE_RING = 3 };
enum { CORNERS_ALL = 0, CORNERS_SOME = 1, CORNERS_NONE = 2 };

static void cover_dimension(coverage *seen, const grid *g, int d) {
    const int around = g->size[d] > 2 ? SIDE_RING : g->size[d];
    cover(&seen->sides, g->periodic[d] ? (size_t)around : SIDE_WALL);
    if (g->periodic[d] || g->size[d] > 1) {
        cover(&seen->depths, g->depth[d]);
        for (int i = 0; i < g->size[d]; i++) {
            cover(&seen->spare, g->inside[d][i] - g->depth[d]);
        }
    }
}

static void cover_grid(coverage *seen, const grid *g) {
    int deep = 0;
    int walls = 0;
    cover(&seen->elems, g->elem);
    cover(&seen->dims, (size_t)g->dims);
    for (int d = 0; d < g->dims; d++) {
        if (g->depth[d] > 0) {
            deep++;
            walls += !g->periodic[d];
            cover_dimension(seen, g, d);
        }
    }
    cover(&seen->blocks, (size_t)blocks_of(g));
    cover(&seen->orders, g->flags / PEERWIN_HALO_FASTEST_FIRST);
    if (deep > 1 && (g->flags & PEERWIN_HALO_CORNERS)) {
        cover(&seen->corners, walls == 0 ? CORNERS_ALL : walls < deep ? CORNERS_SOME : CORNERS_NONE);
    }
}

static void check_grids(const coverage *seen) {
    check_covered("bytes of an element", seen->elems, 1, 16);
    check_covered("dimensions", seen->dims, 1, MOST_DIMS);
    check_covered("depth", seen->depths, 1, 4);
    check_covered("cells besides those of a face", seen->spare, 0, 5);
    check_covered("kind of sides", seen->sides, SIDE_WALL, job.size > 2 ? SIDE_RING : (size_t)job.size);
    check_covered("kind of corners", seen->corners, CORNERS_ALL, CORNERS_NONE);
    check_covered("order of dimensions", seen->orders, 0, 1);
    check_covered("blocks", seen->blocks, 1, (size_t)job.size);
}

static void try_grid(peerwin_ctx *ctx, peerwin_win *win, const grid *drawn) {
    const grid g = *drawn;
    const int reorder = 0;
    MPI_Comm cart = MPI_COMM_NULL;
    peerwin_halo *halo = NULL;
    block b = {.coords = {0}};
    MPI_Cart_create(MPI_COMM_WORLD, g.dims, g.size, g.periodic, reorder, &cart);
    if (cart != MPI_COMM_NULL) {
        b = my_block(&g, cart);
    }
    segment_set(win, TEST_GUARD);
    CHECK_OK(peerwin_halo_create_cart(win, cart, g.elem, b.extent, g.depth, g.flags, &halo));
    if (cart != MPI_COMM_NULL) {
        exchange_blocks(ctx, win, halo, &g, &b);
    }
    CHECK_OK(peerwin_halo_free(halo));
    if (cart != MPI_COMM_NULL) {
        MPI_Comm_free(&cart);
    }
}

void random_blocks_get_exactly_their_ghosts(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 17 * 17 * 17 * 16);
    uint64_t state = 20261129;
    coverage seen = {0};
    for (int i = 0; i < random_plans(job.size < 5 ? 200 : 64, 120); i++) {
        const grid g = draw_grid(&state, i);
        cover_grid(&seen, &g);
        try_grid(ctx, win, &g);
    }
    check_grids(&seen);
    test_free(ctx, win);
}
