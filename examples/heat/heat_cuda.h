/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files that call the CUDA runtime share.
 */
#ifndef HEAT_CUDA_H
#define HEAT_CUDA_H

#include <cuda_runtime_api.h>

#include "heat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ends the job if a call failed: nothing of a run is left then. */
void cuda_must(cudaError_t code, const char *call);

#ifdef __cplusplus
}
#endif

#endif
