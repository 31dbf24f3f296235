/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * stencil1d: a rod that cools down, in time steps that run inside one kernel. The kernel stores its edges straight into
 * the neighbours' windows and signals them; the host only starts it.
 *
 * Each step adds factor * (left - 2 * middle + right) to a cell. The rod begins as a sine that is 0 at both walls, and
 * such a wave keeps its form: a step multiplies it by a number that is known. So the program knows the right answer,
 * whatever the number of ranks, and says whether it got it.
 *
 *     mpirun -n 4 stencil1d [--space host|cuda|auto] [--cells N] [--steps S]
 */
#include "stencil1d.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAVES = 3 };
static const double FACTOR = 0.25, PI = 3.14159265358979323846, TOLERANCE = 1e-11;

typedef struct {
    peerwin_space space;
    long cells; /* of all ranks */
    long steps;
} options;

/* A rank that cannot go on ends the job, so that no other waits for it. */
static void stop(const char *what, const char *why) {
    fprintf(stderr, "stencil1d: %s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    exit(EXIT_FAILURE);
}

static void must(peerwin_status status, const char *call) {
    if (status != PEERWIN_OK)
        stop(call, *peerwin_last_error() ? peerwin_last_error() : peerwin_strerror(status));
}

static long number(const char *text, const char *option) {
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 1)
        stop(option, "a positive number is wanted");
    return value;
}

static options read_options(int argc, char **argv) {
    options o = {PEERWIN_SPACE_AUTO, 240, 500};
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--cells") == 0)
            o.cells = number(value, "--cells");
        else if (strcmp(argv[i], "--steps") == 0)
            o.steps = number(value, "--steps");
        else if (strcmp(argv[i], "--space") == 0 && strcmp(value, "host") == 0)
            o.space = PEERWIN_SPACE_HOST;
        else if (strcmp(argv[i], "--space") == 0 && strcmp(value, "cuda") == 0)
            o.space = PEERWIN_SPACE_CUDA;
        else if (strcmp(argv[i], "--space") != 0 || strcmp(value, "auto") != 0)
            stop(argv[i], "usage: stencil1d [--space host|cuda|auto] [--cells N] [--steps S]");
    }
    return o;
}

/* The first cell of a rank, counted from 0; that of rank `size` is the number of cells. */
static long first_cell(long cells, int rank, int size) {
    return cells / size * rank + (rank < cells % size ? rank : cells % size);
}

static long cells_of(long cells, int rank, int size) {
    return first_cell(cells, rank + 1, size) - first_cell(cells, rank, size);
}

/* What cell `index` of the rod, counted from 0, is after `steps` steps. */
static double right_answer(const options *o, long index, long steps) {
    const double angle = WAVES * PI / (double)(o->cells + 1);
    const double per_step = 1 - 4 * FACTOR * sin(angle / 2) * sin(angle / 2);
    return sin(angle * (double)(index + 1)) * pow(per_step, (double)steps);
}

static rod describe(const options *o, int rank, int size) {
    rod r = {.left = rank > 0 ? rank - 1 : MPI_PROC_NULL,
             .right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL,
             .factor = FACTOR,
             .steps = (uint64_t)o->steps};
    r.cells = (size_t)cells_of(o->cells, rank, size);
    r.left_cells = rank > 0 ? (size_t)cells_of(o->cells, rank - 1, size) : 0;
    r.right_cells = rank < size - 1 ? (size_t)cells_of(o->cells, rank + 1, size) : 0;
    return r;
}

/* The rod at step 0, with its ghosts, in both places: beyond the walls it is 0 for ever. */
static void begin(const options *o, const rod *r, int size, void *segment, peerwin_space space) {
    const int rank = r->view.rank;
    const long first = first_cell(o->cells, rank, size) - 1;
    double *both = calloc(2 * (r->cells + 2), sizeof *both);
    if (!both)
        stop("calloc", "no memory");
    for (size_t i = 0; i < r->cells + 2; i++) {
        const long index = first + (long)i;
        both[i] = index < 0 || index >= o->cells ? 0 : right_answer(o, index, 0);
    }
    if (store_cells(space, segment, both, 2 * (r->cells + 2)) != 0)
        stop("the rod", "it cannot be stored");
    free(both);
    MPI_Barrier(MPI_COMM_WORLD); /* nobody sends to a rank that has not begun */
}

static double largest_error(const options *o, const rod *r, int size, const char *segment, peerwin_space space) {
    const long first = first_cell(o->cells, r->view.rank, size);
    double *cells = malloc(r->cells * sizeof *cells);
    double worst = 0;
    if (!cells || load_cells(space, cells, segment + place_of(r->cells, r->steps, 1), r->cells) != 0)
        stop("the rod", "it cannot be read");
    for (size_t i = 0; i < r->cells; i++) {
        const double error = fabs(cells[i] - right_answer(o, first + (long)i, o->steps));
        if (!(error <= worst))
            worst = isnan(error) ? INFINITY : error;
    }
    free(cells);
    MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return worst;
}

static int node_rank(void) {
    MPI_Comm node;
    int rank = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_free(&node);
    return rank;
}

/* Makes the window, runs the rod in it, and says whether the answer is right. */
static int solve(peerwin_ctx *ctx, const options *o) {
    const int rank = peerwin_rank(ctx), size = peerwin_size(ctx);
    const peerwin_space space = peerwin_get_space(ctx);
    peerwin_win *win = NULL;
    peerwin_status status = PEERWIN_OK;
    rod r = describe(o, rank, size);

    must(peerwin_win_alloc(ctx, 2 * (r.cells + 2) * sizeof(double), NULL, &win), "peerwin_win_alloc");
    must(peerwin_win_view(win, &r.view), "peerwin_win_view");
    begin(o, &r, size, peerwin_win_ptr(win, rank), space);
    const double start = MPI_Wtime();
    if (run_rod(ctx, &r, &status) != 0)
        stop("the steps", "they cannot be run");
    must(status, "the steps");
    const double seconds = MPI_Wtime() - start;
    const double error = largest_error(o, &r, size, peerwin_win_ptr(win, rank), space);
    if (rank == 0)
        printf("stencil1d: %ld cells, %ld steps, %d ranks, %s memory: %.2f us a step, error %.1e: %s\n", o->cells,
               o->steps, size, space == PEERWIN_SPACE_CUDA ? "GPU" : "host", 1e6 * seconds / (double)o->steps, error,
               error < TOLERANCE ? "PASSED" : "FAILED");
    must(peerwin_win_free(win), "peerwin_win_free");
    return error < TOLERANCE;
}

int main(int argc, char **argv) {
    peerwin_config config;
    peerwin_ctx *ctx = NULL;

    MPI_Init(&argc, &argv);
    const options o = read_options(argc, argv);
    if (o.space != PEERWIN_SPACE_HOST)
        choose_gpu(node_rank());
    peerwin_config_init(&config);
    config.space = o.space;
    must(peerwin_init(MPI_COMM_WORLD, &config, &ctx), "peerwin_init");
    if (o.cells < peerwin_size(ctx))
        stop("--cells", "at least one for each rank is wanted");
    const int passed = solve(ctx, &o);
    must(peerwin_finalize(ctx), "peerwin_finalize");
    MPI_Finalize();
    return passed ? EXIT_SUCCESS : EXIT_FAILURE;
}
