/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fields in ordinary memory, swept by the processor.
 *
 * An iteration of the solver is one sweep over the block, so that every field passes through the processor once: a row
 * is updated, and A r follows a row behind.
 */
#define _DEFAULT_SOURCE /* madvise */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "heat.h"

/* More versions of the sweeps, for processors with AVX2 or AVX-512, picked when the program starts. */
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
#define SWEEP __attribute__((target_clones("avx512f", "avx2", "default")))
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

/* r = u - A u. (The right-hand side is the starting guess itself.) */
SWEEP static void host_residual(struct problem *problem) {
    const struct block *b = &problem->block;
    const ptrdiff_t pitch = b->pitch, nx = b->nx;

    for (int j = 0; j < b->ny; j++) {
        const ptrdiff_t c = cell(b, 0, j);
        const double *restrict u = problem->u + c, *restrict half = problem->half + c;
        double *restrict r = problem->r[0] + c;
#pragma omp simd
        for (ptrdiff_t i = 0; i < nx; i++)
            r[i] = u[i] - apply(u + i, half + i, pitch);
    }
}

/* The ghosts of r in the iteration that begins, from those of w: a row or a column of cells `step` apart. */
static void take_ghosts_along(struct problem *problem, ptrdiff_t first, ptrdiff_t step, int count,
                              const struct course *course) {
    const double *w = problem->w[0] + first;
    double *s = problem->s[0] + first, *r = problem->r[0] + first;

    for (ptrdiff_t c = 0; c < count * step; c += step) {
        s[c] = w[c] + course->beta * s[c];
        r[c] -= course->alpha * s[c];
    }
}

/* Those at walls are 0, and stay 0. */
static void host_take_ghosts(struct problem *problem, const struct course *course) {
    const struct block *b = &problem->block;

    take_ghosts_along(problem, cell(b, 0, -1), 1, b->nx, course);
    take_ghosts_along(problem, cell(b, 0, b->ny), 1, b->nx, course);
    if (b->neighbour[WEST] != MPI_PROC_NULL)
        take_ghosts_along(problem, cell(b, -1, 0), b->pitch, b->ny, course);
    if (b->neighbour[EAST] != MPI_PROC_NULL)
        take_ghosts_along(problem, cell(b, b->nx, 0), b->pitch, b->ny, course);
}

/* One cell in an iteration; w is still that of the last one. */
static inline void advance(double *u, double *p, double *r, double *s, double w, double alpha, double beta) {
    *p = *r + beta * *p;
    *s = w + beta * *s;
    *u += alpha * *p;
    *r -= alpha * *s;
}

/* w = A r in row j, and, if there is one, the row north of it advances; adds up r.r and r.w. */
static inline __attribute__((always_inline)) void sweep_row(struct problem *problem, int j, bool advances, double alpha,
                                                            double beta) {
    const ptrdiff_t pitch = problem->block.pitch, nx = problem->block.nx, c = cell(&problem->block, 0, j);
    const double *restrict half = problem->half + c;
    double *restrict u = problem->u + c + pitch, *restrict p = problem->p + c + pitch;
    double *restrict s = problem->s[0] + c + pitch, *restrict r = problem->r[0] + c, *restrict w = problem->w[0] + c;
    double rr = 0, rar = 0;

#pragma omp simd reduction(+ : rr, rar)
    for (ptrdiff_t i = 0; i < nx; i++) {
        if (advances)
            advance(&u[i], &p[i], &r[pitch + i], &s[i], w[pitch + i], alpha, beta);
        w[i] = apply(r + i, half + i, pitch);
        rr += r[i] * r[i];
        rar += r[i] * w[i];
    }
    problem->sums[SUM_RR] += rr;
    problem->sums[SUM_RAR] += rar;
}

SWEEP static void host_multiply(struct problem *problem) {
    problem->sums[SUM_RR] = problem->sums[SUM_RAR] = 0;
    for (int j = 0; j < problem->block.ny; j++)
        sweep_row(problem, j, false, 0, 0);
}

SWEEP static void host_sweep(struct problem *problem, const struct course *course) {
    const struct block *b = &problem->block;
    const double alpha = course->alpha, beta = course->beta;

    problem->sums[SUM_RR] = problem->sums[SUM_RAR] = 0;
    for (ptrdiff_t c = cell(b, 0, 0); c < cell(b, b->nx, 0); c++)
        advance(&problem->u[c], &problem->p[c], &problem->r[0][c], &problem->s[0][c], problem->w[0][c], alpha, beta);
    for (int j = 0; j < b->ny - 1; j++)
        sweep_row(problem, j, true, alpha, beta);
    sweep_row(problem, b->ny - 1, false, alpha, beta);
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
    problem->sums[0] = total;
}

/* What is about a huge page or longer is given huge ones, where the system has them, as windows are. */
double *fields_allocate(size_t count) {
    enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };
    const size_t bytes = count * sizeof(double), page = bytes < HUGE_PAGE / 2 ? PAGE : HUGE_PAGE;
    const size_t rounded = (bytes + page - 1) / page * page;
    double *memory = aligned_alloc(page, rounded);

    if (memory == NULL)
        return NULL;
    if (page == HUGE_PAGE)
        (void)madvise(memory, rounded, MADV_HUGEPAGE); /* a kernel that will not has ordinary ones */
    memset(memory, 0, bytes);
    return memory;
}

static double *host_allocate(struct space *space, size_t count) {
    (void)space;
    return fields_allocate(count);
}

static void host_release(struct space *space, double *memory) {
    (void)space;
    free(memory);
}

static void host_sums(struct problem *problem, double sums_out[NUM_SUMS]) {
    memcpy(sums_out, problem->sums, sizeof(problem->sums));
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
    .multiply = host_multiply,
    .take_ghosts = host_take_ghosts,
    .sweep = host_sweep,
    .total = host_total,
    .sums = host_sums,
    .wait = host_wait,
    .close = host_close,
};

struct space *space_host_open(void) {
    return &host;
}
