/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sections of one process about stream capture: which calls it suffers, and graphs.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conformance.h"

static void capture_state(const char *name, CUstream stream) {
    CUstreamCaptureStatus status = (CUstreamCaptureStatus)9;
    CUresult rc = cu.StreamIsCapturing(stream, &status);
    fact(name, "rc %d status %d", (int)rc, (int)status);
}

static void CUDA_CB host_note(void *data) {
    *(int *)data += 1;
}

/* One call that may be unsafe during capture, in a fresh capture; says what it returned and what became of the capture.
 */
enum unsafe {
    ALLOC,
    FREE,
    ALLOC_ASYNC,
    CREATE,
    MAP,
    EVENT_CREATE,
    EVENT_QUERY,
    STREAM_CREATE,
    STREAM_SYNC,
    SELF_QUERY,
    SELF_SYNC,
    CTX_SYNC,
    LEGACY_MEMSET,
    SYNC_COPY,
    REGISTER,
    POINTER,
    IPC_GET,
    MODULE_LOAD,
    RECORD,
    MEMOP,
    WAIT_OUTSIDE,
    FREE_ASYNC,
    POOL_ALLOC,
    UNMAP,
    SET_ACCESS,
    EVENT_DESTROY,
    STREAM_DESTROY,
    EVENT_SYNC,
    GET_INFO,
    MEMSET_SYNC,
    SELF_ID,
    SELF_CONTEXT,
    NUM_UNSAFE
};
static const char *const unsafe_names[NUM_UNSAFE] = {
    "alloc",         "free",        "alloc_async", "create",      "map",           "event_create",   "event_query",
    "stream_create", "sync",        "self_query",  "self_sync",   "ctx_sync",      "legacy_memset",  "sync_copy",
    "register",      "pointer",     "ipc_get",     "module",      "record",        "memop",          "wait_outside",
    "free_async",    "pool_alloc",  "unmap",       "set_access",  "event_destroy", "stream_destroy", "event_sync",
    "get_info",      "memset_sync", "self_id",     "self_context"};

struct capture_world {
    CUstream stream, other;
    CUevent recorded, fresh;
    CUdeviceptr dev, spare;
    CUdeviceptr va, mapped, stream_ordered;
    CUmemoryPool pool;
    CUmemGenericAllocationHandle handle;
};

static CUresult call_more_unsafe(enum unsafe which, struct capture_world *w) {
    CUmemAccessDesc access;
    CUdeviceptr ptr = 0;
    CUcontext context = NULL;
    unsigned long long number = 0;
    size_t a, b;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    switch (which) {
    case FREE_ASYNC:
        return cu.MemFreeAsync(w->stream_ordered, w->other);
    case POOL_ALLOC:
        return cu.MemAllocFromPoolAsync(&ptr, 4096, w->pool, w->other);
    case UNMAP:
        return cu.MemUnmap(w->mapped, 2 * MIB);
    case SET_ACCESS:
        return cu.MemSetAccess(w->mapped, 2 * MIB, &access, 1);
    case EVENT_DESTROY:
        return cu.EventDestroy(w->fresh);
    case STREAM_DESTROY:
        return cu.StreamDestroy(w->other);
    case EVENT_SYNC:
        return cu.EventSynchronize(w->recorded);
    case GET_INFO:
        return cu.MemGetInfo(&a, &b);
    case MEMSET_SYNC:
        return cu.MemsetD8(w->dev, 0, 16);
    case SELF_ID:
        return cu.StreamGetId(w->stream, &number);
    case SELF_CONTEXT:
        return cu.StreamGetCtx(w->stream, &context);
    default:
        return CUDA_ERROR_UNKNOWN;
    }
}

