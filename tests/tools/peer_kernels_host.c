/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels of peerwin-bench in their host form, for the simulated driver.
 */
#include "simkernel.h"

#define PW_KERNEL     __global__
#define PEER_CONSTANT const

static inline uint64_t peer_now(void) {
    return simk_globaltimer();
}

#include "peer_kernels.cu"
