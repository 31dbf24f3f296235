/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels of the tests on GPUs: delays, rounds that are published and looked at, and litmus tests. CUDA C++ and
 * C11 alike, as the library's own kernels are.
 *
 * Loads of payloads are plain ones, as an application's. Flags are relaxed, with fences of their own where a test does
 * not leave them out.
 */
#ifdef __CUDACC__
#include "kernels_device.h"
#endif

#include "kernels.h"

/* ---- pieces ---- */

static __device__ __forceinline__ uint64_t rig_mix(uint64_t round, uint64_t index) {
    uint64_t x = round * 0x9e3779b97f4a7c15u + index * 0xc2b2ae3d27d4eb4fu;
    x ^= x >> 29;
    return x * 0xbf58476d1ce4e5b9u + round;
}

static __device__ __forceinline__ void rig_wrong(rig_report *report, uint64_t round, uint64_t index, uint64_t value) {
    rig_count(&report->wrong, 1);
    report->at_round = round;
    report->at_index = index;
    report->value = value;
}

static __device__ __forceinline__ void rig_spin(uint64_t ns) {
    const uint64_t begin = rig_now();
    while (rig_now() - begin < ns)
        RIG_RELAX();
}

/* 1 if the word did not get there in time. */
static __device__ __forceinline__ uint32_t rig_await(const uint64_t *word, uint64_t value, uint64_t limit_ns) {
    uint64_t begin = 0;
    for (uint32_t polls = 1; (int64_t)(rig_load(word) - value) < 0; polls++) {
        RIG_RELAX();
        if (polls % 1024 != 0)
            continue;
        if (begin == 0)
            begin = rig_now();
        else if (rig_now() - begin > limit_ns)
            return 1;
    }
    return 0;
}

/* ---- rounds ---- */

PW_KERNEL void rig_delay(rig_delay_args a) {
    if (threadIdx.x == 0) {
        const uint64_t draw = rig_mix(a.counter ? *a.counter : a.round, a.seed);
        rig_spin(a.least_ns + (draw % 4 == 0 ? (draw >> 8) % (a.most_ns + 1) : 0));
    }
}
SIMK_KERNEL(rig_delay, rig_delay_args);

PW_KERNEL void rig_publish(rig_publish_args a) {
    const uint64_t round = a.counter ? *a.counter + 1 : a.round;
    SIMK_BLOCK_STRIDE(i, (size_t)a.count * a.words) {
        a.to[i / a.words][i % a.words] = round;
    }
    __syncthreads(); /* all have read the counter */
    if (threadIdx.x == 0 && a.counter)
        *a.counter = round;
}
SIMK_KERNEL(rig_publish, rig_publish_args);

PW_KERNEL void rig_look(rig_look_args a) {
    SIMK_BLOCK_STRIDE(i, (size_t)a.count * a.words) {
        const uint64_t least = a.counter ? *a.counter : a.least[i / a.words];
        const uint64_t value = a.own[i];
        if (value < least || value - least > a.ahead)
            rig_wrong(a.report, least, i, value);
    }
    if (threadIdx.x == 0 && a.report)
        a.report->rounds++;
}
SIMK_KERNEL(rig_look, rig_look_args);

/* Of very different sizes, so that the order of a sum shows. */
static __device__ __forceinline__ double rig_value(uint64_t round, uint32_t rank, uint64_t index) {
    const uint64_t bits = rig_mix(round * RIG_MOST_RANKS + rank, index);
    return (double)((int64_t)bits >> (bits % 48));
}

PW_KERNEL void rig_draw(rig_draw_args a) {
    SIMK_BLOCK_STRIDE(i, a.count) {
        a.values[i] = rig_value(*a.counter, a.rank, i);
    }
}
SIMK_KERNEL(rig_draw, rig_draw_args);

PW_KERNEL void rig_sums(rig_sums_args a) {
    SIMK_BLOCK_STRIDE(i, a.count) {
        double sum = rig_value(*a.counter, 0, i);
        for (uint32_t rank = 1; rank < a.size; rank++)
            sum += rig_value(*a.counter, rank, i);
        if (a.values[i] != sum)
            rig_wrong(a.report, *a.counter, i, 0);
    }
    if (threadIdx.x == 0 && a.report)
        a.report->rounds++;
}
SIMK_KERNEL(rig_sums, rig_sums_args);

PW_KERNEL void rig_fill(rig_fill_args a) {
    SIMK_GRID_STRIDE(i, a.words) {
        a.to[i] = rig_mix(a.round, i);
    }
}
SIMK_KERNEL(rig_fill, rig_fill_args);

PW_KERNEL void rig_check(rig_check_args a) {
    SIMK_GRID_STRIDE(i, a.words) {
        const uint64_t value = a.own[i];
        if (value != rig_mix(a.round, i))
            rig_wrong(a.report, a.round, i, value);
    }
    if (threadIdx.x == 0 && blockIdx.x == 0 && a.report)
        a.report->rounds++;
}
SIMK_KERNEL(rig_check, rig_check_args);

