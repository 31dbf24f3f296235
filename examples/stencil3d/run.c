/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The course of a step, the same wherever the fields are and however ghosts travel.
 *
 * A step reads one place of the fields and writes the other, and each place has exchanges of its own; so a rank may be
 * a step ahead of its neighbours, and nobody waits for a neighbour to have read its ghosts: those of the other place
 * are the next to come. On a GPU exchanges have a stream of their own, and many steps are one graph.
 */
#include "stencil3d.h"

#include <string.h>

/* Turns in a graph, and before the host waits: even numbers, so that each begins with buffer 0. */
enum { TURNS = 20, TURNS_AT_ONCE = 50 * TURNS };

static double *fields_of(const struct run *run, int buffer) {
    return run->comm->fields + (size_t)buffer * run->block->buffer;
}

static void sweep(struct run *run, int buffer, const struct box *boxes, int count) {
    run->space->sweep(run->space, run->block, fields_of(run, buffer), fields_of(run, !buffer), boxes, count);
}

/* What exchanges depend on has been given to the streams by now, and the other way round. */
static void fork_streams(struct run *run) {
    run->space->fork(run->space);
}

static void join_streams(struct run *run) {
    run->space->join(run->space);
}

static void release(struct run *run, int buffer, bool captured) {
    if (!captured)
        run->comm->release(run->comm, buffer);
}

/* False if it was to be captured, and could not. */
static bool step(struct run *run, int buffer, bool captured) {
    const bool overlap = run->options->overlap;
    const struct box all = block_all(run->block), inside = block_inside(run->block);
    struct box shell[SHELL_BOXES];
    int count = 0;

    block_shell(run->block, shell, &count);
    if (!run->comm->start(run->comm, buffer))
        return false;
    if (overlap)
        sweep(run, buffer, &inside, 1);
    run->comm->finish(run->comm, buffer);
    join_streams(run);
    if (overlap)
        sweep(run, buffer, shell, count);
    else
        sweep(run, buffer, &all, 1);
    fork_streams(run);
    release(run, buffer, captured);
    return true;
}

static bool exchange(struct run *run, int buffer, bool captured) {
    if (!run->comm->start(run->comm, buffer))
        return false;
    run->comm->finish(run->comm, buffer);
    release(run, buffer, captured);
    return true;
}

/* As in a step that overlaps, or in one that does not. */
static bool sweep_all(struct run *run, int buffer) {
    const struct box all = block_all(run->block), inside = block_inside(run->block);
    struct box shell[SHELL_BOXES];
    int count = 0;

    block_shell(run->block, shell, &count);
    sweep(run, buffer, run->options->overlap ? &inside : &all, 1);
    if (run->options->overlap)
        sweep(run, buffer, shell, count);
    return true;
}

static bool turn(struct run *run, enum work work, int buffer, bool captured) {
    switch (work) {
    case WORK_STEPS:
        return step(run, buffer, captured);
    case WORK_EXCHANGES:
        return exchange(run, buffer, captured);
    default:
        return sweep_all(run, buffer);
    }
}

static bool turns(struct run *run, enum work work, int count, bool captured) {
    bool fine = true;

    fork_streams(run);
    for (int i = 0; i < count && fine; i++)
        fine = turn(run, work, i % 2, captured);
    join_streams(run);
    return fine;
}

/* ------------------------------------------------------------------------------------------------- graphs */

static void *make_graph(struct run *run, enum work work, int count) {
    run->space->record(run->space);
    const bool fine = turns(run, work, count, true);
    void *graph = run->space->recorded(run->space);
    if (fine || graph == NULL)
        return graph;
    run->space->forget(run->space, graph);
    return NULL;
}

static void drop_graphs(struct run *run) {
    for (int work = 0; work < NUM_WORKS; work++)
        for (int i = 0; i < 2; i++) {
            if (run->graph[work][i] != NULL)
                run->space->forget(run->space, run->graph[work][i]);
            run->graph[work][i] = NULL;
        }
}

/* All of them, or none: an exchange is in graphs on all ranks, or on none. */
static bool make_graphs(struct run *run) {
    const int counts[2] = {run->options->steps >= TURNS ? TURNS : 0, run->options->steps % TURNS};
    bool fine = true;

    for (int work = 0; work < NUM_WORKS && fine; work++)
        for (int i = 0; i < 2 && fine; i++)
            if (counts[i] > 0) {
                run->graph[work][i] = make_graph(run, (enum work)work, counts[i]);
                fine = run->graph[work][i] != NULL;
            }
    if (agree(fine))
        return true;
    drop_graphs(run);
    return false;
}

void run_open(struct run *run, const struct options *options, const struct block *block, struct space *space,
              struct comm *comm) {
    memset(run, 0, sizeof(*run));
    run->options = options;
    run->block = block;
    run->space = space;
    run->comm = comm;
    run->graphs = options->graphs && space->record != NULL && comm->graphs && make_graphs(run);
}

void run_close(struct run *run) {
    drop_graphs(run);
}

/* ------------------------------------------------------------------------------------------------- timing */

static void give(struct run *run, enum work work, int count) {
    if (!run->graphs) {
        turns(run, work, count, false);
        return;
    }
    for (int i = 0; i < count / TURNS; i++)
        run->space->replay(run->space, run->graph[work][0]);
    if (count % TURNS > 0)
        run->space->replay(run->space, run->graph[work][1]);
}

/* The host waits now and then: a wait has a deadline, which is meant for a few steps rather than for a long run. */
double run_work(struct run *run, enum work work) {
    const int steps = run->options->steps;

    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int done = 0; done < steps; done += TURNS_AT_ONCE) {
        give(run, work, steps - done < TURNS_AT_ONCE ? steps - done : TURNS_AT_ONCE);
        fork_streams(run);
        run->comm->wait(run->comm);
    }
    double seconds = MPI_Wtime() - begin;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return 1e6 * seconds / steps;
}
