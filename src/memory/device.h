/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The devices of this machine, without a type of CUDA in sight: what a tool or a rank wants to know of them.
 *
 * Implemented twice: on the driver (device.c), and for builds without the CUDA headers (device_absent.c), which says
 * so.
 */
#ifndef PW_MEMORY_DEVICE_H
#define PW_MEMORY_DEVICE_H

#include "base/error.h"

#include <stdint.h>

typedef struct pw_driver pw_driver;

/*
 * Opens the driver: `library`, or libcuda.so.1 if that is "". The first driver call of the process may be made here.
 * UNSUPPORTED, with the reason, if there is no driver, no device, or no support for CUDA in this build.
 */
PEERWIN_MUST_USE peerwin_status pw_driver_open(const char *library, const pw_site *site, pw_driver **driver_out);

/* Frees the table. The library stays loaded: its threads may outlive us. NULL is fine. */
void pw_driver_close(pw_driver *driver);

/* The version that the driver supports, as CUDA counts: 13000 for 13.0. */
int pw_driver_version(const pw_driver *driver);

/* How many devices are visible to this process. */
int pw_driver_devices(const pw_driver *driver);

enum { PW_DEVICE_NAME = 64, PW_DEVICE_UUID = 48, PW_DEVICE_PCI = 16 };

/* What the driver says of a device. It proves little: that a handle type is announced does not mean that it works. */
typedef struct {
    char name[PW_DEVICE_NAME];
    char uuid[PW_DEVICE_UUID]; /* "GPU-..." or "MIG-..." */
    char pci[PW_DEVICE_PCI];
    size_t memory; /* bytes */
    int compute_major, compute_minor;
    int multiprocessors;
    unsigned handles; /* mask of peerwin_handle that it announces */
    int ipc_events;
    int stream_waits; /* 64-bit stream memory operations */
    int flush_remote; /* CAN_FLUSH_REMOTE_WRITES */
    int mps;          /* contexts of this process are clients of MPS */
} pw_device;

/* Describes the device with this ordinal, 0 .. pw_driver_devices - 1. */
PEERWIN_MUST_USE peerwin_status pw_device_describe(const pw_driver *driver, int ordinal, const pw_site *site,
                                                   pw_device *device_out);

/* 1 if device `from` announces that it can access the memory of device `to`. */
PEERWIN_MUST_USE peerwin_status pw_device_reaches(const pw_driver *driver, int from, int to, const pw_site *site,
                                                  int *reaches_out);

#endif
