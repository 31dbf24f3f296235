/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line. Rank 0 parses it and broadcasts the result, so that every rank acts on the same decision;
 * names of files mean something on rank 0 only.
 */
#ifndef PEERWIN_BENCH_OPTIONS_H
#define PEERWIN_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum { OPTIONS_MAX_RANKS = 9 };

/** What to do after parsing. */
typedef enum { OPTIONS_RUN = 0, OPTIONS_DONE = 1, OPTIONS_BAD = 2 } options_action;

/** Which processors ranks get: where the launcher puts them, a core each, or several cores each (peers_place.c). */
typedef enum { PLACE_NONE = 0, PLACE_CORE = 1, PLACE_SPREAD = 2 } options_place;

/** Blocks whose ghosts are exchanged. */
typedef struct {
    int dims;   /* 1 to 3; 0 = the usual ones */
    int cells;  /* of the inside, in each dimension */
    int depth;  /* of the ghosts, in cells */
    int fields; /* arrays of the same block */
    int elem;   /* bytes of an element */
} options_halo;

typedef struct {
    options_action action;
    bool cuda;            /* windows in GPU memory */
    bool quick;           /* fewer sizes, shorter batches */
    int repeats;          /* interleaved repetitions of each row */
    unsigned cases;       /* bit i = run case i of the space */
    options_halo halo;    /* in place of the usual blocks */
    unsigned kinds;       /* CUDA space: mask of peerwin_handle */
    size_t largest;       /* CUDA space: bytes of the largest transfer, and of windows that are registered */
    double batch_seconds; /* what one batch should last */
    const char *csv;      /* file, "-" = stdout, NULL = none */
    const char *json;     /* the same */
    const char *plot;     /* file that ends in .svg or .png, NULL = none */

    /* Beside NVSHMEM. */
    bool peers;                   /* start both sides and put them side by side; this process is no rank then */
    bool limits;                  /* what is not kept makes the exit status 1 */
    unsigned works;               /* bit i = measure rows of plan_work i */
    const char *only;             /* as given, for the jobs that are started; NULL = all */
    int ranks[OPTIONS_MAX_RANKS]; /* numbers of ranks, ended by 0 */
    options_place place;
    bool placed;          /* it was asked for */
    int seconds;          /* no round begins if it might end later */
    const char *logs;     /* directory */
    const char *mpirun;   /* how jobs are started, NULL = as found when this was built */
    const char *program;  /* in place of the NVSHMEM program, NULL = the one to be built */
    const char *nccl;     /* its library; with --peers NULL = as found, "none" = leave it out */
    const char *peer_run; /* file for the rows of peerwin's side: this process is a rank of that; NULL = it is not */
} options;

/** True if the command line asks for a start of jobs, which is to be done without MPI. */
bool options_ask_for_peers(int argc, char **argv);

/** Parses the command line for a run of `ranks` ranks (0: no job of MPI); prints help, list or one message about what
 * is wrong. */
options options_parse(int argc, char **argv, int ranks);

#endif
