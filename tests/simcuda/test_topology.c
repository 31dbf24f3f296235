/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The pretended machines: how many devices, who reaches whom, what a process sees of them, and what attributes say.
 */
#define _GNU_SOURCE
#include "simtest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count(void) {
    int n = -1;
    OK(cuInit(0));
    OK(cuDeviceGetCount(&n));
    return n;
}

/* The physical number of a device, which is the last byte of its UUID, from 0. */
static int physical(CUdevice device) {
    CUuuid uuid;
    OK(cuDeviceGetUuid(&uuid, device));
    return (unsigned char)uuid.bytes[15] - 1;
}

static int attribute(CUdevice_attribute which) {
    int value = -1;
    OK(cuDeviceGetAttribute(&value, which, 0));
    return value;
}

static int p2p(CUdevice_P2PAttribute which, CUdevice a, CUdevice b) {
    int value = -1;
    OK(cuDeviceGetP2PAttribute(&value, which, a, b));
    return value;
}

/* Devices a and b are peers exactly if they are in one group of `group`, and never if group is 0. */
static void check_peers(int n, int group) {
    for (int a = 0; a < n; a++) {
        for (int b = 0; b < n; b++) {
            int can = -1, expected = a != b && group > 0 && a / group == b / group;
            OK(cuDeviceCanAccessPeer(&can, a, b));
            CHECK_EQ(can, expected);
            if (a != b) {
                CHECK_EQ(p2p(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, a, b), expected);
            }
        }
    }
}

static void same_gpu(void) {
    CHECK_EQ(count(), 1);
    check_peers(1, 1);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED), 1);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES), 0);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_MPS_ENABLED), 0);
}

static void nvswitch(void) {
    CHECK_EQ(count(), 4);
    check_peers(4, 4);
    CHECK_EQ(p2p(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 0, 3), 1);
}

static void pcie(void) {
    CHECK_EQ(count(), 2);
    check_peers(2, 2);
    CHECK_EQ(p2p(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 0, 1), 0);
}

static void pcie_no_peer(void) {
    CUdeviceptr near = 0, far = 0;
    CUcontext ctx = NULL, other = NULL;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = device_prop(1, 0);
    CHECK_EQ(count(), 2);
    check_peers(2, 0);
    ctx = start();
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    CHECK_RC(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0)); /* on the other device: no access from here */
    CHECK_RC(map_whole(handle, 2 * MIB, &far), CUDA_ERROR_INVALID_DEVICE);
    unmap_whole(far, 2 * MIB);
    OK(cuMemRelease(handle));
    OK(cuMemAlloc(&near, 4096)); /* ordinary memory is copied through the host */
    OK(cuCtxSetCurrent(other));
    OK(cuMemAlloc(&far, 4096));
    poke(far, 31);
    OK(cuMemFree(far));
    OK(cuCtxSetCurrent(ctx));
    OK(cuMemFree(near));
    OK(cuDevicePrimaryCtxRelease(1));
    stop();
}

static void cliques(void) {
    CHECK_EQ(count(), 4);
    check_peers(4, 2);
}

static void large(void) {
    CHECK_EQ(count(), 72);
    check_peers(72, 72);
    for (int d = 0; d < 72; d++) {
        CHECK_EQ(physical(d), d);
    }
}

static void node_by_number(void) {
    CHECK_EQ(count(), 4);
    CHECK_EQ(physical(0), 8);
    CHECK_EQ(physical(3), 11);
    check_peers(4, 4);
}

static void one_per_rank(void) {
    CHECK_EQ(count(), 1);
    CHECK_EQ(physical(0), 2);
}

static void visible_order(void) {
    char bus[16], other[16];
    CUdevice device = -1;
    CHECK_EQ(count(), 2);
    CHECK_EQ(physical(0), 3);
    CHECK_EQ(physical(1), 1);
    OK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
    OK(cuDeviceGetPCIBusId(other, sizeof other, 1));
    CHECK(strcmp(bus, other) != 0);
    OK(cuDeviceGetByPCIBusId(&device, other));
    CHECK_EQ(device, 1);
}

static void visible_none(void) {
    CHECK_RC(cuInit(0), CUDA_ERROR_NO_DEVICE);
}

/* A device that this process does not see can be its peer: its memory comes in and opens. */
static void hidden_owner(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = device_prop(0, FD);
    CUipcMemHandle legacy;
    CUdeviceptr ptr = 0, plain = 0;
    int fd = -1;
    start();
    CHECK_EQ(physical(0), 1);
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    OK(map_whole(handle, 2 * MIB, &ptr));
    poke(ptr, 41);
    OK(cuMemAlloc(&plain, 4096));
    poke(plain, 42);
    OK(cuIpcGetMemHandle(&legacy, plain));
    OK(cuMemExportToShareableHandle(&fd, handle, FD, 0));
    tell(&legacy, sizeof legacy);
    tell_fd(fd);
    await();
}

