/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ghosts by halo plans: one for each place of the fields, which moves the ghosts of all fields at once.
 *
 * peerwin_halo_create_cart would make such a plan of one field that begins with the window; here the faces are listed,
 * because there are many fields, twice, in one window.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stencil3d.h"

struct plans {
    struct comm base; /* first, so that a pointer to it is one to this */
    const struct block *block;
    struct space *space;
    peerwin_ctx *ctx;
    peerwin_win *win;
    peerwin_halo *halo[BUFFERS];
};

/* A call that fails in the middle of a run leaves nothing to go on with. */
static void must(peerwin_status status, const char *call) {
    if (status == PEERWIN_OK)
        return;
    fprintf(stderr, "stencil3d: %s: %s: %s\n", call, peerwin_strerror(status), peerwin_last_error());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    exit(EXIT_FAILURE);
}

/* Collective calls fail on all ranks alike, so one of them says why. */
static bool opened(peerwin_status status, const char *call, int rank) {
    if (status != PEERWIN_OK && rank == 0)
        fprintf(stderr, "stencil3d: %s: %s: %s\n", call, peerwin_strerror(status), peerwin_last_error());
    return status == PEERWIN_OK;
}

/* ------------------------------------------------------------------------------------------------- faces */

/* Cells of a field as a box of the window, in bytes. */
static peerwin_box box_of(const struct block *b, int buffer, int field, const struct box *cells) {
    const size_t start = (size_t)buffer * b->buffer + (size_t)field * b->field + (size_t)first_cell(b, cells);
    const peerwin_box box = {
        start * sizeof(double),
        {(size_t)cells->cells[2] * sizeof(double), (size_t)cells->cells[1], (size_t)cells->cells[0]},
        {(size_t)b->row * sizeof(double), (size_t)b->plane * sizeof(double)}};
    return box;
}

/* A tag says which field it is, and in which direction it leaves: in a periodic row of two ranks, or of one, faces of
   both ends go to the same rank. */
static int tag_of(int field, int direction) {
    return field * DIRECTIONS + direction;
}

static int list_faces(const struct plans *p, int buffer, peerwin_face *send, peerwin_face *recv) {
    const struct block *b = p->block;
    int count = 0;

    for (int field = 0; field < b->fields; field++)
        for (int d = 0; d < DIRECTIONS; d++) {
            const struct box edge = block_edge(b, d), ghosts = block_ghosts(b, d);
            if (!block_needs(b, d))
                continue;
            send[count] = (peerwin_face){b->neighbour[d], tag_of(field, d), p->win, box_of(b, buffer, field, &edge)};
            recv[count] = (peerwin_face){b->neighbour[d], tag_of(field, DIRECTIONS - 1 - d), p->win,
                                         box_of(b, buffer, field, &ghosts)};
            count++;
        }
    return count;
}

static bool make_plan(struct plans *p, int buffer) {
    const size_t most = (size_t)DIRECTIONS * (size_t)p->block->fields;
    peerwin_face *faces = malloc(2 * most * sizeof(*faces));
    bool fine = agree(faces != NULL);

    if (fine) {
        const int count = list_faces(p, buffer, faces, faces + most);
        fine = opened(peerwin_halo_create(p->ctx, count, faces, count, faces + most, 0, &p->halo[buffer]),
                      "peerwin_halo_create", p->block->rank);
    }
    free(faces);
    return fine;
}

/* -------------------------------------------------------------------------------------------------- calls */

/* While a stream captures, start says so if a graph cannot hold what is between this rank and its neighbours. */
static bool plans_start(struct comm *comm, int buffer) {
    const struct plans *p = (const struct plans *)comm;
    const peerwin_status status = peerwin_halo_start(p->halo[buffer], p->space->stream);

    if (status == PEERWIN_ERR_UNSUPPORTED)
        return false;
    must(status, "peerwin_halo_start");
    return true;
}

static void plans_finish(struct comm *comm, int buffer) {
    const struct plans *p = (const struct plans *)comm;

    must(peerwin_halo_finish(p->halo[buffer], p->space->stream), "peerwin_halo_finish");
}

static void plans_release(struct comm *comm, int buffer) {
    const struct plans *p = (const struct plans *)comm;

    must(peerwin_halo_release(p->halo[buffer], p->space->stream), "peerwin_halo_release");
}

/* Unlike cudaStreamSynchronize it notices dead peers, and has a deadline. */
static void plans_wait(struct comm *comm) {
    const struct plans *p = (const struct plans *)comm;

    must(peerwin_stream_sync(p->ctx, p->space->stream), "peerwin_stream_sync");
}

static void plans_close(struct comm *comm) {
    struct plans *p = (struct plans *)comm;

    for (int buffer = 0; buffer < BUFFERS; buffer++)
        must(peerwin_halo_free(p->halo[buffer]), "peerwin_halo_free");
    must(peerwin_win_free(p->win), "peerwin_win_free");
    must(peerwin_finalize(p->ctx), "peerwin_finalize");
    free(p);
}

/* ---------------------------------------------------------------------------------------------------- open */

/* A context over the grid, whose ranks are those of its faces. */
static bool open_context(struct plans *p) {
    peerwin_config config;

    peerwin_config_init(&config);
    config.space = p->space->on_host ? PEERWIN_SPACE_HOST : PEERWIN_SPACE_CUDA; /* where the sweeps run */
    config.flags = PEERWIN_STRICT; /* better no run than one whose plan is refused */
    if (!opened(peerwin_init(p->block->cart, &config, &p->ctx), "peerwin_init", p->block->rank))
        return false;
    if (peerwin_get_space(p->ctx) == config.space)
        return true;
    if (p->block->rank == 0)
        fprintf(stderr, "stencil3d: PEERWIN_SPACE asks for another space than --space does\n");
    return false;
}

static bool open_all(struct plans *p) {
    peerwin_win_config config;

    peerwin_win_config_init(&config);
    config.name = "stencil3d";
    if (!open_context(p) ||
        !opened(peerwin_win_alloc(p->ctx, BUFFERS * p->block->buffer * sizeof(double), &config, &p->win),
                "peerwin_win_alloc", p->block->rank))
        return false;
    p->base.fields = peerwin_win_ptr(p->win, p->block->rank);
    return make_plan(p, 0) && make_plan(p, 1);
}

struct comm *comm_peerwin_open(const struct block *block, struct space *space) {
    struct plans *p = calloc(1, sizeof(*p));

    if (!agree(p != NULL)) {
        free(p);
        return NULL;
    }
    p->block = block;
    p->space = space;
    p->base.name = "peerwin";
    p->base.graphs = true;
    p->base.start = plans_start;
    p->base.finish = plans_finish;
    p->base.release = plans_release;
    p->base.wait = plans_wait;
    p->base.close = plans_close;
    if (open_all(p))
        return &p->base;
    plans_close(&p->base); /* what is not there is NULL, which is fine */
    return NULL;
}
