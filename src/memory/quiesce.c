/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting for everything that a CUDA context was given, whoever gave it and on whatever stream: before memory that
 * peers share is unmapped. Streams are not remembered, since their owner may have destroyed them.
 *
 * Drivers from 12.5 on record an event behind the work of a whole context, which can be polled with a deadline. Older
 * ones only synchronise.
 */
#include "memory/gpu_cuda.h"

#include "base/clock.h"

#include <time.h>

/*
 * Neither way is to be had while a stream captures, and trying would spoil the capture. The legacy stream knows of
 * captures on streams that wait for it; of others nobody knows.
 */
static peerwin_status refuse_capture(const pw_gpu *gpu, const pw_site *site) {
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult code = gpu->driver->cuStreamIsCapturing(NULL, &capturing);
    if (code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || capturing != CU_STREAM_CAPTURE_STATUS_NONE)
        return pw_fail(PEERWIN_ERR_STATE, site, "a stream is capturing: end the capture first");
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, "cuStreamIsCapturing");
}

/* A capture on a non-blocking stream shows only now, when the driver has spoiled it. */
static peerwin_status fail_waiting(const pw_gpu *gpu, CUresult code, const char *call, const pw_site *site) {
    if (code == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return pw_fail(PEERWIN_ERR_STATE, site, "a stream is capturing, which is invalid now: end the capture first");
    return pw_fail_cuda(gpu->driver, site, code, call);
}

static peerwin_status poll_event(const pw_gpu *gpu, CUevent event, int timeout_ms, const pw_site *site) {
    const struct timespec nap = {0, 20000};
    int64_t deadline = pw_deadline(timeout_ms);
    for (;;) {
        CUresult code = gpu->driver->cuEventQuery(event);
        if (code == CUDA_SUCCESS)
            return PEERWIN_OK;
        if (code != CUDA_ERROR_NOT_READY)
            return pw_fail_cuda(gpu->driver, site, code, "cuEventQuery");
        if (pw_now() >= deadline)
            return pw_fail(PEERWIN_ERR_TIMEOUT, site,
                           "work on device %s did not end within %d ms; it may wait for a call that a peer has yet to "
                           "make",
                           gpu->about.uuid, timeout_ms);
        nanosleep(&nap, NULL);
    }
}

static peerwin_status wait_by_event(const pw_gpu *gpu, int timeout_ms, const pw_site *site) {
    CUevent event = NULL;
    CUresult code = gpu->driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuEventCreate");
    code = gpu->driver->cuCtxRecordEvent(gpu->context, event);
    peerwin_status status = code == CUDA_SUCCESS ? poll_event(gpu, event, timeout_ms, site)
                                                 : fail_waiting(gpu, code, "cuCtxRecordEvent", site);
    code = gpu->driver->cuEventDestroy(event);
    if (code != CUDA_SUCCESS && status == PEERWIN_OK)
        status = pw_fail_cuda(gpu->driver, site, code, "cuEventDestroy");
    return status;
}

peerwin_status pw_gpu_quiesce(pw_gpu *gpu, const pw_site *site) {
    return pw_gpu_quiesce_within(gpu, gpu->timeout_ms, site);
}

peerwin_status pw_gpu_quiesce_within(pw_gpu *gpu, int timeout_ms, const pw_site *site) {
    peerwin_status status = refuse_capture(gpu, site);
    if (status != PEERWIN_OK)
        return status;
    if (gpu->driver->cuCtxRecordEvent)
        return wait_by_event(gpu, timeout_ms, site);
    CUresult code = gpu->driver->cuCtxSynchronize();
    return code == CUDA_SUCCESS ? PEERWIN_OK : fail_waiting(gpu, code, "cuCtxSynchronize", site);
}
