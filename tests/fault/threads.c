/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Threads that make, use and end contexts of their own at the same time, where MPI allows it
 * (MPI_THREAD_MULTIPLE). Each has a communicator, so that the ranks' collectives pair up.
 */
#include <pthread.h>

#include "support/leaks.h"
#include "support/memory.h"

enum { THREADS = 4, ROUNDS = 25 };

static void one_life(MPI_Comm comm) {
    peerwin_ctx *ctx = test_context(comm, 30000);
    peerwin_win *win = test_window(ctx, 5000);
    uint64_t value = (uint64_t)job.rank;
    uint64_t got = 0;
    CHECK_OK(
        peerwin_put_signal(win, (job.rank + 1) % job.size, 8, &value, sizeof(value), 0, PEERWIN_SIGNAL_ADD, 1, NULL));
    CHECK_OK(peerwin_consume(win, 0, 1, NULL));
    segment_load(win, 8, &got, sizeof(got));
    CHECK_EQUAL(got, (job.rank + job.size - 1) % job.size);
    CHECK_OK(peerwin_barrier(ctx, NULL));
    test_free(ctx, win);
}

static void *live(void *argument) {
    const MPI_Comm *comm = argument;
    for (int round = 0; round < ROUNDS; round++) {
        one_life(*comm);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided = 0;
    MPI_Comm comm[THREADS];
    pthread_t thread[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    job.space = PEERWIN_SPACE_HOST;
    if (provided < MPI_THREAD_MULTIPLE) {
        printf("skipped: this MPI has no MPI_THREAD_MULTIPLE\n");
        MPI_Finalize();
        return TEST_EXIT_SKIP;
    }
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
    }
    one_life(comm[0]);
    size_t descriptors = leaks_open_descriptors();
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQUAL(pthread_create(&thread[i], NULL, live, &comm[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQUAL(pthread_join(thread[i], NULL), 0);
        MPI_Comm_free(&comm[i]);
    }
    CHECK_EQUAL(leaks_open_descriptors(), descriptors);
    if (job.rank == 0) {
        printf("ok threads_make_and_end_contexts_at_once (%d ranks, %d threads each)\n", job.size, THREADS);
    }
    MPI_Finalize();
    return 0;
}
