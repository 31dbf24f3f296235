/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the sections of the conformance program share: the driver's entry points, the printing of one fact a line, and a
 * link to a second process. Only facts that do not change between runs of one driver are printed, so that two outputs
 * can be compared line by line.
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <stddef.h>
#include <stdint.h>

#include <cuda.h>
#include <cudaTypedefs.h>

#include "link.h"

#define MIB    ((size_t)1 << 20)
#define FD     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define FABRIC CU_MEM_HANDLE_TYPE_FABRIC

/* Name without "cu", and the version asked for: a driver of 12.0 has all but those marked optional in conformance.c. */
#define CONFORMANCE_CALLS(X)                                                                                           \
    X(Init, 2000)                                                                                                      \
    X(DriverGetVersion, 2020)                                                                                          \
    X(GetErrorName, 6000)                                                                                              \
    X(DeviceGet, 2000)                                                                                                 \
    X(DeviceGetCount, 2000)                                                                                            \
    X(DeviceGetName, 2000)                                                                                             \
    X(DeviceGetUuid, 11040)                                                                                            \
    X(DeviceGetPCIBusId, 4010)                                                                                         \
    X(DeviceGetAttribute, 2000)                                                                                        \
    X(DeviceTotalMem, 3020)                                                                                            \
    X(DeviceCanAccessPeer, 4000)                                                                                       \
    X(DeviceGetP2PAttribute, 8000)                                                                                     \
    X(DevicePrimaryCtxRetain, 7000)                                                                                    \
    X(DevicePrimaryCtxRelease, 11000)                                                                                  \
    X(DevicePrimaryCtxReset, 11000)                                                                                    \
    X(DevicePrimaryCtxGetState, 7000)                                                                                  \
    X(DeviceGetDefaultMemPool, 11020)                                                                                  \
    X(CtxCreate, 3020)                                                                                                 \
    X(CtxDestroy, 4000)                                                                                                \
    X(CtxGetCurrent, 4000)                                                                                             \
    X(CtxSetCurrent, 4000)                                                                                             \
    X(CtxPushCurrent, 4000)                                                                                            \
    X(CtxPopCurrent, 4000)                                                                                             \
    X(CtxGetId, 12000)                                                                                                 \
    X(CtxGetDevice, 2000)                                                                                              \
    X(CtxSynchronize, 2000)                                                                                            \
    X(CtxEnablePeerAccess, 4000)                                                                                       \
    X(CtxDisablePeerAccess, 4000)                                                                                      \
    X(CtxGetStreamPriorityRange, 5050)                                                                                 \
    X(MemAlloc, 3020)                                                                                                  \
    X(MemFree, 3020)                                                                                                   \
    X(MemGetInfo, 3020)                                                                                                \
    X(MemGetAddressRange, 3020)                                                                                        \
    X(MemAllocManaged, 6000)                                                                                           \
    X(MemAllocAsync, 11020)                                                                                            \
    X(MemFreeAsync, 11020)                                                                                             \
    X(MemAllocFromPoolAsync, 11020)                                                                                    \
    X(MemPoolCreate, 11020)                                                                                            \
    X(MemPoolDestroy, 11020)                                                                                           \
    X(MemPoolSetAccess, 11020)                                                                                         \
    X(MemPoolExportToShareableHandle, 11020)                                                                           \
    X(MemPoolImportFromShareableHandle, 11020)                                                                         \
    X(MemPoolExportPointer, 11020)                                                                                     \
    X(MemPoolImportPointer, 11020)                                                                                     \
    X(MemGetAllocationGranularity, 10020)                                                                              \
    X(MemCreate, 10020)                                                                                                \
    X(MemRelease, 10020)                                                                                               \
    X(MemRetainAllocationHandle, 11000)                                                                                \
    X(MemGetAllocationPropertiesFromHandle, 10020)                                                                     \
    X(MemAddressReserve, 10020)                                                                                        \
    X(MemAddressFree, 10020)                                                                                           \
    X(MemMap, 10020)                                                                                                   \
    X(MemUnmap, 10020)                                                                                                 \
    X(MemSetAccess, 10020)                                                                                             \
    X(MemGetAccess, 10020)                                                                                             \
    X(MemExportToShareableHandle, 10020)                                                                               \
    X(MemImportFromShareableHandle, 10020)                                                                             \
    X(IpcGetMemHandle, 4010)                                                                                           \
    X(IpcOpenMemHandle, 11000)                                                                                         \
    X(IpcCloseMemHandle, 4010)                                                                                         \
    X(IpcGetEventHandle, 4010)                                                                                         \
    X(IpcOpenEventHandle, 4010)                                                                                        \
    X(PointerGetAttribute, 4000)                                                                                       \
    X(PointerGetAttributes, 7000)                                                                                      \
    X(MemHostRegister, 6050)                                                                                           \
    X(MemHostUnregister, 4000)                                                                                         \
    X(MemAllocHost, 3020)                                                                                              \
    X(MemFreeHost, 2000)                                                                                               \
    X(MemHostGetDevicePointer, 3020)                                                                                   \
    X(Memcpy, 4000)                                                                                                    \
    X(MemcpyHtoD, 3020)                                                                                                \
    X(MemcpyDtoH, 3020)                                                                                                \
    X(MemcpyDtoD, 3020)                                                                                                \
    X(MemcpyAsync, 4000)                                                                                               \
    X(MemcpyHtoDAsync, 3020)                                                                                           \
    X(MemcpyDtoHAsync, 3020)                                                                                           \
    X(MemcpyDtoDAsync, 3020)                                                                                           \
    X(Memcpy2DAsync, 3020)                                                                                             \
    X(Memcpy3DAsync, 3020)                                                                                             \
    X(MemsetD8, 3020)                                                                                                  \
    X(MemsetD8Async, 3020)                                                                                             \
    X(MemsetD32Async, 3020)                                                                                            \
    X(StreamCreate, 2000)                                                                                              \
    X(StreamCreateWithPriority, 5050)                                                                                  \
    X(StreamGetPriority, 5050)                                                                                         \
    X(StreamGetCtx, 9020)                                                                                              \
    X(StreamGetId, 12000)                                                                                              \
    X(StreamDestroy, 4000)                                                                                             \
    X(StreamQuery, 2000)                                                                                               \
    X(StreamSynchronize, 2000)                                                                                         \
    X(StreamWaitEvent, 3020)                                                                                           \
    X(StreamIsCapturing, 10000)                                                                                        \
    X(StreamGetCaptureInfo, 10010)                                                                                     \
    X(StreamBeginCapture, 10010)                                                                                       \
    X(StreamEndCapture, 10000)                                                                                         \
    X(ThreadExchangeStreamCaptureMode, 10010)                                                                          \
    X(GraphCreate, 10000)                                                                                              \
    X(GraphAddKernelNode, 12000)                                                                                       \
    X(GraphExecKernelNodeSetParams, 12000)                                                                             \
    X(GraphInstantiateWithFlags, 11040)                                                                                \
    X(GraphLaunch, 10000)                                                                                              \
    X(GraphExecDestroy, 10000)                                                                                         \
    X(GraphDestroy, 10000)                                                                                             \
    X(StreamWriteValue32, 11070)                                                                                       \
    X(StreamWriteValue64, 11070)                                                                                       \
    X(StreamWaitValue32, 11070)                                                                                        \
    X(StreamWaitValue64, 11070)                                                                                        \
    X(StreamBatchMemOp, 11070)                                                                                         \
    X(LaunchHostFunc, 10000)                                                                                           \
    X(EventCreate, 2000)                                                                                               \
    X(EventRecord, 2000)                                                                                               \
    X(EventRecordWithFlags, 11010)                                                                                     \
    X(EventQuery, 2000)                                                                                                \
    X(EventSynchronize, 2000)                                                                                          \
    X(EventDestroy, 4000)                                                                                              \
    X(EventElapsedTime, 2000)                                                                                          \
    X(ModuleLoadData, 2000)                                                                                            \
    X(ModuleUnload, 2000)                                                                                              \
    X(ModuleGetFunction, 2000)                                                                                         \
    X(FuncLoad, 12040)                                                                                                 \
    X(FuncGetAttribute, 2020)                                                                                          \
    X(LaunchKernel, 4000)                                                                                              \
    X(LaunchKernelEx, 11060)

