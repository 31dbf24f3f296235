/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * NVML; see nvml.h. Its header comes with few toolkits, so what is used of it is declared here: the layouts and numbers
 * are those of its stable interface (nvmlDevice_t is a pointer, enumerations are ints).
 */
#include "memory/nvml.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, P2P_CAPS_NVLINK = 2, P2P_CAPS_ATOMICS = 3, P2P_STATUS_OK = 0 };

typedef struct device_record *device;

typedef struct { /* nvmlGpuFabricInfo_t */
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
} fabric_info;

/* X(member, symbol, arguments). Without the last, which older drivers lack, one can do. */
#define CALLS(X)                                                                                                       \
    X(init, "nvmlInit_v2", (void))                                                                                     \
    X(shutdown, "nvmlShutdown", (void))                                                                                \
    X(by_uuid, "nvmlDeviceGetHandleByUUID", (const char *, device *))                                                  \
    X(p2p_status, "nvmlDeviceGetP2PStatus", (device, device, int, int *))                                              \
    X(fabric, "nvmlDeviceGetGpuFabricInfo", (device, fabric_info *))

struct pw_nvml {
    void *library;
#define MEMBER(member, symbol, arguments) int(*member) arguments;
    CALLS(MEMBER)
#undef MEMBER
};

static void fetch(void *library, const char *symbol, void *pointer) {
    void *entry = dlsym(library, symbol);
    memcpy(pointer, &entry, sizeof entry);
}

/*
 * Each time that NVML begins and ends it leaves a descriptor behind (driver 580). It counts who uses it, so this
 * machine's begins once in a process, by a use that does not end.
 */
static void let_stay(const pw_nvml *nvml) {
    static atomic_int stays;
    if (!atomic_exchange(&stays, 1))
        (void)nvml->init();
}

pw_nvml *pw_nvml_open(const char *library) {
    pw_nvml *nvml = calloc(1, sizeof *nvml);
    const int its_own = library[0] == '\0';
    if (!nvml)
        return NULL;
    nvml->library =
        dlopen(its_own ? "libnvidia-ml.so.1" : library, RTLD_NOW | RTLD_LOCAL | (its_own ? RTLD_NODELETE : 0));
    if (!nvml->library)
        goto none;
#define FETCH(member, symbol, arguments) fetch(nvml->library, symbol, &nvml->member);
    CALLS(FETCH)
#undef FETCH
    if (nvml->init && nvml->shutdown && nvml->by_uuid && nvml->p2p_status && nvml->init() == SUCCESS) {
        if (its_own)
            let_stay(nvml);
        return nvml;
    }
    dlclose(nvml->library);
none:
    free(nvml);
    return NULL;
}

void pw_nvml_close(pw_nvml *nvml) {
    if (!nvml)
        return;
    (void)nvml->shutdown();
    dlclose(nvml->library);
    free(nvml);
}

static int status_is_ok(const pw_nvml *nvml, device a, device b, int capability, int *ok_out) {
    int status = 0;
    if (nvml->p2p_status(a, b, capability, &status) != SUCCESS)
        return 0;
    *ok_out = status == P2P_STATUS_OK;
    return 1;
}

int pw_nvml_pair_of(const pw_nvml *nvml, const char *uuid, const char *other, pw_nvml_pair *pair_out) {
    device a = NULL;
    device b = NULL;
    int there = 0;
    int back = 0;
    pw_nvml_pair pair;
    if (!nvml || nvml->by_uuid(uuid, &a) != SUCCESS || nvml->by_uuid(other, &b) != SUCCESS ||
        !status_is_ok(nvml, a, b, P2P_CAPS_NVLINK, &pair.nvlink) ||
        !status_is_ok(nvml, a, b, P2P_CAPS_ATOMICS, &there) || !status_is_ok(nvml, b, a, P2P_CAPS_ATOMICS, &back))
        return 0;
    pair.atomics = there && back;
    *pair_out = pair;
    return 1;
}

void pw_nvml_fabric(const pw_nvml *nvml, const char *uuid, char *text, size_t bytes) {
    static const char *const states[] = {"not supported", "not started", "in progress", "completed"};
    fabric_info info = {.state = 0};
    device d = NULL;
    if (!nvml || !nvml->fabric || nvml->by_uuid(uuid, &d) != SUCCESS || nvml->fabric(d, &info) != SUCCESS)
        snprintf(text, bytes, "not known");
    else if (info.state >= sizeof states / sizeof *states)
        snprintf(text, bytes, "state %d", info.state);
    else if (info.state < 3)
        snprintf(text, bytes, "%s", states[info.state]);
    else if (info.status != SUCCESS)
        snprintf(text, bytes, "completed with NVML status %d", info.status);
    else
        snprintf(text, bytes, "completed, clique %u", info.clique);
}
