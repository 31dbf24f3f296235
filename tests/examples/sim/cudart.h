/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * As much of the CUDA runtime as examples call, on the driver that PEERWIN_CUDA_LIBRARY names.
 */
#ifndef SIM_CUDART_H
#define SIM_CUDART_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel of one argument, of so many bytes, and how one thread of it is called. */
typedef struct {
    const void *kernel;
    size_t bytes;
    void (*call)(const void *argument);
} sim_entry;

/* The program's kernels, ended by one of NULL. */
extern const sim_entry sim_entries[];

/* What the driver gets as the argument of its only kernel. */
enum { SIM_ARGUMENT_WORDS = 128 };
typedef struct {
    void (*call)(const void *argument);
    double argument[SIM_ARGUMENT_WORDS];
} sim_launch;

#ifdef __cplusplus
}
#endif

#endif
