/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What can be called while a stream captures, and what is refused and leaves the capture alone.
 */
#include <string.h>

#include "support/calls.h"
#include "support/device.h"
#include "support/memory.h"

static CUstream stream;

static void begin(unsigned flags, CUstreamCaptureMode mode) {
    DEVICE_OK(device.cuStreamCreate(&stream, flags));
    DEVICE_OK(device.cuStreamBeginCapture(stream, mode));
}

/* The capture must be whole: its graph runs. */
static void end(peerwin_ctx *ctx) {
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    DEVICE_OK(device.cuStreamEndCapture(stream, &graph));
    DEVICE_OK(device.cuGraphInstantiateWithFlags(&exec, graph, 0));
    DEVICE_OK(device.cuGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        DEVICE_OK(device.cuGraphLaunch(exec, stream));
    }
    CHECK_OK(peerwin_stream_sync(ctx, stream));
    DEVICE_OK(device.cuGraphExecDestroy(exec));
    DEVICE_OK(device.cuStreamDestroy(stream));
}

static void end_spoiled(void) {
    CUgraph graph = NULL;
    CHECK(device.cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    DEVICE_OK(device.cuStreamDestroy(stream));
}

static void windows_can_be_made_but_not_freed_during_a_capture(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 4096);
    begin(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CHECK_OK(peerwin_barrier(ctx, stream));
    peerwin_win *other = test_window(ctx, 4096);
    CHECK_STATUS_ALL(peerwin_win_free(win), PEERWIN_ERR_STATE, "capturing");
    CHECK_STATUS_ALL(peerwin_finalize(ctx), PEERWIN_ERR_STATE, "capturing");
    CHECK_STATUS(peerwin_stream_sync(ctx, stream), PEERWIN_ERR_STATE, "capturing");
    CHECK_STATUS(peerwin_put(win, 0, 0, win, 8, NULL), PEERWIN_ERR_STATE, "legacy default stream");
    CHECK_OK(peerwin_put(win, job.rank, 0, peerwin_win_ptr(other, job.rank), 8, stream));
    end(ctx);
    CHECK_OK(peerwin_win_free(win));
    test_free(ctx, other);
}

/* The driver tells of it only by ending the capture. */
static void a_free_spoils_the_capture_of_a_non_blocking_stream_and_says_so(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 4096);
    begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
    peerwin_win *other = test_window(ctx, 4096);
    CHECK_OK(peerwin_barrier(ctx, stream));
    CHECK_STATUS_ALL(peerwin_win_free(win), PEERWIN_ERR_STATE, "capturing", "invalid");
    CHECK_STATUS(peerwin_barrier(ctx, stream), PEERWIN_ERR_STATE, "capture");
    end_spoiled();
    CHECK_OK(peerwin_win_free(win));
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    test_free(ctx, other);
}

/* Exchanges in a graph that runs three times, between exchanges outside of it; each brings what its step wrote. */
static void halo_plans_are_captured_and_run_again(void) {
    const int right = (job.rank + 1) % job.size;
    const int left = (job.rank + job.size - 1) % job.size;
    uint64_t value = 1000 + (uint64_t)job.rank;
    uint64_t got[3] = {0};
    peerwin_halo *halo = NULL;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 4096);
    const peerwin_face send = {right, 1, win, {.offset = 0, .count = {8, 1, 1}}};
    const peerwin_face recv = {left, 1, win, {.offset = 8, .count = {8, 1, 1}}};
    segment_store(win, 0, &value, 8);
    CHECK_OK(peerwin_halo_create(ctx, 1, &send, 1, &recv, 0, &halo));
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
    TEST_CASE(windows_can_be_made_but_not_freed_during_a_capture, 1, 0),
    TEST_CASE(halo_plans_are_captured_and_run_again, 1, 0),
    TEST_CASE(a_free_spoils_the_capture_of_a_non_blocking_stream_and_says_so, 2, 0),
};
TEST_MAIN(cases)
