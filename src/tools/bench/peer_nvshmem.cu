/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The rows of peer_plan.h in NVSHMEM: what peerwin-bench --peers builds, where NVSHMEM is installed, and runs beside
 * peerwin. All operands are symmetric and aligned.
 *
 *   mpirun -n RANKS peer_nvshmem ROWS [quick]
 *
 * Rank 0 writes the file ROWS, a line for each row as it begins and is done (peer_rows.h).
 * PEER_WORKS is a mask of plan_work, for those rows only. PEER_BOOTSTRAP=uid starts NVSHMEM by a unique id instead of
 * the communicator. Exit status 1 if anything fails.
 */
#include "peer_nvshmem_halo.cuh"
#include "peer_place.h"

#include <vector>

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
        uint64_t word = 0, sum = 0;
        for (size_t i = 0; i < PLAN_WORDS; i++) {
            const uint64_t *from = s.words + i * (PLAN_WORD_STEP / sizeof *s.words);
            CHECK(cudaMemcpy(&word, from, sizeof word, cudaMemcpyDeviceToHost));
            sum += word;
        }
        if (sum != s.added)
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
        const int iterations = plan_iterations(&row, s.quick);
        batches[i] = longest(row.work == PLAN_HALO ? run_halo(s, row, iterations) : run_batch(s, row, iterations));
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
    s.words = (uint64_t *)nvshmem_calloc(PLAN_WORDS, PLAN_WORD_STEP);
    if (s.flag == NULL || s.words == NULL)
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
    nvshmem_free(s.words);
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
    char cpus[PLACE_TEXT];
    cudaDeviceProp about;
    place_of_all(s.rank, s.size, cpus);
    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(s.rank % devices));
    CHECK(cudaFree(NULL));
    CHECK(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking));
    CHECK(cudaGetDeviceProperties(&about, s.rank % devices));
    CHECK(cudaDriverGetVersion(&driver));
    if (s.rank == 0)
        fprintf(s.rows, "device %s, driver for CUDA %d.%d\ncpus %s\n", about.name, driver / 1000, driver % 1000 / 10,
                cpus);
}

/* Rows that are measures for peerwin's own, and graphs whose exchanges would need numbers of their own, are none here.
 */
static bool is_mine(const plan_row &row) {
    switch (row.work) {
    case PLAN_START: /* not by a batch */
    case PLAN_FINISH:
    case PLAN_COPY:
    case PLAN_PEER_COPY:
    case PLAN_BOTH_COPY:
    case PLAN_BOTH_PUT:
    case PLAN_BOTH_STREAM:
        return false;
    default:
        return row.halo == PLAN_NO_HALO || row.work == PLAN_HALO;
    }
}

static void run_all(side &s) {
    const char *works = getenv("PEER_WORKS"); /* bit i = rows of plan_work i */
    const unsigned long mask = works != NULL ? strtoul(works, NULL, 10) : ~0ul;
    for (int i = 0; i < PLAN_ROWS; i++) {
        const plan_row &row = plan_rows[i];
        if (plan_applies(&row, s.size, s.quick) && is_mine(row) && (mask & 1ul << row.work) != 0)
            run_row(s, row, i);
    }
    close_halo();
}

int main(int argc, char **argv) {
    side s = side();
    place_take();
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
