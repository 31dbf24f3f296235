/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files that call the CUDA runtime share.
 */
#ifndef STENCIL3D_CUDA_H
#define STENCIL3D_CUDA_H

#include <cuda_runtime.h>

#include "stencil3d.h"

/* Ends the job if a call failed: nothing of a run is left then. */
void cuda_must(cudaError_t code, const char *call);

#endif
