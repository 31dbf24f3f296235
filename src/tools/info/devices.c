/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Devices; see devices.h. A driver is opened for the length of one report.
 */
#include "devices.h"

#include "base/env.h"
#include "memory/device.h"
#include "memory/nvml.h"

#include <stdio.h>
#include <string.h>

static const pw_site site = {.call = "peerwin-info", .stage = "devices", .rank = PW_NONE, .peer = PW_NONE};

static const struct {
    unsigned bit;
    const char *name;
} kinds[] = {
    {PEERWIN_HANDLE_HOST, "host"},     {PEERWIN_HANDLE_LEGACY, "legacy"}, {PEERWIN_HANDLE_FD, "fd"},
    {PEERWIN_HANDLE_FABRIC, "fabric"}, {PEERWIN_HANDLE_POOL, "pool"},
};

/* The driver, or NULL and the reason in peerwin_last_error(); and NVML, NULL if there is none. */
static pw_driver *open_driver(pw_nvml **nvml_out) {
    pw_env env;
    pw_driver *driver = NULL;
    *nvml_out = NULL;
    if (pw_env_read(&site, &env) != PEERWIN_OK || pw_driver_open(env.cuda_library, &site, &driver) != PEERWIN_OK)
        return NULL;
    *nvml_out = pw_nvml_open(env.cuda_library);
    return driver;
}

static void list_kinds(unsigned handles, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((handles & kinds[i].bit) != 0 && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "," : "", kinds[i].name);
}

static void print_device(int ordinal, const pw_device *d, const pw_nvml *nvml) {
    char handles[64];
    char fabric[64];
    pw_nvml_fabric(nvml, d->uuid, fabric, sizeof fabric);
    list_kinds(d->handles, handles, sizeof handles);
    printf("  %d  %s, %s, PCI %s\n", ordinal, d->name, d->uuid, d->pci);
    printf("     compute capability %d.%d, %d multiprocessors, %zu MiB\n", d->compute_major, d->compute_minor,
           d->multiprocessors, d->memory >> 20);
    printf("     announces: handles %s; interprocess events %s; 64-bit stream memory operations %s\n", handles,
           d->ipc_events ? "yes" : "no", d->stream_waits ? "yes" : "no");
    printf("     fabric: %s\n", fabric);
}

void devices_print(void) {
    printf("\ndevices (as the driver announces them to rank 0; what works is below)\n");
    pw_nvml *nvml = NULL;
    pw_driver *driver = open_driver(&nvml);
    if (driver == NULL) {
        printf("  none: %s\n", peerwin_last_error());
        return;
    }
    printf("  driver for CUDA %d.%d\n", pw_driver_version(driver) / 1000, pw_driver_version(driver) % 1000 / 10);
    for (int i = 0; i < pw_driver_devices(driver); i++) {
        pw_device device;
        if (pw_device_describe(driver, i, &site, &device) == PEERWIN_OK)
            print_device(i, &device, nvml);
        else
            printf("  %d  %s\n", i, peerwin_last_error());
    }
    pw_nvml_close(nvml);
    pw_driver_close(driver);
}

static void write_device(int ordinal, const pw_device *d, const pw_nvml *nvml, json *j) {
    char fabric[64];
    pw_nvml_fabric(nvml, d->uuid, fabric, sizeof fabric);
    json_open(j, NULL, '{');
    json_number(j, "ordinal", ordinal);
    json_text(j, "name", d->name);
    json_text(j, "uuid", d->uuid);
    json_text(j, "pci", d->pci);
    json_number(j, "compute_major", d->compute_major);
    json_number(j, "compute_minor", d->compute_minor);
    json_number(j, "multiprocessors", d->multiprocessors);
    json_number(j, "memory_bytes", (long long)d->memory);
    json_open(j, "handles_announced", '[');
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((d->handles & kinds[i].bit) != 0)
            json_text(j, NULL, kinds[i].name);
    json_close(j, ']');
    json_bool(j, "interprocess_events", d->ipc_events != 0);
    json_bool(j, "stream_memory_operations", d->stream_waits != 0);
    json_text(j, "fabric", fabric);
    json_close(j, '}');
}

void devices_write(json *j) {
    pw_nvml *nvml = NULL;
    pw_driver *driver = open_driver(&nvml);
    json_open(j, "devices", '{');
    json_text(j, "reason", driver == NULL ? peerwin_last_error() : NULL);
    if (driver != NULL)
        json_number(j, "driver_version", pw_driver_version(driver));
    json_open(j, "list", '[');
    for (int i = 0; driver != NULL && i < pw_driver_devices(driver); i++) {
        pw_device device;
        if (pw_device_describe(driver, i, &site, &device) == PEERWIN_OK)
            write_device(i, &device, nvml, j);
    }
    json_close(j, ']');
    json_close(j, '}');
    pw_nvml_close(nvml);
    pw_driver_close(driver);
}
