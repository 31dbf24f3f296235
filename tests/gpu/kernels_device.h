/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The words that only these tests' kernels use, for devices; see kernels_host.c for the others.
 */
#ifndef PEERWIN_TESTS_GPU_KERNELS_DEVICE_H
#define PEERWIN_TESTS_GPU_KERNELS_DEVICE_H

#include "transfer/kernels_device.h"

#define RIG_RELAX() ((void)0)

#ifndef SIMK_GRID_STRIDE
#define SIMK_GRID_STRIDE(i, n)                                                                                         \
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (size_t)gridDim.x * blockDim.x)
#endif

static __device__ __forceinline__ void rig_fence(void) {
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

static __device__ __forceinline__ void rig_fence_order(void) {
    asm volatile("fence.sc.sys;" ::: "memory");
}

static __device__ __forceinline__ void rig_store(uint64_t *word, uint64_t value) {
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

static __device__ __forceinline__ uint64_t rig_load(const uint64_t *word) {
    uint64_t value;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

/* Loads as any program does, into whatever cache there is. */
static __device__ __forceinline__ uint64_t rig_touch(const uint64_t *word) {
    uint64_t value;
    asm volatile("ld.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

static __device__ __forceinline__ void rig_count(uint64_t *word, uint64_t value) {
    atomicAdd((unsigned long long *)word, (unsigned long long)value);
}

static __device__ __forceinline__ uint64_t rig_now(void) {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

#endif
