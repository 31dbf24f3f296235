/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The driver is a table: its entry points, fetched at run time, so that one binary runs with and without a driver, and
 * tests load another library in its place.
 *
 * Each entry is asked for with a version of its own, and not with that of the headers: a driver older than the headers
 * must do, and too low a version names another function. A line here is all that a further call takes.
 */
#ifndef PW_MEMORY_DRIVER_H
#define PW_MEMORY_DRIVER_H

#include "memory/device.h"

#include <cuda.h>
#include <cudaTypedefs.h>

/* X(name, version): the type is PFN_<name>_v<version>. */
#define PW_DRIVER_CALLS(X)                                                                                             \
    X(cuInit, 2000)                                                                                                    \
    X(cuDriverGetVersion, 2020)                                                                                        \
    X(cuGetErrorName, 6000)                                                                                            \
    X(cuGetErrorString, 6000)                                                                                          \
    X(cuDeviceGetCount, 2000)                                                                                          \
    X(cuDeviceGet, 2000)                                                                                               \
    X(cuDeviceGetName, 2000)                                                                                           \
    X(cuDeviceGetUuid, 11040)                                                                                          \
    X(cuDeviceGetPCIBusId, 4010)                                                                                       \
    X(cuDeviceGetAttribute, 2000)                                                                                      \
    X(cuDeviceTotalMem, 3020)                                                                                          \
    X(cuDeviceCanAccessPeer, 4000)                                                                                     \
    X(cuModuleLoadData, 2000)                                                                                          \
    X(cuModuleUnload, 2000)                                                                                            \
    X(cuModuleGetFunction, 2000)                                                                                       \
    X(cuLaunchKernel, 4000)                                                                                            \
    X(cuPointerGetAttributes, 7000)                                                                                    \
    X(cuMemcpyAsync, 4000)                                                                                             \
    X(cuMemAllocFromPoolAsync, 11020)                                                                                  \
    X(cuMemPoolCreate, 11020)                                                                                          \
    X(cuStreamSynchronize, 2000)                                                                                       \
    X(cuMemcpy3DAsync, 3020)                                                                                           \
    X(cuCtxSetCurrent, 4000)                                                                                           \
    X(cuThreadExchangeStreamCaptureMode, 10010)                                                                        \
    X(cuCtxGetStreamPriorityRange, 5050)                                                                               \
    X(cuStreamCreateWithPriority, 5050)                                                                                \
    X(cuStreamDestroy, 4000)                                                                                           \
    X(cuStreamGetCtx, 9020)                                                                                            \
    X(cuStreamGetId, 12000)                                                                                            \
    X(cuStreamIsCapturing, 10000)                                                                                      \
    X(cuStreamQuery, 2000)                                                                                             \
    X(cuStreamWriteValue64, 11070)                                                                                     \
    X(cuStreamWaitValue64, 11070)                                                                                      \
    X(cuStreamBatchMemOp, 11070)                                                                                       \
    X(cuDeviceGetP2PAttribute, 8000)                                                                                   \
    X(cuDevicePrimaryCtxRetain, 7000)                                                                                  \
    X(cuDevicePrimaryCtxRelease, 11000)                                                                                \
    X(cuCtxGetCurrent, 4000)                                                                                           \
    X(cuCtxEnablePeerAccess, 4000)                                                                                     \
    X(cuCtxGetId, 12000)                                                                                               \
    X(cuCtxPushCurrent, 4000)                                                                                          \
    X(cuCtxPopCurrent, 4000)                                                                                           \
    X(cuCtxGetDevice, 2000)                                                                                            \
    X(cuMemcpyHtoDAsync, 3020)                                                                                         \
    X(cuMemcpyDtoHAsync, 3020)                                                                                         \
    X(cuMemsetD8Async, 3020)                                                                                           \
    X(cuMemAllocHost, 3020)                                                                                            \
    X(cuMemFreeHost, 2000)                                                                                             \
    X(cuMemAlloc, 3020)                                                                                                \
    X(cuMemFree, 3020)                                                                                                 \
    X(cuMemGetAddressRange, 3020)                                                                                      \
    X(cuIpcGetMemHandle, 4010)                                                                                         \
    X(cuIpcOpenMemHandle, 11000)                                                                                       \
    X(cuIpcCloseMemHandle, 4010)                                                                                       \
    X(cuMemGetAllocationGranularity, 10020)                                                                            \
    X(cuMemCreate, 10020)                                                                                              \
    X(cuMemRelease, 10020)                                                                                             \
    X(cuMemRetainAllocationHandle, 11000)                                                                              \
    X(cuMemGetAllocationPropertiesFromHandle, 10020)                                                                   \
    X(cuMemAddressReserve, 10020)                                                                                      \
    X(cuMemAddressFree, 10020)                                                                                         \
    X(cuMemMap, 10020)                                                                                                 \
    X(cuMemUnmap, 10020)                                                                                               \
    X(cuMemSetAccess, 10020)                                                                                           \
    X(cuMemGetAccess, 10020)                                                                                           \
    X(cuMemExportToShareableHandle, 10020)                                                                             \
    X(cuMemImportFromShareableHandle, 10020)                                                                           \
    X(cuMemFreeAsync, 11020)                                                                                           \
    X(cuMemPoolDestroy, 11020)                                                                                         \
    X(cuMemPoolSetAccess, 11020)                                                                                       \
    X(cuMemPoolExportToShareableHandle, 11020)                                                                         \
    X(cuMemPoolImportFromShareableHandle, 11020)                                                                       \
    X(cuMemPoolExportPointer, 11020)                                                                                   \
    X(cuMemPoolImportPointer, 11020)                                                                                   \
    X(cuMemHostRegister, 6050)                                                                                         \
    X(cuMemHostUnregister, 4000)                                                                                       \
    X(cuMemHostGetDevicePointer, 3020)                                                                                 \
    X(cuCtxSynchronize, 2000)                                                                                          \
    X(cuEventCreate, 2000)                                                                                             \
    X(cuEventRecord, 2000)                                                                                             \
    X(cuStreamWaitEvent, 3020)                                                                                         \
    X(cuStreamGetCaptureInfo, 11030)                                                                                   \
    X(cuGraphKernelNodeSetParams, 12000)                                                                               \
    X(cuGraphCreate, 10000)                                                                                            \
    X(cuGraphAddKernelNode, 12000)                                                                                     \
    X(cuGraphInstantiateWithFlags, 11040)                                                                              \
    X(cuGraphExecKernelNodeSetParams, 12000)                                                                           \
    X(cuGraphLaunch, 10000)                                                                                            \
    X(cuGraphExecDestroy, 10000)                                                                                       \
    X(cuGraphDestroy, 10000)                                                                                           \
    X(cuGraphNodeGetDependentNodes, 10000)                                                                             \
    X(cuIpcGetEventHandle, 4010)                                                                                       \
    X(cuIpcOpenEventHandle, 4010)                                                                                      \
    X(cuEventQuery, 2000)                                                                                              \
    X(cuEventDestroy, 4000)

/* Calls that drivers or headers of 12.0 lack: X(name, version, type), NULL where the driver has none. */
#define PW_DRIVER_OPTIONAL_CALLS(X)                                                                                    \
    X(cuFuncLoad, 12040, pw_func_load)                                                                                 \
    X(cuCtxRecordEvent, 12050, pw_ctx_record_event)

typedef CUresult(CUDAAPI *pw_func_load)(CUfunction function);
typedef CUresult(CUDAAPI *pw_ctx_record_event)(CUcontext context, CUevent event);

struct pw_driver {
    int version;
    int devices;
#define PW_DRIVER_MEMBER(name, version_) PFN_##name##_v##version_ name;
    PW_DRIVER_CALLS(PW_DRIVER_MEMBER)
#undef PW_DRIVER_MEMBER
#define PW_DRIVER_MEMBER(name, version_, type) type name;
    PW_DRIVER_OPTIONAL_CALLS(PW_DRIVER_MEMBER)
#undef PW_DRIVER_MEMBER
};

/* The status for a failed driver call, with its name, code and likely cause in the last error. */
PEERWIN_MUST_USE peerwin_status pw_fail_cuda(const pw_driver *driver, const pw_site *site, CUresult code,
                                             const char *call);

#endif
