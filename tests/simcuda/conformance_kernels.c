/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The conformance program's kernel in its host form, for the simulated driver.
 */
#include "simkernel.h"

struct fill {
    uint64_t ptr;
    uint32_t value, count;
};

__global__ void conformance_fill(struct fill a) {
    uint32_t *words = (uint32_t *)(uintptr_t)a.ptr;
    SIMK_ALIGNED(words, 4);
    SIMK_GRID_STRIDE(i, a.count) {
        words[i] = a.value;
    }
}
SIMK_KERNEL(conformance_fill, struct fill);
