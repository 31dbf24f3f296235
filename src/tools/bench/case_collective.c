/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Barrier and small all-reduce over all ranks. Every rank runs the loop; ranks may outnumber the CPUs.
 */
#define _GNU_SOURCE
#include "measure.h"

#include <time.h>

/* ----------------------------------------------------------------------------------------------- barrier */

static void barrier_peerwin(void *state, long iterations) {
    const bench *b = state;
    for (long i = 0; i < iterations; i++)
        bench_check(peerwin_barrier(b->ctx, NULL), "peerwin_barrier");
}

static void barrier_mpi(void *state, long iterations) {
    const bench *b = state;
    for (long i = 0; i < iterations; i++)
        MPI_Barrier(b->comm);
}

/*
 * A barrier that lets somebody through early would be fast. One rank after the other comes late, with a store into
 * its right neighbour's memory just before the barrier; after it, every rank must find that of its left one.
 */
static void prove_barrier(const bench *b) {
    const int right = (b->rank + 1) % b->size;
    peerwin_win *win = NULL;
    bench_check(peerwin_win_alloc(b->ctx, sizeof(int), NULL, &win), "peerwin_win_alloc");
    const int *mine = peerwin_win_ptr(win, b->rank);
    for (int late = 0; late < b->size; late++) {
        const struct timespec lateness = {0, 2000000};
        if (b->rank == late)
            nanosleep(&lateness, NULL);
        const int number = late + 1;
        bench_check(peerwin_put(win, right, 0, &number, sizeof number, NULL), "peerwin_put");
        bench_check(peerwin_barrier(b->ctx, NULL), "peerwin_barrier");
        if (*mine != number)
            bench_fail("peerwin_barrier let this rank through before rank %d had arrived",
                       (b->rank + b->size - 1) % b->size);
        bench_check(peerwin_barrier(b->ctx, NULL), "peerwin_barrier");
    }
    bench_check(peerwin_win_free(win), "peerwin_win_free");
}

void bench_case_barrier(const bench *b) {
    bench loops = *b;
    const measure_row row = {
        .name = "barrier",
        .kind = MEASURE_LATENCY,
        .active = b->size,
        .operations = 1,
        .num_ways = 2,
        .ways = {{"peerwin", barrier_peerwin}, {"MPI", barrier_mpi}},
        .state = &loops,
    };
    prove_barrier(b);
    measure(b, &row);
}

/* -------------------------------------------------------------------------------------------- all-reduce */

enum { MOST_VALUES = 8 };

typedef struct {
    const bench *b;
    int count;
    double values[MOST_VALUES];
} reduction;

/* Whole numbers, so that the sums are exact in any order; new ones each time, so that nothing overflows. */
static void set_values(reduction *r) {
    for (int i = 0; i < r->count; i++)
        r->values[i] = r->b->rank + 10.0 * i;
}

static void allreduce_peerwin(void *state, long iterations) {
    reduction *r = state;
    for (long i = 0; i < iterations; i++) {
        set_values(r);
        bench_check(peerwin_allreduce(r->b->ctx, r->values, r->count, PEERWIN_DOUBLE, PEERWIN_SUM, NULL),
                    "peerwin_allreduce");
    }
}

static void allreduce_mpi(void *state, long iterations) {
    reduction *r = state;
    for (long i = 0; i < iterations; i++) {
        set_values(r);
        MPI_Allreduce(MPI_IN_PLACE, r->values, r->count, MPI_DOUBLE, MPI_SUM, r->b->comm);
    }
}

static void check_sums(const reduction *r, const char *what) {
    const double size = r->b->size;
    for (int i = 0; i < r->count; i++) {
        const double sum = size * (size - 1) / 2 + 10.0 * i * size;
        if (r->values[i] < sum || r->values[i] > sum)
            bench_fail("%s: value %d of %d is %.17g, not %.17g", what, i, r->count, r->values[i], sum);
    }
}

static void prove_allreduce(reduction *r) {
    allreduce_peerwin(r, 1);
    check_sums(r, "all-reduce by peerwin");
    allreduce_mpi(r, 1);
    check_sums(r, "all-reduce by MPI");
}

void bench_case_allreduce(const bench *b) {
    reduction r = {.b = b};
    measure_row row = {
        .name = "allreduce",
        .kind = MEASURE_LATENCY,
        .active = b->size,
        .operations = 1,
        .num_ways = 2,
        .ways = {{"peerwin", allreduce_peerwin}, {"MPI", allreduce_mpi}},
        .state = &r,
    };
    for (int count = 1; count <= MOST_VALUES; count *= MOST_VALUES) {
        r.count = count;
        row.bytes = (size_t)count * sizeof(double);
        prove_allreduce(&r);
        measure(b, &row);
    }
}
