/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Interprocess events; see events.h. The handle of an event fills a token.
 */
#include "memory/events.h"

#include "memory/gpu_cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(CUipcEventHandle) == PW_TOKEN_BYTES, "a handle is a token");

static size_t granularity(const pw_gpu *gpu) {
    (void)gpu;
    return PW_EVENTS;
}

/* Destroys those that are there; the first failure. */
static peerwin_status destroy(const pw_gpu *gpu, CUevent *events, peerwin_status first) {
    for (int i = 0; i < PW_EVENTS; i++)
        if (events[i])
            first = pw_gpu_released(gpu, gpu->driver->cuEventDestroy(events[i]), "cuEventDestroy", first);
    free(events);
    return first;
}

static peerwin_status create(pw_gpu *gpu, const pw_order *order, const pw_site *site, pw_segment *segment_out) {
    CUevent *events = calloc(PW_EVENTS, sizeof *events);
    (void)order;
    if (!events)
        return pw_fail_errno(site, ENOMEM, "calloc");
    for (int i = 0; i < PW_EVENTS; i++) {
        CUresult code = gpu->driver->cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
        if (code != CUDA_SUCCESS) {
            peerwin_status status = pw_fail_cuda(gpu->driver, site, code, "cuEventCreate");
            events[i] = NULL;
            return destroy(gpu, events, status);
        }
    }
    *segment_out = (pw_segment){
        .ops = pw_events(), .gpu = gpu, .base = events, .mapped = PW_EVENTS, .fd = -1, .num_pieces = PW_EVENTS};
    return PEERWIN_OK;
}

static peerwin_status seal(pw_segment *segment, unsigned flags, const pw_site *site) {
    (void)segment;
    (void)flags;
    (void)site;
    return PEERWIN_OK;
}

static peerwin_status export_handle(pw_segment *segment, int piece, pw_handle *handle_out, const pw_site *site) {
    const pw_driver *driver = segment->gpu->driver;
    CUevent *events = segment->base;
    CUipcEventHandle handle;
    CUresult code = driver->cuIpcGetEventHandle(&handle, events[piece]);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuIpcGetEventHandle");
    *handle_out = (pw_handle){.fd = -1, .bytes = 1};
    memcpy(handle_out->token, &handle, sizeof handle);
    explicit_bzero(&handle, sizeof handle);
    return PEERWIN_OK;
}

static void exported(pw_segment *segment) {
    (void)segment;
}

static peerwin_status unmap(pw_mapping *mapping) {
    peerwin_status status = destroy(mapping->gpu, mapping->base, PEERWIN_OK);
    mapping->base = NULL;
    return status;
}

static peerwin_status open_event(pw_mapping *mapping, const pw_handle *handle, size_t offset, const pw_site *site) {
    const pw_driver *driver = mapping->gpu->driver;
    CUevent *events = mapping->base ? mapping->base : calloc(PW_EVENTS, sizeof *events);
    CUipcEventHandle token;
    if (!events)
        return pw_fail_errno(site, ENOMEM, "calloc");
    mapping->base = events;
    memcpy(&token, handle->token, sizeof token);
    CUresult code = driver->cuIpcOpenEventHandle(&events[offset], token);
    explicit_bzero(&token, sizeof token);
    if (code == CUDA_SUCCESS)
        return PEERWIN_OK;
    events[offset] = NULL;
    mapping->base = NULL;
    return destroy(mapping->gpu, events, pw_fail_cuda(driver, site, code, "cuIpcOpenEventHandle"));
}

static peerwin_status release(pw_segment *segment) {
    peerwin_status status = segment->base ? destroy(segment->gpu, segment->base, PEERWIN_OK) : PEERWIN_OK;
    *segment = (pw_segment){.fd = -1};
    return status;
}

const pw_memory_ops *pw_events(void) {
    static const pw_memory_ops ops = {.size = sizeof(pw_memory_ops),
                                      .name = "events",
                                      .granularity = granularity,
                                      .alloc = create,
                                      .seal = seal,
                                      .export_handle = export_handle,
                                      .exported = exported,
                                      .map = open_event,
                                      .unmap = unmap,
                                      .release = release};
    return &ops;
}

/* ---- use ---- */

peerwin_status pw_event_record(pw_gpu *gpu, void *events, unsigned which, peerwin_stream stream, const pw_site *site) {
    CUresult code = gpu->driver->cuEventRecord(((CUevent *)events)[which], (CUstream)stream);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, "cuEventRecord");
}

peerwin_status pw_event_await(pw_gpu *gpu, void *events, unsigned which, peerwin_stream stream, const pw_site *site) {
    CUresult code = gpu->driver->cuStreamWaitEvent((CUstream)stream, ((CUevent *)events)[which], 0);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, "cuStreamWaitEvent");
}
