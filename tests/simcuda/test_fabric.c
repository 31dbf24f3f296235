/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fabric handles: between pretended nodes of a clique, with and without an IMEX channel, between cliques; and what
 * does not cross a node's border.
 */
#define _GNU_SOURCE
#include "simtest.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static CUresult create(unsigned types, CUmemGenericAllocationHandle *handle_out) {
    CUmemAllocationProp prop = device_prop(0, types);
    return cuMemCreate(handle_out, 2 * MIB, &prop, 0);
}

/* Shares one allocation by fabric handle and by descriptor, and ordinary memory by legacy handle. */
struct offer {
    CUmemFabricHandle fabric;
    CUipcMemHandle legacy;
};

static void exporter(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr ptr = 0, plain = 0;
    struct offer offer;
    int fd = -1;
    start();
    OK(create(FABRIC | FD, &handle));
    OK(map_whole(handle, 2 * MIB, &ptr));
    poke(ptr, 77);
    poke(ptr + 4, 0);
    OK(cuMemAlloc(&plain, 4096));
    OK(cuMemExportToShareableHandle(&offer.fabric, handle, FABRIC, 0));
    OK(cuMemExportToShareableHandle(&fd, handle, FD, 0));
    OK(cuIpcGetMemHandle(&offer.legacy, plain));
    tell(&offer, sizeof offer);
    tell_fd(fd);
    close(fd);
    await();
    uint32_t seen = peek(ptr + 4);
    tell(&seen, sizeof seen);
    unmap_whole(ptr, 2 * MIB);
    OK(cuMemRelease(handle));
    OK(cuMemFree(plain));
    stop();
}

static void crosses(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr ptr = 0;
    struct offer offer;
    uint32_t seen = 0;
    start();
    hear(&offer, sizeof offer);
    close(hear_fd());
    OK(cuMemImportFromShareableHandle(&handle, &offer.fabric, FABRIC));
    OK(map_whole(handle, 2 * MIB, &ptr));
    OK(cuMemRelease(handle));
    CHECK_EQ(peek(ptr), 77);
    poke(ptr + 4, 78);
    hand();
    hear(&seen, sizeof seen);
    CHECK_EQ(seen, 78);
    unmap_whole(ptr, 2 * MIB);
    stop();
}

static void other_clique(void) {
    CUmemGenericAllocationHandle handle = 0;
    struct offer offer;
    uint32_t seen = 0;
    start();
    hear(&offer, sizeof offer);
    close(hear_fd());
    CHECK_RC(cuMemImportFromShareableHandle(&handle, &offer.fabric, FABRIC), CUDA_ERROR_NOT_PERMITTED);
    hand();
    hear(&seen, sizeof seen);
    stop();
}

static void descriptor_crosses(void) {
    CUmemGenericAllocationHandle handle = 0;
    struct offer offer;
    start();
    hear(&offer, sizeof offer);
    cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)hear_fd(), FD);
}

static void legacy_crosses(void) {
    CUdeviceptr ptr = 0;
    struct offer offer;
    start();
    hear(&offer, sizeof offer);
    cuIpcOpenMemHandle(&ptr, offer.legacy, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

/* Announced by the attribute and refused by the call: the machine this was seen on. */
static void no_channel(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemFabricHandle garbage;
    int supported = 0;
    start();
    OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
    CHECK_EQ(supported, 1);
    CHECK_RC(create(FABRIC, &handle), CUDA_ERROR_NOT_PERMITTED);
    CHECK_RC(create(FABRIC | FD, &handle), CUDA_ERROR_NOT_PERMITTED);
    OK(create(FD, &handle));
    OK(cuMemRelease(handle));
    memset(&garbage, 0x5a, sizeof garbage);
    CHECK_RC(cuMemImportFromShareableHandle(&handle, &garbage, FABRIC), CUDA_ERROR_NOT_SUPPORTED);
    stop();
}

static void no_fabric(void) {
    CUmemGenericAllocationHandle handle = 0;
    start();
    CHECK_RC(create(FABRIC, &handle), CUDA_ERROR_NOT_SUPPORTED);
    stop();
}

static void garbage(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemFabricHandle fabric;
    start();
    memset(&fabric, 0x5a, sizeof fabric);
    CHECK(cuMemImportFromShareableHandle(&handle, &fabric, FABRIC) != CUDA_SUCCESS);
    CHECK(handle == 0);
    stop();
}

/* The handle outlives its memory, and is worth nothing then. */
static void dying(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemFabricHandle fabric;
    start();
    OK(create(FABRIC, &handle));
    OK(cuMemExportToShareableHandle(&fabric, handle, FABRIC, 0));
    OK(cuMemRelease(handle));
    tell(&fabric, sizeof fabric);
    await();
    stop();
}

static void heir(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemFabricHandle fabric;
    start();
    hear(&fabric, sizeof fabric);
    CHECK(cuMemImportFromShareableHandle(&handle, &fabric, FABRIC) != CUDA_SUCCESS);
    hand();
    stop();
}

#define NODES "SIMCUDA_TOPOLOGY=nodes:2x2 SIMCUDA_IMEX=1 SIMCUDA_NODE=0"

static const struct simtest tests[] = {
    {"on_one_node", crosses, exporter, "SIMCUDA_TOPOLOGY=nvswitch:2 SIMCUDA_IMEX=1", NULL, 0, NULL},
    {"across_nodes", crosses, exporter, NODES, "SIMCUDA_NODE=1", 0, NULL},
    {"other_clique", other_clique, exporter, "SIMCUDA_TOPOLOGY=cliques:2x2 SIMCUDA_IMEX=1 SIMCUDA_NODE=0",
     "SIMCUDA_NODE=1", 0, NULL},
    {"descriptor_crosses", descriptor_crosses, exporter, NODES, "SIMCUDA_NODE=1", SIGABRT,
     "a descriptor of node 1 is imported on node 0"},
    {"legacy_crosses", legacy_crosses, exporter, NODES, "SIMCUDA_NODE=1", SIGABRT,
     "a legacy handle of another node is opened on node 0"},
    {"no_channel", no_channel, NULL, NULL, NULL, 0, NULL},
    {"no_fabric", no_fabric, NULL, "SIMCUDA_FABRIC=0 SIMCUDA_IMEX=1", NULL, 0, NULL},
    {"garbage", garbage, NULL, "SIMCUDA_IMEX=1", NULL, 0, NULL},
    {"released", heir, dying, "SIMCUDA_IMEX=1", NULL, 0, NULL},
    {NULL, NULL, NULL, NULL, NULL, 0, NULL}};

int main(int argc, char **argv) {
    return simtest_main(argc, argv, tests);
}
