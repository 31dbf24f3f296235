/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The device of a context: which one it is, that the caller finds everything as it was, and how the library waits for
 * it.
 */
#include "apart.h"

#include "base/clock.h"
#include "memory/gpu_cuda.h"

#include <unistd.h>

static pw_gpu *open_with(const pw_gpu_request *request) {
    pw_gpu *gpu = NULL;
    pw_gpu_request copy = *request;
    copy.library = apart_library;
    copy.timeout_ms = copy.timeout_ms ? copy.timeout_ms : 20000;
    OK(pw_gpu_open(&copy, SITE, &gpu));
    return gpu;
}

static CUcontext current(void) {
    CUcontext now = NULL;
    CU(app.cuCtxGetCurrent(&now));
    return now;
}

/* ---- the choice ---- */

static void the_callers_context_is_joined(void) {
    CUcontext mine = NULL;
    app_start();
    CU(app.cuCtxCreate(&mine, 0, 1));
    apart_snapshot before = snapshot();
    pw_gpu *gpu = open_with(&(pw_gpu_request){.choice = PEERWIN_DEVICE_CURRENT, .node_rank = 0});
    CHECK(gpu->context == mine && gpu->ordinal == 1 && current() == mine);
    CHECK(gpu->num_access == 1 && gpu->access[0] == 1);
    pw_gpu_close(gpu);
    check_snapshot(&before, "closed");
    CHECK(current() == mine);
    CU(app.cuCtxDestroy(mine));
}

static void without_one_ranks_are_spread(void) {
    app_start();
    apart_snapshot before = snapshot();
    for (int rank = 0; rank < 5; rank++) {
        pw_gpu *gpu = open_with(&(pw_gpu_request){.choice = PEERWIN_DEVICE_CURRENT, .node_rank = rank});
        CHECK(gpu->ordinal == rank % 3 && current() == NULL);
        pw_gpu_close(gpu);
        check_snapshot(&before, "closed");
    }
}

/* SPREAD and a number mean what they say, whatever is current. */
static void a_choice_is_kept_to(void) {
    CUcontext mine = NULL;
    app_start();
    CU(app.cuCtxCreate(&mine, 0, 0));
    apart_snapshot before = snapshot();
    pw_gpu *gpu = open_with(&(pw_gpu_request){.choice = PEERWIN_DEVICE_SPREAD, .node_rank = 4});
    CHECK(gpu->ordinal == 1 && gpu->retained && gpu->context != mine && current() == mine);
    pw_gpu_close(gpu);
    gpu = open_with(&(pw_gpu_request){.choice = PEERWIN_DEVICE(2)});
    CHECK(gpu->ordinal == 2 && gpu->retained && current() == mine);
    pw_gpu_close(gpu);
    check_snapshot(&before, "closed");
    CU(app.cuCtxDestroy(mine));
}

static void devices_that_do_not_exist(void) {
    static const int wrong[] = {0, 3};
    static const int negative[] = {-1};
    pw_gpu *gpu = NULL;
    pw_gpu_request request = {.library = apart_library, .choice = PEERWIN_DEVICE(3), .timeout_ms = 1000};
    apart_snapshot before = snapshot();
    REFUSED(pw_gpu_open(&request, SITE, &gpu), PEERWIN_ERR_ARG, "device 3");
    request.choice = PEERWIN_DEVICE(0);
    request.devices = wrong;
    request.num_devices = 2;
    REFUSED(pw_gpu_open(&request, SITE, &gpu), PEERWIN_ERR_ARG, "device 3");
    request.devices = negative;
    request.num_devices = 1;
    REFUSED(pw_gpu_open(&request, SITE, &gpu), PEERWIN_ERR_ARG, "device -1");
    request.library = "/nonexistent/libcuda.so.1";
    REFUSED(pw_gpu_open(&request, SITE, &gpu), PEERWIN_ERR_UNSUPPORTED, "no CUDA driver");
    CHECK(gpu == NULL);
    check_snapshot(&before, "refused");
}

static void declared_devices_are_listed_once(void) {
    static const int devices[] = {2, 0, 2, 1, 0};
    pw_gpu *gpu = open_with(&(pw_gpu_request){.choice = PEERWIN_DEVICE(1), .devices = devices, .num_devices = 5});
    CHECK(gpu->num_access == 3 && gpu->access[0] == 1 && gpu->access[1] == 2 && gpu->access[2] == 0);
    pw_gpu_close(gpu);
    pw_gpu_close(NULL);
}

/* ---- links ---- */

