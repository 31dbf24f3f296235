/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * put and get, latency and bandwidth. Rank 0 moves bytes between its own buffer and its partner's memory, through a
 * peerwin window, through an MPI window, and between two private buffers as a floor. All three use the same
 * private buffer, page-aligned places, ordinary pages, and memory that both ends have touched; the other ranks sleep.
 */
#include "measure.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, BACK_TO_BACK = 16 };

/* What the timed loops need. Rank 0 holds the buffers, its partner contributes the memory. */
typedef struct {
    const bench *b;
    size_t bytes; /* of the row being measured */
    peerwin_win *win;
    MPI_Win mpi_win;
    char *mpi_base;    /* the partner's part of mpi_win, page-aligned; NULL elsewhere */
    MPI_Aint mpi_disp; /* where that is in the partner's part */
    char *mine;        /* source of puts, destination of gets */
    char *other;       /* the floor's second buffer */
} transfer;

/* ------------------------------------------------------------------------------------------ timed loops */

static void put_peerwin(void *state, long iterations) {
    const transfer *t = state;
    for (long i = 0; i < iterations; i++) {
        bench_check(peerwin_put(t->win, t->b->partner, 0, t->mine, t->bytes, NULL), "peerwin_put");
        bench_check(peerwin_quiet(t->b->ctx, NULL), "peerwin_quiet");
    }
}

static void mpi_put_once(const transfer *t) {
    MPI_Put(t->mine, (int)t->bytes, MPI_BYTE, t->b->partner, t->mpi_disp, (int)t->bytes, MPI_BYTE, t->mpi_win);
}

static void put_mpi(void *state, long iterations) {
    const transfer *t = state;
    for (long i = 0; i < iterations; i++) {
        mpi_put_once(t);
        MPI_Win_flush(t->b->partner, t->mpi_win);
    }
}

static void put_memcpy(void *state, long iterations) {
    const transfer *t = state;
    for (long i = 0; i < iterations; i++) {
        memcpy(t->other, t->mine, t->bytes);
        bench_keep();
    }
}

static void get_peerwin(void *state, long iterations) {
    const transfer *t = state;
    for (long i = 0; i < iterations; i++) {
        bench_check(peerwin_get(t->win, t->b->partner, 0, t->mine, t->bytes, NULL), "peerwin_get");
        bench_check(peerwin_quiet(t->b->ctx, NULL), "peerwin_quiet");
    }
}

static void mpi_get_once(const transfer *t) {
    MPI_Get(t->mine, (int)t->bytes, MPI_BYTE, t->b->partner, t->mpi_disp, (int)t->bytes, MPI_BYTE, t->mpi_win);
}

static void get_mpi(void *state, long iterations) {
    const transfer *t = state;
    for (long i = 0; i < iterations; i++) {
        mpi_get_once(t);
        MPI_Win_flush(t->b->partner, t->mpi_win);
    }
}

static void get_memcpy(void *state, long iterations) {
    const transfer *t = state;
    for (long i = 0; i < iterations; i++) {
        memcpy(t->mine, t->other, t->bytes);
        bench_keep();
    }
}

/* The bandwidth loops: several transfers in a row, completed together. */

static void put_many_peerwin(void *state, long iterations) {
    const transfer *t = state;
    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < BACK_TO_BACK; k++)
            bench_check(peerwin_put(t->win, t->b->partner, 0, t->mine, t->bytes, NULL), "peerwin_put");
        bench_check(peerwin_quiet(t->b->ctx, NULL), "peerwin_quiet");
    }
}

static void put_many_mpi(void *state, long iterations) {
    const transfer *t = state;
    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < BACK_TO_BACK; k++)
            mpi_put_once(t);
        MPI_Win_flush(t->b->partner, t->mpi_win);
    }
}

static void put_many_memcpy(void *state, long iterations) {
    put_memcpy(state, iterations * BACK_TO_BACK);
}

static void get_many_peerwin(void *state, long iterations) {
    const transfer *t = state;
    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < BACK_TO_BACK; k++)
            bench_check(peerwin_get(t->win, t->b->partner, 0, t->mine, t->bytes, NULL), "peerwin_get");
        bench_check(peerwin_quiet(t->b->ctx, NULL), "peerwin_quiet");
    }
}

static void get_many_mpi(void *state, long iterations) {
    const transfer *t = state;
    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < BACK_TO_BACK; k++)
            mpi_get_once(t);
        MPI_Win_flush(t->b->partner, t->mpi_win);
    }
}

static void get_many_memcpy(void *state, long iterations) {
    get_memcpy(state, iterations * BACK_TO_BACK);
}

/* ------------------------------------------------------------------------------------------------ set-up */

/* Both windows with `bytes` bytes at the partner, none elsewhere, and rank 0's buffers. */
static transfer set_up(const bench *b, size_t bytes) {
    transfer t = {.b = b};
    const bool target = b->rank == b->partner;
    bench_check(peerwin_win_alloc(b->ctx, target ? bytes : 0, NULL, &t.win), "peerwin_win_alloc");

    /* MPI promises no more than an alignment for basic types: take a page more and begin at the first boundary. */
    char *base = NULL;
    MPI_Win_allocate(target ? (MPI_Aint)(bytes + PAGE) : 0, 1, MPI_INFO_NULL, b->comm, &base, &t.mpi_win);
    if (target) {
        t.mpi_disp = (MPI_Aint)((PAGE - (uintptr_t)base % PAGE) % PAGE);
        t.mpi_base = base + t.mpi_disp;
        memset(t.mpi_base, 0, bytes);
        memset(peerwin_win_ptr(t.win, b->rank), 0, bytes);
    }
    MPI_Bcast(&t.mpi_disp, 1, MPI_AINT, b->partner, b->comm);
    MPI_Win_lock_all(0, t.mpi_win);
    if (b->rank == 0) {
        t.mine = bench_buffer(bytes);
        t.other = bench_buffer(bytes);
    }
    return t;
}

