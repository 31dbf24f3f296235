/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Communication by messages, for comparison: receives and sends that do not block, with the global sums between
 * their start and their completion. MPI's own error handler ends the job if a call fails.
 */
#include <stdio.h>
#include <stdlib.h>

#include "heat.h"

struct messages {
    struct comm base; /* first, so that a pointer to it is one to this */
    struct block block;
    double *memory;  /* the shared fields, then the columns */
    double *sent[2]; /* packed columns, WEST and EAST */
    double *received[2];
    MPI_Request requests[2 * NUM_SIDES]; /* of the exchange under way */
};

static int opposite(int side) {
    return side ^ 1;
}

/* Where the row next to `side` is sent from, and where the neighbour's comes to. */
static double *edge_row(const struct messages *m, enum shared field, int side) {
    return m->base.shared[field] + cell(&m->block, 0, side == NORTH ? m->block.ny - 1 : 0);
}

static double *ghost_row(const struct messages *m, enum shared field, int side) {
    return m->base.shared[field] + cell(&m->block, 0, side == NORTH ? m->block.ny : -1);
}

/* Starts all receives and sends. A message carries the side that it leaves from as its tag. */
static void messages_start(struct comm *comm, enum shared field) {
    struct messages *m = (struct messages *)comm;
    const struct block *b = &m->block;

    block_pack_column(b, m->base.shared[field], 0, m->sent[WEST]);
    block_pack_column(b, m->base.shared[field], b->nx - 1, m->sent[EAST]);
    for (int side = 0; side < NUM_SIDES; side++) {
        const bool row = side == SOUTH || side == NORTH;
        double *to = row ? ghost_row(m, field, side) : m->received[side];
        const double *from = row ? edge_row(m, field, side) : m->sent[side];
        const int count = row ? b->nx : b->ny, peer = b->neighbour[side];
        MPI_Irecv(to, count, MPI_DOUBLE, peer, opposite(side), MPI_COMM_WORLD, &m->requests[side]);
        MPI_Isend(from, count, MPI_DOUBLE, peer, side, MPI_COMM_WORLD, &m->requests[NUM_SIDES + side]);
    }
}

static void spread_columns(const struct messages *m, enum shared field) {
    const struct block *b = &m->block;

    if (b->neighbour[WEST] != MPI_PROC_NULL)
        block_unpack_column(b, m->base.shared[field], -1, m->received[WEST]);
    if (b->neighbour[EAST] != MPI_PROC_NULL)
        block_unpack_column(b, m->base.shared[field], b->nx, m->received[EAST]);
}

static void messages_add(struct comm *comm, double *value) {
    (void)comm;
    MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void messages_finish(struct comm *comm, enum shared field, double *sums) {
    struct messages *m = (struct messages *)comm;

    if (sums != NULL)
        MPI_Allreduce(MPI_IN_PLACE, sums, NUM_SUMS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Waitall(2 * NUM_SIDES, m->requests, MPI_STATUSES_IGNORE);
    spread_columns(m, field);
}

/* Receives are posted in `start`, so that the neighbours' messages wait for it by themselves. */
static void messages_release(struct comm *comm, enum shared field) {
    (void)comm;
    (void)field;
}

/* Nothing is in a stream. */
static void messages_settle(struct comm *comm) {
    (void)comm;
}

/* A block goes row by row, so that its size never exceeds what MPI can count. */
static void messages_collect(struct comm *comm, const struct block *from, double *cells) {
    const struct messages *m = (const struct messages *)comm;

    if (from->rank == 0 && m->block.rank == 0) {
        block_copy_cells(from, m->base.shared[SHARED_U], cells);
        return;
    }
    for (int j = 0; j < from->ny; j++) {
        if (m->block.rank == 0)
            MPI_Recv(cells + (size_t)j * (size_t)from->nx, from->nx, MPI_DOUBLE, from->rank, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        else if (m->block.rank == from->rank)
            MPI_Send(m->base.shared[SHARED_U] + cell(from, 0, j), from->nx, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
    }
}

static void messages_close(struct comm *comm) {
    struct messages *m = (struct messages *)comm;

    free(m->memory);
    free(m);
}

/* The fields at the same places as in a window, and four columns behind them. */
static bool allocate(struct messages *m) {
    const size_t stride = block_field_stride(&m->block), column = ((size_t)m->block.ny + 7) / 8 * 8;

    m->memory = fields_allocate(NUM_SHARED * stride + 4 * column);
    if (m->memory == NULL)
        return false;
    for (int side = WEST; side <= EAST; side++) {
        m->sent[side] = m->memory + NUM_SHARED * stride + (size_t)side * column;
        m->received[side] = m->sent[side] + 2 * column;
    }
    for (size_t field = 0; field < NUM_SHARED; field++)
        m->base.shared[field] = m->memory + field * stride;
    return true;
}

struct comm *comm_mpi_open(const struct block *block, const struct space *space) {
    struct messages *m = calloc(1, sizeof(*m));

    (void)space;

    if (m != NULL) {
        m->block = *block;
        m->base.name = "mpi";
        m->base.add = messages_add;
        m->base.start = messages_start;
        m->base.finish = messages_finish;
        m->base.release = messages_release;
        m->base.settle = messages_settle;
        m->base.collect = messages_collect;
        m->base.close = messages_close;
    }
    if (agree(m != NULL && allocate(m)))
        return &m->base;
    if (block->rank == 0)
        fprintf(stderr, "heat: a rank is out of memory\n");
    if (m != NULL)
        messages_close(&m->base);
    return NULL;
}
