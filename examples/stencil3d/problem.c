/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The problem, whose answer is known. A field is 1 and a wave: the product of a sine in each direction, of as many
 * periods and such a phase as belong to the field. A mean over the cells around, symmetric in every direction, leaves
 * the 1 as it is, and multiplies such a wave by a number.
 */
#include "stencil3d.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double TWO_PI = 6.283185307179586476925;

static double angle(const struct block *b, int field, int dim) {
    const int periods = 1 + (field + dim) % 3;
    return TWO_PI * periods / b->size[dim];
}

static double phase(int field, int dim) {
    return 0.25 + 0.5 * field + 0.125 * dim;
}

/* What a step leaves of a field's wave. */
static double left_by_a_step(const struct block *b, int field) {
    double sum = 0, product = 1;
    for (int d = 0; d < DIMS; d++) {
        const double c = cos(angle(b, field, d));
        sum += c;
        product *= 0.5 + 0.5 * c;
    }
    return b->points == DIRECTIONS ? product : 0.25 + 0.25 * sum;
}

/* The sines of my cells, direction after direction. NULL without memory. */
static double *make_sines(const struct block *b, int field) {
    const size_t count = (size_t)b->cells[0] + (size_t)b->cells[1] + (size_t)b->cells[2];
    double *sines = malloc(count * sizeof(*sines)), *sine = sines;

    for (int d = 0; d < DIMS && sines != NULL; d++)
        for (int i = 0; i < b->cells[d]; i++)
            *sine++ = sin(angle(b, field, d) * (b->first[d] + i) + phase(field, d));
    return sines;
}

/* A field after some steps, where `wave` of the wave is left; one of `sines` is that of cell 0 in each direction. */
static double value(const struct block *b, const double *sines, double wave, int i, int j, int k) {
    return 1 + wave * sines[i] * sines[b->cells[0] + j] * sines[b->cells[0] + b->cells[1] + k];
}

static void set_field(const struct block *b, const double *sines, double *field) {
    for (size_t i = 0; i < b->field; i++)
        field[i] = NAN;
    for (int i = 0; i < b->cells[0]; i++)
        for (int j = 0; j < b->cells[1]; j++)
            for (int k = 0; k < b->cells[2]; k++)
                field[cell(b, i, j, k)] = value(b, sines, 1, i, j, k);
}

bool problem_begin(const struct block *b, struct space *space, double *fields) {
    double *field = malloc(b->field * sizeof(*field));
    bool fine = field != NULL;

    for (int f = 0; f < b->fields && fine; f++) {
        double *sines = make_sines(b, f);
        fine = sines != NULL;
        if (fine) {
            set_field(b, sines, field);
            space->store(space, fields + (size_t)f * b->field, field, b->field);
        }
        free(sines);
    }
    /* The other place holds nothing yet. */
    for (size_t i = 0; i < b->field && fine; i++)
        field[i] = NAN;
    for (int f = 0; f < b->fields && fine; f++)
        space->store(space, fields + b->buffer + (size_t)f * b->field, field, b->field);
    free(field);
    return agree(fine); /* and nobody sends to a rank that has not begun */
}

/* ---------------------------------------------------------------------------------------------- judgement */

/* Bits and place of a value, well mixed, so that a sum over all cells in any order tells about each. */
static uint64_t mixed(double number, uint64_t place) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    bits ^= (place + 1) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
}

static uint64_t place_of(const struct block *b, int field, int i, int j, int k) {
    uint64_t place = (uint64_t)field;
    place = place * (uint64_t)b->size[0] + (uint64_t)(b->first[0] + i);
    place = place * (uint64_t)b->size[1] + (uint64_t)(b->first[1] + j);
    return place * (uint64_t)b->size[2] + (uint64_t)(b->first[2] + k);
}

static void judge_field(const struct block *b, int f, const double *field, const double *sines, double wave,
                        struct verdict *verdict) {
    for (int i = 0; i < b->cells[0]; i++)
        for (int j = 0; j < b->cells[1]; j++)
            for (int k = 0; k < b->cells[2]; k++) {
                const double number = field[cell(b, i, j, k)];
                const double error = fabs(number - value(b, sines, wave, i, j, k));
                if (!(error <= verdict->error)) /* a NaN is an error too */
                    verdict->error = isnan(error) ? INFINITY : error;
                verdict->checksum += mixed(number, place_of(b, f, i, j, k));
            }
}

bool problem_judge(const struct block *b, struct space *space, const double *fields, int steps,
                   struct verdict *verdict_out) {
    double *field = malloc(b->field * sizeof(*field));
    struct verdict verdict = {0, 1, 0};
    bool fine = field != NULL;

    for (int f = 0; f < b->fields && fine; f++) {
        const double wave = pow(left_by_a_step(b, f), steps);
        double *sines = make_sines(b, f);
        fine = sines != NULL;
        if (fine) {
            space->load(space, field, fields + (size_t)f * b->field, b->field);
            judge_field(b, f, field, sines, wave, &verdict);
        }
        if (fabs(wave) < verdict.wave)
            verdict.wave = fabs(wave);
        free(sines);
    }
    free(field);
    MPI_Allreduce(MPI_IN_PLACE, &verdict.error, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &verdict.checksum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    *verdict_out = verdict;
    return agree(fine);
}

/* Where hardly anything is left of a wave, the answer is 1 whatever was sent, and that shows nothing. */
enum judgement judgement_of(const struct verdict *verdict, int steps) {
    const double rounding = 1e-13 + 2.3e-16 * steps;

    if (!(verdict->error <= rounding))
        return FAILED;
    return verdict->wave >= 1000 * rounding ? PASSED : UNCHECKED;
}
