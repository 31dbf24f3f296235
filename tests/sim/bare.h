/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A driver for tests of the kernels, simulated or real: a device, and calls that the library has no use for. Everything
 * here ends the program when it fails.
 */
#ifndef SIM_BARE_H
#define SIM_BARE_H

#include "memory/gpu_cuda.h"

#include <cudaTypedefs.h>
#include <stdio.h>
#include <stdlib.h>

#define BARE_CALLS(X)                                                                                                  \
    X(cuCtxSynchronize, 2000)                                                                                          \
    X(cuMemAlloc, 3020)                                                                                                \
    X(cuMemFree, 3020)                                                                                                 \
    X(cuMemHostAlloc, 2020)                                                                                            \
    X(cuMemFreeHost, 2000)                                                                                             \
    X(cuMemcpyHtoD, 3020)                                                                                              \
    X(cuMemcpyDtoH, 3020)                                                                                              \
    X(cuMemcpyAsync, 4000)                                                                                             \
    X(cuMemsetD8, 3020)                                                                                                \
    X(cuStreamCreate, 2000)                                                                                            \
    X(cuStreamSynchronize, 2000)                                                                                       \
    X(cuStreamDestroy, 4000)                                                                                           \
    X(cuEventCreate, 2000)                                                                                             \
    X(cuEventRecord, 2000)                                                                                             \
    X(cuEventSynchronize, 2000)                                                                                        \
    X(cuEventElapsedTime, 2000)                                                                                        \
    X(cuEventDestroy, 4000)

struct bare_calls {
#define BARE_MEMBER(name, version_) PFN_##name##_v##version_ name;
    BARE_CALLS(BARE_MEMBER)
#undef BARE_MEMBER
};
extern struct bare_calls bare;
extern const pw_site bare_site;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, peerwin_last_error());      \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CU(call) CHECK((call) == CUDA_SUCCESS)
#define OK(call) CHECK((call) == PEERWIN_OK)

/* Opens the driver, device 0 with its primary context, and enters it. */
pw_gpu *bare_open(const char *library);
void bare_close(pw_gpu *gpu);

/* A function of the simulator, NULL with a real driver. */
void *bare_simcuda(const char *name);

static inline void *bare_pointer(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

#endif
