/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sections of one process: before and after cuInit, without a context, devices, contexts.
 */
#define _GNU_SOURCE
#include <string.h>

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
    CUresult rc = cu.GetErrorName((CUresult)123456, &text);
    fact("error_name_unknown", "%d %s", (int)rc, text == NULL ? "NULL" : text);
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

static const struct {
    const char *name;
    CUdevice_attribute which;
} device_attributes[] = {{"warp", CU_DEVICE_ATTRIBUTE_WARP_SIZE},
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
                         {"mps", CU_DEVICE_ATTRIBUTE_MPS_ENABLED}};

static void device_section(int role) {
    (void)role;
    CUcontext ctx = start_device();
    int value = 0, low = 9, high = 9;
    char text[64] = "", small[4] = "abc";
    size_t granularity = 0;
    for (size_t i = 0; i < sizeof device_attributes / sizeof device_attributes[0]; i++) {
        CUresult rc = cu.DeviceGetAttribute(&value, device_attributes[i].which, 0);
        fact(device_attributes[i].name, "rc %d value %d", (int)rc, value);
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

/* What is left of a context that has ended, and how a later one can be told from it. To push one that was destroyed
 * damages the driver. */
static void dead_context_section(int role) {
    (void)role;
    CUcontext ctx = start_device(), other = NULL, again = NULL, popped = NULL;
    CUdeviceptr ptr = 0;
    CUdevice dev = 0;
    unsigned long long id = 0, later = 0;
    cu.CtxCreate(&other, 0, 0);
    result("id", cu.CtxGetId(other, &id));
    result("id_null", cu.CtxGetId(NULL, &later));
    fact("id_null_same", "%d", later == id);
    cu.CtxPopCurrent(&popped);
    result("id_primary", cu.CtxGetId(ctx, &later));
    fact("id_primary_other", "%d", later != id);
    result("destroy", cu.CtxDestroy(other));
    result("destroyed_id", cu.CtxGetId(other, &later));
    cu.CtxSetCurrent(ctx);
    cu.CtxGetId(ctx, &id);
    result("reset", cu.DevicePrimaryCtxReset(0));
    result("reset_id", cu.CtxGetId(ctx, &later));
    result("reset_device", cu.CtxGetDevice(&dev));
    result("reset_alloc", cu.MemAlloc(&ptr, 4096));
    result("reset_push", cu.CtxPushCurrent(ctx));
    result("reset_pop", cu.CtxPopCurrent(&popped));
    result("reset_retain", cu.DevicePrimaryCtxRetain(&again, 0));
    fact("reset_retain_same", "%d", again == ctx);
    result("reset_later_id", cu.CtxGetId(again, &later));
    fact("reset_later_id_other", "%d", later != id);
    result("reset_later_alloc", cu.MemAlloc(&ptr, 4096));
    result("reset_release", cu.DevicePrimaryCtxRelease(0));
    result("reset_release_again", cu.DevicePrimaryCtxRelease(0));
}

const struct section device_sections[] = {
    {"init", init_section, 1},       {"no_context", no_context_section, 1},     {"device", device_section, 1},
    {"context", context_section, 1}, {"dead_context", dead_context_section, 1}, {NULL, NULL, 0}};
