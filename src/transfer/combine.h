/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The arithmetic of the all-reduce.
 */
#ifndef PW_TRANSFER_COMBINE_H
#define PW_TRANSFER_COMBINE_H

#include "peerwin/peerwin.h"

static inline size_t pw_type_bytes(peerwin_type type) {
    return type == PEERWIN_FLOAT ? 4 : 8;
}

/* into[i] = into[i] op from[i]. MIN and MAX give a NaN if either is one; integer sums wrap. */
void pw_combine(void *into, const void *from, int count, peerwin_type type, peerwin_op op);

#endif
