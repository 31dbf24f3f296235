/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Words of shared memory as kernels and processors see them: loads and stores that say their order. Part of
 * peerwin/device.cuh, for whose users nothing here is meant.
 *
 * Three forms. CUDA C++: inline PTX at system scope. C11 and C++ for host memory: a block is one thread, and the
 * compiler's atomic operations, which are C11's, do the rest. The host form of the library's own kernels
 * (simkernel.h of the simulated driver comes first): the second with the clock of the simulation.
 *
 * The PTX memory model specifies .sys for the threads of one program. That it holds between processes, over memory that
 * they share, is an assumption: every library of this kind makes it.
 */
#ifndef PEERWIN_DEVICE_WORDS_H
#define PEERWIN_DEVICE_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define PW_DEV               static __device__ __forceinline__
#define PW_DEV_UNROLL        _Pragma("unroll")
#define PW_DEV_ROLLED        _Pragma("unroll 1")
#define PW_DEV_ALIGNED(p, n) ((void)0)
#else
#define PW_DEV static inline
#if defined(__GNUC__)
#define PW_DEV_IMPORT __attribute__((visibility("default")))
#else
#define PW_DEV_IMPORT
#endif
#define PW_DEV_UNROLL
#define PW_DEV_ROLLED
#ifdef SIMCUDA_SIMKERNEL_H
#define PW_DEV_ALIGNED(p, n) SIMK_ALIGNED(p, n)
#else
#define PW_DEV_ALIGNED(p, n) ((void)0)
#endif
#endif

/* Memory of any type, seen as words. */
#if defined(__GNUC__)
typedef uint64_t __attribute__((may_alias)) pw_dev_any64;
typedef uint32_t __attribute__((may_alias)) pw_dev_any32;
typedef uint16_t __attribute__((may_alias)) pw_dev_any16;
#else
typedef uint64_t pw_dev_any64;
typedef uint32_t pw_dev_any32;
typedef uint16_t pw_dev_any16;
#endif

/* ---- order ----
 *
 * A release is pw_dev_publish: what the calling thread did before, and what happened before that (other threads' work
 * before a block barrier, for example), is ordered before its store. An acquire is a pw_dev_load_acquire that sees a
 * published value. Everything else is relaxed: it orders nothing, and no value is torn.
 */
#if defined(__CUDACC__)

/*
 * Words are in global memory, be it a device's or the host's. Said so, operations need not find out: an atomic on a
 * pointer that may be to shared memory is several instructions.
 */
PW_DEV uint64_t pw_dev_global(const void *at) {
    uint64_t address;
    asm("cvta.to.global.u64 %0, %1;" : "=l"(address) : "l"(at));
    return address;
}

PW_DEV uint64_t pw_dev_load(const uint64_t *word) {
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(pw_dev_global(word)) : "memory");
    return value;
}

PW_DEV uint64_t pw_dev_load_acquire(const uint64_t *word) {
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(pw_dev_global(word)) : "memory");
    return value;
}

PW_DEV void pw_dev_store(uint64_t *word, uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(pw_dev_global(word)), "l"(value) : "memory");
}

/*
 * Keeps what is made of a value that is still being loaded behind what was written before this, a fence for example, so
 * that the load and the fence take their time together.
 */
PW_DEV uint64_t pw_dev_after(uint64_t value) {
    asm volatile("" : "+l"(value)::"memory");
    return value;
}

/* To have memory near that is asked for soon. */
PW_DEV void pw_dev_prefetch(const void *at) {
    asm volatile("prefetch.L1 [%0];" ::"l"(at));
}

/* Two neighbouring words at once, 16-byte aligned; each is whole, both together need not be. */
PW_DEV void pw_dev_load_pair(const uint64_t *words, uint64_t *first, uint64_t *second) {
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(*first), "=l"(*second)
                 : "l"(pw_dev_global(words))
                 : "memory");
}

PW_DEV void pw_dev_load_pair_acquire(const uint64_t *words, uint64_t *first, uint64_t *second) {
    asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(*first), "=l"(*second)
                 : "l"(pw_dev_global(words))
                 : "memory");
}

PW_DEV void pw_dev_store_pair(uint64_t *words, uint64_t first, uint64_t second) {
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(pw_dev_global(words)), "l"(first), "l"(second)
                 : "memory");
}

/* Acquire and release; less than __threadfence_system, which is the next one. */
PW_DEV void pw_dev_fence_acq_rel(void) {
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

PW_DEV void pw_dev_fence_seq_cst(void) {
    asm volatile("fence.sc.sys;" ::: "memory");
}

/*
 * The fence of a release. Among the kernels of one device it need not reach further than that device, which takes a
 * quarter of the time (H200: 142 against 585 ns). Acquires are at system scope all the same: a poll at the scope of the
 * device takes longer.
 */
PW_DEV void pw_dev_fence_release(uint32_t one_device) {
    if (one_device)
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
    else
        pw_dev_fence_acq_rel();
}

/* The store that makes it a release; several may follow one fence. */
PW_DEV void pw_dev_store_released(uint64_t *word, uint64_t value) {
    pw_dev_store(word, value);
}

PW_DEV void pw_dev_publish(uint64_t *word, uint64_t value, uint32_t one_device) {
    pw_dev_fence_release(one_device);
    pw_dev_store_released(word, value);
}

/* The same by addition. */
PW_DEV void pw_dev_add_released(uint64_t *word, uint64_t value) {
    asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(pw_dev_global(word)), "l"(value) : "memory");
}

