/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A user's program, for the packaging tests: every rank sends its number to the next one, and checks what it got.
 */
#include <peerwin/peerwin.h>
#include <stdio.h>

static void must(peerwin_status status) {
    if (status != PEERWIN_OK) {
        fprintf(stderr, "%s: %s\n", peerwin_strerror(status), peerwin_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    peerwin_ctx *ctx = NULL;
    must(peerwin_init(MPI_COMM_WORLD, NULL, &ctx));
    int rank = peerwin_rank(ctx);
    int size = peerwin_size(ctx);
    peerwin_win *win = NULL;
    must(peerwin_win_alloc(ctx, sizeof(int64_t), NULL, &win));

    int64_t number = rank + 1;
    must(peerwin_put_signal(win, (rank + 1) % size, 0, &number, sizeof number, 0, PEERWIN_SIGNAL_SET, 1, NULL));
    must(peerwin_wait(win, 0, 1, NULL));
    int64_t wrong = *(const int64_t *)peerwin_win_ptr(win, rank) != (rank + size - 1) % size + 1;
    must(peerwin_allreduce(ctx, &wrong, 1, PEERWIN_INT64, PEERWIN_SUM, NULL));
    if (rank == 0)
        printf("%d ranks %s\n", size, wrong || peerwin_version() != PEERWIN_VERSION ? "got it WRONG" : "exchanged");

    must(peerwin_win_free(win));
    must(peerwin_finalize(ctx));
    MPI_Finalize();
    return wrong != 0;
}
