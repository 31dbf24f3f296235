/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The counts of live objects, kind by kind: each thing made counts once, in its kind alone, and each thing ended does
 * not count any more. Leak checks of other tests stand on this.
 */
#define _GNU_SOURCE
#include "simtest.h"

#include <string.h>
#include <unistd.h>

/* All counts but this one stay as they were. */
static size_t before[SIMCUDA_KINDS];

static void remember(void) {
    for (int kind = 0; kind < SIMCUDA_KINDS; kind++) {
        before[kind] = simcuda_live((enum simcuda_kind)kind);
    }
}

static void expect(enum simcuda_kind changed, long long difference) {
    for (int kind = 0; kind < SIMCUDA_KINDS; kind++) {
        long long more = (long long)simcuda_live((enum simcuda_kind)kind) - (long long)before[kind];
        if (more != (kind == (int)changed ? difference : 0)) {
            simtest_fail(__FILE__, __LINE__, "%s: %lld more, while %s should have %lld more",
                         simcuda_kind_name((enum simcuda_kind)kind), more, simcuda_kind_name(changed), difference);
        }
    }
    remember();
}

static void allocations(void) {
    CUdeviceptr small = 0, big = 0, managed = 0, ordered = 0;
    start();
    remember();
    OK(cuMemAlloc(&small, 100));
    expect(SIMCUDA_ALLOCATIONS, 1);
    OK(cuMemAlloc(&big, 5 * MIB));
    expect(SIMCUDA_ALLOCATIONS, 1);
    OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    expect(SIMCUDA_ALLOCATIONS, 1);
    OK(cuMemAllocAsync(&ordered, 4096, NULL));
    expect(SIMCUDA_ALLOCATIONS, 1);
    OK(cuMemFreeAsync(ordered, NULL));
    OK(cuCtxSynchronize());
    expect(SIMCUDA_ALLOCATIONS, -1);
    OK(cuMemFree(managed));
    OK(cuMemFree(big));
    OK(cuMemFree(small));
    expect(SIMCUDA_ALLOCATIONS, -3);
    stop();
}

static void vmm(void) {
    CUmemGenericAllocationHandle handle = 0, again = 0, imported = 0;
    CUmemAllocationProp prop = device_prop(0, FD);
    CUdeviceptr ptr = 0;
    int fd = -1;
    start();
    remember();
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    expect(SIMCUDA_HANDLES, 1);
    OK(cuMemAddressReserve(&ptr, 2 * MIB, 0, 0, 0));
    expect(SIMCUDA_RESERVATIONS, 1);
    OK(cuMemMap(ptr, 2 * MIB, 0, handle, 0));
    expect(SIMCUDA_MAPPINGS, 1);
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)ptr));
    expect(SIMCUDA_HANDLES, 1);
    OK(cuMemExportToShareableHandle(&fd, handle, FD, 0));
    expect(SIMCUDA_FDS, 1);
    OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, FD));
    expect(SIMCUDA_IMPORTED, 1);
    close(fd);
    expect(SIMCUDA_FDS, -1);
    OK(cuMemRelease(imported));
    expect(SIMCUDA_IMPORTED, -1);
    OK(cuMemRelease(again));
    OK(cuMemRelease(handle));
    expect(SIMCUDA_HANDLES, -2);
    OK(cuMemUnmap(ptr, 2 * MIB));
    expect(SIMCUDA_MAPPINGS, -1);
    OK(cuMemAddressFree(ptr, 2 * MIB));
    expect(SIMCUDA_RESERVATIONS, -1);
    stop();
}

static void streams(void) {
    CUstream stream = NULL;
    CUevent event = NULL, shared = NULL;
    CUmodule module = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    start();
    remember();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    expect(SIMCUDA_STREAMS, 1);
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&shared, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    expect(SIMCUDA_EVENTS, 2);
    kernel(&module, "simtest_add");
    expect(SIMCUDA_MODULES, 1);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    expect(SIMCUDA_GRAPHS, 2);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    expect(SIMCUDA_GRAPHS, -2);
    OK(cuModuleUnload(module));
    expect(SIMCUDA_MODULES, -1);
    OK(cuEventDestroy(event));
    OK(cuEventDestroy(shared));
    expect(SIMCUDA_EVENTS, -2);
    OK(cuStreamDestroy(stream));
    expect(SIMCUDA_STREAMS, -1);
    stop();
}

static void rest(void) {
    CUcontext ctx = start(), popped = NULL;
    CUmemoryPool pool = NULL;
    CUmemPoolProps props;
    static char page[4096];
    void *own = NULL;
    remember();
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuMemPoolCreate(&pool, &props));
    expect(SIMCUDA_POOLS, 1);
    OK(cuMemPoolDestroy(pool));
    expect(SIMCUDA_POOLS, -1);
    OK(cuMemHostRegister(page, sizeof page, 0));
    OK(cuMemAllocHost(&own, 100));
    expect(SIMCUDA_HOST_RANGES, 2);
    OK(cuMemFreeHost(own));
    OK(cuMemHostUnregister(page));
    expect(SIMCUDA_HOST_RANGES, -2);
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    expect(SIMCUDA_CONTEXTS, 1);
    OK(cuDevicePrimaryCtxRelease(0));
    expect(SIMCUDA_CONTEXTS, -1);
    OK(cuCtxPushCurrent(ctx));
    expect(SIMCUDA_CURRENT, 1);
    OK(cuCtxPopCurrent(&popped));
    expect(SIMCUDA_CURRENT, -1);
    stop();
}

