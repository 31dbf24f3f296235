/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * stencil3d: several fields on a periodic block of cells, each step a weighted mean over 7 or 27 cells, spread over the
 * ranks of a job in three directions.
 *
 * Every field is there twice, now and next, by turns. A step sends the faces of all fields, sweeps over the inside,
 * waits for the ghosts, and sweeps over the shell (run.c). Where the fields are and who sweeps is behind `struct
 * space`: the processor (space_host.c) or a GPU (space_cuda.cu). How ghosts travel is behind `struct comm`: by halo
 * plans (comm_peerwin.c), or by messages (comm_mpi.c; comm_packed.cu for fields on a GPU).
 */
#ifndef STENCIL3D_H
#define STENCIL3D_H

#include <peerwin/peerwin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Direction 2 is contiguous in memory, direction 0 the one with the longest steps. */
enum { DIMS = 3, BUFFERS = 2 };

/* ---------------------------------------------------------------------------------------------- options.c */

/* How ghosts travel: by halo plans; by messages; by messages that never see GPU memory. */
enum way { WAY_PEERWIN, WAY_MPI, WAY_STAGED, NUM_WAYS };

struct options {
    int size[DIMS]; /* cells of all ranks, or of each */
    bool local;     /* of each */
    int grid[DIMS]; /* ranks in each direction, 0 = as MPI likes */
    int points;     /* 7 or 27 */
    int fields;
    int steps;
    int rounds; /* how often all is run, to take medians */
    bool cuda;  /* fields and sweeps on the GPU */
    bool way[NUM_WAYS];
    bool overlap; /* the inside is swept while ghosts travel */
    bool graphs;  /* on a GPU, steps run as CUDA graphs where all that they hold can be captured */
    bool csv;
    bool help;
};

/* True if argv is fine. Otherwise `problem` says what is wrong with it. */
bool options_parse(int argc, char **argv, struct options *options_out, char *problem, size_t problem_size);
void options_usage(void);

/* ------------------------------------------------------------------------------------------------ block.c */

enum { DIRECTIONS = 27, CENTRE = 13 }; /* to the cells around one; direction 26 - d is opposite to d */

/* The cells of one rank, and where they lie in memory: fields with one ghost all around, one after the other. */
struct block {
    MPI_Comm cart;
    int rank, ranks;
    int grid[DIMS];  /* ranks in each direction */
    int size[DIMS];  /* cells of all ranks */
    int first[DIMS]; /* my first cell, counted in all */
    int cells[DIMS]; /* mine, 1 or more in each direction */
    int fields, points;
    ptrdiff_t row, plane; /* doubles to the next row, and to the next plane */
    size_t field, buffer; /* doubles to the next field, and to the other place of all fields */
    int neighbour[DIRECTIONS];
};

struct box {
    int first[DIMS], cells[DIMS];
};

enum { ROW_START = 8 }; /* doubles before cell 0 of a row; the last of them is a ghost. Rows begin on a cache line. */

/* Where a cell of the block is in a field, from -1 to cells[d] in each direction. */
static inline ptrdiff_t cell(const struct block *b, int i, int j, int k) {
    return ((ptrdiff_t)i + 1) * b->plane + ((ptrdiff_t)j + 1) * b->row + ROW_START + k;
}

static inline ptrdiff_t first_cell(const struct block *b, const struct box *box) {
    return cell(b, box->first[0], box->first[1], box->first[2]);
}

static inline size_t cells_of(const struct box *box) {
    return (size_t)box->cells[0] * (size_t)box->cells[1] * (size_t)box->cells[2];
}

/* Makes the Cartesian communicator and my block; collective. False, with the reason, if the cells do not suffice. */
bool block_make(const struct options *options, struct block *block_out, char *problem, size_t problem_size);
void block_free(struct block *block);

/* Whether the stencil needs ghosts from this direction: the six of faces, or all but the centre. */
bool block_needs(const struct block *b, int direction);

/* My cells that are the neighbour's ghosts, and my ghosts that are its cells. */
struct box block_edge(const struct block *b, int direction);
struct box block_ghosts(const struct block *b, int direction);

/* All cells; those that need no ghosts; the others as `*count_out` boxes, none where there are none. */
enum { SHELL_BOXES = 2 * DIMS };
struct box block_all(const struct block *b);
struct box block_inside(const struct block *b);
void block_shell(const struct block *b, struct box boxes[SHELL_BOXES], int *count_out);

/* Bytes that an exchange sends from here to other ranks. */
size_t block_bytes(const struct block *b);

/* ----------------------------------------------------------------------------- space_host.c, space_cuda.cu */

