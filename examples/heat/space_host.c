/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fields in ordinary memory, swept by the processor.
 *
 * An iteration of the solver is two sweeps over the block, so that every field passes through the processor as rarely
 * as possible: what an iteration has left to do is done by the first sweep of the next one, while p is at hand.
 */
#include <stdlib.h>
#include <string.h>

#include "heat.h"

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
static void host_set_u(struct problem *problem) {
    const struct block *b = &problem->block;

    for (int j = 0; j < b->ny; j++)
        for (ptrdiff_t c = cell(b, 0, j); c < cell(b, b->nx, j); c++)
            problem->u[c] = problem->energy[c] * problem->density[c];
}

static void host_set_energy(struct problem *problem) {
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

/* r = u - A u; adds up r.r. (The right-hand side is the starting guess itself.) */
SWEEP static void host_residual(struct problem *problem) {
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
    problem->sum = rr;
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
 * w = A p a row behind. Adds up p.w.
 */
SWEEP static void host_turn(struct problem *problem, double alpha, double beta) {
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
    problem->sum = pw;
}

/* The second sweep: r -= alpha w; adds up r.r. */
SWEEP static void host_descend(struct problem *problem, double alpha) {
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
    problem->sum = rr;
}

/* u += alpha p after the last iteration. */
static void host_finish_u(struct problem *problem, double alpha) {
    const struct block *b = &problem->block;

    for (int j = 0; j < b->ny; j++)
        for (ptrdiff_t c = cell(b, 0, j); c < cell(b, b->nx, j); c++)
            problem->u[c] += alpha * problem->p[c];
}

/* The sum of density * u over the block. */
static void host_total(struct problem *problem) {
    const struct block *b = &problem->block;
    double total = 0;

    for (int j = 0; j < b->ny; j++) {
        double row = 0;
        for (int i = 0; i < b->nx; i++)
            row += problem->density[cell(b, i, j)] * problem->u[cell(b, i, j)];
        total += row;
    }
    problem->sum = total;
}

/* Zeroed, because ghosts at the walls stay 0. */
static double *host_allocate(struct space *space, size_t count) {
    enum { PAGE = 4096 };
    const size_t bytes = (count * sizeof(double) + PAGE - 1) / PAGE * PAGE;
    double *memory = aligned_alloc(PAGE, bytes);

    (void)space;
    if (memory != NULL)
        memset(memory, 0, bytes);
    return memory;
}

static void host_release(struct space *space, double *memory) {
    (void)space;
    free(memory);
}

static double host_sum(struct problem *problem) {
    return problem->sum;
}

/* Sweeps have ended when they return. */
static void host_wait(struct space *space) {
    (void)space;
}

static void host_close(struct space *space) {
    (void)space;
}

static struct space host = {
    .name = "host",
    .on_host = true,
    .allocate = host_allocate,
    .release = host_release,
    .set_u = host_set_u,
    .set_energy = host_set_energy,
    .residual = host_residual,
    .turn = host_turn,
    .descend = host_descend,
    .finish_u = host_finish_u,
    .total = host_total,
    .sum = host_sum,
    .wait = host_wait,
    .close = host_close,
};

struct space *space_host_open(void) {
    return &host;
}
