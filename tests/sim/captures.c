/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What can be called while a stream captures, and what is refused and leaves the capture alone.
 */
#include <string.h>

#include "peerwin/device.cuh"
#include "script.h"
#include "support/calls.h"
#include "support/device.h"
#include "support/memory.h"

/* Streams that wait for the legacy stream, and that do not: a capture on the first shows there, on the second not. */
static const unsigned kinds[] = {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING};
enum { KINDS = 2, BYTES = 4096, ATTACHED = 1 << 16 };

static CUstream stream;

static CUstream begin_another(unsigned flags, CUstreamCaptureMode mode) {
    CUstream another = NULL;
    DEVICE_OK(device.cuStreamCreate(&another, flags));
    DEVICE_OK(device.cuStreamBeginCapture(another, mode));
    return another;
}

static void begin(unsigned flags, CUstreamCaptureMode mode) {
    stream = begin_another(flags, mode);
}

/* The capture must be whole: its graph runs. While others capture, graphs are made in relaxed mode only. */
static void end_another(peerwin_ctx *ctx, CUstream another) {
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    DEVICE_OK(device.cuStreamEndCapture(another, &graph));
    DEVICE_OK(device.cuThreadExchangeStreamCaptureMode(&mode));
    DEVICE_OK(device.cuGraphInstantiateWithFlags(&exec, graph, 0));
    DEVICE_OK(device.cuGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        DEVICE_OK(device.cuGraphLaunch(exec, another));
    }
    CHECK_OK(peerwin_stream_sync(ctx, another));
    DEVICE_OK(device.cuGraphExecDestroy(exec));
    DEVICE_OK(device.cuStreamDestroy(another));
    DEVICE_OK(device.cuThreadExchangeStreamCaptureMode(&mode));
}

static void end(peerwin_ctx *ctx) {
    end_another(ctx, stream);
}

