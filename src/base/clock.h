/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Monotonic time, the deadline of a wait, and what a processor offers to those who wait for words of memory.
 */
#ifndef PW_BASE_CLOCK_H
#define PW_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#define PW_MS      1000000ll
#define PW_FOREVER INT64_MAX

/* Nanoseconds of the monotonic clock. */
static inline int64_t pw_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* The moment `timeout_ms` from now; a negative time-out never comes. */
static inline int64_t pw_deadline(int timeout_ms) {
    return timeout_ms < 0 ? PW_FOREVER : pw_now() + (int64_t)timeout_ms * PW_MS;
}

/* Tells the processor that this is a polling loop. */
static inline void pw_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/*
 * A full fence: stores before it are out of the store buffer when loads after it look. On x86 a locked instruction does
 * it, faster than mfence; compilers take the word at the top of the stack, which is the return address that a small
 * function is about to load. This one takes a word further down, where adding nothing does no harm.
 */
static inline void pw_full_fence(void) {
#if defined(__x86_64__)
    __asm__ volatile("lock orl $0, -64(%%rsp)" ::: "memory", "cc");
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/*
 * Puts a cache line that was just stored to where other processors find it sooner, where the processor can. (A no-op of
 * reserved encoding on those that cannot.)
 */
static inline void pw_offer(const volatile void *word) {
#if defined(__x86_64__)
    __asm__ volatile("cldemote %0" : : "m"(*(const volatile char *)word));
#else
    (void)word;
#endif
}

/* Fetches the cache line of `word` for a store to come, where the processor can. */
static inline void pw_expect_store(const volatile void *word) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const volatile char *)word));
#else
    __builtin_prefetch((const void *)(uintptr_t)word, 1);
#endif
}

#endif
