/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Devices and their memory in a build without the CUDA headers: there are none, and why. Nobody has a pw_gpu here, so
 * what takes one is never called.
 */
#include "memory/events.h"
#include "memory/gpu.h"
#include "memory/launch.h"

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

peerwin_status pw_gpu_open(const pw_gpu_request *request, const pw_site *site, pw_gpu **gpu_out) {
    (void)request;
    (void)gpu_out;
    return absent(site);
}

void pw_gpu_close(pw_gpu *gpu) {
    (void)gpu;
}

peerwin_status pw_gpu_enter(pw_gpu *gpu, const pw_site *site) {
    (void)gpu;
    return absent(site);
}

void pw_gpu_leave(pw_gpu *gpu) {
    (void)gpu;
}

const pw_device *pw_gpu_about(const pw_gpu *gpu) {
    (void)gpu;
    return NULL;
}

peerwin_link pw_gpu_link(const pw_gpu *gpu, const char *uuid, int *native_atomics_out) {
    (void)gpu;
    (void)uuid;
    *native_atomics_out = 0;
    return PEERWIN_LINK_NONE;
}

peerwin_status pw_gpu_write(pw_gpu *gpu, void *to, const void *host, size_t bytes, const pw_site *site) {
    (void)gpu;
    (void)to;
    (void)host;
    (void)bytes;
    return absent(site);
}

peerwin_status pw_gpu_read(pw_gpu *gpu, void *host, const void *from, size_t bytes, const pw_site *site) {
    (void)gpu;
    (void)host;
    (void)from;
    (void)bytes;
    return absent(site);
}

peerwin_status pw_gpu_zero(pw_gpu *gpu, void *at, size_t bytes, const pw_site *site) {
    (void)gpu;
    (void)at;
    (void)bytes;
    return absent(site);
}

peerwin_status pw_gpu_keep(pw_gpu *gpu, const void *host, size_t bytes, const pw_site *site, void **at_out) {
    (void)gpu;
    (void)host;
    (void)bytes;
    (void)at_out;
    return absent(site);
}

peerwin_status pw_gpu_drop(pw_gpu *gpu, void *at, peerwin_status first) {
    (void)gpu;
    (void)at;
    return first;
}

peerwin_status pw_gpu_quiesce_within(pw_gpu *gpu, int timeout_ms, const pw_site *site) {
    (void)gpu;
    (void)timeout_ms;
    return absent(site);
}

peerwin_status pw_gpu_quiesce(pw_gpu *gpu, const pw_site *site) {
    (void)gpu;
    return absent(site);
}

peerwin_status pw_gpu_store(pw_gpu *gpu, void *at, uint64_t value, const pw_site *site) {
    (void)gpu;
    (void)at;
    (void)value;
    return absent(site);
}

peerwin_status pw_gpu_measure_distance(pw_gpu *gpu, const pw_launch_distance *what, const pw_site *site) {
    (void)gpu;
    (void)what;
    return absent(site);
}

peerwin_status pw_gpu_step_in(pw_gpu *gpu, const pw_site *site) {
    (void)gpu;
    return absent(site);
}

void pw_gpu_step_out(pw_gpu *gpu) {
    (void)gpu;
}

peerwin_status pw_gpu_gave_up(const pw_gpu *gpu) {
    (void)gpu;
    return PEERWIN_OK;
}

peerwin_status pw_ready_push_new(pw_gpu *gpu, const pw_site *site, pw_ready **ready_out) {
    (void)gpu;
    (void)ready_out;
    return absent(site);
}

void pw_ready_push_free(pw_gpu *gpu, pw_ready *ready) {
    (void)gpu;
    (void)ready;
}

const pw_memory_ops *pw_events(void) {
    return NULL;
}

peerwin_status pw_gpu_attach(pw_gpu *gpu, void *base, size_t bytes, const pw_site *site, pw_segment *segment_out,
                             size_t *offset_out) {
    (void)gpu;
    (void)base;
    (void)bytes;
    (void)segment_out;
    (void)offset_out;
    return absent(site);
}

const pw_memory_ops *pw_memory_on_gpu(peerwin_handle kind) {
    (void)kind;
    return NULL;
}
