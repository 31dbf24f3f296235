/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See peer_limits.h. Ratios are peerwin / NVSHMEM: below 1 is better in microseconds, above 1 in bandwidth.
 */
#include "peer_limits.h"

#include "text.h"

#include <math.h>
#include <string.h>

typedef enum {
    MOST_US,        /* microseconds */
    MOST_RATIO,     /* of NVSHMEM's */
    LEAST_RATIO,    /* of NVSHMEM's */
    LEAST_OF_COPY,  /* of the driver's own copy of that size, with the best blocks (names that begin so) */
    LEAST_OF_BLOCKS /* of NVSHMEM's with the blocks of that row, by the best blocks of ours */
} limit_kind;

static const struct {
    const char *name;
    size_t bytes;
    int ranks;
    limit_kind kind;
    double value;
} limits[] = {
    {"stream-barrier", 0, 2, MOST_RATIO, 0.65},
    {"stream-barrier", 0, 2, MOST_US, 3.2},
    {"stream-barrier", 0, 4, MOST_RATIO, 1.0},
    {"stream-barrier", 0, 4, MOST_US, 7.0},
    {"stream-barrier", 0, 8, MOST_RATIO, 1.0},
    {"stream-barrier", 0, 8, MOST_US, 12.0},
    {"sliced-stream-barrier", 0, 2, MOST_US, 8.0},
    {"barrier", 0, 2, MOST_RATIO, 0.35},
    {"put-signal", 1 << 10, 2, MOST_RATIO, 1.0},
    {"put-signal", 1 << 10, 2, MOST_US, 1.15},
    {"put-signal", 64 << 10, 2, MOST_RATIO, 0.7},
    {"message", 8, 2, MOST_US, 0.6},
    {"message", 64, 2, MOST_US, 0.75},
    {"put-1", 16 << 20, 2, LEAST_RATIO, 1.7},
    {"put-16", 256 << 20, 2, LEAST_RATIO, 2.4},
    {"put-all", 256 << 20, 2, LEAST_OF_COPY, 0.90},
    {"put-all", 256 << 20, 2, LEAST_OF_BLOCKS, 1.25},
    {"put-from-odd", 16 << 20, 2, LEAST_RATIO, 5.0},
    {"put-to-odd", 16 << 20, 2, LEAST_RATIO, 5.0},
    {"stream-signal", 1 << 20, 2, MOST_RATIO, 0.7},
    {"fetch-add", 8, 2, MOST_RATIO, 1.0},
    {"start", 256 << 20, 2, MOST_RATIO, 0.2},
    {"finish", 256 << 20, 2, MOST_RATIO, 0.2},
    {"allreduce", 8, 2, MOST_US, 1.1},
    {"allreduce", 64, 2, MOST_US, 1.1},
    {"allreduce", 8, 4, MOST_US, 1.2},
    {"allreduce", 64, 4, MOST_US, 1.2},
    {"allreduce", 8, 8, MOST_US, 1.4},
    {"allreduce", 64, 8, MOST_US, 1.4},
    {"graph-reduce", 8, 2, MOST_US, 2.8},
    {"graph-reduce", 64, 2, MOST_US, 2.8},
    {"graph-reduce", 8, 4, MOST_US, 3.3},
    {"graph-reduce", 64, 4, MOST_US, 3.3},
    {"graph-reduce", 8, 8, MOST_US, 4.6},
    {"graph-reduce", 64, 8, MOST_US, 4.6},
    {"stream-reduce", 8, 2, MOST_US, 5.0},
    {"stream-reduce", 64, 2, MOST_US, 5.0},
    {"stream-reduce", 8, 4, MOST_US, 8.0},
    {"stream-reduce", 64, 4, MOST_US, 8.0},
    {"stream-reduce", 8, 8, MOST_US, 13.0},
    {"stream-reduce", 64, 8, MOST_US, 13.0},
};

int peer_limit_count(void) {
    return sizeof limits / sizeof *limits;
}

const char *peer_limit_row(int i, int *ranks_out) {
    *ranks_out = limits[i].ranks;
    return limits[i].name;
}

/* The whole device can be had by blocks of several sizes and numbers, of which one will be the best here. */
static double best(int i, const peer_row *rows, int count) {
    const size_t length = strlen(limits[i].name);
    double most = 0.0;
    for (int k = 0; k < count; k++) {
        const measure_result *r = &rows[k].result;
        if (r->ranks == limits[i].ranks && r->bytes == limits[i].bytes &&
            strncmp(r->name, limits[i].name, length) == 0 && r->value[PEER_OURS].median > most)
            most = r->value[PEER_OURS].median;
    }
    return most > 0.0 ? most : NAN;
}

static double measured(int i, const peer_row *rows, int count) {
    const measure_result *r = peer_find(rows, count, limits[i].name, limits[i].bytes, limits[i].ranks);
    if (r == NULL)
        return NAN;
    switch (limits[i].kind) {
    case MOST_US:
        return r->value[PEER_OURS].median;
    case MOST_RATIO:
    case LEAST_RATIO:
        return r->ratio[PEER_OURS].median;
    case LEAST_OF_BLOCKS:
        return best(i, rows, count) / r->value[PEER_THEIRS].median;
    case LEAST_OF_COPY:
        break;
    }
    const measure_result *copy = peer_find(rows, count, "copy", limits[i].bytes, limits[i].ranks);
    return copy == NULL ? NAN : best(i, rows, count) / copy->value[PEER_OURS].median;
}

peer_verdict peer_limit_check(int i, const peer_row *rows, int count) {
    peer_verdict verdict = {.measured = measured(i, rows, count)};
    char bytes[32] = "";
    if (limits[i].bytes > 0)
        text_bytes(bytes, sizeof bytes, limits[i].bytes);
    text_format(verdict.what, sizeof verdict.what, "%s%s%s, %d ranks", limits[i].name, limits[i].bytes > 0 ? ", " : "",
                bytes, limits[i].ranks);
    const limit_kind kind = limits[i].kind;
    if (kind == MOST_US)
        text_format(verdict.limit, sizeof verdict.limit, "at most %g us", limits[i].value);
    else
        text_format(verdict.limit, sizeof verdict.limit, "%s %g x %s", kind == MOST_RATIO ? "at most" : "at least",
                    limits[i].value,
                    kind == LEAST_OF_COPY     ? "cuMemcpyAsync"
                    : kind == LEAST_OF_BLOCKS ? "NVSHMEM on 128 blocks"
                                              : "NVSHMEM");
    const bool most = kind == MOST_US || kind == MOST_RATIO;
    if (!isfinite(verdict.measured))
        verdict.outcome = PEER_NO_FIGURE;
    else if (most ? verdict.measured <= limits[i].value : verdict.measured >= limits[i].value)
        verdict.outcome = PEER_KEPT;
    else
        verdict.outcome = PEER_BROKEN;
    return verdict;
}
