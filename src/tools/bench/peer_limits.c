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
    MOST_US,         /* microseconds */
    MOST_RATIO,      /* of NVSHMEM's */
    LEAST_RATIO,     /* of NVSHMEM's */
    LEAST_OF_COPY,   /* of the driver's own copy of that size, with the best blocks (names that begin so) */
    LEAST_OF_BLOCKS, /* of NVSHMEM's with the blocks of that row, by the best blocks of ours */
    MOST_OF_ROW,     /* of another row of ours, of the same size */
    LEAST_OF_ROW,    /* the same, by the best of the rows whose names begin so */
    NEAR_ROW         /* at most so much above another row of ours, or 0.3 microseconds if that is more */
} limit_kind;

enum { SHARED = 0, APART = 1 };
static const double NEAR_US = 0.3;

static const struct {
    const char *name;
    size_t bytes;
    int ranks;
    limit_kind kind;
    double value;
    const char *other; /* the row for those that need one */
    int apart;
} limits[] = {
    {"stream-barrier", 0, 2, MOST_RATIO, 0.65, NULL, SHARED},
    {"stream-barrier", 0, 2, MOST_US, 3.2, NULL, SHARED},
    {"stream-barrier", 0, 4, MOST_RATIO, 1.0, NULL, SHARED},
    {"stream-barrier", 0, 4, MOST_US, 7.0, NULL, SHARED},
    {"stream-barrier", 0, 8, MOST_RATIO, 1.0, NULL, SHARED},
    {"stream-barrier", 0, 8, MOST_US, 12.0, NULL, SHARED},
    {"sliced-stream-barrier", 0, 2, MOST_US, 8.0, NULL, SHARED},
    {"barrier", 0, 2, MOST_RATIO, 0.35, NULL, SHARED},
    {"put-signal", 1 << 10, 2, MOST_RATIO, 1.0, NULL, SHARED},
    {"put-signal", 1 << 10, 2, MOST_US, 1.15, NULL, SHARED},
    {"put-signal", 64 << 10, 2, MOST_RATIO, 0.7, NULL, SHARED},
    {"message", 8, 2, MOST_US, 0.6, NULL, SHARED},
    {"message", 64, 2, MOST_US, 0.75, NULL, SHARED},
    {"put-1", 16 << 20, 2, LEAST_RATIO, 1.7, NULL, SHARED},
    {"put-16", 256 << 20, 2, LEAST_RATIO, 2.4, NULL, SHARED},
    {"put-all", 256 << 20, 2, LEAST_OF_COPY, 0.90, NULL, SHARED},
    {"put-all", 256 << 20, 2, LEAST_OF_BLOCKS, 1.25, NULL, SHARED},
    {"put-from-odd", 16 << 20, 2, LEAST_RATIO, 5.0, NULL, SHARED},
    {"put-to-odd", 16 << 20, 2, LEAST_RATIO, 5.0, NULL, SHARED},
    {"stream-signal", 1 << 20, 2, MOST_RATIO, 0.7, NULL, SHARED},
    {"fetch-add", 8, 2, MOST_RATIO, 1.0, NULL, SHARED},
    {"start", 256 << 20, 2, MOST_RATIO, 0.2, NULL, SHARED},
    {"finish", 256 << 20, 2, MOST_RATIO, 0.2, NULL, SHARED},
    {"allreduce", 8, 2, MOST_US, 1.1, NULL, SHARED},
    {"allreduce", 64, 2, MOST_US, 1.1, NULL, SHARED},
    {"allreduce", 8, 4, MOST_US, 1.2, NULL, SHARED},
    {"allreduce", 64, 4, MOST_US, 1.2, NULL, SHARED},
    {"allreduce", 8, 8, MOST_US, 1.4, NULL, SHARED},
    {"allreduce", 64, 8, MOST_US, 1.4, NULL, SHARED},
    {"graph-reduce", 8, 2, MOST_US, 2.8, NULL, SHARED},
    {"graph-reduce", 64, 2, MOST_US, 2.8, NULL, SHARED},
    {"graph-reduce", 8, 4, MOST_US, 3.3, NULL, SHARED},
    {"graph-reduce", 64, 4, MOST_US, 3.3, NULL, SHARED},
    {"graph-reduce", 8, 8, MOST_US, 4.6, NULL, SHARED},
    {"graph-reduce", 64, 8, MOST_US, 4.6, NULL, SHARED},
    {"stream-reduce", 8, 2, MOST_US, 5.0, NULL, SHARED},
    {"stream-reduce", 64, 2, MOST_US, 5.0, NULL, SHARED},
    {"stream-reduce", 8, 4, MOST_US, 8.0, NULL, SHARED},
    {"stream-reduce", 64, 4, MOST_US, 8.0, NULL, SHARED},
    {"stream-reduce", 8, 8, MOST_US, 13.0, NULL, SHARED},
    {"stream-reduce", 64, 8, MOST_US, 13.0, NULL, SHARED},
    {"halo-3d", 12 << 20, 2, MOST_OF_ROW, 1.25, "halo-3d-copy", SHARED},
    {"halo-3d", 12 << 20, 2, MOST_RATIO, 0.5, NULL, SHARED},
    {"halo-3d", 12 << 20, 2, MOST_OF_ROW, 0.1, "halo-3d-mpi", SHARED},
    {"halo-x", 4 << 20, 2, MOST_OF_ROW, 3.0, "halo-z", SHARED},
    {"halo-2d", 16 << 10, 2, MOST_US, 6.0, NULL, SHARED},
    {"halo-2d-graph", 16 << 10, 2, MOST_US, 3.0, NULL, SHARED},
    {"halo-2d", 16 << 10, 2, MOST_RATIO, 0.5, NULL, SHARED},
    {"halo-2d", 16 << 10, 2, MOST_OF_ROW, 0.1, "halo-2d-mpi", SHARED},

    {"stream-put", 8, 2, NEAR_ROW, 1.1, "peer-copy", APART},
    {"stream-put", 64 << 10, 2, NEAR_ROW, 1.1, "peer-copy", APART},
    {"stream-put", 1 << 20, 2, NEAR_ROW, 1.1, "peer-copy", APART},
    {"stream-put-bw", 16 << 20, 2, LEAST_OF_ROW, 0.98, "peer-copy-bw", APART},
    {"stream-put-bw", 256 << 20, 2, LEAST_OF_ROW, 0.98, "peer-copy-bw", APART},
    {"put-all", 16 << 20, 2, LEAST_OF_ROW, 0.93, "peer-copy-bw", APART},
    {"put-all", 256 << 20, 2, LEAST_OF_ROW, 0.93, "peer-copy-bw", APART},
    {"both-stream", 16 << 20, 2, LEAST_OF_ROW, 0.98, "both-copy", APART},
    {"both-stream", 256 << 20, 2, LEAST_OF_ROW, 0.98, "both-copy", APART},
    {"both-put", 16 << 20, 2, LEAST_OF_ROW, 0.93, "both-copy", APART},
    {"both-put", 256 << 20, 2, LEAST_OF_ROW, 0.93, "both-copy", APART},
    {"stream-barrier", 0, 2, MOST_RATIO, 0.35, NULL, APART},
    {"barrier", 0, 2, MOST_RATIO, 0.4, NULL, APART},
    {"stream-signal", 1 << 20, 2, MOST_RATIO, 0.4, NULL, APART},
    {"fetch-add", 8, 2, MOST_RATIO, 0.5, NULL, APART},
    {"put-signal", 1 << 10, 2, MOST_RATIO, 0.95, NULL, APART},
    {"put-signal", 8 << 10, 2, MOST_RATIO, 0.6, NULL, APART},
    {"put-signal", 64 << 10, 2, MOST_RATIO, 0.75, NULL, APART},
    {"put-1", 16 << 20, 2, LEAST_RATIO, 1.15, NULL, APART},
    {"get-1", 16 << 20, 2, LEAST_RATIO, 4.0, NULL, APART},
    {"put-16", 256 << 20, 2, LEAST_RATIO, 1.05, NULL, APART},
    {"get-16", 256 << 20, 2, LEAST_RATIO, 2.4, NULL, APART},
    {"start", 256 << 20, 2, MOST_RATIO, 0.1, NULL, APART},
    {"finish", 256 << 20, 2, MOST_RATIO, 0.1, NULL, APART},
    {"message", 8, 2, MOST_US, 0.95, NULL, APART},
    {"allreduce", 8, 2, MOST_US, 1.3, NULL, APART},
    {"allreduce", 64, 2, MOST_US, 1.3, NULL, APART},
    {"graph-reduce", 8, 2, MOST_US, 2.7, NULL, APART},
    {"graph-reduce", 64, 2, MOST_US, 2.7, NULL, APART},
    {"stream-reduce", 8, 2, MOST_US, 5.0, NULL, APART},
    {"stream-reduce", 64, 2, MOST_US, 5.0, NULL, APART},
    {"halo-512", 8 << 20, 2, MOST_RATIO, 0.5, NULL, APART},
};

