/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * put and get in CUDA space. Rank 0 moves bytes between its own device memory and its partner's: by the library, which
 * chooses how; by the copy engine, with the driver's own call on the same mapping; and by the library's copy kernel
 * with the whole device. The other ranks sleep.
 */
#include "cuda.h"

#include "memory/launch.h"

#include <stdlib.h>

enum { QUEUED = 64, BACK_TO_BACK = 16, FEW = 4 };
static const size_t MIB = (size_t)1 << 20;

typedef struct {
    const bench *b;
    bool put;     /* else get */
    size_t bytes; /* of the row being measured */
    int in_a_row; /* operations before the stream is waited for */
    bench_window window;
    void *there; /* the partner's segment, mapped here */
    void *mine;  /* source of puts, destination of gets */
} transfer;

/* ------------------------------------------------------------------------------------------- the three ways */

static void by_library(const transfer *t) {
    CUstream stream = t->b->device->stream;
    if (t->put)
        bench_check(peerwin_put(t->window.win, t->b->partner, 0, t->mine, t->bytes, stream), "peerwin_put");
    else
        bench_check(peerwin_get(t->window.win, t->b->partner, 0, t->mine, t->bytes, stream), "peerwin_get");
}

static void by_engine(const transfer *t) {
    const CUdeviceptr there = pw_device_address(t->there), mine = pw_device_address(t->mine);
    bench_cuda_check(t->b->device->driver->cuMemcpyAsync(t->put ? there : mine, t->put ? mine : there, t->bytes,
                                                         t->b->device->stream),
                     "cuMemcpyAsync");
}

static void by_kernel(const transfer *t) {
    bench_check(pw_launch_copy(t->b->device->gpu, t->b->device->stream, t->put ? t->there : t->mine,
                               t->put ? t->mine : t->there, t->bytes, &bench_cuda_site),
                "the copy kernel");
}

static void wait_for_driver(const transfer *t) {
    bench_cuda_check(t->b->device->driver->cuStreamSynchronize(t->b->device->stream), "cuStreamSynchronize");
}

/* Loops: each operation waited for, by the library's own call in its case. */

static void each_library(void *state, long iterations) {
    for (long i = 0; i < iterations; i++) {
        by_library(state);
        const transfer *t = state;
        bench_check(peerwin_stream_sync(t->b->ctx, t->b->device->stream), "peerwin_stream_sync");
    }
}

static void each_engine(void *state, long iterations) {
    for (long i = 0; i < iterations; i++) {
        by_engine(state);
        wait_for_driver(state);
    }
}

static void each_kernel(void *state, long iterations) {
    for (long i = 0; i < iterations; i++) {
        by_kernel(state);
        wait_for_driver(state);
    }
}

/* Loops: several in a stream, waited for together and in all three ways by the driver. */

static void several(transfer *t, void (*one)(const transfer *t), long iterations) {
    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < t->in_a_row; k++)
            one(t);
        wait_for_driver(t);
    }
}

static void several_library(void *state, long iterations) {
    several(state, by_library, iterations);
}

static void several_engine(void *state, long iterations) {
    several(state, by_engine, iterations);
}

static void several_kernel(void *state, long iterations) {
    several(state, by_kernel, iterations);
}

/* ----------------------------------------------------------------------------------------------- the proof */

/* What is looked at: all of a small transfer, both ends of a large one. */
typedef struct {
    size_t offset[2], bytes[2];
    int count;
} probe;

static probe probe_of(size_t bytes) {
    if (bytes <= 16 * MIB)
        return (probe){{0}, {bytes}, 1};
    return (probe){{0, bytes - MIB}, {MIB, MIB}, 2};
}

static char *at(void *memory, size_t offset) {
    return (char *)memory + offset;
}

static void fill(const transfer *t, void *memory, unsigned seed) {
    const probe p = probe_of(t->bytes);
    void *host = bench_buffer(p.bytes[0]);
    for (int i = 0; i < p.count; i++) {
        bench_fill(host, p.bytes[i], seed);
        bench_check(pw_gpu_write(t->b->device->gpu, at(memory, p.offset[i]), host, p.bytes[i], &bench_cuda_site),
                    "write");
    }
    free(host);
}

static void verify(const transfer *t, void *memory, unsigned seed, const char *what) {
    const probe p = probe_of(t->bytes);
    void *host = bench_buffer(p.bytes[0]);
    for (int i = 0; i < p.count; i++) {
        bench_check(pw_gpu_read(t->b->device->gpu, host, at(memory, p.offset[i]), p.bytes[i], &bench_cuda_site),
                    "read");
        bench_verify(host, p.bytes[i], seed, what);
    }
    free(host);
}