PW_DEV void pw_dev_publish_add(uint64_t *word, uint64_t value, uint32_t one_device) {
    pw_dev_fence_release(one_device);
    pw_dev_add_released(word, value);
}

PW_DEV uint64_t pw_dev_add64(uint64_t *word, uint64_t value) {
    uint64_t old;
    asm volatile("atom.relaxed.sys.global.add.u64 %0, [%1], %2;"
                 : "=l"(old)
                 : "l"(pw_dev_global(word)), "l"(value)
                 : "memory");
    return old;
}

PW_DEV uint64_t pw_dev_swap64(uint64_t *word, uint64_t value) {
    uint64_t old;
    asm volatile("atom.relaxed.sys.global.exch.b64 %0, [%1], %2;"
                 : "=l"(old)
                 : "l"(pw_dev_global(word)), "l"(value)
                 : "memory");
    return old;
}

PW_DEV uint64_t pw_dev_cas64(uint64_t *word, uint64_t expected, uint64_t value) {
    uint64_t old;
    asm volatile("atom.relaxed.sys.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "l"(pw_dev_global(word)), "l"(expected), "l"(value)
                 : "memory");
    return old;
}

PW_DEV uint32_t pw_dev_add32(uint32_t *word, uint32_t value) {
    uint32_t old;
    asm volatile("atom.relaxed.sys.global.add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(pw_dev_global(word)), "r"(value)
                 : "memory");
    return old;
}

PW_DEV uint32_t pw_dev_swap32(uint32_t *word, uint32_t value) {
    uint32_t old;
    asm volatile("atom.relaxed.sys.global.exch.b32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(pw_dev_global(word)), "r"(value)
                 : "memory");
    return old;
}

PW_DEV uint32_t pw_dev_cas32(uint32_t *word, uint32_t expected, uint32_t value) {
    uint32_t old;
    asm volatile("atom.relaxed.sys.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(pw_dev_global(word)), "r"(expected), "r"(value)
                 : "memory");
    return old;
}

#else /* a processor */

PW_DEV uint64_t pw_dev_load(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

PW_DEV uint64_t pw_dev_load_acquire(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

PW_DEV void pw_dev_store(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

PW_DEV uint64_t pw_dev_after(uint64_t value) {
    return value;
}

PW_DEV void pw_dev_prefetch(const void *at) {
    __builtin_prefetch(at);
}

PW_DEV void pw_dev_load_pair(const uint64_t *words, uint64_t *first, uint64_t *second) {
    PW_DEV_ALIGNED(words, 16);
    *first = pw_dev_load(words);
    *second = pw_dev_load(words + 1);
}

PW_DEV void pw_dev_load_pair_acquire(const uint64_t *words, uint64_t *first, uint64_t *second) {
    PW_DEV_ALIGNED(words, 16);
    *first = pw_dev_load_acquire(words);
    *second = pw_dev_load_acquire(words + 1);
}

PW_DEV void pw_dev_store_pair(uint64_t *words, uint64_t first, uint64_t second) {
    PW_DEV_ALIGNED(words, 16);
    pw_dev_store(words, first);
    pw_dev_store(words + 1, second);
}

/* A locked operation is a full fence on x86, and faster than the instruction of that name. */
PW_DEV void pw_dev_fence_seq_cst(void) {
#if defined(__x86_64__)
    __asm__ volatile("lock orl $0, -64(%%rsp)" ::: "memory", "cc");
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

PW_DEV void pw_dev_fence_acq_rel(void) {
    pw_dev_fence_seq_cst();
}

/* Here the store is the release. */
PW_DEV void pw_dev_fence_release(uint32_t one_device) {
    (void)one_device;
}

PW_DEV void pw_dev_store_released(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

PW_DEV void pw_dev_publish(uint64_t *word, uint64_t value, uint32_t one_device) {
    pw_dev_fence_release(one_device);
    pw_dev_store_released(word, value);
}

PW_DEV void pw_dev_add_released(uint64_t *word, uint64_t value) {
    (void)__atomic_fetch_add(word, value, __ATOMIC_RELEASE);
}

PW_DEV void pw_dev_publish_add(uint64_t *word, uint64_t value, uint32_t one_device) {
    pw_dev_fence_release(one_device);
    pw_dev_add_released(word, value);
}

PW_DEV uint64_t pw_dev_add64(uint64_t *word, uint64_t value) {
    return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

PW_DEV uint64_t pw_dev_swap64(uint64_t *word, uint64_t value) {
    return __atomic_exchange_n(word, value, __ATOMIC_RELAXED);
}

PW_DEV uint64_t pw_dev_cas64(uint64_t *word, uint64_t expected, uint64_t value) {
    (void)__atomic_compare_exchange_n(word, &expected, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

PW_DEV uint32_t pw_dev_add32(uint32_t *word, uint32_t value) {
    return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

PW_DEV uint32_t pw_dev_swap32(uint32_t *word, uint32_t value) {
    return __atomic_exchange_n(word, value, __ATOMIC_RELAXED);
}

PW_DEV uint32_t pw_dev_cas32(uint32_t *word, uint32_t expected, uint32_t value) {
    (void)__atomic_compare_exchange_n(word, &expected, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

#endif

#endif
