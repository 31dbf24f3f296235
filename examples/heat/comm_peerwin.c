/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Communication through windows.
 *
 * The shared fields lie in this rank's segment of one window, and each has a halo plan: which of its rows and columns
 * go to which neighbour, and where those of the neighbours come. Then an exchange is start and finish, on the processor
 * and on a GPU. Both orders that a halo needs are the plan's: no ghost is read before it is complete, and none is
 * replaced before it has been read, which release says.
 *
 * Global sums are peerwin_allreduce, with the same bits on all ranks and in every run. They stand between start and
 * finish: whoever has met the others there has waited for its ghosts, too.
 */
#include <stdio.h>
#include <stdlib.h>

#include "heat.h"

struct windows {
    struct comm base; /* first, so that a pointer to it is one to this */
    struct block block;
    bool on_host;
    peerwin_stream stream;
    peerwin_ctx *ctx;
    peerwin_win *win;
    peerwin_halo *halos[NUM_SHARED];
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

/* Layout of a segment, in doubles. */
static size_t field_start(const struct block *b, enum shared field) {
    return block_field_stride(b) * (size_t)field;
}

static size_t segment_bytes(const struct block *b) {
    return field_start(b, NUM_SHARED) * sizeof(double);
}

/* -------------------------------------------------------------------------------------------- halo plans */

static enum side opposite(enum side side) {
    return (enum side)((unsigned)side ^ 1u);
}

/* The cells next to `side`, or the ghosts beyond it, as a box of this rank's segment. */
static peerwin_box edge(const struct block *b, enum shared field, enum side side, bool ghosts) {
    const bool row = side == SOUTH || side == NORTH;
    const int before = ghosts ? -1 : 0, after = ghosts ? 0 : -1;
    const int i = side == WEST ? before : side == EAST ? b->nx + after : 0;
    const int j = side == SOUTH ? before : side == NORTH ? b->ny + after : 0;
    const peerwin_box box = {
        .offset = (field_start(b, field) + (size_t)cell(b, i, j)) * sizeof(double),
        .count = {(row ? (size_t)b->nx : 1) * sizeof(double), row ? 1 : (size_t)b->ny, 1},
        .stride = {(size_t)b->pitch * sizeof(double), 0},
    };

    return box;
}

/* The plan of one field. A face is called by the side that it leaves from; at a wall there is none. */
static peerwin_status plan(struct windows *w, enum shared field) {
    peerwin_face send[NUM_SIDES], receive[NUM_SIDES];

    for (enum side side = WEST; side < NUM_SIDES; side++) {
        const int peer = w->block.neighbour[side];
        send[side] = (peerwin_face){peer, (int)side, w->win, edge(&w->block, field, side, false)};
        receive[side] = (peerwin_face){peer, (int)opposite(side), w->win, edge(&w->block, field, side, true)};
    }
    return peerwin_halo_create(w->ctx, NUM_SIDES, send, NUM_SIDES, receive, 0, &w->halos[field]);
}

/* While a graph is made a call may be refused, which is not the end of the run: see the solver on GPUs. */
static void give(struct windows *w, peerwin_status status, const char *call) {
    if (status != PEERWIN_OK && w->base.capturing)
        snprintf(w->base.refusal, sizeof(w->base.refusal), "%s", peerwin_last_error());
    else
        must(status, call);
}

static bool refused(const struct windows *w) {
    return w->base.capturing && w->base.refusal[0] != '\0';
}

static void windows_start(struct comm *comm, enum shared field) {
    struct windows *w = (struct windows *)comm;

    if (!refused(w))
        give(w, peerwin_halo_start(w->halos[field], w->stream), "peerwin_halo_start");
}

/* An exchange that has been started is finished, whatever becomes of the sums. */
static void windows_finish(struct comm *comm, enum shared field, double *sums) {
    struct windows *w = (struct windows *)comm;

    if (refused(w))
        return;
    if (sums != NULL)
        give(w, peerwin_allreduce(w->ctx, sums, NUM_SUMS, PEERWIN_DOUBLE, PEERWIN_SUM, w->stream), "peerwin_allreduce");
    give(w, peerwin_halo_finish(w->halos[field], w->stream), "peerwin_halo_finish");
}

/* In graphs the next start says it. */
static void windows_release(struct comm *comm, enum shared field) {
    struct windows *w = (struct windows *)comm;

    if (!w->base.capturing)
        give(w, peerwin_halo_release(w->halos[field], w->stream), "peerwin_halo_release");
}

/* Results of a stream count only after this. */
static void windows_settle(struct comm *comm) {
    const struct windows *w = (const struct windows *)comm;

    if (!w->on_host)
        must(peerwin_stream_sync(w->ctx, w->stream), "peerwin_stream_sync");
}

static void windows_check(struct comm *comm) {
    must(peerwin_check(((struct windows *)comm)->ctx), "peerwin_check");
}

/* ------------------------------------------------------------------------------------ the rest of a comm */

/* Now and then, and on the host: by messages. */
static void windows_add(struct comm *comm, double *value) {
    (void)comm;
    MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
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

    for (int field = 0; field < NUM_SHARED; field++)
        must(peerwin_halo_free(w->halos[field]), "peerwin_halo_free");
    must(peerwin_win_free(w->win), "peerwin_win_free");
    must(peerwin_finalize(w->ctx), "peerwin_finalize");
    free(w);
}

/* ------------------------------------------------------------------------------------------------- open */

static bool open_context(struct windows *w) {
    peerwin_config config;

    peerwin_config_init(&config);
    config.space = w->on_host ? PEERWIN_SPACE_HOST : PEERWIN_SPACE_CUDA; /* where the sweeps run */
    config.flags = PEERWIN_STRICT; /* better no run than one whose first put is refused */
    if (!opened(peerwin_init(MPI_COMM_WORLD, &config, &w->ctx), "peerwin_init", w->block.rank))
        return false;
    if (peerwin_get_space(w->ctx) == config.space)
        return true;
    if (w->block.rank == 0)
        fprintf(stderr, "heat: PEERWIN_SPACE asks for another space than --space does\n");
    peerwin_finalize(w->ctx);
    return false;
}

/* A context over all ranks, a window for the shared fields, and a plan for each. What fails is undone: by finalize. */
static bool open_all(struct windows *w) {
    peerwin_win_config config;
    bool fine;

    if (!open_context(w))
        return false;
    peerwin_win_config_init(&config);
    config.name = "heat";
    fine = opened(peerwin_win_alloc(w->ctx, segment_bytes(&w->block), &config, &w->win), "peerwin_win_alloc",
                  w->block.rank);
    for (enum shared field = SHARED_U; fine && field < NUM_SHARED; field++)
        fine = opened(plan(w, field), "peerwin_halo_create", w->block.rank);
    if (!fine)
        peerwin_finalize(w->ctx);
    return fine;
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
    if (!open_all(w)) {
        free(w);
        return NULL;
    }
    double *segment = peerwin_win_ptr(w->win, block->rank);
    for (enum shared field = SHARED_U; field < NUM_SHARED; field++)
        w->base.shared[field] = segment + field_start(block, field);
    w->base.name = "peerwin";
    w->base.in_stream = !w->on_host;
    w->base.add = windows_add;
    w->base.start = windows_start;
    w->base.finish = windows_finish;
    w->base.release = windows_release;
    w->base.settle = windows_settle;
    w->base.check = windows_check;
    w->base.collect = windows_collect;
    w->base.close = windows_close;
    return &w->base;
}
