/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The library's kernels in their host form, for the simulated driver: the same source, with the words of
 * kernels_device.h meaning what a processor can do.
 */
#include "simkernel.h"

#define PW_KERNEL __global__
#define PW_UNROLL

static inline void pw_fence_system(void) {
    simk_fence();
}

static inline void pw_store_system(uint64_t *word, uint64_t value) {
    simk_store_relaxed(word, value);
}

static inline uint64_t pw_clock(void) {
    return simk_globaltimer();
}

static inline void pw_add_system(uint64_t *word, uint64_t value) {
    (void)__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

static inline uint32_t pw_count_device(uint32_t *ticket) {
    return __atomic_fetch_add(ticket, 1, __ATOMIC_ACQ_REL);
}

static inline void pw_release_device(uint64_t *word, uint64_t value) {
    simk_store_release(word, value);
}

#include "transfer/kernels.cu"
