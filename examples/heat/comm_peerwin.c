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
 *
 * On a GPU all of that is work in a stream, which the host does not wait for, while sums are taken on the host. So
 * completeness has an order of its own: after its puts a rank signals each neighbour, and its stream waits for the
 * neighbours' signals before the next sweep. That no ghost is overwritten while it is read still comes from the sums.
 * Ghosts are read by the first sweep after an exchange, which adds something up: a rank takes part in that sum only
 * when the sweep has ended, and the next edges of the same field leave behind a sweep that needs the sum of all.
 * Columns go straight into the ghosts there: a kernel stores with any stride.
 */
#include <stdio.h>
#include <stdlib.h>

#include "heat.h"

struct windows {
    struct comm base; /* first, so that a pointer to it is one to this */
    struct block block;
    bool on_host;
    peerwin_stream stream;
    uint64_t exchanges; /* so far; the value of signals */
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
    must(peerwin_put(w->win, b->neighbour[side], ghost * sizeof(double), edge, (size_t)b->nx * sizeof(double),
                     w->stream),
         "peerwin_put");
}

/* Where a column that leaves at `side` arrives: in the room for columns, packed on its way, or in the ghosts. */
static peerwin_box column_target(const struct windows *w, const struct block *there, enum shared field,
                                 enum side side) {
    const size_t ny = (size_t)there->ny, pitch = (size_t)there->pitch * sizeof(double);
    const size_t room = column_room(there, field, side == EAST ? WEST : EAST);
    const size_t ghost = field_start(there, field) + (size_t)cell(there, side == EAST ? -1 : there->nx, 0);

    if (w->on_host)
        return (peerwin_box){room * sizeof(double), {sizeof(double), ny, 1}, {sizeof(double), 0}};
    return (peerwin_box){ghost * sizeof(double), {sizeof(double), ny, 1}, {pitch, 0}};
}

/* My western or eastern edge to the neighbour there. */
static void put_column(const struct windows *w, enum shared field, enum side side) {
    const struct block *b = &w->block;
    const size_t pitch = (size_t)b->pitch * sizeof(double), ny = (size_t)b->ny;
    struct block there;

    if (b->neighbour[side] == MPI_PROC_NULL)
        return;
    block_make(b->n, b->neighbour[side], b->columns * b->rows, &there);
    const size_t edge = (size_t)cell(b, side == EAST ? b->nx - 1 : 0, 0);
    const peerwin_box to = column_target(w, &there, field, side);
    const peerwin_box from = {edge * sizeof(double), {sizeof(double), ny, 1}, {pitch, 0}};
    must(peerwin_put_box(w->win, b->neighbour[side], &to, w->base.shared[field], &from, w->stream), "peerwin_put_box");
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

static void put_edges(const struct windows *w, enum shared field) {
    put_row(w, field, SOUTH);
    put_row(w, field, NORTH);
    put_column(w, field, WEST);
    put_column(w, field, EAST);
}

static void windows_start(struct comm *comm, enum shared field) {
    put_edges((const struct windows *)comm, field);
}

static void windows_finish(struct comm *comm, enum shared field, double *value) {
    windows_sum(comm, value);
    spread_columns((const struct windows *)comm, field);
}

/* On a GPU. Slot s of a rank is for what comes from its side s. */

static enum side opposite(enum side side) {
    return (enum side)((unsigned)side ^ 1u);
}

static void stream_sum(struct comm *comm, double *value) {
    (void)comm;
    MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void stream_start(struct comm *comm, enum shared field) {
    struct windows *w = (struct windows *)comm;
    const int *neighbour = w->block.neighbour;

    w->exchanges++;
    put_edges(w, field);
    for (enum side side = WEST; side < NUM_SIDES; side++)
        must(peerwin_signal(w->win, neighbour[side], opposite(side), PEERWIN_SIGNAL_SET, w->exchanges, w->stream),
             "peerwin_signal"); /* nothing happens at a wall */
    for (enum side side = WEST; side < NUM_SIDES; side++)
        if (neighbour[side] != MPI_PROC_NULL)
            must(peerwin_wait(w->win, side, w->exchanges, w->stream), "peerwin_wait");
}

/* The next sweep is behind the waits. */
static void stream_finish(struct comm *comm, enum shared field, double *value) {
    (void)field;
    stream_sum(comm, value);
}

/* Rank 0 reads the other's segment; the barriers keep u as it is meanwhile. */
static void windows_collect(struct comm *comm, const struct block *from, double *cells) {
    const struct windows *w = (const struct windows *)comm;
    const size_t row = (size_t)from->nx * sizeof(double), rows = (size_t)from->ny;
    const size_t first = field_start(from, SHARED_U) + (size_t)cell(from, 0, 0);
    const peerwin_box there = {first * sizeof(double), {row, rows, 1}, {(size_t)from->pitch * sizeof(double), 0}};
    const peerwin_box here = {0, {row, rows, 1}, {row, 0}};

    must(peerwin_barrier(w->ctx, w->stream), "peerwin_barrier");
    if (w->block.rank == 0)
        must(peerwin_get_box(w->win, from->rank, &there, cells, &here, w->stream), "peerwin_get_box");
    must(peerwin_barrier(w->ctx, w->stream), "peerwin_barrier");
    must(peerwin_stream_sync(w->ctx, w->stream), "peerwin_stream_sync");
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
    config.space = w->on_host ? PEERWIN_SPACE_HOST : PEERWIN_SPACE_CUDA; /* where the sweeps run */
    config.flags = PEERWIN_STRICT; /* better no run than one whose first put is refused */
    if (!opened(peerwin_init(MPI_COMM_WORLD, &config, &w->ctx), "peerwin_init", w->block.rank))
        return false;
    if (peerwin_get_space(w->ctx) != config.space) {
        if (w->block.rank == 0)
            fprintf(stderr, "heat: PEERWIN_SPACE asks for another space than --space does\n");
        peerwin_finalize(w->ctx);
        return false;
    }
    peerwin_win_config_init(&win_config);
    win_config.name = "heat";
    if (opened(peerwin_win_alloc(w->ctx, segment_bytes(&w->block), &win_config, &w->win), "peerwin_win_alloc",
               w->block.rank))
        return true;
    peerwin_finalize(w->ctx);
    return false;
}

struct comm *comm_peerwin_open(const struct block *block, const struct space *space) {
    struct windows *w = calloc(1, sizeof(*w));

    if (!agree(w != NULL)) {
        free(w);
        return NULL;
    }
    w->block = *block;
    w->on_host = space->on_host;
    w->stream = space->stream;
    if (!open_window(w)) {
        free(w);
        return NULL;
    }
    double *segment = peerwin_win_ptr(w->win, block->rank);
    w->base.name = "peerwin";
    w->base.shared[SHARED_U] = segment + field_start(block, SHARED_U);
    w->base.shared[SHARED_R] = segment + field_start(block, SHARED_R);
    w->base.sum = w->on_host ? windows_sum : stream_sum;
    w->base.start = w->on_host ? windows_start : stream_start;
    w->base.finish = w->on_host ? windows_finish : stream_finish;
    w->base.collect = windows_collect;
    w->base.close = windows_close;
    return &w->base;
}
