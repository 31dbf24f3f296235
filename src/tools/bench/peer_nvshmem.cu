/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The rows of peer_plan.h in NVSHMEM: what peerwin-bench --peers builds, where NVSHMEM is installed, and runs beside
 * peerwin. Each call is NVSHMEM's fastest for the job: non-blocking puts of a block, all operands symmetric and
 * aligned.
 *
 *   mpirun -n RANKS peer_nvshmem ROWS [quick]
 *
 * Rank 0 writes the file ROWS, a line for each row as it begins and is done (peer_rows.h).
 * PEER_WORKS is a mask of plan_work, for those rows only. PEER_BOOTSTRAP=uid starts NVSHMEM by a unique id instead of
 * the communicator. Exit status 1 if anything fails.
 */
#define OMPI_SKIP_MPICXX  1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include "peer_plan.h"

typedef unsigned long long u64;

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

/* ------------------------------------------------------------------------------------------------- kernels */

__device__ static u64 now() {
    u64 time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

__global__ void __launch_bounds__(1024)
    put_kernel(char *to, const char *from, size_t bytes, size_t slice, int peer, int iterations) {
    const size_t begin = blockIdx.x * slice;
    if (begin < bytes) {
        const size_t part = bytes - begin < slice ? bytes - begin : slice;
        for (int i = 0; i < iterations; i++)
            nvshmemx_putmem_nbi_block(to + begin, from + begin, part, peer);
    }
    if (threadIdx.x == 0)
        nvshmem_quiet();
}

__global__ void __launch_bounds__(1024)
    get_kernel(char *to, const char *from, size_t bytes, size_t slice, int peer, int iterations) {
    const size_t begin = blockIdx.x * slice;
    if (begin < bytes) {
        const size_t part = bytes - begin < slice ? bytes - begin : slice;
        for (int i = 0; i < iterations; i++)
            nvshmemx_getmem_nbi_block(to + begin, from + begin, part, peer);
    }
    if (threadIdx.x == 0)
        nvshmem_quiet();
}

__device__ static void await(uint64_t *flag, uint64_t value) {
    if (threadIdx.x == 0)
        nvshmem_signal_wait_until(flag, NVSHMEM_CMP_GE, value);
    __syncthreads();
}

/* Rank 0 begins; what comes is answered. */
__global__ void pingpong_kernel(char *to, const char *from, size_t bytes, uint64_t *flag, uint64_t base, int me,
                                int warm, int iterations, u64 *ns) {
    u64 began = 0;
    for (int i = 1; i <= warm + iterations; i++) {
        if (i == warm + 1)
            began = now();
        if (me != 0)
            await(flag, base + i);
        nvshmemx_putmem_signal_nbi_block(to, from, bytes, flag, base + i, NVSHMEM_SIGNAL_SET, !me);
        if (me == 0)
            await(flag, base + i);
    }
    if (threadIdx.x == 0)
        *ns = now() - began;
}

/* A word is put by one lane, more by a warp. */
__global__ void message_kernel(uint64_t *to, const uint64_t *from, size_t bytes, uint64_t *flag, uint64_t base, int me,
                               int warm, int iterations, u64 *ns) {
    u64 began = 0;
    for (int i = 1; i <= warm + iterations; i++) {
        if (i == warm + 1)
            began = now();
        for (int turn = 0; turn < 2; turn++) {
            if (turn != me) {
                if (threadIdx.x == 0)
                    nvshmem_signal_wait_until(flag, NVSHMEM_CMP_GE, base + i);
                __syncwarp();
            } else if (bytes > 8) {
                nvshmemx_putmem_signal_nbi_warp(to, from, bytes, flag, base + i, NVSHMEM_SIGNAL_SET, !me);
            } else {
                if (threadIdx.x == 0)
                    nvshmem_uint64_put_signal_nbi(to, from, 1, flag, base + i, NVSHMEM_SIGNAL_SET, !me);
                __syncwarp();
            }
        }
    }
    if (threadIdx.x == 0)
        *ns = now() - began;
}

__global__ void fetch_add_kernel(uint64_t *word, int peer, int warm, int iterations, u64 *ns) {
    uint64_t before = 0;
    u64 began = 0;
    for (int i = 1; i <= warm + iterations; i++) {
        if (i == warm + 1)
            began = now();
        before = nvshmem_uint64_atomic_fetch_add(word, 1 + (before >> 63), peer);
    }
    *ns = now() - began + (before >> 63);
}

__global__ void barrier_kernel(int warm, int iterations, u64 *ns) {
    u64 began = 0;
    for (int i = 1; i <= warm + iterations; i++) {
        if (i == warm + 1)
            began = now();
        nvshmemx_barrier_all_block();
    }
    if (threadIdx.x == 0)
        *ns = now() - began;
}

__global__ void reduce_kernel(double *to, const double *from, size_t count, int warm, int iterations, u64 *ns) {
    u64 began = 0;
    for (int i = 1; i <= warm + iterations; i++) {
        if (i == warm + 1)
            began = now();
        nvshmemx_double_sum_reduce_block(NVSHMEM_TEAM_WORLD, to, from, count);
    }
    if (threadIdx.x == 0)
        *ns = now() - began;
}

/* --------------------------------------------------------------------------------------------------- the run */

struct side {
    int rank, size, quick, warm;
    FILE *rows; /* rank 0 only */
    cudaStream_t stream;
    cudaEvent_t begin, end;
    u64 *ns;           /* of kernels that take their own time */
    char *from, *to;   /* symmetric, plan_largest + PLAN_ROOM */
    uint64_t *flag;    /* symmetric: the signal, and the word of fetch_add behind it */
    uint64_t messages; /* the signal's value so far, the same on both ranks */
    uint64_t added;    /* to the word so far */
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
        fetch_add_kernel<<<row.blocks, row.lanes, 0, s.stream>>>(s.flag + 1, 1, s.warm, iterations, s.ns);
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

/* ------------------------------------------------------------------------------------------------- the proof */

static char pattern(size_t at, int seed) {
    return (char)(at * 131 + (at >> 9) * 7 + (size_t)seed * 29 + 1);
}

/* The first and the last bytes of a transfer: written to the source, looked for in the target. */
static void ends(const plan_row &row, size_t begin[2], size_t *bytes) {
    *bytes = std::min<size_t>(row.bytes, 65536);
    begin[0] = 0;
    begin[1] = row.bytes - *bytes;
}

static void fill(const side &s, const plan_row &row, int seed) {
    size_t begin[2], bytes;
    ends(row, begin, &bytes);
    std::vector<char> host(bytes);
    CHECK(cudaMemset(s.to, 0, row.bytes + (size_t)row.to_shift));
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < bytes; i++)
            host[i] = pattern(begin[k] + i, seed);
        CHECK(cudaMemcpy(s.from + row.from_shift + begin[k], host.data(), bytes, cudaMemcpyHostToDevice));
    }
    CHECK(cudaDeviceSynchronize());
}

