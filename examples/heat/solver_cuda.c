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
 * cannot be captured (a barrier of another kind, a link without atomics), the calls are made each time.
 */
#include <stdlib.h>

#include "heat_cuda.h"

struct batches {
    bool tried; /* to make a graph */
    cudaGraphExec_t graph;
    cudaEvent_t ended[2]; /* batches, by turns */
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

/* NULL, and a word about it, if a rank's calls cannot be captured. */
static cudaGraphExec_t capture(struct problem *problem, struct comm *comm) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;

    comm->refusal[0] = '\0';
    comm->capturing = true;
    cuda_must(cudaStreamBeginCapture(stream_of(problem), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    enqueue(problem, comm);
    cuda_must(cudaStreamEndCapture(stream_of(problem), &graph), "cudaStreamEndCapture");
    comm->capturing = false;
    const bool fine = comm->refusal[0] == '\0';
    if (!fine)
        fprintf(stderr, "heat: rank %d makes no graph: %s\n", problem->block.rank, comm->refusal);
    if (agree(fine)) {
        cuda_must(cudaGraphInstantiateWithFlags(&exec, graph, 0), "cudaGraphInstantiate");
        cuda_must(cudaGraphUpload(exec, stream_of(problem)), "cudaGraphUpload");
    }
    cuda_must(cudaGraphDestroy(graph), "cudaGraphDestroy");
    return exec;
}

static void prepare(struct problem *problem, struct comm *comm) {
    struct batches *b = problem->batches;

    if (b == NULL) {
        b = problem->batches = calloc(1, sizeof(*b));
        if (b == NULL)
            cuda_must(cudaErrorMemoryAllocation, "calloc");
        for (int k = 0; k < 2; k++)
            cuda_must(cudaEventCreateWithFlags(&b->ended[k], cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    if (problem->space->graphs && !b->tried)
        b->graph = capture(problem, comm);
    b->tried = true;
    problem->space->graphs = b->graph != NULL;
}

static void launch(struct problem *problem, struct comm *comm, long batch) {
    const struct batches *b = problem->batches;

    if (b->graph != NULL)
        cuda_must(cudaGraphLaunch(b->graph, stream_of(problem)), "cudaGraphLaunch");
    else
        enqueue(problem, comm);
    cuda_must(cudaEventRecord(b->ended[batch % 2], stream_of(problem)), "cudaEventRecord");
}

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

const char *space_cuda_way(const struct space *space) {
    return space->graphs ? ", by 8 in a CUDA graph" : ", by 8 in a stream";
}

void gpu_forget(struct problem *problem) {
    struct batches *b = problem->batches;

    if (b == NULL)
        return;
    if (b->graph != NULL)
        cudaGraphExecDestroy(b->graph);
    for (int k = 0; k < 2; k++)
        cudaEventDestroy(b->ended[k]);
    free(b);
    problem->batches = NULL;
}

_Static_assert(BATCH == 8 && BATCH % 2 == 0, "the words of space_cuda_way say 8");
