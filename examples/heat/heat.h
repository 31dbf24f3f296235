/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * heat: conduction of heat on a square, solved implicitly by conjugate gradients, spread over the ranks of a job.
 *
 * What is to be solved says a deck (deck.h). The square is cut into one block of cells per rank. The course of the
 * solution (problem.c, solver.c) is one code. Where the fields are and who sweeps over them is behind `struct space`:
 * the processor (space_host.c) or a GPU (space_cuda.cu). How the ranks communicate is behind `struct comm`: by windows
 * (comm_peerwin.c), or by messages (comm_mpi.c; comm_staged.c for fields on a GPU).
 */
#ifndef HEAT_H
#define HEAT_H

#include <math.h>
#include <peerwin/peerwin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "deck.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------- options.c */

enum graph { GRAPH_AUTO, GRAPH_YES, GRAPH_NO };

struct options {
    const char *file;  /* input deck, NULL = the benchmark */
    struct deck deck;  /* what is in it, with what the command line says instead */
    bool cuda;         /* fields and sweeps on the GPU */
    enum graph graph;  /* whether iterations become a CUDA graph */
    bool mpi;          /* communicate by messages, not windows */
    int compare;       /* runs each way, interleaved, 0 = do not compare */
    bool help;         /* print the usage and do nothing else */
    int n, steps;      /* what the command line says, 0 = nothing */
    bool csv;          /* the same */
    const char *image; /* the same, NULL = nothing */
};

/* True if argv is fine. Otherwise `problem` says what is wrong with it. The deck is not read yet. */
bool options_parse(int argc, char **argv, struct options *options_out, char *problem, size_t problem_size);

/* Reads the deck on rank 0, for all. False on every rank, with the reason in `problem`, if there is something wrong. */
bool options_load(struct options *options, char *problem, size_t problem_size);
void options_usage(void);

/* ------------------------------------------------------------------------------------------------ block.c */

enum side { WEST, EAST, SOUTH, NORTH, NUM_SIDES };

/*
 * The cells of one rank, and where they lie in memory: row after row, south to north, with one ghost cell on every
 * side. Rows begin on a cache line.
 */
struct block {
    int n;                    /* cells per direction of the whole square */
    int rank;                 /* whose block this is */
    int columns, rows;        /* the grid of ranks */
    int x0, y0;               /* first cell, counted in the whole square */
    int nx, ny;               /* cells of this block */
    ptrdiff_t pitch;          /* doubles from a cell to its northern neighbour */
    int neighbour[NUM_SIDES]; /* ranks, MPI_PROC_NULL at the walls */
};

enum { ROW_START = 8 }; /* doubles before cell 0 of a row; the last of them is the western ghost */

/* Where cell (i, j) of the block is in a field, -1 <= i <= nx, -1 <= j <= ny. */
static inline ptrdiff_t cell(const struct block *b, int i, int j) {
    return ((ptrdiff_t)j + 1) * b->pitch + ROW_START + i;
}

/* The block of `rank` out of `size`; false if there are more ranks than cells in a direction. */
bool block_make(int n, int rank, int size, struct block *block_out);

/* Doubles from one field to the next in memory. */
size_t block_field_stride(const struct block *b);

/* Ordinary memory for that many doubles, zeroed, because ghosts at the walls stay 0. Ended by free(). */
double *fields_allocate(size_t count);

/* Column i of a field to or from contiguous memory. */
void block_pack_column(const struct block *b, const double *field, int i, double *column);
void block_unpack_column(const struct block *b, double *field, int i, const double *column);

/* The cells of a field, ghosts left out, to contiguous memory. */
void block_copy_cells(const struct block *b, const double *field, double *cells);

/* ----------------------------------------------------------------------------------------------- solver.c */

#define TOLERANCE 1e-15 /* of the residual's norm */
enum { MAX_ITERATIONS = 10000 };

/* What a sweep adds up: r.r and r.Ar, of the residual that it leaves behind. */
enum { SUM_RR, SUM_RAR, NUM_SUMS };

/* An iteration of conjugate gradients, and what the next one takes over from it. */
struct course {
    double rr;          /* r.r at its beginning */
    double alpha, beta; /* p = r + beta p, u += alpha p */
};

#if defined(__CUDACC__)
#define HEAT_ANYWHERE __host__ __device__ static inline
#else
#define HEAT_ANYWHERE static inline
#endif

