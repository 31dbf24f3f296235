/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The course of a run. Whatever one rank decides alone (options, files, memory, the comparison) is
 * agreed before anyone acts on it, so that all ranks end alike.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heat.h"

enum { STATUS_FINE = EXIT_SUCCESS, STATUS_FAILED = EXIT_FAILURE, STATUS_USAGE = 2 };

bool agree(bool mine) {
    int all = mine;

    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return all != 0;
}

struct comm *comm_open(bool mpi, const struct block *block, const struct space *space) {
    if (!mpi)
        return comm_peerwin_open(block, space);
    return space->on_host ? comm_mpi_open(block, space) : comm_staged_open(block, space);
}

/* Solves, draws and reports. The fields exist already. */
static int simulate(struct problem *problem, struct comm *comm, const struct options *options, FILE *image) {
    struct outcome outcome = {.options = options, .block = &problem->block, .comm = comm->name};
    struct progress progress;
    int status = STATUS_FINE;

    progress_begin(&progress, &problem->block, options->deck.steps);
    for (int step = 0; step < options->deck.steps; step++)
        solver_step(problem, comm, &progress, &outcome.run);
    outcome.way = comm->in_stream ? problem->space->way(problem) : "";
    outcome.result = problem_total(problem);
    comm->add(comm, &outcome.result);
    outcome_judge(&outcome);
    if (options->deck.image[0] != '\0' && !picture_write(image, problem->deck, &problem->block, comm))
        status = STATUS_FAILED;
    if (!outcome.passed)
        status = STATUS_FAILED;
    if (problem->block.rank == 0 && options->deck.csv) {
        outcome_print_header();
        outcome_print_csv(&outcome);
    } else if (problem->block.rank == 0) {
        outcome_print_text(&outcome);
    }
    MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return status;
}

/* Opens what a run needs, runs, and closes it. */
static int run(const struct block *block, struct space *space, const struct options *options, FILE *image) {
    struct comm *comm = comm_open(options->mpi, block, space);
    struct problem problem = {.memory = NULL};
    int status = STATUS_FAILED;

    if (comm == NULL)
        return STATUS_FAILED;
    if (agree(problem_init(&problem, &options->deck, block, space, comm)))
        status = simulate(&problem, comm, options, image);
    else if (block->rank == 0)
        fprintf(stderr, "heat: a rank is out of memory\n");
    problem_free(&problem);
    comm->close(comm);
    return status;
}

/* The picture's file is opened before the run, not to fail after it. */
static int run_with_image(const struct block *block, struct space *space, const struct options *options) {
    const bool drawn = options->deck.image[0] != '\0';
    FILE *image = NULL;
    int status;

    if (drawn && block->rank == 0) {
        image = fopen(options->deck.image, "wb");
        if (image == NULL)
            fprintf(stderr, "heat: %s: %s\n", options->deck.image, strerror(errno));
    }
    if (!agree(!drawn || block->rank != 0 || image != NULL))
        return STATUS_FAILED;
    status = run(block, space, options, image);
    if (image != NULL && fclose(image) != 0) {
        fprintf(stderr, "heat: %s: %s\n", options->deck.image, strerror(errno));
        status = STATUS_FAILED;
    }
    return agree(status == STATUS_FINE) ? STATUS_FINE : STATUS_FAILED;
}

static int heat(int argc, char **argv) {
    struct options options;
    struct block block;
    char problem[400];
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
    if (!options_load(&options, problem, sizeof(problem))) {
        if (rank == 0)
            fprintf(stderr, "heat: %s\n", problem);
        return STATUS_USAGE;
    }
    if (!block_make(options.deck.n, rank, size, &block)) {
        if (rank == 0)
            fprintf(stderr, "heat: %d x %d cells cannot be shared by %d ranks\n", options.deck.n, options.deck.n, size);
        return STATUS_USAGE;
    }
    struct space *space = options.cuda ? space_cuda_open() : space_host_open();
    if (space == NULL)
        return STATUS_FAILED;
    space->graph = options.graph;
    const int status = options.compare > 0 ? (compare(&block, space, &options) ? STATUS_FINE : STATUS_FAILED)
                                           : run_with_image(&block, space, &options);
    space->close(space);
    return status;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const int status = heat(argc, argv);
    MPI_Finalize();
    return status;
}
