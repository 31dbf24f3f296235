/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The words of peer_kernels.cu, for devices; tests give them the meaning of a processor.
 */
#ifndef PEERWIN_BENCH_PEER_KERNELS_DEVICE_H
#define PEERWIN_BENCH_PEER_KERNELS_DEVICE_H

#include "transfer/kernels_device.h"

/* Arguments stay where they are: the view is read from there in every call. */
#define PEER_CONSTANT const __grid_constant__

static __device__ __forceinline__ uint64_t peer_now(void) {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

#endif