int peer_limit_count(void) {
    return sizeof limits / sizeof *limits;
}

bool peer_limit_is_apart(int i) {
    return limits[i].apart != 0;
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

/* The median of a row of ours, NaN if there is none. */
static double ours(const char *name, int i, const peer_row *rows, int count) {
    const measure_result *r = peer_find(rows, count, name, limits[i].bytes, limits[i].ranks);
    return r == NULL ? NAN : r->value[PEER_OURS].median;
}

/* A figure to another one, or as far above the limit as it is above the microseconds that are allowed in its place. */
static double near(double value, double other, double most) {
    const double ratio = value / other;
    return value <= other + NEAR_US && ratio > most ? most : ratio;
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
    case MOST_OF_ROW:
        return r->value[PEER_OURS].median / ours(limits[i].other, i, rows, count);
    case LEAST_OF_ROW:
        return best(i, rows, count) / ours(limits[i].other, i, rows, count);
    case NEAR_ROW:
        return near(r->value[PEER_OURS].median, ours(limits[i].other, i, rows, count), limits[i].value);
    case LEAST_OF_COPY:
        break;
    }
    return best(i, rows, count) / ours("copy", i, rows, count);
}

peer_verdict peer_limit_check(int i, const peer_row *rows, int count) {
    peer_verdict verdict = {.measured = measured(i, rows, count)};
    char bytes[32] = "";
    if (limits[i].bytes > 0)
        text_bytes(bytes, sizeof bytes, limits[i].bytes);
    text_format(verdict.what, sizeof verdict.what, "%s%s%s, %d ranks", limits[i].name, limits[i].bytes > 0 ? ", " : "",
                bytes, limits[i].ranks);
    const limit_kind kind = limits[i].kind;
    const bool most = kind == MOST_US || kind == MOST_RATIO || kind == MOST_OF_ROW || kind == NEAR_ROW;
    if (kind == MOST_US)
        text_format(verdict.limit, sizeof verdict.limit, "at most %g us", limits[i].value);
    else
        text_format(verdict.limit, sizeof verdict.limit, "%s %g x %s", most ? "at most" : "at least", limits[i].value,
                    kind == LEAST_OF_COPY     ? "cuMemcpyAsync"
                    : kind == LEAST_OF_BLOCKS ? "NVSHMEM on 128 blocks"
                    : limits[i].other != NULL ? limits[i].other
                                              : "NVSHMEM");
    if (!isfinite(verdict.measured))
        verdict.outcome = PEER_NO_FIGURE;
    else if (most ? verdict.measured <= limits[i].value : verdict.measured >= limits[i].value)
        verdict.outcome = PEER_KEPT;
    else
        verdict.outcome = PEER_BROKEN;
    return verdict;
}
