/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The way into a stream; see stream_door.h.
 */
#include "transfer/stream_door.h"

/* The default streams, which belong to whatever context is current: here always the library's. */
static int is_default(peerwin_stream stream) {
    CUstream handle = pw_cu_stream(stream);
    return !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

peerwin_status pw_stream_result(const peerwin_ctx *ctx, CUresult code, const char *call, const pw_site *site) {
    if (code == CUDA_SUCCESS)
        return PEERWIN_OK;
    if (code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        return pw_fail(PEERWIN_ERR_STATE, site,
                       "the legacy default stream cannot be used while another stream captures: use a stream of your "
                       "own, or cudaStreamNonBlocking ones");
    if (code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
        return pw_fail(PEERWIN_ERR_STATE, site, "%s is not possible in this state of a stream capture (code %d)", call,
                       (int)code);
    return pw_fail_cuda(ctx->gpu->driver, site, code, call);
}

static peerwin_status check_own(const peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    CUcontext owner = NULL;
    CUresult code = ctx->gpu->driver->cuStreamGetCtx(pw_cu_stream(stream), &owner);
    if (code == CUDA_ERROR_INVALID_HANDLE || code == CUDA_ERROR_INVALID_VALUE)
        return pw_fail(PEERWIN_ERR_ARG, site, "this is not a stream, or it was destroyed");
    peerwin_status status = pw_stream_result(ctx, code, "cuStreamGetCtx", site);
    if (status == PEERWIN_OK && owner != ctx->gpu->context)
        status = pw_fail(PEERWIN_ERR_ARG, site,
                         "the stream belongs to another CUDA context than the one that peerwin_init settled on");
    return status;
}

/* What would end a capture that the stream is in is refused until it ends. */
static peerwin_status witness(const peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    const char *call = NULL;
    CUresult code = pw_gpu_witness(ctx->gpu, pw_cu_stream(stream), &call);
    return pw_stream_result(ctx, code, call, site);
}

static peerwin_status tell_loss(peerwin_ctx *ctx, peerwin_status status) {
    if (__builtin_expect(status == PEERWIN_ERR_CONTEXT_LOST, 0))
        pw_ctx_break(ctx, pw_cause_make(PEERWIN_ERR_CONTEXT_LOST, ctx->rank));
    return status;
}

peerwin_status pw_stream_enter(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    peerwin_status status = tell_loss(ctx, pw_gpu_enter(ctx->gpu, site));
    if (status != PEERWIN_OK)
        return status;
    /* Only the driver knows whether a capture forbids the legacy stream; it is asked before any work is given to it. */
    int capturing = 0;
    status = pw_stream_is_capturing(ctx, stream, site, &capturing);
    if (status == PEERWIN_OK && !is_default(stream))
        status = check_own(ctx, stream, site);
    if (status == PEERWIN_OK && capturing)
        status = witness(ctx, stream, site);
    return status == PEERWIN_OK ? status : pw_stream_leave(ctx, status);
}

peerwin_status pw_stream_leave(peerwin_ctx *ctx, peerwin_status status) {
    pw_gpu_leave(ctx->gpu);
    return tell_loss(ctx, status);
}

/* ---- steps ---- */

/* A number is never used again, so a stream that was looked at once is known by it. */
static peerwin_status check_known(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site, uint64_t *number_out) {
    unsigned long long number = 0;
    CUresult code = ctx->gpu->driver->cuStreamGetId(pw_cu_stream(stream), &number);
    if (code == CUDA_ERROR_INVALID_HANDLE || code == CUDA_ERROR_INVALID_VALUE)
        return pw_fail(PEERWIN_ERR_ARG, site, "this is not a stream, or it was destroyed");
    peerwin_status status = pw_stream_result(ctx, code, "cuStreamGetId", site);
    *number_out = number;
    if (status != PEERWIN_OK || number == ctx->sequence.known)
        return status;
    status = check_own(ctx, stream, site);
    if (status == PEERWIN_OK)
        ctx->sequence.known = number;
    return status;
}

/* To ask a capturing stream for its number ends the capture. Its handle tells it apart as long as that lasts. */
static peerwin_status step_in(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site, uint64_t *number_out,
                              int *capturing_out) {
    peerwin_status status = tell_loss(ctx, pw_gpu_step_in(ctx->gpu, site));
    if (status != PEERWIN_OK)
        return status;
    status = pw_stream_is_capturing(ctx, stream, site, capturing_out);
    if (status == PEERWIN_OK && *capturing_out) {
        *number_out = (uint64_t)(uintptr_t)stream;
        status = check_own(ctx, stream, site);
        if (status == PEERWIN_OK)
            status = witness(ctx, stream, site);
    } else if (status == PEERWIN_OK) {
        status = check_known(ctx, stream, site, number_out);
    }
    return status == PEERWIN_OK ? status : pw_stream_step_out(ctx, status);
}

peerwin_status pw_stream_step_in(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    uint64_t number = 0;
    int capturing = 0;
    return step_in(ctx, stream, site, &number, &capturing);
}

peerwin_status pw_stream_step_out(peerwin_ctx *ctx, peerwin_status status) {
    pw_gpu_step_out(ctx->gpu);
    return tell_loss(ctx, status);
}

static peerwin_status find_capture(pw_step *step) {
    const peerwin_ctx *ctx = step->ctx;
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t number = 0;
    CUresult code =
        ctx->gpu->driver->cuStreamGetCaptureInfo(pw_cu_stream(step->stream), &state, &number, NULL, NULL, NULL);
    peerwin_status status = pw_stream_result(ctx, code, "cuStreamGetCaptureInfo", step->site);
    if (status == PEERWIN_OK && state != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        status = pw_fail(PEERWIN_ERR_STATE, step->site, "the capture of this stream is invalid: end it");
    step->capture = number;
    return status;
}

peerwin_status pw_step_in(pw_step *step, peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    *step = (pw_step){.ctx = ctx, .stream = stream, .site = site};
    int capturing = 0;
    peerwin_status status = step_in(ctx, stream, site, &step->number, &capturing);
    if (status != PEERWIN_OK || !capturing)
        return status;
    status = find_capture(step);
    return status == PEERWIN_OK ? status : pw_step_out(step, status);
}

peerwin_status pw_step_out(pw_step *step, peerwin_status status) {
    peerwin_ctx *ctx = step->ctx;
    status = pw_stream_step_out(ctx, status);
    if (__builtin_expect(status != PEERWIN_OK && step->given && step->capture == 0, 0))
        pw_ctx_break(ctx, pw_cause_make(status, ctx->rank));
    return status;
}

peerwin_status pw_step_gave(pw_step *step, CUresult code, const char *call) {
    step->given |= code == CUDA_SUCCESS;
    return pw_stream_result(step->ctx, code, call, step->site);
}

peerwin_status pw_stream_is_capturing(const peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site,
                                      int *capturing_out) {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult code = ctx->gpu->driver->cuStreamIsCapturing(pw_cu_stream(stream), &state);
    *capturing_out = state != CU_STREAM_CAPTURE_STATUS_NONE;
    if (code == CUDA_ERROR_INVALID_HANDLE || code == CUDA_ERROR_INVALID_VALUE)
        return pw_fail(PEERWIN_ERR_ARG, site, "this is not a stream, or it was destroyed");
    return pw_stream_result(ctx, code, "cuStreamIsCapturing", site);
}

uint32_t *pw_stream_ticket(peerwin_ctx *ctx, uint64_t number) {
    unsigned i = 0;
    while (i < ctx->num_tickets && ctx->ticket_of[i] != number)
        i++;
    if (i == PW_TICKETS)
        return NULL;
    if (i == ctx->num_tickets)
        ctx->ticket_of[ctx->num_tickets++] = number;
    return (uint32_t *)(void *)(ctx->peers[ctx->rank].arena + ctx->arena_layout.tickets) + i;
}

/* A pointer that the driver does not know has type 0; one that kernels cannot use has no device pointer. */
pw_place pw_place_of(const pw_gpu *gpu, const void *local) {
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    unsigned type = 0;
    CUdeviceptr device = 0;
    void *values[] = {&type, &device};
    CUresult code = gpu->driver->cuPointerGetAttributes(2, which, values, pw_device_address(local));
    if (code != CUDA_SUCCESS || type == 0)
        return PW_PLACE_PAGEABLE;
    return device == pw_device_address(local) ? PW_PLACE_MAPPED : PW_PLACE_OTHER;
}
