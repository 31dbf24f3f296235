/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The course of a job: every way to communicate that was asked for, by turns, each from the beginning and each judged.
 * Whatever one rank decides alone is agreed before anyone acts on it, so that all ranks end alike.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stencil3d.h"

enum { STATUS_FINE = EXIT_SUCCESS, STATUS_FAILED = EXIT_FAILURE, STATUS_USAGE = 2 };

/* One way, open as long as there are rounds. */
struct course {
    struct comm *comm;
    struct run run;
    struct outcome outcome;
};

bool agree(bool mine) {
    int all = mine;

    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return all != 0;
}

struct comm *comm_open(enum way way, const struct block *block, struct space *space) {
    if (way == WAY_PEERWIN)
        return comm_peerwin_open(block, space);
    return space->on_host ? comm_mpi_open(block, space) : comm_packed_open(block, space, way == WAY_STAGED);
}

static bool course_open(struct course *course, enum way way, const struct options *options, const struct block *block,
                        struct space *space) {
    const bool room = outcome_open(&course->outcome, options->rounds);

    course->comm = agree(room) ? comm_open(way, block, space) : NULL;
    if (course->comm == NULL)
        return false;
    run_open(&course->run, options, block, space, course->comm);
    return true;
}

static void course_close(struct course *course) {
    if (course->comm != NULL) {
        run_close(&course->run);
        course->comm->close(course->comm);
    }
    outcome_close(&course->outcome);
}

static void take_verdict(struct outcome *outcome, const struct verdict *verdict, int steps) {
    if (outcome->judgement == FAILED)
        return;
    outcome->verdict = *verdict;
    outcome->judgement = judgement_of(verdict, steps);
}

/* A first run warms up; what is judged is the second, as well timed. Nothing is left to judge after the parts alone. */
static bool course_round(struct course *course, int round) {
    struct run *run = &course->run;
    const int steps = run->options->steps;
    const double *end = course->comm->fields + (size_t)(steps % 2) * run->block->buffer;
    struct verdict verdict;

    for (int times = 0; times < 2; times++) {
        if (!problem_begin(run->block, run->space, course->comm->fields))
            return false;
        course->outcome.times[WORK_STEPS][round] = run_work(run, WORK_STEPS);
    }
    if (!problem_judge(run->block, run->space, end, steps, &verdict))
        return false;
    take_verdict(&course->outcome, &verdict, steps);
    course->outcome.times[WORK_EXCHANGES][round] = run_work(run, WORK_EXCHANGES);
    course->outcome.times[WORK_SWEEPS][round] = run_work(run, WORK_SWEEPS);
    return true;
}

/* Whether all ways came to the right answer, and to the same. The same on every rank. */
static bool all_right(const struct course courses[], int count) {
    for (int i = 0; i < count; i++)
        if (courses[i].outcome.judgement == FAILED ||
            courses[i].outcome.verdict.checksum != courses[0].outcome.verdict.checksum)
            return false;
    return true;
}

static int run_all(const struct options *options, const struct block *block, struct space *space) {
    struct course courses[NUM_WAYS] = {{0}};
    int count = 0;
    bool fine = true;

    for (int way = 0; way < NUM_WAYS && fine; way++)
        if (options->way[way])
            fine = course_open(&courses[count++], (enum way)way, options, block, space);
    for (int round = 0; round < options->rounds && fine; round++)
        for (int i = 0; i < count && fine; i++)
            fine = course_round(&courses[(round + i) % count], round);
    if (fine && block->rank == 0) {
        report_begin(options, block);
        for (int i = 0; i < count; i++)
            report(&courses[i].run, &courses[i].outcome);
    } else if (!fine && block->rank == 0) {
        fprintf(stderr, "stencil3d: no answer: something is missing, or a rank is out of memory\n");
    }
    fine = fine && all_right(courses, count);
    for (int i = 0; i < count; i++)
        course_close(&courses[i]);
    return fine ? STATUS_FINE : STATUS_FAILED;
}

static int refuse(const char *problem, int rank) {
    if (rank == 0)
        fprintf(stderr, "stencil3d: %s (--help lists the options)\n", problem);
    return STATUS_USAGE;
}

static int stencil3d(int argc, char **argv) {
    struct options options;
    struct block block;
    char problem[200];
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!options_parse(argc, argv, &options, problem, sizeof(problem)))
        return refuse(problem, rank);
    if (options.help) {
        if (rank == 0)
            options_usage();
        return STATUS_FINE;
    }
    if (!block_make(&options, &block, problem, sizeof(problem)))
        return refuse(problem, rank);
    struct space *space = options.cuda ? space_cuda_open() : space_host_open();
    const int status = space != NULL ? run_all(&options, &block, space) : STATUS_FAILED;
    if (space != NULL)
        space->close(space);
    block_free(&block);
    return status;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const int status = stencil3d(argc, argv);
    MPI_Finalize();
    return status;
}
