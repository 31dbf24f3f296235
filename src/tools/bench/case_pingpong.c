/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ping-pong: rank 0 and its partner hand a message to and fro, by put_signal and wait, or by send and receive.
 * Reported for one way. The signal's value counts up for the whole run, so every message is awaited by its number.
 */
#include "measure.h"

#include <stdlib.h>

typedef struct {
    const bench *b;
    size_t bytes;
    peerwin_win *win;
    uint64_t number; /* of the last round */
    char *from;
    char *to; /* of MPI's messages; peerwin's arrive in the window */
} pingpong;

static void send_signal(const pingpong *p, int other) {
    bench_check(peerwin_put_signal(p->win, other, 0, p->from, p->bytes, 0, PEERWIN_SIGNAL_SET, p->number, NULL),
                "peerwin_put_signal");
}

static void await_signal(const pingpong *p) {
    bench_check(peerwin_wait(p->win, 0, p->number, NULL), "peerwin_wait");
}

static void run_peerwin(void *state, long iterations) {
    pingpong *p = state;
    const bool first = p->b->rank == 0;
    const int other = first ? p->b->partner : 0;
    for (long i = 0; i < iterations; i++) {
        p->number++;
        if (!first)
            await_signal(p);
        send_signal(p, other);
        if (first)
            await_signal(p);
    }
}

static void run_mpi(void *state, long iterations) {
    const pingpong *p = state;
    const bool first = p->b->rank == 0;
    const int other = first ? p->b->partner : 0;
    const int bytes = (int)p->bytes;
    for (long i = 0; i < iterations; i++) {
        if (first)
            MPI_Send(p->from, bytes, MPI_BYTE, other, 0, p->b->comm);
        MPI_Recv(p->to, bytes, MPI_BYTE, other, 0, p->b->comm, MPI_STATUS_IGNORE);
        if (!first)
            MPI_Send(p->from, bytes, MPI_BYTE, other, 0, p->b->comm);
    }
}

/* One round in each way with a pattern of the sender's own; both ends look at what arrived. */
static void prove(pingpong *p) {
    const bench *b = p->b;
    bench_meet(b);
    if (b->rank > b->partner)
        return;
    const unsigned seed = (unsigned)p->bytes;
    const unsigned mine = seed + (unsigned)b->rank;
    const unsigned theirs = seed + 1 - (unsigned)b->rank;
    bench_fill(p->from, p->bytes, mine);
    run_peerwin(p, 1);
    bench_verify(peerwin_win_ptr(p->win, b->rank), p->bytes, theirs, "put_signal by peerwin");
    run_mpi(p, 1);
    bench_verify(p->to, p->bytes, theirs, "message by MPI");
}

static const size_t all_sizes[] = {0, 8, 1024, 16384, 262144, 1048576};
static const size_t quick_sizes[] = {0, 8, 16384};

static void run_sizes(const bench *b, const size_t *sizes, int count) {
    const size_t most = sizes[count - 1];
    pingpong p = {.b = b};
    bench_check(peerwin_win_alloc(b->ctx, b->rank <= b->partner ? most : 0, NULL, &p.win), "peerwin_win_alloc");
    if (b->rank <= b->partner) {
        p.from = bench_buffer(most);
        p.to = bench_buffer(most);
    }
    measure_row row = {
        .name = "pingpong",
        .kind = MEASURE_LATENCY,
        .active = 2,
        .operations = 2,
        .num_ways = 2,
        .ways = {{"peerwin", run_peerwin}, {"MPI", run_mpi}},
        .state = &p,
    };
    for (int i = 0; i < count; i++) {
        p.bytes = sizes[i];
        row.bytes = sizes[i];
        prove(&p);
        measure(b, &row);
    }
    free(p.to);
    free(p.from);
    bench_check(peerwin_win_free(p.win), "peerwin_win_free");
}

void bench_case_pingpong(const bench *b) {
    if (b->opt.quick)
        run_sizes(b, quick_sizes, sizeof quick_sizes / sizeof *quick_sizes);
    else
        run_sizes(b, all_sizes, sizeof all_sizes / sizeof *all_sizes);
}