/* ---- message passing ---- */

static __device__ __forceinline__ void rig_write(uint64_t *to, uint64_t round, uint64_t from, uint64_t until) {
    SIMK_BLOCK_STRIDE(i, until - from) {
        to[from + i] = rig_mix(round, from + i);
    }
}

static __device__ __forceinline__ void rig_raise(uint64_t *flag, uint64_t round, uint32_t without) {
    if (!(without & RIG_NO_WRITER_FENCE))
        rig_fence();
    rig_store(flag, round);
}

static __device__ __forceinline__ void rig_send(uint64_t *to, uint64_t *flag, uint64_t round, const rig_pass_args *a) {
    const uint64_t early = a->without & RIG_EARLY_FLAG ? a->words / 2 : a->words;
    rig_write(to, round, 0, early);
    __syncthreads();
    if (threadIdx.x == 0) {
        rig_raise(flag, round, a->without);
        if (early < a->words)
            rig_spin(2000);
    }
    __syncthreads();
    rig_write(to, round, early, a->words);
}

/* What is seen before the flag may be old, and must not be what is seen after it: caches have it now. */
static __device__ __forceinline__ void rig_peek(const uint64_t *own, uint64_t words) {
    SIMK_BLOCK_STRIDE(i, words < 1024 ? words : 1024) {
        (void)rig_touch(own + i);
    }
}

static __device__ __forceinline__ void rig_compare(const uint64_t *own, uint64_t round, uint64_t words,
                                                   rig_report *report) {
    SIMK_BLOCK_STRIDE(i, words) {
        const uint64_t value = own[i];
        if (value != rig_mix(round, i))
            rig_wrong(report, round, i, value);
    }
}

PW_KERNEL void rig_pass(rig_pass_args a) {
    __shared__ uint32_t late;
    const uint64_t line = (uint64_t)blockIdx.x * RIG_LINE_WORDS;
    uint64_t *to = a.to + blockIdx.x * a.stride;
    const uint64_t *own = a.own + blockIdx.x * a.stride;
    rig_report *report = a.report + blockIdx.x;
    if (threadIdx.x == 0)
        late = 0;
    for (uint64_t i = 1; i <= a.rounds; i++) {
        const uint64_t round = a.first + i;
        rig_send(to, a.flag_out + line, round, &a);
        rig_peek(own, a.words);
        if (threadIdx.x == 0) {
            late = rig_await(a.flag_in + line, round, a.limit_ns);
            if (!(a.without & RIG_NO_READER_FENCE))
                rig_fence();
        }
        __syncthreads();
        if (late)
            break;
        rig_compare(own, round, a.words, report);
        __syncthreads();
        if (threadIdx.x == 0) {
            rig_raise(a.ack_out + line, round, 0);
            late = rig_await(a.ack_in + line, round, a.limit_ns);
            rig_fence();
            report->rounds++;
        }
        __syncthreads();
        if (late)
            break;
    }
    if (threadIdx.x == 0 && late)
        report->late++;
}
SIMK_KERNEL(rig_pass, rig_pass_args);

/* ---- store buffering ---- */

/* A few steps, so that the sides meet in every order. */
static __device__ __forceinline__ void rig_stagger(uint64_t draw) {
    for (uint64_t step = draw % 48; step > 0; step--)
        (void)rig_now();
}

/*
 * The word that tells what I saw carries the round, so it needs no order with anything. There are two, used by turns:
 * the other side may be a round ahead, and not two.
 */
static __device__ __forceinline__ void rig_cross_round(const rig_cross_args *a, uint64_t line, uint64_t round,
                                                       rig_report *report) {
    rig_stagger(rig_mix(round, a->seed));
    if (a->partner >= 0) {
        (void)peerwin_dev_swap_64(&a->view, a->partner, a->offset + line * 8, round);
        peerwin_dev_fence();
    } else {
        rig_store(a->store_out + line, round);
        if (!(a->without & RIG_NO_ORDER_FENCE))
            rig_fence_order();
    }
    const uint64_t mine = (int64_t)(rig_load(a->store_in + line) - round) >= 0;
    rig_store(a->seen_out + line + round % 2, 2 * round + mine);
    if (rig_await(a->seen_in + line + round % 2, 2 * round, a->limit_ns)) {
        report->late++;
        return;
    }
    const uint64_t theirs = rig_load(a->seen_in + line + round % 2) & 1;
    if (!mine && !theirs)
        rig_wrong(report, round, 0, 0);
    report->crossed += mine != theirs;
    report->rounds++;
}

PW_KERNEL void rig_cross(rig_cross_args a) {
    if (threadIdx.x == 0) {
        rig_report *report = a.report + blockIdx.x;
        for (uint64_t i = 1; i <= a.rounds && report->late == 0; i++)
            rig_cross_round(&a, (uint64_t)blockIdx.x * RIG_LINE_WORDS, a.first + i, report);
    }
}
SIMK_KERNEL(rig_cross, rig_cross_args);

#include "kernels_calls.cu"
