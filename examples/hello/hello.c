/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * hello: each rank stores its number into the memory of the next one, in a ring, and rings a bell there.
 */
#include <peerwin/peerwin.h>
#include <stdio.h>
#include <stdlib.h>

enum { BELL = 0 }; /* the signal slot that says "your data is there" */

/* A rank that cannot go on ends the job, so that no other waits for it. */
static void check(peerwin_status status, const char *call) {
    if (status == PEERWIN_OK)
        return;
    fprintf(stderr, "hello: %s: %s: %s\n", call, peerwin_strerror(status), peerwin_last_error());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

int main(int argc, char **argv) {
    peerwin_config config;
    peerwin_ctx *ctx = NULL;
    peerwin_win *win = NULL;

    MPI_Init(&argc, &argv);
    peerwin_config_init(&config);
    config.space = PEERWIN_SPACE_HOST; /* main reads the window itself */
    check(peerwin_init(MPI_COMM_WORLD, &config, &ctx), "peerwin_init");
    const int rank = peerwin_rank(ctx), size = peerwin_size(ctx);
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;

    /* Every rank contributes a segment that the others can write to. */
    check(peerwin_win_alloc(ctx, sizeof(int), NULL, &win), "peerwin_win_alloc");

    /* Whoever sees the signal sees the data: no receive, no further message. */
    check(peerwin_put_signal(win, next, 0, &rank, sizeof(rank), BELL, PEERWIN_SIGNAL_SET, 1, NULL),
          "peerwin_put_signal");
    check(peerwin_wait(win, BELL, 1, NULL), "peerwin_wait");
    const int got = *(const int *)peerwin_win_ptr(win, rank);

    int64_t wrong = got != previous;
    check(peerwin_allreduce(ctx, &wrong, 1, PEERWIN_INT64, PEERWIN_SUM, NULL), "peerwin_allreduce");
    if (rank == 0)
        printf("hello: %d ranks, each got the number of the one before it: %s\n", size,
               wrong == 0 ? "PASSED" : "FAILED");
    check(peerwin_win_free(win), "peerwin_win_free");
    check(peerwin_finalize(ctx), "peerwin_finalize");
    MPI_Finalize();
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
