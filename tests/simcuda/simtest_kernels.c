/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Kernels for the simulator's own tests, in their host form; simtest_kernels.h has their arguments.
 */
#include "simkernel.h"

#include "simtest_kernels.h"

/* Every element of all blocks together, once. */
__global__ void simtest_add(struct simtest_add a) {
    uint32_t *words = (uint32_t *)(uintptr_t)a.words;
    SIMK_ALIGNED(words, 4);
    SIMK_GRID_STRIDE(i, a.count) {
        words[i] += a.value;
    }
}
SIMK_KERNEL(simtest_add, struct simtest_add);

/* Blocks, lanes, phases: the sum of the lanes' numbers of each block, through shared memory. */
__global__ void simtest_lanes(struct simtest_lanes a) {
    __shared__ uint32_t seen[128];
    uint32_t *sums = (uint32_t *)(uintptr_t)a.sums;
    SIMK_EACH_LANE {
        seen[threadIdx.x] = threadIdx.x + 1000 * blockIdx.x;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t sum = 0;
        for (unsigned lane = 0; lane < blockDim.x; lane++) {
            sum += seen[lane];
        }
        sums[blockIdx.x] = sum;
        if (blockIdx.x == 0) {
            atomicAdd(&sums[gridDim.x], gridDim.x);
        }
    }
}
SIMK_KERNEL(simtest_lanes, struct simtest_lanes);

/* Polls a word until it is there, for as long as the deadline lets it. */
__global__ void simtest_spin(struct simtest_spin a) {
    const uint32_t *word = (const uint32_t *)(uintptr_t)a.word;
    uint64_t end = simk_globaltimer() + a.nanoseconds;
    if (threadIdx.x == 0) {
        while (simk_load_acquire(word) != a.value && simk_globaltimer() < end) {
            __nanosleep(0);
        }
    }
}
SIMK_KERNEL(simtest_spin, struct simtest_spin);
