/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * NCCL's all-reduce of a few doubles, to put beside peerwin_allreduce: one after the other on a stream, and in a graph.
 * One rank per GPU. A line for each: the median of several batches, the slowest rank's. launch/two-gpu-check builds and
 * runs it where NCCL is installed; it is no part of the build.
 */
#define OMPI_SKIP_MPICXX 1
#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCHES = 7, CALLS = 200, IN_A_GRAPH = 20 };

static int rank;
static ncclComm_t comm;
static cudaStream_t stream;
static double *values;

static void stop(const char *call, const char *why) {
    fprintf(stderr, "beside_nccl: rank %d: %s: %s\n", rank, call, why);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    exit(EXIT_FAILURE);
}

static void must(cudaError_t code, const char *call) {
    if (code != cudaSuccess)
        stop(call, cudaGetErrorString(code));
}

static void nccl_must(ncclResult_t code, const char *call) {
    if (code != ncclSuccess)
        stop(call, ncclGetErrorString(code));
}

static void open_all(void) {
    ncclUniqueId id;
    int size = 0, devices = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    must(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    must(cudaSetDevice(rank % devices), "cudaSetDevice");
    if (rank == 0)
        nccl_must(ncclGetUniqueId(&id), "ncclGetUniqueId");
    MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
    nccl_must(ncclCommInitRank(&comm, size, id, rank), "ncclCommInitRank");
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    must(cudaMalloc((void **)&values, 64 * sizeof(double)), "cudaMalloc");
    must(cudaMemsetAsync(values, 0, 64 * sizeof(double), stream), "cudaMemsetAsync");
}

static void reduce(size_t count, int calls) {
    for (int i = 0; i < calls; i++)
        nccl_must(ncclAllReduce(values, values, count, ncclDouble, ncclSum, comm, stream), "ncclAllReduce");
}

static cudaGraphExec_t make_graph(size_t count) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    reduce(count, IN_A_GRAPH);
    must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    must(cudaGraphInstantiateWithFlags(&ready, graph, 0), "cudaGraphInstantiateWithFlags");
    must(cudaGraphDestroy(graph), "cudaGraphDestroy");
    return ready;
}

static void batch(size_t count, cudaGraphExec_t graph) {
    if (graph == NULL)
        reduce(count, CALLS);
    for (int i = 0; graph != NULL && i < CALLS / IN_A_GRAPH; i++)
        must(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *what, size_t count, cudaGraphExec_t graph) {
    double times[BATCHES];
    batch(count, graph); /* warms up */
    for (int i = 0; i < BATCHES; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        batch(count, graph);
        times[i] = 1e6 * (MPI_Wtime() - begin) / CALLS;
    }
    MPI_Allreduce(MPI_IN_PLACE, times, BATCHES, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    qsort(times, BATCHES, sizeof(*times), by_value);
    if (rank == 0)
        printf("nccl all-reduce %s, %zu doubles: %.2f us\n", what, count, times[BATCHES / 2]);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    open_all();
    for (size_t count = 1; count <= 8; count *= 8) {
        measure("on a stream", count, NULL);
        cudaGraphExec_t graph = make_graph(count);
        measure("in a graph", count, graph);
        must(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
    }
    must(cudaFree(values), "cudaFree");
    nccl_must(ncclCommDestroy(comm), "ncclCommDestroy");
    must(cudaStreamDestroy(stream), "cudaStreamDestroy");
    MPI_Finalize();
    return EXIT_SUCCESS;
}
