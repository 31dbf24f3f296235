/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sections of one process about what a library may do while somebody else captures: in which capture modes of which
 * thread, what a stream is that joins a capture and does nothing in it, and waits for a whole context.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conformance.h"

static const char *const mode_names[] = {"global", "thread_local", "relaxed"};

static int state_of(CUstream stream) {
    CUstreamCaptureStatus status = (CUstreamCaptureStatus)9;
    CUresult rc = cu.StreamIsCapturing(stream, &status);
    return rc == CUDA_SUCCESS ? (int)status : (int)rc;
}

static CUstream new_stream(unsigned flags) {
    CUstream stream = NULL;
    cu.StreamCreate(&stream, flags);
    return stream;
}

static CUevent new_event(void) {
    CUevent event = NULL;
    cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
    return event;
}

/* Runs a graph and says what it left in a word. */
static void run_graph(const char *name, CUgraph graph, CUdeviceptr word) {
    CUgraphExec exec = NULL;
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUresult made = cu.GraphInstantiateWithFlags(&exec, graph, 0);
    CUresult launched = cu.GraphLaunch(exec, stream);
    CUresult synced = cu.StreamSynchronize(stream);
    fact(name, "instantiate %d launch %d sync %d value %u", (int)made, (int)launched, (int)synced, peek(word));
    cu.GraphExecDestroy(exec);
    cu.GraphDestroy(graph);
    cu.StreamDestroy(stream);
}

/* ---- a call that captures forbid, by modes and threads ---- */

struct attempt {
    CUcontext ctx;
    CUstreamCaptureMode mode;
    CUresult rc;
    CUstreamCaptureMode before, after;
};

static void *make_attempt(void *data) {
    struct attempt *attempt = data;
    CUdeviceptr ptr = 0;
    CUstreamCaptureMode mode = attempt->mode;
    cu.CtxSetCurrent(attempt->ctx);
    cu.ThreadExchangeStreamCaptureMode(&mode);
    attempt->before = mode;
    attempt->rc = cu.MemAlloc(&ptr, 4096);
    cu.ThreadExchangeStreamCaptureMode(&mode);
    attempt->after = mode;
    return NULL;
}

static void one_attempt(CUcontext ctx, CUstreamCaptureMode capture, CUstreamCaptureMode thread_mode, int elsewhere) {
    struct attempt attempt = {ctx, thread_mode, CUDA_ERROR_UNKNOWN, 0, 0};
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph = NULL;
    pthread_t thread;
    char name[96];
    cu.StreamBeginCapture(stream, capture);
    if (!elsewhere) {
        make_attempt(&attempt);
    } else if (pthread_create(&thread, NULL, make_attempt, &attempt) == 0) {
        pthread_join(thread, NULL);
    }
    int state = state_of(stream);
    CUresult ended = cu.StreamEndCapture(stream, &graph);
    snprintf(name, sizeof name, "%s_in_%s_%s", mode_names[capture], mode_names[thread_mode],
             elsewhere ? "elsewhere" : "here");
    fact(name, "was %d then %d call %d state %d end %d", (int)attempt.before, (int)attempt.after, (int)attempt.rc,
         state, (int)ended);
    cu.GraphDestroy(graph);
    cu.StreamDestroy(stream);
}

static void modes_section(int role) {
    (void)role;
    CUcontext ctx = start_device();
    for (int i = 0; i < 18; i++) {
        one_attempt(ctx, (CUstreamCaptureMode)(i / 6), (CUstreamCaptureMode)(i / 2 % 3), i % 2);
    }
}

/* ---- a stream that joins a capture and does nothing in it ---- */

/* Forks `witness` off `stream` and joins it again. */
static void join(const char *name, CUstream stream, CUstream witness, CUevent event) {
    CUresult rc[4];
    rc[0] = cu.EventRecord(event, stream);
    rc[1] = cu.StreamWaitEvent(witness, event, 0);
    rc[2] = cu.EventRecord(event, witness);
    rc[3] = cu.StreamWaitEvent(stream, event, 0);
    cuuint64_t mine = 1, its = 2;
    CUstreamCaptureStatus status;
    cu.StreamGetCaptureInfo(stream, &status, &mine);
    cu.StreamGetCaptureInfo(witness, &status, &its);
    fact(name, "%d %d %d %d state %d %d same %d", (int)rc[0], (int)rc[1], (int)rc[2], (int)rc[3], state_of(stream),
         state_of(witness), mine == its);
}

static void end(const char *name, CUstream stream, CUstream witness, CUgraph *graph_out) {
    *graph_out = NULL;
    CUresult rc = cu.StreamEndCapture(stream, graph_out);
    fact(name, "%d state %d %d", (int)rc, state_of(stream), state_of(witness));
}

