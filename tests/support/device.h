/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The device of a test in CUDA space, real or simulated: the driver in PEERWIN_CUDA_LIBRARY, or libcuda.so.1, and the
 * primary context of device (node rank modulo devices), which is current in the main thread. Without a type of CUDA,
 * so that all tests build without its headers; calls.h has the driver itself.
 *
 * A failing driver call fails the test. Copies are ordered in the job's stream and done when they return.
 */
#ifndef PEERWIN_TESTS_DEVICE_H
#define PEERWIN_TESTS_DEVICE_H

#include <stddef.h>

#include "test.h"

/** Opens the driver and makes the context and, if asked for, a stream: job.stream. In host space nothing happens. */
void device_begin(void);
void device_end(void);

/** How many devices this process sees, and which is the job's. */
int device_count(void);
int device_mine(void);

void *device_new(size_t bytes);
void device_free(void *memory);
void device_copy(void *to, const void *from, size_t bytes);
void device_set(void *at, int byte, size_t bytes);
/** Bytes that are free on the device. */
size_t device_free_bytes(void);
/** 1 if the driver is this machine's, 0 in host space and on a simulated one. */
int device_is_real(void);

/** A stream that waits for no other; urgent ones share no queue with the job's, whatever the driver does. */
peerwin_stream device_stream_new(void);
peerwin_stream device_stream_urgent(void);
void device_stream_free(peerwin_stream stream);
void device_stream_sync(peerwin_stream stream);
/** 1 if all work given to the stream is done. */
int device_stream_is_idle(peerwin_stream stream);

/** A function of the simulated driver's own (simcuda.h), NULL on a real one. */
void *device_simulated(const char *name);

/** What is alive in the simulated driver, kind by kind; nothing on a real one. */
enum { DEVICE_KINDS = 14 };
typedef struct {
    size_t live[DEVICE_KINDS];
} device_snapshot;
device_snapshot device_take(void);
/** Fails, naming the kind, if something is alive that was not before. */
void device_check(const device_snapshot *before);
/** The kind with more of it than before, or NULL. */
const char *device_left_over(const device_snapshot *before);

#endif