static void verify(const side &s, const plan_row &row, int seed) {
    size_t begin[2], bytes;
    ends(row, begin, &bytes);
    std::vector<char> host(bytes);
    for (int k = 0; k < 2; k++) {
        CHECK(cudaMemcpy(host.data(), s.to + row.to_shift + begin[k], bytes, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < bytes; i++)
            if (host[i] != pattern(begin[k] + i, seed))
                fail(row.name, "the data did not arrive");
    }
}

static bool moves_data(const plan_row &row) {
    return row.work == PLAN_PUT || row.work == PLAN_GET || row.work == PLAN_STREAM_PUT ||
           row.work == PLAN_STREAM_SIGNAL || row.work == PLAN_PUT_SIGNAL || row.work == PLAN_MESSAGE;
}

static void verify_row(const side &s, const plan_row &row, int seed) {
    const int looks = row.work == PLAN_GET ? 0 : 1;
    if (moves_data(row) && s.rank == looks)
        verify(s, row, seed);
    if (row.work == PLAN_FETCH_ADD && s.rank == 1) {
        uint64_t word = 0;
        CHECK(cudaMemcpy(&word, s.flag + 1, sizeof word, cudaMemcpyDeviceToHost));
        if (word != s.added)
            fail(row.name, "the sum is wrong");
    }
    if (row.work == PLAN_REDUCE || row.work == PLAN_STREAM_REDUCE || row.work == PLAN_GRAPH_REDUCE) {
        double sum = 0;
        CHECK(cudaMemcpy(&sum, s.to, sizeof sum, cudaMemcpyDeviceToHost));
        if (sum != s.size * (s.size + 1) / 2.0)
            fail(row.name, "the sum is wrong");
    }
}

static void prepare_row(const side &s, const plan_row &row, int seed) {
    if (moves_data(row))
        fill(s, row, seed);
    if (row.work == PLAN_REDUCE || row.work == PLAN_STREAM_REDUCE || row.work == PLAN_GRAPH_REDUCE) {
        std::vector<double> mine(8, s.rank + 1.0);
        CHECK(cudaMemcpy(s.from, mine.data(), mine.size() * sizeof(double), cudaMemcpyHostToDevice));
        CHECK(cudaDeviceSynchronize());
    }
}

/* --------------------------------------------------------------------------------------------------- the rows */

static void write_row(const side &s, const plan_row &row, double us) {
    if (s.rank != 0)
        return;
    const double value = row.bandwidth ? (double)row.bytes / us : us; /* bytes a microsecond are MB/s */
    fprintf(s.rows, "row %s %lu %s %.6g\n", row.name, row.bytes, row.bandwidth ? "MB/s" : "us", value);
    fflush(s.rows);
}

static double longest(double us) {
    double most = 0;
    MPI_Allreduce(&us, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* Whether every rank could do the batch; else rank 0 says why not. */
static bool all_could(const side &s, const plan_row &row) {
    int could = s.reason == NULL;
    MPI_Allreduce(MPI_IN_PLACE, &could, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!could && s.rank == 0) {
        fprintf(s.rows, "missing %s %lu: %s\n", row.name, row.bytes,
                s.reason != NULL ? s.reason : "another rank cannot");
        fflush(s.rows);
    }
    return could;
}

static void run_row(side &s, const plan_row &row, int seed) {
    double batches[PLAN_BATCHES];
    if (s.rank == 0) {
        fprintf(s.rows, "at %s %lu\n", row.name, row.bytes);
        fflush(s.rows);
    }
    prepare_row(s, row, seed);
    s.reason = NULL;
    for (int i = 0; i < PLAN_BATCHES; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        batches[i] = longest(run_batch(s, row, plan_iterations(&row, s.quick)));
        if (!all_could(s, row))
            return;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    verify_row(s, row, seed);
    MPI_Barrier(MPI_COMM_WORLD);
    std::sort(batches, batches + PLAN_BATCHES);
    write_row(s, row, batches[PLAN_BATCHES / 2]);
}

static const plan_row *row_of(plan_work work) {
    for (const plan_row &row : plan_rows)
        if (row.work == work)
            return &row;
    return NULL;
}

/* -------------------------------------------------------------------------------------------- begin and end */

static void init_nvshmem(const side &s) {
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    const char *way = getenv("PEER_BOOTSTRAP");
    MPI_Comm comm = MPI_COMM_WORLD;
    int status;
    if (way != NULL && strcmp(way, "uid") == 0) {
        nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
        if (s.rank == 0 && nvshmemx_get_uniqueid(&id) != 0)
            fail("nvshmemx_get_uniqueid", "failed");
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
        nvshmemx_set_attr_uniqueid_args(s.rank, s.size, &id, &attr);
        status = nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr);
    } else {
        attr.mpi_comm = &comm;
        status = nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr);
    }
    if (status != 0)
        fail("nvshmemx_init_attr", "failed");
}

static void *symmetric(size_t bytes) {
    void *memory = nvshmem_malloc(bytes);
    if (memory == NULL)
        fail("nvshmem_malloc", "no memory");
    return memory;
}

/* Init, the first window, its first put and a barrier. */
static void start(side &s) {
    char *first = NULL;
    CHECK(cudaMalloc((void **)&first, PLAN_FIRST_PUT));
    CHECK(cudaMemset(first, 1, PLAN_FIRST_PUT));
    CHECK(cudaDeviceSynchronize());
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    init_nvshmem(s);
    s.to = (char *)symmetric(room(s));
    nvshmemx_putmem_on_stream(s.to, first, PLAN_FIRST_PUT, (s.rank + 1) % s.size, s.stream);
    nvshmemx_barrier_all_on_stream(s.stream);
    CHECK(cudaStreamSynchronize(s.stream));
    s.start_us = (MPI_Wtime() - began) * 1e6;
    if (nvshmem_n_pes() != s.size || nvshmem_my_pe() != s.rank)
        fail("nvshmem", "its PEs are not the ranks");
    CHECK(cudaFree(first));
}

static void make_rest(side &s) {
    s.from = (char *)symmetric(room(s));
    s.flag = (uint64_t *)nvshmem_calloc(16, sizeof *s.flag);
    if (s.flag == NULL)
        fail("nvshmem_calloc", "no memory");
    CHECK(cudaMalloc((void **)&s.ns, sizeof *s.ns));
    CHECK(cudaEventCreate(&s.begin));
    CHECK(cudaEventCreate(&s.end));
    nvshmem_barrier_all();
}

static double finish(side &s) {
    CHECK(cudaFree(s.ns));
    CHECK(cudaEventDestroy(s.begin));
    CHECK(cudaEventDestroy(s.end));
    nvshmem_free(s.flag);
    nvshmem_free(s.from);
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    nvshmem_free(s.to);
    nvshmem_finalize();
    return (MPI_Wtime() - began) * 1e6;
}

/* The context is there before the clock starts. */
static void take_device(side &s) {
    int devices = 0, driver = 0;
    cudaDeviceProp about;
    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(s.rank % devices));
    CHECK(cudaFree(NULL));
    CHECK(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking));
    CHECK(cudaGetDeviceProperties(&about, s.rank % devices));
    CHECK(cudaDriverGetVersion(&driver));
    if (s.rank == 0)
        fprintf(s.rows, "device %s, driver for CUDA %d.%d\n", about.name, driver / 1000, driver % 1000 / 10);
}

