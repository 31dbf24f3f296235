/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How fast the kernels are on one device, beside its copy engine: what the constants in launch.c are chosen by. Each
 * figure is the median of rounds in which all candidates take turns; a candidate's turn is many launches in a row,
 * timed by events, so that figures of small transfers are the time that each takes of the stream.
 */
#include "bare.h"

#include "memory/launch.h"

#include <string.h>

enum { ROUNDS = 11, MOST = 8, KIB = 1024, MIB = 1024 * KIB };

static pw_gpu *gpu;
static CUdeviceptr source, target; /* LARGEST bytes and a little each */
static const size_t LARGEST = (size_t)256 * MIB;

/* One candidate. By the copy engine if `engine`; else with as many blocks as if the device were `share` times as large;
 * a box if `shape` has rows. */
typedef struct {
    const char *name;
    int engine;
    double share;
    size_t to, from; /* offsets */
    peerwin_box shape;
} candidate;

static size_t bytes_of(const candidate *c) {
    return c->shape.count[0] * c->shape.count[1] * c->shape.count[2];
}

static void run_once(const candidate *c) {
    void *to = bare_pointer(target + c->to);
    const void *from = bare_pointer(source + c->from);
    if (c->engine)
        CU(bare.cuMemcpyAsync(target + c->to, source + c->from, bytes_of(c), NULL));
    else if (c->shape.count[1] == 1)
        OK(pw_launch_copy(gpu, NULL, to, from, bytes_of(c), &bare_site));
    else
        OK(pw_launch_box(gpu, NULL, to, &c->shape, from, &c->shape, &bare_site));
}

/* Microseconds for one of many. */
static double turn(const candidate *c, int times) {
    const int real = gpu->about.multiprocessors;
    float milliseconds = 0;
    CUevent begin, end;
    gpu->about.multiprocessors = (int)(real * c->share) > 0 ? (int)(real * c->share) : 1;
    CU(bare.cuEventCreate(&begin, CU_EVENT_DEFAULT));
    CU(bare.cuEventCreate(&end, CU_EVENT_DEFAULT));
    run_once(c);
    CU(bare.cuEventRecord(begin, NULL));
    for (int i = 0; i < times; i++)
        run_once(c);
    CU(bare.cuEventRecord(end, NULL));
    CU(bare.cuEventSynchronize(end));
    CU(bare.cuEventElapsedTime(&milliseconds, begin, end));
    CU(bare.cuEventDestroy(begin));
    CU(bare.cuEventDestroy(end));
    gpu->about.multiprocessors = real;
    return 1000.0 * (double)milliseconds / times;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void race(const char *title, const candidate *all, int count) {
    double times[MOST][ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < count; i++) {
            const size_t repeats = (size_t)64 * MIB / bytes_of(&all[i]);
            times[i][round] = turn(&all[i], repeats < 4 ? 4 : repeats > 100 ? 100 : (int)repeats);
        }
    printf("%s\n", title);
    for (int i = 0; i < count; i++) {
        qsort(times[i], ROUNDS, sizeof(double), by_size);
        const double median = times[i][ROUNDS / 2];
        printf("  %-34s %9.2f us %8.1f GB/s   (%.2f to %.2f us)\n", all[i].name, median,
               (double)bytes_of(&all[i]) / median / 1000, times[i][0], times[i][ROUNDS - 1]);
    }
}

static candidate line(const char *name, size_t bytes, double share, size_t to, size_t from) {
    return (candidate){.name = name, .share = share, .to = to, .from = from, .shape = {.count = {bytes, 1, 1}}};
}

static void copies(size_t bytes) {
    char title[64];
    candidate engine = line("copy engine", bytes, 1, 0, 0);
    engine.engine = 1;
    const candidate all[] = {engine, line("kernel", bytes, 1, 0, 0), line("kernel, both ends at 8", bytes, 1, 8, 8),
                             line("kernel, source at 8", bytes, 1, 0, 8),
                             line("kernel, target at 3, source at 6", bytes, 1, 3, 6)};
    snprintf(title, sizeof title, "copy of %zu KiB", bytes / KIB);
    race(title, all, (int)(sizeof all / sizeof *all));
}

static void grids(size_t bytes) {
    char title[64];
    const candidate all[] = {line("a quarter of the blocks: one wave", bytes, 0.25, 0, 0),
                             line("half", bytes, 0.5, 0, 0),
                             line("as launched", bytes, 1, 0, 0),
                             line("twice", bytes, 2, 0, 0),
                             line("four times", bytes, 4, 0, 0),
                             line("a quarter, shifted", bytes, 0.25, 0, 5),
                             line("as launched, shifted", bytes, 1, 0, 5),
                             line("four times, shifted", bytes, 4, 0, 5)};
    snprintf(title, sizeof title, "grids for %zu MiB", bytes / MIB);
    race(title, all, (int)(sizeof all / sizeof *all));
}

static candidate face(const char *name, size_t offset, size_t count0, size_t count1, size_t count2, size_t row,
                      size_t plane) {
    return (candidate){.name = name,
                       .share = 1,
                       .to = offset,
                       .from = 2 * offset,
                       .shape = {.count = {count0, count1, count2}, .stride = {row, plane}}};
}

/* Faces of a field of 256^3 doubles with ghosts one element wide (128 MiB), and its interior. */
static void boxes(void) {
    const size_t row = (size_t)258 * 8, plane = 258 * row, first = plane + row + 8;
    const candidate all[] = {face("x-face: 8 bytes a row", first, 8, 256, 256, row, plane),
                             face("x-face, two deep", first, 16, 256, 256, row, plane),
                             face("y-face: rows of 2 KiB", first, 2048, 1, 256, row, plane),
                             face("z-face: a plane of such rows", first, 2048, 256, 1, row, plane),
                             face("interior", first, 2048, 256, 200, row, plane),
                             face("interior of rows of 2 KiB, aligned", 0, 2048, 256, 200, 2064, 256 * 2064),
                             face("interior of bytes", 7, 2001, 256, 200, 2063, 256 * 2063)};
    race("boxes", all, (int)(sizeof all / sizeof *all));
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s DRIVER\n", argv[0]);
        return 2;
    }
    gpu = bare_open(argv[1]);
    CU(bare.cuMemAlloc(&source, LARGEST + MIB));
    CU(bare.cuMemAlloc(&target, LARGEST + MIB));
    CU(bare.cuMemsetD8(source, 1, LARGEST + MIB));
    printf("%s, %d multiprocessors\n", gpu->about.name, gpu->about.multiprocessors);
    for (size_t bytes = 4 * KIB; bytes <= LARGEST; bytes *= 4)
        copies(bytes);
    grids((size_t)MIB);
    grids((size_t)16 * MIB);
    grids(LARGEST);
    boxes();
    CU(bare.cuCtxSynchronize());
    CU(bare.cuMemFree(source));
    CU(bare.cuMemFree(target));
    bare_close(gpu);
    return 0;
}
