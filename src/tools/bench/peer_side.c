/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * peerwin's side of --peers, as a job of MPI: begin, every row that applies, end. What is moved is looked at
 * afterwards.
 */
#define _GNU_SOURCE
#include "peer_side.h"

#include "peer_place.h"
#include "peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENDS = 64 << 10 };

static size_t room(const peer_side *s) {
    return plan_largest(s->quick) + PLAN_ROOM;
}

void peer_wait(const peer_side *s) {
    bench_check(peerwin_stream_sync(s->ctx, s->stream), "peerwin_stream_sync");
}

/* ------------------------------------------------------------------------------------------------- figures */

static void write_row(FILE *rows, const plan_row *row, double us) {
    if (rows == NULL || us <= 0.0)
        return;
    const double value = row->bandwidth ? (double)row->bytes / us : us; /* bytes a microsecond are MB/s */
    fprintf(rows, "row %s %lu %s %.6g\n", row->name, row->bytes, row->bandwidth ? "MB/s" : "us", value);
    fflush(rows);
}

static void write_missing(FILE *rows, const plan_row *row, const char *reason) {
    if (rows == NULL)
        return;
    fprintf(rows, "missing %s %lu: %s\n", row->name, row->bytes, reason);
    fflush(rows);
}

static double longest(double us) {
    double most = 0.0;
    MPI_Allreduce(&us, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* ------------------------------------------------------------------------------------------------ the proof */

static bool moves_data(const plan_row *row) {
    return row->work == PLAN_PUT || row->work == PLAN_GET || row->work == PLAN_PUT_SIGNAL ||
           row->work == PLAN_STREAM_PUT || row->work == PLAN_STREAM_SIGNAL || row->work == PLAN_COPY ||
           row->work == PLAN_BOTH_PUT || row->work == PLAN_BOTH_STREAM;
}

/* The two ends of what the row moves, which may be the same. */
static size_t end_of(const plan_row *row, int k, size_t *bytes_out) {
    *bytes_out = row->bytes < ENDS ? row->bytes : ENDS;
    return k == 0 ? 0 : row->bytes - *bytes_out;
}

static void write_ends(const peer_side *s, const plan_row *row, char *to, unsigned seed, bool zero) {
    void *host = bench_buffer(ENDS);
    for (int k = 0; k < 2; k++) {
        size_t bytes;
        const size_t at = end_of(row, k, &bytes);
        bench_fill(host, bytes, seed);
        if (zero)
            memset(host, 0, bytes);
        bench_check(pw_gpu_write(s->b->device->gpu, to + at, host, bytes, &bench_cuda_site), "write");
        if (end_of(row, 1, &bytes) < ENDS)
            break; /* they overlap, and the pattern is from where it begins */
    }
    free(host);
}

static void verify_ends(const peer_side *s, const plan_row *row, const char *from, unsigned seed) {
    void *host = bench_buffer(ENDS);
    for (int k = 0; k < 2; k++) {
        size_t bytes;
        const size_t at = end_of(row, k, &bytes);
        bench_check(pw_gpu_read(s->b->device->gpu, host, from + at, bytes, &bench_cuda_site), "read");
        bench_verify(host, bytes, seed, row->name);
        if (end_of(row, 1, &bytes) < ENDS)
            break;
    }
    free(host);
}

/* get brings from the partner's window to where puts come from. */
static void prepare_row(const peer_side *s, const plan_row *row, unsigned seed) {
    const bool get = row->work == PLAN_GET;
    if (!moves_data(row))
        return;
    write_ends(s, row, (get ? s->target : s->mine) + row->from_shift, seed, false);
    write_ends(s, row, (get ? s->mine : s->target) + row->to_shift, seed, true);
}

static void verify_row(const peer_side *s, const plan_row *row, unsigned seed) {
    const bool get = row->work == PLAN_GET;
    if (moves_data(row) && s->b->rank == (get ? 0 : 1))
        verify_ends(s, row, (get ? s->mine : s->target) + row->to_shift, seed);
}

/* ------------------------------------------------------------------------------------------------ the rows */

static peerwin_status run_batch(peer_side *s, const plan_row *row, int iterations, double *us_out) {
    if (row->work == PLAN_PEER_COPY || row->work == PLAN_BOTH_COPY)
        return peer_copy_batch(s, row, iterations, us_out);
    if (row->halo != PLAN_NO_HALO)
        return peer_halo_batch(s, row, iterations, us_out);
    return row->blocks > 0 ? peer_device_batch(s, row, iterations, us_out)
                           : peer_stream_batch(s, row, iterations, us_out);
}

/* Whether every rank could; one that fails for another reason than that there is no such thing ends the job. */
static bool all_could(peerwin_status status, const plan_row *row) {
    int could = status == PEERWIN_OK;
    if (status != PEERWIN_OK && status != PEERWIN_ERR_UNSUPPORTED)
        bench_fail_call(status, row->name);
    MPI_Allreduce(MPI_IN_PLACE, &could, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return could != 0;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run_row(peer_side *s, const plan_row *row, unsigned seed, FILE *rows) {
    double batches[PLAN_BATCHES] = {0};
    if (rows != NULL) {
        fprintf(rows, "at %s %lu\n", row->name, row->bytes);
        fflush(rows);
    }
    prepare_row(s, row, seed);
    for (int i = 0; i < PLAN_BATCHES; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const peerwin_status status = run_batch(s, row, plan_iterations(row, s->quick), &batches[i]);
        if (!all_could(status, row)) {
            write_missing(rows, row, status == PEERWIN_OK ? "another rank cannot" : peerwin_last_error());
            return;
        }
        batches[i] = longest(batches[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    verify_row(s, row, seed);
    MPI_Barrier(MPI_COMM_WORLD);
    qsort(batches, PLAN_BATCHES, sizeof *batches, by_size);
    write_row(rows, row, batches[PLAN_BATCHES / 2]);
}

static bool wanted(const peer_side *s, const plan_row *row) {
    return plan_applies(row, s->b->size, s->quick) && (s->b->opt.works & 1u << row->work) != 0 &&
           (s->nccl == NULL || plan_is_nccls(row));
}

/* ------------------------------------------------------------------------------------------- begin and end */

/* Init, the first window, its first put and a barrier. */
static double start(peer_side *s) {
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = PEERWIN_SPACE_CUDA;
    config.flags = PEERWIN_STRICT;
    void *first = bench_cuda_alloc(s->b, PLAN_FIRST_PUT);
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = bench_seconds();
    bench_check(peerwin_init(MPI_COMM_WORLD, &config, &s->ctx), "peerwin_init");
    bench_check(peerwin_win_alloc(s->ctx, room(s), NULL, &s->win), "peerwin_win_alloc");
    bench_check(peerwin_put(s->win, (s->b->rank + 1) % s->b->size, 0, first, PLAN_FIRST_PUT, s->stream), "peerwin_put");
    bench_check(peerwin_barrier(s->ctx, s->stream), "peerwin_barrier");
    peer_wait(s);
    const double us = (bench_seconds() - began) * 1e6;
    bench_cuda_release(s->b, first);
    return us;
}

static void make_rest(peer_side *s) {
    s->partner = s->b->rank == 0 ? 1 : 0;
    s->target = peerwin_win_ptr(s->win, s->b->rank);
    s->there = peerwin_win_ptr(s->win, s->partner);
    s->mine = bench_cuda_alloc(s->b, room(s));
    bench_cuda_check(s->b->device->driver->cuEventCreate(&s->begin, CU_EVENT_DEFAULT), "cuEventCreate");
    bench_cuda_check(s->b->device->driver->cuEventCreate(&s->end, CU_EVENT_DEFAULT), "cuEventCreate");
}

static double finish(peer_side *s) {
    bench_cuda_check(s->b->device->driver->cuEventDestroy(s->begin), "cuEventDestroy");
    bench_cuda_check(s->b->device->driver->cuEventDestroy(s->end), "cuEventDestroy");
    bench_cuda_release(s->b, s->mine);
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = bench_seconds();
    bench_check(peerwin_win_free(s->win), "peerwin_win_free");
    bench_check(peerwin_finalize(s->ctx), "peerwin_finalize");
    return (bench_seconds() - began) * 1e6;
}

/* For a job of NCCL's side, in the environment, which all ranks have. */
static const char *nccl_library(void) {
    return getenv("PEER_NCCL");
}

/* NCCL begins after peerwin, whose memory it uses. */
static void open_nccl(peer_side *s, FILE *rows) {
    char version[32];
    if (nccl_library() == NULL)
        return;
    s->nccl = peer_nccl_open(s->b, nccl_library(), version, sizeof version);
    if (rows != NULL)
        fprintf(rows, "version NCCL %s\n", version);
}

static void run_all(peer_side *s, FILE *rows) {
    double us = longest(start(s));
    make_rest(s);
    open_nccl(s, rows);
    for (int i = 0; i < PLAN_ROWS; i++) {
        const plan_row *row = &plan_rows[i];
        if (!wanted(s, row) || row->work == PLAN_FINISH)
            continue;
        if (row->work == PLAN_START)
            write_row(rows, row, us);
        else
            run_row(s, row, (unsigned)i + 1, rows);
    }
    peer_copy_close(s);
    peer_halo_close(s);
    peer_nccl_close(s->nccl);
    us = longest(finish(s));
    for (int i = 0; i < PLAN_ROWS; i++)
        if (wanted(s, &plan_rows[i]) && plan_rows[i].work == PLAN_FINISH)
            write_row(rows, &plan_rows[i], us);
}

static FILE *open_rows(const bench *b, const char *device) {
    char cpus[PLACE_TEXT];
    place_of_all(b->rank, b->size, cpus);
    if (b->rank != 0)
        return NULL;
    FILE *rows = fopen(b->opt.peer_run, "we");
    if (rows == NULL)
        bench_fail("cannot write %s", b->opt.peer_run);
    fprintf(rows, "device %s\ncpus %s\n", device, cpus);
    if (nccl_library() == NULL)
        fprintf(rows, "version peerwin v%d.%d.%d\n", PEERWIN_VERSION_MAJOR, PEERWIN_VERSION_MINOR,
                PEERWIN_VERSION_PATCH);
    return rows;
}

bool bench_peer_run(bench *b) {
    bench_device device = {0};
    peer_side side = {.b = b, .quick = b->opt.quick, .warm = plan_warm(b->opt.quick)};
    bool good = b->size >= 2 && bench_cuda_open(&device);
    if (b->size < 2)
        fputs("peerwin-bench: --one-side needs two ranks or more\n", stderr);
    b->device = &device;
    if (good) {
        FILE *rows = open_rows(b, device.name);
        side.stream = device.stream;
        peer_driver_load(&side.more);
        peer_kernels_load(&side);
        run_all(&side, rows);
        peer_kernels_unload(&side);
        if (rows != NULL)
            good = fputs("done\n", rows) >= 0 && fclose(rows) == 0;
    }
    if (b->size >= 2)
        bench_cuda_close(&device);
    b->device = NULL;
    return good;
}
