/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting for everything that a CUDA context was given, whoever gave it and on whatever stream: before memory that
 * peers share is unmapped. Streams are not remembered, since their owner may have destroyed them.
 *
 * Drivers from 12.5 on record an event behind the work of a whole context, which can be polled with a deadline. Older
 * ones only synchronise. Either call makes all captures of the context invalid, in any capture mode, so none may be
 * under way. The legacy stream knows of those on streams that wait for it, witnesses of those that the library has a
 * part in; of others only the driver knows.
 */
#include "memory/gpu_cuda.h"

#include "base/clock.h"

#include <time.h>

/* ---- captures ---- */

typedef struct {
    CUstreamCaptureStatus state;
    cuuint64_t number;
} capture;

/* What a stream captures; no stream captures nothing. */
static CUresult ask(const pw_gpu *gpu, CUstream stream, capture *capture_out) {
    *capture_out = (capture){CU_STREAM_CAPTURE_STATUS_NONE, 0};
    if (!stream)
        return CUDA_SUCCESS;
    return gpu->driver->cuStreamGetCaptureInfo(stream, &capture_out->state, &capture_out->number, NULL, NULL, NULL);
}

static CUresult make_witness(pw_gpu *gpu, CUstream *witness, const char **call_out) {
    CUresult code = CUDA_SUCCESS;
    *call_out = "cuEventCreate";
    if (!gpu->met)
        code = gpu->driver->cuEventCreate(&gpu->met, CU_EVENT_DISABLE_TIMING);
    if (code != CUDA_SUCCESS || *witness)
        return code;
    *call_out = "cuStreamCreateWithPriority";
    return gpu->driver->cuStreamCreateWithPriority(witness, CU_STREAM_NON_BLOCKING, 0);
}

/* Forked off the stream and joined again, it is a part of the capture that does nothing, and leaves it at its end. */
static CUresult join_capture(const pw_gpu *gpu, CUstream stream, CUstream witness, const char **call_out) {
    const CUstream pair[] = {stream, witness};
    CUresult code = CUDA_SUCCESS;
    for (int i = 0; i < 2 && code == CUDA_SUCCESS; i++) {
        *call_out = "cuEventRecord";
        code = gpu->driver->cuEventRecord(gpu->met, pair[i]);
        if (code != CUDA_SUCCESS)
            break;
        *call_out = "cuStreamWaitEvent";
        code = gpu->driver->cuStreamWaitEvent(pair[1 - i], gpu->met, 0);
    }
    return code;
}

CUresult pw_gpu_witness(pw_gpu *gpu, CUstream stream, const char **call_out) {
    CUstream *idle = NULL;
    capture wanted;
    *call_out = "cuStreamGetCaptureInfo";
    CUresult code = ask(gpu, stream, &wanted);
    if (code != CUDA_SUCCESS || wanted.state != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return code;
    for (int i = 0; i < PW_WITNESSES; i++) {
        capture known;
        code = ask(gpu, gpu->witnesses[i], &known);
        if (code != CUDA_SUCCESS || known.number == wanted.number)
            return code;
        if (!idle && known.state == CU_STREAM_CAPTURE_STATUS_NONE)
            idle = &gpu->witnesses[i];
    }
    if (!idle)
        return CUDA_SUCCESS;
    code = make_witness(gpu, idle, call_out);
    return code == CUDA_SUCCESS ? join_capture(gpu, stream, *idle, call_out) : code;
}

void pw_gpu_end_witnesses(pw_gpu *gpu, peerwin_status first) {
    for (int i = 0; i < PW_WITNESSES; i++)
        if (gpu->witnesses[i])
            (void)pw_gpu_released(gpu, gpu->driver->cuStreamDestroy(gpu->witnesses[i]), "cuStreamDestroy", first);
    if (gpu->met)
        (void)pw_gpu_released(gpu, gpu->driver->cuEventDestroy(gpu->met), "cuEventDestroy", first);
}

/* What is invalid already cannot be spoiled: whether it is in the way the driver may say. */
static CUresult find_capture(const pw_gpu *gpu, int *found_out, const char **call_out) {
    capture known = {CU_STREAM_CAPTURE_STATUS_NONE, 0};
    *call_out = "cuStreamIsCapturing";
    CUresult code = gpu->driver->cuStreamIsCapturing(NULL, &known.state);
    *found_out = code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || known.state != CU_STREAM_CAPTURE_STATUS_NONE;
    for (int i = 0; i < PW_WITNESSES && code == CUDA_SUCCESS && !*found_out; i++) {
        *call_out = "cuStreamGetCaptureInfo";
        code = ask(gpu, gpu->witnesses[i], &known);
        *found_out = known.state == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    }
    return code;
}

static peerwin_status refuse_capture(const pw_gpu *gpu, const pw_site *site) {
    int found = 0;
    const char *call = NULL;
    CUresult code = find_capture(gpu, &found, &call);
    if (found)
        return pw_fail(PEERWIN_ERR_STATE, site, "a stream is capturing: end the capture first");
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, call);
}

/* ---- waiting ---- */

/* A capture that nobody knew of shows only now, when the driver has spoiled it. */
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
