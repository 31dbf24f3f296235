/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A ring of ranks, each with a block of cells that has a ghost at both ends, and the halo plan of it. What a rank
 * writes into its faces differs by rank, step and face, so that its neighbours can say which step their ghosts are of.
 */
#ifndef PEERWIN_TESTS_HALO_RING_H
#define PEERWIN_TESTS_HALO_RING_H

#include <stddef.h>

#include "support/test.h"

/** Cells of a face, which is larger than those that are always staged, and bytes from row to row of a thin one. */
enum { CELLS = 640, ROW = 40 };

/** Faces are contiguous cells or thin rows: cell i of a face lies at i * step. */
typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    peerwin_halo *halo;
    size_t step; /* sizeof(double) or ROW */
} ring;

int left_of(int rank);
int right_of(int rank);

/** A context, a window and a plan; timeout_ms as in peerwin_config. */
ring ring_new(int timeout_ms, size_t step);
void ring_free(ring *r);
/** One more plan for the same window. */
peerwin_halo *ring_plan(const ring *r, unsigned flags);

/** What this rank's faces are in this step. */
void ring_write(const ring *r, int step);
/** Fails unless both ghosts are what the neighbours' faces were in this step. */
void ring_check(const ring *r, int step);

#endif
