/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Arguments of the kernels in simtest_kernels.c.
 */
#ifndef SIMCUDA_SIMTEST_KERNELS_H
#define SIMCUDA_SIMTEST_KERNELS_H

#include <stdint.h>

struct simtest_add {
    uint64_t words;
    uint32_t value, count;
};

struct simtest_lanes {
    uint64_t sums; /* one word a block, and one for the number of blocks */
};

struct simtest_spin {
    uint64_t word;
    uint64_t nanoseconds;
    uint32_t value;
};

#endif
