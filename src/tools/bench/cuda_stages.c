/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See cuda_stages.h. A context's table of the driver is its own, so that putting clocks into it touches nobody else.
 */
#define _GNU_SOURCE /* for the inner headers */
#include "cuda_stages.h"

#include "bench.h"

#include "memory/gpu_cuda.h"
#include "window/context.h"

static pw_driver original;
static double spent[NUM_STAGES];

/* X(stage, call, parameters, arguments) */
#define TIMED_CALLS(X)                                                                                                 \
    X(CREATE, cuMemCreate,                                                                                             \
      (CUmemGenericAllocationHandle * a, size_t b, const CUmemAllocationProp *c, unsigned long long d), (a, b, c, d))  \
    X(CREATE, cuMemAlloc, (CUdeviceptr * a, size_t b), (a, b))                                                         \
    X(EXPORT, cuIpcGetMemHandle, (CUipcMemHandle * a, CUdeviceptr b), (a, b))                                          \
    X(EXPORT, cuMemExportToShareableHandle,                                                                            \
      (void *a, CUmemGenericAllocationHandle b, CUmemAllocationHandleType c, unsigned long long d), (a, b, c, d))      \
    X(EXPORT, cuMemPoolExportToShareableHandle,                                                                        \
      (void *a, CUmemoryPool b, CUmemAllocationHandleType c, unsigned long long d), (a, b, c, d))                      \
    X(EXPORT, cuMemPoolExportPointer, (CUmemPoolPtrExportData * a, CUdeviceptr b), (a, b))                             \
    X(IMPORT, cuIpcOpenMemHandle, (CUdeviceptr * a, CUipcMemHandle b, unsigned c), (a, b, c))                          \
    X(IMPORT, cuMemImportFromShareableHandle,                                                                          \
      (CUmemGenericAllocationHandle * a, void *b, CUmemAllocationHandleType c), (a, b, c))                             \
    X(IMPORT, cuMemPoolImportFromShareableHandle,                                                                      \
      (CUmemoryPool * a, void *b, CUmemAllocationHandleType c, unsigned long long d), (a, b, c, d))                    \
    X(IMPORT, cuMemPoolImportPointer, (CUdeviceptr * a, CUmemoryPool b, CUmemPoolPtrExportData * c), (a, b, c))        \
    X(MAP, cuMemAddressReserve, (CUdeviceptr * a, size_t b, size_t c, CUdeviceptr d, unsigned long long e),            \
      (a, b, c, d, e))                                                                                                 \
    X(MAP, cuMemMap, (CUdeviceptr a, size_t b, size_t c, CUmemGenericAllocationHandle d, unsigned long long e),        \
      (a, b, c, d, e))                                                                                                 \
    X(MAP, cuMemHostRegister, (void *a, size_t b, unsigned c), (a, b, c))                                              \
    X(ACCESS, cuMemSetAccess, (CUdeviceptr a, size_t b, const CUmemAccessDesc *c, size_t d), (a, b, c, d))             \
    X(ACCESS, cuMemPoolSetAccess, (CUmemoryPool a, const CUmemAccessDesc *b, size_t c), (a, b, c))

#define TIMED(stage, call, parameters, arguments)                                                                      \
    static CUresult CUDAAPI timed_##call parameters {                                                                  \
        const double began = bench_seconds();                                                                          \
        const CUresult code = original.call arguments;                                                                 \
        spent[STAGE_##stage] += bench_seconds() - began;                                                               \
        return code;                                                                                                   \
    }
TIMED_CALLS(TIMED)

void stages_watch(peerwin_ctx *ctx) {
    pw_driver *driver = ctx->gpu->driver;
    original = *driver;
#define INSTALL(stage, call, parameters, arguments) driver->call = timed_##call;
    TIMED_CALLS(INSTALL)
}

void stages_unwatch(peerwin_ctx *ctx) {
    *ctx->gpu->driver = original;
}

void stages_reset(void) {
    for (int stage = 0; stage < NUM_STAGES; stage++)
        spent[stage] = 0.0;
}

double stages_seconds(int stage) {
    return spent[stage];
}
