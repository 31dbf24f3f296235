/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The host form of kernels. A kernel source that keeps a few rules compiles as C11 after this header, and the simulated
 * driver runs it, one block after the other, on the stream's thread:
 *
 *   - a kernel takes one struct by value: __global__ void name(struct args a);
 *   - its body runs once per block, with threadIdx.x == 0. Work of all lanes stands in SIMK_EACH_LANE,
 * SIMK_BLOCK_STRIDE or SIMK_GRID_STRIDE loops, which visit every lane of the block (128 wide, as launched), so that
 * heads, tails and splits are exercised; what one lane does alone stands in if (threadIdx.x == 0);
 *   - so all lanes have finished a loop when the next statement begins: __syncthreads() separates phases for free. No
 *     value of a lane is kept across a barrier except in __shared__ variables; no return before one; no shuffles;
 *   - no block waits for a later one.
 *
 * Each kernel is made known by SIMK_KERNEL(name, struct args), once, after its definition. Build the file as a shared
 * object and name it in SIMCUDA_KERNELS, or link it into the program with exported symbols.
 */
#ifndef SIMCUDA_SIMKERNEL_H
#define SIMCUDA_SIMKERNEL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* include this header first */
#endif
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct simk_dim3 {
    unsigned x, y, z;
};

/* What the driver finds under the symbol simk_<name>. */
struct simk_kernel {
    unsigned abi; /* SIMK_ABI */
    const char *name;
    size_t param_bytes;
    void (*run_block)(const void *params, const struct simk_dim3 *grid, const struct simk_dim3 *block,
                      const struct simk_dim3 *index);
};
#define SIMK_ABI 1u

#ifndef SIMK_ABI_ONLY /* the driver itself needs no more */

static _Thread_local struct simk_dim3 threadIdx __attribute__((unused));
static _Thread_local struct simk_dim3 blockIdx __attribute__((unused));
static _Thread_local struct simk_dim3 blockDim __attribute__((unused));
static _Thread_local struct simk_dim3 gridDim __attribute__((unused));

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__      static _Thread_local
#define __launch_bounds__(...)
#define __restrict__ restrict

#define SIMK_KERNEL(kernel, params_type)                                                                               \
    static void simk_run_##kernel(const void *params, const struct simk_dim3 *grid, const struct simk_dim3 *block,     \
                                  const struct simk_dim3 *index) {                                                     \
        gridDim = *grid;                                                                                               \
        blockDim = *block;                                                                                             \
        blockIdx = *index;                                                                                             \
        threadIdx = (struct simk_dim3){0, 0, 0};                                                                       \
        kernel(*(const params_type *)params);                                                                          \
    }                                                                                                                  \
    extern const struct simk_kernel simk_##kernel;                                                                     \
    __attribute__((visibility("default")))                                                                             \
    const struct simk_kernel simk_##kernel = {SIMK_ABI, #kernel, sizeof(params_type), simk_run_##kernel}

/* Every lane of the block once; threadIdx.x is the lane inside and 0 afterwards. */
#define SIMK_EACH_LANE for (threadIdx.x = 0; threadIdx.x < blockDim.x || (threadIdx.x = 0, 0); threadIdx.x++)

/* for (size_t i = this lane; i < n; i += lanes of the block), for every lane. */
#define SIMK_BLOCK_STRIDE(i, n) SIMK_EACH_LANE for (size_t i = threadIdx.x; i < (n); i += blockDim.x)

/* The same over all blocks: together they visit every i < n once. */
#define SIMK_GRID_STRIDE(i, n)                                                                                         \
    SIMK_EACH_LANE for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                             \
                        i += (size_t)gridDim.x * blockDim.x)

#define __syncthreads()        ((void)0)
#define __syncwarp()           ((void)0)
#define __threadfence()        simk_fence()
#define __threadfence_system() simk_fence()
#define __threadfence_block()  simk_fence()

/* A locked operation is a full fence, and race detectors understand it. */
static inline void simk_fence(void) {
    static unsigned word;
    (void)__atomic_fetch_add(&word, 0, __ATOMIC_SEQ_CST);
}

/* Atomics of any width, as the CUDA functions: the old value comes back. */
#define atomicAdd(address, value)  __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST)
#define atomicExch(address, value) __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST)
#define atomicOr(address, value)   __atomic_fetch_or(address, value, __ATOMIC_SEQ_CST)
#define atomicAnd(address, value)  __atomic_fetch_and(address, value, __ATOMIC_SEQ_CST)
#define atomicCAS(address, compare, value)                                                                             \
    __extension__({                                                                                                    \
        __typeof__(*(address)) simk_old_ = (compare);                                                                  \
        __atomic_compare_exchange_n(address, &simk_old_, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                \
        simk_old_;                                                                                                     \
    })

/* For inline assembly's places: loads and stores that say their order. */
#define simk_load_relaxed(address)         __atomic_load_n(address, __ATOMIC_RELAXED)
#define simk_load_acquire(address)         __atomic_load_n(address, __ATOMIC_ACQUIRE)
#define simk_store_relaxed(address, value) __atomic_store_n(address, value, __ATOMIC_RELAXED)
#define simk_store_release(address, value) __atomic_store_n(address, value, __ATOMIC_RELEASE)

/* %globaltimer. */
static inline uint64_t simk_globaltimer(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Inside every loop that polls: on a machine with few cores the writer must get to run. */
static inline void simk_nanosleep(unsigned ns) {
    if (ns == 0) {
        sched_yield();
        return;
    }
    struct timespec nap = {0, (long)ns};
    nanosleep(&nap, NULL);
}
#define __nanosleep(ns) simk_nanosleep(ns)

/* Before an access of n bytes at p (4, 8, 16): a device faults where p is not a multiple of n, a processor does not. */
#define SIMK_ALIGNED(p, n) ((uintptr_t)(p) % (n) == 0 ? (void)0 : (void)raise(SIGBUS))

struct simk_uint4 {
    _Alignas(16) unsigned x;
    unsigned y, z, w;
};
typedef struct simk_uint4 uint4;

#endif /* SIMK_ABI_ONLY */
#endif
