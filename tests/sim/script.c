/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The script; see script.h.
 */
#include "script.h"

#include <stddef.h>
#include <string.h>

#include "support/device.h"

static struct {
    void (*simcuda_reset)(void);
    void (*simcuda_fail)(const char *name, unsigned long n, int code, int sticky);
    int (*simcuda_injected)(void);
    void (*simcuda_only_this_thread)(int on);
    unsigned long (*simcuda_calls)(const char *name);
    const char *(*simcuda_call_name)(unsigned long n);
} sim;

static void find(const char *name, void *pointer) {
    void *entry = device_simulated(name);
    CHECK(entry != NULL);
    memcpy(pointer, &entry, sizeof(entry));
}

void script_listen(void) {
    find("simcuda_reset", &sim.simcuda_reset);
    find("simcuda_fail", &sim.simcuda_fail);
    find("simcuda_injected", &sim.simcuda_injected);
    find("simcuda_only_this_thread", &sim.simcuda_only_this_thread);
    find("simcuda_calls", &sim.simcuda_calls);
    find("simcuda_call_name", &sim.simcuda_call_name);
    sim.simcuda_reset();
    sim.simcuda_only_this_thread(1);
}

void script_fail(const char *name, int nth, int code) {
    script_listen();
    sim.simcuda_fail(name, (unsigned long)nth, code, 0);
}

int script_end(void) {
    int injected = sim.simcuda_injected();
    sim.simcuda_reset();
    return injected;
}

int script_calls(void) {
    return (int)sim.simcuda_calls(NULL);
}

const char *script_name(int nth) {
    const char *name = sim.simcuda_call_name((unsigned long)nth);
    return name != NULL ? name : "";
}
