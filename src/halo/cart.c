/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The faces of a block of a Cartesian grid.
 *
 * Towards each side (a step of -1, 0 or 1 in every dimension, not all 0) lies at most one neighbour. It gets the
 * outermost cells of the inside on that side, as deep as the ghosts, and its own go into the ghosts there. The tag is
 * the number of the side towards which the sender sends, so that the two faces between the same two ranks in a
 * periodic dimension of 2, or between a rank and itself in one of 1, are told apart.
 */
#include "halo/halo.h"

#include "transfer/door.h"
#include "window/space.h"

enum { MOST_DIMS = 3, MOST_SIDES = 27 };

/* Dimension 0 of the communicator comes first, whichever varies fastest. */
typedef struct {
    const peerwin_win *win;
    MPI_Comm comm;
    int dims;
    int size[MOST_DIMS], periodic[MOST_DIMS], coords[MOST_DIMS];
    size_t extent[MOST_DIMS], depth[MOST_DIMS]; /* in elements */
    size_t pitch[MOST_DIMS];                    /* bytes from one element to the next */
    size_t elem_bytes;
    int fastest_first;
} grid;

typedef struct {
    int step[MOST_DIMS];
} side;

typedef struct {
    int send_count, recv_count;
    peerwin_face send[MOST_SIDES], recv[MOST_SIDES];
} faces_of_block;

/* ---- the grid */

/* Dimensions from the one that varies fastest on. */
static int nth_fastest(const grid *g, int n) {
    return g->fastest_first ? n : g->dims - 1 - n;
}

static peerwin_status set_pitches(grid *g, const pw_site *site) {
    size_t bytes = g->elem_bytes;
    size_t segment = g->win->peers[g->win->ctx->rank].bytes;
    for (int n = 0; n < g->dims; n++) {
        int d = nth_fastest(g, n);
        g->pitch[d] = bytes;
        if (__builtin_mul_overflow(bytes, g->extent[d], &bytes))
            return pw_fail(PEERWIN_ERR_RANGE, site, "the extents are larger than the address space");
    }
    if (bytes > segment)
        return pw_fail(PEERWIN_ERR_RANGE, site, "the extents make %zu bytes, the segment has %zu bytes", bytes,
                       segment);
    return PEERWIN_OK;
}

/* 1 if there is a block beside mine in dimension d. */
static int has_neighbor(const grid *g, int d) {
    return g->periodic[d] || g->size[d] > 1;
}

static peerwin_status check_depth(const grid *g, int d, const pw_site *site) {
    size_t ghosts = 0;
    size_t least = has_neighbor(g, d) ? g->depth[d] : 0;
    if (__builtin_mul_overflow(g->depth[d], (size_t)2, &ghosts) || g->extent[d] < ghosts ||
        g->extent[d] - ghosts < least)
        return pw_fail(PEERWIN_ERR_ARG, site,
                       "extent[%d] is %zu, with ghosts of depth %zu at both ends: the inside must have at least %zu", d,
                       g->extent[d], g->depth[d], least);
    return PEERWIN_OK;
}

static peerwin_status read_comm(grid *g, const pw_site *site) {
    int kind = MPI_UNDEFINED;
    MPI_Topo_test(g->comm, &kind);
    if (kind != MPI_CART)
        return pw_fail(PEERWIN_ERR_ARG, site, "the communicator has no Cartesian topology (MPI_Cart_create)");
    MPI_Cartdim_get(g->comm, &g->dims);
    if (g->dims < 1 || g->dims > MOST_DIMS)
        return pw_fail(PEERWIN_ERR_ARG, site, "the communicator has %d dimensions, not 1 to 3", g->dims);
    MPI_Cart_get(g->comm, g->dims, g->size, g->periodic, g->coords);
    return PEERWIN_OK;
}

static peerwin_status read_grid(grid *g, const size_t extent[], const size_t depth[], const pw_site *site) {
    if (!extent || !depth)
        return pw_fail(PEERWIN_ERR_ARG, site, "%s is NULL", extent ? "depth" : "extent");
    if (g->elem_bytes == 0)
        return pw_fail(PEERWIN_ERR_ARG, site, "elem_bytes is 0");
    peerwin_status status = read_comm(g, site);
    for (int d = 0; d < g->dims && status == PEERWIN_OK; d++) {
        g->extent[d] = extent[d];
        g->depth[d] = depth[d];
        status = check_depth(g, d, site);
    }
    return status == PEERWIN_OK ? set_pitches(g, site) : status;
}

/* ---- sides */

static side side_of(int number) {
    side s = {{0}};
    for (int d = 0; d < MOST_DIMS; d++, number /= 3)
        s.step[d] = number % 3 - 1;
    return s;
}

static int number_of(const side *s) {
    return s->step[0] + 1 + 3 * (s->step[1] + 1) + 9 * (s->step[2] + 1);
}

static side opposite(const side *s) {
    return (side){{-s->step[0], -s->step[1], -s->step[2]}};
}

static int is_face(const side *s) {
    return s->step[0] * s->step[0] + s->step[1] * s->step[1] + s->step[2] * s->step[2] == 1;
}

