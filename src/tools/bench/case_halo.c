/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Exchange of ghosts, all dimensions periodic, back to back: a halo plan beside MPI with derived datatypes, by a
 * neighbour collective or by Isend and Irecv, whichever is faster here. Rows are named for the grid of ranks; their
 * bytes are the faces that one rank sends. The arrays are the same, and their ghosts are compared once.
 */
#include "halo_plan.h"
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIMS = SHAPE_DIMS, MOST_FACES = SHAPE_SIDES, TRIALS = 5 };

typedef struct {
    const bench *b;
    halo_shape shape;
    size_t bytes; /* of all arrays */
    MPI_Comm cart;
    peerwin_win *win;
    peerwin_halo *halo;
    char *array; /* MPI's */
    int peer[MOST_FACES];
    MPI_Datatype send[MOST_FACES], recv[MOST_FACES]; /* face 2 d is the low one of dimension d */
} exchange;

/* ------------------------------------------------------------------------------------------ timed loops */

static void run_peerwin(void *state, long iterations) {
    const exchange *x = state;
    for (long i = 0; i < iterations; i++) {
        bench_check(peerwin_halo_start(x->halo, NULL), "peerwin_halo_start");
        bench_check(peerwin_halo_finish(x->halo, NULL), "peerwin_halo_finish");
    }
}

static void run_collective(void *state, long iterations) {
    static const int ones[MOST_FACES] = {1, 1, 1, 1, 1, 1};
    static const MPI_Aint zeros[MOST_FACES] = {0};
    const exchange *x = state;
    for (long i = 0; i < iterations; i++)
        MPI_Neighbor_alltoallw(x->array, ones, zeros, x->send, x->array, ones, zeros, x->recv, x->cart);
}

/* What goes out on one side comes in on the other, and is tagged with the side on which it goes out. */
static void run_messages(void *state, long iterations) {
    const exchange *x = state;
    const int faces = 2 * x->shape.dims;
    for (long i = 0; i < iterations; i++) {
        MPI_Request requests[2 * MOST_FACES];
        for (int f = 0; f < faces; f++)
            MPI_Irecv(x->array, 1, x->recv[f], x->peer[f], f ^ 1, x->cart, &requests[f]);
        for (int f = 0; f < faces; f++)
            MPI_Isend(x->array, 1, x->send[f], x->peer[f], f, x->cart, &requests[faces + f]);
        MPI_Waitall(2 * faces, requests, MPI_STATUSES_IGNORE);
    }
}

/* --------------------------------------------------------------------------------------------- one row */

static MPI_Datatype element_type(int bytes) {
    MPI_Datatype type;
    if (bytes == 8)
        MPI_Type_dup(MPI_DOUBLE, &type);
    else if (bytes == 4)
        MPI_Type_dup(MPI_FLOAT, &type);
    else
        MPI_Type_contiguous(bytes, MPI_BYTE, &type);
    return type;
}

/* `depth` cells from `first` on in dimension d, of every field. */
static MPI_Datatype face_type(const halo_shape *s, int d, int first) {
    int all[MOST_DIMS], part[MOST_DIMS], start[MOST_DIMS];
    MPI_Datatype element = element_type(s->elem), face, type;
    for (int k = 0; k < s->dims; k++) {
        all[k] = s->cells[k] + 2 * s->depth;
        part[k] = k == d ? s->depth : s->cells[k];
        start[k] = k == d ? first : s->depth;
    }
    MPI_Type_create_subarray(s->dims, all, part, start, MPI_ORDER_C, element, &face);
    MPI_Type_create_hvector(s->fields, 1, (MPI_Aint)shape_field(s), face, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&face);
    MPI_Type_free(&element);
    return type;
}

static void make_mpi(exchange *x) {
    const halo_shape *s = &x->shape;
    x->array = bench_buffer(x->bytes);
    for (int d = 0, low = 0; d < s->dims; d++, low += 2) {
        MPI_Cart_shift(x->cart, d, 1, &x->peer[low], &x->peer[low + 1]);
        x->send[low] = face_type(s, d, s->depth);
        x->send[low + 1] = face_type(s, d, s->cells[d]);
        x->recv[low] = face_type(s, d, 0);
        x->recv[low + 1] = face_type(s, d, s->cells[d] + s->depth);
    }
}

