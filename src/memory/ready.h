/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Kernels that are kept ready: each a graph of one node, whose arguments are set before it is launched. On an H200 with
 * a driver for CUDA 13.0 that takes 2.4 to 2.6 us of the host, and cuLaunchKernel 3.6 to 4.4 in the same minutes.
 *
 * A driver runs the launches of one graph one after the other, whatever streams they are on. So only kernels are kept
 * ready whose launches are one sequence anyway, as barriers are and all-reduces, and the pushes of one halo plan, which
 * has its own. What a stream captures is launched as usual.
 */
#ifndef PW_MEMORY_READY_H
#define PW_MEMORY_READY_H

#include "memory/gpu_cuda.h"

/* Makes those of this gpu, when its kernels are loaded; what fails is undone. The context is current. */
PEERWIN_MUST_USE peerwin_status pw_ready_open(pw_gpu *gpu, const pw_site *site);

/* Gives them back. Fine if there are none. */
void pw_ready_close(pw_gpu *gpu);

/* Its kernel with `args`, on a stream that does not capture. */
PEERWIN_MUST_USE peerwin_status pw_ready_launch(pw_gpu *gpu, const pw_ready *ready, peerwin_stream stream,
                                                unsigned blocks, unsigned lanes, void *args, const pw_site *site);

#endif
