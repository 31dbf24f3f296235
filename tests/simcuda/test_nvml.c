/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The simulated NVML: the node's devices, hidden ones included, their links and their place in the fabric. Opened as
 * the library opens it, by name.
 */
#define _GNU_SOURCE
#include "simtest.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *device;

struct fabric_info {
    unsigned char cluster_uuid[16];
    int status;
    unsigned clique_id;
    unsigned char state;
};
struct fabric_info_v2 {
    unsigned version;
    unsigned char cluster_uuid[16];
    int status;
    unsigned clique_id;
    unsigned char state;
    unsigned health_mask;
};

static struct {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, device *);
    int (*by_uuid)(const char *, device *);
    int (*by_pci)(const char *, device *);
    int (*uuid)(device, char *, unsigned);
    int (*p2p)(device, device, int, int *);
    int (*link)(device, unsigned, unsigned *);
    int (*fabric)(device, struct fabric_info *);
    int (*fabric_v)(device, struct fabric_info_v2 *);
    int (*mig)(device, unsigned *, unsigned *);
} nvml;

static void *handle;

static void look_up(void *function, size_t bytes, const char *name) {
    void *found = dlsym(handle, name);
    if (found == NULL) {
        simtest_fail(__FILE__, __LINE__, "no %s", name);
    }
    memcpy(function, &found, bytes);
}
#define LOOK_UP(field, name) look_up(&nvml.field, sizeof nvml.field, name)

static void open_nvml(void) {
    handle = dlopen(getenv("SIMTEST_NVML"), RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL);
    LOOK_UP(init, "nvmlInit_v2");
    LOOK_UP(shutdown, "nvmlShutdown");
    LOOK_UP(count, "nvmlDeviceGetCount_v2");
    LOOK_UP(by_index, "nvmlDeviceGetHandleByIndex_v2");
    LOOK_UP(by_uuid, "nvmlDeviceGetHandleByUUID");
    LOOK_UP(by_pci, "nvmlDeviceGetHandleByPciBusId_v2");
    LOOK_UP(uuid, "nvmlDeviceGetUUID");
    LOOK_UP(p2p, "nvmlDeviceGetP2PStatus");
    LOOK_UP(link, "nvmlDeviceGetNvLinkState");
    LOOK_UP(fabric, "nvmlDeviceGetGpuFabricInfo");
    LOOK_UP(fabric_v, "nvmlDeviceGetGpuFabricInfoV");
    LOOK_UP(mig, "nvmlDeviceGetMigMode");
}

static void open_device(unsigned index, device *device_out) {
    open_nvml();
    CHECK_EQ(nvml.init(), 0);
    CHECK_EQ(nvml.by_index(index, device_out), 0);
}

