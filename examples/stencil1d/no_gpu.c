/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * In the place of on_gpu.cu, for builds without nvcc: windows are in host memory.
 */
#include "stencil1d.h"

#include <string.h>

void choose_gpu(int node_rank) {
    (void)node_rank;
}

int store_cells(peerwin_space space, void *to, const double *from, size_t count) {
    memcpy(to, from, count * sizeof *from);
    return space != PEERWIN_SPACE_HOST;
}

int load_cells(peerwin_space space, double *to, const void *from, size_t count) {
    memcpy(to, from, count * sizeof *to);
    return space != PEERWIN_SPACE_HOST;
}

int run_rod(peerwin_ctx *ctx, const rod *r, peerwin_status *status_out) {
    *status_out = run_rod_on_host(r);
    return peerwin_get_space(ctx) != PEERWIN_SPACE_HOST;
}
