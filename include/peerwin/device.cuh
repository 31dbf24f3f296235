/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * peerwin for kernels: one-sided operations, signals, small messages and rounds of all ranks from device code.
 *
 * Header-only and inline: no relocatable device code, no symbol on the device, no state but what is in the windows.
 * The host makes a view of a window (peerwin_win_view) and passes it to kernels by value, as an argument or in a struct
 * of arguments; the calls take its address. In a kernel of a window in CUDA space:
 *
 *     __global__ void step(peerwin_view view, ...) {
 *         ...
 *         peerwin_dev_put_signal_block(&view, right, 0, edge, bytes, 0, PEERWIN_SIGNAL_SET, round);
 *         if (peerwin_dev_wait_block(&view, 0, round) != PEERWIN_OK) return;
 *
 * The same header compiles as C11 (and C++17) for windows in host space: a thread, a warp and a block are all the
 * calling thread then, and the order is C11's. A body that is written as an inline function runs on both.
 *
 * Rules for every call, not repeated at each:
 *  - `view` is the address of a view of a live window, in the space the code runs in. Offsets and sizes are bytes.
 *    `offset` and `bytes` must lie within the target's segment, `slot` below the window's num_signals, and `rank` must
 *    be one that peerwin_dev_ptr reaches (peerwin_win_ptr tells the host; in a read-only window only the own segment
 *    may be written): nothing of this is checked, for a check costs more than a small put. A negative rank
 *    (MPI_PROC_NULL) makes puts, gets and signals calls without effect.
 *  - _thread: the calling thread does it alone. _warp: all 32 lanes of a warp call with the same arguments. _block: all
 *    threads of a block do; the call begins and ends with a block barrier (warps: __syncwarp), so that what the threads
 *    of the scope wrote before it is sent, and buffers may be used again after it.
 *  - Any alignment of source, target and length; 16 bytes and more at a time where the addresses allow it. Source and
 *    target must not overlap.
 *  - Memory that a kernel reads while peers write it must not be read by __ldg or through const __restrict__.
 *  - Waits are bounded: by the time-out of the context (view.timeout_ns, which a copy of the view may set otherwise),
 *    and by a word that tells that the context is broken (in CUDA space the watchdog writes it; without one only the
 *    deadline counts). TIMEOUT: nothing changed, and the same call may be made again, by this kernel or a later one, to
 *    go on with the same wait. PEER_LOST, ABORTED, ...: why the context is broken; what the kernel did does not count,
 *    see peerwin_check. Ranks that share a GPU without MPS take turns on it, so a wait inside a kernel lasts until the
 *    other's turn there (milliseconds); it ends all the same.
 *
 * Order. Puts and gets are plain loads and stores. A signal, alone or with a put, is a release of what the calling
 * scope did before it: fence.acq_rel.sys, then a relaxed store (SET) or addition (ADD); for a block the block barrier
 * before it makes that the work of all its threads. Where all ranks of the context and the window are on one device, it
 * is fence.acq_rel.gpu, which is all that kernels and streams of that device need; host memory that a kernel has
 * written for the eyes of a processor needs peerwin_dev_fence before the signal then. peerwin_dev_wait is an acquire
 * (ld.acquire.sys): what the signal's sender did before is visible to the waiting thread, and after a
 * block barrier to its block. Additions continue a release sequence: who sees the sum of two has both ranks' data.
 * Signals work across the two worlds: a kernel's signal ends a stream's wait and the other way round. fetch_add, cas,
 * swap and messages are relaxed: they order nothing else. peerwin_dev_fence is for orders beyond these.
 *
 * Sources: PTX ISA, "Memory Consistency Model" (morally strong operations, release and acquire patterns, causality
 * order). It specifies .sys for the threads of one program; that it holds between processes that share memory is an
 * assumption, which this library's litmus test soaks.
 */
#ifndef PEERWIN_DEVICE_CUH
#define PEERWIN_DEVICE_CUH

#include "peerwin/peerwin.h"

#include "peerwin/device/block.h"
#include "peerwin/device/copy.h"
#include "peerwin/device/messages.h"
#include "peerwin/device/rounds.h"
#include "peerwin/device/view.h"
#include "peerwin/device/words.h"

/* -------------------------------------------------------------------------------------------- on the host */

#ifdef __cplusplus
extern "C" {
#endif

/* Of the library: fills a view of that version. Use peerwin_win_view. */
PEERWIN_API PEERWIN_MUST_USE peerwin_status peerwin_inline_view(peerwin_win *win, uint32_t version, size_t bytes,
                                                                void *view_out);

#ifdef __cplusplus
}
#endif

/**
 * Makes a view of a window, for kernels (CUDA space) or for code of the host (host space).
 *
 * Local. Views may be copied freely, and are valid until the window is freed or the context ends; they own nothing. The
 * first view of a window allocates a small table that goes with the window: make it before kernels wait for others.
 *
 * Statuses: ARG, MISMATCH (the program was compiled with a header whose view this library does not know), NO_MEMORY,
 * STATE, CUDA, CONTEXT_LOST, and the cause if the context is broken.
 */
static inline PEERWIN_MUST_USE peerwin_status peerwin_win_view(peerwin_win *win, peerwin_view *view_out) {
    return peerwin_inline_view(win, PEERWIN_VIEW_VERSION, sizeof *view_out, view_out);
}

/* ------------------------------------------------------------------------------------------- put and get */

/** The address of byte `offset` of `rank`'s segment; NULL if it is not mapped here, or there is no such rank. */
PW_DEV void *peerwin_dev_ptr(const peerwin_view *view, int rank, size_t offset) {
    if (rank < 0 || rank >= view->size)
        return NULL;
    char *base = pw_dev_base(view, rank);
    return base ? base + offset : NULL;
}

/* The same, for a rank that is known to be one. */
PW_DEV char *pw_dev_target(const peerwin_view *view, int rank, size_t offset) {
    return pw_dev_base(view, rank) + offset;
}

/** Copies `bytes` bytes from `src` to `rank`'s segment at `offset`, by one thread. A signal releases it. */
PW_DEV void peerwin_dev_put_thread(const peerwin_view *view, int rank, size_t offset, const void *src, size_t bytes) {
    if (rank >= 0)
        pw_dev_copy(pw_dev_target(view, rank, offset), src, bytes, 0, 1);
}

/** Copies `bytes` bytes from `src` to `rank`'s segment at `offset`, by a warp. A signal releases it. */
PW_DEV void peerwin_dev_put_warp(const peerwin_view *view, int rank, size_t offset, const void *src, size_t bytes) {
    pw_dev_warp_sync();
    if (rank >= 0)
        pw_dev_copy(pw_dev_target(view, rank, offset), src, bytes, pw_dev_warp_lane(), pw_dev_warp_lanes());
    pw_dev_warp_sync();
}

/** Copies `bytes` bytes from `src` to `rank`'s segment at `offset`, by a block. A signal releases it. */
PW_DEV void peerwin_dev_put_block(const peerwin_view *view, int rank, size_t offset, const void *src, size_t bytes) {
    pw_dev_block_sync();
    if (rank >= 0)
        pw_dev_copy(pw_dev_target(view, rank, offset), src, bytes, pw_dev_block_lane(), pw_dev_block_lanes());
    pw_dev_block_sync();
}

/**
 * Copies `bytes` bytes from `rank`'s segment at `offset` to `dst`, by one thread. What the rank wrote is seen if an
 * acquire came first.
 */
PW_DEV void peerwin_dev_get_thread(const peerwin_view *view, int rank, size_t offset, void *dst, size_t bytes) {
    if (rank >= 0)
        pw_dev_copy(dst, pw_dev_target(view, rank, offset), bytes, 0, 1);
}

/** Copies `bytes` bytes from `rank`'s segment at `offset` to `dst`, by a warp. */
PW_DEV void peerwin_dev_get_warp(const peerwin_view *view, int rank, size_t offset, void *dst, size_t bytes) {
    pw_dev_warp_sync();
    if (rank >= 0)
        pw_dev_copy(dst, pw_dev_target(view, rank, offset), bytes, pw_dev_warp_lane(), pw_dev_warp_lanes());
    pw_dev_warp_sync();
}

/** Copies `bytes` bytes from `rank`'s segment at `offset` to `dst`, by a block. */
PW_DEV void peerwin_dev_get_block(const peerwin_view *view, int rank, size_t offset, void *dst, size_t bytes) {
    pw_dev_block_sync();
    if (rank >= 0)
        pw_dev_copy(dst, pw_dev_target(view, rank, offset), bytes, pw_dev_block_lane(), pw_dev_block_lanes());
    pw_dev_block_sync();
}

/* ----------------------------------------------------------------------------------------------- signals */

/* Host space: a rank that sleeps in peerwin_wait is woken. */
#if defined(__CUDACC__) || defined(SIMCUDA_SIMKERNEL_H)
PW_DEV void pw_dev_wake(const peerwin_view *view, int rank) {
    (void)view;
    (void)rank;
}
#else
#ifdef __cplusplus
extern "C" {
#endif
/* Of the library: wakes the owner of an arena in host memory. */
PEERWIN_API void peerwin_inline_wake(void *arena);
#ifdef __cplusplus
}
#endif

/* The doorbell's rule: the waiter counts itself, then looks once more; here the signal, a full fence, then the look. */
PW_DEV void pw_dev_wake(const peerwin_view *view, int rank) {
    char *arena = pw_dev_arena(view, rank);
    const uint32_t *sleepers = (const uint32_t *)(const void *)(arena + view->sleepers);
    if (rank == view->rank)
        return;
    pw_dev_fence_seq_cst();
    if (__atomic_load_n(sleepers, __ATOMIC_RELAXED) != 0)
        peerwin_inline_wake(arena);
}
#endif

/**
 * Sets `rank`'s signal `slot` to `value`, or adds `value` to it. A release of all that the calling thread did before,
 * and of what happened before that (block barriers). One thread calls. ADD needs native atomics on the pair, see
 * peerwin_peer.
 */
PW_DEV void peerwin_dev_signal(const peerwin_view *view, int rank, unsigned slot, peerwin_signal_op op,
                               uint64_t value) {
    if (rank < 0)
        return;
    uint64_t *word = pw_dev_signals(view, rank) + slot;
    if (op == PEERWIN_SIGNAL_ADD)
        pw_dev_publish_add(word, value, view->one_device);
    else
        pw_dev_publish(word, value, view->one_device);
    pw_dev_wake(view, rank);
}

/** Puts by one thread, then signals: whoever sees the signal sees the data. `bytes` may be 0. */
PW_DEV void peerwin_dev_put_signal_thread(const peerwin_view *view, int rank, size_t offset, const void *src,
                                          size_t bytes, unsigned slot, peerwin_signal_op op, uint64_t value) {
    peerwin_dev_put_thread(view, rank, offset, src, bytes);
    peerwin_dev_signal(view, rank, slot, op, value);
}

/** Puts by a warp, then signals once: whoever sees the signal sees the data of all lanes. */
PW_DEV void peerwin_dev_put_signal_warp(const peerwin_view *view, int rank, size_t offset, const void *src,
                                        size_t bytes, unsigned slot, peerwin_signal_op op, uint64_t value) {
    peerwin_dev_put_warp(view, rank, offset, src, bytes);
    if (pw_dev_warp_lane() == 0)
        peerwin_dev_signal(view, rank, slot, op, value);
}

/** Puts by a block, then signals once: whoever sees the signal sees the data of all threads. */
PW_DEV void peerwin_dev_put_signal_block(const peerwin_view *view, int rank, size_t offset, const void *src,
                                         size_t bytes, unsigned slot, peerwin_signal_op op, uint64_t value) {
    peerwin_dev_put_block(view, rank, offset, src, bytes);
    if (pw_dev_block_lane() == 0)
        peerwin_dev_signal(view, rank, slot, op, value);
}

/**
 * Waits until my own signal `slot` is at least `value`, compared cyclically. An acquire for the calling thread; others
 * of its block need a block barrier after it.
 *
 * Statuses: OK, TIMEOUT, or why the context is broken.
 */
PW_DEV peerwin_status peerwin_dev_wait(const peerwin_view *view, unsigned slot, uint64_t value) {
    const pw_dev_bound bound = pw_dev_bound_of(view);
    return (peerwin_status)pw_dev_await(view->own.signals + slot, value, &bound);
}

/**
 * Waits, for a block, until my own signal `slot` is at least `value`: one thread polls, and it is an acquire for all of
 * them.
 *
 * Statuses, the same on all threads of the block: OK, TIMEOUT, or why the context is broken.
 */
PW_DEV peerwin_status peerwin_dev_wait_block(const peerwin_view *view, unsigned slot, uint64_t value) {
    const pw_dev_bound bound = pw_dev_bound_of(view);
    int status = PW_DEV_OK;
    if (pw_dev_block_lane() == 0)
        status = pw_dev_await(view->own.signals + slot, value, &bound);
    return (peerwin_status)pw_dev_block_status(status, &bound);
}

/**
 * Sequentially consistent, system scope (fence.sc.sys; C11: a fence with memory_order_seq_cst). By the calling thread:
 * needed where a rank stores one word and then reads another that a peer stores before it reads the first.
 */
PW_DEV void peerwin_dev_fence(void) {
    pw_dev_fence_seq_cst();
}

/* ----------------------------------------------------------------------------------------------------------- atomics
 */

/*
 * peerwin_dev_fetch_add(view, rank, offset, value), peerwin_dev_swap(view, rank, offset, value) and
 * peerwin_dev_cas(view, rank, offset, expected, value) choose the width by the type of `value`: 32 bits for an integer
 * of 32 bits, else 64. The word lies at `offset` in `rank`'s segment, aligned. Relaxed, at system scope, by the calling
 * thread. The pair needs native atomics, see peerwin_peer. The rank is not negative.
 */

/** Adds `value` to a word, and returns what was there before. 64 bits. */
PW_DEV uint64_t peerwin_dev_fetch_add_64(const peerwin_view *view, int rank, size_t offset, uint64_t value) {
    return pw_dev_add64((uint64_t *)(void *)pw_dev_target(view, rank, offset), value);
}

/** Adds `value` to a word, and returns what was there before. 32 bits. */
PW_DEV uint32_t peerwin_dev_fetch_add_32(const peerwin_view *view, int rank, size_t offset, uint32_t value) {
    return pw_dev_add32((uint32_t *)(void *)pw_dev_target(view, rank, offset), value);
}

/** Stores `value` into a word, and returns what was there before. 64 bits. */
PW_DEV uint64_t peerwin_dev_swap_64(const peerwin_view *view, int rank, size_t offset, uint64_t value) {
    return pw_dev_swap64((uint64_t *)(void *)pw_dev_target(view, rank, offset), value);
}

/** Stores `value` into a word, and returns what was there before. 32 bits. */
PW_DEV uint32_t peerwin_dev_swap_32(const peerwin_view *view, int rank, size_t offset, uint32_t value) {
    return pw_dev_swap32((uint32_t *)(void *)pw_dev_target(view, rank, offset), value);
}

/** Stores `value` into a word if `expected` is there, and returns what was there before. 64 bits. */
PW_DEV uint64_t peerwin_dev_cas_64(const peerwin_view *view, int rank, size_t offset, uint64_t expected,
                                   uint64_t value) {
    return pw_dev_cas64((uint64_t *)(void *)pw_dev_target(view, rank, offset), expected, value);
}

/** Stores `value` into a word if `expected` is there, and returns what was there before. 32 bits. */
PW_DEV uint32_t peerwin_dev_cas_32(const peerwin_view *view, int rank, size_t offset, uint32_t expected,
                                   uint32_t value) {
    return pw_dev_cas32((uint32_t *)(void *)pw_dev_target(view, rank, offset), expected, value);
}

#ifdef __cplusplus

template <typename T> PW_DEV T peerwin_dev_fetch_add(const peerwin_view *view, int rank, size_t offset, T value) {
    static_assert((sizeof(T) == 4 || sizeof(T) == 8) && T(1) / T(2) == T(0), "an integer of 32 or 64 bits");
    if (sizeof(T) == 4)
        return (T)peerwin_dev_fetch_add_32(view, rank, offset, (uint32_t)value);
    return (T)peerwin_dev_fetch_add_64(view, rank, offset, (uint64_t)value);
}

template <typename T> PW_DEV T peerwin_dev_swap(const peerwin_view *view, int rank, size_t offset, T value) {
    static_assert((sizeof(T) == 4 || sizeof(T) == 8) && T(1) / T(2) == T(0), "an integer of 32 or 64 bits");
    if (sizeof(T) == 4)
        return (T)peerwin_dev_swap_32(view, rank, offset, (uint32_t)value);
    return (T)peerwin_dev_swap_64(view, rank, offset, (uint64_t)value);
}

template <typename E, typename T>
PW_DEV T peerwin_dev_cas(const peerwin_view *view, int rank, size_t offset, E expected, T value) {
    static_assert((sizeof(T) == 4 || sizeof(T) == 8) && T(1) / T(2) == T(0), "an integer of 32 or 64 bits");
    if (sizeof(T) == 4)
        return (T)peerwin_dev_cas_32(view, rank, offset, (uint32_t)expected, (uint32_t)value);
    return (T)peerwin_dev_cas_64(view, rank, offset, (uint64_t)expected, (uint64_t)value);
}

#else

#define PW_DEV_WIDTH(value, name) _Generic((value), uint32_t : name##_32, int32_t : name##_32, default : name##_64)
#define peerwin_dev_fetch_add(view, rank, offset, value)                                                               \
    PW_DEV_WIDTH(value, peerwin_dev_fetch_add)(view, rank, offset, value)
#define peerwin_dev_swap(view, rank, offset, value) PW_DEV_WIDTH(value, peerwin_dev_swap)(view, rank, offset, value)
#define peerwin_dev_cas(view, rank, offset, expected, value)                                                           \
    PW_DEV_WIDTH(value, peerwin_dev_cas)(view, rank, offset, expected, value)

#endif

/* ---------------------------------------------------------------------------------------- small messages */

enum { PEERWIN_MESSAGE_BYTES = 64, PEERWIN_MESSAGE_SLOTS = 8 };

/**
 * Sends a message of at most PEERWIN_MESSAGE_BYTES bytes to `rank`, this rank included: messages arrive in order, each
 * once. Does not wait unless PEERWIN_MESSAGE_SLOTS messages to that rank have not been taken.
 *
 * By one thread; one thread of the rank at a time, over all windows of the context, sends to a rank. It orders nothing:
 * what was stored before it needs a signal.
 *
 * Statuses: OK, ARG (too long, no such rank), UNREACHABLE, TIMEOUT (nothing was sent), or why the context is broken.
 */
PW_DEV peerwin_status peerwin_dev_send(const peerwin_view *view, int rank, const void *data, size_t bytes) {
    if (bytes > PEERWIN_MESSAGE_BYTES || rank < 0 || rank >= view->size)
        return PEERWIN_ERR_ARG;
    if (!pw_dev_arena(view, rank))
        return PEERWIN_ERR_UNREACHABLE;
    return (peerwin_status)pw_dev_send(view, rank, data, (uint32_t)bytes);
}

/**
 * Waits for the next message of `rank` and copies its first `bytes` bytes to `data`. Lengths do not travel: what is
 * asked for beyond what was sent is 0, what is not asked for is gone.
 *
 * By one thread; one thread of the rank at a time receives from a rank.
 *
 * Statuses as for peerwin_dev_send; TIMEOUT: nothing was taken.
 */
PW_DEV peerwin_status peerwin_dev_recv(const peerwin_view *view, int rank, void *data, size_t bytes) {
    if (bytes > PEERWIN_MESSAGE_BYTES || rank < 0 || rank >= view->size)
        return PEERWIN_ERR_ARG;
    if (!pw_dev_arena(view, rank))
        return PEERWIN_ERR_UNREACHABLE;
    return (peerwin_status)pw_dev_recv(view, rank, data, (uint32_t)bytes);
}

/* ----------------------------------------------------------------------------------------------- rounds of all ranks
 */

/*
 * One block of every rank of the context calls, one at a time: blocks of a rank that call one after the other are
 * ordered by the caller (one kernel after the other on a stream is). The n-th call pairs with the n-th of every rank,
 * whichever window the view is of; barriers and all-reduces count apart, and apart from those of the host's calls.
 */

/**
 * Everyone's earlier work and puts before anyone's later work: a release and an acquire.
 *
 * Statuses, the same on all threads of the block: OK, UNREACHABLE (some pair has no direct path), TIMEOUT (call again
 * to go on with the same barrier; until then this rank has not come to it, whoever saw it there and went on aside), or
 * why the context is broken.
 */
PW_DEV peerwin_status peerwin_dev_barrier_block(const peerwin_view *view) {
    if (!view->all_reachable)
        return PEERWIN_ERR_UNREACHABLE;
    return (peerwin_status)pw_dev_round_barrier(view, PW_DEV_SERIES);
}

/**
 * Combines `count` (1..64) values of every rank, element by element, in place, in rank order: the same bits on every
 * rank and in every run. MIN and MAX return a NaN if any value is one; INT64 sums wrap. `values` is aligned memory that
 * all threads of the block see, shared or global; the result is there for all of them when the call returns.
 *
 * Type, operation and count are the same on every rank. It orders nothing else: a barrier does.
 *
 * Statuses as for peerwin_dev_barrier_block, ARG, and MISMATCH as long as another rank came to this round last with a
 * different type, operation or count. `values` is as it was then. TIMEOUT: call again with the same values; MISMATCH:
 * with arguments that agree.
 */
PW_DEV peerwin_status peerwin_dev_allreduce_block(const peerwin_view *view, void *values, int count, peerwin_type type,
                                                  peerwin_op op) {
    if (!view->all_reachable)
        return PEERWIN_ERR_UNREACHABLE;
    if (count < 1 || 2 * count > PW_DEV_REDUCE_WORDS || (unsigned)type > PW_DEV_INT64 || (unsigned)op > PW_DEV_MAX)
        return PEERWIN_ERR_ARG;
    return (peerwin_status)pw_dev_round_reduce(view, PW_DEV_SERIES, values, (uint32_t)count, (int)type, (int)op);
}

#endif
