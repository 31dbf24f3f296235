/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel that runs the bodies. CUDA C++ and C11 alike.
 */
#ifdef __CUDACC__
#include "transfer/kernels_device.h"
#endif

#include "bodies.h"

PW_KERNEL void __launch_bounds__(1024) device_body(body_args a) {
    body_run(&a);
}
SIMK_KERNEL(device_body, body_args);