static CUresult call_unsafe(enum unsafe which, struct capture_world *w) {
    CUevent event = NULL;
    CUstream stream = NULL;
    CUdeviceptr ptr = 0;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = vmm_prop(0);
    CUipcMemHandle ipc;
    CUmodule module = NULL;
    int value = 0;
    static char page[8192];
    switch (which) {
    case ALLOC:
        return cu.MemAlloc(&ptr, 4096);
    case FREE:
        return cu.MemFree(w->spare);
    case ALLOC_ASYNC:
        return cu.MemAllocAsync(&ptr, 4096, w->other);
    case CREATE:
        return cu.MemCreate(&handle, 2 * MIB, &prop, 0);
    case MAP:
        return cu.MemMap(w->va, 2 * MIB, 0, w->handle, 0);
    case EVENT_CREATE:
        return cu.EventCreate(&event, 0);
    case EVENT_QUERY:
        return cu.EventQuery(w->recorded);
    case STREAM_CREATE:
        return cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    case STREAM_SYNC:
        return cu.StreamSynchronize(w->other);
    case SELF_QUERY:
        return cu.StreamQuery(w->stream);
    case SELF_SYNC:
        return cu.StreamSynchronize(w->stream);
    case CTX_SYNC:
        return cu.CtxSynchronize();
    case LEGACY_MEMSET:
        return cu.MemsetD8Async(w->dev, 0, 16, NULL);
    case SYNC_COPY:
        return cu.MemcpyHtoD(w->dev, &value, sizeof value);
    case REGISTER:
        return cu.MemHostRegister(page, sizeof page, 0);
    case POINTER:
        return cu.PointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, w->dev);
    case IPC_GET:
        return cu.IpcGetMemHandle(&ipc, w->dev);
    case MODULE_LOAD:
        return cu.ModuleLoadData(&module, fill_ptx);
    case RECORD:
        return cu.EventRecord(w->fresh, w->stream);
    case MEMOP:
        return cu.StreamWriteValue32(w->stream, w->dev, 1, 0);
    case WAIT_OUTSIDE:
        return cu.StreamWaitEvent(w->stream, w->recorded, 0);
    default:
        return call_more_unsafe(which, w);
    }
}

static void one_unsafe(enum unsafe which, CUstreamCaptureMode mode, const char *suffix, unsigned stream_flags) {
    struct capture_world w;
    memset(&w, 0, sizeof w);
    CUmemAllocationProp prop = vmm_prop(0);
    char name[64];
    cu.StreamCreate(&w.stream, stream_flags);
    cu.StreamCreate(&w.other, CU_STREAM_NON_BLOCKING);
    cu.EventCreate(&w.recorded, CU_EVENT_DISABLE_TIMING);
    cu.EventCreate(&w.fresh, CU_EVENT_DISABLE_TIMING);
    cu.MemAlloc(&w.dev, 4096);
    cu.MemAlloc(&w.spare, 4096);
    cu.MemCreate(&w.handle, 2 * MIB, &prop, 0);
    cu.MemAddressReserve(&w.va, 2 * MIB, 0, 0, 0);
    w.mapped = vmm_make(2 * MIB, 0).ptr;
    cu.DeviceGetDefaultMemPool(&w.pool, 0);
    cu.MemAllocAsync(&w.stream_ordered, 4096, w.other);
    cu.EventRecord(w.recorded, w.other);
    cu.CtxSynchronize();
    CUresult began = cu.StreamBeginCapture(w.stream, mode);
    CUresult rc = call_unsafe(which, &w);
    CUstreamCaptureStatus status = (CUstreamCaptureStatus)9;
    CUresult asked = cu.StreamIsCapturing(w.stream, &status);
    CUgraph graph = NULL;
    CUresult ended = cu.StreamEndCapture(w.stream, &graph);
    snprintf(name, sizeof name, "%s%s", unsafe_names[which], suffix);
    fact(name, "begin %d call %d state %d %d end %d", (int)began, (int)rc, (int)asked, (int)status, (int)ended);
    cu.GraphDestroy(graph);
}

static void capture_global_section(int role) {
    (void)role;
    start_device();
    for (int i = 0; i < NUM_UNSAFE; i++) {
        one_unsafe((enum unsafe)i, CU_STREAM_CAPTURE_MODE_GLOBAL, "", CU_STREAM_NON_BLOCKING);
    }
    one_unsafe(LEGACY_MEMSET, CU_STREAM_CAPTURE_MODE_GLOBAL, "_blocking", CU_STREAM_DEFAULT);
    one_unsafe(SYNC_COPY, CU_STREAM_CAPTURE_MODE_GLOBAL, "_blocking", CU_STREAM_DEFAULT);
}

static void capture_relaxed_section(int role) {
    (void)role;
    start_device();
    for (int i = 0; i < NUM_UNSAFE; i++) {
        one_unsafe((enum unsafe)i, CU_STREAM_CAPTURE_MODE_RELAXED, "", CU_STREAM_NON_BLOCKING);
    }
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    result("exchange", cu.ThreadExchangeStreamCaptureMode(&mode));
    fact("exchange_was", "%d", (int)mode);
    for (int i = 0; i < NUM_UNSAFE; i++) {
        one_unsafe((enum unsafe)i, CU_STREAM_CAPTURE_MODE_GLOBAL, "_in_relaxed_thread", CU_STREAM_NON_BLOCKING);
    }
}

