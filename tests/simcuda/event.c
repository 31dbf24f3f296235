/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Events. A record makes a new recording, which the stream completes; a wait waits for the recording that was there
 * when it was queued, and for nothing if there was none. Interprocess events keep two counters in a shared page
 * instead.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct sim_ticket) <= sizeof(CUipcEventHandle), "a ticket fits a handle");

void sim_record_unref(struct sim_record *record) {
    if (record != NULL && --record->refs == 0) {
        free(record);
    }
}

static uint64_t recorded(const struct sim_event *event) {
    return __atomic_load_n(&event->shared->label->recorded, __ATOMIC_ACQUIRE);
}

static uint64_t completed(const struct sim_phys *shared) {
    return __atomic_load_n(&shared->label->completed, __ATOMIC_ACQUIRE);
}

static bool is_complete(const struct sim_event *event) {
    if (event->shared != NULL) {
        return completed(event->shared) >= recorded(event);
    }
    return event->record == NULL || event->record->done;
}

static void await_shared(const struct sim_stream *stream, const struct sim_phys *shared, uint64_t target) {
    unsigned turn = 0;
    while (completed(shared) < target && !sim_stopping(stream)) {
        sim_nap(&turn);
    }
}

/* A record of an interprocess event comes after the one before, whoever made that, and its stream waits so long. */
void sim_execute_record(const struct sim_stream *stream, const struct sim_op_event *event) {
    if (event->shared != NULL) {
        await_shared(stream, event->shared, event->target - 1);
        uint64_t seen = completed(event->shared);
        while (seen < event->target &&
               !__atomic_compare_exchange_n(&event->shared->label->completed, &seen, event->target, false,
                                            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        }
    }
    if (event->record != NULL) {
        pthread_mutex_lock(&sim.lock);
        event->record->streams -= event->record->streams > 0;
        event->record->done = event->record->streams == 0;
        event->record->ns = sim_now_ns();
        bool awaited = event->record->done && event->record->awaited;
        pthread_mutex_unlock(&sim.lock);
        if (awaited) {
            pthread_cond_broadcast(&sim.done);
        }
    }
}

void sim_execute_await(const struct sim_stream *stream, const struct sim_op_event *event) {
    if (event->shared != NULL) {
        await_shared(stream, event->shared, event->target);
    }
    if (event->record != NULL) {
        pthread_mutex_lock(&sim.lock);
        while (!event->record->done && !sim_stopping(stream)) {
            event->record->awaited = true;
            sim_wait_done();
        }
        pthread_mutex_unlock(&sim.lock);
    }
}

static struct sim_event *find(CUevent handle, CUresult *rc_out) {
    struct sim_event *event =
        sim_object_find((uint64_t)(uintptr_t)handle, SIM_EVENT, CUDA_ERROR_INVALID_HANDLE, SIM_DEADLY, rc_out);
    if (event != NULL && event->ctx == NULL) {
        *rc_out = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        return NULL;
    }
    return event;
}

struct sim_event *sim_event_find(CUevent handle, CUresult *rc_out) {
    return find(handle, rc_out);
}

static struct sim_event *make(struct sim_context *ctx, unsigned flags) {
    struct sim_event *event = calloc(1, sizeof *event);
    if (event == NULL) {
        sim_die("out of host memory");
    }
    event->ctx = ctx;
    event->flags = flags;
    sim_object_add(&event->object, SIM_EVENT);
    return event;
}

static CUresult create(CUevent *event_out, unsigned flags) {
    CUresult rc;
    struct sim_context *ctx = sim_current(&rc);
    if (ctx == NULL) {
        return rc;
    }
    bool shared = (flags & CU_EVENT_INTERPROCESS) != 0;
    if (event_out == NULL || (flags & ~7u) != 0 || (shared && !(flags & CU_EVENT_DISABLE_TIMING))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_phys *phys = NULL;
    if (shared) {
        rc = sim_phys_create(SIM_SHARE_EVENT, ctx->device, 0, 0, false, &phys);
        if (rc != CUDA_SUCCESS) {
            return rc;
        }
    }
    struct sim_event *event = make(ctx, flags);
    event->shared = phys;
    *event_out = (CUevent)(uintptr_t)event->object.handle;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuEventCreate(CUevent *phEvent, unsigned int Flags) {
    SIM_RUN(cuEventCreate, create(phEvent, Flags));
}

static CUresult destroy(CUevent handle) {
    CUresult rc;
    struct sim_event *event =
        sim_object_find((uint64_t)(uintptr_t)handle, SIM_EVENT, CUDA_ERROR_INVALID_HANDLE, SIM_DEADLY, &rc);
    if (event == NULL) {
        return rc;
    }
    if (event->shared != NULL && !event->imported && sim_phys_importers(event->shared, 0) > 0) {
        (void)sim_misuse(CUDA_SUCCESS, "an event is destroyed while another process has it open");
    }
    if (event->imported) {
        sim_phys_opened(event->shared, 0, -1);
    }
    rc = event->ctx != NULL ? event->ctx->lost : CUDA_SUCCESS;
    sim_object_remove(&event->object);
    sim_record_unref(event->record);
    sim_phys_unref(event->shared);
    free(event);
    return rc;
}

SIM_ENTRY cuEventDestroy_v2(CUevent hEvent) {
    SIM_RUN_RELEASE(cuEventDestroy_v2, destroy(hEvent));
}

struct sim_record *sim_event_record_anew(struct sim_event *event) {
    sim_record_unref(event->record);
    event->record = calloc(1, sizeof *event->record);
    if (event->record == NULL) {
        sim_die("out of host memory");
    }
    event->record->refs = 1;
    event->capture = NULL;
    event->capture_over = false;
    return event->record;
}

static void new_recording(struct sim_event *event, struct sim_op_event *op) {
    if (event->shared != NULL) {
        op->shared = event->shared;
        op->target = __atomic_add_fetch(&event->shared->label->recorded, 1, __ATOMIC_SEQ_CST);
        sim_phys_ref(event->shared);
        event->capture = NULL;
        event->capture_over = false;
        return;
    }
    op->record = sim_event_record_anew(event);
    op->record->refs++;
}

/* What a wait made now waits for. */
static void last_recording(struct sim_event *event, struct sim_op_event *op) {
    if (event->shared != NULL) {
        op->shared = event->shared;
        op->target = recorded(event);
        sim_phys_ref(event->shared);
    } else if (event->record != NULL) {
        op->record = event->record;
        event->record->refs++;
    }
}

CUresult sim_event_bind(struct sim_op *op) {
    CUresult rc;
    struct sim_event *event = find((CUevent)(uintptr_t)op->u.event.handle, &rc);
    if (event != NULL && op->kind == SIM_OP_RECORD) {
        new_recording(event, &op->u.event);
    } else if (event != NULL) {
        last_recording(event, &op->u.event);
    }
    return rc;
}

static CUresult record(CUevent handle, CUstream stream_handle, unsigned flags) {
    CUresult rc;
    struct sim_event *event = find(handle, &rc);
    struct sim_stream *stream = event == NULL ? NULL : sim_stream_find(stream_handle, &rc);
    if (stream == NULL) {
        return rc;
    }
    if ((flags & ~1u) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (stream->ctx != event->ctx) {
        return sim_misuse(CUDA_ERROR_INVALID_HANDLE, "event and stream belong to different contexts");
    }
    bool external = (flags & CU_EVENT_RECORD_EXTERNAL) != 0;
    if (external != (stream->capture != NULL)) {
        return external ? CUDA_ERROR_ILLEGAL_STATE : sim_capture_record(event, stream);
    }
    struct sim_op *op = sim_op_new(SIM_OP_RECORD, 0);
    if (external) { /* recorded when the graph runs, not now */
        op->u.event.handle = event->object.handle;
    } else {
        new_recording(event, &op->u.event);
    }
    return sim_enqueue(stream, op);
}
SIM_ENTRY cuEventRecord(CUevent hEvent, CUstream hStream) {
    SIM_RUN(cuEventRecord, record(hEvent, hStream, 0));
}

SIM_ENTRY cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
    SIM_RUN(cuEventRecordWithFlags, record(hEvent, hStream, flags));
}

static CUresult query(CUevent handle) {
    CUresult rc;
    const struct sim_event *event = find(handle, &rc);
    if (event == NULL) {
        return rc;
    }
    if (event->capture != NULL) {
        sim_capture_invalidate(event->capture);
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    if (event->capture_over) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "the event was last recorded in a capture that has ended");
    }
    if (event->ctx->lost != CUDA_SUCCESS) {
        return event->ctx->lost;
    }
    return is_complete(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIM_ENTRY cuEventQuery(CUevent hEvent) {
    SIM_RUN(cuEventQuery, query(hEvent));
}

static CUresult wait_local(struct sim_context *ctx, struct sim_record *recording) {
    recording->refs++;
    while (!recording->done && ctx->lost == CUDA_SUCCESS) {
        recording->awaited = true;
        sim_wait_done();
    }
    sim_record_unref(recording);
    return ctx->lost;
}

static CUresult wait_shared(struct sim_context *ctx, struct sim_phys *shared, uint64_t target) {
    unsigned turn = 0;
    sim_phys_ref(shared);
    sim_wake_pending();
    while (completed(shared) < target && ctx->lost == CUDA_SUCCESS) {
        pthread_mutex_unlock(&sim.lock);
        sim_nap(&turn);
        pthread_mutex_lock(&sim.lock);
    }
    sim_phys_unref(shared);
    return ctx->lost;
}

static CUresult synchronize(CUevent handle) {
    CUresult rc = query(handle);
    const struct sim_event *event = rc == CUDA_ERROR_NOT_READY ? find(handle, &rc) : NULL;
    if (event == NULL) {
        return rc;
    }
    return event->shared != NULL ? wait_shared(event->ctx, event->shared, recorded(event))
                                 : wait_local(event->ctx, event->record);
}

SIM_ENTRY cuEventSynchronize(CUevent hEvent) {
    SIM_RUN(cuEventSynchronize, synchronize(hEvent));
}

static CUresult elapsed(float *ms_out, CUevent start_handle, CUevent end_handle) {
    CUresult rc;
    const struct sim_event *start = find(start_handle, &rc);
    const struct sim_event *end = start == NULL ? NULL : find(end_handle, &rc);
    if (end == NULL || ms_out == NULL) {
        return end == NULL ? rc : CUDA_ERROR_INVALID_VALUE;
    }
    if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) || start->record == NULL || end->record == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!start->record->done || !end->record->done) {
        return CUDA_ERROR_NOT_READY;
    }
    *ms_out = (float)((double)(int64_t)(end->record->ns - start->record->ns) / 1e6);
    return CUDA_SUCCESS;
}

SIM_ENTRY cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    SIM_RUN(cuEventElapsedTime, elapsed(pMilliseconds, hStart, hEnd));
}

static CUresult stream_wait(CUstream stream_handle, CUevent handle, unsigned flags) {
    CUresult rc;
    struct sim_stream *stream = sim_stream_find(stream_handle, &rc);
    struct sim_event *event = stream == NULL ? NULL : find(handle, &rc);
    if (event == NULL) {
        return rc;
    }
    if ((flags & ~1u) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool external = (flags & CU_EVENT_WAIT_EXTERNAL) != 0, done = false;
    if (external && stream->capture == NULL) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    if (event->capture_over) {
        if (stream->capture != NULL) {
            sim_capture_invalidate(stream->capture);
        }
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "the event was last recorded in a capture that has ended");
    }
    if (!external) {
        rc = sim_capture_wait(stream, event, &done);
    }
    if (rc != CUDA_SUCCESS || done || (stream->capture == NULL && is_complete(event))) {
        return rc;
    }
    struct sim_op *op = sim_op_new(SIM_OP_AWAIT, 0);
    if (external) {
        op->u.event.handle = event->object.handle;
    } else {
        last_recording(event, &op->u.event);
    }
    return sim_enqueue(stream, op);
}

SIM_ENTRY cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
    SIM_RUN(cuStreamWaitEvent, stream_wait(hStream, hEvent, Flags));
}

