/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kinds of memory handle, each proved or not: a context that may use this kind only is made, which creates,
 * exports, imports, writes and verifies between all pairs of ranks, and is asked what came of it. What a driver
 * announces is no proof.
 */
#ifndef PEERWIN_INFO_KINDS_H
#define PEERWIN_INFO_KINDS_H

#include "pairs.h"

typedef struct {
    const char *name;
    bool tried;
    pair_matrix *pairs; /* NULL if there is no context of this kind, for `reason` */
    char reason[1024];
} kind_record;

enum { KINDS = 4 };

/** Collective over MPI_COMM_WORLD. KINDS records on rank 0, NULL elsewhere and if `ctx` is not in CUDA space. */
kind_record *kinds_collect(const peerwin_ctx *ctx);
void kinds_free(kind_record *records);

void kinds_print(const kind_record *records);

/** The list `kinds`; empty if `records` is NULL. */
void kinds_write(const kind_record *records, json *j);

#endif
