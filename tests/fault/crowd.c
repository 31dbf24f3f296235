/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Many more ranks than processors: everything once, in time.
 */
#include "support/memory.h"

static void a_crowd_meets_exchanges_and_leaves(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 8 * (size_t)job.size);
    int64_t sum = job.rank;
    for (int step = 1; step < job.size; step++) {
        double value = job.rank;
        CHECK_OK(peerwin_put_signal(win, (job.rank + step) % job.size, 8 * (size_t)job.rank, &value, sizeof(value), 0,
                                    PEERWIN_SIGNAL_ADD, 1, NULL));
    }
    CHECK_OK(peerwin_consume(win, 0, (uint64_t)job.size - 1, NULL));
    for (int rank = 0; rank < job.size; rank++) {
        double value = -1;
        segment_load(win, 8 * (size_t)rank, &value, sizeof(value));
        CHECK(rank == job.rank || value == rank);
    }
    for (int round = 0; round < 5; round++) {
        CHECK_OK(peerwin_barrier(ctx, NULL));
    }
    CHECK_OK(peerwin_allreduce(ctx, &sum, 1, PEERWIN_INT64, PEERWIN_SUM, NULL));
    CHECK_EQUAL(sum, (int64_t)job.size * (job.size - 1) / 2);
    test_free(ctx, win);
}

static const test_case cases[] = {
    TEST_CASE(a_crowd_meets_exchanges_and_leaves, 2, 0),
};
TEST_MAIN(cases)
