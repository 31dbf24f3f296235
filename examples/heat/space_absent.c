/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * In place of the GPU, for builds without nvcc or the CUDA runtime. The options refuse --space cuda then.
 */
#include "heat.h"

bool space_cuda_available(void) {
    return false;
}

struct space *space_cuda_open(void) {
    return NULL;
}

struct comm *comm_staged_open(const struct block *block, const struct space *space) {
    (void)block;
    (void)space;
    return NULL;
}