/* CUDA sees one device, NVML all; both call it the same. */
static void hidden_devices(void) {
    unsigned n = 0;
    device all[4], again = NULL;
    char uuid[96], expected[96], bus[32];
    CUuuid cuda;
    open_nvml();
    CHECK_EQ(nvml.count(&n), 1); /* not initialised */
    CHECK_EQ(nvml.init(), 0);
    CHECK_EQ(nvml.count(&n), 0);
    CHECK_EQ(n, 4);
    for (unsigned i = 0; i < 4; i++) {
        CHECK_EQ(nvml.by_index(i, &all[i]), 0);
    }
    CHECK_EQ(nvml.by_index(4, &again), 2);
    OK(cuInit(0));
    OK(cuDeviceGetUuid(&cuda, 0));
    const unsigned char *b = (const unsigned char *)cuda.bytes;
    snprintf(expected, sizeof expected, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    CHECK_EQ(nvml.uuid(all[2], uuid, sizeof uuid), 0);
    CHECK(strcmp(uuid, expected) == 0);
    CHECK_EQ(nvml.by_uuid(expected, &again), 0);
    CHECK(again == all[2]);
    OK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
    CHECK_EQ(nvml.by_pci(bus, &again), 0);
    CHECK(again == all[2]);
    CHECK_EQ(nvml.uuid(all[2], uuid, 10), 7); /* too small */
    CHECK_EQ(nvml.by_uuid("GPU-none", &again), 6);
    CHECK_EQ(nvml.shutdown(), 0);
    CHECK_EQ(nvml.shutdown(), 1);
}

static void check_links(int p2p, int nvlink, int link_result) {
    device a, b;
    int status = -1;
    unsigned active = 9;
    open_device(0, &a);
    CHECK_EQ(nvml.by_index(1, &b), 0);
    CHECK_EQ(nvml.p2p(a, b, 0, &status), 0);
    CHECK_EQ(status == 0, p2p);
    CHECK_EQ(nvml.p2p(a, b, 2, &status), 0);
    CHECK_EQ(status == 0, nvlink);
    CHECK_EQ(nvml.link(a, 0, &active), link_result);
    CHECK_EQ(nvml.link(a, 99, &active), 2);
}

static void links_nvswitch(void) {
    check_links(1, 1, 0);
}

static void links_pcie(void) {
    check_links(1, 0, 3);
}

static void links_none(void) {
    check_links(0, 0, 3);
}

static unsigned clique_of(device d, unsigned char *state_out) {
    struct fabric_info info;
    struct fabric_info_v2 newer;
    memset(&newer, 0, sizeof newer);
    newer.version = (unsigned)sizeof newer | 2u << 24;
    CHECK_EQ(nvml.fabric(d, &info), 0);
    CHECK_EQ(nvml.fabric_v(d, &newer), 0);
    CHECK_EQ(info.clique_id, newer.clique_id);
    CHECK_EQ(info.state, newer.state);
    CHECK(memcmp(info.cluster_uuid, newer.cluster_uuid, 16) == 0);
    newer.version = 1;
    CHECK_EQ(nvml.fabric_v(d, &newer), 25);
    *state_out = info.state;
    return info.clique_id;
}

static void two_cliques(void) {
    device here, there;
    unsigned char state = 0;
    unsigned mine, theirs;
    open_device(0, &here);
    CHECK_EQ(nvml.by_index(2, &there), 0);
    mine = clique_of(here, &state);
    CHECK_EQ(state, 3);
    theirs = clique_of(there, &state);
    CHECK(mine != theirs);
}

static void one_clique(void) {
    device here;
    unsigned n = 0;
    unsigned char state = 0;
    open_device(0, &here);
    CHECK_EQ(nvml.count(&n), 0);
    CHECK_EQ(n, 2); /* of this node */
    CHECK_EQ(clique_of(here, &state), 0);
}

static void no_fabric(void) {
    device here;
    unsigned char state = 9;
    open_device(0, &here);
    clique_of(here, &state);
    CHECK_EQ(state, 0);
}

static void mig(void) {
    device here;
    unsigned now_on = 9, later = 9;
    open_device(0, &here);
    CHECK_EQ(nvml.mig(here, &now_on, &later), 0);
    CHECK(now_on == 1 && later == 1);
}

#define CASE(function, env)                                                                                            \
    { #function, function, NULL, env, NULL, 0, NULL }

static const struct simtest tests[] = {CASE(hidden_devices, "SIMCUDA_TOPOLOGY=nvswitch:4 CUDA_VISIBLE_DEVICES=2"),
                                       CASE(links_nvswitch, "SIMCUDA_TOPOLOGY=nvswitch:2"),
                                       CASE(links_pcie, "SIMCUDA_TOPOLOGY=pcie:2"),
                                       CASE(links_none, "SIMCUDA_TOPOLOGY=pcie-no-peer:2"),
                                       CASE(two_cliques, "SIMCUDA_TOPOLOGY=cliques:2x2"),
                                       CASE(one_clique, "SIMCUDA_TOPOLOGY=nodes:3x2 SIMCUDA_NODE=1"),
                                       CASE(no_fabric, "SIMCUDA_FABRIC=0"),
                                       CASE(mig, "SIMCUDA_MIG=1"),
                                       {NULL, NULL, NULL, NULL, NULL, 0, NULL}};

int main(int argc, char **argv) {
    return simtest_main(argc, argv, tests);
}
