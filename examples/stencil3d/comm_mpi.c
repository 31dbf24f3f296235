/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ghosts by messages, for comparison: a receive and a send that do not block for each direction, of a datatype that
 * describes those cells of all fields. MPI's own error handler ends the job if a call fails.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stencil3d.h"

struct messages {
    struct comm base; /* first, so that a pointer to it is one to this */
    const struct block *block;
    struct space *space;
    int count;           /* directions that the stencil needs */
    int way[DIRECTIONS]; /* which */
    MPI_Datatype edge[DIRECTIONS], ghosts[DIRECTIONS];
    MPI_Request requests[2 * DIRECTIONS];
};

/* These cells of all fields, seen from the beginning of a buffer. */
static MPI_Datatype type_of(const struct block *b, const struct box *box) {
    const int sizes[1 + DIMS] = {b->fields, b->cells[0] + 2, b->cells[1] + 2, (int)b->row};
    const int counts[1 + DIMS] = {b->fields, box->cells[0], box->cells[1], box->cells[2]};
    const int starts[1 + DIMS] = {0, box->first[0] + 1, box->first[1] + 1, box->first[2] + ROW_START};
    MPI_Datatype type;

    MPI_Type_create_subarray(1 + DIMS, sizes, counts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static void make_types(struct messages *m) {
    for (int d = 0; d < DIRECTIONS; d++) {
        const struct box edge = block_edge(m->block, d), ghosts = block_ghosts(m->block, d);
        if (!block_needs(m->block, d))
            continue;
        m->edge[m->count] = type_of(m->block, &edge);
        m->ghosts[m->count] = type_of(m->block, &ghosts);
        m->way[m->count++] = d;
    }
}

/* A message carries the direction in which it leaves as its tag. */
static bool messages_start(struct comm *comm, int buffer) {
    struct messages *m = (struct messages *)comm;
    const struct block *b = m->block;
    double *fields = m->base.fields + (size_t)buffer * b->buffer;

    for (int i = 0; i < m->count; i++)
        MPI_Irecv(fields, 1, m->ghosts[i], b->neighbour[m->way[i]], DIRECTIONS - 1 - m->way[i], b->cart,
                  &m->requests[i]);
    for (int i = 0; i < m->count; i++)
        MPI_Isend(fields, 1, m->edge[i], b->neighbour[m->way[i]], m->way[i], b->cart, &m->requests[m->count + i]);
    return true;
}

static void messages_finish(struct comm *comm, int buffer) {
    struct messages *m = (struct messages *)comm;

    (void)buffer;
    MPI_Waitall(2 * m->count, m->requests, MPI_STATUSES_IGNORE);
}

/* A receive says when it is ready. */
static void messages_release(struct comm *comm, int buffer) {
    (void)comm;
    (void)buffer;
}

static void messages_wait(struct comm *comm) {
    (void)comm;
}

static void messages_close(struct comm *comm) {
    struct messages *m = (struct messages *)comm;

    for (int i = 0; i < m->count; i++) {
        MPI_Type_free(&m->edge[i]);
        MPI_Type_free(&m->ghosts[i]);
    }
    m->space->release(m->space, m->base.fields);
    free(m);
}

struct comm *comm_mpi_open(const struct block *block, struct space *space) {
    struct messages *m = calloc(1, sizeof(*m));

    if (m != NULL) {
        m->block = block;
        m->space = space;
        m->base.name = "mpi";
        m->base.start = messages_start;
        m->base.finish = messages_finish;
        m->base.release = messages_release;
        m->base.wait = messages_wait;
        m->base.close = messages_close;
        m->base.fields = space->allocate(space, BUFFERS * block->buffer);
    }
    if (!agree(m != NULL && m->base.fields != NULL)) {
        if (m != NULL)
            messages_close(&m->base);
        return NULL;
    }
    make_types(m);
    return &m->base;
}