struct conformance_driver {
#define CONFORMANCE_FIELD(name, version) PFN_cu##name##_v##version name;
    CONFORMANCE_CALLS(CONFORMANCE_FIELD)
#undef CONFORMANCE_FIELD
    PFN_cuGetProcAddress_v12000 GetProcAddress;
};
extern struct conformance_driver cu;

/* One line: "section.name: CUDA_ERROR_..." and "section.name: <values>". */
CUresult result(const char *name, CUresult rc);
void fact(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* cuInit, primary context of device 0 made current; ends the process where that fails. */
CUcontext start_device(void);

/* Several attributes of a pointer, in one line; relative to `base` where they are addresses. */
void pointer_facts(const char *name, CUdeviceptr ptr, CUcontext ctx);

/* Base, offset from it and size, as cuMemGetAddressRange says. */
void range_fact(const char *name, CUdeviceptr ptr);

/* Ends the other process of a section at once. */
void kill_peer(void);

/* An allocation made and mapped the long way; handle still held. */
struct vmm {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr ptr;
    size_t bytes;
};
CUmemAllocationProp vmm_prop(unsigned handle_types);
struct vmm vmm_make(size_t bytes, unsigned handle_types);
CUresult vmm_map(struct vmm *vmm, CUmemAccess_flags flags);
void vmm_drop(struct vmm *vmm);
uint32_t peek(CUdeviceptr ptr);
CUresult poke(CUdeviceptr ptr, uint32_t value);

/* The module with conformance_fill, which writes `value` into `count` words; NULL where it cannot be loaded. */
struct fill {
    CUdeviceptr ptr;
    uint32_t value, count;
};
extern const char fill_ptx[];
CUmodule fill_module(CUfunction *fill_out);
CUresult fill_launch(CUfunction fill, CUdeviceptr ptr, uint32_t value, uint32_t count, CUstream stream);

typedef void section_function(int role);
struct section {
    const char *name;
    section_function *run;
    int processes;
};
extern const struct section device_sections[], memory_sections[], vmm_sections[], ipc_sections[], stream_sections[],
    capture_sections[], fault_sections[], mode_sections[], making_sections[];

#endif
