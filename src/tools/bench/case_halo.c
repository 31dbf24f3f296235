/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Exchange of ghosts of depth 1, all dimensions periodic, back to back: a halo plan beside MPI with derived datatypes,
 * by a neighbour collective or by Isend and Irecv, whichever is faster here. Rows are named for the grid of ranks;
 * their bytes are the faces that one rank sends. The array is the same, and its ghosts are compared once.
 */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIMS = 3, MOST_FACES = 2 * MOST_DIMS, TRIALS = 5 };

typedef struct {
    const bench *b;
    int dims;
    int sizes[MOST_DIMS]; /* of the grid of ranks */
    size_t extent[MOST_DIMS];
    size_t bytes; /* of the array */
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
    const int faces = 2 * x->dims;
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

static MPI_Datatype face_type(const exchange *x, int d, int first) {
    int all[MOST_DIMS];
    int part[MOST_DIMS];
    int start[MOST_DIMS];
    MPI_Datatype type;
    for (int k = 0; k < x->dims; k++) {
        all[k] = (int)x->extent[k];
        part[k] = k == d ? 1 : (int)x->extent[k] - 2;
        start[k] = k == d ? first : 1;
    }
    MPI_Type_create_subarray(x->dims, all, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static void make_mpi(exchange *x) {
    x->array = bench_buffer(x->bytes);
    for (int d = 0, low = 0; d < x->dims; d++, low += 2) {
        const int last = (int)x->extent[d] - 1;
        MPI_Cart_shift(x->cart, d, 1, &x->peer[low], &x->peer[low + 1]);
        x->send[low] = face_type(x, d, 1);
        x->send[low + 1] = face_type(x, d, last - 1);
        x->recv[low] = face_type(x, d, 0);
        x->recv[low + 1] = face_type(x, d, last);
    }
}

static void make_peerwin(exchange *x) {
    static const size_t depth[MOST_DIMS] = {1, 1, 1};
    bench_check(peerwin_win_alloc(x->b->ctx, x->bytes, NULL, &x->win), "peerwin_win_alloc");
    bench_check(peerwin_halo_create_cart(x->win, x->cart, sizeof(double), x->extent, depth, 0, &x->halo),
                "peerwin_halo_create_cart");
}

static void end(exchange *x) {
    for (int f = 0; f < 2 * x->dims; f++) {
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

static size_t bytes_of_faces(const exchange *x) {
    size_t bytes = 0;
    for (int f = 0; f < 2 * x->dims; f++) {
        int part = 0;
        MPI_Type_size(x->send[f], &part);
        bytes += (size_t)part;
    }
    return bytes;
}

/* A block of `cells` in each dimension on each rank of a grid. */
static void run_row(const bench *b, int dims, const int *sizes, size_t cells) {
    static const int periodic[MOST_DIMS] = {1, 1, 1};
    exchange x = {.b = b, .dims = dims, .bytes = sizeof(double)};
    char name[48] = "halo";
    for (int d = 0; d < dims; d++) {
        const size_t used = strlen(name);
        snprintf(name + used, sizeof name - used, "%c%d", d == 0 ? '-' : 'x', sizes[d]);
        x.sizes[d] = sizes[d];
        x.extent[d] = cells + 2;
        x.bytes *= cells + 2;
    }
    MPI_Cart_create(b->comm, dims, x.sizes, periodic, 0, &x.cart);
    make_peerwin(&x);
    make_mpi(&x);
    prove(&x);
    const measure_row row = {
        .name = name,
        .bytes = bytes_of_faces(&x),
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
static void run_grids(const bench *b, int dims, size_t cells) {
    int sizes[MOST_DIMS] = {0, 0, 0};
    MPI_Dims_create(b->size, dims, sizes);
    run_row(b, dims, sizes, cells);
    if (dims == MOST_DIMS && b->size > 1)
        run_row(b, dims, (const int[]){1, 1, b->size}, cells);
}

void bench_case_halo(const bench *b) {
    static const struct {
        int dims;
        size_t cells;
        bool quick;
    } rows[] = {{1, 4096, true}, {2, 512, true}, {2, 2048, false}, {3, 64, true}, {3, 128, false}, {3, 256, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].quick || !b->opt.quick)
            run_grids(b, rows[i].dims, rows[i].cells);
}
