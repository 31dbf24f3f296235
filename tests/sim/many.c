/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * As many ranks as a rack has devices, all in one fabric clique: a context and one window, with the times they took.
 */
#include "support/memory.h"

static double slowest(double seconds) {
    double most = 0;
    MPI_Allreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static void a_clique_of_many_ranks_has_a_context_and_a_window(void) {
    int right = (job.rank + 1) % job.size;
    int left = (job.rank + job.size - 1) % job.size;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = test_seconds();
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    double init = slowest(test_seconds() - start);
    start = test_seconds();
    peerwin_win *win = test_window(ctx, 1 << 20);
    double alloc = slowest(test_seconds() - start);
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_EQUAL(peerwin_win_path(win, rank), rank == job.rank ? PEERWIN_PATH_SELF : PEERWIN_PATH_DIRECT);
        CHECK_EQUAL(peerwin_win_handle(win, rank), PEERWIN_HANDLE_FABRIC);
    }
    fill_segment(win, 800, job.rank, 0, 100);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    CHECK_OK(peerwin_put(win, right, 0, (char *)peerwin_win_ptr(win, job.rank) + 800, 800, job.stream));
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    check_fill_segment(win, 0, left, 0, 100);
    start = test_seconds();
    test_free(ctx, win);
    double end = slowest(test_seconds() - start);
    if (job.rank == 0) {
        printf("   %d ranks: init %.3f s, window of 1 MiB %.3f s, end %.3f s\n", job.size, init, alloc, end);
    }
}

static const test_case cases[] = {
    TEST_CASE(a_clique_of_many_ranks_has_a_context_and_a_window, 2, 0),
};
TEST_MAIN(cases)
