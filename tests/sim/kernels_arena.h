/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the parts of the kernels' test share. Sources lie in one arena, targets in another, which is read back whole and
 * compared with what plain loops make of the same transfers. Nothing is mapped before and after the sources: who reads
 * there is found out.
 */
#ifndef SIM_KERNELS_ARENA_H
#define SIM_KERNELS_ARENA_H

#include "bare.h"

#include "memory/launch.h"

enum { MIB = 1 << 20, ARENA = 4 * MIB };

extern pw_gpu *gpu;
extern CUdeviceptr source, target;    /* ARENA bytes each */
extern unsigned char *given, *wanted; /* the sources, and the targets as they should be */

void arenas_made(void);
void arenas_freed(void);

/*
 * Makes the sources forbidden ground, but for one range after the other. Only AddressSanitizer watches it, in the host
 * form of the kernels, and only from multiples of 8 bytes on, forwards; all is allowed again at the end.
 */
void forbid_sources(void);
void allow_source(size_t from, size_t bytes);
void allow_sources(void);

/* Between these two, the test launches transfers and makes the same within `wanted`, in the first `bytes` bytes. */
void begin(size_t bytes);

/* Tells where the first wrong byte is; `spacing` is between the transfers. */
void compare(size_t bytes, size_t spacing, const char *what);

/* The parts. */
void boxes_are_right(void);
void loading_is_right(void); /* on the simulated driver only */
void nothing_is_left(void);  /* the same, after the end */

#endif