/*
 * Where the fields are, and the sweeps over them. On a GPU there are two streams, one of sweeps and one of exchanges;
 * `fork` makes exchanges wait for the sweeps so far, `join` the sweeps for the exchanges. On the host they do nothing.
 */
struct space {
    const char *name;
    bool on_host;
    peerwin_stream stream; /* of exchanges */

    /* Memory for `count` doubles, NULL if there is none. */
    double *(*allocate)(struct space *space, size_t count);
    void (*release)(struct space *space, double *memory);
    /* From and to host memory, done when they return. */
    void (*store)(struct space *space, double *to, const double *from, size_t count);
    void (*load)(struct space *space, double *to, const double *from, size_t count);

    void (*fork)(struct space *space);
    void (*join)(struct space *space);
    /* A step of all fields in these boxes. */
    void (*sweep)(struct space *space, const struct block *block, const double *now, double *next,
                  const struct box *boxes, int count);

    /* Graphs, NULL on the host: what comes between becomes one. NULL if something in it cannot. */
    void (*record)(struct space *space);
    void *(*recorded)(struct space *space);
    void (*replay)(struct space *space, void *graph);
    void (*forget)(struct space *space, void *graph);

    void (*close)(struct space *space);
};

struct space *space_host_open(void);

/* The GPU of this rank: those of a node in turn. NULL on every rank if one has none; it has said why. */
struct space *space_cuda_open(void);

/* Whether this build can use GPUs. */
bool space_cuda_available(void);

/* -------------------------------------------------------------- comm_peerwin.c, comm_mpi.c, comm_packed.cu */

/*
 * How ghosts travel. All fields of a buffer go at once: my edges leave at `start`, and my ghosts are there after
 * `finish`. `release` says that they have been read; only what runs outside of graphs calls it.
 */
struct comm {
    const char *name;
    double *fields; /* in memory that belongs to the communication: BUFFERS times all fields */
    bool graphs;    /* it can be captured */

    bool (*start)(struct comm *comm, int buffer); /* false if a graph cannot hold it: then nothing was done */
    void (*finish)(struct comm *comm, int buffer);
    void (*release)(struct comm *comm, int buffer);
    void (*wait)(struct comm *comm); /* until all that the stream of exchanges was given is done */
    void (*close)(struct comm *comm);
};

/* NULL on every rank if it fails on one; somebody has said why. */
struct comm *comm_open(enum way way, const struct block *block, struct space *space);
struct comm *comm_peerwin_open(const struct block *block, struct space *space);
struct comm *comm_mpi_open(const struct block *block, struct space *space);
struct comm *comm_packed_open(const struct block *block, struct space *space, bool staged);

/* True if `mine` is true on all ranks. */
bool agree(bool mine);

/* ---------------------------------------------------------------------------------------------- problem.c */

/* The fields at the beginning, in buffer 0; ghosts are no numbers until they have come. False without memory. */
bool problem_begin(const struct block *block, struct space *space, double *fields);

struct verdict {
    double error;      /* the largest, over all ranks */
    double wave;       /* what is left of the waves, of which 1 was there */
    uint64_t checksum; /* of all bits of all cells, the same however they are spread */
};

enum judgement { PASSED, FAILED, UNCHECKED };

/* How the fields are after so many steps. Collective; false on every rank without memory. */
bool problem_judge(const struct block *block, struct space *space, const double *fields, int steps,
                   struct verdict *verdict_out);
enum judgement judgement_of(const struct verdict *verdict, int steps);

/* -------------------------------------------------------------------------------------------------- run.c */

/* What can be repeated: whole steps, and each part of them alone. */
enum work { WORK_STEPS, WORK_EXCHANGES, WORK_SWEEPS, NUM_WORKS };

struct run {
    const struct options *options;
    const struct block *block;
    struct space *space;
    struct comm *comm;
    bool graphs;
    void *graph[NUM_WORKS][2]; /* of many turns, and of the rest */
};

/* Makes graphs if they are wanted and can be had. */
void run_open(struct run *run, const struct options *options, const struct block *block, struct space *space,
              struct comm *comm);
void run_close(struct run *run);

/* So many turns, beginning with buffer 0; microseconds for each, of the slowest rank. Collective. */
double run_work(struct run *run, enum work work);

/* ----------------------------------------------------------------------------------------------- report.c */

/* What became of one way. */
struct outcome {
    double *times[NUM_WORKS]; /* microseconds, of each round */
    struct verdict verdict;   /* of the last round that went wrong, else of the last */
    enum judgement judgement;
};

bool outcome_open(struct outcome *outcome, int rounds);
void outcome_close(struct outcome *outcome);
void report_begin(const struct options *options, const struct block *block);
void report(const struct run *run, const struct outcome *outcome);

#ifdef __cplusplus
}
#endif

#endif
