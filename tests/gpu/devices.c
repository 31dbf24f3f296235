/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that drives several devices: kernels and copies on each device that it has declared reach its own segment and
 * those of its peers.
 */
#include "rig.h"
#include "support/memory.h"

enum { WORDS = 1 << 17, MOST_DEVICES = 16 };

/* The context of a device, and one of the kernels in it. */
typedef struct {
    CUdevice device;
    CUcontext context, before;
    CUmodule module;
    CUfunction check;
} seat;

extern const char rig_image[];

static seat sit(int ordinal) {
    seat s = {0};
    DEVICE_OK(device.cuCtxGetCurrent(&s.before));
    DEVICE_OK(device.cuDeviceGet(&s.device, ordinal));
    DEVICE_OK(device.cuDevicePrimaryCtxRetain(&s.context, s.device));
    DEVICE_OK(device.cuCtxSetCurrent(s.context));
    DEVICE_OK(device.cuModuleLoadData(&s.module, rig_image));
    DEVICE_OK(device.cuModuleGetFunction(&s.check, s.module, "rig_check"));
    return s;
}

static void stand_up(seat *s) {
    DEVICE_OK(device.cuModuleUnload(s->module));
    DEVICE_OK(device.cuCtxSetCurrent(s->before));
    DEVICE_OK(device.cuDevicePrimaryCtxRelease(s->device));
}

/* The driver finds the segment from that device, whose kernel compares it; and a copy by that device. */
static void check_from(const seat *s, const uint64_t *segment, uint64_t round) {
    CUdeviceptr start = 0;
    size_t size = 0;
    DEVICE_OK(device.cuMemGetAddressRange(&start, &size, device_address(segment)));
    peerwin_stream stream = device_stream_new();
    rig_report report = {0};
    CUdeviceptr copy = 0;
    CUdeviceptr seen = 0;
    DEVICE_OK(device.cuMemAlloc(&copy, WORDS * 8));
    DEVICE_OK(device.cuMemAlloc(&seen, sizeof(report)));
    DEVICE_OK(device.cuMemsetD8Async(seen, 0, sizeof(report), (CUstream)stream));
    DEVICE_OK(device.cuMemcpyAsync(copy, device_address(segment), WORDS * 8, (CUstream)stream));
    for (int i = 0; i < 2; i++) {
        rig_check_args a = {i == 0 ? segment : (const uint64_t *)(uintptr_t)copy, round, WORDS,
                            (rig_report *)(uintptr_t)seen};
        void *parameters[] = {&a};
        DEVICE_OK(device.cuLaunchKernel(s->check, 8, 1, 1, RIG_LANES, 1, 1, 0, (CUstream)stream, parameters, NULL));
    }
    DEVICE_OK(device.cuMemcpyAsync(device_address(&report), seen, sizeof(report), (CUstream)stream));
    device_stream_sync(stream);
    CHECK_EQUAL(report.rounds, 2);
    CHECK_EQUAL(report.wrong, 0);
    DEVICE_OK(device.cuMemFree(seen));
    DEVICE_OK(device.cuMemFree(copy));
    device_stream_free(stream);
}

/* What a real driver opens by a legacy handle may be out of reach of the other devices: no path then, and it is told.
 */
static int is_refused(const peerwin_ctx *ctx, const peerwin_win *win, int rank) {
    peerwin_peer peer = {.size = sizeof(peer)};
    if (peerwin_win_ptr(win, rank) != NULL) {
        return 0;
    }
    CHECK_OK(peerwin_peer_query(ctx, rank, &peer));
    if (rank == job.rank || !device_is_real() || !test_text_has(peer.reason, "this rank declares")) {
        test_fail(__FILE__, __LINE__, "no path to rank %d: %s", rank, peer.reason);
    }
    rig_say("devices: rank %d has no path to rank %d: %s", job.rank, rank, peer.reason);
    return 1;
}

/* Returns how many segments were out of reach. */
static int check_from_all(const peerwin_ctx *ctx, peerwin_win *win, int devices) {
    int refused = 0;
    for (int ordinal = 0; ordinal < devices; ordinal++) {
        seat s = sit(ordinal);
        for (int rank = 0; rank < job.size; rank++) {
            if (is_refused(ctx, win, rank)) {
                refused++;
                continue;
            }
            check_from(&s, peerwin_win_ptr(win, rank), (uint64_t)rank + 1);
        }
        stand_up(&s);
    }
    return refused;
}

static void kernels_and_copies_on_each_declared_device_reach_every_segment(void) {
    static const peerwin_handle kinds[] = {PEERWIN_HANDLE_FD, PEERWIN_HANDLE_LEGACY};
    int all[MOST_DEVICES];
    int devices = device_count() < MOST_DEVICES ? device_count() : MOST_DEVICES;
    if (test_agree_skip(devices < 2, "there is one device")) {
        return;
    }
    for (int i = 0; i < devices; i++) {
        all[i] = i;
    }
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        peerwin_ctx *ctx = NULL;
        peerwin_win *win = NULL;
        peerwin_config config;
        peerwin_config_init(&config);
        config.space = PEERWIN_SPACE_CUDA;
        config.handles = kinds[k];
        config.devices = all;
        config.num_devices = devices;
        CHECK_OK(peerwin_init(MPI_COMM_WORLD, &config, &ctx));
        CHECK_OK(peerwin_win_alloc(ctx, WORDS * 8, NULL, &win));
        rig_fill_args fill = {peerwin_win_ptr(win, job.rank), (uint64_t)job.rank + 1, WORDS};
        rig_launch(RIG_KERNEL_fill, 8, &fill, job.stream);
        device_stream_sync(job.stream);
        MPI_Barrier(MPI_COMM_WORLD);
        int refused = check_from_all(ctx, win, devices);
        CHECK(refused == 0 || kinds[k] == PEERWIN_HANDLE_LEGACY);
        MPI_Barrier(MPI_COMM_WORLD);
        rig_say("devices: %d ranks on %d devices each, handles of kind %u: %s right from each device", job.size,
                devices, (unsigned)kinds[k], refused == 0 ? "every segment" : "every segment with a path");
        test_free(ctx, win);
    }
}

static const test_case cases[] = {
    TEST_CASE(kernels_and_copies_on_each_declared_device_reach_every_segment, 1, 0),
};

RIG_MAIN(cases)
