/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Communication through windows.
 *
 * Each rank's segment holds the two shared fields and, for each field, room for one column from the west and one
 * from the east. A rank stores its edge rows straight into its neighbours' ghost rows, and its edge columns,
 * packed, into their rooms for columns; they spread a column over their ghosts when they need it.
 *
 * A halo needs two orders: a ghost may not be read before it is complete, and not be overwritten while it is
 * still read. Both come from the global sum that ends every exchange, because peerwin_allreduce orders like a
 * barrier. Puts before it are complete after it. And a rank has used the ghosts of an exchange, at the latest, when it
 * enters the next sum, while no one writes them again before that sum has ended: between two exchanges of
 * one field the solver always takes another sum. So there are no flags, no second set of buffers, and nothing waits
 * but the sums. (Where no sum is at hand, peerwin_put_signal and peerwin_wait do it: see examples/hello.)
 */
#include <stdio.h>
#include <stdlib.h>

#include "heat.h"

struct windows {
    struct comm base; /* first, so that a pointer to it is one to this */
    struct block block;
    peerwin_ctx *ctx;
    peerwin_win *win;
};

/* What a run cannot go on without. A rank that fails alone must not leave the others waiting. */
static void must(peerwin_status status, const char *call) {
    if (status == PEERWIN_OK)
        return;
    fprintf(stderr, "heat: %s: %s: %s\n", call, peerwin_strerror(status), peerwin_last_error());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

/* Collective calls fail on every rank alike, so one message is enough and everyone can leave in order. */
static bool opened(peerwin_status status, const char *call, int rank) {
    if (status == PEERWIN_ERR_TIMEOUT || status == PEERWIN_ERR_PEER_LOST)
        must(status, call); /* the two that ranks need not share */
    if (status != PEERWIN_OK && rank == 0)
        fprintf(stderr, "heat: %s: %s: %s\n", call, peerwin_strerror(status), peerwin_last_error());
    return status == PEERWIN_OK;
}

/* Layout of a segment, in doubles. Blocks differ in size, so that of a neighbour is worked out from its block. */

static size_t field_start(const struct block *b, enum shared field) {
    return block_field_stride(b) * (size_t)field;
}

static size_t column_room(const struct block *b, enum shared field, enum side side) {
    const size_t line = 8, room = ((size_t)b->ny + line - 1) / line * line;

    return field_start(b, NUM_SHARED) + ((size_t)field * 2 + (side == EAST)) * room;
}

static size_t segment_bytes(const struct block *b) {
    return column_room(b, NUM_SHARED, WEST) * sizeof(double);
}

/* My southern or northern edge to the ghost row of the neighbour there. Rows of both are equally long. */
static void put_row(const struct windows *w, enum shared field, enum side side) {
    const struct block *b = &w->block;
    struct block there;

    if (b->neighbour[side] == MPI_PROC_NULL)
        return;
    block_make(b->n, b->neighbour[side], b->columns * b->rows, &there);
    const double *edge = w->base.shared[field] + cell(b, 0, side == NORTH ? b->ny - 1 : 0);
    const size_t ghost = field_start(&there, field) + (size_t)cell(&there, 0, side == NORTH ? -1 : there.ny);
    must(peerwin_put(w->win, b->neighbour[side], ghost * sizeof(double), edge, (size_t)b->nx * sizeof(double), NULL),
         "peerwin_put");
}

/* My western or eastern edge to the room for columns of the neighbour there: a box that is packed on its way. */
static void put_column(const struct windows *w, enum shared field, enum side side) {
    const struct block *b = &w->block;
    const size_t pitch = (size_t)b->pitch * sizeof(double), ny = (size_t)b->ny;
    struct block there;

    if (b->neighbour[side] == MPI_PROC_NULL)
        return;
    block_make(b->n, b->neighbour[side], b->columns * b->rows, &there);
    const size_t edge = (size_t)cell(b, side == EAST ? b->nx - 1 : 0, 0);
    const size_t room = column_room(&there, field, side == EAST ? WEST : EAST);
    const peerwin_box from = {edge * sizeof(double), {sizeof(double), ny, 1}, {pitch, 0}};
    const peerwin_box to = {room * sizeof(double), {sizeof(double), ny, 1}, {sizeof(double), 0}};
    must(peerwin_put_box(w->win, b->neighbour[side], &to, w->base.shared[field], &from, NULL), "peerwin_put_box");
}

/* The columns that have come, to the ghosts. */
static void spread_columns(const struct windows *w, enum shared field) {
    const struct block *b = &w->block;
    const double *segment = peerwin_win_ptr(w->win, b->rank);

    if (b->neighbour[WEST] != MPI_PROC_NULL)
        block_unpack_column(b, w->base.shared[field], -1, segment + column_room(b, field, WEST));
    if (b->neighbour[EAST] != MPI_PROC_NULL)
        block_unpack_column(b, w->base.shared[field], b->nx, segment + column_room(b, field, EAST));
}

static void windows_sum(struct comm *comm, double *value) {
    const struct windows *w = (const struct windows *)comm;

    must(peerwin_allreduce(w->ctx, value, 1, PEERWIN_DOUBLE, PEERWIN_SUM, NULL), "peerwin_allreduce");
}

static void windows_exchange(struct comm *comm, enum shared field, double *value) {
    const struct windows *w = (const struct windows *)comm;

    put_row(w, field, SOUTH);
    put_row(w, field, NORTH);
    put_column(w, field, WEST);
    put_column(w, field, EAST);
    windows_sum(comm, value);
    spread_columns(w, field);
}

/* Rank 0 reads the other's segment; the barriers keep u as it is meanwhile. */
static void windows_collect(struct comm *comm, const struct block *from, double *cells) {
    const struct windows *w = (const struct windows *)comm;
    const size_t row = (size_t)from->nx * sizeof(double), rows = (size_t)from->ny;
    const size_t first = field_start(from, SHARED_U) + (size_t)cell(from, 0, 0);
    const peerwin_box there = {first * sizeof(double), {row, rows, 1}, {(size_t)from->pitch * sizeof(double), 0}};
    const peerwin_box here = {0, {row, rows, 1}, {row, 0}};

    must(peerwin_barrier(w->ctx, NULL), "peerwin_barrier");
    if (w->block.rank == 0)
        must(peerwin_get_box(w->win, from->rank, &there, cells, &here, NULL), "peerwin_get_box");
    must(peerwin_barrier(w->ctx, NULL), "peerwin_barrier");
}

static void windows_close(struct comm *comm) {
    struct windows *w = (struct windows *)comm;

    must(peerwin_win_free(w->win), "peerwin_win_free");
    must(peerwin_finalize(w->ctx), "peerwin_finalize");
    free(w);
}

/* A context over all ranks, and a window with room for everything that the neighbours write. */
static bool open_window(struct windows *w) {
    peerwin_config config;
    peerwin_win_config win_config;

    peerwin_config_init(&config);
    config.space = PEERWIN_SPACE_HOST; /* the sweeps run on the processor */
    config.flags = PEERWIN_STRICT;     /* better no run than one whose first put is refused */
    if (!opened(peerwin_init(MPI_COMM_WORLD, &config, &w->ctx), "peerwin_init", w->block.rank))
        return false;
    peerwin_win_config_init(&win_config);
    win_config.name = "heat";
    if (opened(peerwin_win_alloc(w->ctx, segment_bytes(&w->block), &win_config, &w->win), "peerwin_win_alloc",
               w->block.rank))
        return true;
    peerwin_finalize(w->ctx);
    return false;
}

struct comm *comm_peerwin_open(const struct block *block) {
    struct windows *w = calloc(1, sizeof(*w));

    if (!agree(w != NULL)) {
        free(w);
        return NULL;
    }
    w->block = *block;
    if (!open_window(w)) {
        free(w);
        return NULL;
    }
    double *segment = peerwin_win_ptr(w->win, block->rank);
    w->base.name = "peerwin";
    w->base.shared[SHARED_U] = segment + field_start(block, SHARED_U);
    w->base.shared[SHARED_R] = segment + field_start(block, SHARED_R);
    w->base.sum = windows_sum;
    w->base.exchange = windows_exchange;
    w->base.collect = windows_collect;
    w->base.close = windows_close;
    return &w->base;
}
