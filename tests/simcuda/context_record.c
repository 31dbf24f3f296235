/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An event recorded behind a whole context: it is complete when every stream that has work now has got there. As with
 * a wait for the context there must be no capture in it, and one that there is becomes invalid, in any capture mode.
 */
#include "sim.h"

/* Streams without work take no part. */
static CUresult record_behind(struct sim_context *ctx, struct sim_record *record) {
    CUresult rc = CUDA_SUCCESS;
    for (struct sim_stream *s = ctx->streams; s != NULL && rc == CUDA_SUCCESS; s = s->next) {
        if (sim_stream_idle(s)) {
            continue;
        }
        struct sim_op *op = sim_op_new(SIM_OP_RECORD, 0);
        op->u.event.record = record;
        record->refs++;
        record->streams++;
        rc = sim_enqueue(s, op);
    }
    record->done = record->streams == 0;
    record->ns = sim_now_ns();
    return rc;
}

static CUresult record(CUcontext handle, CUevent event_handle) {
    CUresult rc;
    struct sim_context *ctx = sim_context_find(handle, &rc);
    struct sim_event *event = ctx == NULL ? NULL : sim_event_find(event_handle, &rc);
    if (event == NULL) {
        return rc;
    }
    if (event->ctx != ctx) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (event->shared != NULL) {
        sim_die("an interprocess event recorded behind a context is not simulated");
    }
    rc = sim_capture_check_context(ctx);
    if (rc == CUDA_SUCCESS && ctx->lost != CUDA_SUCCESS) {
        rc = ctx->lost;
    }
    return rc == CUDA_SUCCESS ? record_behind(ctx, sim_event_record_anew(event)) : rc;
}

SIM_ENTRY sim_context_record(CUcontext hCtx, CUevent hEvent) {
    SIM_RUN(sim_context_record, record(hCtx, hEvent));
}
