/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The benchmark: a dense, cold background and a pipe of light material with a hot end.
 *
 * Density and energy of a cell follow from its place, so a rank knows those of cells beyond its block too.
 */
#include <stdlib.h>

#include "heat.h"

static const double SIDE = 10.0, TIME_STEP = 0.004;
static const double BACKGROUND_DENSITY = 100.0, BACKGROUND_ENERGY = 0.0001;
static const double PIPE_DENSITY = 0.1;

/* The pipe, laid in this order. */
static const struct {
    double xmin, xmax, ymin, ymax, energy;
} PIPE[] = {
    {0.0, 1.0, 1.0, 2.0, 25.0},
    {1.0, 6.0, 1.0, 2.0, 0.1},
    {5.0, 6.0, 1.0, 8.0, 0.1},
    {5.0, 10.0, 7.0, 8.0, 0.1},
};
enum { NUM_PIPES = sizeof(PIPE) / sizeof(PIPE[0]) };

/* Whether cell `k` of a direction touches [min, max], shrunk a little so that rounding does not decide. */
static bool touches(int k, double dx, double min, double max) {
    return (k + 1) * dx >= min + dx / 100 && k * dx < max - dx / 100;
}

/* Density and energy of cell (x, y) of the whole square. */
static void material(int x, int y, double dx, double *density_out, double *energy_out) {
    *density_out = BACKGROUND_DENSITY;
    *energy_out = BACKGROUND_ENERGY;
    for (int k = 0; k < NUM_PIPES; k++) {
        if (touches(x, dx, PIPE[k].xmin, PIPE[k].xmax) && touches(y, dx, PIPE[k].ymin, PIPE[k].ymax)) {
            *density_out = PIPE_DENSITY;
            *energy_out = PIPE[k].energy;
        }
    }
}

bool problem_in_pipe(int n, int x, int y) {
    double density, energy;

    material(x, y, SIDE / n, &density, &energy);
    return density < BACKGROUND_DENSITY;
}

/*
 * The face between two cells; the second coordinate decides whether it is a wall. Ghosts at a reflective wall equal
 * the cell inside, so nothing flows through it; a conductivity of 0 says the same, and ghosts need no care.
 */
static double face(const struct problem *problem, int x0, int y0, int x1, int y1) {
    const int n = problem->block.n;
    double d0, d1, energy;

    if (x0 < 0 || y0 < 0 || x1 >= n || y1 >= n)
        return 0.0;
    material(x0, y0, problem->dx, &d0, &energy);
    material(x1, y1, problem->dx, &d1, &energy);
    return TIME_STEP / (problem->dx * problem->dx) * (d0 + d1) / (2 * d0 * d1);
}

/* The fields that do not change, or only from step to step, lie one after the other, and in this order. */
enum { KX, KY, DENSITY, ENERGY, NUM_GIVEN };

void problem_reset(struct problem *problem) {
    const struct block *b = &problem->block;
    const ptrdiff_t stride = (ptrdiff_t)block_field_stride(b);
    double *const given = problem->given;

    for (int j = 0; j <= b->ny; j++) {
        for (int i = 0; i <= b->nx; i++) {
            const ptrdiff_t c = cell(b, i, j);
            const int x = b->x0 + i, y = b->y0 + j;
            if (i < b->nx && j < b->ny)
                material(x, y, problem->dx, &given[DENSITY * stride + c], &given[ENERGY * stride + c]);
            if (j < b->ny)
                given[KX * stride + c] = face(problem, x - 1, y, x, y);
            if (i < b->nx)
                given[KY * stride + c] = face(problem, x, y - 1, x, y);
        }
    }
    if (!problem->space->on_host)
        problem->space->store(problem->space, problem->kx, given, NUM_GIVEN * block_field_stride(b));
}

bool problem_init(struct problem *problem, const struct block *block, struct space *space, struct comm *comm) {
    const size_t stride = block_field_stride(block);
    double **const fields[] = {&problem->p,       &problem->w,      &problem->kx,    &problem->ky,
                               &problem->density, &problem->energy, &problem->next_p};
    const size_t count = sizeof(fields) / sizeof(fields[0]) - space->on_host; /* it replaces p in place */

    problem->block = *block;
    problem->space = space;
    problem->dx = SIDE / block->n;
    problem->memory = space->allocate(space, (NUM_SHARED + count) * stride);
    if (problem->memory == NULL)
        return false;
    for (size_t k = 0; k < count; k++)
        *fields[k] = problem->memory + (NUM_SHARED + k) * stride;
    problem->given = space->on_host ? problem->kx : calloc(NUM_GIVEN * stride, sizeof(double));
    if (problem->given == NULL)
        return false;
    problem->u = comm->shared[SHARED_U];
    problem->r = comm->shared[SHARED_R];
    problem_reset(problem);
    return true;
}

void problem_free(struct problem *problem) {
    if (problem->memory == NULL)
        return;
    if (!problem->space->on_host)
        free(problem->given);
    problem->space->release(problem->space, problem->memory);
    problem->memory = NULL;
}

double problem_total(struct problem *problem) {
    problem->space->total(problem);
    return problem->dx * problem->dx * problem->space->sum(problem);
}

bool problem_published(int n, int steps, double *result_out) {
    static const struct {
        int n, steps;
        double result;
    } published[] = {
        {10, 10, 157.55084183279294},  {250, 10, 106.27221178646569}, {512, 20, 103.4697091898282},
        {1000, 10, 97.27733205075556}, {4000, 2, 89.44258537125111},  {4000, 10, 95.462351582214282},
    };

    for (size_t k = 0; k < sizeof(published) / sizeof(published[0]); k++) {
        if (published[k].n == n && published[k].steps == steps) {
            *result_out = published[k].result;
            return true;
        }
    }
    return false;
}
