/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A full fence of other processes, for two sides of which one comes seldom and can pay for both.
 *
 * In Dekker's pattern each side stores its own word, runs a full fence, and looks at the other's word. If both
 * processes have registered, the seldom side makes all processors that run one of them go through a full fence
 * (membarrier), instead of its own; the frequent side then needs none: whatever it has stored is visible to the seldom
 * side's look, or its own look comes later and finds what the seldom side stored. It must only keep the compiler from
 * exchanging the two (pw_near_order).
 */
#ifndef PW_BASE_FARFENCE_H
#define PW_BASE_FARFENCE_H

#include <stdatomic.h>

/* 1 if far fences of this and of other processes reach this one from now on, and it can make them itself. */
int pw_far_fence_register(void);

/* 1 when every process that has registered is behind a full fence, this one too; 0 if the kernel refused. */
int pw_far_fence(void);

/* The frequent side, between its store and its look. */
static inline void pw_near_order(void) {
    atomic_signal_fence(memory_order_seq_cst);
}

#endif
