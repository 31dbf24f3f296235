/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What it takes to begin: contexts and windows, and the first access to a mapping. Every rank does the same, and the
 * longest of all ranks counts.
 */
#include "cuda.h"

#include "cuda_stages.h"
#include "report.h"

#include <stdlib.h>

enum { FIRST_PUT = 1 << 20, TOUCH = 64 << 10 };

static double *new_values(const bench *b, int rows) {
    double *values = calloc((size_t)rows * (size_t)b->opt.repeats, sizeof *values);
    if (values == NULL)
        bench_fail("out of memory");
    return values;
}

/* -------------------------------------------------------------------------------------------------- start */

/* Everyone's first bytes to the right neighbour, and everyone waits for them. */
static void put_and_wait(const bench *b, peerwin_ctx *ctx, peerwin_win *win, const void *from) {
    const int right = (b->rank + 1) % b->size;
    const size_t bytes = b->opt.largest < FIRST_PUT ? b->opt.largest : FIRST_PUT;
    bench_check(peerwin_put(win, right, 0, from, bytes, b->device->stream), "peerwin_put");
    bench_check(peerwin_barrier(ctx, b->device->stream), "peerwin_barrier");
    bench_check(peerwin_stream_sync(ctx, b->device->stream), "peerwin_stream_sync");
}

peerwin_status bench_cuda_start(const bench *b, double seconds_out[NUM_STARTS]) {
    peerwin_ctx *ctx = NULL;
    bench_window window;
    void *from = bench_cuda_alloc(b, FIRST_PUT);
    bench_meet(b);
    const double began = bench_seconds();
    peerwin_status status = bench_cuda_init(b, &ctx);
    const double made = bench_seconds();
    if (status == PEERWIN_OK)
        status = bench_cuda_window(b, ctx, b->opt.largest, &window);
    const double mapped = bench_seconds();
    if (status == PEERWIN_OK) {
        put_and_wait(b, ctx, window.win, from);
        const double done = bench_seconds();
        seconds_out[START_INIT] = made - began;
        seconds_out[START_WINDOW] = mapped - made;
        seconds_out[START_PUT] = done - mapped;
        seconds_out[START_ALL] = done - began;
        bench_cuda_free(b, &window);
    }
    /* A context that cannot have the window is ended; what went wrong is to be read by the caller. */
    if (ctx != NULL)
        bench_check(peerwin_finalize(ctx), "peerwin_finalize");
    bench_cuda_release(b, from);
    return status;
}

void bench_cuda_case_start(const bench *b) {
    static const char *const names[NUM_STARTS] = {"start-init", "start-win", "start-put", "start"};
    const int repeats = b->opt.repeats;
    double *values = new_values(b, NUM_STARTS);
    if (b->rank == 0)
        report_progress(b->out, "start", b->opt.largest);
    for (int i = 0; i < repeats; i++) {
        double seconds[NUM_STARTS] = {0};
        bench_check(bench_cuda_start(b, seconds), "start");
        for (int part = 0; part < NUM_STARTS; part++)
            values[part * repeats + i] = seconds[part];
    }
    for (int part = 0; part < NUM_STARTS; part++)
        measure_given(b, names[part], b->opt.largest, values + (size_t)part * (size_t)repeats, repeats);
    free(values);
}

/* ----------------------------------------------------------------------------------------------- register */

enum { WIN_TOTAL = NUM_STAGES, WIN_REST, WIN_FREE, NUM_WIN_ROWS };

/* One window made and freed: seconds by stage, of all of it, of what is in no stage, and of the end. */
static void register_once(const bench *b, double seconds[NUM_WIN_ROWS]) {
    bench_window window;
    const CUdeviceptr memory = bench_cuda_memory(b, b->opt.largest);
    stages_reset();
    bench_meet(b);
    const double began = bench_seconds();
    bench_check(bench_cuda_attach(b->ctx, memory, b->opt.largest, &window), "register");
    seconds[WIN_TOTAL] = bench_seconds() - began;
    seconds[WIN_REST] = seconds[WIN_TOTAL];
    for (int stage = 0; stage < NUM_STAGES; stage++) {
        seconds[stage] = stages_seconds(stage);
        seconds[WIN_REST] -= seconds[stage];
    }
    bench_meet(b);
    const double ends = bench_seconds();
    bench_check(peerwin_win_free(window.win), "peerwin_win_free");
    seconds[WIN_FREE] = bench_seconds() - ends;
    bench_cuda_give_back(b, memory);
}

void bench_cuda_case_register(const bench *b) {
    static const char *const names[NUM_WIN_ROWS] = {
        [STAGE_CREATE] = "win-create", [STAGE_EXPORT] = "win-export", [STAGE_IMPORT] = "win-import",
        [STAGE_MAP] = "win-map",       [STAGE_ACCESS] = "win-access", [WIN_TOTAL] = "win",
        [WIN_REST] = "win-rest",       [WIN_FREE] = "win-free"};
    const int repeats = b->opt.repeats;
    double *values = new_values(b, NUM_WIN_ROWS);
    if (b->rank == 0)
        report_progress(b->out, "register", b->opt.largest);
    stages_watch(b->ctx);
    for (int i = -1; i < repeats; i++) { /* once to warm up */
        double seconds[NUM_WIN_ROWS];
        register_once(b, seconds);
        for (int row = 0; row < NUM_WIN_ROWS && i >= 0; row++)
            values[row * repeats + i] = seconds[row];
    }
    stages_unwatch(b->ctx);
    for (int row = 0; row < NUM_WIN_ROWS; row++)
        measure_given(b, names[row], b->opt.largest, values + (size_t)row * (size_t)repeats, repeats);
    free(values);
}

/* -------------------------------------------------------------------------------------------------- first */

/* Seconds of one put to the middle of the right neighbour's segment. */
static double touch(const bench *b, const bench_window *window, const void *from) {
    const size_t bytes = b->opt.largest / 2 < TOUCH ? b->opt.largest / 2 : TOUCH;
    bench_meet(b);
    const double began = bench_seconds();
    bench_check(peerwin_put(window->win, (b->rank + 1) % b->size, b->opt.largest / 2, from, bytes, b->device->stream),
                "peerwin_put");
    bench_check(peerwin_stream_sync(b->ctx, b->device->stream), "peerwin_stream_sync");
    return bench_seconds() - began;
}

/* Verification looks at the ends of a segment only, so that its middle is untouched by peers. */
void bench_cuda_case_first(const bench *b) {
    const int repeats = b->opt.repeats;
    double *first = new_values(b, 2);
    double *next = first + repeats;
    void *from = bench_cuda_alloc(b, TOUCH);
    for (int i = 0; i < repeats; i++) {
        bench_window window;
        bench_check(bench_cuda_window(b, b->ctx, b->opt.largest, &window), "first");
        first[i] = touch(b, &window, from);
        next[i] = touch(b, &window, from);
        bench_cuda_free(b, &window);
    }
    bench_cuda_release(b, from);
    measure_given(b, "first-put", TOUCH, first, repeats);
    measure_given(b, "next-put", TOUCH, next, repeats);
    free(first);
}
