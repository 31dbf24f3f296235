/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Conjugate gradients: the course of the solution, the same wherever the fields are.
 *
 * What costs a parallel solver its time is waiting for the others. The two sums of an iteration are taken together
 * here, as Chronopoulos and Gear have shown: with w = A r at hand, r.r and r.w give both coefficients, at the price of
 * one more field s = A p. And the ghosts that travel are those of w, beside the sums; those of r and s follow from them
 * (s = w + beta s and r -= alpha s hold in ghost cells too), with the same bits as on the neighbour that owns the cell.
 * So an iteration is one sweep over the block and one meeting of the ranks.
 *
 * Sums are taken in one fixed order, so a run repeats bit by bit.
 */
#include <math.h>
#include <stdio.h>

#include "heat.h"

void progress_begin(struct progress *progress, const struct block *block, int steps) {
    const double now = MPI_Wtime();

    *progress = (struct progress){.silent = block->rank != 0, .steps = steps, .started = now, .said = now};
}

void progress_tick(struct progress *progress, int iteration, double norm) {
    if (progress->silent)
        return;
    const double now = MPI_Wtime();
    if (now - progress->said < 2.0)
        return;
    progress->said = now;
    fprintf(stderr, "heat: step %d of %d, iteration %d, residual %.1e, %.0f s\n", progress->step, progress->steps,
            iteration, norm, now - progress->started);
}

void exchange(struct comm *comm, enum shared field) {
    comm->start(comm, field);
    comm->finish(comm, field, NULL);
}

/* What the latest sweep has added up, over all ranks, while the edges of w travel to the neighbours' ghosts. */
static void meet(struct problem *problem, struct comm *comm, double sums[NUM_SUMS]) {
    const enum shared field = problem->turn == 0 ? SHARED_W : SHARED_NEXT_W;

    comm->start(comm, field);
    problem->space->sums(problem, sums);
    comm->finish(comm, field, sums);
}

static void iterate(struct problem *problem, struct comm *comm, const struct course *course) {
    const enum shared field = problem->turn == 0 ? SHARED_W : SHARED_NEXT_W;

    problem->space->take_ghosts(problem, course);
    comm->release(comm, field); /* early: the neighbours need not wait to replace them */
    problem->space->sweep(problem, course);
}

/* Solves A u_new = u. Every rank sees the same sums, and so stops at the same iteration. */
static int solve(struct problem *problem, struct comm *comm, struct progress *progress) {
    struct course course = course_start();
    double sums[NUM_SUMS];
    int iteration = 0;

    exchange(comm, SHARED_U);
    problem->space->residual(problem);
    exchange(comm, SHARED_R);
    problem->space->multiply(problem);
    meet(problem, comm, sums);
    while (sqrt(sums[SUM_RR]) >= TOLERANCE && iteration < MAX_ITERATIONS) {
        course = course_next(course, sums[SUM_RR], sums[SUM_RAR]);
        iterate(problem, comm, &course);
        meet(problem, comm, sums);
        progress_tick(progress, ++iteration, sqrt(sums[SUM_RR]));
    }
    return iteration;
}

void solver_step(struct problem *problem, struct comm *comm, struct progress *progress, struct run *run) {
    const double started = MPI_Wtime();

    progress->step++;
    problem->space->set_u(problem);
    const int iterations =
        comm->in_stream ? problem->space->solve(problem, comm, progress) : solve(problem, comm, progress);
    problem->space->set_energy(problem);
    problem->space->wait(problem->space);
    comm->settle(comm);
    run->iterations += iterations;
    if (run->steps++ < LISTED_STEPS)
        run->of_step[run->steps - 1] = iterations;
    run->unconverged += iterations == MAX_ITERATIONS;
    run->seconds += MPI_Wtime() - started;
}
