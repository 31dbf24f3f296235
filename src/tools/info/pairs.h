/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The matrix of pairs, and its text. Rank 0 has it; the others have sent it their rows.
 *
 * A pair has a kind (what the matrix shows) and a reason, as the number of a text. In those texts the two ranks of the
 * pair are called "the other rank" and "this rank", so that one text serves many pairs.
 */
#ifndef PEERWIN_INFO_PAIRS_H
#define PEERWIN_INFO_PAIRS_H

#include "json.h"
#include "peerwin/peerwin.h"

typedef struct {
    unsigned char path;
    unsigned char link;
    unsigned char atomics;
} pair_kind;

typedef struct {
    int n;
    pair_kind *kinds; /* n x n: from, to */
    int *reasons;     /* n x n: index in texts, -1 = direct */
    char **texts;
    int num_texts;
} pair_matrix;

/** Collective over MPI_COMM_WORLD. The matrix on rank 0, NULL elsewhere. */
pair_matrix *pairs_collect(const peerwin_ctx *ctx);

pair_matrix *pairs_new(int n);
void pairs_free(pair_matrix *m);

/** Sets one pair; `reason` is the library's, with the numbers of the ranks. */
void pairs_set(pair_matrix *m, int from, int to, pair_kind kind, const char *reason);

/** The matrix, condensed if there are more than 32 ranks, then the reasons. */
void pairs_print(const pair_matrix *m, FILE *file);

/** The reasons alone, each with its pairs; nothing if all pairs are direct. */
void pairs_print_reasons(const pair_matrix *m, FILE *file);

/** The list `pairs`; one member of such a list. */
void pairs_write(const pair_matrix *m, json *j);
void pairs_write_one(const pair_matrix *m, int from, int to, json *j);

#endif
