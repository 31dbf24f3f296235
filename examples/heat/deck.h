/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What is to be solved: sizes, steps, materials and output, given by an input deck or as the benchmark.
 */
#ifndef HEAT_DECK_H
#define HEAT_DECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MAX_CELLS = 20000, MAX_STEPS = 1000000, MAX_REGIONS = 100, MAX_FILE_NAME = 500 };

struct material {
    double density, energy;
};

/* A rectangle of some material. Later ones lie on top of earlier ones. */
struct region {
    double xmin, xmax, ymin, ymax;
    struct material material;
};

struct deck {
    int n;                      /* cells per direction */
    int steps;                  /* time steps */
    double side;                /* of the square */
    double time_step;           /* the length of one */
    struct material background; /* where no region is */
    struct region regions[MAX_REGIONS];
    int num_regions;
    char image[MAX_FILE_NAME + 1]; /* file to write the picture to, "" = none */
    bool csv;                      /* print machine-readable lines */
};

/* The benchmark: a dense, cold background and a pipe of light material with a hot end. */
void deck_benchmark(struct deck *deck_out);

/* Whether sides, time step and materials are those of the benchmark, so that its published results hold. */
bool deck_is_benchmark(const struct deck *deck);

/*
 * Reads a deck. What it does not say is as in the benchmark; if it has a region, those of the benchmark are gone.
 * False, with file, line, what is wrong and what would be right in `problem`, at the first mistake.
 */
bool deck_read(FILE *file, const char *name, struct deck *deck_out, char *problem, size_t problem_size);

/* The forms of its lines, for people. */
void deck_usage(void);

#ifdef __cplusplus
}
#endif

#endif