static void expect_link(int devices, peerwin_link wanted, int atomics) {
    pw_device other;
    int works = -1;
    pw_gpu *gpu = open_with(&(pw_gpu_request){.choice = PEERWIN_DEVICE(0)});
    CHECK(pw_gpu_link(gpu, pw_gpu_about(gpu)->uuid, &works) == PEERWIN_LINK_SAME_DEVICE && works == 1);
    if (devices > 1) {
        OK(pw_device_describe(gpu->driver, 1, SITE, &other));
        CHECK(pw_gpu_link(gpu, other.uuid, &works) == wanted && works == atomics);
    }
    CHECK(pw_gpu_link(gpu, "GPU-00000000-0000-0000-0000-000000000000", &works) == PEERWIN_LINK_PCIE && works == 0);
    CHECK(pw_gpu_link(gpu, "", &works) == PEERWIN_LINK_PCIE && works == 0);
    pw_gpu_close(gpu);
}

static void linked_by_nvlink(void) {
    expect_link(2, PEERWIN_LINK_NVLINK, 1);
}

static void linked_by_pcie(void) {
    expect_link(2, PEERWIN_LINK_PCIE, 0);
}

static void linked_to_itself(void) {
    expect_link(1, PEERWIN_LINK_NONE, 0);
}

/* ---- inside ---- */

static void entering_nests_and_leaves_no_trace(void) {
    CUcontext mine = NULL;
    app_start();
    CU(app.cuCtxCreate(&mine, 0, 0));
    pw_gpu *gpu = open_with(&(pw_gpu_request){.choice = PEERWIN_DEVICE_SPREAD});
    apart_snapshot before = snapshot();
    for (int i = 0; i < 100; i++) {
        OK(pw_gpu_enter(gpu, SITE));
        CHECK(current() == gpu->context);
        OK(pw_gpu_enter(gpu, SITE));
        CHECK(current() == gpu->context);
        pw_gpu_leave(gpu);
        CHECK(current() == gpu->context);
        pw_gpu_leave(gpu);
        CHECK(current() == mine);
    }
    check_snapshot(&before, "entered and left");
    pw_gpu_close(gpu);
    CU(app.cuCtxDestroy(mine));
}

