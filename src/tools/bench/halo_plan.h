/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A halo plan for the blocks of halo_shape.h, in either space; and the names of rows.
 */
#ifndef PEERWIN_BENCH_HALO_PLAN_H
#define PEERWIN_BENCH_HALO_PLAN_H

#include "bench.h"
#include "halo_shape.h"

/** All faces of all fields in one plan; the arrays begin at the segment's first byte. Ends the job if that fails. */
peerwin_halo *halo_plan_make(const bench *b, peerwin_ctx *ctx, peerwin_win *win, const halo_shape *shape);

/** "halo-2x1x1", with the depth, the fields and the size of an element where they are not 1, 1 and 8 (-d2-f4-e4). */
void halo_plan_name(const halo_shape *shape, const char *what, char *name, size_t size);

/** Blocks on the grid that MPI makes of the ranks, or cut in the dimension that varies fastest only. */
halo_shape halo_shape_of(int ranks, const options_halo *block, bool cut_fastest);

#endif
