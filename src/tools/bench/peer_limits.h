/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What peerwin promises beside NVSHMEM: a list for ranks that share an H200 under MPS, and one for ranks that have one
 * each, linked by NVLink; held against what was measured.
 */
#ifndef PEERWIN_BENCH_PEER_LIMITS_H
#define PEERWIN_BENCH_PEER_LIMITS_H

#include "peer_rows.h"

typedef enum { PEER_KEPT = 0, PEER_BROKEN = 1, PEER_NO_FIGURE = 2 } peer_outcome;

typedef struct {
    char what[96];   /* "put-1, 16 MiB, 2 ranks" */
    char limit[48];  /* "at least 1.7 x NVSHMEM" */
    double measured; /* NaN if there is none */
    peer_outcome outcome;
} peer_verdict;

/** Of both lists. */
int peer_limit_count(void);

/** Whether limit number `i` is for ranks on devices of their own. */
bool peer_limit_is_apart(int i);

/** The row and the number of ranks that limit number `i` is about. */
const char *peer_limit_row(int i, int *ranks_out);

/** Limit number `i` held against the rows. */
peer_verdict peer_limit_check(int i, const peer_row *rows, int count);

#endif