static CUresult get_handle(CUipcEventHandle *handle_out, CUevent handle) {
    CUresult rc;
    const struct sim_event *event = find(handle, &rc);
    if (event == NULL) {
        return rc;
    }
    if (handle_out == NULL || event->shared == NULL || event->imported) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    struct sim_ticket ticket = sim_ticket_make(event->shared, 0, 0);
    memset(handle_out, 0, sizeof *handle_out);
    memcpy(handle_out, &ticket, sizeof ticket);
    return CUDA_SUCCESS;
}

SIM_ENTRY cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event) {
    SIM_RUN(cuIpcGetEventHandle, get_handle(pHandle, event));
}

static CUresult open_handle(CUevent *event_out, const CUipcEventHandle *handle) {
    CUresult rc;
    struct sim_context *ctx = sim_current(&rc);
    struct sim_ticket ticket;
    struct sim_phys *phys = NULL;
    if (ctx == NULL || event_out == NULL) {
        return ctx == NULL ? rc : CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&ticket, handle, sizeof ticket);
    if (ticket.pid_namespace != sim_pid_namespace()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (ticket.pid == (int32_t)getpid()) {
        return sim_misuse(CUDA_ERROR_INVALID_CONTEXT, "a process opens its own handle");
    }
    int fd = sim_ticket_redeem(&ticket);
    rc = sim_phys_import(fd, SIM_SHARE_EVENT, CUDA_ERROR_INVALID_VALUE, &phys);
    if (fd >= 0) {
        close(fd);
    }
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    struct sim_event *event = make(ctx, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    event->shared = phys;
    event->imported = true;
    sim_phys_opened(phys, 0, 1);
    *event_out = (CUevent)(uintptr_t)event->object.handle;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle) {
    SIM_RUN(cuIpcOpenEventHandle, open_handle(phEvent, &handle));
}
