/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * In place of the GPU, for builds without nvcc or the CUDA runtime. The options refuse --space cuda then.
 */
#include "stencil3d.h"

bool space_cuda_available(void) {
    return false;
}

struct space *space_cuda_open(void) {
    return NULL;
}

struct comm *comm_packed_open(const struct block *block, struct space *space, bool staged) {
    (void)block;
    (void)space;
    (void)staged;
    return NULL;
}
