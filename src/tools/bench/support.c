/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Failing, meeting, patterns, the clock.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* The rank is asked for here and not kept, so that failing needs nothing that could be missing. */
static _Noreturn void end_job(const char *text) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "peerwin-bench: rank %d: %s\n", rank, text);
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    abort(); /* MPI_Abort does not return; the compiler does not know */
}

void bench_fail(const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    end_job(text);
}

void bench_fail_call(peerwin_status status, const char *call) {
    bench_fail("%s: %s: %s", call, peerwin_strerror(status), peerwin_last_error());
}

double bench_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void bench_meet(const bench *b) {
    enum { TESTS = 20, FIRST_SLEEP = 50 * 1000, LAST_SLEEP = 1000 * 1000 };
    MPI_Request request;
    MPI_Ibarrier(b->gate, &request);
    struct timespec sleep = {0, FIRST_SLEEP};
    for (int tests = 1;; tests++) {
        int done = 0;
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
        if (tests < TESTS) {
            sched_yield();
            continue;
        }
        nanosleep(&sleep, NULL);
        if (sleep.tv_nsec < LAST_SLEEP)
            sleep.tv_nsec *= 2;
    }
}

void *bench_buffer(size_t bytes) {
    const size_t page = 4096;
    const size_t rounded = (bytes / page + 1) * page;
    void *memory = aligned_alloc(page, rounded);
    if (memory == NULL)
        bench_fail("out of memory: %zu bytes", rounded);
    madvise(memory, rounded, MADV_NOHUGEPAGE); /* a kernel without huge pages says no, and is right */
    memset(memory, 0, rounded);
    return memory;
}

/* Neighbouring bytes and neighbouring seeds differ, and no short period hides a shifted copy. */
static unsigned char pattern(size_t i, unsigned seed) {
    return (unsigned char)((i * 131u) ^ (i >> 8) ^ (i >> 16) ^ (seed * 29u + 7u));
}

void bench_fill(void *memory, size_t bytes, unsigned seed) {
    unsigned char *to = memory;
    for (size_t i = 0; i < bytes; i++)
        to[i] = pattern(i, seed);
}

void bench_verify(const void *memory, size_t bytes, unsigned seed, const char *what) {
    const unsigned char *from = memory;
    for (size_t i = 0; i < bytes; i++)
        if (from[i] != pattern(i, seed))
            bench_fail("%s: wrong data: byte %zu of %zu is %u, not %u", what, i, bytes, from[i], pattern(i, seed));
}
