/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The lanes of a block, and their waits: polling of own memory that ends with a status when the deadline has passed or
 * the context is broken. Part of peerwin/device.cuh.
 */
#ifndef PEERWIN_DEVICE_BLOCK_H
#define PEERWIN_DEVICE_BLOCK_H

#include "peerwin/device/words.h"

/* ---- lanes ----
 *
 * A block's work is dealt to its lanes, which meet at block barriers. On a processor a block is one thread; the host
 * form of a kernel runs its body once per block, so there, too, one lane does all.
 */
#if defined(__CUDACC__)

enum { PW_DEV_WARP = 32 };
#define PW_DEV_BLOCK_SHARED(type, name)       __shared__ type name
#define PW_DEV_BLOCK_ARRAY(type, name, count) __shared__ type name[count]

PW_DEV uint32_t pw_dev_block_lanes(void) {
    return blockDim.x * blockDim.y * blockDim.z;
}

PW_DEV uint32_t pw_dev_block_lane(void) {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

PW_DEV void pw_dev_block_sync(void) {
    __syncthreads();
}

/* A block barrier; 1 on all lanes if any lane says yes. */
PW_DEV int pw_dev_block_any(int yes) {
    return __syncthreads_or(yes) != 0;
}

PW_DEV uint32_t pw_dev_warp_lanes(void) {
    return 32;
}

PW_DEV uint32_t pw_dev_warp_lane(void) {
    return pw_dev_block_lane() % 32;
}

PW_DEV void pw_dev_warp_sync(void) {
    __syncwarp();
}

#else

enum { PW_DEV_WARP = 1 };
#define PW_DEV_BLOCK_SHARED(type, name)       type name = 0
#define PW_DEV_BLOCK_ARRAY(type, name, count) type name[count] = {0}

PW_DEV uint32_t pw_dev_block_lanes(void) {
    return 1;
}

PW_DEV uint32_t pw_dev_block_lane(void) {
    return 0;
}

PW_DEV void pw_dev_block_sync(void) {
}

PW_DEV int pw_dev_block_any(int yes) {
    return yes;
}

PW_DEV uint32_t pw_dev_warp_lanes(void) {
    return 1;
}

PW_DEV uint32_t pw_dev_warp_lane(void) {
    return 0;
}

PW_DEV void pw_dev_warp_sync(void) {
}

#endif

/* ---- waiting, with bounds ---- */

/* The statuses that a wait may end with have the numbers of peerwin_status. */
enum { PW_DEV_OK = 0, PW_DEV_ARG = 1, PW_DEV_MISMATCH = 4, PW_DEV_UNREACHABLE = 11, PW_DEV_TIMEOUT = 20 };

/* No deadline. */
#define PW_DEV_FOREVER UINT64_MAX

#if defined(__CUDACC__)

enum { PW_DEV_LOOK_EVERY = 64 };

PW_DEV uint64_t pw_dev_rest(void *context, uint32_t turn) {
    uint64_t now;
    (void)context;
    (void)turn;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

#elif defined(SIMCUDA_SIMKERNEL_H)

enum { PW_DEV_LOOK_EVERY = 8 };

PW_DEV uint64_t pw_dev_rest(void *context, uint32_t turn) {
    (void)context;
    simk_nanosleep(turn < 4096 ? 0 : 50000);
    return simk_globaltimer();
}

#else

enum { PW_DEV_LOOK_EVERY = 16 };

#ifdef __cplusplus
extern "C" {
#endif
/*
 * Of the library. Gives the processor away for a moment, the more so the higher `turn` is, and looks for dead peers of
 * the context, if there is one, now and then. Returns the nanoseconds of a steady clock.
 */
PW_DEV_IMPORT uint64_t peerwin_inline_rest(void *context, uint32_t turn);
#ifdef __cplusplus
}
#endif

PW_DEV uint64_t pw_dev_rest(void *context, uint32_t turn) {
    return peerwin_inline_rest(context, turn);
}

#endif

/* What ends a wait early. */
typedef struct {
    const uint64_t *broken; /* not 0: waits end, with the status in its upper half */
    uint64_t timeout_ns;    /* PW_DEV_FOREVER: none */
    void *context;          /* host space: whose peers may die */
} pw_dev_bound;

/* A wait that is going on; begins as {0, 0}. */
typedef struct {
    uint64_t deadline;
    uint32_t turn;
} pw_dev_watch;

/* The status of a context that is broken, 0 if it is not. Without a status it is only that somebody's time was up. */
PW_DEV int pw_dev_broken(const pw_dev_bound *bound) {
    const uint64_t cause = pw_dev_load(bound->broken);
    if (cause == 0)
        return PW_DEV_OK;
    return cause >> 32 != 0 ? (int)(cause >> 32) : PW_DEV_TIMEOUT;
}

/*
 * Called between two polls: 0 to go on, else the status that ends the wait; the caller then polls once more before it
 * believes so. Costs nothing most of the time.
 */
PW_DEV int pw_dev_look(const pw_dev_bound *bound, pw_dev_watch *watch) {
    if (++watch->turn % PW_DEV_LOOK_EVERY != 0)
        return PW_DEV_OK;
    const uint64_t now = pw_dev_rest(bound->context, watch->turn / PW_DEV_LOOK_EVERY);
    const int broken = pw_dev_broken(bound);
    if (broken != PW_DEV_OK || bound->timeout_ns == PW_DEV_FOREVER)
        return broken;
    if (watch->deadline == 0)
        watch->deadline = now + bound->timeout_ns > now ? now + bound->timeout_ns : PW_DEV_FOREVER;
    return now >= watch->deadline ? PW_DEV_TIMEOUT : PW_DEV_OK;
}

/* Cyclic: counters may wrap. */
PW_DEV int pw_dev_reached(uint64_t value, uint64_t target) {
    return (int64_t)(value - target) >= 0;
}

/* Waits until a word of this rank's own memory has reached `target`: an acquire if it returns 0. */
PW_DEV int pw_dev_await(const uint64_t *word, uint64_t target, const pw_dev_bound *bound) {
    pw_dev_watch watch = {0, 0};
    int status = PW_DEV_OK;
    while (!pw_dev_reached(pw_dev_load_acquire(word), target)) {
        if (status != PW_DEV_OK)
            return status;
        status = pw_dev_look(bound, &watch);
    }
    return PW_DEV_OK;
}

/*
 * What a block returns when lanes may have waited in vain: the same on every lane. 0 if none has. A block barrier.
 */
PW_DEV int pw_dev_block_status(int status, const pw_dev_bound *bound) {
    if (!pw_dev_block_any(status != PW_DEV_OK))
        return PW_DEV_OK;
    const uint64_t cause = pw_dev_load(bound->broken);
    if (pw_dev_block_any(cause != 0))
        return pw_dev_broken(bound); /* a cause stays */
    return pw_dev_block_any(status == PW_DEV_MISMATCH) ? PW_DEV_MISMATCH : PW_DEV_TIMEOUT;
}

#endif
