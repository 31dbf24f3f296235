/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What every rank contributes to an all-reduce, and whether it fits together; and the gather by MPI that stands for
 * barrier and all-reduce where some pair has no direct path.
 */
#ifndef PW_TRANSFER_GATHER_H
#define PW_TRANSFER_GATHER_H

#include "window/context.h"

/* Shapes that are no all-reduce: a barrier, and arguments that their rank refuses. */
enum { PW_SHAPE_BARRIER = 0, PW_SHAPE_REFUSED = 1 << 24 };

/* The slot that `rank` has written. */
typedef const pw_reduce_slot *pw_slot_at(const peerwin_ctx *ctx, int rank);

/*
 * The same verdict on every rank: OK, ARG if some rank refused its arguments (`mine` is this rank's status, with its
 * text), MISMATCH if shapes differ.
 */
PEERWIN_MUST_USE peerwin_status pw_shapes_check(const peerwin_ctx *ctx, pw_slot_at *slot_at, peerwin_status mine,
                                                const pw_site *site);

/* Gathers everyone's slot by MPI, or goes on with the gather of `series` that timed out. */
PEERWIN_MUST_USE peerwin_status pw_gather_slots(peerwin_ctx *ctx, pw_series *series, uint64_t shape, const void *values,
                                                size_t bytes, const pw_site *site);

/* The result of pw_gather_slots. */
const pw_reduce_slot *pw_gathered_slot(const peerwin_ctx *ctx, int rank);

#endif
