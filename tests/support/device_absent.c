/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Without the CUDA headers: there is no CUDA space, so none of this is come to.
 */
#include "device.h"

static _Noreturn void absent(void) {
    test_fail(__FILE__, __LINE__, "built without the CUDA headers");
}

void device_begin(void) {
    if (job.space == PEERWIN_SPACE_CUDA) {
        absent();
    }
}

void device_end(void) {
}

int device_count(void) {
    absent();
}

int device_mine(void) {
    absent();
}

void *device_new(size_t bytes) {
    (void)bytes;
    absent();
}

void device_free(void *memory) {
    (void)memory;
    absent();
}

void device_copy(void *to, const void *from, size_t bytes) {
    (void)to;
    (void)from;
    (void)bytes;
    absent();
}

void device_set(void *at, int byte, size_t bytes) {
    (void)at;
    (void)byte;
    (void)bytes;
    absent();
}

size_t device_free_bytes(void) {
    absent();
}

int device_is_real(void) {
    return 0;
}

peerwin_stream device_stream_new(void) {
    absent();
}

peerwin_stream device_stream_urgent(void) {
    absent();
}

void device_stream_free(peerwin_stream stream) {
    (void)stream;
    absent();
}

void device_stream_sync(peerwin_stream stream) {
    (void)stream;
    absent();
}

int device_stream_is_idle(peerwin_stream stream) {
    (void)stream;
    absent();
}

void *device_simulated(const char *name) {
    (void)name;
    return NULL;
}

device_snapshot device_take(void) {
    device_snapshot snapshot = {{0}};
    return snapshot;
}

void device_check(const device_snapshot *before) {
    (void)before;
}

const char *device_left_over(const device_snapshot *before) {
    (void)before;
    return NULL;
}
