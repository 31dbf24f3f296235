/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Devices: what they are called, what they can do, and which of them reach each other.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CUresult sim_device_check(CUdevice dev) {
    return dev >= 0 && dev < sim.topology.visible_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

int sim_ordinal(int device) {
    for (int i = 0; i < sim.topology.visible_count; i++) {
        if (sim.topology.visible[i] == device) {
            return i;
        }
    }
    return -1;
}

bool sim_can_access(int device, int memory_device) {
    return device == memory_device || sim_topology_peers(&sim.topology, device, memory_device);
}

static int physical(CUdevice dev) {
    return sim.topology.visible[dev];
}

static CUresult get(CUdevice *device_out, int ordinal) {
    if (device_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult rc = sim_device_check(ordinal);
    if (rc == CUDA_SUCCESS) {
        *device_out = ordinal;
    }
    return rc;
}

SIM_ENTRY cuDeviceGet(CUdevice *device, int ordinal) {
    SIM_RUN(cuDeviceGet, get(device, ordinal));
}

static CUresult get_count(int *count_out) {
    if (count_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *count_out = sim.topology.visible_count;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuDeviceGetCount(int *count) {
    SIM_RUN(cuDeviceGetCount, get_count(count));
}

static CUresult get_name(char *name, int len, CUdevice dev) {
    if (name == NULL || len <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult rc = sim_device_check(dev);
    if (rc == CUDA_SUCCESS) {
        snprintf(name, (size_t)len, "Simulated device%s", sim.topology.mig ? " MIG 1g.18gb" : "");
    }
    return rc;
}

SIM_ENTRY cuDeviceGetName(char *name, int len, CUdevice dev) {
    SIM_RUN(cuDeviceGetName, get_name(name, len, dev));
}

static CUresult get_uuid(CUuuid *uuid, CUdevice dev) {
    if (uuid == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult rc = sim_device_check(dev);
    if (rc == CUDA_SUCCESS) {
        uint8_t bytes[16];
        sim_topology_uuid(physical(dev), bytes);
        memcpy(uuid->bytes, bytes, sizeof bytes);
    }
    return rc;
}

SIM_ENTRY cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) {
    SIM_RUN(cuDeviceGetUuid, get_uuid(uuid, dev));
}

SIM_ENTRY cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) {
    SIM_RUN(cuDeviceGetUuid_v2, get_uuid(uuid, dev));
}

static CUresult get_pci(char *text, int len, CUdevice dev) {
    if (text == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult rc = sim_device_check(dev);
    if (rc == CUDA_SUCCESS) {
        if (len < 13) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        snprintf(text, (size_t)len, "0000:%02X:00.0", 0x10 + physical(dev));
    }
    return rc;
}

SIM_ENTRY cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev) {
    SIM_RUN(cuDeviceGetPCIBusId, get_pci(pciBusId, len, dev));
}

static CUresult by_pci(CUdevice *dev_out, const char *text) {
    unsigned domain = 0, bus = 0;
    if (dev_out == NULL || text == NULL || sscanf(text, "%x:%x:", &domain, &bus) != 2) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int ordinal = bus >= 0x10 ? sim_ordinal((int)bus - 0x10) : -1;
    if (ordinal < 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *dev_out = ordinal;
    return CUDA_SUCCESS;
}

SIM_ENTRY cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId) {
    SIM_RUN(cuDeviceGetByPCIBusId, by_pci(dev, pciBusId));
}

static CUresult total(size_t *bytes, CUdevice dev) {
    if (bytes == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult rc = sim_device_check(dev);
    if (rc == CUDA_SUCCESS) {
        *bytes = sim.topology.device_bytes;
    }
    return rc;
}

SIM_ENTRY cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
    SIM_RUN(cuDeviceTotalMem_v2, total(bytes, dev));
}

/* A device of the H200's kind where the topology does not say otherwise. */
static const struct {
    CUdevice_attribute which;
    int value;
} constants[] = {{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
                 {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
                 {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
                 {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
                 {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
                 {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
                 {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
                 {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
                 {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
                 {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
                 {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
                 {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
                 {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
                 {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
                 {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
                 {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
                 {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
                 {CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0},
                 {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
                 {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
                 {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
                 {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
                 {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
                 {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
                 {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
                 {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 4},
                 {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
                 {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
                 {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
                 {CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0},
                 {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
                 {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
                 {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
                 {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
                 {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
                 {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
                 {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
                 {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
                 {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
                 {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560}};

static int multiprocessors(void) {
    long percent = sim.topology.mps ? sim_env_long("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", 100) : 100;
    long count = 132 * (percent > 0 && percent <= 100 ? percent : 100) / 100;
    return count < 2 ? 2 : (int)(count & ~1L);
}

static bool topology_attribute(CUdevice_attribute which, int device, int *value_out) {
    const struct sim_topology *t = &sim.topology;
    switch ((int)which) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value_out = multiprocessors();
        return true;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
        *value_out = 0;
        return true;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
        *value_out = t->memops;
        return true;
    case CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES:
        *value_out = t->flush;
        return true;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        *value_out = t->vmm;
        return true;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        *value_out = t->fabric;
        return true;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
        *value_out = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | (t->fabric ? CU_MEM_HANDLE_TYPE_FABRIC : 0);
        return true;
    case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
        *value_out = t->mps;
        return true;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        *value_out = 0x10 + device;
        return true;
    default:
        return false;
    }
}

static CUresult attribute(int *value_out, CUdevice_attribute which, CUdevice dev) {
    if (value_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult rc = sim_device_check(dev);
    if (rc != CUDA_SUCCESS || topology_attribute(which, physical(dev), value_out)) {
        return rc;
    }
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
        if (constants[i].which == which) {
            *value_out = constants[i].value;
            return CUDA_SUCCESS;
        }
    }
    if (which > 0 && which < CU_DEVICE_ATTRIBUTE_MAX) {
        sim_die("attribute %d is not simulated", (int)which);
    }
    return CUDA_ERROR_INVALID_VALUE;
}

SIM_ENTRY cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev) {
    SIM_RUN(cuDeviceGetAttribute, attribute(pi, attrib, dev));
}

static CUresult can_access(int *can_out, CUdevice dev, CUdevice peer) {
    if (can_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_device_check(dev) != CUDA_SUCCESS || sim_device_check(peer) != CUDA_SUCCESS) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *can_out = sim_topology_peers(&sim.topology, physical(dev), physical(peer));
    return CUDA_SUCCESS;
}

SIM_ENTRY cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev) {
    SIM_RUN(cuDeviceCanAccessPeer, can_access(canAccessPeer, dev, peerDev));
}

static CUresult p2p(int *value_out, CUdevice_P2PAttribute which, CUdevice dev, CUdevice peer) {
    if (value_out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_device_check(dev) != CUDA_SUCCESS || sim_device_check(peer) != CUDA_SUCCESS || dev == peer) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    bool peers = sim_topology_peers(&sim.topology, physical(dev), physical(peer));
    switch ((int)which) {
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        *value_out = peers;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value_out = peers && sim.topology.atomics;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value_out = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_ENTRY cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice) {
    SIM_RUN(cuDeviceGetP2PAttribute, p2p(value, attrib, srcDevice, dstDevice));
}
