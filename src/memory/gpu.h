/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The device of a context: the driver, the CUDA context that the library works in, its stream and its kernels; without
 * a type of CUDA in sight. Pointers are addresses as the driver gives them: device memory is not for the host to touch.
 *
 * Implemented twice: on the driver (gpu.c), and for builds without the CUDA headers (device_absent.c).
 */
#ifndef PW_MEMORY_GPU_H
#define PW_MEMORY_GPU_H

#include "memory/device.h"
#include "memory/memory.h"

typedef struct {
    const char *library; /* of the driver, "" for libcuda.so.1 */
    int choice;          /* PEERWIN_DEVICE_... */
    int node_rank;       /* for PEERWIN_DEVICE_SPREAD */
    int rank;            /* for the texts of failures */
    const int *devices;  /* further ordinals that get access to every mapping */
    int num_devices;
    int timeout_ms; /* of the library's own waits for the device; -1 = none */
} pw_gpu_request;

/*
 * Opens the driver and settles on a device: that of the caller's current context, or the primary context of the chosen
 * one. Loads all kernels. UNSUPPORTED with the reason if there is no driver or no device; ARG if a device ordinal does
 * not exist. The caller's current context is afterwards what it was.
 */
PEERWIN_MUST_USE peerwin_status pw_gpu_open(const pw_gpu_request *request, const pw_site *site, pw_gpu **gpu_out);

/* Gives everything back. NULL is fine. */
void pw_gpu_close(pw_gpu *gpu);

/*
 * Makes the library's context current, and the driver calls of this thread harmless to a capture that is under way;
 * every enter that returned OK is paired with a leave, which restores both. Nests.
 */
PEERWIN_MUST_USE peerwin_status pw_gpu_enter(pw_gpu *gpu, const pw_site *site);
void pw_gpu_leave(pw_gpu *gpu);

/*
 * The same for calls that only give work to streams: nothing that a capture would mind, so the thread's capture mode
 * stays, and a context that is current already is left alone. Does not nest.
 */
PEERWIN_MUST_USE peerwin_status pw_gpu_step_in(pw_gpu *gpu, const pw_site *site);
void pw_gpu_step_out(pw_gpu *gpu);

/* Why a kernel of the library has given up waiting; OK if none has. Any thread. */
peerwin_status pw_gpu_gave_up(const pw_gpu *gpu);

const pw_device *pw_gpu_about(const pw_gpu *gpu);

/*
 * How this device is linked to the one with that UUID, and whether atomics on its memory work: by the driver, or, if
 * the device is hidden from this process, by NVML. Where nobody knows, by the bus and without atomics, which never goes
 * wrong.
 */
peerwin_link pw_gpu_link(const pw_gpu *gpu, const char *uuid, int *native_atomics_out);

/*
 * Small transfers by the copy engine, on the library's own stream: what they did is in memory when they return. The
 * context is current. TIMEOUT if the device does not get to it.
 */
PEERWIN_MUST_USE peerwin_status pw_gpu_write(pw_gpu *gpu, void *to, const void *host, size_t bytes,
                                             const pw_site *site);
PEERWIN_MUST_USE peerwin_status pw_gpu_read(pw_gpu *gpu, void *host, const void *from, size_t bytes,
                                            const pw_site *site);
PEERWIN_MUST_USE peerwin_status pw_gpu_zero(pw_gpu *gpu, void *at, size_t bytes, const pw_site *site);

/* Device memory that holds a copy of what the host has there, and the end of it: always freed, the first failure. */
PEERWIN_MUST_USE peerwin_status pw_gpu_keep(pw_gpu *gpu, const void *host, size_t bytes, const pw_site *site,
                                            void **at_out);
peerwin_status pw_gpu_drop(pw_gpu *gpu, void *at, peerwin_status first);

/*
 * Waits until everything that was given to the context so far, by anybody, is done. The context is current. STATE while
 * a stream captures; TIMEOUT.
 */
PEERWIN_MUST_USE peerwin_status pw_gpu_quiesce(pw_gpu *gpu, const pw_site *site);

/* The same with a deadline of its own, which drivers before 12.5 do not keep. */
PEERWIN_MUST_USE peerwin_status pw_gpu_quiesce_within(pw_gpu *gpu, int timeout_ms, const pw_site *site);

/* Stores one word by a kernel; in memory when it returns. */
PEERWIN_MUST_USE peerwin_status pw_gpu_store(pw_gpu *gpu, void *at, uint64_t value, const pw_site *site);

/*
 * Finds out what [base, base + bytes) is and makes it a segment of the kind that can share it: the whole allocations
 * under it, with the place of `base` in them in *offset_out. Refuses what cannot be shared by name and with a remedy:
 * UNSUPPORTED for managed, plain stream-ordered, unshareable virtual and host memory, ARG for memory of a device that
 * the rank did not declare, RANGE for a range that leaves its allocation.
 */
PEERWIN_MUST_USE peerwin_status pw_gpu_attach(pw_gpu *gpu, void *base, size_t bytes, const pw_site *site,
                                              pw_segment *segment_out, size_t *offset_out);

#endif
