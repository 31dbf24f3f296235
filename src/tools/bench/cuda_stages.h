/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How long the library's driver calls take, by stage: while a context is watched, its driver table leads through
 * clocks. One thread, one context at a time.
 */
#ifndef PEERWIN_BENCH_CUDA_STAGES_H
#define PEERWIN_BENCH_CUDA_STAGES_H

#include "peerwin/peerwin.h"

/** CREATE: memory of my own. MAP: addresses for it, mine and the peers'; for host memory its registration. */
enum { STAGE_CREATE, STAGE_EXPORT, STAGE_IMPORT, STAGE_MAP, STAGE_ACCESS, NUM_STAGES };

void stages_watch(peerwin_ctx *ctx);
void stages_unwatch(peerwin_ctx *ctx);

void stages_reset(void);

/** Seconds spent in the calls of a stage since the last reset. */
double stages_seconds(int stage);

#endif
