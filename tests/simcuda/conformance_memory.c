/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sections of one process: before and after cuInit, contexts, ordinary allocations, pools, registered host memory.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conformance.h"

static CUresult lookup(const char *symbol, int version, cuuint64_t flags, int *found, int *status) {
    void *entry = NULL;
    CUdriverProcAddressQueryResult query = (CUdriverProcAddressQueryResult)77;
    CUresult rc = cu.GetProcAddress(symbol, &entry, version, flags, &query);
    *found = entry != NULL;
    *status = (int)query;
    return rc;
}

static void lookups(int driver_version) {
    static const struct {
        const char *name, *symbol;
        int version;
        cuuint64_t flags;
    } asked[] = {{"known", "cuMemAlloc", 3020, CU_GET_PROC_ADDRESS_LEGACY_STREAM},
                 {"suffixed", "cuMemAlloc_v2", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM},
                 {"unknown", "cuNoSuchThing", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM},
                 {"too_old", "cuMemCreate", 10010, CU_GET_PROC_ADDRESS_LEGACY_STREAM},
                 {"too_old_func_load", "cuFuncLoad", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM},
                 {"too_old_ex", "cuLaunchKernelEx", 11050, CU_GET_PROC_ADDRESS_LEGACY_STREAM},
                 {"odd_version", "cuMemAlloc", 12005, CU_GET_PROC_ADDRESS_LEGACY_STREAM},
                 {"version_zero", "cuMemAlloc", 0, CU_GET_PROC_ADDRESS_LEGACY_STREAM},
                 {"both_flags", "cuMemAlloc", 12000, 3},
                 {"bad_flags", "cuMemAlloc", 12000, 8},
                 {"empty", "", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM}};
    int found, status;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        CUresult rc = lookup(asked[i].symbol, asked[i].version, asked[i].flags, &found, &status);
        fact(asked[i].name, "rc %d found %d status %d", (int)rc, found, status);
    }
    CUresult rc = lookup("cuMemAlloc", driver_version + 1000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found, &status);
    fact("newer_than_driver", "rc %d found %d status %d", (int)rc, found, status);
}

/* Are two versions of a name two functions? */
static void compare(const char *name, const char *symbol, int version, int other) {
    void *a = NULL, *b = NULL;
    cu.GetProcAddress(symbol, &a, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL);
    cu.GetProcAddress(symbol, &b, other, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL);
    fact(name, "%s", a == NULL || b == NULL ? "absent" : a == b ? "same" : "different");
}

static void init_section(int role) {
    (void)role;
    int n = 0, version = 0;
    const char *text = "unset";
    CUdeviceptr ptr = 0;
    CUcontext ctx = NULL;
    result("version_before", cu.DriverGetVersion(&version));
    lookups(version);
    compare("memop_versions", "cuStreamWaitValue64", 9000, 11070);
    compare("batch_versions", "cuStreamBatchMemOp", 8000, 11070);
    compare("uuid_versions", "cuDeviceGetUuid", 9020, 11040);
    compare("ctx_versions", "cuCtxCreate", 3020, 11040);
    compare("capture_info_versions", "cuStreamGetCaptureInfo", 10010, 11030);
    compare("release_versions", "cuDevicePrimaryCtxRelease", 7000, 11000);
    result("count_before", cu.DeviceGetCount(&n));
    result("current_before", cu.CtxGetCurrent(&ctx));
    result("alloc_before", cu.MemAlloc(&ptr, 4096));
    result("init_flags", cu.Init(1));
    result("init", cu.Init(0));
    result("init_again", cu.Init(0));
    fact("error_name_unknown", "%d %s", (int)cu.GetErrorName((CUresult)123456, &text), text == NULL ? "NULL" : text);
}

