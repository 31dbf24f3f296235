/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The solver where exchanges and sums are work for the stream: then the host need not know anything between two
 * iterations. It gives the GPU whole batches of them, one ahead of the one whose end it awaits. The GPU itself counts
 * the iterations and finds the last one, at which all ranks agree because they see the same sums; so the host may be
 * late by a batch or two without an iteration too many.
 *
 * A batch is the same work every time: it is captured once, as a CUDA graph, and launched again and again. Where it
 * cannot be captured, or where that is slower, the calls are made each time.
 */
#include <stdlib.h>

#include "heat_cuda.h"

struct batches {
    cudaGraphExec_t graph; /* NULL: calls each time */
    cudaEvent_t ended[2];  /* batches, by turns */
};

static cudaStream_t stream_of(const struct problem *problem) {
    return (cudaStream_t)problem->space->stream;
}

/* The calls of a batch. Every iteration ends what the one before has begun: the exchange of w and of the sums. */
static void enqueue(struct problem *problem, struct comm *comm) {
    for (int k = 0; k < BATCH; k++) {
        const enum shared field = k % 2 == 0 ? SHARED_W : SHARED_NEXT_W;
        comm->start(comm, field);
        comm->finish(comm, field, gpu_sums(problem));
        gpu_iterate(problem, k % 2, k == BATCH - 1);
        comm->release(comm, field);
    }
}

/* True if all is well so far; else what is not has been written down. */
static bool captured(struct comm *comm, cudaError_t code, const char *call) {
    if (comm->refusal[0] == '\0' && code != cudaSuccess)
        snprintf(comm->refusal, sizeof(comm->refusal), "%s: %s", call, cudaGetErrorString(code));
    return comm->refusal[0] == '\0';
}

/* NULL, and a word about it, if the calls of some rank cannot be captured. */
static cudaGraphExec_t capture(struct problem *problem, struct comm *comm) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;

    comm->refusal[0] = '\0';
    cuda_must(cudaStreamBeginCapture(stream_of(problem), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    comm->capturing = true;
    enqueue(problem, comm);
    comm->capturing = false;
    bool fine = captured(comm, cudaStreamEndCapture(stream_of(problem), &graph), "cudaStreamEndCapture");
    if (fine)
        fine = captured(comm, cudaGraphInstantiateWithFlags(&exec, graph, 0), "cudaGraphInstantiate");
    if (!fine)
        fprintf(stderr, "heat: rank %d makes no graph: %s\n", problem->block.rank, comm->refusal);
    if (graph != NULL)
        cuda_must(cudaGraphDestroy(graph), "cudaGraphDestroy");
    if (!agree(fine) && exec != NULL) {
        cuda_must(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
        exec = NULL;
    }
    if (exec != NULL)
        cuda_must(cudaGraphUpload(exec, stream_of(problem)), "cudaGraphUpload");
    return exec;
}

static void launch(struct problem *problem, struct comm *comm, long batch) {
    const struct batches *b = problem->batches;

    if (b->graph != NULL)
        cuda_must(cudaGraphLaunch(b->graph, stream_of(problem)), "cudaGraphLaunch");
    else
        enqueue(problem, comm);
    cuda_must(cudaEventRecord(b->ended[batch % 2], stream_of(problem)), "cudaEventRecord");
}

/* ------------------------------------------------------------------------------ a graph, or calls each time */

/* Seconds for some batches, those of the slowest rank. Before the first step they have nothing to do but to meet. */
static double try_batches(struct problem *problem, struct comm *comm) {
    enum { TRIED = 8 };
    double seconds = 0;

    launch(problem, comm, 0);
    comm->settle(comm);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int batch = 0; batch < TRIED; batch++)
        launch(problem, comm, batch);
    comm->settle(comm);
    seconds = MPI_Wtime() - begin;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

static void drop_graph(struct batches *b) {
    cuda_must(cudaGraphExecDestroy(b->graph), "cudaGraphExecDestroy");
    b->graph = NULL;
}

/*
 * Ranks that take turns on a GPU wait longer inside a graph, where no ghosts can be released early. So both ways are
 * tried, and the graph is kept unless the calls are clearly faster. Ghosts that those have released are exchanged once
 * more: a graph may not find them so.
 */
static void choose(struct problem *problem, struct comm *comm) {
    struct batches *b = problem->batches;
    const double as_graph = try_batches(problem, comm);
    cudaGraphExec_t graph = b->graph;

    b->graph = NULL;
    const double as_calls = try_batches(problem, comm);
    b->graph = graph;
    if (as_calls < 0.9 * as_graph) {
        drop_graph(b);
        return;
    }
    exchange(comm, SHARED_W);
    exchange(comm, SHARED_NEXT_W);
}

static void prepare(struct problem *problem, struct comm *comm) {
    struct batches *b = problem->batches;

    if (b != NULL)
        return;
    b = problem->batches = calloc(1, sizeof(*b));
    if (b == NULL)
        cuda_must(cudaErrorMemoryAllocation, "calloc");
    for (int k = 0; k < 2; k++)
        cuda_must(cudaEventCreateWithFlags(&b->ended[k], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    if (problem->space->graph != GRAPH_NO)
        b->graph = capture(problem, comm);
    if (problem->space->graph == GRAPH_AUTO && b->graph != NULL)
        choose(problem, comm);
}

/* --------------------------------------------------------------------------------------------------- a step */

/* All ranks launch equally many batches: what they look at is the same, however late each of them looks. */
int gpu_solve(struct problem *problem, struct comm *comm, struct progress *progress) {
    const struct batch_report *report = NULL;
    long batch = 0;

    prepare(problem, comm);
    exchange(comm, SHARED_U);
    problem->space->residual(problem);
    exchange(comm, SHARED_R);
    gpu_begin(problem);
    launch(problem, comm, batch);
    do {
        launch(problem, comm, batch + 1);
        cuda_must(cudaEventSynchronize(problem->batches->ended[batch % 2]), "cudaEventSynchronize");
        comm->check(comm);
        report = gpu_report(problem, batch++);
        progress_tick(progress, report->iterations, sqrt(report->rr));
    } while (!report->done);
    return report->iterations;
}

const char *gpu_way(const struct problem *problem) {
    _Static_assert(BATCH == 8, "the words say 8");
    return problem->batches != NULL && problem->batches->graph != NULL ? ", by 8 in a CUDA graph"
                                                                       : ", by 8 in a stream";
}

void gpu_forget(struct problem *problem) {
    struct batches *b = problem->batches;

    if (b == NULL)
        return;
    if (b->graph != NULL)
        drop_graph(b);
    for (int k = 0; k < 2; k++)
        cudaEventDestroy(b->ended[k]);
    free(b);
    problem->batches = NULL;
}