static void end_spoiled(void) {
    CUgraph graph = NULL;
    CHECK(device.cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    DEVICE_OK(device.cuStreamDestroy(stream));
}

static int right(void) {
    return (job.rank + 1) % job.size;
}

static int left(void) {
    return (job.rank + job.size - 1) % job.size;
}

/* The first word goes to the right, and comes from the left into the second. */
static peerwin_status make_ring(peerwin_win *win, peerwin_halo **halo_out, peerwin_ctx *ctx, int tag) {
    const peerwin_face send = {right(), tag, win, {.offset = 0, .count = {8, 1, 1}}};
    const peerwin_face recv = {left(), 1, win, {.offset = 8, .count = {8, 1, 1}}};
    return peerwin_halo_create(ctx, 1, &send, 1, &recv, 0, halo_out);
}

/* ---- making ---- */

static void make_during_a_capture(unsigned flags, int known) {
    uint64_t value = 70 + (uint64_t)job.rank;
    uint64_t got = 0;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *attached = NULL;
    peerwin_halo *halo = NULL;
    peerwin_view view;
    void *memory = device_new(ATTACHED);
    device_copy(memory, &value, 8);
    begin(flags, CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (known) {
        CHECK_OK(peerwin_barrier(ctx, stream));
    }
    peerwin_ctx *second = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(second, BYTES);
    CHECK_OK(peerwin_win_view(win, &view));
    CHECK_OK(peerwin_win_attach(ctx, memory, ATTACHED, NULL, &attached));
    CHECK_OK(make_ring(attached, &halo, ctx, 1));
    CHECK_OK(peerwin_halo_start(halo, stream));
    CHECK_OK(peerwin_halo_finish(halo, stream));
    CHECK_OK(peerwin_put(win, right(), 0, (char *)memory + 8, 8, stream));
    end(ctx);
    CHECK_OK(done(second, peerwin_barrier(second, job.stream)));
    segment_load(win, 0, &got, 8);
    CHECK_EQUAL(got, 70 + (left() + job.size - 1) % job.size);
    CHECK_OK(peerwin_halo_free(halo));
    CHECK_OK(peerwin_win_free(attached));
    device_free(memory);
    test_free(second, win);
    CHECK_OK(peerwin_finalize(ctx));
}

static void contexts_windows_and_plans_are_made_during_a_capture(void) {
    for (int i = 0; i < 2 * KINDS; i++) {
        make_during_a_capture(kinds[i / 2], i % 2);
    }
}

static void what_cannot_be_made_leaves_a_capture_valid(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_ctx *no_ctx = NULL;
    peerwin_win *win = test_window(ctx, BYTES);
    peerwin_win *no_win = NULL;
    peerwin_halo *no_halo = NULL;
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = job.space;
    config.device = job.rank == 0 ? PEERWIN_DEVICE(1000) : PEERWIN_DEVICE_CURRENT;
    for (int i = 0; i < KINDS; i++) {
        begin(kinds[i], CU_STREAM_CAPTURE_MODE_GLOBAL);
        CHECK_STATUS_ALL(peerwin_init(MPI_COMM_WORLD, &config, &no_ctx), PEERWIN_ERR_ARG, "device 1000");
        CHECK_STATUS_ALL(peerwin_win_attach(ctx, &config, job.rank == 0 ? 8 : 0, NULL, &no_win),
                         PEERWIN_ERR_UNSUPPORTED, "host memory");
        CHECK_STATUS_ALL(peerwin_win_alloc(ctx, (size_t)1 << 45, NULL, &no_win), PEERWIN_ERR_NO_MEMORY, "memory");
        CHECK_STATUS_ALL(make_ring(win, &no_halo, ctx, 2), PEERWIN_ERR_MISMATCH, "tag");
        CHECK_OK(peerwin_put(win, job.rank, 0, peerwin_win_ptr(win, job.rank), 8, stream));
        end(ctx);
    }
    test_free(ctx, win);
}

/* One rank has no memory for what its kernels read; by then the others have theirs, and all have the plan's window. */
static void a_plan_that_fails_late_leaves_a_capture_valid(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, BYTES);
    peerwin_halo *halo = NULL;
    for (int i = 0; i < KINDS; i++) {
        begin(kinds[i], CU_STREAM_CAPTURE_MODE_GLOBAL);
        if (job.rank == 1) {
            script_fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
        }
        CHECK_STATUS_ALL(make_ring(win, &halo, ctx, 1), PEERWIN_ERR_NO_MEMORY, "cuMemAlloc", "rank 1");
        CHECK(job.rank != 1 || script_end() == 1);
        CHECK_OK(make_ring(win, &halo, ctx, 1));
        end(ctx);
        CHECK_OK(peerwin_halo_free(halo));
    }
    test_free(ctx, win);
}

/* Makes a window, or a plan, while the nth driver call of rank 1 fails; 1 if it has so many. */
static int make_with_failure(peerwin_ctx *ctx, peerwin_win *win, int is_plan, int nth) {
    peerwin_win *made = NULL;
    peerwin_halo *halo = NULL;
    int struck = 0;
    CUgraph graph = NULL;
    begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK_OK(peerwin_put(win, job.rank, 0, peerwin_win_ptr(win, job.rank), 8, stream));
    if (job.rank == 1) {
        script_fail(NULL, nth, CUDA_ERROR_UNKNOWN);
    }
    peerwin_status status = is_plan ? make_ring(win, &halo, ctx, 1) : peerwin_win_alloc(ctx, BYTES, NULL, &made);
    struck = job.rank == 1 ? script_end() : 0;
    test_check_same(__FILE__, __LINE__, "make", status);
    DEVICE_OK(device.cuStreamEndCapture(stream, &graph));
    DEVICE_OK(device.cuGraphDestroy(graph));
    DEVICE_OK(device.cuStreamDestroy(stream));
    CHECK_OK(peerwin_halo_free(halo));
    CHECK_OK(peerwin_win_free(made));
    MPI_Bcast(&struck, 1, MPI_INT, 1, MPI_COMM_WORLD);
    return struck;
}

static void every_failure_in_making_leaves_a_capture_valid(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, BYTES);
    for (int is_plan = 0; is_plan < 2; is_plan++) {
        int nth = 1;
        while (make_with_failure(ctx, win, is_plan, nth)) {
            nth += TEST_SANITIZED ? 7 : 1;
        }
        CHECK(nth > 10);
    }
    test_free(ctx, win);
}

/* ---- ending ---- */

/* A plan and its window, and one that could be freed. */
static struct {
    peerwin_ctx *ctx;
    peerwin_win *win, *other;
    peerwin_halo *halo;
} scene;

static void set_scene(void) {
    scene.ctx = test_context(MPI_COMM_WORLD, 0);
    scene.win = test_window(scene.ctx, BYTES);
    scene.other = test_window(scene.ctx, BYTES);
    CHECK_OK(make_ring(scene.win, &scene.halo, scene.ctx, 1));
}

static void clear_scene(void) {
    CHECK_OK(done(scene.ctx, peerwin_barrier(scene.ctx, job.stream)));
    CHECK_OK(peerwin_halo_free(scene.halo));
    CHECK_OK(peerwin_win_free(scene.other));
    test_free(scene.ctx, scene.win);
}

typedef enum { PUT, BOX, PUT_SIGNAL, SIGNAL, BARRIER, ALLREDUCE, QUIET, EXCHANGE, DEEDS } deed;