static void no_context_section(int role) {
    (void)role;
    CUcontext ctx = (CUcontext)&ctx;
    CUdevice dev = 0;
    CUdeviceptr ptr = 0;
    CUstream stream = NULL;
    CUevent event = NULL;
    CUmodule module = NULL;
    size_t a = 0, b = 0, granularity = 0;
    int value = 0;
    unsigned flags = 9;
    cu.Init(0);
    result("device_bad", cu.DeviceGet(&dev, 99));
    result("device_negative", cu.DeviceGet(&dev, -1));
    result("attribute_bad", cu.DeviceGetAttribute(&value, (CUdevice_attribute)9999, 0));
    result("attribute_device_bad", cu.DeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99));
    result("primary_state", cu.DevicePrimaryCtxGetState(0, &flags, &value));
    fact("primary_state_values", "flags %u active %d", flags, value);
    result("primary_release_unretained", cu.DevicePrimaryCtxRelease(0));
    result("current", cu.CtxGetCurrent(&ctx));
    fact("current_is_null", "%d", ctx == NULL);
    result("ctx_device", cu.CtxGetDevice(&dev));
    result("pop_empty", cu.CtxPopCurrent(&ctx));
    result("push_null", cu.CtxPushCurrent(NULL));
    result("set_null", cu.CtxSetCurrent(NULL));
    result("synchronize", cu.CtxSynchronize());
    result("alloc", cu.MemAlloc(&ptr, 4096));
    result("free", cu.MemFree(0x7f0000000000));
    result("get_info", cu.MemGetInfo(&a, &b));
    result("stream", cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    result("event", cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
    result("module", cu.ModuleLoadData(&module, "x"));
    result("host_alloc", cu.MemAllocHost((void **)&ptr, 4096));
    CUipcMemHandle handle;
    memset(&handle, 0, sizeof handle);
    result("ipc_get", cu.IpcGetMemHandle(&handle, 0x7f0000000000));
    result("ipc_open", cu.IpcOpenMemHandle(&ptr, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    result("ipc_close", cu.IpcCloseMemHandle(0x7f0000000000));
    result("pointer", cu.PointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x7f0000000000));
    CUmemAllocationProp prop = vmm_prop(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    result("granularity", cu.MemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    struct vmm vmm = {0, 0, 2 * MIB};
    result("vmm_create", cu.MemCreate(&vmm.handle, vmm.bytes, &prop, 0));
    if (vmm.handle != 0) {
        result("vmm_map", vmm_map(&vmm, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
        vmm_drop(&vmm);
    }
    result("primary_state_after", cu.DevicePrimaryCtxGetState(0, &flags, &value));
    fact("primary_state_after_values", "flags %u active %d", flags, value);
}

static void device_section(int role) {
    (void)role;
    static const struct {
        const char *name;
        CUdevice_attribute which;
    } asked[] = {{"warp", CU_DEVICE_ATTRIBUTE_WARP_SIZE},
                 {"max_threads", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
                 {"max_block_x", CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X},
                 {"max_grid_x", CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X},
                 {"max_grid_y", CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y},
                 {"sms", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
                 {"major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
                 {"minor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
                 {"compute_mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE},
                 {"integrated", CU_DEVICE_ATTRIBUTE_INTEGRATED},
                 {"map_host", CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY},
                 {"unified", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
                 {"priorities", CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED},
                 {"managed", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
                 {"host_atomics", CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED},
                 {"pageable", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
                 {"host_pointer", CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
                 {"host_register", CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
                 {"read_only_register", CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED},
                 {"memops_64", CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS},
                 {"wait_nor", CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR},
                 {"flush_remote", CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES},
                 {"vmm", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
                 {"posix_fd", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED},
                 {"fabric", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED},
                 {"pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
                 {"pool_handles", CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES},
                 {"ipc_event", CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED},
                 {"sync_domains", CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT},
                 {"multicast", CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED},
                 {"mps", CU_DEVICE_ATTRIBUTE_MPS_ENABLED}};
    CUcontext ctx = start_device();
    int value = 0, low = 9, high = 9;
    char text[64] = "", small[4] = "abc";
    size_t granularity = 0;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        CUresult rc = cu.DeviceGetAttribute(&value, asked[i].which, 0);
        fact(asked[i].name, "rc %d value %d", (int)rc, value);
    }
    CUuuid uuid;
    memset(&uuid, 0, sizeof uuid);
    result("uuid", cu.DeviceGetUuid(&uuid, 0));
    result("pci", cu.DeviceGetPCIBusId(text, sizeof text, 0));
    fact("pci_form", "%zu %c %c", strlen(text), text[4], text[10]);
    result("pci_short", cu.DeviceGetPCIBusId(small, sizeof small, 0));
    result("can_access_self", cu.DeviceCanAccessPeer(&value, 0, 0));
    fact("can_access_self_value", "%d", value);
    result("p2p_self", cu.DeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
    result("enable_self", cu.CtxEnablePeerAccess(ctx, 0));
    result("priority_range", cu.CtxGetStreamPriorityRange(&low, &high));
    fact("priority_values", "%d %d", low, high);
    CUmemAllocationProp prop = vmm_prop(0);
    cu.MemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    fact("granularity_min", "%zu", granularity);
    cu.MemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    fact("granularity_best", "%zu", granularity);
    prop = vmm_prop(CU_MEM_HANDLE_TYPE_FABRIC);
    result("granularity_fabric", cu.MemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    fact("granularity_fabric_value", "%zu", granularity);
    prop.location.id = 99;
    result("granularity_bad_device",
           cu.MemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

static void context_section(int role) {
    (void)role;
    CUcontext ctx = start_device(), again = NULL, other = NULL, current = NULL;
    CUdeviceptr ptr = 0, theirs = 0;
    CUstream stream = NULL;
    CUevent event = NULL;
    unsigned flags = 0;
    int active = 0;
    cu.DevicePrimaryCtxRetain(&again, 0);
    fact("retain_same", "%d", again == ctx);
    result("release_one", cu.DevicePrimaryCtxRelease(0));
    cu.DevicePrimaryCtxGetState(0, &flags, &active);
    fact("still_active", "%d", active);
    cu.MemAlloc(&ptr, 4096);
    result("create", cu.CtxCreate(&other, 0, 0));
    cu.CtxGetCurrent(&current);
    fact("create_is_current", "%d", current == other);
    cu.MemAlloc(&theirs, 4096);
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
    result("pop", cu.CtxPopCurrent(&current));
    cu.CtxGetCurrent(&current);
    fact("pop_restores", "%d", current == ctx);
    result("copy_between", cu.MemcpyDtoD(ptr, theirs, 4096));
    result("foreign_stream_memset", cu.MemsetD8Async(theirs, 1, 4096, stream));
    result("foreign_stream_memset_mine", cu.MemsetD8Async(ptr, 1, 4096, stream));
    result("foreign_stream_write", cu.StreamWriteValue64(stream, theirs, 1, 0));
    result("foreign_stream_query", cu.StreamSynchronize(stream));
    result("foreign_event_stream", cu.EventRecord(event, NULL));
    result("foreign_event_own_stream", cu.EventRecord(event, stream));
    result("foreign_wait", cu.StreamWaitEvent(NULL, event, 0));
    CUcontext of_stream = NULL;
    result("stream_ctx", cu.StreamGetCtx(stream, &of_stream));
    fact("stream_ctx_right", "%d", of_stream == other);
    result("foreign_free", cu.MemFree(theirs));
    result("no_current", cu.CtxSetCurrent(NULL));
    result("no_current_copy", cu.MemcpyAsync(ptr, ptr + 2048, 1024, stream));
    result("no_current_sync", cu.StreamSynchronize(stream));
    result("no_current_record", cu.EventRecord(event, stream));
    result("no_current_query", cu.EventQuery(event) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : cu.EventQuery(event));
    result("no_current_write", cu.StreamWriteValue64(stream, ptr, 1, 0));
    result("no_current_legacy_stream", cu.MemsetD8Async(ptr, 1, 16, NULL));
    result("no_current_free", cu.MemFree(ptr));
    result("no_current_event_destroy", cu.EventDestroy(event));
    result("no_current_stream_destroy", cu.StreamDestroy(stream));
    result("destroy", cu.CtxDestroy(other));
    cu.CtxSetCurrent(ctx);
    result("push", cu.CtxPushCurrent(ctx));
    result("push_pop", cu.CtxPopCurrent(&current));
    result("release_last", cu.DevicePrimaryCtxRelease(0));
    cu.DevicePrimaryCtxGetState(0, &flags, &active);
    fact("inactive", "%d", active);
    result("alloc_in_released", cu.MemAlloc(&ptr, 4096));
    result("release_too_often", cu.DevicePrimaryCtxRelease(0));
    result("retain_anew", cu.DevicePrimaryCtxRetain(&again, 0));
    fact("retain_anew_same", "%d", again == ctx);
    result("alloc_in_old", cu.MemAlloc(&ptr, 4096));
}

static void range_fact(const char *name, CUdeviceptr ptr) {
    CUdeviceptr base = 0;
    size_t size = 0;
    CUresult rc = cu.MemGetAddressRange(&base, &size, ptr);
    fact(name, "rc %d offset %lld size %zu", (int)rc, rc == CUDA_SUCCESS ? (long long)(ptr - base) : -1LL,
         rc == CUDA_SUCCESS ? size : 0);
}

static void alloc_section(int role) {
    (void)role;
    CUcontext ctx = start_device();
    CUdeviceptr small = 0, next = 0, big = 0, none = 1, managed = 0;
    CUipcMemHandle a, b;
    size_t free_before = 0, free_after = 0, total = 0;
    int on_stack = 0;
    result("alloc_zero", cu.MemAlloc(&none, 0));
    result("alloc_huge", cu.MemAlloc(&none, (size_t)1 << 50));
    result("small", cu.MemAlloc(&small, 1000));
    result("next", cu.MemAlloc(&next, 1000));
    fact("small_distance", "%lld", (long long)(next - small));
    fact("small_alignment", "%d", (int)(small % 512));
    result("big", cu.MemAlloc(&big, 5 * MIB + 100));
    fact("big_alignment", "%d", (int)(big % (2 * MIB)));
    range_fact("small_range", small + 10);
    range_fact("small_gap", small + 1010);
    range_fact("big_range", big + 4 * MIB);
    range_fact("big_tail", big + 5 * MIB + 100);
    range_fact("host_range", (CUdeviceptr)(uintptr_t)&on_stack);
    pointer_facts("small_attributes", small, ctx);
    pointer_facts("big_inner_attributes", big + 4096, ctx);
    pointer_facts("stack_attributes", (CUdeviceptr)(uintptr_t)&on_stack, ctx);
    pointer_facts("null_attributes", 0, ctx);
    CUpointer_attribute which[2] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_BUFFER_ID};
    unsigned type = 99;
    unsigned long long id = 99;
    void *data[2] = {&type, &id};
    result("batch_stack", cu.PointerGetAttributes(2, which, data, (CUdeviceptr)(uintptr_t)&on_stack));
    fact("batch_stack_values", "%u %llu", type, id);
    result("ipc", cu.IpcGetMemHandle(&a, big));
    result("ipc_again", cu.IpcGetMemHandle(&b, big));
    fact("ipc_same", "%d", memcmp(&a, &b, sizeof a) == 0);
    result("ipc_inner", cu.IpcGetMemHandle(&b, big + 4096));
    fact("ipc_inner_same", "%d", memcmp(&a, &b, sizeof a) == 0);
    result("ipc_stack", cu.IpcGetMemHandle(&b, (CUdeviceptr)(uintptr_t)&on_stack));
    result("ipc_null", cu.IpcGetMemHandle(&b, 0));
    result("ipc_open_own", cu.IpcOpenMemHandle(&none, a, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    result("ipc_open_flags", cu.IpcOpenMemHandle(&none, a, 0));
    result("ipc_close_own", cu.IpcCloseMemHandle(big));
    memset(&a, 0x5a, sizeof a);
    result("ipc_open_garbage", cu.IpcOpenMemHandle(&none, a, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CUmemGenericAllocationHandle handle = 0;
    result("retain_handle", cu.MemRetainAllocationHandle(&handle, (void *)(uintptr_t)big));
    result("managed", cu.MemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    pointer_facts("managed_attributes", managed, ctx);
    result("managed_ipc", cu.IpcGetMemHandle(&b, managed));
    result("managed_free", cu.MemFree(managed));
    result("free_inner", cu.MemFree(big + 4096));
    cu.MemGetInfo(&free_before, &total);
    result("free", cu.MemFree(big));
    cu.MemGetInfo(&free_after, &total);
    fact("free_gives_back", "%d", free_after >= free_before + 4 * MIB);
    result("free_twice", cu.MemFree(big));
    result("free_null", cu.MemFree(0));
    result("free_stack", cu.MemFree((CUdeviceptr)(uintptr_t)&on_stack));
    pointer_facts("freed_attributes", big, ctx);
    range_fact("freed_range", big);
    result("free_small", cu.MemFree(small));
    result("free_next", cu.MemFree(next));
}

static void pool_section(int role) {
    (void)role;
    CUcontext ctx = start_device();
    CUdeviceptr plain = 0, ptr = 0, zero = 1;
    CUmemoryPool pool = NULL, own = NULL, fallback = NULL;
    CUmemPoolProps props;
    CUmemPoolPtrExportData data;
    CUipcMemHandle legacy;
    CUstream stream = NULL;
    int fd = -1;
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    result("default_pool", cu.DeviceGetDefaultMemPool(&fallback, 0));
    result("default_export",
           cu.MemPoolExportToShareableHandle(&fd, fallback, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    result("plain", cu.MemAllocAsync(&plain, 4096, stream));
    cu.StreamSynchronize(stream);
    pointer_facts("plain_attributes", plain, ctx);
    result("plain_ipc", cu.IpcGetMemHandle(&legacy, plain));
    result("plain_export", cu.MemPoolExportPointer(&data, plain));
    CUmemGenericAllocationHandle handle = 0;
    result("plain_retain", cu.MemRetainAllocationHandle(&handle, (void *)(uintptr_t)plain));
    range_fact("plain_range", plain + 100);
    result("zero", cu.MemAllocAsync(&zero, 0, stream));
    result("plain_free", cu.MemFreeAsync(plain, stream));
    result("plain_free_sync", cu.StreamSynchronize(stream));
    result("plain_free_twice", cu.MemFreeAsync(plain, stream));
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    result("create_none", cu.MemPoolCreate(&own, &props));
    result("none_export", cu.MemPoolExportToShareableHandle(&fd, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    result("none_destroy", cu.MemPoolDestroy(own));
    props.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    result("create_fabric", cu.MemPoolCreate(&own, &props));
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    props.location.id = 99;
    result("create_bad_device", cu.MemPoolCreate(&own, &props));
    props.location.id = 0;
    result("create_fd", cu.MemPoolCreate(&pool, &props));
    result("alloc", cu.MemAllocFromPoolAsync(&ptr, 3 * MIB, pool, stream));
    cu.StreamSynchronize(stream);
    pointer_facts("attributes", ptr, ctx);
    pointer_facts("inner_attributes", ptr + MIB, ctx);
    range_fact("range", ptr + MIB);
    CUmemoryPool found = NULL;
    result("pool_of", cu.PointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr));
    fact("pool_of_same", "%d", found == pool);
    result("ipc", cu.IpcGetMemHandle(&legacy, ptr));
    result("export_pointer_first", cu.MemPoolExportPointer(&data, ptr));
    result("export", cu.MemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    result("export_pointer", cu.MemPoolExportPointer(&data, ptr));
    result("export_inner", cu.MemPoolExportPointer(&data, ptr + 4096));
    int fabric[16];
    result("export_fabric", cu.MemPoolExportToShareableHandle(fabric, pool, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    CUmemoryPool self = NULL;
    result("import_own", cu.MemPoolImportFromShareableHandle(&self, (void *)(intptr_t)fd,
                                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    result("import_bad", cu.MemPoolImportFromShareableHandle(&self, (void *)(intptr_t)-1,
                                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    result("free_inner", cu.MemFree(ptr + 4096));
    result("destroy_live", cu.MemPoolDestroy(pool));
    result("free_after_destroy", cu.MemFree(ptr));
    result("destroy_null", cu.MemPoolDestroy(NULL));
}

static void register_facts(char *page, CUcontext ctx) {
    CUdeviceptr dev = 0;
    unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    result("register", cu.MemHostRegister(page, 8192, flags));
    result("register_twice", cu.MemHostRegister(page, 8192, flags));
    result("register_overlap", cu.MemHostRegister(page + 4096, 8192, flags));
    result("device_pointer", cu.MemHostGetDevicePointer(&dev, page, 0));
    fact("device_pointer_same", "%d", dev == (CUdeviceptr)(uintptr_t)page);
    result("device_pointer_inner", cu.MemHostGetDevicePointer(&dev, page + 100, 0));
    fact("device_pointer_inner_offset", "%lld", (long long)(dev - (CUdeviceptr)(uintptr_t)page));
    result("device_pointer_flags", cu.MemHostGetDevicePointer(&dev, page, 1));
    result("device_pointer_outside", cu.MemHostGetDevicePointer(&dev, page + 12288, 0));
    pointer_facts("attributes", (CUdeviceptr)(uintptr_t)page, ctx);
    pointer_facts("inner_attributes", (CUdeviceptr)(uintptr_t)(page + 100), ctx);
    range_fact("range", (CUdeviceptr)(uintptr_t)(page + 100));
    CUipcMemHandle legacy;
    result("ipc", cu.IpcGetMemHandle(&legacy, (CUdeviceptr)(uintptr_t)page));
    result("write", cu.StreamWriteValue64(NULL, (CUdeviceptr)(uintptr_t)page, 7, 0));
    cu.CtxSynchronize();
    fact("written", "%d", page[0]);
    result("unregister_inner", cu.MemHostUnregister(page + 4096));
    result("unregister", cu.MemHostUnregister(page));
    result("unregister_twice", cu.MemHostUnregister(page));
    result("unaligned", cu.MemHostRegister(page + 264, 1000, flags));
    result("unaligned_unregister", cu.MemHostUnregister(page + 264));
}

static void host_section(int role) {
    (void)role;
    CUcontext ctx = start_device();
    char *page = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    register_facts(page, ctx);
    result("register_null", cu.MemHostRegister(NULL, 4096, 0));
    result("register_zero", cu.MemHostRegister(page, 0, 0));
    result("register_flags", cu.MemHostRegister(page, 4096, 0x80));
    result("register_plain", cu.MemHostRegister(page, 4096, 0));
    CUdeviceptr dev = 0;
    result("plain_device_pointer", cu.MemHostGetDevicePointer(&dev, page, 0));
    result("plain_unregister", cu.MemHostUnregister(page));
    int fd = memfd_create("conformance", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, 16384) == 0) {
        char *shared = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        char *reader = mmap(NULL, 16384, PROT_READ, MAP_SHARED, fd, 0);
        result("shared", cu.MemHostRegister(shared, 16384, CU_MEMHOSTREGISTER_PORTABLE));
        result("shared_unregister", cu.MemHostUnregister(shared));
        if (result("read_only", cu.MemHostRegister(reader, 16384, CU_MEMHOSTREGISTER_PORTABLE)) == CUDA_SUCCESS) {
            cu.MemHostUnregister(reader);
        }
        result("read_only_flag", cu.MemHostRegister(reader, 16384, CU_MEMHOSTREGISTER_READ_ONLY));
    }
    munmap(page + 8192, 4096);
    result("register_hole", cu.MemHostRegister(page, 16384, 0));
    void *pinned = NULL;
    result("alloc", cu.MemAllocHost(&pinned, 5000));
    pointer_facts("alloc_attributes", (CUdeviceptr)(uintptr_t)pinned, ctx);
    result("alloc_register", cu.MemHostRegister(pinned, 4096, 0));
    result("alloc_unregister", cu.MemHostUnregister(pinned));
    result("alloc_free", cu.MemFreeHost(pinned));
    result("alloc_free_twice", cu.MemFreeHost(pinned));
    result("free_null", cu.MemFreeHost(NULL));
}

/* A section of its own, since a driver that takes the operation may lose the context over it. */
static void pageable_memop_section(int role) {
    (void)role;
    start_device();
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = 1;
    result("write", cu.StreamWriteValue64(NULL, (CUdeviceptr)(uintptr_t)page, 7, 0));
    result("write_sync", cu.CtxSynchronize());
    page[0] = 7;
    result("wait", cu.StreamWaitValue64(NULL, (CUdeviceptr)(uintptr_t)page, 7, CU_STREAM_WAIT_VALUE_GEQ));
    result("wait_sync", cu.CtxSynchronize());
}

const struct section memory_sections[] = {{"init", init_section, 1},
                                          {"no_context", no_context_section, 1},
                                          {"device", device_section, 1},
                                          {"context", context_section, 1},
                                          {"alloc", alloc_section, 1},
                                          {"pool", pool_section, 1},
                                          {"host", host_section, 1},
                                          {"pageable_memop", pageable_memop_section, 1},
                                          {NULL, NULL, 0}};
