/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Devices in a build without the CUDA headers: there are none, and why.
 */
#include "memory/device.h"

static peerwin_status absent(const pw_site *site) {
    return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                   "this build of peerwin has no CUDA: it was made without the CUDA headers (cuda.h, 12.0 or later)");
}

peerwin_status pw_driver_open(const char *library, const pw_site *site, pw_driver **driver_out) {
    (void)library;
    (void)driver_out;
    return absent(site);
}

void pw_driver_close(pw_driver *driver) {
    (void)driver;
}

int pw_driver_version(const pw_driver *driver) {
    (void)driver;
    return 0;
}

int pw_driver_devices(const pw_driver *driver) {
    (void)driver;
    return 0;
}

peerwin_status pw_device_describe(const pw_driver *driver, int ordinal, const pw_site *site, pw_device *device_out) {
    (void)driver;
    (void)ordinal;
    (void)device_out;
    return absent(site);
}

peerwin_status pw_device_reaches(const pw_driver *driver, int from, int to, const pw_site *site, int *reaches_out) {
    (void)driver;
    (void)from;
    (void)to;
    (void)reaches_out;
    return absent(site);
}
