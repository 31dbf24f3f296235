/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What every part of peerwin-bench shares: the run itself, failing, the quiet meeting point, test patterns, cases.
 *
 * One run = one context over all ranks. Rank 0 measures, decides and reports; its partner (rank 1, or rank 0
 * itself in a run of one rank) is the other end of whatever has two ends. Every decision is rank 0's, broadcast.
 */
#ifndef PEERWIN_BENCH_H
#define PEERWIN_BENCH_H

#include "options.h"
#include "peerwin/peerwin.h"

#include <stdbool.h>

typedef struct report report;
typedef struct bench_device bench_device; /* cuda/device.h */

/** One run of the tool on this rank. */
typedef struct {
    peerwin_ctx *ctx;
    MPI_Comm comm; /* the baselines' communicator */
    MPI_Comm gate; /* the meeting point's own, so that its messages never mix with a baseline's */
    int rank;
    int size;
    int cpus; /* that the ranks share */
    int partner;
    options opt;
    report *out;          /* rank 0 only, else NULL */
    const char *kind;     /* of memory, as rows show it */
    bench_device *device; /* NULL in host space */
} bench;

/** A case: measures some rows, one after the other, by calls of measure(). Collective. */
typedef struct {
    const char *name;
    const char *summary;
    int min_ranks;
    void (*run)(const bench *b);
} bench_case;

/** The cases of a space in the order in which they run; bit i of options.cases stands for entry i. */
typedef struct {
    const bench_case *list;
    int count;
} bench_case_list;
bench_case_list bench_cases(bool cuda);

/** Those of CUDA space, none in a build without CUDA; and the run over all kinds of memory: false if one failed. */
bench_case_list bench_cuda_cases(void);
bool bench_cuda_run(bench *b);

/** Prints "peerwin-bench: rank r: ..." and ends the job with exit status 1. */
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Ends the job with the library's own sentence if a peerwin call failed. Inline, because it is inside timed loops. */
_Noreturn void bench_fail_call(peerwin_status status, const char *call);
static inline void bench_check(peerwin_status status, const char *call) {
    if (status != PEERWIN_OK)
        bench_fail_call(status, call);
}

/**
 * Waits for all ranks without keeping a CPU busy, so that ranks without a part in a measurement do not disturb it;
 * drives MPI's progress meanwhile, for implementations whose targets have to help.
 */
void bench_meet(const bench *b);

/** Page-aligned, touched memory of ordinary (not huge) pages, like that of a window. Never NULL; end with free(). */
void *bench_buffer(size_t bytes);

/** Fills memory with bytes that depend on the position and on `seed`; bench_verify ends the job if they differ. */
void bench_fill(void *memory, size_t bytes, unsigned seed);
void bench_verify(const void *memory, size_t bytes, unsigned seed, const char *what);

/** Seconds of a clock that only goes forward. */
double bench_seconds(void);

/** Keeps the compiler from moving or dropping memory accesses across this point. */
static inline void bench_keep(void) {
    __asm__ volatile("" ::: "memory");
}

void bench_case_put(const bench *b);
void bench_case_get(const bench *b);
void bench_case_put_bandwidth(const bench *b);
void bench_case_get_bandwidth(const bench *b);
void bench_case_pingpong(const bench *b);
void bench_case_barrier(const bench *b);
void bench_case_allreduce(const bench *b);
void bench_case_window(const bench *b);
void bench_case_halo(const bench *b);

#endif
