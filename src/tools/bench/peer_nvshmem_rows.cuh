/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One batch of each row in NVSHMEM: what is launched or put into the stream, and how its time is taken.
 */
#ifndef PEERWIN_BENCH_PEER_NVSHMEM_ROWS_CUH
#define PEERWIN_BENCH_PEER_NVSHMEM_ROWS_CUH

#define OMPI_SKIP_MPICXX  1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "peer_nvshmem_kernels.cuh"
#include "peer_plan.h"

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        const cudaError_t code = (call);                                                                               \
        if (code != cudaSuccess)                                                                                       \
            fail(#call, cudaGetErrorString(code));                                                                     \
    } while (0)

static void fail(const char *what, const char *why) {
    fprintf(stderr, "peer_nvshmem: %s: %s\n", what, why);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

struct side {
    int rank, size, quick, warm;
    FILE *rows; /* rank 0 only */
    cudaStream_t stream;
    cudaEvent_t begin, end;
    u64 *ns;           /* of kernels that take their own time */
    char *from, *to;   /* symmetric, plan_largest + PLAN_ROOM */
    uint64_t *flag;    /* symmetric: the signal */
    uint64_t *words;   /* symmetric: of fetch_add */
    uint64_t messages; /* the signal's value so far, the same on both ranks */
    uint64_t added;    /* to the words so far */
    double start_us;
    const char *reason; /* why this rank could not do a row, NULL = it could */
};

static size_t room(const side &s) {
    return plan_largest(s.quick) + PLAN_ROOM;
}

/* Kernels that wait for the other rank's must all be on the device: NVSHMEM's own launch sees to that. */
static void launch_together(const side &s, const void *kernel, const plan_row &row, void **args) {
    if (nvshmemx_collective_launch(kernel, dim3(row.blocks), dim3(row.lanes), args, 0, s.stream) != 0)
        fail(row.name, "nvshmemx_collective_launch failed");
}

/* Microseconds that a kernel has measured. */
static double read_clock(const side &s) {
    u64 ns = 0;
    CHECK(cudaStreamSynchronize(s.stream));
    CHECK(cudaMemcpy(&ns, s.ns, sizeof ns, cudaMemcpyDeviceToHost));
    return (double)ns * 1e-3;
}

static double between_events(const side &s) {
    float ms = 0;
    CHECK(cudaEventSynchronize(s.end));
    CHECK(cudaEventElapsedTime(&ms, s.begin, s.end));
    return (double)ms * 1e3;
}

/* Once to warm up, then between events. */
template <class Work> static double timed(const side &s, const Work &work) {
    work(plan_warm(1));
    CHECK(cudaStreamSynchronize(s.stream));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(cudaEventRecord(s.begin, s.stream));
    work(0);
    CHECK(cudaEventRecord(s.end, s.stream));
    return between_events(s);
}

static void launch_transfer(side &s, const plan_row &row, int times) {
    const size_t slice = plan_slice(row.bytes, row.blocks);
    if (row.work == PLAN_PUT)
        put_kernel<<<row.blocks, row.lanes, 0, s.stream>>>(s.to + row.to_shift, s.from + row.from_shift, row.bytes,
                                                           slice, 1, times);
    else
        get_kernel<<<row.blocks, row.lanes, 0, s.stream>>>(s.to + row.to_shift, s.from + row.from_shift, row.bytes,
                                                           slice, 1, times);
    const cudaError_t code = cudaGetLastError();
    if (code != cudaSuccess)
        s.reason = cudaGetErrorString(code);
}

static double run_put(side &s, const plan_row &row, int iterations) {
    if (s.rank != 0)
        return 0.0;
    launch_transfer(s, row, 1);
    CHECK(cudaStreamSynchronize(s.stream));
    CHECK(cudaEventRecord(s.begin, s.stream));
    launch_transfer(s, row, iterations);
    CHECK(cudaEventRecord(s.end, s.stream));
    return between_events(s) / iterations;
}

static double run_pingpong(side &s, const plan_row &row, int iterations) {
    size_t bytes = row.bytes;
    int warm = s.warm;
    void *args[] = {&s.to, &s.from, &bytes, &s.flag, &s.messages, &s.rank, &warm, &iterations, &s.ns};
    const bool message = row.work == PLAN_MESSAGE;
    launch_together(s, message ? (const void *)message_kernel : (const void *)pingpong_kernel, row, args);
    const double us = read_clock(s);
    s.messages += (uint64_t)(warm + iterations);
    return us / (2.0 * iterations);
}

static double run_fetch_add(side &s, const plan_row &row, int iterations) {
    if (s.rank == 0)
        fetch_add_kernel<<<row.blocks, row.lanes, 0, s.stream>>>(s.words, 1, s.warm, iterations, s.ns);
    CHECK(cudaGetLastError());
    s.added += (uint64_t)(s.warm + iterations);
    return s.rank == 0 ? read_clock(s) / iterations : 0.0;
}

static double run_barrier(side &s, const plan_row &row, int iterations) {
    int warm = s.warm;
    void *args[] = {&warm, &iterations, &s.ns};
    launch_together(s, (const void *)barrier_kernel, row, args);
    return read_clock(s) / iterations;
}

static double run_reduce(side &s, const plan_row &row, int iterations) {
    double *to = (double *)s.to, *from = (double *)s.from;
    size_t count = row.bytes / sizeof(double);
    int warm = s.warm;
    void *args[] = {&to, &from, &count, &warm, &iterations, &s.ns};
    launch_together(s, (const void *)reduce_kernel, row, args);
    return read_clock(s) / iterations;
}

static double run_stream_put(side &s, const plan_row &row, int iterations) {
    const auto work = [&](int few) {
        for (int i = 0; s.rank == 0 && i < (few != 0 ? few : iterations); i++)
            nvshmemx_putmem_on_stream(s.to, s.from, row.bytes, 1, s.stream);
    };
    const double us = timed(s, work) / iterations;
    return s.rank == 0 ? us : 0.0;
}

static double run_stream_signal(side &s, const plan_row &row, int iterations) {
    const auto work = [&](int few) {
        for (int i = 0; i < (few != 0 ? few : iterations); i++) {
            s.messages++;
            if (s.rank != 0)
                nvshmemx_signal_wait_until_on_stream(s.flag, NVSHMEM_CMP_GE, s.messages, s.stream);
            nvshmemx_putmem_signal_on_stream(s.to, s.from, row.bytes, s.flag, s.messages, NVSHMEM_SIGNAL_SET, !s.rank,
                                             s.stream);
            if (s.rank == 0)
                nvshmemx_signal_wait_until_on_stream(s.flag, NVSHMEM_CMP_GE, s.messages, s.stream);
        }
    };
    return timed(s, work) / (2.0 * iterations);
}

static double run_stream_barrier(side &s, int iterations) {
    const auto work = [&](int few) {
        for (int i = 0; i < (few != 0 ? few : iterations); i++)
            nvshmemx_barrier_all_on_stream(s.stream);
    };
    return timed(s, work) / iterations;
}

static void reduce_on_stream(const side &s, const plan_row &row) {
    if (nvshmemx_double_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, (double *)s.to, (const double *)s.from,
                                             row.bytes / sizeof(double), s.stream) != 0)
        fail(row.name, "nvshmemx_double_sum_reduce_on_stream failed");
}