static void make_peerwin(exchange *x) {
    bench_check(peerwin_win_alloc(x->b->ctx, x->bytes, NULL, &x->win), "peerwin_win_alloc");
    x->halo = halo_plan_make(x->b, x->b->ctx, x->win, &x->shape);
}

static void end(exchange *x) {
    for (int f = 0; f < 2 * x->shape.dims; f++) {
        MPI_Type_free(&x->send[f]);
        MPI_Type_free(&x->recv[f]);
    }
    free(x->array);
    bench_check(peerwin_halo_free(x->halo), "peerwin_halo_free");
    bench_check(peerwin_win_free(x->win), "peerwin_win_free");
    MPI_Comm_free(&x->cart);
}

/* All ways bring the same ghosts. */
static void prove(exchange *x) {
    char *mine = peerwin_win_ptr(x->win, x->b->rank);
    bench_fill(mine, x->bytes, (unsigned)x->b->rank);
    run_peerwin(x, 1);
    void (*const ways[])(void *, long) = {run_collective, run_messages};
    for (int i = 0; i < 2; i++) {
        bench_fill(x->array, x->bytes, (unsigned)x->b->rank);
        ways[i](x, 1);
        if (memcmp(mine, x->array, x->bytes) != 0)
            bench_fail("ghosts of a halo plan differ from those of MPI");
    }
    bench_meet(x->b);
}

static double try_way(exchange *x, void (*run)(void *, long)) {
    run(x, 1);
    const double begin = bench_seconds();
    run(x, TRIALS);
    return bench_seconds() - begin;
}

/* The faster way of MPI; rank 0 decides. */
static void (*choose_mpi(exchange *x))(void *, long) {
    const double collective = try_way(x, run_collective);
    int use_collective = collective < try_way(x, run_messages);
    MPI_Bcast(&use_collective, 1, MPI_INT, 0, x->b->comm);
    return use_collective ? run_collective : run_messages;
}

static void run_row(const bench *b, const halo_shape *shape) {
    exchange x = {.b = b, .shape = *shape, .bytes = (size_t)shape_bytes(shape)};
    char name[48];
    halo_plan_name(shape, "", name, sizeof name);
    MPI_Cart_create(b->comm, shape->dims, x.shape.grid, x.shape.periodic, 0, &x.cart);
    make_peerwin(&x);
    make_mpi(&x);
    prove(&x);
    const measure_row row = {
        .name = name,
        .bytes = (size_t)shape_sent(shape, b->rank),
        .kind = MEASURE_LATENCY,
        .active = b->size,
        .operations = 1,
        .num_ways = 2,
        .ways = {{"peerwin", run_peerwin}, {"MPI", choose_mpi(&x)}},
        .state = &x,
    };
    measure(b, &row);
    end(&x);
}

/* The grid that MPI makes, and for 3 dimensions the one that cuts only the dimension that varies fastest. */
static void run_grids(const bench *b, const options_halo *block) {
    halo_shape shape = halo_shape_of(b->size, block, false);
    run_row(b, &shape);
    if (block->dims < MOST_DIMS || b->size == 1)
        return;
    shape = halo_shape_of(b->size, block, true);
    run_row(b, &shape);
}

void bench_case_halo(const bench *b) {
    static const struct {
        options_halo block;
        bool quick;
    } rows[] = {{{1, 4096, 1, 1, 8}, true}, {{2, 512, 1, 1, 8}, true},  {{2, 2048, 1, 1, 8}, false},
                {{3, 64, 1, 1, 8}, true},   {{3, 128, 1, 1, 8}, false}, {{3, 256, 1, 1, 8}, false},
                {{3, 128, 2, 1, 8}, false}, {{3, 128, 1, 4, 8}, false}, {{3, 128, 1, 1, 4}, false},
                {{3, 24, 2, 3, 12}, true},  {{3, 128, 1, 1, 16}, false}};
    if (b->opt.halo.dims > 0) {
        run_grids(b, &b->opt.halo);
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].quick || !b->opt.quick)
            run_grids(b, &rows[i].block);
}
