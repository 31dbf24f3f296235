/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls before MPI_Init and after MPI_Finalize: refused with a sentence, and what is local then still frees. No leak
 * check here: what is being tested is the end of the process.
 */
#include <string.h>

#include "support/memory.h"

static void check_init_refused(const char *word) {
    peerwin_ctx *ctx = NULL;
    CHECK_STATUS(peerwin_init(MPI_COMM_WORLD, NULL, &ctx), PEERWIN_ERR_STATE, word);
    CHECK(ctx == NULL);
}

static void check_calls_after_finalize(peerwin_ctx *ctx, peerwin_win *win) {
    peerwin_win *late = NULL;
    double value = 1;
    check_init_refused("finalized");
    CHECK_STATUS(peerwin_win_alloc(ctx, 64, NULL, &late), PEERWIN_ERR_STATE, "finalized");
    CHECK_STATUS(peerwin_win_attach(ctx, &value, sizeof(value), NULL, &late), PEERWIN_ERR_STATE, "finalized");
    CHECK(late == NULL);
    CHECK_STATUS(peerwin_win_free(win), PEERWIN_ERR_STATE, "finalized");
    CHECK_EQUAL(peerwin_rank(ctx), job.rank);
    CHECK_EQUAL(peerwin_size(ctx), job.size);
    CHECK_OK(peerwin_finalize(ctx));
    CHECK_OK(peerwin_finalize(NULL));
    CHECK_OK(peerwin_win_free(NULL));
}

int main(int argc, char **argv) {
    job.size = 1;
    check_init_refused("MPI_Init");
    test_begin(argc, argv);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 2000);
    peerwin_win *win = test_window(ctx, 4096);
    peerwin_ctx *forgotten = test_context(MPI_COMM_WORLD, 2000); /* by the program, until it is too late for MPI */
    CHECK(test_window(forgotten, 4096) != NULL);
    MPI_Finalize();
    check_calls_after_finalize(ctx, win);
    CHECK_OK(peerwin_finalize(forgotten));
    if (job.rank == 0) {
        printf("ok calls_before_init_and_after_finalize_are_refused (%d ranks)\n", job.size);
    }
    return 0;
}
