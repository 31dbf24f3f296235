/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line. Rank 0 parses it and broadcasts the result, so that every rank acts on the same decision;
 * the two file names mean something on rank 0 only.
 */
#ifndef PEERWIN_BENCH_OPTIONS_H
#define PEERWIN_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/** What to do after parsing. */
typedef enum { OPTIONS_RUN = 0, OPTIONS_DONE = 1, OPTIONS_BAD = 2 } options_action;

typedef struct {
    options_action action;
    bool cuda;            /* windows in GPU memory */
    bool quick;           /* fewer sizes, shorter batches */
    int repeats;          /* interleaved repetitions of each row */
    unsigned cases;       /* bit i = run case i of the space */
    unsigned kinds;       /* CUDA space: mask of peerwin_handle */
    size_t largest;       /* CUDA space: bytes of the largest transfer, and of windows that are registered */
    double batch_seconds; /* what one batch should last */
    const char *csv;      /* file, "-" = stdout, NULL = none */
    const char *json;     /* the same */
} options;

/** Parses the command line for a run of `ranks` ranks; prints help, list or one message about what is wrong. */
options options_parse(int argc, char **argv, int ranks);

#endif
