/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The course of a run, and its verdict. Whatever one rank decides alone (options, files, memory, the comparison) is
 * agreed before anyone acts on it, so that all ranks end alike.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heat.h"

enum { STATUS_FINE = EXIT_SUCCESS, STATUS_FAILED = EXIT_FAILURE, STATUS_USAGE = 2 };

static const double ACCEPTED_DIFFERENCE = 1e-8;

bool agree(bool mine) {
    int all = mine;

    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return all != 0;
}

/* What is known when the last step is done. */
struct outcome {
    const struct options *options;
    const struct block *block;
    const char *comm;
    struct run run;
    double result;
    bool published; /* there is a published result to compare with */
    double expected, difference;
    bool passed;
};

static void judge(struct outcome *outcome) {
    outcome->published = problem_published(outcome->options->n, outcome->options->steps, &outcome->expected);
    outcome->difference = 0;
    if (outcome->published)
        outcome->difference = fabs(outcome->result - outcome->expected) / fabs(outcome->expected);
    /* written so that a result that is not a number fails */
    outcome->passed = isfinite(outcome->result) && outcome->difference <= ACCEPTED_DIFFERENCE;
}

static double microseconds(const struct run *run) {
    return run->iterations > 0 ? 1e6 * run->seconds / (double)run->iterations : 0;
}

static void print_csv(const struct outcome *o) {
    printf("n,steps,ranks,comm,iterations,seconds,us_per_iteration,result,published,relative_difference,verdict\n");
    printf("%d,%d,%d,%s,%ld,%.6f,%.3f,%.15g,", o->options->n, o->options->steps, o->block->columns * o->block->rows,
           o->comm, o->run.iterations, o->run.seconds, microseconds(&o->run), o->result);
    if (o->published)
        printf("%.15g,%.3e,", o->expected, o->difference);
    else
        printf(",,");
    printf("%s\n", !o->passed ? "FAILED" : o->published ? "PASSED" : "UNCHECKED");
}

static void print_text(const struct outcome *o) {
    const int columns = o->block->columns, rows = o->block->rows;

    printf("heat: %d x %d cells, %d steps, %d ranks (%d x %d), comm %s\n", o->options->n, o->options->n,
           o->options->steps, columns * rows, columns, rows, o->comm);
    printf("heat: %ld iterations in %.3f s, %.1f us each\n", o->run.iterations, o->run.seconds, microseconds(&o->run));
    if (o->run.unconverged > 0)
        printf("heat: %d of %d steps stopped at the limit of iterations\n", o->run.unconverged, o->options->steps);
    if (o->options->image != NULL)
        printf("heat: picture in %s\n", o->options->image);
    if (o->published)
        printf("heat: result %.15g, published %.15g, relative difference %.1e: %s\n", o->result, o->expected,
               o->difference, o->passed ? "PASSED" : "FAILED");
    else
        printf("heat: result %.15g, nothing published for this size%s\n", o->result, o->passed ? "" : ": FAILED");
}

/* Solves, draws and reports. The fields exist already. */
static int simulate(struct problem *problem, struct comm *comm, const struct options *options, FILE *image) {
    struct outcome outcome = {.options = options, .block = &problem->block, .comm = comm->name};
    int status = STATUS_FINE;

    solver_run(problem, comm, options->steps, &outcome.run);
    outcome.result = problem_total(problem);
    comm->sum(comm, &outcome.result);
    judge(&outcome);
    if (options->image != NULL && !picture_write(image, &problem->block, comm))
        status = STATUS_FAILED;
    if (!outcome.passed)
        status = STATUS_FAILED;
    if (problem->block.rank == 0 && options->csv)
        print_csv(&outcome);
    else if (problem->block.rank == 0)
        print_text(&outcome);
    MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return status;
}

/* Opens what a run needs, runs, and closes it. */
static int run(const struct block *block, const struct options *options, FILE *image) {
    struct comm *comm = options->mpi ? comm_mpi_open(block) : comm_peerwin_open(block);
    struct problem problem;
    int status = STATUS_FAILED;

    if (comm == NULL)
        return STATUS_FAILED;
    if (agree(problem_init(&problem, block, comm)))
        status = simulate(&problem, comm, options, image);
    else if (block->rank == 0)
        fprintf(stderr, "heat: a rank is out of memory\n");
    problem_free(&problem);
    comm->close(comm);
    return status;
}

/* The picture's file is opened before the run, not to fail after it. */
static int run_with_image(const struct block *block, const struct options *options) {
    FILE *image = NULL;
    int status;

    if (options->image != NULL && block->rank == 0) {
        image = fopen(options->image, "wb");
        if (image == NULL)
            fprintf(stderr, "heat: %s: %s\n", options->image, strerror(errno));
    }
    if (!agree(options->image == NULL || block->rank != 0 || image != NULL))
        return STATUS_FAILED;
    status = run(block, options, image);
    if (image != NULL && fclose(image) != 0) {
        fprintf(stderr, "heat: %s: %s\n", options->image, strerror(errno));
        status = STATUS_FAILED;
    }
    return agree(status == STATUS_FINE) ? STATUS_FINE : STATUS_FAILED;
}

static int heat(int argc, char **argv) {
    struct options options;
    struct block block;
    char problem[200];
    int rank, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!options_parse(argc, argv, &options, problem, sizeof(problem))) {
        if (rank == 0)
            fprintf(stderr, "heat: %s (--help lists the options)\n", problem);
        return STATUS_USAGE;
    }
    if (options.help) {
        if (rank == 0)
            options_usage();
        return STATUS_FINE;
    }
    if (!block_make(options.n, rank, size, &block)) {
        if (rank == 0)
            fprintf(stderr, "heat: %d x %d cells cannot be shared by %d ranks\n", options.n, options.n, size);
        return STATUS_USAGE;
    }
    return run_with_image(&block, &options);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const int status = heat(argc, argv);
    MPI_Finalize();
    return status;
}
