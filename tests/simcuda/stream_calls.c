/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The calls that make, ask, wait for and end streams.
 */
#include "sim.h"

enum { LOWEST = 0, HIGHEST = -5 };

static CUresult create(CUstream *stream_out, unsigned flags, int priority) {
    CUresult rc;
    struct sim_context *ctx = sim_current(&rc);
    if (ctx == NULL) {
        return rc;
    }
    if (stream_out == NULL || (flags != CU_STREAM_DEFAULT && flags != CU_STREAM_NON_BLOCKING)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    priority = priority > LOWEST ? LOWEST : priority < HIGHEST ? HIGHEST : priority;
    struct sim_stream *stream = sim_stream_make(ctx, flags, priority);
    sim_object_add(&stream->object, SIM_STREAM);
    *stream_out = (CUstream)(uintptr_t)stream->object.handle;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuStreamCreate(CUstream *phStream, unsigned int Flags) {
    SIM_RUN(cuStreamCreate, create(phStream, Flags, 0));
}

SIM_ENTRY cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority) {
    SIM_RUN(cuStreamCreateWithPriority, create(phStream, flags, priority));
}

static CUresult get_priority(CUstream handle, int *priority_out) {
    CUresult rc;
    const struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream != NULL) {
        *priority_out = stream->priority;
    }
    return rc;
}

SIM_ENTRY cuStreamGetPriority(CUstream hStream, int *priority) {
    SIM_RUN(cuStreamGetPriority, get_priority(hStream, priority));
}

static CUresult get_flags(CUstream handle, unsigned *flags_out) {
    CUresult rc;
    const struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream != NULL) {
        *flags_out = stream->flags;
    }
    return rc;
}

SIM_ENTRY cuStreamGetFlags(CUstream hStream, unsigned int *flags) {
    SIM_RUN(cuStreamGetFlags, get_flags(hStream, flags));
}

static CUresult get_ctx(CUstream handle, CUcontext *ctx_out) {
    CUresult rc;
    const struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream != NULL && ctx_out != NULL) {
        *ctx_out = (CUcontext)(uintptr_t)stream->ctx->object.handle;
    }
    return stream != NULL && ctx_out == NULL ? CUDA_ERROR_INVALID_VALUE : rc;
}

SIM_ENTRY cuStreamGetCtx(CUstream hStream, CUcontext *pctx) {
    SIM_RUN(cuStreamGetCtx, get_ctx(hStream, pctx));
}

/* Unlike handles, numbers are not used again. The legacy stream's number is that of its context. */
static CUresult get_id(CUstream handle, unsigned long long *id_out) {
    CUresult rc;
    const struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream != NULL && stream->capture != NULL) {
        sim_capture_invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream != NULL && id_out != NULL) {
        *id_out = stream->object.handle != 0 ? stream->object.handle : stream->ctx->object.handle;
    }
    return stream != NULL && id_out == NULL ? CUDA_ERROR_INVALID_VALUE : rc;
}

SIM_ENTRY cuStreamGetId(CUstream hStream, unsigned long long *streamId) {
    SIM_RUN(cuStreamGetId, get_id(hStream, streamId));
}

static CUresult destroy(CUstream handle) {
    CUresult rc;
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    struct sim_stream *stream =
        sim_object_find((uint64_t)(uintptr_t)handle, SIM_STREAM, CUDA_ERROR_INVALID_HANDLE, SIM_DEADLY, &rc);
    if (stream == NULL) {
        return rc;
    }
    if (stream->capture != NULL) {
        sim_capture_invalidate(stream->capture);
    }
    sim_stream_close(stream);
    return stream->ctx->lost;
}

SIM_ENTRY cuStreamDestroy_v2(CUstream hStream) {
    SIM_RUN_RELEASE(cuStreamDestroy_v2, destroy(hStream));
}

static CUresult query(CUstream handle) {
    CUresult rc;
    const struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream == NULL) {
        return rc;
    }
    if (stream->capture != NULL) {
        sim_capture_invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return sim_stream_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIM_ENTRY cuStreamQuery(CUstream hStream) {
    SIM_RUN(cuStreamQuery, query(hStream));
}

static CUresult synchronize(CUstream handle) {
    CUresult rc;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream == NULL) {
        return rc;
    }
    if (stream->capture != NULL) {
        sim_capture_invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return sim_stream_drain(stream);
}

SIM_ENTRY cuStreamSynchronize(CUstream hStream) {
    SIM_RUN(cuStreamSynchronize, synchronize(hStream));
}

static CUresult launch_host(CUstream handle, CUhostFn fn, void *data) {
    CUresult rc;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream == NULL) {
        return rc;
    }
    if (fn == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_op *op = sim_op_new(SIM_OP_HOST, 0);
    op->u.host = (struct sim_op_host){fn, data};
    return sim_enqueue(stream, op);
}

SIM_ENTRY cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
    SIM_RUN(cuLaunchHostFunc, launch_host(hStream, fn, userData));
}