static void run_all(side &s) {
    const char *works = getenv("PEER_WORKS"); /* bit i = rows of plan_work i */
    const unsigned long mask = works != NULL ? strtoul(works, NULL, 10) : ~0ul;
    for (int i = 0; i < PLAN_ROWS; i++) {
        const plan_row &row = plan_rows[i];
        if (plan_applies(&row, s.size, s.quick) && row.work != PLAN_START && row.work != PLAN_FINISH &&
            row.work != PLAN_COPY && (mask & 1ul << row.work) != 0)
            run_row(s, row, i);
    }
}

int main(int argc, char **argv) {
    side s = side();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &s.size);
    if (argc < 2 || argc > 3)
        fail("usage", "peer_nvshmem ROWS [quick]");
    s.quick = argc == 3 && strcmp(argv[2], "quick") == 0;
    s.warm = plan_warm(s.quick);
    if (s.rank == 0 && (s.rows = fopen(argv[1], "w")) == NULL)
        fail(argv[1], "cannot be written");
    take_device(s);
    start(s);
    if (s.rank == 0)
        fprintf(s.rows, "version %s\n", NVSHMEM_VENDOR_STRING);
    write_row(s, *row_of(PLAN_START), longest(s.start_us));
    make_rest(s);
    run_all(s);
    write_row(s, *row_of(PLAN_FINISH), longest(finish(s)));
    CHECK(cudaStreamDestroy(s.stream));
    if (s.rank == 0) {
        fputs("done\n", s.rows);
        if (fclose(s.rows) != 0)
            fail(argv[1], "cannot be written");
    }
    MPI_Finalize();
    return 0;
}
