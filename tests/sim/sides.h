/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts in CUDA space without MPI: the ranks of a job are made by hand in one process, on one simulated device. Each
 * has an arena, a segment, a pad, a stream and a window over everyone's. Everything here ends the program when it
 * fails.
 */
#ifndef SIM_SIDES_H
#define SIM_SIDES_H

#include "memory/gpu_cuda.h"
#include "window/watchdog.h"
#include "window/window.h"

#include "simcuda.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, peerwin_last_error());      \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CU(call)                 CHECK((call) == CUDA_SUCCESS)
#define OK(call)                 CHECK((call) == PEERWIN_OK)
#define SAYS(call, status, word) CHECK((call) == (status) && strstr(peerwin_last_error(), word))

enum { SEGMENT = 64 << 10, SLOTS = 64, MOST_SIDES = 150 };

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    CUstream stream;
    CUdeviceptr arena, segment;
} side;

/*
 * Makes `count` ranks; `mine` of them have a context, the others only memory. No watchdog thread unless `watchdog`.
 * The primary context of the device is current then.
 */
void sides_make(const char *library, side *sides, int count, int mine, int watchdog);

/* Ends them, and checks that nothing is left. */
void sides_end(side *sides, int count, int mine);

/* What is in device memory, and what is to be; for the test, behind the library's back. */
void peek(CUdeviceptr from, void *host, size_t bytes);
void poke(CUdeviceptr to, const void *host, size_t bytes);
uint64_t peek_word(CUdeviceptr from);
void poke_word(CUdeviceptr to, uint64_t value);

#endif
