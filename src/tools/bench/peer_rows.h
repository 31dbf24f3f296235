/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the sides of --peers have measured, run by run, and put side by side. A side's file has lines
 *
 *   version TEXT | device TEXT | cpus TEXT | at NAME BYTES | row NAME BYTES UNIT VALUE | missing NAME BYTES: REASON |
 * done
 *
 * with UNIT us or MB/s. "at" says what begins, so that it is known what a run ended in; "done" comes last, if the side
 * came to its end. Other lines are not looked at.
 */
#ifndef PEERWIN_BENCH_PEER_ROWS_H
#define PEERWIN_BENCH_PEER_ROWS_H

#include "measure.h"

#include <stdio.h>

enum {
    PEER_OURS = 0,
    PEER_THEIRS = 1,
    PEER_NCCLS = 2,
    PEER_SIDES = 3,
    PEER_MAX_ROUNDS = 99,
    PEER_NAME = 48,
    PEER_TEXT = 256,
    PEER_MOST_MISSING = 48,
    PEER_MOST_PLACES = 24
};

/** One figure of one run. */
typedef struct {
    char name[PEER_NAME];
    size_t bytes;
    int ranks;
    bool bandwidth;
    int side;
    int round;
    double value;
} peer_sample;

typedef struct {
    peer_sample *samples;
    int count, room;
    char version[PEER_SIDES][PEER_TEXT];
    char device[PEER_TEXT];
    char at[PEER_NAME]; /* the row in which the run ended that was read last, "" = in none */
    char missing[PEER_SIDES][PEER_MOST_MISSING][PEER_TEXT]; /* "NAME, RANKS ranks: REASON", each once */
    int num_missing[PEER_SIDES];
    char places[PEER_SIDES][PEER_MOST_PLACES][PEER_TEXT]; /* "RANKS ranks: CPUs of each", each once */
    int num_places[PEER_SIDES];
} peer_table;

/**
 * Takes in the file of one run; names get `prefix` in front. True if the run came to its end. What is no number, and
 * what is not above 0, is left out.
 */
bool peer_table_read(peer_table *table, FILE *file, const char *prefix, int ranks, int side, int round);

void peer_table_free(peer_table *table);

/** One row: the names point into the table, which has to outlive it. */
typedef struct {
    measure_result result; /* ways: the sides; one that has no figure has a median of NaN */
} peer_row;

/** All rows, in the order in which they were first seen, by number of ranks; free() them. NULL if there are none. */
peer_row *peer_table_merge(const peer_table *table, int *count_out);

/** The row with this name, or NULL. */
const measure_result *peer_find(const peer_row *rows, int count, const char *name, size_t bytes, int ranks);

#endif
