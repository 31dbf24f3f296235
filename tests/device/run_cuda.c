/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Running bodies, with the CUDA headers; see run.h. A kernel is loaded by a launch with nothing to do: while another
 * spins it could not be.
 */
#include "run.h"

#include "support/calls.h"

extern const char device_image[];
static CUmodule module;
static CUfunction function;

static void launch(const body_args *args, unsigned lanes, peerwin_stream stream) {
    void *parameters[] = {(void *)(uintptr_t)args};
    DEVICE_OK(device.cuLaunchKernel(function, 1, 1, 1, lanes, 1, 1, 0, (CUstream)stream, parameters, NULL));
}

void run_begin(void) {
    static const body_args nothing = {.body = ~0u};
    if (job.space != PEERWIN_SPACE_CUDA) {
        return;
    }
    DEVICE_OK(device.cuModuleLoadData(&module, device_image));
    DEVICE_OK(device.cuModuleGetFunction(&function, module, "device_body"));
    launch(&nothing, 1, job.stream);
    device_stream_sync(job.stream);
}

void run_end(void) {
    if (job.space != PEERWIN_SPACE_CUDA) {
        return;
    }
    device_stream_sync(job.stream);
    DEVICE_OK(device.cuModuleUnload(module));
}

void run_start(const body_args *args, unsigned lanes, peerwin_stream stream) {
    if (job.space == PEERWIN_SPACE_CUDA) {
        launch(args, lanes, stream);
    } else {
        body_run(args);
    }
}