/* Before the first iteration: its beta becomes 0. */
HEAT_ANYWHERE struct course course_start(void) {
    const struct course start = {HUGE_VAL, 1, 0};

    return start;
}

/* The next iteration; the sums are those over all ranks. */
HEAT_ANYWHERE struct course course_next(struct course before, double rr, double rar) {
    const double beta = rr / before.rr;
    const struct course next = {rr, rr / (rar - beta * rr / before.alpha), beta};

    return next;
}

/* ----------------------------------------------------------------------------- space_host.c, space_cuda.cu */

struct problem;
struct comm;
struct progress;

/*
 * Where the fields are, and the sweeps over them. A sweep may still be under way when its function returns; what comes
 * later in the stream begins after it. Some sweeps add something up over the block: `sums` waits for the latest of
 * them.
 */
struct space {
    const char *name;
    bool on_host;          /* the program itself may load and store */
    enum graph graph;      /* what is wanted where iterations are work for a stream */
    peerwin_stream stream; /* what the sweeps are in; NULL on the host */

    /* Zeroed memory for `count` doubles, NULL if there is none. */
    double *(*allocate)(struct space *space, size_t count);
    void (*release)(struct space *space, double *memory);
    /* From host memory, done when it returns. NULL on the host. */
    void (*store)(struct space *space, double *to, const double *from, size_t count);

    void (*set_u)(struct problem *problem);      /* u = energy * density */
    void (*set_energy)(struct problem *problem); /* and back */
    /* r = u - A u. (The right-hand side is the starting guess itself.) */
    void (*residual)(struct problem *problem);
    /* w = A r; adds up r.r and r.w. */
    void (*multiply)(struct problem *problem);
    /* The ghosts of w have come: what they mean for those of r. Then they are not needed any more. */
    void (*take_ghosts)(struct problem *problem, const struct course *course);
    /* An iteration: p = r + beta p, s = w + beta s, u += alpha p, r -= alpha s, w = A r; adds up r.r and r.w. */
    void (*sweep)(struct problem *problem, const struct course *course);
    /* Adds up density * u, as the first of the sums. */
    void (*total)(struct problem *problem);
    void (*sums)(struct problem *problem, double sums_out[NUM_SUMS]);

    /* Solves without the program between iterations, and what is kept for that; NULL on the host. */
    int (*solve)(struct problem *problem, struct comm *comm, struct progress *progress);
    void (*forget)(struct problem *problem);
    const char *(*way)(const struct problem *problem); /* for people */

    void (*wait)(struct space *space); /* until all sweeps have ended */
    void (*close)(struct space *space);
};

struct space *space_host_open(void);

/* The GPU of this rank: those of a node in turn. NULL on every rank if one has none; it has said why. */
struct space *space_cuda_open(void);

/* Whether this build can use GPUs. */
bool space_cuda_available(void);

/* -------------------------------------------------------------- comm_peerwin.c, comm_mpi.c, comm_staged.c */

/* The fields whose edges other ranks need. They live in memory that belongs to the communication. */
enum shared { SHARED_U, SHARED_R, SHARED_W, SHARED_NEXT_W, NUM_SHARED };

/*
 * How ranks communicate. Every function is collective. The edges of a shared field become the ghosts of the
 * neighbours between `start` and `finish`, which come in pairs; ghosts at the walls stay 0.
 */
struct comm {
    const char *name;
    double *shared[NUM_SHARED];

    /* Whether start, finish and release are work for the space's stream, and the sums in memory of the GPU. */
    bool in_stream;
    /* Set while they become part of a graph. What cannot be is left out, and said here. */
    bool capturing;
    char refusal[300];

    /* Adds up *value over all ranks. */
    void (*add)(struct comm *comm, double *value);
    /* The edges of a shared field leave. */
    void (*start)(struct comm *comm, enum shared field);
    /* Adds up the sums over all ranks, if there are some; then the ghosts are there for the next sweep. */
    void (*finish)(struct comm *comm, enum shared field, double *sums);
    /* The ghosts have been read, and may be replaced. */
    void (*release)(struct comm *comm, enum shared field);
    /* Until what has been given to the stream is done, and all is well. `check` asks only that; in_stream ones have it.
     */
    void (*settle)(struct comm *comm);
    void (*check)(struct comm *comm);
    /* Rank 0 gets the cells of u of the block `from`, ghosts left out. */
    void (*collect)(struct comm *comm, const struct block *from, double *cells);
    void (*close)(struct comm *comm);
};

