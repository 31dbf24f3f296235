/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The simulated NVML: the same pretended machine seen from management's side. It knows every device of the node, also
 * those that CUDA_VISIBLE_DEVICES hides. Types are declared here as NVML lays them out, since its header comes with
 * few toolkits; a device handle is its number plus one.
 */
#include "topology.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    NVML_SUCCESS = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_ARGUMENT_VERSION_MISMATCH = 25
};
enum { FABRIC_COMPLETED = 3 };
enum { P2P_OK = 0, P2P_NOT_SUPPORTED = 5 };
enum { P2P_READ = 0, P2P_WRITE = 1, P2P_NVLINK = 2, P2P_ATOMICS = 3 };

typedef uintptr_t device;

struct fabric_info { /* nvmlGpuFabricInfo_t */
    unsigned char cluster_uuid[16];
    int status;
    unsigned clique_id;
    unsigned char state;
};

struct fabric_info_v { /* nvmlGpuFabricInfo_v2_t, and v3 with the last byte */
    unsigned version;
    unsigned char cluster_uuid[16];
    int status;
    unsigned clique_id;
    unsigned char state;
    unsigned health_mask;
};

struct pci_info { /* nvmlPciInfo_t */
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

/* Prototypes of what is exported; they match nvml.h in layout. */
EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT const char *nvmlErrorString(int result);
EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned length);
EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *handle);
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, device *handle);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, device *handle);
EXPORT int nvmlDeviceGetUUID(device handle, char *uuid, unsigned length);
EXPORT int nvmlDeviceGetName(device handle, char *name, unsigned length);
EXPORT int nvmlDeviceGetPciInfo_v3(device handle, struct pci_info *pci);
EXPORT int nvmlDeviceGetMigMode(device handle, unsigned *current, unsigned *pending);
EXPORT int nvmlDeviceGetP2PStatus(device a, device b, int index, int *status);
EXPORT int nvmlDeviceGetNvLinkState(device handle, unsigned link, unsigned *active);
EXPORT int nvmlDeviceGetGpuFabricInfo(device handle, struct fabric_info *info);
EXPORT int nvmlDeviceGetGpuFabricInfoV(device handle, struct fabric_info_v *info);

static struct sim_topology topology;
static int users;

static bool good(device handle) {
    return handle >= 1 && handle <= (device)topology.count;
}

static int number(device handle) {
    return (int)handle - 1;
}

int nvmlInit_v2(void) {
    const char *error = NULL;
    if (users == 0 && !sim_topology_read(&topology, &error)) {
        return NVML_INVALID_ARGUMENT;
    }
    users++;
    return NVML_SUCCESS;
}

int nvmlShutdown(void) {
    if (users == 0) {
        return NVML_UNINITIALIZED;
    }
    users--;
    return NVML_SUCCESS;
}

const char *nvmlErrorString(int result) {
    return result == NVML_SUCCESS ? "Success" : "simulated NVML error";
}

static int text_out(char *out, unsigned length, const char *text) {
    if (out == NULL) {
        return NVML_INVALID_ARGUMENT;
    }
    if (strlen(text) >= length) {
        return NVML_INSUFFICIENT_SIZE;
    }
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    return users == 0 ? NVML_UNINITIALIZED : text_out(version, length, "580.00");
}

static int on_node(int index) {
    for (int d = 0; d < topology.count; d++) {
        if (sim_topology_on_node(&topology, d) && index-- == 0) {
            return d;
        }
    }
    return -1;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    if (users == 0 || count == NULL) {
        return users == 0 ? NVML_UNINITIALIZED : NVML_INVALID_ARGUMENT;
    }
    *count = 0;
    for (int d = 0; d < topology.count; d++) {
        *count += sim_topology_on_node(&topology, d);
    }
    return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *handle) {
    int d = users == 0 ? -1 : on_node((int)index);
    if (users == 0 || handle == NULL || d < 0) {
        return users == 0 ? NVML_UNINITIALIZED : NVML_INVALID_ARGUMENT;
    }
    *handle = (device)d + 1;
    return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device *handle) {
    for (int d = 0; users > 0 && uuid != NULL && d < topology.count; d++) {
        char text[48];
        sim_topology_uuid_text(&topology, d, text);
        if (strcmp(text, uuid) == 0 && sim_topology_on_node(&topology, d)) {
            *handle = (device)d + 1;
            return NVML_SUCCESS;
        }
    }
    return users == 0 ? NVML_UNINITIALIZED : NVML_NOT_FOUND;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, device *handle) {
    unsigned domain = 0, bus = 0;
    if (users == 0 || bus_id == NULL || sscanf(bus_id, "%x:%x:", &domain, &bus) != 2) {
        return users == 0 ? NVML_UNINITIALIZED : NVML_INVALID_ARGUMENT;
    }
    int d = (int)bus - 0x10;
    if (d < 0 || d >= topology.count || !sim_topology_on_node(&topology, d)) {
        return NVML_NOT_FOUND;
    }
    *handle = (device)d + 1;
    return NVML_SUCCESS;
}

