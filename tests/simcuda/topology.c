/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads the pretended machine from the environment. Devices are numbered; a group of them shares links; a node is a
 * group, so that ranks of different nodes see different devices.
 */
#define _GNU_SOURCE
#include "topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long sim_env_long(const char *name, long fallback) {
    const char *text = secure_getenv(name);
    if (text == NULL || *text == 0) {
        return fallback;
    }
    char *end = NULL;
    long value = strtol(text, &end, 0);
    return *end == 0 ? value : fallback;
}

bool sim_env_on(const char *name, bool fallback) {
    return sim_env_long(name, fallback) != 0;
}

static int first_env_int(const char *const *names, int fallback) {
    for (; *names != NULL; names++) {
        if (secure_getenv(*names) != NULL) {
            return (int)sim_env_long(*names, fallback);
        }
    }
    return fallback;
}

static int world_rank(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
    return first_env_int(names, 0);
}

static int local_rank(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", NULL};
    return first_env_int(names, 0);
}

/* "name", "name:N" or "name:AxB". */
static bool read_shape(struct sim_topology *t, const char *text) {
    static const struct {
        const char *name;
        enum sim_link link;
        int numbers;
        bool one_clique;
    } shapes[] = {{"same-gpu", SIM_LINK_NVLINK, 0, true}, {"nvswitch", SIM_LINK_NVLINK, 1, true},
                  {"pcie", SIM_LINK_PCIE, 1, true},       {"pcie-no-peer", SIM_LINK_NONE, 1, true},
                  {"cliques", SIM_LINK_NVLINK, 2, false}, {"nodes", SIM_LINK_NVLINK, 2, true}};
    size_t length = strcspn(text, ":");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        if (strlen(shapes[i].name) != length || strncmp(shapes[i].name, text, length) != 0) {
            continue;
        }
        int a = 1, b = 1;
        if (shapes[i].numbers == 1 && sscanf(text + length, ":%d", &b) != 1) {
            return false;
        }
        if (shapes[i].numbers == 2 && sscanf(text + length, ":%dx%d", &a, &b) != 2) {
            return false;
        }
        t->link = shapes[i].link;
        t->one_clique = shapes[i].one_clique;
        t->group_size = b;
        t->count = a * b;
        return a > 0 && b > 0 && t->count <= SIM_MAX_DEVICES;
    }
    return false;
}

static int read_node(void) {
    long ranks = sim_env_long("SIMCUDA_NODE_RANKS", 0);
    if (secure_getenv("SIMCUDA_NODE") != NULL) {
        return (int)sim_env_long("SIMCUDA_NODE", 0);
    }
    return ranks > 0 ? world_rank() / (int)ranks : -1;
}

bool sim_topology_on_node(const struct sim_topology *t, int device) {
    return t->node < 0 || t->count == t->group_size || device / t->group_size == t->node % (t->count / t->group_size);
}

/* One word of CUDA_VISIBLE_DEVICES: an index among the node's devices or the beginning of a UUID. -1: no such device.
 */
static int device_named(const struct sim_topology *t, const int *here, int num_here, const char *word, size_t length) {
    char *end = NULL;
    long index = strtol(word, &end, 10);
    if (end == word + length && length > 0) {
        return index >= 0 && index < num_here ? here[index] : -1;
    }
    for (int i = 0; i < num_here; i++) {
        char text[48];
        sim_topology_uuid_text(t, here[i], text);
        if (length > 4 && strncmp(text, word, length) == 0) {
            return here[i];
        }
    }
    return -1;
}

static void read_visible(struct sim_topology *t) {
    int here[SIM_MAX_DEVICES], num_here = 0;
    for (int d = 0; d < t->count; d++) {
        if (sim_topology_on_node(t, d)) {
            here[num_here++] = d;
        }
    }
    const char *list = secure_getenv("CUDA_VISIBLE_DEVICES"), *per = secure_getenv("SIMCUDA_VISIBLE");
    if (per != NULL && strcmp(per, "rank") == 0) {
        t->visible[t->visible_count++] = here[local_rank() % num_here];
    } else if (list == NULL) {
        memcpy(t->visible, here, sizeof here);
        t->visible_count = num_here;
    } else {
        for (const char *word = list; *word != 0 && t->visible_count < SIM_MAX_DEVICES;) {
            size_t length = strcspn(word, ",");
            int device = device_named(t, here, num_here, word, length);
            if (device < 0) {
                break;
            }
            t->visible[t->visible_count++] = device;
            word += length + (word[length] == ',');
        }
    }
}

bool sim_topology_read(struct sim_topology *t, const char **error_out) {
    const char *shape = secure_getenv("SIMCUDA_TOPOLOGY");
    memset(t, 0, sizeof *t);
    if (!read_shape(t, shape != NULL ? shape : "same-gpu")) {
        *error_out = "SIMCUDA_TOPOLOGY must be same-gpu, nvswitch:N, pcie:N, pcie-no-peer:N, cliques:AxB or nodes:AxB";
        return false;
    }
    t->node = read_node();
    t->imex = sim_env_on("SIMCUDA_IMEX", false);
    t->fabric = sim_env_on("SIMCUDA_FABRIC", true);
    t->mps = sim_env_on("SIMCUDA_MPS", false);
    t->mig = sim_env_on("SIMCUDA_MIG", false);
    t->atomics = sim_env_on("SIMCUDA_ATOMICS", t->link == SIM_LINK_NVLINK);
    t->flush = sim_env_on("SIMCUDA_FLUSH", false);
    t->memops = !sim_env_on("SIMCUDA_NO_MEMOPS", false);
    t->vmm = !sim_env_on("SIMCUDA_NO_VMM", false);
    t->driver_version = (int)sim_env_long("SIMCUDA_DRIVER_VERSION", 13000);
    t->device_bytes = (size_t)sim_env_long("SIMCUDA_DEVICE_MIB", 16384) << 20;
    read_visible(t);
    return true;
}

bool sim_topology_peers(const struct sim_topology *t, int a, int b) {
    return a != b && !t->mig && t->link != SIM_LINK_NONE && a / t->group_size == b / t->group_size;
}

int sim_topology_clique(const struct sim_topology *t, int device) {
    return t->one_clique ? 0 : device / t->group_size;
}

void sim_topology_uuid(int device, uint8_t uuid_out[16]) {
    static const uint8_t base[16] = {0x51, 0xc0, 0xda, 0x00, 0x5e, 0xed, 0x40, 0x00, 0x80, 0, 0, 0, 0, 0, 0, 0};
    memcpy(uuid_out, base, sizeof base);
    uuid_out[15] = (uint8_t)(device + 1);
}

void sim_topology_uuid_text(const struct sim_topology *t, int device, char text_out[48]) {
    uint8_t u[16];
    sim_topology_uuid(device, u);
    snprintf(text_out, 48, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             t->mig ? "MIG" : "GPU", u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
             u[13], u[14], u[15]);
}
