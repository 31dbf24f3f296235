/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The parts of the program: main.c for the problem, host.c for steps on the host, and one of on_gpu.cu and no_gpu.c for
 * what depends on where windows live.
 */
#ifndef STENCIL1D_H
#define STENCIL1D_H

#include "steps.h"

#ifdef __cplusplus
extern "C" {
#endif

peerwin_status run_rod_on_host(const rod *r);

/* Makes one of the node's GPUs the current one, before peerwin_init; nothing if there is none. */
void choose_gpu(int node_rank);

/* To and from the memory of windows; 0 if it went well. */
int store_cells(peerwin_space space, void *to, const double *from, size_t count);
int load_cells(peerwin_space space, double *to, const void *from, size_t count);

/* Runs all steps and waits for their end; how they ended is in *status_out. 0 if they could be run. */
int run_rod(peerwin_ctx *ctx, const rod *r, peerwin_status *status_out);

#ifdef __cplusplus
}
#endif

#endif
