/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Plain conjugate gradients: the course of the solution, the same wherever the fields are.
 *
 * An iteration is two sweeps over the block, each followed by a global sum. The ghosts of the residual r travel with
 * the second sum. Those of the search direction p do not travel at all: p = r + beta p holds in ghost cells
 * too, so each rank computes them, and gets the same bits as the neighbour that owns the cell.
 *
 * Sums are taken in one fixed order, so a run repeats bit by bit.
 */
#include <math.h>
#include <stdio.h>

#include "heat.h"

static const double TOLERANCE = 1e-15;
enum { MAX_ITERATIONS = 10000 };

void progress_begin(struct progress *progress, const struct block *block, int steps) {
    const double now = MPI_Wtime();

    *progress = (struct progress){.silent = block->rank != 0, .steps = steps, .started = now, .said = now};
}

static void progress_tick(struct progress *progress, int iteration, double norm) {
    if (progress->silent)
        return;
    const double now = MPI_Wtime();
    if (now - progress->said < 2.0)
        return;
    progress->said = now;
    fprintf(stderr, "heat: step %d of %d, iteration %d, residual %.1e, %.0f s\n", progress->step, progress->steps,
            iteration, norm, now - progress->started);
}

/* What the latest sweep has added up, over all ranks, while edges of a field travel to the neighbours' ghosts. */
static double exchange(struct problem *problem, struct comm *comm, enum shared field) {
    comm->start(comm, field);
    double value = problem->space->sum(problem);
    comm->finish(comm, field, &value);
    return value;
}

/* Solves A u_new = u. Every rank sees the same sums, and so stops at the same iteration. */
static int solve(struct problem *problem, struct comm *comm, struct progress *progress) {
    const struct space *space = problem->space;
    double nothing = 0, alpha = 0, beta = 0;
    int iteration = 0;

    comm->start(comm, SHARED_U);
    comm->finish(comm, SHARED_U, &nothing);
    space->residual(problem);
    double rr = exchange(problem, comm, SHARED_R);
    while (sqrt(rr) >= TOLERANCE && iteration < MAX_ITERATIONS) {
        space->turn(problem, alpha, beta);
        double pw = space->sum(problem);
        comm->sum(comm, &pw);
        alpha = rr / pw;
        space->descend(problem, alpha);
        const double next = exchange(problem, comm, SHARED_R);
        beta = next / rr;
        rr = next;
        progress_tick(progress, ++iteration, sqrt(rr));
    }
    space->finish_u(problem, alpha);
    return iteration;
}

void solver_step(struct problem *problem, struct comm *comm, struct progress *progress, struct run *run) {
    const double started = MPI_Wtime();

    progress->step++;
    problem->space->set_u(problem);
    const int iterations = solve(problem, comm, progress);
    problem->space->set_energy(problem);
    problem->space->wait(problem->space);
    run->iterations += iterations;
    run->unconverged += iterations == MAX_ITERATIONS;
    run->seconds += MPI_Wtime() - started;
}
