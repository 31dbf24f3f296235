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

/* Kernels are loaded before anything waits in a stream: to load one meanwhile may take until that wait is over. */
template <typename Argument> void cuda_load(void (*kernel)(Argument)) {
    cudaFuncAttributes attributes;

    cuda_must(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(kernel)), "cudaFuncGetAttributes");
}

/* Every kernel takes one argument. */
template <typename Argument>
void cuda_launch(void (*kernel)(Argument), dim3 grid, dim3 threads, Argument argument, cudaStream_t stream) {
    void *arguments[] = {&argument};

    cuda_must(cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid, threads, arguments, 0, stream),
              "cudaLaunchKernel");
}

#endif
