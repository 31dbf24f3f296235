/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The NVSHMEM program's rows in kernels. Each call is NVSHMEM's fastest for the job: non-blocking puts of a block.
 */
#ifndef PEERWIN_BENCH_PEER_NVSHMEM_KERNELS_CUH
#define PEERWIN_BENCH_PEER_NVSHMEM_KERNELS_CUH

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include "peer_plan.h"

typedef unsigned long long u64;

__device__ static u64 now() {
    u64 time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
    return time;
}

__global__ void __launch_bounds__(1024)
    put_kernel(char *to, const char *from, size_t bytes, size_t slice, int peer, int iterations) {
    const size_t begin = blockIdx.x * slice;
    if (begin < bytes) {
        const size_t part = bytes - begin < slice ? bytes - begin : slice;
        for (int i = 0; i < iterations; i++)
            nvshmemx_putmem_nbi_block(to + begin, from + begin, part, peer);
    }
    if (threadIdx.x == 0)
        nvshmem_quiet();
}

__global__ void __launch_bounds__(1024)
    get_kernel(char *to, const char *from, size_t bytes, size_t slice, int peer, int iterations) {
    const size_t begin = blockIdx.x * slice;
    if (begin < bytes) {
        const size_t part = bytes - begin < slice ? bytes - begin : slice;
        for (int i = 0; i < iterations; i++)
            nvshmemx_getmem_nbi_block(to + begin, from + begin, part, peer);
    }
    if (threadIdx.x == 0)
        nvshmem_quiet();
}

__device__ static void await(uint64_t *flag, uint64_t value) {
    if (threadIdx.x == 0)
        nvshmem_signal_wait_until(flag, NVSHMEM_CMP_GE, value);
    __syncthreads();
}

/* Rank 0 begins; what comes is answered. */
__global__ void pingpong_kernel(char *to, const char *from, size_t bytes, uint64_t *flag, uint64_t base, int me,
                                int warm, int iterations, u64 *ns) {
    u64 began = 0;
    for (int i = 1; i <= warm + iterations; i++) {
        if (i == warm + 1)
            began = now();
        if (me != 0)
            await(flag, base + i);
        nvshmemx_putmem_signal_nbi_block(to, from, bytes, flag, base + i, NVSHMEM_SIGNAL_SET, !me);
        if (me == 0)
            await(flag, base + i);
    }
    if (threadIdx.x == 0)
        *ns = now() - began;
}

/* A word is put by one lane, more by a warp. */
__global__ void message_kernel(uint64_t *to, const uint64_t *from, size_t bytes, uint64_t *flag, uint64_t base, int me,
                               int warm, int iterations, u64 *ns) {
    u64 began = 0;
    for (int i = 1; i <= warm + iterations; i++) {
        if (i == warm + 1)
            began = now();
        for (int turn = 0; turn < 2; turn++) {
            if (turn != me) {
                if (threadIdx.x == 0)
                    nvshmem_signal_wait_until(flag, NVSHMEM_CMP_GE, base + i);
                __syncwarp();
            } else if (bytes > 8) {
                nvshmemx_putmem_signal_nbi_warp(to, from, bytes, flag, base + i, NVSHMEM_SIGNAL_SET, !me);
            } else {
                if (threadIdx.x == 0)
                    nvshmem_uint64_put_signal_nbi(to, from, 1, flag, base + i, NVSHMEM_SIGNAL_SET, !me);
                __syncwarp();
            }
        }
    }
    if (threadIdx.x == 0)
        *ns = now() - began;
}

__global__ void fetch_add_kernel(uint64_t *words, int peer, int warm, int iterations, u64 *ns) {
    uint64_t before = 0;
    u64 began = 0;
    for (int i = 1; i <= warm + iterations; i++) {
        if (i == warm + 1)
            began = now();
        uint64_t *word = words + (size_t)(i % PLAN_WORDS) * (PLAN_WORD_STEP / sizeof *words);
        before = nvshmem_uint64_atomic_fetch_add(word, 1 + (before >> 63), peer);
    }
    *ns = now() - began + (before >> 63);
}

__global__ void barrier_kernel(int warm, int iterations, u64 *ns) {
    u64 began = 0;
    for (int i = 1; i <= warm + iterations; i++) {
        if (i == warm + 1)
            began = now();
        nvshmemx_barrier_all_block();
    }
    if (threadIdx.x == 0)
        *ns = now() - began;
}

__global__ void reduce_kernel(double *to, const double *from, size_t count, int warm, int iterations, u64 *ns) {
    u64 began = 0;
    for (int i = 1; i <= warm + iterations; i++) {
        if (i == warm + 1)
            began = now();
        nvshmemx_double_sum_reduce_block(NVSHMEM_TEAM_WORLD, to, from, count);
    }
    if (threadIdx.x == 0)
        *ns = now() - began;
}

#endif
