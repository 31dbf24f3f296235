/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels of these tests in their host form, for the simulated driver, which finds them in the program.
 */
#include "simkernel.h"

#define PW_KERNEL __global__
#define PW_UNROLL
#define RIG_RELAX() simk_nanosleep(0)

static inline void rig_fence(void) {
    simk_fence();
}

static inline void rig_fence_order(void) {
    simk_fence();
}

static inline void rig_store(uint64_t *word, uint64_t value) {
    simk_store_relaxed(word, value);
}

static inline uint64_t rig_load(const uint64_t *word) {
    return simk_load_relaxed(word);
}

static inline uint64_t rig_touch(const uint64_t *word) {
    return *(const volatile uint64_t *)word;
}

static inline void rig_count(uint64_t *word, uint64_t value) {
    (void)__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

static inline uint64_t rig_now(void) {
    return simk_globaltimer();
}

#include "kernels.cu"
