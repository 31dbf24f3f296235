/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The verdict on a run, for people and for scripts.
 */
#include <math.h>
#include <stdio.h>

#include "heat.h"

static const double ACCEPTED_DIFFERENCE = 1e-8;

void outcome_judge(struct outcome *outcome) {
    outcome->published = problem_published(&outcome->options->deck, &outcome->expected);
    outcome->difference = 0;
    if (outcome->published)
        outcome->difference = fabs(outcome->result - outcome->expected) / fabs(outcome->expected);
    /* written so that a result that is not a number fails */
    outcome->passed = isfinite(outcome->result) && outcome->difference <= ACCEPTED_DIFFERENCE;
}

double outcome_microseconds(const struct outcome *outcome) {
    const struct run *run = &outcome->run;

    return run->iterations > 0 ? 1e6 * run->seconds / (double)run->iterations : 0;
}

void outcome_print_header(void) {
    printf(
        "n,steps,ranks,comm,iterations,seconds,us_per_iteration,result,published,relative_difference,verdict,space\n");
}

void outcome_print_csv(const struct outcome *o) {
    printf("%d,%d,%d,%s,%ld,%.6f,%.3f,%.15g,", o->options->deck.n, o->options->deck.steps,
           o->block->columns * o->block->rows, o->comm, o->run.iterations, o->run.seconds, outcome_microseconds(o),
           o->result);
    if (o->published)
        printf("%.15g,%.3e,", o->expected, o->difference);
    else
        printf(",,");
    printf("%s,%s\n",
           !o->passed     ? "FAILED"
           : o->published ? "PASSED"
                          : "UNCHECKED",
           o->options->cuda ? "cuda" : "host");
}

static void print_steps(const struct outcome *o) {
    printf("heat: iterations of each step:");
    for (int step = 0; step < o->options->deck.steps; step++)
        printf(" %d", o->run.of_step[step]);
    printf("\n");
}

void outcome_print_text(const struct outcome *o) {
    const int columns = o->block->columns, rows = o->block->rows;

    printf("heat: %d x %d cells, %d steps, %d ranks (%d x %d), comm %s%s\n", o->options->deck.n, o->options->deck.n,
           o->options->deck.steps, columns * rows, columns, rows, o->comm, o->options->cuda ? ", space cuda" : "");
    printf("heat: %ld iterations in %.3f s, %.1f us each%s\n", o->run.iterations, o->run.seconds,
           outcome_microseconds(o), o->way);
    if (o->options->deck.steps <= LISTED_STEPS)
        print_steps(o);
    if (o->run.unconverged > 0)
        printf("heat: %d of %d steps stopped at the limit of iterations\n", o->run.unconverged, o->options->deck.steps);
    if (o->options->deck.image[0] != '\0')
        printf("heat: picture in %s\n", o->options->deck.image);
    if (o->published)
        printf("heat: result %.15g, published %.15g, relative difference %.1e: %s\n", o->result, o->expected,
               o->difference, o->passed ? "PASSED" : "FAILED");
    else
        printf("heat: result %.15g, nothing published for this size%s\n", o->result, o->passed ? "" : ": FAILED");
}