/* What a capture holds of the library decides nothing: any call is enough for it to be known. */
static void do_captured(deed which, CUstream on) {
    char *mine = peerwin_win_ptr(scene.win, job.rank);
    const peerwin_box box = {.offset = 64, .count = {8, 2, 1}, .stride = {16, 32}};
    switch (which) {
    case PUT:
        CHECK_OK(peerwin_put(scene.win, job.rank, 64, mine, 8, on));
        break;
    case BOX:
        CHECK_OK(peerwin_put_box(scene.win, job.rank, &box, mine, &box, on));
        break;
    case PUT_SIGNAL:
        CHECK_OK(peerwin_put_signal(scene.win, job.rank, 64, mine, 8, 0, PEERWIN_SIGNAL_SET, 1, on));
        break;
    case SIGNAL:
        CHECK_OK(peerwin_signal(scene.win, job.rank, 0, PEERWIN_SIGNAL_SET, 1, on));
        break;
    case BARRIER:
        CHECK_OK(peerwin_barrier(scene.ctx, on));
        break;
    case ALLREDUCE:
        CHECK_OK(peerwin_allreduce(scene.ctx, mine + 128, 1, PEERWIN_INT64, PEERWIN_SUM, on));
        break;
    case QUIET:
        CHECK_OK(peerwin_quiet(scene.ctx, on));
        break;
    default:
        CHECK_OK(peerwin_halo_start(scene.halo, on));
        CHECK_OK(peerwin_halo_finish(scene.halo, on));
    }
}

static void check_refused(void) {
    CHECK_STATUS_ALL(peerwin_halo_free(scene.halo), PEERWIN_ERR_STATE, "capturing");
    CHECK_STATUS_ALL(peerwin_win_free(scene.other), PEERWIN_ERR_STATE, "capturing");
    CHECK_STATUS_ALL(peerwin_finalize(scene.ctx), PEERWIN_ERR_STATE, "capturing");
}

static void frees_are_refused_while_a_capture_has_a_call(void) {
    set_scene();
    for (int i = 0; i < DEEDS * KINDS; i++) {
        begin(kinds[i / DEEDS], CU_STREAM_CAPTURE_MODE_GLOBAL);
        do_captured((deed)(i % DEEDS), stream);
        check_refused();
        CHECK_STATUS(peerwin_stream_sync(scene.ctx, stream), PEERWIN_ERR_STATE, "capturing");
        do_captured((deed)(i % DEEDS), stream);
        end(scene.ctx);
    }
    clear_scene();
}