int nvmlDeviceGetUUID(device handle, char *uuid, unsigned length) {
    char text[48];
    if (!good(handle)) {
        return NVML_INVALID_ARGUMENT;
    }
    sim_topology_uuid_text(&topology, number(handle), text);
    return text_out(uuid, length, text);
}

int nvmlDeviceGetName(device handle, char *name, unsigned length) {
    return good(handle) ? text_out(name, length, "Simulated device") : NVML_INVALID_ARGUMENT;
}

int nvmlDeviceGetPciInfo_v3(device handle, struct pci_info *pci) {
    if (!good(handle) || pci == NULL) {
        return NVML_INVALID_ARGUMENT;
    }
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x10 + (unsigned)number(handle);
    snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "0000:%02X:00.0", pci->bus & 0xff);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus & 0xff);
    return NVML_SUCCESS;
}

int nvmlDeviceGetMigMode(device handle, unsigned *current, unsigned *pending) {
    if (!good(handle) || current == NULL || pending == NULL) {
        return NVML_INVALID_ARGUMENT;
    }
    *current = *pending = topology.mig;
    return NVML_SUCCESS;
}

int nvmlDeviceGetP2PStatus(device a, device b, int index, int *status) {
    if (!good(a) || !good(b) || status == NULL) {
        return NVML_INVALID_ARGUMENT;
    }
    bool able = sim_topology_peers(&topology, number(a), number(b));
    if (index == P2P_NVLINK) {
        able = able && topology.link == SIM_LINK_NVLINK;
    } else if (index == P2P_ATOMICS) {
        able = able && topology.atomics;
    }
    *status = able ? P2P_OK : P2P_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

int nvmlDeviceGetNvLinkState(device handle, unsigned link, unsigned *active) {
    if (!good(handle) || active == NULL || link >= 18) {
        return NVML_INVALID_ARGUMENT;
    }
    if (topology.link != SIM_LINK_NVLINK) {
        return NVML_NOT_SUPPORTED;
    }
    *active = topology.group_size > 1;
    return NVML_SUCCESS;
}

static void fabric_of(int d, struct fabric_info *info) {
    static const unsigned char cluster[16] = "simcuda-cluster";
    memset(info, 0, sizeof *info);
    memcpy(info->cluster_uuid, cluster, sizeof cluster);
    info->clique_id = (unsigned)sim_topology_clique(&topology, d);
    info->state = topology.fabric ? FABRIC_COMPLETED : 0;
}

int nvmlDeviceGetGpuFabricInfo(device handle, struct fabric_info *info) {
    if (!good(handle) || info == NULL) {
        return NVML_INVALID_ARGUMENT;
    }
    fabric_of(number(handle), info);
    return NVML_SUCCESS;
}

int nvmlDeviceGetGpuFabricInfoV(device handle, struct fabric_info_v *info) {
    struct fabric_info plain;
    if (!good(handle) || info == NULL) {
        return NVML_INVALID_ARGUMENT;
    }
    unsigned number_of_version = info->version >> 24;
    if (number_of_version != 2 && number_of_version != 3) {
        return NVML_ARGUMENT_VERSION_MISMATCH;
    }
    fabric_of(number(handle), &plain);
    memcpy(info->cluster_uuid, plain.cluster_uuid, sizeof info->cluster_uuid);
    info->status = plain.status;
    info->clique_id = plain.clique_id;
    info->state = plain.state;
    info->health_mask = 0;
    return NVML_SUCCESS;
}
