/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Plain conjugate gradients, arranged so that every field passes through the processor as rarely as possible.
 *
 * An iteration is two sweeps over the block, each followed by a global sum. The ghosts of the residual r travel with
 * the second sum. Those of the search direction p do not travel at all: p = r + beta p holds in ghost cells
 * too, so each rank computes them, and gets the same bits as the neighbour that owns the cell.
 *
 * Sums are taken in one fixed order (lanes of a row, rows, ranks), so a run repeats bit by bit.
 */
#include <math.h>
#include <stdio.h>

#include "heat.h"

static const double TOLERANCE = 1e-15;
enum { MAX_ITERATIONS = 10000 };

/* One more version of the sweeps for processors with AVX2, picked when the program starts. */
#if defined(__has_attribute) && defined(__x86_64__) && defined(__GLIBC__)
#if __has_attribute(target_clones)
#define HAVE_CLONES 1
#endif
#endif
/* Sanitizers instrument the code that picks, which runs before they are ready. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef HAVE_CLONES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#undef HAVE_CLONES
#endif
#endif
#ifdef HAVE_CLONES
#define SWEEP __attribute__((target_clones("avx2", "default")))
#else
#define SWEEP
#endif

/* u = energy * density in the block. */
static void set_u(struct problem *problem) {
    const struct block *b = &problem->block;

    for (int j = 0; j < b->ny; j++)
        for (ptrdiff_t c = cell(b, 0, j); c < cell(b, b->nx, j); c++)
            problem->u[c] = problem->energy[c] * problem->density[c];
}

static void set_energy(struct problem *problem) {
    const struct block *b = &problem->block;

    for (int j = 0; j < b->ny; j++)
        for (ptrdiff_t c = cell(b, 0, j); c < cell(b, b->nx, j); c++)
            problem->energy[c] = problem->u[c] / problem->density[c];
}

/* (A v) in one cell; the pointers are to this cell. */
static inline double apply(const double *v, const double *kx, const double *ky, ptrdiff_t pitch) {
    return (1.0 + kx[1] + kx[0] + ky[pitch] + ky[0]) * v[0] - kx[1] * v[1] - kx[0] * v[-1] - ky[pitch] * v[pitch] -
           ky[0] * v[-pitch];
}

/* r = u - A u; returns this rank's part of r.r. (The right-hand side is the starting guess itself.) */
SWEEP static double residual(struct problem *problem) {
    const struct block *b = &problem->block;
    const ptrdiff_t pitch = b->pitch, nx = b->nx;
    double rr = 0;

    for (int j = 0; j < b->ny; j++) {
        const ptrdiff_t c = cell(b, 0, j);
        const double *restrict u = problem->u + c, *restrict kx = problem->kx + c, *restrict ky = problem->ky + c;
        double *restrict r = problem->r + c, row = 0;
#pragma omp simd reduction(+ : row)
        for (ptrdiff_t i = 0; i < nx; i++) {
            r[i] = u[i] - apply(u + i, kx + i, ky + i, pitch);
            row += r[i] * r[i];
        }
        rr += row;
    }
    return rr;
}

/* u += alpha p, then p = r + beta p, in row j, ghosts included. */
static inline void turn_row(const struct problem *problem, int j, double alpha, double beta) {
    const ptrdiff_t c = cell(&problem->block, -1, j), count = problem->block.nx + 2;
    const double *restrict r = problem->r + c;
    double *restrict u = problem->u + c, *restrict p = problem->p + c;

#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++) {
        u[i] += alpha * p[i];
        p[i] = r[i] + beta * p[i];
    }
}

/*
 * The first sweep: u += alpha p (what the last iteration has left to do, while p is at hand), p = r + beta p, and
 * w = A p a row behind. Returns this rank's part of p.w.
 */
SWEEP static double turn(struct problem *problem, double alpha, double beta) {
    const struct block *b = &problem->block;
    const ptrdiff_t pitch = b->pitch, nx = b->nx;
    double pw = 0;

    turn_row(problem, -1, alpha, beta);
    turn_row(problem, 0, alpha, beta);
    for (int j = 0; j < b->ny; j++) {
        const ptrdiff_t c = cell(b, 0, j);
        const double *restrict p = problem->p + c, *restrict kx = problem->kx + c, *restrict ky = problem->ky + c;
        double *restrict w = problem->w + c, row = 0;

        turn_row(problem, j + 1, alpha, beta);
#pragma omp simd reduction(+ : row)
        for (ptrdiff_t i = 0; i < nx; i++) {
            w[i] = apply(p + i, kx + i, ky + i, pitch);
            row += w[i] * p[i];
        }
        pw += row;
    }
    return pw;
}

/* The second sweep: r -= alpha w; returns this rank's part of r.r. */
SWEEP static double descend(struct problem *problem, double alpha) {
    const struct block *b = &problem->block;
    const ptrdiff_t nx = b->nx;
    double rr = 0;

    for (int j = 0; j < b->ny; j++) {
        const double *restrict w = problem->w + cell(b, 0, j);
        double *restrict r = problem->r + cell(b, 0, j), row = 0;
#pragma omp simd reduction(+ : row)
        for (ptrdiff_t i = 0; i < nx; i++) {
            r[i] -= alpha * w[i];
            row += r[i] * r[i];
        }
        rr += row;
    }
    return rr;
}

/* u += alpha p after the last iteration. */
static void finish_u(struct problem *problem, double alpha) {
    const struct block *b = &problem->block;

    for (int j = 0; j < b->ny; j++)
        for (ptrdiff_t c = cell(b, 0, j); c < cell(b, b->nx, j); c++)
            problem->u[c] += alpha * problem->p[c];
}

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

/* Solves A u_new = u. Every rank sees the same sums, and so stops at the same iteration. */
static int solve(struct problem *problem, struct comm *comm, struct progress *progress) {
    double nothing = 0, alpha = 0, beta = 0;
    int iteration = 0;

    comm->exchange(comm, SHARED_U, &nothing);
    double rr = residual(problem);
    comm->exchange(comm, SHARED_R, &rr);
    while (sqrt(rr) >= TOLERANCE && iteration < MAX_ITERATIONS) {
        double pw = turn(problem, alpha, beta);
        comm->sum(comm, &pw);
        alpha = rr / pw;
        double next = descend(problem, alpha);
        comm->exchange(comm, SHARED_R, &next);
        beta = next / rr;
        rr = next;
        progress_tick(progress, ++iteration, sqrt(rr));
    }
    finish_u(problem, alpha);
    return iteration;
}

void solver_step(struct problem *problem, struct comm *comm, struct progress *progress, struct run *run) {
    const double started = MPI_Wtime();

    progress->step++;
    set_u(problem);
    const int iterations = solve(problem, comm, progress);
    set_energy(problem);
    run->iterations += iterations;
    run->unconverged += iterations == MAX_ITERATIONS;
    run->seconds += MPI_Wtime() - started;
}