/* Everything that a window does, while this thread captures in the mode that forbids nearly all of it. */
static void a_capture_is_not_disturbed(void) {
    static const peerwin_handle kinds[] = {PEERWIN_HANDLE_LEGACY, PEERWIN_HANDLE_FD, PEERWIN_HANDLE_HOST};
    CUcontext mine = NULL;
    CUstream stream = NULL;
    CUgraph graph = NULL;
    CUdeviceptr refused = 0;
    app_start();
    CU(app.cuCtxCreate(&mine, 0, 0));
    CU(app.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    pw_gpu *gpu = open_with(&(pw_gpu_request){.choice = PEERWIN_DEVICE_CURRENT});
    CU(app.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(pw_gpu_enter(gpu, SITE));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pw_segment segment;
        const pw_memory_ops *ops = pw_memory_on_gpu(kinds[i]);
        OK(ops->alloc(gpu, &(pw_order){1000, 0, "x", NULL}, SITE, &segment));
        fill(gpu, segment.base, 1000, 5);
        check_fill(gpu, segment.base, 1000, 5);
        OK(ops->release(&segment));
    }
    pw_gpu_leave(gpu);
    CU(app.cuStreamEndCapture(stream, &graph)); /* not invalidated */
    CU(app.cuGraphDestroy(graph));
    /* The mode is the caller's again. */
    CU(app.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(pw_gpu_enter(gpu, SITE));
    pw_gpu_leave(gpu);
    CHECK(app.cuMemAlloc(&refused, 1000) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(app.cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    pw_gpu_close(gpu);
    CU(app.cuStreamDestroy(stream));
    CU(app.cuCtxDestroy(mine));
}

/* ---- small transfers ---- */

static void transfers_of_any_size_and_place(void) {
    static const size_t sizes[] = {0, 1, 7, 4096, 65535, 65536, 65537, 200001};
    pw_segment segment;
    uint64_t word = 0;
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    const pw_memory_ops *ops = pw_memory_on_gpu(PEERWIN_HANDLE_FD);
    OK(ops->alloc(gpu, &(pw_order){MIB, 0, "x", NULL}, SITE, &segment));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t offset = 0; offset < 20; offset += 3) {
            char *at = (char *)segment.base + 64 + offset;
            OK(pw_gpu_zero(gpu, segment.base, MIB, SITE));
            fill(gpu, at, sizes[i], 9);
            check_byte(gpu, segment.base, 64 + offset, 0);
            check_fill(gpu, at, sizes[i], 9);
            check_byte(gpu, at + sizes[i], 64, 0);
        }
    OK(pw_gpu_store(gpu, (char *)segment.base + 800, UINT64_C(0x0123456789abcdef), SITE));
    OK(pw_gpu_read(gpu, &word, (char *)segment.base + 800, sizeof word, SITE));
    CHECK(word == UINT64_C(0x0123456789abcdef));
    OK(ops->release(&segment));
    gpu_stop(gpu);
}

/* A device that is held costs the deadline; what was late is not written over anything, and the next call is right. */
static void a_device_that_is_held(void) {
    pw_segment segment;
    unsigned char byte = 0x77;
    pw_gpu *gpu = NULL;
    pw_gpu_request request = {.library = apart_library, .choice = PEERWIN_DEVICE(0), .timeout_ms = 200};
    app_start();
    OK(pw_gpu_open(&request, SITE, &gpu));
    OK(pw_gpu_enter(gpu, SITE));
    const pw_memory_ops *ops = pw_memory_on_gpu(PEERWIN_HANDLE_FD);
    OK(ops->alloc(gpu, &(pw_order){1000, 0, "x", NULL}, SITE, &segment));
    CUdeviceptr flag = pw_device_address(segment.base);
    fill(gpu, (char *)segment.base + 100, 1, 3);
    CU(app.cuStreamWaitValue32(gpu->stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    int64_t begin = pw_now();
    REFUSED(pw_gpu_read(gpu, &byte, (char *)segment.base + 100, 1, SITE), PEERWIN_ERR_TIMEOUT, "GPU-");
    REFUSED(pw_gpu_write(gpu, (char *)segment.base + 100, &byte, 1, SITE), PEERWIN_ERR_TIMEOUT, "200 ms");
    REFUSED(pw_gpu_zero(gpu, (char *)segment.base + 200, 1, SITE), PEERWIN_ERR_TIMEOUT, "200 ms");
    CHECK(pw_now() - begin >= 600 * PW_MS && pw_now() - begin < 5000 * PW_MS);
    CHECK(byte == 0x77);
    CUstream other = NULL;
    CU(app.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(app.cuStreamWriteValue32(other, flag, 1, 0));
    OK(pw_gpu_write(gpu, (char *)segment.base + 300, &byte, 1, SITE));
    check_fill(gpu, (char *)segment.base + 100, 1, 3); /* what timed out before it began did not happen */
    check_byte(gpu, (char *)segment.base + 300, 1, 0x77);
    CU(app.cuStreamDestroy(other));
    OK(ops->release(&segment));
    gpu_stop(gpu);
}

/* Streams of anybody, and several of them; a wait that does not end costs the deadline, and can be repeated. */
static void waiting_for_everything_keeps_its_deadline(void) {
    CUcontext mine = NULL;
    CUstream streams[3] = {NULL, NULL, NULL};
    CUdeviceptr flags = 0;
    app_start();
    CU(app.cuCtxCreate(&mine, 0, 0));
    pw_gpu *gpu = open_with(&(pw_gpu_request){.choice = PEERWIN_DEVICE_CURRENT});
    CU(app.cuMemAlloc(&flags, 4096));
    CU(gpu->driver->cuMemsetD8Async(flags, 0, 4096, NULL));
    CU(app.cuCtxSynchronize());
    OK(pw_gpu_enter(gpu, SITE));
    OK(pw_gpu_quiesce(gpu, SITE));
    for (unsigned i = 0; i < 3; i++) {
        CU(app.cuStreamCreate(&streams[i], i == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
        CU(app.cuStreamWaitValue32(streams[i], flags + i * sizeof(uint32_t), 1, CU_STREAM_WAIT_VALUE_GEQ));
    }
    for (unsigned i = 0; i < 3; i++) {
        REFUSED(pw_gpu_quiesce_within(gpu, 30, SITE), PEERWIN_ERR_TIMEOUT, "did not end within 30 ms");
        CU(app.cuStreamWriteValue32(gpu->stream, flags + i * sizeof(uint32_t), 1, 0));
    }
    OK(pw_gpu_quiesce(gpu, SITE));
    for (unsigned i = 0; i < 3; i++) {
        CU(gpu->driver->cuStreamQuery(streams[i]));
        CU(app.cuStreamDestroy(streams[i]));
    }
    pw_gpu_leave(gpu);
    pw_gpu_close(gpu);
    CU(app.cuMemFree(flags));
    CU(app.cuCtxDestroy(mine));
}

/* Memory that a late copy may touch is not given back, and whoever gives more of it back does not wait again. */
static void memory_of_a_device_that_is_held(void) {
    static const peerwin_handle kinds[] = {PEERWIN_HANDLE_FD, PEERWIN_HANDLE_LEGACY, PEERWIN_HANDLE_HOST};
    pw_segment segments[3];
    unsigned char byte = 1;
    CUdeviceptr flag = 0;
    CUstream other = NULL;
    pw_gpu *gpu = NULL;
    pw_gpu_request request = {.library = apart_library, .choice = PEERWIN_DEVICE(0), .timeout_ms = 300};
    app_start();
    OK(pw_gpu_open(&request, SITE, &gpu));
    OK(pw_gpu_enter(gpu, SITE));
    CU(app.cuMemAlloc(&flag, 4096));
    OK(pw_gpu_zero(gpu, pw_device_pointer(flag), 4096, SITE));
    for (int i = 0; i < 3; i++)
        OK(pw_memory_on_gpu(kinds[i])->alloc(gpu, &(pw_order){1000, 0, "x", NULL}, SITE, &segments[i]));
    CU(app.cuStreamWaitValue32(gpu->stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    CHECK_STATUS(pw_gpu_write(gpu, segments[0].base, &byte, 1, SITE), PEERWIN_ERR_TIMEOUT);
    int64_t begin = pw_now();
    for (int i = 0; i < 3; i++)
        REFUSED(segments[i].ops->release(&segments[i]), PEERWIN_ERR_TIMEOUT, "cannot be given back");
    CHECK(pw_now() - begin < 600 * PW_MS);
    CU(app.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(app.cuStreamWriteValue32(other, flag, 1, 0));
    OK(pw_gpu_settle(gpu, SITE));
    OK(pw_memory_on_gpu(PEERWIN_HANDLE_FD)
           ->alloc(gpu, &(pw_order){1000, 0, "x", NULL}, SITE, &segments[0])); /* all is well again */
    fill(gpu, segments[0].base, 1000, 1);
    OK(segments[0].ops->release(&segments[0]));
    _exit(0); /* what was left behind is for the end of the process */
}

/* A context that ends while the library's stream is held: closing takes the deadline and no longer. */
static void closing_a_device_that_is_held(void) {
    pw_gpu *gpu = NULL;
    CUcontext mine = NULL;
    CUdeviceptr flag = 0;
    CUstream other = NULL;
    pw_gpu_request request = {.library = apart_library, .choice = PEERWIN_DEVICE_CURRENT, .timeout_ms = 200};
    app_start();
    CU(app.cuCtxCreate(&mine, 0, 0));
    CU(app.cuMemAlloc(&flag, 4096));
    CU(app.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(app.cuStreamWriteValue32(other, flag, 0, 0));
    CU(app.cuCtxSynchronize());
    OK(pw_gpu_open(&request, SITE, &gpu));
    CU(app.cuStreamWaitValue32(gpu->stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    int64_t begin = pw_now();
    pw_gpu_close(gpu);
    CHECK(pw_now() - begin < 5000 * PW_MS);
    CHECK(current() == mine);
    CU(app.cuStreamWriteValue32(other, flag, 1, 0));
    _exit(0); /* what was left behind is for the end of the process */
}

/* ---- a context that is lost ---- */

static void a_lost_context_gives_everything_back(void) {
    static const peerwin_handle kinds[] = {PEERWIN_HANDLE_LEGACY, PEERWIN_HANDLE_FD, PEERWIN_HANDLE_HOST};
    pw_segment segments[3];
    apart_snapshot nothing = snapshot();
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    apart_snapshot before = snapshot();
    for (int i = 0; i < 3; i++)
        OK(pw_memory_on_gpu(kinds[i])->alloc(gpu, &(pw_order){1000, 0, "x", NULL}, SITE, &segments[i]));
    CHECK(sim.lose_context(CUDA_ERROR_MISALIGNED_ADDRESS) == 0);
    uint64_t word = 0;
    REFUSED(pw_gpu_read(gpu, &word, segments[0].base, 8, SITE), PEERWIN_ERR_CONTEXT_LOST, "MISALIGNED");
    for (int i = 0; i < 3; i++) {
        pw_segment extra;
        CHECK(pw_memory_on_gpu(kinds[i])->alloc(gpu, &(pw_order){1000, 0, "x", NULL}, SITE, &extra) != PEERWIN_OK);
        (void)segments[i].ops->release(&segments[i]);
    }
    check_snapshot(&before, "released in a lost context");
    gpu_stop(gpu);
    check_snapshot(&nothing, "closed in a lost context");
}

/* The application ends its context before the library: nothing crashes, and the caller's stack is its own. */
static void the_application_ends_its_context_first(void) {
    CUcontext mine = NULL;
    app_start();
    CU(app.cuCtxCreate(&mine, 0, 0));
    pw_gpu *gpu = open_with(&(pw_gpu_request){.choice = PEERWIN_DEVICE_CURRENT});
    CU(app.cuCtxDestroy(mine));
    REFUSED(pw_gpu_enter(gpu, SITE), PEERWIN_ERR_CONTEXT_LOST, "destroyed");
    pw_gpu_close(gpu);
    CHECK(current() == NULL);
}

/* It resets the device, and goes on with a context that has the same handle; the library's things are not in it. */
static void the_application_resets_the_device(void) {
    CUcontext mine = NULL;
    CUcontext again = NULL;
    app_start();
    CU(app.cuDevicePrimaryCtxRetain(&mine, 0));
    pw_gpu *gpu = open_with(&(pw_gpu_request){.choice = PEERWIN_DEVICE(0)});
    CU(app.cuDevicePrimaryCtxReset(0));
    REFUSED(pw_gpu_enter(gpu, SITE), PEERWIN_ERR_CONTEXT_LOST, "reset");
    CU(app.cuDevicePrimaryCtxRetain(&again, 0));
    CHECK(again == mine);
    REFUSED(pw_gpu_enter(gpu, SITE), PEERWIN_ERR_CONTEXT_LOST, "reset");
    pw_gpu_close(gpu);
    CU(app.cuDevicePrimaryCtxRelease(0));
    CU(app.cuDevicePrimaryCtxRelease(0));
}

int main(int argc, char **argv) {
    static const apart_case cases[] = {
        {"the_callers_context_is_joined", the_callers_context_is_joined, NULL, "SIMCUDA_TOPOLOGY=nvswitch:3", NULL, 1},
        {"without_one_ranks_are_spread", without_one_ranks_are_spread, NULL, "SIMCUDA_TOPOLOGY=nvswitch:3", NULL, 1},
        {"a_choice_is_kept_to", a_choice_is_kept_to, NULL, "SIMCUDA_TOPOLOGY=nvswitch:3", NULL, 1},
        {"devices_that_do_not_exist", devices_that_do_not_exist, NULL, "SIMCUDA_TOPOLOGY=nvswitch:3", NULL, 1},
        {"declared_devices_are_listed_once", declared_devices_are_listed_once, NULL, "SIMCUDA_TOPOLOGY=nvswitch:3",
         NULL, 1},
        {"linked_by_nvlink", linked_by_nvlink, NULL, "SIMCUDA_TOPOLOGY=nvswitch:2", NULL, 1},
        {"linked_by_pcie", linked_by_pcie, NULL, "SIMCUDA_TOPOLOGY=pcie-no-peer:2", NULL, 1},
        {"linked_without_atomics", linked_by_pcie, NULL, "SIMCUDA_TOPOLOGY=pcie:2 SIMCUDA_ATOMICS=0", NULL, 1},
        {"linked_to_itself", linked_to_itself, NULL, NULL, NULL, 0},
        {"entering_nests_and_leaves_no_trace", entering_nests_and_leaves_no_trace, NULL, NULL, NULL, 0},
        {"a_capture_is_not_disturbed", a_capture_is_not_disturbed, NULL, NULL, NULL, 0},
        {"transfers_of_any_size_and_place", transfers_of_any_size_and_place, NULL, NULL, NULL, 0},
        {"a_device_that_is_held", a_device_that_is_held, NULL, NULL, NULL, 0},
        {"waiting_for_everything_keeps_its_deadline", waiting_for_everything_keeps_its_deadline, NULL, NULL, NULL, 0},
        {"memory_of_a_device_that_is_held", memory_of_a_device_that_is_held, NULL, NULL, NULL, 0},
        {"closing_a_device_that_is_held", closing_a_device_that_is_held, NULL, NULL, NULL, 0},
        {"a_lost_context_gives_everything_back", a_lost_context_gives_everything_back, NULL, NULL, NULL, 1},
        {"the_application_ends_its_context_first", the_application_ends_its_context_first, NULL, "SIMCUDA_STRICT=0",
         NULL, 0},
        {"c10_the_application_resets_the_device", the_application_resets_the_device, NULL, NULL, NULL, 0},
        {NULL, NULL, NULL, NULL, NULL, 0},
    };
    return apart_main(argc, argv, cases);
}