/* NULL on every rank if it fails on one; rank 0 has said why. */
struct comm *comm_peerwin_open(const struct block *block, const struct space *space);
struct comm *comm_mpi_open(const struct block *block, const struct space *space);
struct comm *comm_staged_open(const struct block *block, const struct space *space);

/* By windows or by messages, for fields of this space. */
struct comm *comm_open(bool mpi, const struct block *block, const struct space *space);

/* True if `mine` is true on all ranks. */
bool agree(bool mine);

/* ---------------------------------------------------------------------------------------------- problem.c */

/* Fields of a GPU come in twos where a sweep reads what others still need: [0] first, then by turns. */
struct problem {
    const struct deck *deck;
    struct block block;
    struct space *space;
    double dx;
    double *memory; /* holds all fields but those that are comm's */
    double *given;  /* on the host: half, density and energy as they are at the beginning */
    double *u, *p, *r[2], *s[2], *w[2];
    double *half; /* what a cell adds to the conductivity of each of its faces, times dt/dx^2 */
    double *density, *energy;
    double sums[NUM_SUMS];   /* on the host: what the latest sweep has added up */
    int turn;                /* which of two the next sweep reads; on the host there is but one of each */
    struct batches *batches; /* what space->solve keeps */
};

/* Allocates the fields and sets density, energy and conductivities. False if this rank is out of memory. */
bool problem_init(struct problem *problem, const struct deck *deck, const struct block *block, struct space *space,
                  struct comm *comm);
void problem_free(struct problem *problem);

/* Back to the beginning. */
void problem_reset(struct problem *problem);

/* This rank's part of the result: the sum of dx * dx * density * u. */
double problem_total(struct problem *problem);

/* The density of a cell of the whole square. */
double problem_density(const struct deck *deck, int x, int y);

/* The published result for this deck; false if there is none. */
bool problem_published(const struct deck *deck, double *result_out);

enum { LISTED_STEPS = 20 };

struct run {
    long iterations;           /* in all steps */
    int steps;                 /* so far */
    int of_step[LISTED_STEPS]; /* the iterations of each, if there are so few */
    int unconverged;           /* steps that ended at the limit of iterations */
    double seconds;            /* wall time of all steps */
};

/* Rank 0 says how far a long run is, every two seconds. */
struct progress {
    bool silent;
    int step, steps;
    double started, said;
};

void progress_begin(struct progress *progress, const struct block *block, int steps);
void progress_tick(struct progress *progress, int iteration, double norm);

/* The ghosts of a field, and nothing else. */
void exchange(struct comm *comm, enum shared field);

/* One time step; adds to `run`. */
void solver_step(struct problem *problem, struct comm *comm, struct progress *progress, struct run *run);

/* ----------------------------------------------------------------------------------------------- report.c */

/* What is known of a run when its last step is done. */
struct outcome {
    const struct options *options;
    const struct block *block;
    const char *comm;
    const char *way; /* in which iterations are given to a GPU, "" where the program itself does each */
    struct run run;
    double result;
    bool published; /* there is a published result to compare with */
    double expected, difference;
    bool passed;
};

/* Fills in the comparison with the published result. */
void outcome_judge(struct outcome *outcome);
double outcome_microseconds(const struct outcome *outcome); /* per iteration */
void outcome_print_header(void);
void outcome_print_csv(const struct outcome *outcome);
void outcome_print_text(const struct outcome *outcome);

/* ---------------------------------------------------------------------------------------------- compare.c */

/* Both ways of communicating in one job, step by step in turn; prints both times. True if all results are right. */
bool compare(const struct block *block, struct space *space, const struct options *options);

/* ---------------------------------------------------------------------------------------------- picture.c */

/* Whether this build can write pictures. */
bool picture_available(void);

/*
 * Collects u on rank 0 and writes it to `file` as a PNG, colours by the logarithm of u. Collective; `file` is for rank
 * 0 only. False on every rank, after a message, if it could not be written.
 */
bool picture_write(FILE *file, const struct deck *deck, const struct block *block, struct comm *comm);

#ifdef __cplusplus
}
#endif

#endif
