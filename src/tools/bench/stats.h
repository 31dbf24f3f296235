/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Medians and spreads of a few repetitions. Pure functions.
 */
#ifndef PEERWIN_BENCH_STATS_H
#define PEERWIN_BENCH_STATS_H

typedef struct {
    double min;
    double q1; /* quartiles, interpolated linearly between neighbours */
    double median;
    double q3;
    double max;
} stats;

/** Summarises `count` (at least 1) values; sorts them in place. */
stats stats_of(double *values, int count);

#endif