static double run_stream_reduce(side &s, const plan_row &row, int iterations) {
    const auto work = [&](int few) {
        for (int i = 0; i < (few != 0 ? few : iterations); i++)
            reduce_on_stream(s, row);
    };
    return timed(s, work) / iterations;
}

/* Some operations in a graph; an error that was not there before is a reason not to have the row. */
static cudaGraphExec_t capture(side &s, const plan_row &row) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    reduce_on_stream(s, row); /* what it loads cannot be loaded in a capture */
    CHECK(cudaStreamSynchronize(s.stream));
    CHECK(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < PLAN_IN_A_GRAPH; i++)
        reduce_on_stream(s, row);
    cudaError_t code = cudaStreamEndCapture(s.stream, &graph);
    if (code == cudaSuccess)
        code = cudaGraphInstantiateWithFlags(&ready, graph, 0);
    if (graph != NULL)
        cudaGraphDestroy(graph);
    if (code != cudaSuccess) {
        s.reason = cudaGetErrorString(code);
        cudaGetLastError();
    }
    return ready;
}

static double run_graph_reduce(side &s, const plan_row &row, int iterations) {
    const int launches = std::max(1, iterations / PLAN_IN_A_GRAPH);
    const cudaGraphExec_t ready = capture(s, row);
    int could = ready != NULL;
    MPI_Allreduce(MPI_IN_PLACE, &could, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    const auto work = [&](int few) {
        for (int i = 0; could && i < (few != 0 ? few : launches); i++)
            CHECK(cudaGraphLaunch(ready, s.stream));
    };
    const double us = timed(s, work) / (launches * PLAN_IN_A_GRAPH);
    if (ready != NULL)
        CHECK(cudaGraphExecDestroy(ready));
    return us;
}

/* One batch of a row: microseconds an operation on this rank, 0 if it has none. */
static double run_batch(side &s, const plan_row &row, int iterations) {
    switch (row.work) {
    case PLAN_PUT:
    case PLAN_GET:
        return run_put(s, row, iterations);
    case PLAN_PUT_SIGNAL:
    case PLAN_MESSAGE:
        return run_pingpong(s, row, iterations);
    case PLAN_FETCH_ADD:
        return run_fetch_add(s, row, iterations);
    case PLAN_BARRIER:
        return run_barrier(s, row, iterations);
    case PLAN_REDUCE:
        return run_reduce(s, row, iterations);
    case PLAN_STREAM_PUT:
        return run_stream_put(s, row, iterations);
    case PLAN_STREAM_SIGNAL:
        return run_stream_signal(s, row, iterations);
    case PLAN_STREAM_BARRIER:
        return run_stream_barrier(s, iterations);
    case PLAN_STREAM_REDUCE:
        return run_stream_reduce(s, row, iterations);
    case PLAN_GRAPH_REDUCE:
        return run_graph_reduce(s, row, iterations);
    default:
        return 0.0;
    }
}

#endif
