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

static inline void pw_add_system(uint64_t *word, uint64_t value) {
    (void)__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

static inline uint64_t pw_load_acquire_system(const uint64_t *word) {
    return simk_load_acquire(word);
}

static inline uint64_t pw_load_system(const uint64_t *word) {
    return simk_load_relaxed(word);
}

static inline uint64_t pw_device_time(void) {
    return simk_globaltimer();
}

static inline void pw_poll_pause(uint32_t turn) {
    __nanosleep(turn < 50 ? 0 : 20000);
}

#include "transfer/kernels.cu"
