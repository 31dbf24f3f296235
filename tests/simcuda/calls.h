/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every entry point: name without suffix, version in which this form of it came, symbol, and flags. The form given out
 * is the newest one not above the version asked for; forms whose symbol is "stale" are known and refused.
 */
#ifndef SIMCUDA_CALLS_H
#define SIMCUDA_CALLS_H

enum {
    CALL_EARLY = 1,   /* allowed before cuInit */
    CALL_RELEASE = 2, /* releases even when it is told to fail */
    CALL_UNSAFE = 4,  /* forbidden while another stream captures, unless the thread is relaxed */
    CALL_ENQUEUE = 8  /* asynchronous work */
};

#define SIM_CALLS(X)                                                                                                   \
    X("cuInit", 2000, cuInit, CALL_EARLY)                                                                              \
    X("cuDriverGetVersion", 2020, cuDriverGetVersion, CALL_EARLY)                                                      \
    X("cuGetErrorName", 6000, cuGetErrorName, CALL_EARLY)                                                              \
    X("cuGetErrorString", 6000, cuGetErrorString, CALL_EARLY)                                                          \
    X("cuGetProcAddress", 12000, cuGetProcAddress_v2, CALL_EARLY)                                                      \
    X("cuDeviceGet", 2000, cuDeviceGet, 0)                                                                             \
    X("cuDeviceGetCount", 2000, cuDeviceGetCount, 0)                                                                   \
    X("cuDeviceGetName", 2000, cuDeviceGetName, 0)                                                                     \
    X("cuDeviceGetUuid", 9020, cuDeviceGetUuid, 0)                                                                     \
    X("cuDeviceGetUuid", 11040, cuDeviceGetUuid_v2, 0)                                                                 \
    X("cuDeviceGetPCIBusId", 4010, cuDeviceGetPCIBusId, 0)                                                             \
    X("cuDeviceGetByPCIBusId", 4010, cuDeviceGetByPCIBusId, 0)                                                         \
    X("cuDeviceGetAttribute", 2000, cuDeviceGetAttribute, 0)                                                           \
    X("cuDeviceTotalMem", 3020, cuDeviceTotalMem_v2, 0)                                                                \
    X("cuDeviceCanAccessPeer", 4000, cuDeviceCanAccessPeer, 0)                                                         \
    X("cuDeviceGetP2PAttribute", 8000, cuDeviceGetP2PAttribute, 0)                                                     \
    X("cuDevicePrimaryCtxRetain", 7000, cuDevicePrimaryCtxRetain, 0)                                                   \
    X("cuDevicePrimaryCtxRelease", 7000, stale, 0)                                                                     \
    X("cuDevicePrimaryCtxRelease", 11000, cuDevicePrimaryCtxRelease_v2, CALL_RELEASE)                                  \
    X("cuDevicePrimaryCtxReset", 11000, cuDevicePrimaryCtxReset_v2, CALL_RELEASE)                                      \
    X("cuDevicePrimaryCtxGetState", 7000, cuDevicePrimaryCtxGetState, 0)                                               \
    X("cuDeviceGetDefaultMemPool", 11020, cuDeviceGetDefaultMemPool, 0)                                                \
    X("cuCtxCreate", 3020, cuCtxCreate_v2, 0)                                                                          \
    X("cuCtxCreate", 11040, stale, 0)                                                                                  \
    X("cuCtxDestroy", 4000, cuCtxDestroy_v2, CALL_RELEASE)                                                             \
    X("cuCtxGetCurrent", 4000, cuCtxGetCurrent, 0)                                                                     \
    X("cuCtxSetCurrent", 4000, cuCtxSetCurrent, CALL_RELEASE)                                                          \
    X("cuCtxPushCurrent", 4000, cuCtxPushCurrent_v2, 0)                                                                \
    X("cuCtxPopCurrent", 4000, cuCtxPopCurrent_v2, CALL_RELEASE)                                                       \
    X("cuCtxGetId", 12000, cuCtxGetId, 0)                                                                              \
    X("cuCtxGetDevice", 2000, cuCtxGetDevice, 0)                                                                       \
    X("cuCtxGetFlags", 7000, cuCtxGetFlags, 0)                                                                         \
    X("cuCtxSynchronize", 2000, cuCtxSynchronize, CALL_UNSAFE)                                                         \
    X("cuCtxRecordEvent", 12050, sim_context_record, CALL_UNSAFE)                                                      \
    X("cuCtxEnablePeerAccess", 4000, cuCtxEnablePeerAccess, 0)                                                         \
    X("cuCtxDisablePeerAccess", 4000, cuCtxDisablePeerAccess, CALL_RELEASE)                                            \
    X("cuCtxGetStreamPriorityRange", 5050, cuCtxGetStreamPriorityRange, 0)                                             \
    X("cuMemAlloc", 3020, cuMemAlloc_v2, CALL_UNSAFE)                                                                  \
    X("cuMemFree", 3020, cuMemFree_v2, CALL_RELEASE | CALL_UNSAFE)                                                     \
    X("cuMemGetInfo", 3020, cuMemGetInfo_v2, 0)                                                                        \
    X("cuMemGetAddressRange", 3020, cuMemGetAddressRange_v2, 0)                                                        \
    X("cuMemAllocManaged", 6000, cuMemAllocManaged, CALL_UNSAFE)                                                       \
    X("cuMemAllocAsync", 11020, cuMemAllocAsync, CALL_ENQUEUE | CALL_UNSAFE)                                           \
    X("cuMemFreeAsync", 11020, cuMemFreeAsync, CALL_RELEASE | CALL_ENQUEUE | CALL_UNSAFE)                              \
    X("cuMemAllocFromPoolAsync", 11020, cuMemAllocFromPoolAsync, CALL_ENQUEUE | CALL_UNSAFE)                           \
    X("cuMemPoolCreate", 11020, cuMemPoolCreate, 0)                                                                    \
    X("cuMemPoolDestroy", 11020, cuMemPoolDestroy, CALL_RELEASE)                                                       \
    X("cuMemPoolSetAccess", 11020, cuMemPoolSetAccess, 0)                                                              \
    X("cuMemPoolExportToShareableHandle", 11020, cuMemPoolExportToShareableHandle, 0)                                  \
    X("cuMemPoolImportFromShareableHandle", 11020, cuMemPoolImportFromShareableHandle, 0)                              \
    X("cuMemPoolExportPointer", 11020, cuMemPoolExportPointer, 0)                                                      \
    X("cuMemPoolImportPointer", 11020, cuMemPoolImportPointer, 0)                                                      \
    X("cuMemGetAllocationGranularity", 10020, cuMemGetAllocationGranularity, 0)                                        \
    X("cuMemCreate", 10020, cuMemCreate, 0)                                                                            \
    X("cuMemRelease", 10020, cuMemRelease, CALL_RELEASE)                                                               \
    X("cuMemRetainAllocationHandle", 11000, cuMemRetainAllocationHandle, 0)                                            \
    X("cuMemGetAllocationPropertiesFromHandle", 10020, cuMemGetAllocationPropertiesFromHandle, 0)                      \
    X("cuMemAddressReserve", 10020, cuMemAddressReserve, 0)                                                            \
    X("cuMemAddressFree", 10020, cuMemAddressFree, CALL_RELEASE)                                                       \
    X("cuMemMap", 10020, cuMemMap, 0)                                                                                  \
    X("cuMemUnmap", 10020, cuMemUnmap, CALL_RELEASE)                                                                   \
    X("cuMemSetAccess", 10020, cuMemSetAccess, 0)                                                                      \
    X("cuMemGetAccess", 10020, cuMemGetAccess, 0)                                                                      \
    X("cuMemExportToShareableHandle", 10020, cuMemExportToShareableHandle, 0)                                          \
    X("cuMemImportFromShareableHandle", 10020, cuMemImportFromShareableHandle, 0)                                      \
    X("cuIpcGetMemHandle", 4010, cuIpcGetMemHandle, 0)                                                                 \
    X("cuIpcOpenMemHandle", 11000, cuIpcOpenMemHandle_v2, CALL_UNSAFE)                                                 \
    X("cuIpcCloseMemHandle", 4010, cuIpcCloseMemHandle, CALL_RELEASE | CALL_UNSAFE)                                    \
    X("cuIpcGetEventHandle", 4010, cuIpcGetEventHandle, 0)                                                             \
    X("cuIpcOpenEventHandle", 4010, cuIpcOpenEventHandle, 0)                                                           \
    X("cuPointerGetAttribute", 4000, cuPointerGetAttribute, 0)                                                         \
    X("cuPointerGetAttributes", 7000, cuPointerGetAttributes, 0)                                                       \
    X("cuMemHostRegister", 6050, cuMemHostRegister_v2, CALL_UNSAFE)                                                    \
    X("cuMemHostUnregister", 4000, cuMemHostUnregister, CALL_RELEASE | CALL_UNSAFE)                                    \
    X("cuMemAllocHost", 3020, cuMemAllocHost_v2, CALL_UNSAFE)                                                          \
    X("cuMemHostAlloc", 2020, cuMemHostAlloc, CALL_UNSAFE)                                                             \
    X("cuMemFreeHost", 2000, cuMemFreeHost, CALL_RELEASE | CALL_UNSAFE)                                                \
    X("cuMemHostGetDevicePointer", 3020, cuMemHostGetDevicePointer_v2, 0)                                              \
    X("cuMemcpy", 4000, cuMemcpy, CALL_ENQUEUE)                                                                        \
    X("cuMemcpyHtoD", 3020, cuMemcpyHtoD_v2, CALL_ENQUEUE)                                                             \
    X("cuMemcpyDtoH", 3020, cuMemcpyDtoH_v2, CALL_ENQUEUE)                                                             \
    X("cuMemcpyDtoD", 3020, cuMemcpyDtoD_v2, CALL_ENQUEUE)                                                             \
    X("cuMemcpyAsync", 4000, cuMemcpyAsync, CALL_ENQUEUE)                                                              \
    X("cuMemcpyHtoDAsync", 3020, cuMemcpyHtoDAsync_v2, CALL_ENQUEUE)                                                   \
    X("cuMemcpyDtoHAsync", 3020, cuMemcpyDtoHAsync_v2, CALL_ENQUEUE)                                                   \
    X("cuMemcpyDtoDAsync", 3020, cuMemcpyDtoDAsync_v2, CALL_ENQUEUE)                                                   \
    X("cuMemcpyPeerAsync", 4000, cuMemcpyPeerAsync, CALL_ENQUEUE)                                                      \
    X("cuMemcpy2DAsync", 3020, cuMemcpy2DAsync_v2, CALL_ENQUEUE)                                                       \
    X("cuMemcpy3DAsync", 3020, cuMemcpy3DAsync_v2, CALL_ENQUEUE)                                                       \
    X("cuMemsetD8", 3020, cuMemsetD8_v2, CALL_ENQUEUE)                                                                 \
    X("cuMemsetD32", 3020, cuMemsetD32_v2, CALL_ENQUEUE)                                                               \
    X("cuMemsetD8Async", 3020, cuMemsetD8Async, CALL_ENQUEUE)                                                          \
    X("cuMemsetD32Async", 3020, cuMemsetD32Async, CALL_ENQUEUE)                                                        \
    X("cuStreamCreate", 2000, cuStreamCreate, 0)                                                                       \
    X("cuStreamCreateWithPriority", 5050, cuStreamCreateWithPriority, 0)                                               \
    X("cuStreamGetPriority", 5050, cuStreamGetPriority, 0)                                                             \
    X("cuStreamGetFlags", 5050, cuStreamGetFlags, 0)                                                                   \
    X("cuStreamGetId", 12000, cuStreamGetId, 0)                                                                        \
    X("cuStreamGetCtx", 9020, cuStreamGetCtx, 0)                                                                       \
    X("cuStreamDestroy", 4000, cuStreamDestroy_v2, CALL_RELEASE)                                                       \
    X("cuStreamQuery", 2000, cuStreamQuery, CALL_UNSAFE)                                                               \
    X("cuStreamSynchronize", 2000, cuStreamSynchronize, CALL_UNSAFE)                                                   \
    X("cuStreamWaitEvent", 3020, cuStreamWaitEvent, CALL_ENQUEUE)                                                      \
    X("cuStreamIsCapturing", 10000, cuStreamIsCapturing, 0)                                                            \
    X("cuStreamGetCaptureInfo", 10010, cuStreamGetCaptureInfo, 0)                                                      \
    X("cuStreamGetCaptureInfo", 11030, cuStreamGetCaptureInfo_v2, 0)                                                   \
    X("cuStreamBeginCapture", 10010, cuStreamBeginCapture_v2, 0)                                                       \
    X("cuStreamEndCapture", 10000, cuStreamEndCapture, CALL_RELEASE)                                                   \
    X("cuThreadExchangeStreamCaptureMode", 10010, cuThreadExchangeStreamCaptureMode, CALL_RELEASE)                     \
    X("cuGraphCreate", 10000, cuGraphCreate, 0)                                                                        \
    X("cuGraphAddKernelNode", 12000, cuGraphAddKernelNode_v2, 0)                                                       \
    X("cuGraphExecKernelNodeSetParams", 12000, cuGraphExecKernelNodeSetParams_v2, 0)                                   \
    X("cuGraphInstantiateWithFlags", 11040, cuGraphInstantiateWithFlags, 0)                                            \
    X("cuGraphInstantiate", 12000, cuGraphInstantiateWithFlags, 0)                                                     \
    X("cuGraphLaunch", 10000, cuGraphLaunch, CALL_ENQUEUE)                                                             \
    X("cuGraphExecDestroy", 10000, cuGraphExecDestroy, CALL_RELEASE)                                                   \
    X("cuGraphKernelNodeSetParams", 12000, cuGraphKernelNodeSetParams_v2, 0)                                           \
    X("cuGraphNodeGetDependentNodes", 10000, sim_graph_dependents, 0)                                                  \
    X("cuGraphDestroy", 10000, cuGraphDestroy, CALL_RELEASE)                                                           \
    X("cuStreamWriteValue32", 8000, stale, 0)                                                                          \
    X("cuStreamWriteValue64", 9000, stale, 0)                                                                          \
    X("cuStreamWaitValue32", 8000, stale, 0)                                                                           \
    X("cuStreamWaitValue64", 9000, stale, 0)                                                                           \
    X("cuStreamBatchMemOp", 8000, stale, 0)                                                                            \
    X("cuStreamWriteValue32", 11070, cuStreamWriteValue32_v2, CALL_ENQUEUE)                                            \
    X("cuStreamWriteValue64", 11070, cuStreamWriteValue64_v2, CALL_ENQUEUE)                                            \
    X("cuStreamWaitValue32", 11070, cuStreamWaitValue32_v2, CALL_ENQUEUE)                                              \
    X("cuStreamWaitValue64", 11070, cuStreamWaitValue64_v2, CALL_ENQUEUE)                                              \
    X("cuStreamBatchMemOp", 11070, cuStreamBatchMemOp_v2, CALL_ENQUEUE)                                                \
    X("cuLaunchHostFunc", 10000, cuLaunchHostFunc, CALL_ENQUEUE)                                                       \
    X("cuEventCreate", 2000, cuEventCreate, 0)                                                                         \
    X("cuEventRecord", 2000, cuEventRecord, CALL_ENQUEUE)                                                              \
    X("cuEventRecordWithFlags", 11010, cuEventRecordWithFlags, CALL_ENQUEUE)                                           \
    X("cuEventQuery", 2000, cuEventQuery, CALL_UNSAFE)                                                                 \
    X("cuEventSynchronize", 2000, cuEventSynchronize, CALL_UNSAFE)                                                     \
    X("cuEventDestroy", 4000, cuEventDestroy_v2, CALL_RELEASE)                                                         \
    X("cuEventElapsedTime", 2000, cuEventElapsedTime, 0)                                                               \
    X("cuModuleLoadData", 2000, cuModuleLoadData, 0)                                                                   \
    X("cuModuleUnload", 2000, cuModuleUnload, CALL_RELEASE | CALL_UNSAFE)                                              \
    X("cuModuleGetFunction", 2000, cuModuleGetFunction, 0)                                                             \
    X("cuFuncLoad", 12040, cuFuncLoad, 0)                                                                              \
    X("cuFuncGetAttribute", 2020, cuFuncGetAttribute, 0)                                                               \
    X("cuFuncSetAttribute", 9000, cuFuncSetAttribute, 0)                                                               \
    X("cuLaunchKernel", 4000, cuLaunchKernel, CALL_ENQUEUE)                                                            \
    X("cuLaunchKernelEx", 11060, cuLaunchKernelEx, CALL_ENQUEUE)                                                       \
    X("cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050, cuOccupancyMaxActiveBlocksPerMultiprocessor, 0)

#endif
