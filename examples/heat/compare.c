/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A fair comparison of the two ways to communicate. Machines are faster at one time than at another, by more than the
 * ways differ: so both run in one job, on the same processors, one time step of the one and then the same step of
 * the other, and each begins every second pair. What is compared are medians of whole runs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "heat.h"

enum { PEERWIN, MPI, NUM_WAYS };

/* One way: its communication, its fields, and the time of every run. */
struct way {
    struct comm *comm;
    struct problem problem;
    struct outcome outcome; /* of the last run */
    double *times;          /* per run, microseconds per iteration */
};

static bool open_way(struct way *way, int which, const struct block *block, struct space *space,
                     const struct options *options) {
    way->comm = comm_open(which == MPI, block, space);
    if (way->comm == NULL)
        return false;
    way->times = calloc((size_t)options->compare, sizeof(*way->times));
    if (agree(way->times != NULL && problem_init(&way->problem, &options->deck, block, space, way->comm)))
        return true;
    if (block->rank == 0)
        fprintf(stderr, "heat: a rank is out of memory\n");
    return false;
}

static void close_way(struct way *way) {
    free(way->times);
    problem_free(&way->problem);
    if (way->comm != NULL)
        way->comm->close(way->comm);
}

/* One step of each. Everyone begins a step together. */
static void step_both(struct way ways[NUM_WAYS], int step, struct progress *progress) {
    for (int turn = 0; turn < NUM_WAYS; turn++) {
        struct way *way = &ways[(step + turn) % NUM_WAYS];
        MPI_Barrier(MPI_COMM_WORLD);
        solver_step(&way->problem, way->comm, progress, &way->outcome.run);
    }
}

static bool finish_run(struct way *way, int run, const struct block *block, const struct options *options) {
    struct outcome *outcome = &way->outcome;

    outcome->way = way->comm->in_stream ? way->problem.space->way(&way->problem) : "";
    outcome->result = problem_total(&way->problem);
    way->comm->add(way->comm, &outcome->result);
    outcome_judge(outcome);
    way->times[run] = outcome_microseconds(outcome);
    if (block->rank == 0 && options->deck.csv)
        outcome_print_csv(outcome);
    return outcome->passed;
}

static bool run_both(struct way ways[NUM_WAYS], int run, const struct block *block, const struct options *options,
                     struct progress *progress) {
    bool passed = true;

    for (int which = 0; which < NUM_WAYS; which++) {
        struct way *way = &ways[which];
        problem_reset(&way->problem);
        way->outcome = (struct outcome){.options = options, .block = block, .comm = way->comm->name};
    }
    for (int step = 0; step < options->deck.steps; step++)
        step_both(ways, step, progress);
    for (int which = 0; which < NUM_WAYS; which++)
        passed = finish_run(&ways[which], run, block, options) && passed;
    return passed;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof(*values), by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void print_medians(struct way ways[NUM_WAYS], const struct options *options) {
    for (int which = 0; which < NUM_WAYS; which++)
        outcome_print_text(&ways[which].outcome);
    const double peerwin = median(ways[PEERWIN].times, options->compare);
    const double mpi = median(ways[MPI].times, options->compare);
    printf("heat: medians of %d interleaved runs: peerwin %.1f us, mpi %.1f us an iteration, ratio %.3f\n",
           options->compare, peerwin, mpi, peerwin / mpi);
}

bool compare(const struct block *block, struct space *space, const struct options *options) {
    struct way ways[NUM_WAYS] = {0};
    struct progress progress;
    bool passed = true;

    const bool ready =
        open_way(&ways[PEERWIN], PEERWIN, block, space, options) && open_way(&ways[MPI], MPI, block, space, options);
    if (ready && block->rank == 0 && options->deck.csv)
        outcome_print_header();
    if (ready)
        progress_begin(&progress, block, NUM_WAYS * options->compare * options->deck.steps);
    for (int run = 0; ready && run < options->compare; run++)
        passed = run_both(ways, run, block, options, &progress) && passed;
    if (ready && block->rank == 0 && !options->deck.csv)
        print_medians(ways, options);
    for (int which = 0; which < NUM_WAYS; which++)
        close_way(&ways[which]);
    return agree(ready && passed);
}
