/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sections about what is left after a fault: codes while the context is lost, access without permission, a forked
 * child, and pairs of devices where there are two.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"

struct world {
    CUcontext ctx;
    CUdeviceptr dev;
    CUstream stream;
    CUevent event;
    CUfunction fill;
    CUmodule module;
    struct vmm vmm;
    char *page;
};
static char registered[16384];

static struct world make_world(void) {
    struct world w;
    memset(&w, 0, sizeof w);
    w.ctx = start_device();
    w.module = fill_module(&w.fill);
    w.vmm = vmm_make(2 * MIB, 0);
    w.page = (char *)(((uintptr_t)registered + 4095) & ~(uintptr_t)4095);
    cu.MemAlloc(&w.dev, 4096);
    cu.StreamCreate(&w.stream, CU_STREAM_NON_BLOCKING);
    cu.EventCreate(&w.event, CU_EVENT_DISABLE_TIMING);
    cu.MemHostRegister(w.page, 4096, 0);
    poke(w.dev, 1);
    return w;
}

/* What each releasing call says while the context is lost, and what works afterwards. */
static void aftermath(struct world *w) {
    CUdeviceptr ptr = 0;
    CUcontext again = NULL;
    int value = 0;
    result("query", cu.StreamQuery(w->stream));
    result("alloc", cu.MemAlloc(&ptr, 4096));
    result("record", cu.EventRecord(w->event, w->stream));
    result("event_query", cu.EventQuery(w->event));
    result("pointer", cu.PointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, w->dev));
    result("attribute", cu.DeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    result("current", cu.CtxGetCurrent(&again));
    unsigned long long id = 0;
    result("id", cu.CtxGetId(w->ctx, &id));
    result("push", cu.CtxPushCurrent(w->ctx));
    result("pop", cu.CtxPopCurrent(&again));
    CUmemAllocationProp prop = vmm_prop(0);
    struct vmm fresh = {0, 0, 2 * MIB};
    result("vmm_create", cu.MemCreate(&fresh.handle, fresh.bytes, &prop, 0));
    if (fresh.handle != 0) {
        result("vmm_map", vmm_map(&fresh, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    }
    result("vmm_unmap", cu.MemUnmap(w->vmm.ptr, w->vmm.bytes));
    result("vmm_address_free", cu.MemAddressFree(w->vmm.ptr, w->vmm.bytes));
    result("vmm_release", cu.MemRelease(w->vmm.handle));
    result("event_destroy", cu.EventDestroy(w->event));
    result("stream_destroy", cu.StreamDestroy(w->stream));
    result("free", cu.MemFree(w->dev));
    result("unregister", cu.MemHostUnregister(w->page));
    result("unload", cu.ModuleUnload(w->module));
    result("synchronize", cu.CtxSynchronize());
    result("release", cu.DevicePrimaryCtxRelease(0));
    result("retain_again", cu.DevicePrimaryCtxRetain(&again, 0));
    result("set_again", cu.CtxSetCurrent(w->ctx));
    result("alloc_again", cu.MemAlloc(&ptr, 4096));
}

static void fault_kernel_section(int role) {
    (void)role;
    struct world w = make_world();
    result("launch", fill_launch(w.fill, 0x10000, 1, 64, w.stream));
    result("sync", cu.StreamSynchronize(w.stream));
    result("sync_again", cu.StreamSynchronize(w.stream));
    aftermath(&w);
}

static void fault_misaligned_section(int role) {
    (void)role;
    struct world w = make_world();
    result("launch", fill_launch(w.fill, w.dev + 2, 1, 64, w.stream));
    result("sync", cu.StreamSynchronize(w.stream));
    result("alloc", cu.MemAlloc(&w.dev, 4096));
}

static void fault_no_access_section(int role) {
    (void)role;
    struct world w = make_world();
    struct vmm vmm = vmm_make(2 * MIB, 0), bare = {vmm.handle, 0, vmm.bytes};
    result("map", vmm_map(&bare, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    result("copy", cu.MemcpyDtoDAsync(bare.ptr, w.dev, 64, w.stream));
    result("copy_sync", cu.StreamSynchronize(w.stream));
    result("memset", cu.MemsetD8Async(bare.ptr, 0, 64, w.stream));
    result("memset_sync", cu.StreamSynchronize(w.stream));
    result("write_value", cu.StreamWriteValue32(w.stream, bare.ptr, 1, 0));
    result("write_value_sync", cu.StreamSynchronize(w.stream));
    result("kernel", fill_launch(w.fill, bare.ptr, 1, 64, w.stream));
    result("kernel_sync", cu.StreamSynchronize(w.stream));
}

static struct vmm read_only(void) {
    struct vmm vmm = vmm_make(2 * MIB, 0);
    CUmemAccessDesc read;
    memset(&read, 0, sizeof read);
    read.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    read.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    result("set_read", cu.MemSetAccess(vmm.ptr, vmm.bytes, &read, 1));
    return vmm;
}

static void fault_read_only_kernel_section(int role) {
    (void)role;
    struct world w = make_world();
    struct vmm vmm = read_only();
    result("kernel", fill_launch(w.fill, vmm.ptr, 1, 64, w.stream));
    result("kernel_sync", cu.StreamSynchronize(w.stream));
}

static void fault_read_only_copy_section(int role) {
    (void)role;
    struct world w = make_world();
    struct vmm vmm = read_only();
    result("copy", cu.MemcpyDtoDAsync(vmm.ptr, w.dev, 64, w.stream));
    result("copy_sync", cu.StreamSynchronize(w.stream));
    result("write_value", cu.StreamWriteValue32(w.stream, vmm.ptr, 1, 0));
    result("write_value_sync", cu.StreamSynchronize(w.stream));
    result("memset", cu.MemsetD8Async(vmm.ptr, 0, 64, w.stream));
    result("memset_sync", cu.StreamSynchronize(w.stream));
}

static void fault_unmapped_section(int role) {
    (void)role;
    struct world w = make_world();
    CUdeviceptr va = 0;
    cu.MemAddressReserve(&va, 2 * MIB, 0, 0, 0);
    result("copy", cu.MemcpyDtoDAsync(va, w.dev, 64, w.stream));
    result("copy_sync", cu.StreamSynchronize(w.stream));
    result("memset", cu.MemsetD8Async(va, 0, 64, w.stream));
    result("memset_sync", cu.StreamSynchronize(w.stream));
    result("write_value", cu.StreamWriteValue32(w.stream, va, 1, 0));
    result("write_value_sync", cu.StreamSynchronize(w.stream));
}

/* A section of its own, since a driver may not survive it. */
static void fault_unmapped_unified_section(int role) {
    (void)role;
    struct world w = make_world();
    CUdeviceptr va = 0;
    cu.MemAddressReserve(&va, 2 * MIB, 0, 0, 0);
    result("unified", cu.MemcpyAsync(va, w.dev, 64, w.stream));
    result("unified_sync", cu.StreamSynchronize(w.stream));
}

static void fault_freed_section(int role) {
    (void)role;
    struct world w = make_world();
    CUdeviceptr dev = 0;
    cu.MemAlloc(&dev, 4 * MIB);
    cu.MemFree(dev);
    result("copy", cu.MemcpyDtoDAsync(dev, w.dev, 64, w.stream));
    result("copy_sync", cu.StreamSynchronize(w.stream));
    result("write_value", cu.StreamWriteValue32(w.stream, dev, 1, 0));
    result("write_value_sync", cu.StreamSynchronize(w.stream));
}

/* Destroying twice and using what was destroyed: each may end the process, so each has a section. */
static void dead_stream_section(int role) {
    (void)role;
    struct world w = make_world();
    cu.StreamDestroy(w.stream);
    result("query", cu.StreamQuery(w.stream));
}

static void dead_event_section(int role) {
    (void)role;
    struct world w = make_world();
    cu.EventDestroy(w.event);
    result("destroy_twice", cu.EventDestroy(w.event));
}

static void fork_section(int role) {
    (void)role;
    struct world w = make_world();
    pid_t pid = fork();
    if (pid == 0) {
        int n = 0;
        CUdeviceptr ptr = 0;
        CUcontext ctx = NULL;
        alarm(10);
        result("child_init", cu.Init(0));
        result("child_count", cu.DeviceGetCount(&n));
        result("child_current", cu.CtxGetCurrent(&ctx));
        result("child_alloc", cu.MemAlloc(&ptr, 4096));
        result("child_free", cu.MemFree(w.dev));
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    fact("child_end", "%d", status);
    fact("parent_intact", "%u", peek(w.dev));
}

/* Memory of device 1, asked about while the context of device 0 is current. */
static void far_memory(CUcontext ctx1, CUdeviceptr far) {
    CUipcMemHandle handle, own;
    CUmemoryPool pool = NULL;
    CUmemPoolProps props;
    CUdeviceptr pooled = 0;
    CUmemGenericAllocationHandle back = 0;
    CUmemAccessDesc access;
    CUcontext popped = NULL;
    memset(&handle, 0, sizeof handle);
    memset(&own, 0, sizeof own);
    range_fact("far_range", far);
    result("far_ipc", cu.IpcGetMemHandle(&handle, far));
    cu.CtxPushCurrent(ctx1);
    cu.IpcGetMemHandle(&own, far);
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = 1;
    props.handleTypes = FD;
    cu.MemPoolCreate(&pool, &props);
    cu.MemAllocFromPoolAsync(&pooled, 4096, pool, NULL);
    cu.CtxSynchronize();
    cu.CtxPopCurrent(&popped);
    fact("far_ipc_same", "%d", memcmp(&handle, &own, sizeof own) == 0);
    range_fact("far_pool_range", pooled);
    struct vmm vmm = {0, 0, 2 * MIB};
    CUmemAllocationProp prop = vmm_prop(FD);
    prop.location.id = 1;
    cu.MemCreate(&vmm.handle, vmm.bytes, &prop, 0);
    cu.MemAddressReserve(&vmm.ptr, vmm.bytes, 0, 0, 0);
    cu.MemMap(vmm.ptr, vmm.bytes, 0, vmm.handle, 0);
    memset(&access, 0, sizeof access);
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result("far_vmm_access", cu.MemSetAccess(vmm.ptr, vmm.bytes, &access, 1));
    range_fact("far_vmm_range", vmm.ptr);
    result("far_vmm_retain", cu.MemRetainAllocationHandle(&back, (void *)(uintptr_t)vmm.ptr));
    cu.MemRelease(back);
    access.location.id = 0;
    result("far_vmm_access_here", cu.MemSetAccess(vmm.ptr, vmm.bytes, &access, 1));
    range_fact("far_vmm_range_here", vmm.ptr);
    vmm_drop(&vmm);
    cu.MemFree(pooled);
    cu.MemPoolDestroy(pool);
}

static void two_devices(CUcontext ctx0) {
    static const struct {
        const char *name;
        CUdevice_P2PAttribute which;
    } asked[] = {{"p2p_access", CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED},
                 {"p2p_atomics", CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED},
                 {"p2p_rank", CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK}};
    CUcontext ctx1 = NULL;
    CUdeviceptr near = 0, far = 0;
    int value = -1;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        CUresult rc = cu.DeviceGetP2PAttribute(&value, asked[i].which, 0, 1);
        fact(asked[i].name, "rc %d value %d", (int)rc, value);
    }
    CUresult rc = cu.DeviceCanAccessPeer(&value, 0, 1);
    fact("can_access", "rc %d value %d", (int)rc, value);
    cu.MemAlloc(&near, 2 * MIB);
    cu.DevicePrimaryCtxRetain(&ctx1, 1);
    cu.CtxPushCurrent(ctx1);
    cu.MemAlloc(&far, 2 * MIB);
    poke(far, 900);
    cu.CtxPopCurrent(&ctx1);
    result("copy_without_enable", cu.MemcpyDtoD(near, far, 64));
    fact("copied", "%u", peek(near));
    far_memory(ctx1, far);
    result("enable_flags", cu.CtxEnablePeerAccess(ctx1, 1));
    result("enable", cu.CtxEnablePeerAccess(ctx1, 0));
    result("enable_twice", cu.CtxEnablePeerAccess(ctx1, 0));
    range_fact("enabled_range", far);
    result("disable", cu.CtxDisablePeerAccess(ctx1));
    result("disable_twice", cu.CtxDisablePeerAccess(ctx1));
    pointer_facts("far_attributes", far, ctx0);
    struct vmm vmm = vmm_make(2 * MIB, FD);
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = 1;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result("vmm_access_far", cu.MemSetAccess(vmm.ptr, vmm.bytes, &access, 1));
    vmm_drop(&vmm);
}

static void peers_section(int role) {
    (void)role;
    CUcontext ctx = start_device();
    int n = 0, value = 0;
    cu.DeviceGetCount(&n);
    result("p2p_bad_device", cu.DeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 99));
    result("can_access_bad_device", cu.DeviceCanAccessPeer(&value, 0, 99));
    if (n >= 2) {
        two_devices(ctx);
    }
}

const struct section fault_sections[] = {{"fault_kernel", fault_kernel_section, 1},
                                         {"fault_misaligned", fault_misaligned_section, 1},
                                         {"fault_no_access", fault_no_access_section, 1},
                                         {"fault_read_only_kernel", fault_read_only_kernel_section, 1},
                                         {"fault_read_only_copy", fault_read_only_copy_section, 1},
                                         {"fault_unmapped", fault_unmapped_section, 1},
                                         {"fault_unmapped_unified", fault_unmapped_unified_section, 1},
                                         {"fault_freed", fault_freed_section, 1},
                                         {"dead_stream", dead_stream_section, 1},
                                         {"dead_event", dead_event_section, 1},
                                         {"fork", fork_section, 1},
                                         {"peers", peers_section, 1},
                                         {NULL, NULL, 0}};
