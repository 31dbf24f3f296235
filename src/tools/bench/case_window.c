/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Making and freeing a window, all ranks with the same size. The memory is not touched in the timed loop: first
 * access costs the same page faults in both.
 */
#include "measure.h"

typedef struct {
    const bench *b;
    size_t bytes;
} creation;

static void run_peerwin(void *state, long iterations) {
    const creation *c = state;
    for (long i = 0; i < iterations; i++) {
        peerwin_win *win = NULL;
        bench_check(peerwin_win_alloc(c->b->ctx, c->bytes, NULL, &win), "peerwin_win_alloc");
        bench_check(peerwin_win_free(win), "peerwin_win_free");
    }
}

static void run_mpi(void *state, long iterations) {
    const creation *c = state;
    for (long i = 0; i < iterations; i++) {
        void *base = NULL;
        MPI_Win win;
        MPI_Win_allocate((MPI_Aint)c->bytes, 1, MPI_INFO_NULL, c->b->comm, &base, &win);
        MPI_Win_free(&win);
    }
}

enum { PROBE = 64 };

/* A window that nobody can use would be made quickly: one put to the right neighbour's last bytes. */
static void prove_peerwin(const creation *c, int right, int left) {
    char bytes[PROBE];
    peerwin_win *win = NULL;
    bench_check(peerwin_win_alloc(c->b->ctx, c->bytes, NULL, &win), "peerwin_win_alloc");
    bench_fill(bytes, PROBE, (unsigned)c->b->rank);
    bench_check(peerwin_put(win, right, c->bytes - PROBE, bytes, PROBE, NULL), "peerwin_put");
    bench_check(peerwin_barrier(c->b->ctx, NULL), "peerwin_barrier");
    const char *mine = peerwin_win_ptr(win, c->b->rank);
    bench_verify(mine + c->bytes - PROBE, PROBE, (unsigned)left, "put into a new window of peerwin");
    bench_check(peerwin_win_free(win), "peerwin_win_free");
}

static void prove_mpi(const creation *c, int right, int left) {
    char bytes[PROBE];
    char *mine = NULL;
    MPI_Win win;
    MPI_Win_allocate((MPI_Aint)c->bytes, 1, MPI_INFO_NULL, c->b->comm, (void *)&mine, &win);
    bench_fill(bytes, PROBE, (unsigned)c->b->rank);
    MPI_Win_fence(0, win);
    MPI_Put(bytes, PROBE, MPI_BYTE, right, (MPI_Aint)c->bytes - PROBE, PROBE, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    bench_verify(mine + c->bytes - PROBE, PROBE, (unsigned)left, "put into a new window of MPI");
    MPI_Win_free(&win);
}

static const size_t all_sizes[] = {4096, 1048576, 67108864};
static const size_t quick_sizes[] = {4096, 1048576};

void bench_case_window(const bench *b) {
    const size_t *sizes = b->opt.quick ? quick_sizes : all_sizes;
    const int count = b->opt.quick ? sizeof quick_sizes / sizeof *quick_sizes : sizeof all_sizes / sizeof *all_sizes;
    creation c = {.b = b};
    measure_row row = {
        .name = "window",
        .kind = MEASURE_LATENCY,
        .active = b->size,
        .operations = 1,
        .num_ways = 2,
        .ways = {{"peerwin", run_peerwin}, {"MPI", run_mpi}},
        .state = &c,
    };
    for (int i = 0; i < count; i++) {
        c.bytes = sizes[i];
        row.bytes = sizes[i];
        prove_peerwin(&c, (b->rank + 1) % b->size, (b->rank + b->size - 1) % b->size);
        prove_mpi(&c, (b->rank + 1) % b->size, (b->rank + b->size - 1) % b->size);
        measure(b, &row);
    }
}