/* Dimensions that are not there have no sides. */
static int exists(const grid *g, const side *s) {
    for (int d = g->dims; d < MOST_DIMS; d++)
        if (s->step[d] != 0)
            return 0;
    return s->step[0] != 0 || s->step[1] != 0 || s->step[2] != 0;
}

/* The rank in `comm` of the block on that side, MPI_PROC_NULL at a wall. */
static int rank_at(const grid *g, const side *s) {
    int coords[MOST_DIMS];
    int rank = MPI_PROC_NULL;
    for (int d = 0; d < g->dims; d++) {
        coords[d] = g->coords[d] + s->step[d];
        if (!g->periodic[d] && (coords[d] < 0 || coords[d] >= g->size[d]))
            return MPI_PROC_NULL;
    }
    MPI_Cart_rank(g->comm, coords, &rank);
    return rank;
}

/* The outermost cells on that side: those of the inside, or the ghosts. */
static peerwin_box box_at(const grid *g, const side *s, int ghosts) {
    peerwin_box box = {.offset = 0, .count = {1, 1, 1}, .stride = {0, 0}};
    for (int n = 0; n < g->dims; n++) {
        int d = nth_fastest(g, n);
        size_t depth = g->depth[d];
        size_t first = depth;
        size_t count = g->extent[d] - 2 * depth;
        if (s->step[d] != 0) {
            count = depth;
            if (s->step[d] < 0)
                first = ghosts ? 0 : depth;
            else
                first = g->extent[d] - (ghosts ? depth : 2 * depth);
        }
        box.offset += first * g->pitch[d];
        box.count[n] = n == 0 ? count * g->elem_bytes : count;
        if (n > 0)
            box.stride[n - 1] = g->pitch[d];
    }
    return box;
}

static void add_side(const grid *g, peerwin_win *win, const side *s, faces_of_block *faces) {
    const int rank = rank_at(g, s);
    const side other = opposite(s);
    if (rank == MPI_PROC_NULL)
        return;
    faces->send[faces->send_count++] =
        (peerwin_face){.peer = rank, .tag = number_of(s), .win = win, .box = box_at(g, s, 0)};
    faces->recv[faces->recv_count++] =
        (peerwin_face){.peer = rank, .tag = number_of(&other), .win = win, .box = box_at(g, s, 1)};
}

/* From ranks of `cart` to those of the context. */
static peerwin_status translate(const grid *g, const peerwin_ctx *ctx, faces_of_block *faces, const pw_site *site) {
    MPI_Group theirs;
    MPI_Group ours;
    peerwin_status status = PEERWIN_OK;
    MPI_Comm_group(g->comm, &theirs);
    MPI_Comm_group(ctx->agree.comm, &ours);
    for (int i = 0; i < faces->send_count && status == PEERWIN_OK; i++) {
        int in_cart = faces->send[i].peer;
        int rank = MPI_UNDEFINED;
        MPI_Group_translate_ranks(theirs, 1, &in_cart, ours, &rank);
        if (rank == MPI_UNDEFINED)
            status =
                pw_fail(PEERWIN_ERR_ARG, site, "rank %d of the Cartesian communicator is not in the context", in_cart);
        faces->send[i].peer = rank;
        faces->recv[i].peer = rank;
    }
    MPI_Group_free(&ours);
    MPI_Group_free(&theirs);
    return status;
}

static peerwin_status find_faces(grid *g, peerwin_win *win, const size_t extent[], const size_t depth[], int corners,
                                 faces_of_block *faces, const pw_site *site) {
    peerwin_status status = read_grid(g, extent, depth, site);
    if (status != PEERWIN_OK)
        return status;
    for (int number = 0; number < MOST_SIDES; number++) {
        const side s = side_of(number);
        if (exists(g, &s) && (corners || is_face(&s)))
            add_side(g, win, &s, faces);
    }
    return translate(g, win->ctx, faces, site);
}

peerwin_status peerwin_halo_create_cart(peerwin_win *win, MPI_Comm cart, size_t elem_bytes, const size_t extent[],
                                        const size_t depth[], unsigned flags, peerwin_halo **halo_out) {
    static const char call[] = "peerwin_halo_create_cart";
    const unsigned here = PEERWIN_HALO_CORNERS | PEERWIN_HALO_FASTEST_FIRST;
    faces_of_block block = {0};
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    peerwin_ctx *ctx = win->ctx;
    const pw_site *site = PW_SITE(call, NULL, ctx->rank, PW_NONE);
    grid g = {
        .win = win, .comm = cart, .elem_bytes = elem_bytes, .fastest_first = (flags & PEERWIN_HALO_FASTEST_FIRST) != 0};
    peerwin_status entered = pw_space_enter(ctx, site);
    peerwin_status ready = entered;
    if (ready == PEERWIN_OK && cart != MPI_COMM_NULL)
        ready = find_faces(&g, win, extent, depth, (flags & PEERWIN_HALO_CORNERS) != 0, &block, site);
    const pw_faces faces = {
        .num_send = block.send_count, .num_recv = block.recv_count, .send = block.send, .recv = block.recv};
    status = pw_halo_make(ctx, &faces, flags & ~here, ready, halo_out, site);
    if (entered == PEERWIN_OK)
        pw_space_leave(ctx);
    pw_ctx_leave(ctx);
    return status;
}
