/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Kinds of memory; see ranges.h. All of it is on the device that is current, and used from there.
 */
#include "ranges.h"

#include <string.h>

void *managed_new(size_t bytes) {
    CUdeviceptr memory = 0;
    DEVICE_OK(device.cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL));
    return (void *)(uintptr_t)memory;
}

void managed_free(void *memory) {
    DEVICE_OK(device.cuMemFree(device_address(memory)));
}

void *locked_new(size_t bytes) {
    void *memory = NULL;
    DEVICE_OK(device.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE));
    return memory;
}

void locked_free(void *memory) {
    DEVICE_OK(device.cuMemFreeHost(memory));
}

static CUmemAllocationProp property(CUmemAllocationHandleType types) {
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof(prop));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device_mine();
    prop.requestedHandleTypes = types;
    return prop;
}

size_t range_granularity(void) {
    size_t bytes = 0;
    CUmemAllocationProp prop = property(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    DEVICE_OK(device.cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    return bytes;
}

range range_new(int pieces, size_t piece_bytes, CUmemAllocationHandleType types) {
    CUmemAllocationProp prop = property(types);
    CUmemAccessDesc access;
    CUdeviceptr at = 0;
    range r = {NULL, (size_t)pieces * piece_bytes, piece_bytes, pieces};
    CHECK(pieces <= RANGE_MOST_PIECES);
    DEVICE_OK(device.cuMemAddressReserve(&at, r.bytes, 0, 0, 0));
    for (int i = 0; i < pieces; i++) {
        CUmemGenericAllocationHandle handle = 0;
        DEVICE_OK(device.cuMemCreate(&handle, piece_bytes, &prop, 0));
        DEVICE_OK(device.cuMemMap(at + (size_t)i * piece_bytes, piece_bytes, 0, handle, 0));
        DEVICE_OK(device.cuMemRelease(handle));
    }
    memset(&access, 0, sizeof(access));
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DEVICE_OK(device.cuMemSetAccess(at, r.bytes, &access, 1));
    r.base = (void *)(uintptr_t)at;
    return r;
}

void range_free(range *r) {
    CUdeviceptr at = device_address(r->base);
    device_stream_sync(job.stream);
    for (int i = 0; i < r->pieces; i++) {
        DEVICE_OK(device.cuMemUnmap(at + (size_t)i * r->piece_bytes, r->piece_bytes));
    }
    DEVICE_OK(device.cuMemAddressFree(at, r->bytes));
}

void *ordered_new(size_t bytes) {
    CUdeviceptr memory = 0;
    DEVICE_OK(device.cuMemAllocAsync(&memory, bytes, job.stream));
    device_stream_sync(job.stream);
    return (void *)(uintptr_t)memory;
}

void ordered_free(void *memory) {
    DEVICE_OK(device.cuMemFreeAsync(device_address(memory), job.stream));
    device_stream_sync(job.stream);
}

CUmemoryPool pool_new(void) {
    CUmemoryPool pool = NULL;
    CUmemPoolProps props;
    memset(&props, 0, sizeof(props));
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device_mine();
    DEVICE_OK(device.cuMemPoolCreate(&pool, &props));
    return pool;
}

void *pool_take(CUmemoryPool pool, size_t bytes) {
    CUdeviceptr memory = 0;
    DEVICE_OK(device.cuMemAllocFromPoolAsync(&memory, bytes, pool, job.stream));
    device_stream_sync(job.stream);
    return (void *)(uintptr_t)memory;
}

void pool_free(CUmemoryPool pool) {
    DEVICE_OK(device.cuMemPoolDestroy(pool));
}