static void tear_down(transfer *t) {
    free(t->other);
    free(t->mine);
    MPI_Win_unlock_all(t->mpi_win);
    MPI_Win_free(&t->mpi_win);
    bench_check(peerwin_win_free(t->win), "peerwin_win_free");
}

/* --------------------------------------------------------------------------------------------- the proof */

/* Rank 0 puts once in each way; the partner looks at what arrived. */
static void prove_put(transfer *t) {
    const bench *b = t->b;
    const unsigned seed = (unsigned)t->bytes;
    bench_meet(b);
    if (b->rank == 0) {
        bench_fill(t->mine, t->bytes, seed);
        put_peerwin(t, 1);
        put_mpi(t, 1);
        put_memcpy(t, 1);
        bench_verify(t->other, t->bytes, seed, "memcpy");
    }
    bench_meet(b);
    if (b->rank == b->partner) {
        MPI_Win_sync(t->mpi_win);
        bench_verify(peerwin_win_ptr(t->win, b->rank), t->bytes, seed, "put by peerwin");
        bench_verify(t->mpi_base, t->bytes, seed, "put by MPI");
        memset(peerwin_win_ptr(t->win, b->rank), 0, t->bytes);
        memset(t->mpi_base, 0, t->bytes);
        MPI_Win_sync(t->mpi_win);
    }
    bench_meet(b);
}

/* The partner fills its memory, differently for each way; rank 0 gets it and looks. */
static void prove_get(transfer *t) {
    const bench *b = t->b;
    const unsigned seed = (unsigned)t->bytes;
    bench_meet(b);
    if (b->rank == b->partner) {
        bench_fill(peerwin_win_ptr(t->win, b->rank), t->bytes, seed + 1);
        bench_fill(t->mpi_base, t->bytes, seed + 2);
        MPI_Win_sync(t->mpi_win);
    }
    bench_meet(b);
    if (b->rank == 0) {
        MPI_Win_sync(t->mpi_win);
        get_peerwin(t, 1);
        bench_verify(t->mine, t->bytes, seed + 1, "get by peerwin");
        get_mpi(t, 1);
        bench_verify(t->mine, t->bytes, seed + 2, "get by MPI");
        bench_fill(t->other, t->bytes, seed + 3);
        get_memcpy(t, 1);
        bench_verify(t->mine, t->bytes, seed + 3, "memcpy");
    }
    bench_meet(b);
}

/* ------------------------------------------------------------------------------------------------- cases */

static const size_t latency_sizes[] = {8, 64, 512, 4096, 32768, 262144, 1048576, 4194304, 16777216};
static const size_t bandwidth_sizes[] = {512, 4096, 65536, 1048576, 16777216};
static const size_t quick_sizes[] = {8, 4096, 1048576};

/* Measures `row`, which names everything but the size, for every size of the list; the last is the largest. */
static void run_sizes(const bench *b, measure_row row, const size_t *sizes, int count, void (*prove)(transfer *)) {
    transfer t = set_up(b, sizes[count - 1]);
    row.active = 1;
    row.num_ways = 3;
    row.state = &t;
    for (int i = 0; i < count; i++) {
        t.bytes = sizes[i];
        row.bytes = sizes[i];
        prove(&t);
        measure(b, &row);
    }
    tear_down(&t);
}

static void run_latency(const bench *b, measure_row row, void (*prove)(transfer *)) {
    row.kind = MEASURE_LATENCY;
    row.operations = 1;
    if (b->opt.quick)
        run_sizes(b, row, quick_sizes, sizeof quick_sizes / sizeof *quick_sizes, prove);
    else
        run_sizes(b, row, latency_sizes, sizeof latency_sizes / sizeof *latency_sizes, prove);
}

static void run_bandwidth(const bench *b, measure_row row, void (*prove)(transfer *)) {
    row.kind = MEASURE_BANDWIDTH;
    row.operations = BACK_TO_BACK;
    if (b->opt.quick)
        run_sizes(b, row, quick_sizes + 1, sizeof quick_sizes / sizeof *quick_sizes - 1, prove);
    else
        run_sizes(b, row, bandwidth_sizes, sizeof bandwidth_sizes / sizeof *bandwidth_sizes, prove);
}

void bench_case_put(const bench *b) {
    const measure_row row = {.name = "put",
                             .ways = {{"peerwin", put_peerwin}, {"MPI", put_mpi}, {"memcpy", put_memcpy}}};
    run_latency(b, row, prove_put);
}

void bench_case_get(const bench *b) {
    const measure_row row = {.name = "get",
                             .ways = {{"peerwin", get_peerwin}, {"MPI", get_mpi}, {"memcpy", get_memcpy}}};
    run_latency(b, row, prove_get);
}

void bench_case_put_bandwidth(const bench *b) {
    const measure_row row = {
        .name = "put-bw",
        .ways = {{"peerwin", put_many_peerwin}, {"MPI", put_many_mpi}, {"memcpy", put_many_memcpy}},
    };
    run_bandwidth(b, row, prove_put);
}

void bench_case_get_bandwidth(const bench *b) {
    const measure_row row = {
        .name = "get-bw",
        .ways = {{"peerwin", get_many_peerwin}, {"MPI", get_many_mpi}, {"memcpy", get_many_memcpy}},
    };
    run_bandwidth(b, row, prove_get);
}
