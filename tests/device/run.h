/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Running bodies: by a call in host space, as a kernel of one block in CUDA space.
 */
#ifndef PEERWIN_TESTS_DEVICE_RUN_H
#define PEERWIN_TESTS_DEVICE_RUN_H

#include "bodies.h"

/** Loads the kernel, in CUDA space; and unloads it. */
void run_begin(void);
void run_end(void);

/** Runs a body on `stream` and returns; in host space it is done then.. */
void run_start(const body_args *args, unsigned lanes, peerwin_stream stream);

#endif