/* The others hear of it, and keep what they have. */
static void a_capture_on_one_rank_refuses_on_all(void) {
    set_scene();
    for (int i = 0; i < KINDS * job.size; i++) {
        const int captures = job.rank == i / KINDS;
        if (captures) {
            begin(kinds[i % KINDS], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
            do_captured(PUT, stream);
        }
        check_refused();
        if (captures) {
            end(scene.ctx);
        }
        CHECK_OK(peerwin_halo_start(scene.halo, job.stream));
        CHECK_OK(peerwin_halo_finish(scene.halo, job.stream));
        check_done(scene.ctx);
    }
    clear_scene();
}

static void join(CUstream after, CUstream before, CUevent event) {
    DEVICE_OK(device.cuEventRecord(event, before));
    DEVICE_OK(device.cuStreamWaitEvent(after, event, 0));
}

/* Three at a time, one of which has the library's calls on a stream that it took in; again and again. */
static void captures_are_known_until_the_last_has_ended(void) {
    CUevent event = NULL;
    CUstream side = NULL;
    set_scene();
    DEVICE_OK(device.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    DEVICE_OK(device.cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 5; i++) {
        begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
        CUstream second = begin_another(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
        CUstream third = begin_another(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        do_captured(PUT, stream);
        join(side, second, event);
        do_captured(BOX, side);
        do_captured(PUT, side);
        join(second, side, event);
        do_captured(SIGNAL, third);
        do_captured(PUT, stream);
        check_refused();
        end(scene.ctx);
        check_refused();
        end_another(scene.ctx, i % 2 ? second : third);
        check_refused();
        end_another(scene.ctx, i % 2 ? third : second);
        CHECK_OK(peerwin_win_free(scene.other));
        scene.other = test_window(scene.ctx, BYTES);
    }
    DEVICE_OK(device.cuStreamDestroy(side));
    DEVICE_OK(device.cuEventDestroy(event));
    clear_scene();
}

static void a_capture_on_a_blocking_stream_refuses_by_itself(void) {
    set_scene();
    begin(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_GLOBAL);
    check_refused();
    CHECK_STATUS(peerwin_put(scene.win, 0, 0, scene.win, 8, NULL), PEERWIN_ERR_STATE, "legacy default stream");
    do_captured(PUT, stream);
    end(scene.ctx);
    clear_scene();
}

/* Then each rank frees for itself, and waits for nothing that a capture would mind. */
static void a_broken_context_is_freed_during_a_capture(void) {
    CUgraph graph = NULL;
    set_scene();
    begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
    do_captured(PUT, stream);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(peerwin_abort(scene.ctx));
    CHECK_OK(peerwin_halo_free(scene.halo));
    CHECK_OK(peerwin_win_free(scene.other));
    CHECK_OK(peerwin_finalize(scene.ctx));
    CUresult ended = device.cuStreamEndCapture(stream, &graph);
    CHECK(ended == CUDA_SUCCESS || ended == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    if (ended == CUDA_SUCCESS) {
        DEVICE_OK(device.cuGraphDestroy(graph));
    }
    DEVICE_OK(device.cuStreamSynchronize(stream));
    DEVICE_OK(device.cuStreamDestroy(stream));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* It has no call of the library, and the driver tells of it only by ending it. */
static void a_free_spoils_a_capture_that_nobody_knows_and_says_so(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, BYTES);
    begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK_STATUS_ALL(peerwin_win_free(win), PEERWIN_ERR_STATE, "capturing", "invalid");
    CHECK_STATUS(peerwin_barrier(ctx, stream), PEERWIN_ERR_STATE, "capture");
    end_spoiled();
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    test_free(ctx, win);
}

/* ---- halo plans ---- */

/* Exchanges in a graph that runs three times, between exchanges outside of it; each brings what its step wrote. */
static void halo_plans_are_captured_and_run_again(void) {
    uint64_t value = 1000 + (uint64_t)job.rank;
    uint64_t got[3] = {0};
    peerwin_halo *halo = NULL;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, BYTES);
    segment_store(win, 0, &value, 8);
    CHECK_OK(make_ring(win, &halo, ctx, 1));
    CHECK_OK(peerwin_halo_start(halo, job.stream));
    CHECK_OK(peerwin_halo_finish(halo, job.stream));
    check_done(ctx);
    begin(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK_STATUS(peerwin_halo_release(halo, stream), PEERWIN_ERR_UNSUPPORTED, "capturing");
    CHECK_STATUS(peerwin_halo_finish(halo, stream), PEERWIN_ERR_STATE, "finish");
    for (int i = 0; i < 3; i++) { /* the value that came is what is sent next: it walks around the ring */
        CHECK_OK(peerwin_halo_start(halo, stream));
        CHECK_STATUS(peerwin_halo_start(halo, stream), PEERWIN_ERR_STATE, "captured");
        CHECK_OK(peerwin_halo_finish(halo, stream));
        CHECK_OK(peerwin_put(win, job.rank, 0, (char *)peerwin_win_ptr(win, job.rank) + 8, 8, stream));
    }
    end(ctx); /* runs it three times */
    segment_load(win, 8, got, 8);
    CHECK_EQUAL(got[0], 1000 + (job.rank + 9 * (job.size - 1)) % job.size);
    CHECK_OK(peerwin_halo_start(halo, job.stream));
    CHECK_OK(peerwin_halo_finish(halo, job.stream));
    check_done(ctx);
    segment_load(win, 8, got, 8);
    CHECK_EQUAL(got[0], 1000 + (job.rank + 10 * (job.size - 1)) % job.size);
    CHECK_OK(peerwin_halo_release(halo, job.stream));
    begin(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK_STATUS(peerwin_halo_start(halo, stream), PEERWIN_ERR_STATE, "released already");
    end(ctx);
    CHECK_OK(peerwin_halo_free(halo));
    test_free(ctx, win);
}

static const test_case cases[] = {
    TEST_CASE(contexts_windows_and_plans_are_made_during_a_capture, 2, 0),
    TEST_CASE(what_cannot_be_made_leaves_a_capture_valid, 2, 0),
    TEST_CASE(a_plan_that_fails_late_leaves_a_capture_valid, 2, 0),
    TEST_CASE(every_failure_in_making_leaves_a_capture_valid, 2, 0),
    TEST_CASE(frees_are_refused_while_a_capture_has_a_call, 1, 0),
    TEST_CASE(a_capture_on_one_rank_refuses_on_all, 2, 0),
    TEST_CASE(captures_are_known_until_the_last_has_ended, 1, 0),
    TEST_CASE(a_capture_on_a_blocking_stream_refuses_by_itself, 1, 0),
    TEST_CASE(halo_plans_are_captured_and_run_again, 1, 0),
    TEST_CASE(a_broken_context_is_freed_during_a_capture, 1, 0),
    TEST_CASE(a_free_spoils_a_capture_that_nobody_knows_and_says_so, 2, 0),
};
TEST_MAIN(cases)
