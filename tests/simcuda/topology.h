/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The pretended machine: devices, who reaches whom, and which of them this process sees. Shared by the driver and NVML.
 */
#ifndef SIMCUDA_TOPOLOGY_H
#define SIMCUDA_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_MAX_DEVICES = 128 };
enum sim_link { SIM_LINK_NONE, SIM_LINK_PCIE, SIM_LINK_NVLINK };

struct sim_topology {
    int count;                    /* physical devices */
    int group_size;               /* devices of a group are each other's peers */
    enum sim_link link;           /* within a group */
    bool one_clique;              /* all groups are one fabric clique */
    int node;                     /* pretended node, -1 = the machine is one node */
    int visible[SIM_MAX_DEVICES]; /* physical device of each ordinal */
    int visible_count;
    bool imex, fabric, mps, mig, atomics, flush, memops, vmm;
    int driver_version;
    size_t device_bytes;
};

/* False, with the reason in `error_out`, if the environment makes no sense. */
bool sim_topology_read(struct sim_topology *topology_out, const char **error_out);
bool sim_topology_peers(const struct sim_topology *t, int a, int b); /* physical; a device is not its own peer */
bool sim_topology_on_node(const struct sim_topology *t, int device);
int sim_topology_clique(const struct sim_topology *t, int device);
void sim_topology_uuid(int device, uint8_t uuid_out[16]);
void sim_topology_uuid_text(const struct sim_topology *t, int device, char text_out[48]);
long sim_env_long(const char *name, long fallback);
bool sim_env_on(const char *name, bool fallback);

#endif
