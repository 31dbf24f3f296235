/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How a row is measured. Each implementation of the row gets batches of its own length, calibrated once; then
 * the batches are interleaved repetition by repetition, in alternating order (A B, B A, ...), so that whatever
 * drifts on the machine drifts for all, and the ratio is taken within each repetition.
 */
#ifndef PEERWIN_BENCH_MEASURE_H
#define PEERWIN_BENCH_MEASURE_H

#include "bench.h"
#include "stats.h"

enum { MEASURE_MAX_WAYS = 3, MEASURE_PEERWIN = 0, MEASURE_BASE = 1 };

/** One implementation of a row: peerwin, what it is compared with (MPI, or the driver's copy), or a floor. */
typedef struct {
    const char *name;
    void (*run)(void *state, long iterations); /* the timed loop; called on the active ranks only */
} measure_way;

typedef enum { MEASURE_LATENCY = 0, MEASURE_BANDWIDTH = 1 } measure_kind;

/** A row: the same work done in several ways; way MEASURE_PEERWIN is ours, MEASURE_BASE the one compared with. */
typedef struct {
    const char *name;
    size_t bytes;
    measure_kind kind;
    int active;     /* ranks 0 .. active - 1 run the loops, the others sleep */
    int operations; /* what is reported for is one of `operations` in each iteration */
    int num_ways;
    measure_way ways[MEASURE_MAX_WAYS];
    void *state;
} measure_row;

/** Figures of a row in the unit of its kind: microseconds (less is better) or MB/s (more is better). */
typedef struct {
    const char *name;
    const char *memory; /* the kind of memory: bench.kind */
    size_t bytes;
    int ranks; /* 0: those of the run */
    measure_kind kind;
    int repeats;
    int num_ways;
    const char *ways[MEASURE_MAX_WAYS];
    long batch[MEASURE_MAX_WAYS];  /* iterations in a batch */
    stats value[MEASURE_MAX_WAYS]; /* with NaN in them for a way that has no figure */
    stats ratio[MEASURE_MAX_WAYS]; /* this way / MEASURE_BASE, within each repetition; if there is more than one way */
    stats to_third;                /* beside other libraries: peerwin / the third way, within each repetition */
    const char *no_third;          /* why there is no third way, NULL = it has no place in this row */
} measure_result;

/** Measures a row and hands the result to the report. Collective. */
void measure(const bench *b, const measure_row *row);

/**
 * Hands in a row of peerwin alone that was measured elsewhere: `seconds` of each of `repeats` repetitions, of which the
 * longest of all ranks counts. Collective; changes `seconds`.
 */
void measure_given(const bench *b, const char *name, size_t bytes, double *seconds, int repeats);

#endif