/* Before the first operation, and on a stream that was forked off after one. */
static void joined_section(int role) {
    (void)role;
    start_device();
    CUdeviceptr word = 0;
    CUfunction fill = NULL;
    CUgraph graph = NULL;
    CUevent event = new_event(), fork = new_event();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING), side = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream witness = new_stream(CU_STREAM_NON_BLOCKING);
    (void)fill_module(&fill);
    cu.MemAlloc(&word, 4096);
    poke(word, 0);
    cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    join("first", stream, witness, event);
    result("first_launch", fill_launch(fill, word, 5, 1, stream));
    end("first_end", stream, witness, &graph);
    run_graph("first_run", graph, word);
    cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    result("side_launch", fill_launch(fill, word, 6, 1, stream));
    cu.EventRecord(fork, stream);
    cu.StreamWaitEvent(side, fork, 0);
    join("side", side, witness, event);
    result("side_write", cu.StreamWriteValue32(side, word, 7, 0));
    cu.EventRecord(fork, side);
    cu.StreamWaitEvent(stream, fork, 0);
    end("side_end", stream, witness, &graph);
    run_graph("side_run", graph, word);
    result("witness_write", cu.StreamWriteValue32(witness, word, 8, 0));
    result("witness_sync", cu.StreamSynchronize(witness));
    fact("witness_value", "%u", peek(word));
}

/* Two captures with a witness each, and one event; and a capture that becomes invalid. */
static void joined_more_section(int role) {
    (void)role;
    start_device();
    CUgraph graph = NULL;
    CUevent event = new_event();
    CUstream one = new_stream(CU_STREAM_NON_BLOCKING), two = new_stream(CU_STREAM_NON_BLOCKING);
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING), second = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr word = 0;
    cu.MemAlloc(&word, 4096);
    cu.StreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cu.StreamBeginCapture(two, CU_STREAM_CAPTURE_MODE_RELAXED);
    join("one", one, first, event);
    join("two", two, second, event);
    cu.StreamWriteValue32(one, word, 3, 0);
    cu.StreamWriteValue32(two, word, 4, 0);
    end("one_end", one, first, &graph);
    fact("two_goes_on", "%d %d", state_of(two), state_of(second));
    run_graph("one_run", graph, word);
    end("two_end", two, second, &graph);
    run_graph("two_run", graph, word);
    cu.StreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_GLOBAL);
    join("spoiled", one, first, event);
    result("spoiled_query", cu.StreamQuery(one));
    fact("spoiled_state", "%d %d", state_of(one), state_of(first));
    end("spoiled_end", one, first, &graph);
    result("event_again", cu.EventRecord(event, first));
    result("event_sync", cu.EventSynchronize(event));
    result("event_destroy", cu.EventDestroy(event));
    result("witness_destroy", cu.StreamDestroy(first));
}

/* ---- waiting for a whole context ---- */

typedef CUresult(CUDAAPI *record_context)(CUcontext ctx, CUevent event);

static record_context find_record_context(void) {
    void *entry = NULL;
    record_context found = NULL;
    CUresult rc = cu.GetProcAddress("cuCtxRecordEvent", &entry, 12050, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL);
    fact("entry", "%d %s", (int)rc, entry != NULL ? "found" : "absent");
    memcpy(&found, &entry, sizeof entry);
    return found;
}

static void record_while_capturing(const char *name, record_context record, CUcontext ctx, CUstreamCaptureMode capture,
                                   CUstreamCaptureMode thread_mode) {
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    CUgraph graph = NULL;
    cu.StreamBeginCapture(stream, capture);
    cu.ThreadExchangeStreamCaptureMode(&thread_mode);
    CUresult rc = record(ctx, event);
    cu.ThreadExchangeStreamCaptureMode(&thread_mode);
    int state = state_of(stream);
    fact(name, "call %d state %d end %d", (int)rc, state, (int)cu.StreamEndCapture(stream, &graph));
    cu.GraphDestroy(graph);
    cu.EventDestroy(event);
    cu.StreamDestroy(stream);
}

static void context_event_section(int role) {
    (void)role;
    CUcontext ctx = start_device(), other = NULL;
    CUevent event = new_event();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr word = 0;
    record_context record = find_record_context();
    if (record == NULL) {
        return;
    }
    cu.MemAlloc(&word, 4096);
    poke(word, 0);
    cu.CtxSynchronize();
    result("idle", record(ctx, event));
    result("idle_sync", cu.EventSynchronize(event));
    cu.StreamWaitValue32(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ);
    result("busy", record(ctx, event));
    result("busy_query", cu.EventQuery(event));
    poke(word, 1);
    result("busy_sync", cu.EventSynchronize(event));
    cu.CtxCreate(&other, 0, 0);
    result("other_context", record(other, event));
    cu.CtxSetCurrent(ctx);
    record_while_capturing("global", record, ctx, CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
    record_while_capturing("global_relaxed", record, ctx, CU_STREAM_CAPTURE_MODE_GLOBAL,
                           CU_STREAM_CAPTURE_MODE_RELAXED);
    record_while_capturing("relaxed", record, ctx, CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
    result("afterwards", record(ctx, event));
    result("afterwards_sync", cu.EventSynchronize(event));
}

const struct section mode_sections[] = {{"capture_modes", modes_section, 1},
                                        {"capture_joined", joined_section, 1},
                                        {"capture_joined_more", joined_more_section, 1},
                                        {"context_event", context_event_section, 1},
                                        {NULL, NULL, 0}};
