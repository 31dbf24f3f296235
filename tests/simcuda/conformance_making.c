/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sections about making things, and taking them away again, while a capture goes on: in a thread of relaxed capture
 * mode, beside a capture of the strictest mode on a stream that waits for the legacy stream, and on one that does not.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conformance.h"

/* The first failure of a chain of calls. */
static CUresult then(CUresult first, CUresult next) {
    return first != CUDA_SUCCESS ? first : next;
}

struct world {
    CUcontext ctx;
    CUstream own; /* a library's */
    CUdeviceptr dev;
    CUipcMemHandle memory; /* of another process, if there is one */
    CUipcEventHandle event;
};

static CUresult make_nothing(const struct world *w) {
    CUdeviceptr base = 0;
    size_t size = 0;
    int type = 0;
    CUresult rc = cu.MemGetAddressRange(&base, &size, w->dev);
    return then(rc, cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, w->dev));
}

static CUresult make_memory(const struct world *w) {
    CUdeviceptr ptr = 0;
    CUipcMemHandle handle;
    (void)w;
    CUresult rc = cu.MemAlloc(&ptr, 3 * MIB);
    rc = then(rc, cu.IpcGetMemHandle(&handle, ptr));
    return then(rc, cu.MemFree(ptr));
}

static CUresult make_virtual(const struct world *w) {
    struct vmm vmm = {0, 0, 2 * MIB};
    const CUmemAllocationProp prop = vmm_prop(FD);
    CUmemGenericAllocationHandle imported = 0;
    int fd = -1;
    (void)w;
    CUresult rc = cu.MemCreate(&vmm.handle, vmm.bytes, &prop, 0);
    rc = then(rc, vmm_map(&vmm, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    rc = then(rc, cu.MemExportToShareableHandle(&fd, vmm.handle, FD, 0));
    rc = then(rc, cu.MemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, FD));
    rc = then(rc, cu.MemRelease(imported));
    rc = then(rc, cu.MemUnmap(vmm.ptr, vmm.bytes));
    rc = then(rc, cu.MemAddressFree(vmm.ptr, vmm.bytes));
    close(fd);
    return then(rc, cu.MemRelease(vmm.handle));
}

static CUresult make_pool(const struct world *w) {
    CUmemPoolProps props;
    CUmemPoolPtrExportData data;
    CUmemoryPool pool = NULL;
    CUdeviceptr ptr = 0;
    int fd = -1;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.handleTypes = FD;
    CUresult rc = cu.MemPoolCreate(&pool, &props);
    rc = then(rc, cu.MemAllocFromPoolAsync(&ptr, 4096, pool, w->own));
    rc = then(rc, cu.MemPoolExportToShareableHandle(&fd, pool, FD, 0));
    rc = then(rc, cu.MemPoolExportPointer(&data, ptr));
    rc = then(rc, cu.MemFreeAsync(ptr, w->own));
    rc = then(rc, cu.StreamSynchronize(w->own));
    close(fd);
    return then(rc, cu.MemPoolDestroy(pool));
}

static CUresult make_host(const struct world *w) {
    static char pages[8192] __attribute__((aligned(4096)));
    CUdeviceptr ptr = 0;
    void *memory = NULL;
    (void)w;
    CUresult rc = cu.MemAllocHost(&memory, 4096);
    rc = then(rc, cu.MemFreeHost(memory));
    rc = then(rc, cu.MemHostRegister(pages, sizeof pages, CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE));
    rc = then(rc, cu.MemHostGetDevicePointer(&ptr, pages, 0));
    return then(rc, cu.MemHostUnregister(pages));
}

static CUresult make_stream(const struct world *w) {
    CUstream stream = NULL;
    int least = 0, greatest = 0;
    (void)w;
    CUresult rc = cu.CtxGetStreamPriorityRange(&least, &greatest);
    rc = then(rc, cu.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
    rc = then(rc, cu.StreamQuery(stream));
    return then(rc, cu.StreamDestroy(stream));
}

static CUresult make_event(const struct world *w) {
    CUipcEventHandle handle;
    CUevent event = NULL;
    CUresult rc = cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    rc = then(rc, cu.IpcGetEventHandle(&handle, event));
    rc = then(rc, cu.EventRecord(event, w->own));
    rc = then(rc, cu.EventSynchronize(event));
    return then(rc, cu.EventDestroy(event));
}

static CUresult make_module(const struct world *w) {
    CUmodule module = NULL;
    CUfunction fill = NULL;
    CUresult rc = cu.ModuleLoadData(&module, fill_ptx);
    rc = then(rc, cu.ModuleGetFunction(&fill, module, "conformance_fill"));
    rc = then(rc, cu.FuncLoad != NULL ? cu.FuncLoad(fill) : CUDA_SUCCESS);
    rc = then(rc, fill_launch(fill, w->dev, 1, 4, w->own));
    rc = then(rc, cu.StreamSynchronize(w->own));
    return then(rc, cu.ModuleUnload(module));
}

static CUresult make_copies(const struct world *w) {
    uint32_t *pinned = NULL;
    CUresult rc = cu.MemAllocHost((void **)&pinned, 4096);
    rc = then(rc, cu.MemsetD8Async(w->dev, 0, 4096, w->own));
    rc = then(rc, cu.MemcpyDtoHAsync(pinned, w->dev, 4096, w->own));
    rc = then(rc, cu.MemcpyHtoDAsync(w->dev, pinned, 4096, w->own));
    rc = then(rc, cu.StreamSynchronize(w->own));
    rc = then(rc, cu.StreamQuery(w->own));
    return then(rc, cu.MemFreeHost(pinned));
}

static CUresult retain_context(const struct world *w) {
    CUcontext ctx = NULL;
    unsigned long long number = 0;
    CUresult rc = cu.DevicePrimaryCtxRetain(&ctx, 0);
    rc = then(rc, cu.CtxPushCurrent(w->ctx));
    rc = then(rc, cu.CtxGetId(ctx, &number));
    rc = then(rc, cu.CtxPopCurrent(&ctx));
    return then(rc, cu.DevicePrimaryCtxRelease(0));
}

static CUresult open_memory(const struct world *w) {
    CUdeviceptr ptr = 0;
    CUresult rc = cu.IpcOpenMemHandle(&ptr, w->memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    return then(rc, cu.IpcCloseMemHandle(ptr));
}

static CUresult open_event(const struct world *w) {
    CUevent event = NULL;
    CUresult rc = cu.IpcOpenEventHandle(&event, w->event);
    rc = then(rc, cu.StreamWaitEvent(w->own, event, 0));
    rc = then(rc, cu.StreamSynchronize(w->own));
    return then(rc, cu.EventDestroy(event));
}

static void beside_capture(const char *what, CUresult (*make)(const struct world *w), const struct world *w) {
    static const struct {
        const char *name;
        unsigned flags;
    } streams[] = {{"", CU_STREAM_NON_BLOCKING}, {"_blocking", CU_STREAM_DEFAULT}};
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        CUstreamCaptureStatus status = (CUstreamCaptureStatus)9;
        CUstream stream = NULL;
        CUgraph graph = NULL;
        char name[64];
        cu.StreamCreate(&stream, streams[i].flags);
        cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
        cu.ThreadExchangeStreamCaptureMode(&mode);
        CUresult rc = make(w);
        cu.ThreadExchangeStreamCaptureMode(&mode);
        cu.StreamIsCapturing(stream, &status);
        CUresult ended = cu.StreamEndCapture(stream, &graph);
        snprintf(name, sizeof name, "%s%s", what, streams[i].name);
        fact(name, "call %d state %d end %d", (int)rc, (int)status, (int)ended);
        cu.GraphDestroy(graph);
        cu.StreamDestroy(stream);
    }
}

static struct world start_world(void) {
    struct world w;
    memset(&w, 0, sizeof w);
    w.ctx = start_device();
    cu.StreamCreate(&w.own, CU_STREAM_NON_BLOCKING);
    cu.MemAlloc(&w.dev, 4096);
    cu.CtxSynchronize();
    return w;
}

static void making_section(int role) {
    (void)role;
    const struct world w = start_world();
    beside_capture("nothing", make_nothing, &w);
    beside_capture("memory", make_memory, &w);
    beside_capture("virtual", make_virtual, &w);
    beside_capture("pool", make_pool, &w);
    beside_capture("host", make_host, &w);
    beside_capture("stream", make_stream, &w);
    beside_capture("event", make_event, &w);
    beside_capture("module", make_module, &w);
    beside_capture("copies", make_copies, &w);
    beside_capture("context", retain_context, &w);
}

/* What another process offers. */
static void opening_section(int role) {
    struct world w = start_world();
    if (role == 0) {
        CUevent event = NULL;
        cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
        cu.IpcGetEventHandle(&w.event, event);
        cu.IpcGetMemHandle(&w.memory, w.dev);
        tell(&w.memory, sizeof w.memory);
        tell(&w.event, sizeof w.event);
        await();
        return;
    }
    hear(&w.memory, sizeof w.memory);
    hear(&w.event, sizeof w.event);
    beside_capture("memory", open_memory, &w);
    beside_capture("event", open_event, &w);
    hand();
}

const struct section making_sections[] = {
    {"capture_making", making_section, 1}, {"capture_opening", opening_section, 2}, {NULL, NULL, 0}};
