/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Programs that end in the wrong order: MPI first, the device first, from a destructor, or with windows left. Named on
 * the command line. No crash, no hang, a documented status, and the process ends with 0.
 */
#include <stdlib.h>
#include <string.h>

#include "support/calls.h"
#include "support/memory.h"

static peerwin_ctx *ctx;
static peerwin_win *win;

static void make(void) {
    ctx = test_context(MPI_COMM_WORLD, 3000);
    win = test_window(ctx, 100000);
    CHECK_OK(peerwin_signal(win, (job.rank + 1) % job.size, 0, PEERWIN_SIGNAL_SET, 1, job.stream));
    CHECK_OK(done(ctx, peerwin_wait(win, 0, 1, job.stream)));
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
}

static void mpi_first(void) {
    MPI_Finalize();
    CHECK_STATUS(peerwin_win_free(win), PEERWIN_ERR_STATE, "finalized");
    CHECK_STATUS(peerwin_put(win, job.rank, 0, "8 bytes", 8, job.stream), PEERWIN_ERR_STATE, "finalized");
    CHECK_OK(peerwin_finalize(ctx));
}

/* The context of the device is gone with all that was in it, as after a fault or a reset. */
static void device_first(void) {
    static double value = 1;
    int (*lose)(int code) = NULL;
    void *entry = device_simulated("simcuda_lose_context");
    CHECK(entry != NULL);
    memcpy(&lose, &entry, sizeof(entry));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(lose(CUDA_ERROR_ILLEGAL_ADDRESS), 0);
    peerwin_status status = peerwin_put(win, job.rank, 0, &value, sizeof(value), job.stream);
    status = done(ctx, status);
    CHECK(status == PEERWIN_ERR_CONTEXT_LOST || status == PEERWIN_ERR_PEER_LOST || status == PEERWIN_ERR_ABORTED);
    status = peerwin_win_free(win);
    if (status != PEERWIN_OK) {
        CHECK_OK(peerwin_win_free(win));
    }
    status = peerwin_finalize(ctx);
    if (status != PEERWIN_OK) {
        CHECK_OK(peerwin_finalize(ctx));
    }
    MPI_Finalize();
}

static void window_left(void) {
    CHECK_OK(peerwin_finalize(ctx));
    MPI_Finalize();
}

static void all_left(void) {
    MPI_Finalize();
}

/* Called by exit, after MPI and main have ended. */
static void end_late(void) {
    if (peerwin_finalize(ctx) != PEERWIN_OK) {
        fprintf(stderr, "FAILED: finalize from a destructor: %s\n", peerwin_last_error());
        _Exit(1);
    }
}

static void from_a_destructor(void) {
    CHECK(atexit(end_late) == 0);
    MPI_Finalize();
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"mpi-first", mpi_first},
                {"device-first", device_first},
                {"window-left", window_left},
                {"all-left", all_left},
                {"destructor", from_a_destructor}};
    test_begin(argc, argv);
    make();
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (argc > 1 && strcmp(argv[1], ways[i].name) == 0) {
            ways[i].run();
            if (job.rank == 0) {
                printf("ok %s (%d ranks)\n", ways[i].name, job.size);
            }
            return 0;
        }
    }
    fprintf(stderr, "usage: %s mpi-first|device-first|window-left|all-left|destructor\n", argv[0]);
    return 2;
}
