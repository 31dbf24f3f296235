/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The rows of peer_plan.h in kernels of a user of peerwin/device.cuh. CUDA C++, and C11 for the simulated driver, where
 * the body of a kernel runs once per block: no value of a lane is kept across a block barrier.
 *
 * All lanes of a block leave a loop together, because statuses of block calls are the same on all of them.
 */
#ifdef __CUDACC__
#include "peer_kernels_device.h"
#endif

#include "peer_kernels.h"
#include "peer_plan.h"

#include "halo_kernels.cuh"

static __device__ __forceinline__ void peer_report(const peer_args *a, uint64_t began, peerwin_status status) {
    const uint64_t now = peer_now();
    if (threadIdx.x == 0) {
        a->finding->ns = now - began;
        a->finding->status = (uint64_t)status;
    }
}

/* ---- one side ---- */

PW_KERNEL void __launch_bounds__(1024) peer_put(PEER_CONSTANT peer_args a) {
    const uint64_t begin = blockIdx.x * a.slice;
    if (begin < a.bytes) {
        const uint64_t part = a.bytes - begin < a.slice ? a.bytes - begin : a.slice;
        for (int i = 0; i < a.iterations; i++)
            peerwin_dev_put_block(&a.view, a.partner, a.offset + begin, a.mine + begin, part);
    }
}
SIMK_KERNEL(peer_put, peer_args);

PW_KERNEL void __launch_bounds__(1024) peer_get(PEER_CONSTANT peer_args a) {
    const uint64_t begin = blockIdx.x * a.slice;
    if (begin < a.bytes) {
        const uint64_t part = a.bytes - begin < a.slice ? a.bytes - begin : a.slice;
        for (int i = 0; i < a.iterations; i++)
            peerwin_dev_get_block(&a.view, a.partner, a.offset + begin, a.mine + begin, part);
    }
}
SIMK_KERNEL(peer_get, peer_args);

/* Each adds what depends on the one before. */
PW_KERNEL void peer_fetch_add(PEER_CONSTANT peer_args a) {
    if (threadIdx.x == 0 && a.iterations > 0) {
        uint64_t before = 0, began = 0;
        for (int i = 1; i <= a.warm + a.iterations; i++) {
            if (i == a.warm + 1)
                began = peer_now();
            const uint64_t word = (uint64_t)(i % PLAN_WORDS) * PLAN_WORD_STEP;
            before = peerwin_dev_fetch_add_64(&a.view, a.partner, a.offset + word, 1 + (before >> 63));
        }
        peer_report(&a, began, (peerwin_status)(before >> 63));
    }
}
SIMK_KERNEL(peer_fetch_add, peer_args);

/* ---- there and back: rank 0 begins, and what comes is answered ---- */

PW_KERNEL void peer_put_signal(PEER_CONSTANT peer_args a) {
    if (a.iterations > 0) {
        uint64_t began = 0;
        peerwin_status status = PEERWIN_OK;
        for (int i = 1; i <= a.warm + a.iterations && status == PEERWIN_OK; i++) {
            const uint64_t value = a.base + (uint64_t)i;
            if (i == a.warm + 1)
                began = peer_now();
            if (a.view.rank != 0)
                status = peerwin_dev_wait_block(&a.view, PEER_SIGNAL, value);
            peerwin_dev_put_signal_block(&a.view, a.partner, a.offset, a.mine, a.bytes, PEER_SIGNAL, PEERWIN_SIGNAL_SET,
                                         value);
            if (a.view.rank == 0)
                status = peerwin_dev_wait_block(&a.view, PEER_SIGNAL, value);
        }
        peer_report(&a, began, status);
    }
}
SIMK_KERNEL(peer_put_signal, peer_args);

/* The answer is the message itself. With a length that the compiler knows, it stays in registers. */
static __device__ __forceinline__ void peer_message_rounds(const peer_args *a, uint32_t bytes) {
    uint64_t data[8] = {1, 2, 3, 4, 5, 6, 7, 8}, began = 0;
    peerwin_status status = PEERWIN_OK;
    for (int i = 1; i <= a->warm + a->iterations && status == PEERWIN_OK; i++) {
        if (i == a->warm + 1)
            began = peer_now();
        if (a->view.rank != 0)
            status = peerwin_dev_recv(&a->view, a->partner, data, bytes);
        if (status == PEERWIN_OK)
            status = peerwin_dev_send(&a->view, a->partner, data, bytes);
        if (a->view.rank == 0 && status == PEERWIN_OK)
            status = peerwin_dev_recv(&a->view, a->partner, data, bytes);
    }
    if (status == PEERWIN_OK && data[bytes / 8 - 1] != bytes / 8)
        status = PEERWIN_ERR_INTERNAL;
    peer_report(a, began, status);
}

PW_KERNEL void peer_message(PEER_CONSTANT peer_args a) {
    if (threadIdx.x == 0 && a.iterations > 0) {
        if (a.bytes == 8)
            peer_message_rounds(&a, 8);
        else
            peer_message_rounds(&a, PEERWIN_MESSAGE_BYTES);
    }
}
SIMK_KERNEL(peer_message, peer_args);

/* ---- all ranks ---- */

PW_KERNEL void peer_barrier(PEER_CONSTANT peer_args a) {
    if (a.iterations > 0) {
        uint64_t began = 0;
        peerwin_status status = PEERWIN_OK;
        for (int i = 1; i <= a.warm + a.iterations && status == PEERWIN_OK; i++) {
            if (i == a.warm + 1)
                began = peer_now();
            status = peerwin_dev_barrier_block(&a.view);
        }
        peer_report(&a, began, status);
    }
}
SIMK_KERNEL(peer_barrier, peer_args);

/* Once with values that tell, then with zeros, which stay what they are. */
PW_KERNEL void peer_reduce(PEER_CONSTANT peer_args a) {
    __shared__ double values[8];
    if (a.iterations > 0) {
        const int count = (int)(a.bytes / sizeof(double));
        uint64_t began = 0;
        SIMK_BLOCK_STRIDE(k, (size_t)8) {
            values[k] = a.view.rank + 1.0;
        }
        __syncthreads();
        peerwin_status status = peerwin_dev_allreduce_block(&a.view, values, count, PEERWIN_DOUBLE, PEERWIN_SUM);
        if (threadIdx.x == 0)
            a.finding->sum = values[count - 1];
        __syncthreads();
        SIMK_BLOCK_STRIDE(k, (size_t)8) {
            values[k] = 0.0;
        }
        __syncthreads();
        for (int i = 1; i <= a.warm + a.iterations && status == PEERWIN_OK; i++) {
            if (i == a.warm + 1)
                began = peer_now();
            status = peerwin_dev_allreduce_block(&a.view, values, count, PEERWIN_DOUBLE, PEERWIN_SUM);
        }
        peer_report(&a, began, status);
    }
}
SIMK_KERNEL(peer_reduce, peer_args);