/* ---- what is opened counts in the process that opened it ---- */

struct offer {
    CUipcMemHandle small, next;
    CUipcEventHandle event;
    CUmemPoolPtrExportData pointer;
};

static CUmemoryPool shared_pool(void) {
    CUmemoryPool pool = NULL;
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    OK(cuMemPoolCreate(&pool, &props));
    return pool;
}

static void exporter(void) {
    struct offer offer;
    CUdeviceptr small = 0, next = 0, ordered = 0;
    CUevent event = NULL;
    int fd = -1;
    start();
    CUmemoryPool pool = shared_pool();
    OK(cuMemAlloc(&small, 1000));
    OK(cuMemAlloc(&next, 1000));
    OK(cuMemAllocFromPoolAsync(&ordered, 4096, pool, NULL));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    OK(cuCtxSynchronize());
    OK(cuIpcGetMemHandle(&offer.small, small));
    OK(cuIpcGetMemHandle(&offer.next, next));
    OK(cuIpcGetEventHandle(&offer.event, event));
    OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemPoolExportPointer(&offer.pointer, ordered));
    tell(&offer, sizeof offer);
    tell_fd(fd);
    close(fd);
    await();
    OK(cuMemFree(small));
    OK(cuMemFree(next));
    OK(cuMemFree(ordered));
    OK(cuMemPoolDestroy(pool));
    OK(cuEventDestroy(event));
    stop();
}

static void imports(void) {
    struct offer offer;
    CUdeviceptr small = 0, next = 0, again = 0, ordered = 0;
    CUmemoryPool pool = NULL;
    CUevent event = NULL;
    start();
    remember();
    hear(&offer, sizeof offer);
    int fd = hear_fd();
    expect(SIMCUDA_FDS, 1);
    OK(cuIpcOpenMemHandle(&small, offer.small, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuIpcOpenMemHandle(&again, offer.small, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuIpcOpenMemHandle(&next, offer.next, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(small == again && next - small == 1024);
    expect(SIMCUDA_IMPORTED, 3);
    OK(cuIpcCloseMemHandle(small));
    OK(cuIpcCloseMemHandle(small));
    expect(SIMCUDA_IMPORTED, -2);
    (void)peek(next); /* the block stays for the other allocation in it */
    OK(cuIpcCloseMemHandle(next));
    expect(SIMCUDA_IMPORTED, -1);
    OK(cuIpcOpenEventHandle(&event, offer.event));
    expect(SIMCUDA_EVENTS, 1);
    OK(cuEventDestroy(event));
    expect(SIMCUDA_EVENTS, -1);
    OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    expect(SIMCUDA_POOLS, 1);
    OK(cuMemPoolImportPointer(&ordered, pool, &offer.pointer));
    expect(SIMCUDA_IMPORTED, 1);
    OK(cuMemFree(ordered));
    expect(SIMCUDA_IMPORTED, -1);
    OK(cuMemPoolDestroy(pool));
    expect(SIMCUDA_POOLS, -1);
    close(fd);
    hand();
    stop();
}

static void memory_is_counted(void) {
    size_t at_first = 0, with = 0, after = 0, total = 0;
    CUdeviceptr ptr = 0;
    start();
    OK(cuMemGetInfo(&at_first, &total));
    CHECK_EQ(total, 64 * MIB);
    OK(cuMemAlloc(&ptr, 40 * MIB));
    OK(cuMemGetInfo(&with, &total));
    CHECK_EQ(at_first - with, 40 * MIB);
    CUdeviceptr more = 0;
    CHECK_RC(cuMemAlloc(&more, 40 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree(ptr));
    OK(cuMemGetInfo(&after, &total));
    CHECK_EQ(after, at_first);
    stop();
}

static const struct simtest tests[] = {
    {"allocations", allocations, NULL, NULL, NULL, 0, NULL},
    {"vmm", vmm, NULL, NULL, NULL, 0, NULL},
    {"streams", streams, NULL, NULL, NULL, 0, NULL},
    {"streams_in_one_queue", streams, NULL, "SIMCUDA_ONE_QUEUE=1", NULL, 0, NULL},
    {"rest", rest, NULL, NULL, NULL, 0, NULL},
    {"imports", imports, exporter, NULL, NULL, 0, NULL},
    {"memory_is_counted", memory_is_counted, NULL, "SIMCUDA_DEVICE_MIB=64", NULL, 0, NULL},
    {NULL, NULL, NULL, NULL, NULL, 0, NULL}};

int main(int argc, char **argv) {
    return simtest_main(argc, argv, tests);
}
