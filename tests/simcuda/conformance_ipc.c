/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sections of two processes: what an importer sees of memory and events of each kind, and what is left of them when the
 * exporter frees or dies. Role 0 exports, role 1 imports; they print in turns.
 */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "conformance.h"

static CUdeviceptr opened(const char *name, const CUipcMemHandle *handle) {
    CUdeviceptr ptr = 0;
    result(name, cu.IpcOpenMemHandle(&ptr, *handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    return ptr;
}

/* ---- legacy ---- */

struct legacy_offer {
    CUipcMemHandle big, inner, small, next, tail;
    long long small_distance; /* next - small */
};

static void legacy_exporter(void) {
    CUdeviceptr big = 0, small = 0, next = 0;
    struct legacy_offer offer;
    start_device();
    cu.MemAlloc(&big, 6 * MIB);
    cu.MemAlloc(&small, 1000);
    cu.MemAlloc(&next, 1000);
    poke(big, 100);
    poke(big + 4096, 101);
    poke(big + 4 * MIB, 102);
    poke(small, 200);
    poke(next, 300);
    cu.IpcGetMemHandle(&offer.big, big);
    cu.IpcGetMemHandle(&offer.inner, big + 4096);
    cu.IpcGetMemHandle(&offer.tail, big + 4 * MIB);
    cu.IpcGetMemHandle(&offer.small, small);
    cu.IpcGetMemHandle(&offer.next, next);
    offer.small_distance = (long long)(next - small);
    tell(&offer, sizeof offer);
    await();
    fact("exporter_sees", "%u %u", peek(big + 8), peek(small + 8));
    step();
    result("exporter_free", cu.MemFree(big));
    step();
}

static void legacy_importer(void) {
    struct legacy_offer offer;
    CUcontext ctx = start_device();
    CUdeviceptr ptr;
    hear(&offer, sizeof offer);
    CUdeviceptr big = opened("open", &offer.big), again = opened("open_again", &offer.big);
    fact("open_again_same", "%d", again == big);
    range_fact("range", big);
    range_fact("range_inner", big + 5 * MIB);
    pointer_facts("attributes", big, ctx);
    fact("values", "%u %u %u", peek(big), peek(big + 4096), peek(big + 4 * MIB));
    ptr = opened("inner", &offer.inner);
    fact("inner_offset", "%lld value %u", (long long)(ptr - big), peek(ptr));
    result("inner_close", cu.IpcCloseMemHandle(ptr));
    ptr = opened("tail", &offer.tail);
    fact("tail_offset", "%lld value %u", (long long)(ptr - big), peek(ptr));
    result("tail_close", cu.IpcCloseMemHandle(ptr));
    CUdeviceptr small = opened("small", &offer.small), next = opened("next", &offer.next);
    range_fact("small_range", small);
    range_fact("next_range", next);
    fact("small_values", "%u %u", peek(small), peek(next));
    fact("small_distance_kept", "%d", (long long)(next - small) == offer.small_distance);
    fact("small_is_block", "%d %d", small % (2 * MIB) == 0, next % (2 * MIB) == 0);
    CUipcMemHandle handle;
    result("export_imported", cu.IpcGetMemHandle(&handle, big));
    result("free_imported", cu.MemFree(big));
    result("write_value", cu.StreamWriteValue64(NULL, big + 8, 55, 0));
    result("wait_value", cu.StreamWaitValue64(NULL, big + 8, 55, CU_STREAM_WAIT_VALUE_GEQ));
    result("sync", cu.CtxSynchronize());
    poke(small + 8, 66);
    hand();
    await();
    result("close_inner", cu.IpcCloseMemHandle(big + 4096));
    result("close", cu.IpcCloseMemHandle(big));
    fact("still_mapped", "%u", peek(big));
    cu.CtxSetCurrent(NULL);
    CUresult rc = cu.IpcCloseMemHandle(big);
    cu.CtxSetCurrent(ctx);
    result("close_no_context", rc);
    if (rc != CUDA_SUCCESS) {
        result("close_again", cu.IpcCloseMemHandle(big));
    }
    result("close_too_often", cu.IpcCloseMemHandle(big));
    range_fact("closed_range", big);
    result("close_small", cu.IpcCloseMemHandle(small));
    result("close_next", cu.IpcCloseMemHandle(next));
    step();
    opened("open_freed", &offer.big);
    hand();
}

static void legacy_section(int role) {
    (role == 0 ? legacy_exporter : legacy_importer)();
}

/* ---- VMM descriptors ---- */

static void vmm_exporter(void) {
    CUcontext ctx = start_device();
    struct vmm vmm = vmm_make(4 * MIB, FD);
    int fd = -1;
    poke(vmm.ptr, 500);
    poke(vmm.ptr + 4 * MIB - 4, 501);
    result("export", cu.MemExportToShareableHandle(&fd, vmm.handle, FD, 0));
    tell_fd(fd);
    close(fd);
    await();
    fact("exporter_sees", "%u", peek(vmm.ptr + 4));
    pointer_facts("exporter_attributes", vmm.ptr, ctx);
    vmm_drop(&vmm);
    step();
}

static void vmm_importer(void) {
    CUcontext ctx = start_device();
    struct vmm vmm = {0, 0, 4 * MIB}, twin = {0, 0, 4 * MIB};
    CUmemAllocationProp got;
    CUmemGenericAllocationHandle back = 0;
    CUipcMemHandle legacy;
    int fd = hear_fd(), again = -1;
    result("import", cu.MemImportFromShareableHandle(&vmm.handle, (void *)(intptr_t)fd, FD));
    result("import_again", cu.MemImportFromShareableHandle(&twin.handle, (void *)(intptr_t)fd, FD));
    fact("import_again_other", "%d", twin.handle != vmm.handle);
    close(fd);
    memset(&got, 0, sizeof got);
    result("props", cu.MemGetAllocationPropertiesFromHandle(&got, vmm.handle));
    fact("props_values", "type %d handles %d location %d %d", (int)got.type, (int)got.requestedHandleTypes,
         (int)got.location.type, got.location.id);
    struct vmm larger = {vmm.handle, 0, 6 * MIB};
    result("map_larger", vmm_map(&larger, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    result("map", vmm_map(&vmm, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    result("map_twin", vmm_map(&twin, CU_MEM_ACCESS_FLAGS_PROT_READ));
    fact("values", "%u %u", peek(vmm.ptr), peek(vmm.ptr + 4 * MIB - 4));
    pointer_facts("attributes", vmm.ptr + 8, ctx);
    range_fact("range", vmm.ptr + MIB);
    result("legacy", cu.IpcGetMemHandle(&legacy, vmm.ptr));
    result("reexport", cu.MemExportToShareableHandle(&again, vmm.handle, FD, 0));
    result("retain", cu.MemRetainAllocationHandle(&back, (void *)(uintptr_t)vmm.ptr));
    fact("retain_same", "%d", back == vmm.handle);
    result("retain_release", cu.MemRelease(back));
    result("release", cu.MemRelease(vmm.handle));
    vmm.handle = 0;
    result("write_value", cu.StreamWriteValue32(NULL, vmm.ptr + 4, 77, 0));
    result("wait_value", cu.StreamWaitValue32(NULL, vmm.ptr + 4, 77, CU_STREAM_WAIT_VALUE_EQ));
    result("sync", cu.CtxSynchronize());
    fact("twin_sees", "%u", peek(twin.ptr + 4));
    step();
    fact("after_exporter_dropped", "%u %u", peek(vmm.ptr), peek(vmm.ptr + 4));
    vmm_drop(&vmm);
    vmm_drop(&twin);
    hand();
}

static void vmm_fd_section(int role) {
    (role == 0 ? vmm_exporter : vmm_importer)();
}

/* ---- pools ---- */

static CUmemPoolProps pool_props(void) {
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return props;
}

static void pool_exporter(void) {
    CUmemoryPool pool = NULL;
    CUdeviceptr ptr = 0, second = 0;
    CUmemPoolProps props = pool_props();
    CUmemPoolPtrExportData data[2];
    int fd = -1;
    start_device();
    cu.MemPoolCreate(&pool, &props);
    cu.MemAllocFromPoolAsync(&ptr, 3 * MIB, pool, NULL);
    cu.MemAllocFromPoolAsync(&second, 1000, pool, NULL);
    cu.CtxSynchronize();
    poke(ptr, 600);
    poke(second, 601);
    poke(ptr + 4, 602);
    result("export", cu.MemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    cu.MemPoolExportPointer(&data[0], ptr);
    cu.MemPoolExportPointer(&data[1], second);
    tell_fd(fd);
    tell(data, sizeof data);
    await();
    fact("exporter_sees", "%u", peek(ptr + 4));
    result("exporter_free", cu.MemFreeAsync(ptr, NULL));
    result("exporter_free_second", cu.MemFree(second));
    result("exporter_destroy", cu.MemPoolDestroy(pool));
    hand();
}

static void pool_importer(void) {
    CUcontext ctx = start_device();
    CUmemoryPool pool = NULL, found = NULL;
    CUmemPoolPtrExportData data[2];
    CUdeviceptr ptr = 0, second = 0, again = 0, fresh = 0;
    CUmemAccessDesc access;
    CUipcMemHandle legacy;
    int fd = hear_fd();
    hear(data, sizeof data);
    result("import", cu.MemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
                                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    close(fd);
    result("import_pointer", cu.MemPoolImportPointer(&ptr, pool, &data[0]));
    result("import_second", cu.MemPoolImportPointer(&second, pool, &data[1]));
    result("import_pointer_again", cu.MemPoolImportPointer(&again, pool, &data[0]));
    fact("import_pointer_again_same", "%d", again == ptr);
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result("set_access", cu.MemPoolSetAccess(pool, &access, 1));
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    result("set_access_read", cu.MemPoolSetAccess(pool, &access, 1));
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    result("set_access_none", cu.MemPoolSetAccess(pool, &access, 1));
    fact("values", "%u %u", peek(ptr), peek(second));
    pointer_facts("attributes", ptr + 64, ctx);
    range_fact("range", ptr + 64);
    result("pool_of", cu.PointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr));
    fact("pool_of_same", "%d", found == pool);
    result("alloc_from_imported", cu.MemAllocFromPoolAsync(&fresh, 4096, pool, NULL));
    result("legacy", cu.IpcGetMemHandle(&legacy, ptr));
    result("export_imported_pointer", cu.MemPoolExportPointer(&data[1], ptr));
    result("write_value", cu.StreamWriteValue32(NULL, ptr + 4, 88, 0));
    result("sync", cu.CtxSynchronize());
    result("free_inner", cu.MemFree(second + 8));
    result("free", cu.MemFree(second));
    result("free_async", cu.MemFreeAsync(ptr, NULL));
    if (again != 0) {
        result("free_again", cu.MemFreeAsync(again, NULL));
    }
    result("free_sync", cu.CtxSynchronize());
    result("destroy", cu.MemPoolDestroy(pool));
    hand();
    await();
    result("destroy_again", cu.MemPoolDestroy(pool));
}

static void pool_ipc_section(int role) {
    (role == 0 ? pool_exporter : pool_importer)();
}

/* One pool imported twice, and what is left when one of the imports ends. */
static void pool_twice_exporter(void) {
    CUmemoryPool pool = NULL;
    CUdeviceptr ptr = 0, second = 0;
    CUmemPoolProps props = pool_props();
    CUmemPoolPtrExportData data[2];
    int fd = -1, again = -1;
    start_device();
    cu.MemPoolCreate(&pool, &props);
    cu.MemAllocFromPoolAsync(&ptr, 3 * MIB, pool, NULL);
    cu.MemAllocFromPoolAsync(&second, 1000, pool, NULL);
    cu.CtxSynchronize();
    poke(ptr, 600);
    poke(second, 601);
    cu.MemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    cu.MemPoolExportToShareableHandle(&again, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    cu.MemPoolExportPointer(&data[0], ptr);
    cu.MemPoolExportPointer(&data[1], second);
    tell_fd(fd);
    tell_fd(again);
    tell(data, sizeof data);
    await();
    result("exporter_free", cu.MemFree(ptr));
    result("exporter_free_second", cu.MemFree(second));
    result("exporter_destroy", cu.MemPoolDestroy(pool));
    hand();
}

static CUmemoryPool import_pool(const char *name, int fd) {
    CUmemoryPool pool = NULL;
    result(name, cu.MemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return pool;
}

static void pool_twice_importer(void) {
    CUmemPoolPtrExportData data[2];
    CUdeviceptr ptr = 0, again = 0, second = 0, late = 0;
    start_device();
    int fd = hear_fd(), other = hear_fd();
    hear(data, sizeof data);
    CUmemoryPool first_pool = import_pool("import", fd), second_pool = import_pool("import_again", other);
    fact("import_again_same", "%d", first_pool == second_pool);
    close(fd);
    close(other);
    result("pointer", cu.MemPoolImportPointer(&ptr, first_pool, &data[0]));
    result("pointer_again", cu.MemPoolImportPointer(&again, second_pool, &data[0]));
    fact("pointer_again_same", "%d", ptr == again);
    result("second", cu.MemPoolImportPointer(&second, second_pool, &data[1]));
    fact("values", "%u %u %u", peek(ptr), peek(again), peek(second));
    result("free", cu.MemFreeAsync(ptr, NULL));
    result("free_sync", cu.CtxSynchronize());
    range_fact("freed_range", again);
    result("destroy", cu.MemPoolDestroy(first_pool));
    fact("second_value", "%u", peek(second));
    range_fact("destroyed_range", again);
    result("free_again", cu.MemFreeAsync(again, NULL));
    result("free_again_sync", cu.CtxSynchronize());
    range_fact("freed_again_range", again);
    result("pointer_late", cu.MemPoolImportPointer(&late, second_pool, &data[0]));
    fact("late_value", "%u", peek(late));
    result("free_late", cu.MemFreeAsync(late, NULL));
    result("free_second", cu.MemFreeAsync(second, NULL));
    result("last_sync", cu.CtxSynchronize());
    result("destroy_again", cu.MemPoolDestroy(second_pool));
    hand();
    await();
    result("destroy_third", cu.MemPoolDestroy(second_pool));
    result("destroy_fourth", cu.MemPoolDestroy(second_pool));
}

static void pool_twice_section(int role) {
    (role == 0 ? pool_twice_exporter : pool_twice_importer)();
}

/* ---- events ---- */

static void event_exporter(void) {
    CUdeviceptr flag = 0;
    CUevent plain = NULL, event = NULL, timed = NULL;
    CUipcEventHandle handle;
    CUstream stream = NULL;
    start_device();
    cu.MemAlloc(&flag, 4096);
    poke(flag, 0);
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    result("timed_interprocess", cu.EventCreate(&timed, CU_EVENT_INTERPROCESS));
    cu.EventCreate(&plain, CU_EVENT_DISABLE_TIMING);
    result("handle_of_plain", cu.IpcGetEventHandle(&handle, plain));
    result("create", cu.EventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    result("handle", cu.IpcGetEventHandle(&handle, event));
    result("open_own", cu.IpcOpenEventHandle(&plain, handle));
    tell(&handle, sizeof handle);
    await(); /* the peer saw the event before any record */
    cu.StreamWaitValue32(stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ);
    result("record", cu.EventRecord(event, stream));
    step(); /* the peer queues its wait */
    cu.StreamWriteValue32(NULL, flag, 1, 0);
    step();
    result("query_after_peer_record", cu.EventSynchronize(event));
    result("destroy", cu.EventDestroy(event));
}

static void event_importer(void) {
    CUipcEventHandle handle;
    CUevent event = NULL, again = NULL;
    CUstream stream = NULL;
    start_device();
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    hear(&handle, sizeof handle);
    result("open", cu.IpcOpenEventHandle(&event, handle));
    result("open_again", cu.IpcOpenEventHandle(&again, handle));
    fact("open_again_same", "%d", again == event);
    result("handle_of_imported", cu.IpcGetEventHandle(&handle, event));
    result("query_unrecorded", cu.EventQuery(event));
    result("wait_unrecorded", cu.StreamWaitEvent(stream, event, 0));
    result("wait_unrecorded_sync", cu.StreamSynchronize(stream));
    step();
    result("query_pending", cu.EventQuery(event));
    result("wait_pending", cu.StreamWaitEvent(stream, event, 0));
    result("wait_pending_query", cu.StreamQuery(stream));
    step();
    result("wait_done", cu.StreamSynchronize(stream));
    result("query_done", cu.EventQuery(event));
    result("record_imported", cu.EventRecord(event, stream));
    result("record_imported_sync", cu.StreamSynchronize(stream));
    if (again != NULL && again != event) {
        result("destroy_again", cu.EventDestroy(again));
    }
    result("destroy_imported", cu.EventDestroy(event));
    hand();
}

static void event_ipc_section(int role) {
    (role == 0 ? event_exporter : event_importer)();
}

/* ---- events that somebody waits for while they are recorded again ---- */

/* A stream that is stuck, and an event behind it. */
static CUevent stuck_event(CUdeviceptr *flag_out) {
    CUevent event = NULL;
    CUipcEventHandle handle;
    CUstream stream = NULL;
    start_device();
    cu.MemAlloc(flag_out, 4096);
    poke(*flag_out, 0);
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cu.EventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    cu.IpcGetEventHandle(&handle, event);
    cu.StreamWaitValue32(stream, *flag_out, 1, CU_STREAM_WAIT_VALUE_GEQ);
    result("record_stuck", cu.EventRecord(event, stream));
    tell(&handle, sizeof handle);
    return event;
}

static CUstream waiting_stream(CUevent *event_out) {
    CUipcEventHandle handle;
    CUstream stream = NULL;
    start_device();
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    hear(&handle, sizeof handle);
    result("open", cu.IpcOpenEventHandle(event_out, handle));
    result("wait", cu.StreamWaitEvent(stream, *event_out, 0));
    result("waits", cu.StreamQuery(stream));
    return stream;
}

static void record_on_an_idle_stream(CUevent event, CUstream waiting) {
    CUstream idle = NULL;
    cu.StreamCreate(&idle, CU_STREAM_NON_BLOCKING);
    result("record_again", cu.EventRecord(event, idle));
    usleep(200000);
    result("record_again_query", cu.StreamQuery(idle));
    result("query_after_record_again", cu.EventQuery(event));
    result("wait_after_record_again", cu.StreamQuery(waiting));
}

static void stuck_exporter(void) {
    CUdeviceptr flag = 0;
    CUevent event = stuck_event(&flag);
    step(); /* the peer has recorded it, too */
    cu.StreamWriteValue32(NULL, flag, 1, 0);
    await();
    result("destroy", cu.EventDestroy(event));
}

static void recording_importer(void) {
    CUevent event = NULL;
    CUstream stream = waiting_stream(&event);
    record_on_an_idle_stream(event, stream);
    step();
    result("wait_done", cu.StreamSynchronize(stream));
    result("destroy_imported", cu.EventDestroy(event));
    hand();
}

static void event_again_section(int role) {
    (role == 0 ? stuck_exporter : recording_importer)();
}

static void dying_recorder(void) {
    CUdeviceptr flag = 0;
    (void)stuck_event(&flag);
    await(); /* never comes: this process is killed */
}

/* Its stream may be stuck for good: it is left as it is. */
static void waiting_heir(void) {
    CUevent event = NULL;
    CUstream stream = waiting_stream(&event);
    kill_peer();
    usleep(500000);
    result("query_after_death", cu.EventQuery(event));
    result("wait_after_death", cu.StreamQuery(stream));
    record_on_an_idle_stream(event, stream);
}

static void event_orphan_section(int role) {
    (role == 0 ? waiting_heir : dying_recorder)();
}

/* ---- a dead exporter: role 1 exports here, role 0 kills it ---- */

struct last_will {
    CUipcMemHandle mapped, unopened;
    CUipcEventHandle event;
};

static void dying_exporter(void) {
    CUdeviceptr ptr = 0, other = 0;
    CUevent event = NULL;
    struct last_will will;
    start_device();
    struct vmm vmm = vmm_make(2 * MIB, FD);
    int fd = -1;
    cu.MemAlloc(&ptr, 2 * MIB);
    cu.MemAlloc(&other, 4 * MIB);
    poke(ptr, 700);
    poke(vmm.ptr, 701);
    cu.EventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    cu.IpcGetMemHandle(&will.mapped, ptr);
    cu.IpcGetMemHandle(&will.unopened, other);
    cu.IpcGetEventHandle(&will.event, event);
    cu.MemExportToShareableHandle(&fd, vmm.handle, FD, 0);
    tell(&will, sizeof will);
    tell_fd(fd);
    await(); /* never comes: this process is killed */
}

static void heir(void) {
    struct last_will will;
    start_device();
    hear(&will, sizeof will);
    int fd = hear_fd();
    CUdeviceptr ptr = opened("open", &will.mapped);
    CUevent event = NULL;
    result("open_event", cu.IpcOpenEventHandle(&event, will.event));
    kill_peer();
    usleep(300000);
    fact("read_mapped", "%u", peek(ptr));
    result("write_mapped", poke(ptr, 702));
    opened("open_dead", &will.unopened);
    CUdeviceptr again = opened("open_dead_again", &will.mapped);
    fact("open_dead_again_same", "%d", again == ptr);
    struct vmm vmm = {0, 0, 2 * MIB};
    result("import_dead", cu.MemImportFromShareableHandle(&vmm.handle, (void *)(intptr_t)fd, FD));
    if (vmm.handle != 0) {
        result("import_dead_map", vmm_map(&vmm, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
        fact("import_dead_value", "%u", peek(vmm.ptr));
        vmm_drop(&vmm);
    }
    close(fd);
    result("event_query", cu.EventQuery(event));
    result("event_destroy", cu.EventDestroy(event));
    result("close", cu.IpcCloseMemHandle(ptr));
    if (again != 0) {
        result("close_again", cu.IpcCloseMemHandle(ptr));
    }
    result("alloc_after", cu.MemAlloc(&ptr, 2 * MIB));
}

static void killed_section(int role) {
    (role == 0 ? heir : dying_exporter)();
}

const struct section ipc_sections[] = {{"legacy", legacy_section, 2},
                                       {"vmm_fd", vmm_fd_section, 2},
                                       {"pool_ipc", pool_ipc_section, 2},
                                       {"pool_twice", pool_twice_section, 2},
                                       {"event_ipc", event_ipc_section, 2},
                                       {"event_again", event_again_section, 2},
                                       {"event_orphan", event_orphan_section, 2},
                                       {"killed", killed_section, 2},
                                       {NULL, NULL, 0}};