static void hidden_peer(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUipcMemHandle legacy;
    CUdeviceptr ptr = 0, plain = 0;
    int ordinal = 0;
    start();
    CHECK_EQ(physical(0), 0);
    hear(&legacy, sizeof legacy);
    int fd = hear_fd();
    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, FD));
    OK(map_whole(handle, 2 * MIB, &ptr));
    CHECK_EQ(peek(ptr), 41);
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr));
    CHECK_EQ(ordinal, -1);
    OK(cuIpcOpenMemHandle(&plain, legacy, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK_EQ(peek(plain), 42);
    hand();
}

static void hidden_no_peer(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUipcMemHandle legacy;
    CUdeviceptr ptr = 0, plain = 0;
    start();
    hear(&legacy, sizeof legacy);
    int fd = hear_fd();
    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, FD));
    CHECK_RC(map_whole(handle, 2 * MIB, &ptr), CUDA_ERROR_INVALID_DEVICE);
    CHECK_RC(cuIpcOpenMemHandle(&plain, legacy, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
             CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    hand();
}

static void attributes(void) {
    CUmemAllocationProp prop = device_prop(0, 0);
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr ptr = 0;
    int version = 0;
    start();
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED), 0);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES), 1);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_MPS_ENABLED), 1);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS), 0);
    CHECK_EQ(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 0);
    CHECK_RC(cuMemCreate(&handle, 2 * MIB, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemAlloc(&ptr, 4096));
    CHECK_RC(cuStreamWriteValue64(NULL, ptr, 1, 0), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemFree(ptr));
    OK(cuDriverGetVersion(&version));
    CHECK_EQ(version, 12020);
    void *found = NULL;
    OK(cuGetProcAddress("cuFuncLoad", &found, 12020, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));
    CHECK(found == NULL);
    stop();
}

/* Slices of one device are strangers to each other. */
static void mig(void) {
    CUdeviceptr ptr = 0;
    CUipcMemHandle legacy;
    CHECK_EQ(count(), 2);
    check_peers(2, 0);
    start();
    OK(cuMemAlloc(&ptr, 4096));
    CHECK_RC(cuIpcGetMemHandle(&legacy, ptr), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(ptr));
    stop();
}

#define CASE(function, env)                                                                                            \
    { #function, function, NULL, env, NULL, 0, NULL }
#define UUID(last) "GPU-51c0da00-5eed-4000-8000-0000000000" last

static const struct simtest tests[] = {
    CASE(same_gpu, NULL),
    CASE(nvswitch, "SIMCUDA_TOPOLOGY=nvswitch:4"),
    CASE(pcie, "SIMCUDA_TOPOLOGY=pcie:2"),
    CASE(pcie_no_peer, "SIMCUDA_TOPOLOGY=pcie-no-peer:2"),
    CASE(cliques, "SIMCUDA_TOPOLOGY=cliques:2x2"),
    CASE(large, "SIMCUDA_TOPOLOGY=nvswitch:72"),
    {"unknown", same_gpu, NULL, "SIMCUDA_TOPOLOGY=ring:4", NULL, 6, "SIMCUDA_TOPOLOGY must be"},
    CASE(node_by_number, "SIMCUDA_TOPOLOGY=nodes:4x4 SIMCUDA_NODE=2"),
    {"node_by_rank", node_by_number, NULL, "SIMCUDA_TOPOLOGY=nodes:4x4 SIMCUDA_NODE_RANKS=4 OMPI_COMM_WORLD_RANK=9",
     NULL, 0, NULL},
    CASE(one_per_rank, "SIMCUDA_TOPOLOGY=nvswitch:4 SIMCUDA_VISIBLE=rank OMPI_COMM_WORLD_LOCAL_RANK=6"),
    {"visible_by_index", visible_order, NULL, "SIMCUDA_TOPOLOGY=nvswitch:4 CUDA_VISIBLE_DEVICES=3,1", NULL, 0, NULL},
    {"visible_by_uuid", visible_order, NULL,
     "SIMCUDA_TOPOLOGY=nvswitch:4 CUDA_VISIBLE_DEVICES=" UUID("04") "," UUID("02"), NULL, 0, NULL},
    {"visible_to_the_first_bad_one", visible_order, NULL, "SIMCUDA_TOPOLOGY=nvswitch:4 CUDA_VISIBLE_DEVICES=3,1,9,0",
     NULL, 0, NULL},
    {"visible_none", visible_none, NULL, "SIMCUDA_TOPOLOGY=nvswitch:4 CUDA_VISIBLE_DEVICES=-1", NULL, 0, NULL},
    {"hidden_peer", hidden_peer, hidden_owner, "SIMCUDA_TOPOLOGY=nvswitch:2 CUDA_VISIBLE_DEVICES=0",
     "CUDA_VISIBLE_DEVICES=1", 0, NULL},
    {"hidden_no_peer", hidden_no_peer, hidden_owner, "SIMCUDA_TOPOLOGY=pcie-no-peer:2 CUDA_VISIBLE_DEVICES=0",
     "CUDA_VISIBLE_DEVICES=1", 0, NULL},
    CASE(attributes, "SIMCUDA_FABRIC=0 SIMCUDA_FLUSH=1 SIMCUDA_MPS=1 SIMCUDA_NO_MEMOPS=1 SIMCUDA_NO_VMM=1 "
                     "SIMCUDA_DRIVER_VERSION=12020"),
    CASE(mig, "SIMCUDA_TOPOLOGY=nvswitch:2 SIMCUDA_MIG=1"),
    {NULL, NULL, NULL, NULL, NULL, 0, NULL}};

int main(int argc, char **argv) {
    return simtest_main(argc, argv, tests);
}
