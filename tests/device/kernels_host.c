/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel in its host form, for the simulated driver, which finds it in the program.
 */
#include "simkernel.h"

#define PW_KERNEL __global__

#include "kernels.cu"