/* One way, once: the source is filled, the bytes move, and the owner of the target looks. */
static void prove_way(transfer *t, const measure_way *way, unsigned seed) {
    const bench *b = t->b;
    void *segment = peerwin_win_ptr(t->window.win, b->rank);
    bench_meet(b);
    if (t->put && b->rank == 0)
        fill(t, t->mine, seed);
    if (!t->put && b->rank == b->partner)
        fill(t, segment, seed);
    bench_meet(b);
    if (b->rank == 0) {
        way->run(t, 1);
        bench_check(peerwin_quiet(b->ctx, b->device->stream), "peerwin_quiet");
        wait_for_driver(t);
    }
    bench_meet(b);
    if (t->put && b->rank == b->partner)
        verify(t, segment, seed, way->name);
    if (!t->put && b->rank == 0)
        verify(t, t->mine, seed, way->name);
    bench_meet(b);
}

/* ------------------------------------------------------------------------------------------------- the cases */

static const size_t sizes[] = {8,       64,      512,      4096,     32768,     262144,
                               1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, (size_t)1 << 30};
static const size_t quick_sizes[] = {8, 4096, 1 << 20};

/* Measures `row`, which names everything but the size, for every size from `least` to `most`. */
static void run_sizes(const bench *b, measure_row row, bool put, int in_a_row, size_t least, size_t most) {
    const size_t *list = b->opt.quick ? quick_sizes : sizes;
    const size_t count = b->opt.quick ? sizeof quick_sizes / sizeof *quick_sizes : sizeof sizes / sizeof *sizes;
    transfer t = {.b = b, .put = put};
    most = most < b->opt.largest ? most : b->opt.largest;
    bench_check(bench_cuda_window(b, b->ctx, most, &t.window), "window");
    t.there = peerwin_win_ptr(t.window.win, b->partner);
    if (b->rank == 0)
        t.mine = bench_cuda_alloc(b, most);
    row.active = 1;
    row.num_ways = 3;
    row.state = &t;
    for (size_t i = 0; i < count; i++) {
        if (list[i] < least || list[i] > most)
            continue;
        t.bytes = list[i];
        t.in_a_row = in_a_row > FEW && t.bytes >= 64 * MIB ? FEW : in_a_row;
        row.bytes = t.bytes;
        row.operations = t.in_a_row;
        for (int way = 0; way < row.num_ways; way++)
            prove_way(&t, &row.ways[way], (unsigned)(3 * i) + (unsigned)way + 1);
        measure(b, &row);
    }
    bench_cuda_release(b, t.mine);
    bench_cuda_free(b, &t.window);
}

static const measure_way each[] = {{"peerwin", each_library}, {"cuMemcpyAsync", each_engine}, {"kernel", each_kernel}};
static const measure_way together[] = {
    {"peerwin", several_library}, {"cuMemcpyAsync", several_engine}, {"kernel", several_kernel}};

static measure_row row_of(const char *name, measure_kind kind, const measure_way *ways) {
    return (measure_row){.name = name, .kind = kind, .ways = {ways[0], ways[1], ways[2]}};
}

void bench_cuda_case_put(const bench *b) {
    run_sizes(b, row_of("put", MEASURE_LATENCY, each), true, 1, 0, b->opt.largest);
}

void bench_cuda_case_get(const bench *b) {
    run_sizes(b, row_of("get", MEASURE_LATENCY, each), false, 1, 0, b->opt.largest);
}

void bench_cuda_case_put_stream(const bench *b) {
    run_sizes(b, row_of("put-stream", MEASURE_LATENCY, together), true, QUEUED, 0, MIB);
}

void bench_cuda_case_get_stream(const bench *b) {
    run_sizes(b, row_of("get-stream", MEASURE_LATENCY, together), false, QUEUED, 0, MIB);
}

void bench_cuda_case_put_bandwidth(const bench *b) {
    run_sizes(b, row_of("put-bw", MEASURE_BANDWIDTH, together), true, BACK_TO_BACK, MIB, b->opt.largest);
}

void bench_cuda_case_get_bandwidth(const bench *b) {
    run_sizes(b, row_of("get-bw", MEASURE_BANDWIDTH, together), false, BACK_TO_BACK, MIB, b->opt.largest);
}
