/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Exchange of ghosts in CUDA space, back to back in a stream: a plan beside packing and the copy engine, and beside a
 * kernel that copies as many contiguous bytes; the same in a graph; and beside packing and MPI through the host. Rows
 * are named for the grid of ranks, their bytes are the faces that one rank sends, its own included. Rows with "z" or
 * "x" have faces in the one dimension only that is cut: the one that varies slowest, or fastest.
 */
#define _GNU_SOURCE
#include "halo_plan.h"
#include "halo_run.h"
#include "report.h"

#include <string.h>

enum { IN_A_ROW = 16, ONE_BY_ONE = 1 };

/* ------------------------------------------------------------------------------------------------ timed loops */

static void repeat(halo_run *run, halo_way *way, int times, long iterations) {
    for (long i = 0; i < iterations; i++) {
        bench_check(way(run, times), "exchange");
        halo_run_wait(run);
    }
}

static void loop_plan(void *state, long iterations) {
    repeat(state, halo_by_plan, IN_A_ROW, iterations);
}

static void loop_graph(void *state, long iterations) {
    repeat(state, halo_by_graph, ONE_BY_ONE, iterations);
}

static void loop_engine(void *state, long iterations) {
    repeat(state, halo_by_engine, IN_A_ROW, iterations);
}

static void loop_mpi(void *state, long iterations) {
    repeat(state, halo_by_mpi, IN_A_ROW, iterations);
}

static void loop_copy(void *state, long iterations) {
    repeat(state, halo_by_copy, IN_A_ROW, iterations);
}

/* ------------------------------------------------------------------------------------------------------- rows */

static void run_row(halo_run *run, const char *what, measure_row row) {
    char name[48];
    halo_plan_name(&run->shape, what, name, sizeof name);
    row.name = name;
    row.bytes = (size_t)shape_sent(&run->shape, 0);
    row.kind = MEASURE_LATENCY;
    row.active = run->b->size;
    row.operations = IN_A_ROW;
    row.state = run;
    measure(run->b, &row);
}

static void run_graph(halo_run *run) {
    char name[48];
    halo_plan_name(&run->shape, "-graph", name, sizeof name);
    int could = halo_run_prove(run, halo_by_graph) == PEERWIN_OK;
    MPI_Allreduce(MPI_IN_PLACE, &could, 1, MPI_INT, MPI_LAND, run->b->comm);
    if (could)
        run_row(run, "-graph", (measure_row){.num_ways = 1, .ways = {{"peerwin", loop_graph}}});
    else if (run->b->rank == 0)
        report_note(run->b->out, name, peerwin_last_error());
}

static void open_run(halo_run *run, const bench *b, const peer_driver *more, const halo_shape *shape) {
    if (!halo_run_open(run, b, b->ctx, b->device->stream, more, shape))
        bench_fail("the kernels were there before");
    bench_check(halo_run_prove(run, halo_by_plan), "a plan");
    bench_check(halo_run_prove(run, halo_by_engine), "the copy engine");
}

static void run_shape(const bench *b, const peer_driver *more, const halo_shape *shape) {
    halo_run run;
    open_run(&run, b, more, shape);
    bench_check(halo_run_prove(&run, halo_by_mpi), "MPI");
    run_row(&run, "",
            (measure_row){.num_ways = 3,
                          .ways = {{"peerwin", loop_plan}, {"cuMemcpyAsync", loop_engine}, {"kernel", loop_copy}}});
    run_graph(&run);
    run_row(&run, "-mpi", (measure_row){.num_ways = 2, .ways = {{"peerwin", loop_plan}, {"MPI", loop_mpi}}});
    halo_run_close(&run);
}

/* Faces of one dimension alone. */
static void run_cut(const bench *b, const peer_driver *more, const halo_shape *shape, int d, const char *what) {
    halo_run run;
    halo_shape only = *shape;
    for (int k = 0; k < only.dims; k++) {
        only.grid[k] = k == d ? b->size : 1;
        only.periodic[k] = k == d;
    }
    open_run(&run, b, more, &only);
    run_row(&run, what,
            (measure_row){.num_ways = 3,
                          .ways = {{"peerwin", loop_plan}, {"cuMemcpyAsync", loop_engine}, {"kernel", loop_copy}}});
    halo_run_close(&run);
}

static void run_block(const bench *b, const peer_driver *more, const options_halo *block) {
    const halo_shape shape = halo_shape_of(b->size, block, false);
    run_shape(b, more, &shape);
    if (block->dims != SHAPE_DIMS || b->size == 1)
        return;
    run_cut(b, more, &shape, 0, "-z");
    run_cut(b, more, &shape, SHAPE_DIMS - 1, "-x");
}

/* Whether this build has kernels for the device. */
static bool has_kernels(const bench *b, const peer_driver *more) {
    const options_halo smallest = {.dims = 1, .cells = 1, .depth = 1, .fields = 1, .elem = 8};
    const halo_shape shape = halo_shape_of(b->size, &smallest, false);
    halo_run run;
    if (!halo_run_open(&run, b, b->ctx, b->device->stream, more, &shape))
        return false;
    halo_run_close(&run);
    return true;
}

typedef struct {
    const options_halo *list;
    size_t count;
} block_list;

/* All kinds of memory are alike here: among all other cases there are few blocks, and one kind has them. */
static block_list choose_blocks(const bench *b) {
    static const options_halo quick[] = {{2, 64, 1, 2, 4}, {3, 12, 2, 1, 8}};
    static const options_halo few[] = {{2, 512, 1, 1, 8}, {3, 64, 1, 1, 8}, {3, 256, 1, 4, 8}};
    static const options_halo many[] = {{1, 4096, 1, 1, 8}, {2, 512, 1, 1, 8}, {3, 64, 1, 1, 8},  {3, 256, 1, 1, 8},
                                        {3, 256, 1, 4, 8},  {3, 256, 2, 1, 8}, {3, 256, 1, 1, 4}, {3, 256, 1, 1, 16}};
    if (b->opt.halo.dims > 0)
        return (block_list){&b->opt.halo, 1};
    if (b->opt.quick)
        return (block_list){quick, sizeof quick / sizeof *quick};
    return b->opt.only != NULL ? (block_list){many, sizeof many / sizeof *many}
                               : (block_list){few, sizeof few / sizeof *few};
}

void bench_cuda_case_halo(const bench *b) {
    const block_list blocks = choose_blocks(b);
    peer_driver more;
    peer_driver_load(&more);
    if ((b->opt.only == NULL && b->device->kind != PEERWIN_HANDLE_FD) || !has_kernels(b, &more))
        return;
    for (size_t i = 0; i < blocks.count; i++)
        run_block(b, &more, &blocks.list[i]);
}
