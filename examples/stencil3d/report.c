/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What came out, for people and for scripts.
 */
#include "stencil3d.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const verdicts[] = {"PASSED", "FAILED", "UNCHECKED"};

bool outcome_open(struct outcome *outcome, int rounds) {
    bool fine = true;

    *outcome = (struct outcome){.judgement = PASSED};
    for (int work = 0; work < NUM_WORKS; work++) {
        outcome->times[work] = calloc((size_t)rounds, sizeof(double));
        fine = fine && outcome->times[work] != NULL;
    }
    return fine;
}

void outcome_close(struct outcome *outcome) {
    for (int work = 0; work < NUM_WORKS; work++)
        free(outcome->times[work]);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof(*values), by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

void report_begin(const struct options *o, const struct block *b) {
    if (o->csv) {
        printf("size0,size1,size2,fields,points,ranks,grid0,grid1,grid2,space,comm,graphs,overlap,steps,us_per_step,"
               "us_per_exchange,us_per_sweep,bytes_sent,error,checksum,verdict\n");
        return;
    }
    printf("stencil3d: %d x %d x %d cells, %d field%s, %d points, %d steps, %d rank%s (%d x %d x %d), %s memory\n",
           b->size[0], b->size[1], b->size[2], b->fields, b->fields == 1 ? "" : "s", b->points, o->steps, b->ranks,
           b->ranks == 1 ? "" : "s", b->grid[0], b->grid[1], b->grid[2], o->cuda ? "GPU" : "host");
}

static void print_csv(const struct run *run, const struct outcome *outcome, const double us[NUM_WORKS]) {
    const struct options *o = run->options;
    const struct block *b = run->block;

    printf("%d,%d,%d,%d,%d,%d,%d,%d,%d,%s,%s,%d,%d,%d,%.3f,%.3f,%.3f,%zu,%.3e,%016" PRIx64 ",%s\n", b->size[0],
           b->size[1], b->size[2], b->fields, b->points, b->ranks, b->grid[0], b->grid[1], b->grid[2], run->space->name,
           run->comm->name, run->graphs, o->overlap, o->steps, us[WORK_STEPS], us[WORK_EXCHANGES], us[WORK_SWEEPS],
           block_bytes(b), outcome->verdict.error, outcome->verdict.checksum, verdicts[outcome->judgement]);
}

static void print_text(const struct run *run, const struct outcome *outcome, const double us[NUM_WORKS]) {
    const char *name = run->comm->name;

    printf("stencil3d: %s: %.1f us a step%s; exchange alone %.1f us (%zu bytes to other ranks), sweep alone %.1f us\n",
           name, us[WORK_STEPS], run->graphs ? ", in graphs" : "", us[WORK_EXCHANGES], block_bytes(run->block),
           us[WORK_SWEEPS]);
    printf("stencil3d: %s: error %.1e, checksum %016" PRIx64 ": %s\n", name, outcome->verdict.error,
           outcome->verdict.checksum,
           outcome->judgement == UNCHECKED ? "UNCHECKED (after fewer steps there is more to see)"
                                           : verdicts[outcome->judgement]);
}

void report(const struct run *run, const struct outcome *outcome) {
    double us[NUM_WORKS];

    for (int work = 0; work < NUM_WORKS; work++)
        us[work] = median(outcome->times[work], run->options->rounds);
    if (run->options->csv)
        print_csv(run, outcome, us);
    else
        print_text(run, outcome, us);
}
