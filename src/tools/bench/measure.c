/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A batch = meet, warm up, time. The warm-up of each batch fetches source and target into the caches and
 * takes up the ranks' late starts after the meeting point; only then the clock starts. The time of a batch is
 * the longest of its active ranks.
 */
#include "measure.h"

#include "report.h"

#include <stdlib.h>

static double run_batch(const bench *b, const measure_row *row, int way, long iterations) {
    bench_meet(b);
    if (b->rank >= row->active)
        return 0.0;
    row->ways[way].run(row->state, iterations / 8 + 1);
    const double start = bench_seconds();
    row->ways[way].run(row->state, iterations);
    return bench_seconds() - start;
}

/* Where ranks take turns on a CPU, a batch has to last as many turns more, to see the same share of each. */
static double batch_seconds(const bench *b, const measure_row *row) {
    const double turns = row->active > b->cpus && b->cpus > 0 ? (double)row->active / b->cpus : 1.0;
    return b->opt.batch_seconds * turns;
}

/* How many iterations last about as long as a batch should; rank 0 decides. */
static long calibrate(const bench *b, const measure_row *row, int way) {
    const double target = batch_seconds(b, row);
    const long most = 1L << 30;
    long iterations = 1;
    for (;;) {
        double seconds = run_batch(b, row, way, iterations);
        bench_meet(b); /* nobody else waits in the broadcast while rank 0 measures */
        MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, b->comm);
        if (seconds >= target / 4 || iterations >= most) {
            const double scaled = (double)iterations * target / seconds;
            return scaled < 1.0 ? 1 : (long)scaled;
        }
        iterations *= seconds < target / 64 ? 8 : 2;
    }
}

/* The repetitions of one way, in an array that holds those of all. */
static double *of_way(const bench *b, double *values, int way) {
    return values + (size_t)way * (size_t)b->opt.repeats;
}

/* of_way(seconds, way)[repetition], on rank 0 the longest of all ranks. */
static void run_repetitions(const bench *b, const measure_row *row, const long *batch, double *seconds) {
    const int repeats = b->opt.repeats;
    for (int repetition = 0; repetition < repeats; repetition++)
        for (int turn = 0; turn < row->num_ways; turn++) {
            const int way = repetition % 2 == 0 ? turn : row->num_ways - 1 - turn;
            of_way(b, seconds, way)[repetition] = run_batch(b, row, way, batch[way]);
        }
    bench_meet(b);
    const int count = row->num_ways * repeats;
    if (b->rank == 0)
        MPI_Reduce(MPI_IN_PLACE, seconds, count, MPI_DOUBLE, MPI_MAX, 0, b->comm);
    else
        MPI_Reduce(seconds, NULL, count, MPI_DOUBLE, MPI_MAX, 0, b->comm);
}

/* Turns seconds of a batch into the unit of the row. */
static double to_unit(const measure_row *row, double seconds, long iterations) {
    const double each = seconds / ((double)iterations * row->operations);
    return row->kind == MEASURE_BANDWIDTH ? (double)row->bytes / each * 1e-6 : each * 1e6;
}

static void summarise(const bench *b, const measure_row *row, double *values, double *ratios, measure_result *result) {
    const int repeats = b->opt.repeats;
    for (int way = 0; way < row->num_ways; way++)
        for (int i = 0; i < repeats; i++)
            of_way(b, values, way)[i] = to_unit(row, of_way(b, values, way)[i], result->batch[way]);
    for (int way = 0; way < row->num_ways && row->num_ways > 1; way++) {
        for (int i = 0; i < repeats; i++)
            ratios[i] = of_way(b, values, way)[i] / of_way(b, values, MEASURE_BASE)[i];
        result->ratio[way] = stats_of(ratios, repeats);
    }
    /* Last, because it sorts, and the ratios need the repetitions in step. */
    for (int way = 0; way < row->num_ways; way++)
        result->value[way] = stats_of(of_way(b, values, way), repeats);
}

void measure(const bench *b, const measure_row *row) {
    /* One more than there are ways, for the ratios. */
    double *values = calloc((size_t)(row->num_ways + 1) * (size_t)b->opt.repeats, sizeof *values);
    if (values == NULL)
        bench_fail("out of memory");
    measure_result result = {.name = row->name,
                             .memory = b->kind,
                             .bytes = row->bytes,
                             .kind = row->kind,
                             .repeats = b->opt.repeats,
                             .num_ways = row->num_ways};
    if (b->rank == 0)
        report_progress(b->out, row->name, row->bytes);
    for (int way = 0; way < row->num_ways; way++) {
        result.ways[way] = row->ways[way].name;
        result.batch[way] = calibrate(b, row, way);
    }
    run_repetitions(b, row, result.batch, values);
    if (b->rank == 0) {
        summarise(b, row, values, of_way(b, values, row->num_ways), &result);
        report_add(b->out, &result);
    }
    free(values);
}

void measure_given(const bench *b, const char *name, size_t bytes, double *seconds, int repeats) {
    bench_meet(b);
    MPI_Allreduce(MPI_IN_PLACE, seconds, repeats, MPI_DOUBLE, MPI_MAX, b->comm);
    if (b->rank != 0)
        return;
    measure_result result = {.name = name, .memory = b->kind, .bytes = bytes, .repeats = repeats, .num_ways = 1};
    result.ways[MEASURE_PEERWIN] = "peerwin";
    result.batch[MEASURE_PEERWIN] = 1;
    for (int i = 0; i < repeats; i++)
        seconds[i] *= 1e6;
    result.value[MEASURE_PEERWIN] = stats_of(seconds, repeats);
    report_add(b->out, &result);
}
