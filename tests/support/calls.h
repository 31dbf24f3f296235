/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The driver as the tests call it, for those that need more of it than device.h has. No CUDA runtime: tests run on the
 * simulated driver too.
 */
#ifndef PEERWIN_TESTS_CALLS_H
#define PEERWIN_TESTS_CALLS_H

#include <cuda.h>
#include <cudaTypedefs.h>

#include "device.h"

#define DEVICE_CALLS(X)                                                                                                \
    X(cuInit, 2000)                                                                                                    \
    X(cuGetErrorName, 6000)                                                                                            \
    X(cuDeviceGetCount, 2000)                                                                                          \
    X(cuDeviceGet, 2000)                                                                                               \
    X(cuDeviceGetUuid, 11040)                                                                                          \
    X(cuDeviceGetDefaultMemPool, 11020)                                                                                \
    X(cuDevicePrimaryCtxRetain, 7000)                                                                                  \
    X(cuDevicePrimaryCtxRelease, 11000)                                                                                \
    X(cuCtxGetCurrent, 4000)                                                                                           \
    X(cuCtxSetCurrent, 4000)                                                                                           \
    X(cuCtxSynchronize, 2000)                                                                                          \
    X(cuMemAlloc, 3020)                                                                                                \
    X(cuMemFree, 3020)                                                                                                 \
    X(cuMemGetInfo, 3020)                                                                                              \
    X(cuMemGetAddressRange, 3020)                                                                                      \
    X(cuMemAllocManaged, 6000)                                                                                         \
    X(cuMemAllocAsync, 11020)                                                                                          \
    X(cuMemAllocFromPoolAsync, 11020)                                                                                  \
    X(cuMemFreeAsync, 11020)                                                                                           \
    X(cuMemPoolCreate, 11020)                                                                                          \
    X(cuMemPoolDestroy, 11020)                                                                                         \
    X(cuMemAddressReserve, 10020)                                                                                      \
    X(cuMemAddressFree, 10020)                                                                                         \
    X(cuMemCreate, 10020)                                                                                              \
    X(cuMemRelease, 10020)                                                                                             \
    X(cuMemMap, 10020)                                                                                                 \
    X(cuMemUnmap, 10020)                                                                                               \
    X(cuMemSetAccess, 10020)                                                                                           \
    X(cuMemGetAllocationGranularity, 10020)                                                                            \
    X(cuMemHostAlloc, 2020)                                                                                            \
    X(cuMemFreeHost, 2000)                                                                                             \
    X(cuMemcpyAsync, 4000)                                                                                             \
    X(cuMemsetD8Async, 3020)                                                                                           \
    X(cuStreamCreate, 2000)                                                                                            \
    X(cuCtxGetStreamPriorityRange, 5050)                                                                               \
    X(cuStreamCreateWithPriority, 5050)                                                                                \
    X(cuStreamDestroy, 4000)                                                                                           \
    X(cuStreamQuery, 2000)                                                                                             \
    X(cuStreamSynchronize, 2000)                                                                                       \
    X(cuThreadExchangeStreamCaptureMode, 10010)                                                                        \
    X(cuModuleLoadData, 2000)                                                                                          \
    X(cuModuleUnload, 2000)                                                                                            \
    X(cuModuleGetFunction, 2000)                                                                                       \
    X(cuLaunchKernel, 4000)                                                                                            \
    X(cuStreamBeginCapture, 10010)                                                                                     \
    X(cuStreamEndCapture, 10000)                                                                                       \
    X(cuGraphInstantiateWithFlags, 11040)                                                                              \
    X(cuGraphLaunch, 10000)                                                                                            \
    X(cuGraphExecDestroy, 10000)                                                                                       \
    X(cuEventCreate, 2000)                                                                                             \
    X(cuEventRecord, 2000)                                                                                             \
    X(cuEventDestroy, 4000)                                                                                            \
    X(cuStreamWaitEvent, 3020)                                                                                         \
    X(cuGraphDestroy, 10000)

typedef struct {
#define DEVICE_MEMBER(name, version) PFN_##name##_v##version name;
    DEVICE_CALLS(DEVICE_MEMBER)
#undef DEVICE_MEMBER
} device_calls;

/** Filled by device_begin. */
extern device_calls device;

/** Fails the test unless the call succeeded. */
#define DEVICE_OK(call) device_ok(__FILE__, __LINE__, #call, call)
void device_ok(const char *file, int line, const char *what, CUresult code);

/** The address of memory, as the driver counts. */
static inline CUdeviceptr device_address(const void *memory) {
    return (CUdeviceptr)(uintptr_t)memory;
}

#endif