static void graph_section(int role) {
    (void)role;
    start_device();
    CUstream stream = NULL, other = NULL;
    CUdeviceptr dev = 0;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUevent fork_event = NULL, join_event = NULL;
    CUfunction fill = NULL;
    cuuint64_t id = 0;
    CUstreamCaptureStatus status;
    CUmodule module = fill_module(&fill);
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cu.StreamCreate(&other, CU_STREAM_NON_BLOCKING);
    cu.EventCreate(&fork_event, CU_EVENT_DISABLE_TIMING);
    cu.EventCreate(&join_event, CU_EVENT_DISABLE_TIMING);
    cu.MemAlloc(&dev, 4096);
    cu.MemsetD8Async(dev, 0, 4096, NULL);
    cu.CtxSynchronize();
    capture_state("idle", stream);
    result("end_idle", cu.StreamEndCapture(stream, &graph));
    result("begin_legacy", cu.StreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    result("begin", cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    result("begin_twice", cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    capture_state("capturing", stream);
    capture_state("legacy_while_capturing", NULL);
    result("info", cu.StreamGetCaptureInfo(stream, &status, &id));
    fact("info_values", "status %d id %d", (int)status, id != 0);
    result("launch", fill_launch(fill, dev, 3, 100, stream));
    result("fork", cu.EventRecord(fork_event, stream));
    result("fork_wait", cu.StreamWaitEvent(other, fork_event, 0));
    capture_state("forked", other);
    result("write", cu.StreamWriteValue32(other, dev + 2048, 11, 0));
    result("join", cu.EventRecord(join_event, other));
    result("join_wait", cu.StreamWaitEvent(stream, join_event, 0));
    result("wait", cu.StreamWaitValue32(stream, dev + 2048, 11, CU_STREAM_WAIT_VALUE_EQ));
    result("end", cu.StreamEndCapture(stream, &graph));
    fact("nothing_ran", "%u", peek(dev));
    result("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
    result("graph_launch", cu.GraphLaunch(exec, stream));
    result("graph_sync", cu.StreamSynchronize(stream));
    fact("ran", "%u %u", peek(dev), peek(dev + 2048));
    result("exec_destroy", cu.GraphExecDestroy(exec));
    result("graph_destroy", cu.GraphDestroy(graph));
    cu.ModuleUnload(module);
}

/* The ways in which a capture ends badly, and what an event that was recorded in one is afterwards. */
static void graph_wrong_section(int role) {
    (void)role;
    start_device();
    CUstream stream = NULL, other = NULL;
    CUdeviceptr dev = 0;
    CUgraph graph = NULL;
    CUevent fork_event = NULL, dead = NULL;
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cu.StreamCreate(&other, CU_STREAM_NON_BLOCKING);
    cu.EventCreate(&fork_event, CU_EVENT_DISABLE_TIMING);
    cu.EventCreate(&dead, CU_EVENT_DISABLE_TIMING);
    cu.MemAlloc(&dev, 4096);
    result("unjoined_begin", cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    cu.EventRecord(fork_event, stream);
    cu.StreamWaitEvent(other, fork_event, 0);
    result("unjoined_end", cu.StreamEndCapture(stream, &graph));
    capture_state("unjoined_other", other);
    result("unjoined_work_begin", cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    cu.EventRecord(fork_event, stream);
    cu.StreamWaitEvent(other, fork_event, 0);
    cu.StreamWriteValue32(other, dev, 1, 0);
    result("unjoined_work_end", cu.StreamEndCapture(stream, &graph));
    capture_state("unjoined_work_other", other);
    result("query_begin", cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    cu.EventRecord(dead, stream);
    result("query_captured", cu.EventQuery(dead));
    capture_state("query_state", stream);
    result("query_end", cu.StreamEndCapture(stream, &graph));
    result("query_after", cu.EventQuery(dead));
    result("sync_after", cu.EventSynchronize(dead));
    result("wait_after", cu.StreamWaitEvent(other, dead, 0));
    result("dead_begin", cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    result("dead_wait_external", cu.StreamWaitEvent(stream, dead, CU_EVENT_WAIT_EXTERNAL));
    capture_state("dead_state", stream);
    result("dead_end", cu.StreamEndCapture(stream, &graph));
    result("record_again", cu.EventRecord(dead, other));
    result("query_again", cu.EventSynchronize(dead));
}

static void graph_external_section(int role) {
    (void)role;
    start_device();
    CUstream stream = NULL, other = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUevent sent = NULL, awaited = NULL;
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cu.StreamCreate(&other, CU_STREAM_NON_BLOCKING);
    cu.EventCreate(&sent, CU_EVENT_DISABLE_TIMING);
    cu.EventCreate(&awaited, CU_EVENT_DISABLE_TIMING);
    static int calls;
    result("begin", cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    result("record", cu.EventRecordWithFlags(sent, stream, CU_EVENT_RECORD_EXTERNAL));
    result("query_in_capture", cu.EventQuery(sent));
    result("wait", cu.StreamWaitEvent(stream, awaited, CU_EVENT_WAIT_EXTERNAL));
    result("host_func", cu.LaunchHostFunc(stream, host_note, &calls));
    result("end", cu.StreamEndCapture(stream, &graph));
    result("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
    result("launch", cu.GraphLaunch(exec, stream));
    result("outside_wait", cu.StreamWaitEvent(other, sent, 0));
    result("outside_sync", cu.StreamSynchronize(other));
    result("sync", cu.StreamSynchronize(stream));
    fact("calls", "%d", calls);
    result("query_sent", cu.EventQuery(sent));
}

/* A graph of one kernel, built by hand and changed before each launch, while another stream captures. */
static CUresult set_fill(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *like, struct fill args) {
    void *fill_params[1] = {&args};
    CUDA_KERNEL_NODE_PARAMS_v2 params = *like;
    params.kernelParams = fill_params;
    params.gridDimX = (args.count + 127) / 128;
    return cu.GraphExecKernelNodeSetParams(exec, node, &params);
}

static void graph_of_one_section(int role) {
    (void)role;
    start_device();
    CUstream stream = NULL, other = NULL, stuck = NULL;
    CUdeviceptr dev = 0;
    CUgraph graph = NULL, captured = NULL;
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL;
    CUfunction fill = NULL;
    (void)fill_module(&fill);
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cu.StreamCreate(&other, CU_STREAM_NON_BLOCKING);
    cu.StreamCreate(&stuck, CU_STREAM_NON_BLOCKING);
    cu.MemAlloc(&dev, 65536);
    cu.MemsetD8Async(dev, 0, 65536, NULL);
    cu.CtxSynchronize();
    struct fill first = {dev, 1, 4};
    void *params_of_first[1] = {&first};
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    memset(&params, 0, sizeof params);
    params.func = fill;
    params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.blockDimX = 128;
    params.kernelParams = params_of_first;
    result("create", cu.GraphCreate(&graph, 0));
    result("add", cu.GraphAddKernelNode(&node, graph, NULL, 0, &params));
    result("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
    result("launch", cu.GraphLaunch(exec, stream));
    result("set", set_fill(exec, node, &params, (struct fill){dev + 1024, 2, 300}));
    result("launch_set", cu.GraphLaunch(exec, stream));
    result("set_again", set_fill(exec, node, &params, (struct fill){dev + 4096, 3, 4}));
    result("launch_legacy", cu.GraphLaunch(exec, NULL));
    result("sync", cu.CtxSynchronize());
    fact("values", "%u %u %u", peek(dev), peek(dev + 1024 + 4 * 299), peek(dev + 4096));
    result("begin", cu.StreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_GLOBAL));
    result("set_while_capturing", set_fill(exec, node, &params, (struct fill){dev + 8192, 4, 4}));
    result("launch_while_capturing", cu.GraphLaunch(exec, stream));
    capture_state("capture_after", other);
    result("end", cu.StreamEndCapture(other, &captured));
    result("wait", cu.StreamWaitValue32(stuck, dev, 9, CU_STREAM_WAIT_VALUE_EQ));
    result("launch_stuck", cu.GraphLaunch(exec, stuck));
    result("launch_behind", cu.GraphLaunch(exec, stream));
    usleep(100000);
    result("query_behind", cu.StreamQuery(stream));
    poke(dev, 9);
    result("sync_stuck", cu.StreamSynchronize(stuck));
    result("sync_behind", cu.StreamSynchronize(stream));
    result("exec_destroy", cu.GraphExecDestroy(exec));
    result("destroy", cu.GraphDestroy(graph));
}

const struct section capture_sections[] = {{"capture_global", capture_global_section, 1},
                                           {"capture_relaxed", capture_relaxed_section, 1},
                                           {"graph", graph_section, 1},
                                           {"graph_wrong", graph_wrong_section, 1},
                                           {"graph_external", graph_external_section, 1},
                                           {"graph_of_one", graph_of_one_section, 1},
                                           {NULL, NULL, 0}};
