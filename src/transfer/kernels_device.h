/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The words that kernels.cu is written in, for devices. The host form gives the same words other meanings, so that the
 * same source runs without a device: a lane's work stands inside one of the SIMK loops, and is over at its end.
 */
#ifndef PW_TRANSFER_KERNELS_DEVICE_H
#define PW_TRANSFER_KERNELS_DEVICE_H

#include "peerwin/device/words.h"

#include <stddef.h>
#include <stdint.h>

#define PW_KERNEL extern "C" __global__
#define PW_UNROLL _Pragma("unroll")

/* On a device every lane runs the whole body. */
#define SIMK_EACH_LANE
#define SIMK_BLOCK_STRIDE(i, n)      for (size_t i = threadIdx.x; i < (n); i += blockDim.x)
#define SIMK_ALIGNED(p, n)           ((void)0)
#define SIMK_KERNEL(kernel, params_) static_assert(sizeof(params_) <= 4096, "arguments of " #kernel)

/* Acquire and release at system scope: what a release needs, and less than __threadfence_system. */
static __device__ __forceinline__ void pw_fence_system(void) {
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

/* Relaxed, at system scope. */
static __device__ __forceinline__ void pw_store_system(uint64_t *word, uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(pw_dev_global(word)), "l"(value) : "memory");
}

static __device__ __forceinline__ void pw_add_system(uint64_t *word, uint64_t value) {
    asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(pw_dev_global(word)), "l"(value) : "memory");
}

/* One more block of this grid is done; how many were before. Between two fences a release and an acquire. */
static __device__ __forceinline__ uint32_t pw_count_device(uint32_t *ticket) {
    uint32_t before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(pw_dev_global(ticket)) : "memory");
    return before;
}

/* Cycles of this multiprocessor. */
static __device__ __forceinline__ uint64_t pw_clock(void) {
    return (uint64_t)clock64();
}

/* A release for whatever comes later on this device. */
static __device__ __forceinline__ void pw_release_device(uint64_t *word, uint64_t value) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    pw_store_system(word, value);
}

#endif
