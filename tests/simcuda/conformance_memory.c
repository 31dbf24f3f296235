/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sections of one process about memory: ordinary allocations, pools, registered host memory.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conformance.h"

static void alloc_handles(CUdeviceptr big) {
    CUipcMemHandle a, b;
    CUdeviceptr none = 0;
    int on_stack = 0;
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
}

static void alloc_section(int role) {
    (void)role;
    CUcontext ctx = start_device();
    CUdeviceptr small = 0, next = 0, big = 0, none = 1, managed = 0;
    CUipcMemHandle legacy;
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
    alloc_handles(big);
    result("managed", cu.MemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    pointer_facts("managed_attributes", managed, ctx);
    result("managed_ipc", cu.IpcGetMemHandle(&legacy, managed));
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

static CUmemPoolProps pool_props(CUmemAllocationHandleType type) {
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.handleTypes = type;
    return props;
}

static void pool_plain_facts(CUcontext ctx, CUstream stream) {
    CUdeviceptr plain = 0, zero = 1;
    CUmemoryPool fallback = NULL;
    CUmemPoolPtrExportData data;
    CUipcMemHandle legacy;
    CUmemGenericAllocationHandle handle = 0;
    int fd = -1;
    result("default_pool", cu.DeviceGetDefaultMemPool(&fallback, 0));
    result("default_export",
           cu.MemPoolExportToShareableHandle(&fd, fallback, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    result("plain", cu.MemAllocAsync(&plain, 4096, stream));
    cu.StreamSynchronize(stream);
    pointer_facts("plain_attributes", plain, ctx);
    result("plain_ipc", cu.IpcGetMemHandle(&legacy, plain));
    result("plain_export", cu.MemPoolExportPointer(&data, plain));
    result("plain_retain", cu.MemRetainAllocationHandle(&handle, (void *)(uintptr_t)plain));
    range_fact("plain_range", plain + 100);
    result("plain_write_value", cu.StreamWriteValue32(stream, plain, 1, 0));
    result("zero", cu.MemAllocAsync(&zero, 0, stream));
    fact("zero_is_null", "%d", zero == 0);
    result("plain_free", cu.MemFreeAsync(plain, stream));
    result("plain_free_sync", cu.StreamSynchronize(stream));
    result("plain_free_twice", cu.MemFreeAsync(plain, stream));
}

static void pool_create_facts(CUmemPoolProps *props) {
    CUmemoryPool own = NULL;
    int fd = -1;
    result("create_none", cu.MemPoolCreate(&own, props));
    result("none_export", cu.MemPoolExportToShareableHandle(&fd, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    result("none_destroy", cu.MemPoolDestroy(own));
    props->handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    props->location.id = 99;
    result("create_bad_device", cu.MemPoolCreate(&own, props));
    props->location.id = 0;
}

static void pool_section(int role) {
    (void)role;
    CUcontext ctx = start_device();
    CUdeviceptr ptr = 0;
    CUmemoryPool pool = NULL, found = NULL, self = NULL;
    CUmemPoolProps props;
    CUmemPoolPtrExportData data;
    CUipcMemHandle legacy;
    CUstream stream = NULL;
    int fd = -1, fabric[16];
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    pool_plain_facts(ctx, stream);
    props = pool_props(CU_MEM_HANDLE_TYPE_NONE);
    pool_create_facts(&props);
    result("create_fd", cu.MemPoolCreate(&pool, &props));
    result("alloc", cu.MemAllocFromPoolAsync(&ptr, 3 * MIB, pool, stream));
    cu.StreamSynchronize(stream);
    pointer_facts("attributes", ptr, ctx);
    pointer_facts("inner_attributes", ptr + MIB, ctx);
    range_fact("range", ptr + MIB);
    result("write_value", cu.StreamWriteValue32(stream, ptr, 1, 0));
    result("wait_value", cu.StreamWaitValue32(stream, ptr, 1, CU_STREAM_WAIT_VALUE_EQ));
    result("memop_sync", cu.StreamSynchronize(stream));
    result("pool_of", cu.PointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr));
    fact("pool_of_same", "%d", found == pool);
    result("ipc", cu.IpcGetMemHandle(&legacy, ptr));
    result("export_pointer_first", cu.MemPoolExportPointer(&data, ptr));
    result("export", cu.MemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    result("export_pointer", cu.MemPoolExportPointer(&data, ptr));
    result("export_inner", cu.MemPoolExportPointer(&data, ptr + 4096));
    result("export_fabric", cu.MemPoolExportToShareableHandle(fabric, pool, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    result("import_own", cu.MemPoolImportFromShareableHandle(&self, (void *)(intptr_t)fd,
                                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    result("import_bad", cu.MemPoolImportFromShareableHandle(&self, (void *)(intptr_t)-1,
                                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    result("free_inner", cu.MemFree(ptr + 4096));
    result("destroy_live", cu.MemPoolDestroy(pool));
    result("free_after_destroy", cu.MemFree(ptr));
    result("destroy_null", cu.MemPoolDestroy(NULL));
}

/* Without an IMEX channel. A section of its own, since a driver may not survive the pool's end. */
static void pool_fabric_section(int role) {
    (void)role;
    start_device();
    CUmemPoolProps props = pool_props(CU_MEM_HANDLE_TYPE_FABRIC);
    CUmemoryPool pool = NULL;
    CUmemFabricHandle fabric;
    if (result("create", cu.MemPoolCreate(&pool, &props)) == CUDA_SUCCESS) {
        result("export", cu.MemPoolExportToShareableHandle(&fabric, pool, CU_MEM_HANDLE_TYPE_FABRIC, 0));
        result("destroy", cu.MemPoolDestroy(pool));
    }
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

const struct section memory_sections[] = {{"alloc", alloc_section, 1},
                                          {"pool", pool_section, 1},
                                          {"pool_fabric", pool_fabric_section, 1},
                                          {"host", host_section, 1},
                                          {"pageable_memop", pageable_memop_section, 1},
                                          {NULL, NULL, 0}};
