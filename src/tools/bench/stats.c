/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sorting is enough here: there are some ten values.
 */
#include "stats.h"

#include <stdlib.h>

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value at `part` (0..1) of the sorted values. */
static double quantile(const double *sorted, int count, double part) {
    const double place = part * (count - 1);
    const int below = (int)place;
    const int above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

stats stats_of(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare);
    const stats result = {
        .min = values[0],
        .q1 = quantile(values, count, 0.25),
        .median = quantile(values, count, 0.5),
        .q3 = quantile(values, count, 0.75),
        .max = values[count - 1],
    };
    return result;
}
