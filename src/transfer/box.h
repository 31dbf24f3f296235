/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Geometry of strided boxes. Pure.
 */
#ifndef PW_TRANSFER_BOX_H
#define PW_TRANSFER_BOX_H

#include "peerwin/peerwin.h"

/*
 * The bytes from the box's first to one past its last, from its offset on; 0 for an empty box. -1 if that does not fit
 * into a size_t, or if the box has more than PTRDIFF_MAX bytes, which it may where its rows are the same; 0 otherwise.
 */
int pw_box_extent(const peerwin_box *box, size_t *extent_out);

static inline int pw_box_empty(const peerwin_box *box) {
    return box->count[0] == 0 || box->count[1] == 0 || box->count[2] == 0;
}

/* 1 if two different rows share a byte. The box must have an extent. */
int pw_box_overlaps_itself(const peerwin_box *box);

/* Copies row by row between two boxes of equal counts. */
void pw_box_copy(char *to_base, const peerwin_box *to, const char *from_base, const peerwin_box *from);

#endif
