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

/*
 * (A v) in one cell; the pointers are to this cell. Not as a sum of differences: those would be exactly 0 where v is
 * even, and what spreads from there are numbers so small that processors compute with them slowly.
 */
static inline double apply(const double *v, const double *half, ptrdiff_t pitch) {
    const double h = half[0], w = h + half[-1], e = h + half[1], s = h + half[-pitch], n = h + half[pitch];

    return (1.0 + w + e + s + n) * v[0] - w * v[-1] - e * v[1] - s * v[-pitch] - n * v[pitch];
}

/* r = u - A u; adds up r.r. (The right-hand side is the starting guess itself.) */
SWEEP static void host_residual(struct problem *problem) {
    const struct block *b = &problem->block;
    const ptrdiff_t pitch = b->pitch, nx = b->nx;
    double rr = 0;

    for (int j = 0; j < b->ny; j++) {
        const ptrdiff_t c = cell(b, 0, j);
        const double *restrict u = problem->u + c, *restrict half = problem->half + c;
        double *restrict r = problem->r + c, row = 0;
#pragma omp simd reduction(+ : row)
        for (ptrdiff_t i = 0; i < nx; i++) {
            r[i] = u[i] - apply(u + i, half + i, pitch);
            row += r[i] * r[i];
        }
        rr += row;
    }
    problem->sum = rr;
}

/* u += alpha p, then p = r + beta p, in one cell. */
static inline void turn_cell(double *u, double *p, double r, double alpha, double beta) {
    *u += alpha * *p;
    *p = r + beta * *p;
}

static void turn_row(const struct problem *problem, int j, double alpha, double beta) {
    for (ptrdiff_t c = cell(&problem->block, -1, j); c <= cell(&problem->block, problem->block.nx, j); c++)
        turn_cell(&problem->u[c], &problem->p[c], problem->r[c], alpha, beta);
}

/*
 * The first sweep: u += alpha p (what the last iteration has left to do, while p is at hand) and p = r + beta p, ghosts
 * included, and w = A p a row behind. Adds up p.w.
 */
SWEEP static void host_turn(struct problem *problem, double alpha, double beta) {
    const struct block *b = &problem->block;
    const ptrdiff_t pitch = b->pitch, nx = b->nx;
    double pw = 0;

    turn_row(problem, -1, alpha, beta);
    turn_row(problem, 0, alpha, beta);
    for (int j = 0; j < b->ny; j++) {
        const ptrdiff_t c = cell(b, 0, j);
        const double *restrict r = problem->r + c + pitch, *restrict half = problem->half + c;
        double *restrict u = problem->u + c + pitch, *restrict p = problem->p + c;
        double *restrict w = problem->w + c, row = 0;

        turn_cell(&u[-1], &p[pitch - 1], r[-1], alpha, beta);
        turn_cell(&u[nx], &p[pitch + nx], r[nx], alpha, beta);
#pragma omp simd reduction(+ : row)
        for (ptrdiff_t i = 0; i < nx; i++) {
            turn_cell(&u[i], &p[pitch + i], r[i], alpha, beta);
            w[i] = apply(p + i, half + i, pitch);
            row += w[i] * p[i];
        }
        pw += row;
    }
    problem->sum = pw;
}

/*
 * The second sweep: r -= alpha w; adds up r.r. It goes back from the row where the first one ended, whose fields are
 * still in the cache.
 */
SWEEP static void host_descend(struct problem *problem, double alpha) {
    const struct block *b = &problem->block;
    const ptrdiff_t nx = b->nx;
    double rr = 0;

    for (int j = b->ny - 1; j >= 0; j--) {
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
