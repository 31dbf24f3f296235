/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The runtime's calls by those of the driver; see cudart.h. Each is the driver's call and its code, whose numbers are
 * the runtime's too, as far as anybody looks at them.
 */
#include "cudart.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cudaTypedefs.h>

#include "simcuda.h"

#define CALLS(X)                                                                                                       \
    X(cuInit, 2000)                                                                                                    \
    X(cuGetErrorString, 6000)                                                                                          \
    X(cuDeviceGetCount, 2000)                                                                                          \
    X(cuDevicePrimaryCtxRetain, 7000)                                                                                  \
    X(cuCtxSetCurrent, 4000)                                                                                           \
    X(cuCtxSynchronize, 2000)                                                                                          \
    X(cuMemAlloc, 3020)                                                                                                \
    X(cuMemFree, 3020)                                                                                                 \
    X(cuMemHostAlloc, 2020)                                                                                            \
    X(cuMemFreeHost, 2000)                                                                                             \
    X(cuMemcpyAsync, 4000)                                                                                             \
    X(cuMemcpy2DAsync, 3020)                                                                                           \
    X(cuMemsetD8, 3020)                                                                                                \
    X(cuMemsetD8Async, 3020)                                                                                           \
    X(cuStreamCreate, 2000)                                                                                            \
    X(cuStreamCreateWithPriority, 5050)                                                                                \
    X(cuCtxGetStreamPriorityRange, 5050)                                                                               \
    X(cuStreamWaitEvent, 3020)                                                                                         \
    X(cuStreamDestroy, 4000)                                                                                           \
    X(cuStreamSynchronize, 2000)                                                                                       \
    X(cuEventCreate, 2000)                                                                                             \
    X(cuEventDestroy, 4000)                                                                                            \
    X(cuEventRecord, 2000)                                                                                             \
    X(cuEventSynchronize, 2000)                                                                                        \
    X(cuModuleLoadData, 2000)                                                                                          \
    X(cuModuleGetFunction, 2000)                                                                                       \
    X(cuFuncLoad, 12040)                                                                                               \
    X(cuLaunchKernel, 4000)                                                                                            \
    X(cuStreamBeginCapture, 10010)                                                                                     \
    X(cuStreamEndCapture, 10000)                                                                                       \
    X(cuGraphInstantiateWithFlags, 11040)                                                                              \
    X(cuGraphLaunch, 10000)                                                                                            \
    X(cuGraphExecDestroy, 10000)                                                                                       \
    X(cuGraphDestroy, 10000)

static struct {
#define MEMBER(name, version) PFN_##name##_v##version name;
    CALLS(MEMBER)
#undef MEMBER
} cu;

static CUfunction example_kernel;
static void *library;

static void give_up(const char *why) {
    fprintf(stderr, "cudart: %s\n", why);
    abort();
}

static void open_driver(void) {
    const char *path = getenv("PEERWIN_CUDA_LIBRARY");
    void *entry = NULL;
    PFN_cuGetProcAddress_v12000 get = NULL;

    library = dlopen(path != NULL ? path : "", RTLD_NOW | RTLD_LOCAL);
    entry = library != NULL ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (entry == NULL)
        give_up("PEERWIN_CUDA_LIBRARY names no simulated driver");
    memcpy(&get, &entry, sizeof(entry));
#define FETCH(name, version)                                                                                           \
    entry = NULL;                                                                                                      \
    if (get(#name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL) != CUDA_SUCCESS || entry == NULL)         \
        give_up("the simulated driver lacks " #name);                                                                  \
    memcpy(&cu.name, &entry, sizeof(entry));
    CALLS(FETCH)
#undef FETCH
}

/* What the program has made and not given back, when it ends. The context is the runtime's, and stays. */
__attribute__((destructor)) static void count_what_is_left(void) {
    static const struct {
        enum simcuda_kind kind;
        const char *name;
    } kinds[] = {{SIMCUDA_ALLOCATIONS, "allocations"}, {SIMCUDA_STREAMS, "streams"},
                 {SIMCUDA_EVENTS, "events"},           {SIMCUDA_HOST_RANGES, "ranges of host memory"},
                 {SIMCUDA_GRAPHS, "graphs"},           {SIMCUDA_MAPPINGS, "mappings"},
                 {SIMCUDA_IMPORTED, "imports"}};
    void *entry = library != NULL ? dlsym(library, "simcuda_live") : NULL;
    size_t (*live)(enum simcuda_kind kind) = NULL;

    memcpy(&live, &entry, sizeof(entry));
    for (size_t k = 0; live != NULL && k < sizeof(kinds) / sizeof(kinds[0]); k++)
        if (live(kinds[k].kind) != 0)
            fprintf(stderr, "cudart: %zu %s are left over\n", live(kinds[k].kind), kinds[k].name);
}

static cudaError_t code(CUresult result) {
    return (cudaError_t)result;
}

static CUdeviceptr address(const void *memory) {
    return (CUdeviceptr)(uintptr_t)memory;
}

/* ---- device and memory */

cudaError_t cudaGetDeviceCount(int *count) {
    open_driver();
    cu.cuInit(0);
    return code(cu.cuDeviceGetCount(count));
}

/* The kernel is loaded at once: what it stands for is there when the program starts. */
cudaError_t cudaSetDevice(int device) {
    CUcontext context = NULL;
    CUmodule module = NULL;

    if (cu.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cu.cuCtxSetCurrent(context) != CUDA_SUCCESS ||
        cu.cuModuleLoadData(&module, "simcuda") != CUDA_SUCCESS ||
        cu.cuModuleGetFunction(&example_kernel, module, "example_kernel") != CUDA_SUCCESS)
        give_up("no context with the program's kernels");
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error) {
    const char *text = "?";

    cu.cuGetErrorString((CUresult)error, &text);
    return text;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    CUdeviceptr at = 0;
    const CUresult result = cu.cuMemAlloc(&at, bytes);

    *memory = (void *)(uintptr_t)at;
    return code(result);
}

cudaError_t cudaFree(void *memory) {
    return memory != NULL ? code(cu.cuMemFree(address(memory))) : cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t bytes) {
    return code(cu.cuMemHostAlloc(memory, bytes, 0));
}

cudaError_t cudaFreeHost(void *memory) {
    return memory != NULL ? code(cu.cuMemFreeHost(memory)) : cudaSuccess;
}

cudaError_t cudaMemset(void *memory, int value, size_t bytes) {
    return code(cu.cuMemsetD8(address(memory), (unsigned char)value, bytes));
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
    return code(cu.cuMemsetD8Async(address(memory), (unsigned char)value, bytes, stream));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
    (void)kind;
    return code(cu.cuMemcpyAsync(address(to), address(from), bytes, stream));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    const CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = address(from),
        .srcPitch = from_pitch,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = address(to),
        .dstPitch = to_pitch,
        .WidthInBytes = width,
        .Height = height,
    };

    (void)kind;
    return code(cu.cuMemcpy2DAsync(&copy, stream));
}

/* ---- streams and events */

cudaError_t cudaDeviceSynchronize(void) {
    return code(cu.cuCtxSynchronize());
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return code(cu.cuStreamCreate(stream, flags));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *lowest, int *highest) {
    return code(cu.cuCtxGetStreamPriorityRange(lowest, highest));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    return code(cu.cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return code(cu.cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return code(cu.cuStreamDestroy(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return code(cu.cuStreamSynchronize(stream));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    return code(cu.cuEventCreate(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return code(cu.cuEventDestroy(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return code(cu.cuEventRecord(event, stream));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return code(cu.cuEventSynchronize(event));
}

/* ---- graphs */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    return code(cu.cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
}

/* With SIM_NO_GRAPHS=<rank> that rank's captures come to nothing, as if something in them could not be captured. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    const char *refused = getenv("SIM_NO_GRAPHS"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    const CUresult result = cu.cuStreamEndCapture(stream, graph);

    if (result != CUDA_SUCCESS || refused == NULL || rank == NULL || strcmp(refused, rank) != 0)
        return code(result);
    cu.cuGraphDestroy(*graph);
    *graph = NULL;
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
    return code(cu.cuGraphInstantiateWithFlags(exec, graph, flags));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
    (void)exec;
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    return code(cu.cuGraphLaunch(exec, stream));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    return code(cu.cuGraphExecDestroy(exec));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return code(cu.cuGraphDestroy(graph));
}

/* ---- kernels */

static const sim_entry *entry_of(const void *kernel) {
    const sim_entry *entry = sim_entries;

    while (entry->kernel != kernel && entry->kernel != NULL)
        entry++;
    if (entry->kernel == NULL || entry->bytes > sizeof(((sim_launch *)NULL)->argument))
        give_up("a kernel is not in the table, or its argument too large");
    return entry;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel) {
    (void)entry_of(kernel);
    memset(attributes, 0, sizeof(*attributes));
    return code(cu.cuFuncLoad(example_kernel));
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                             cudaStream_t stream) {
    const sim_entry *entry = entry_of(kernel);
    sim_launch launch = {.call = entry->call};
    void *params[] = {&launch};

    memcpy(launch.argument, arguments[0], entry->bytes);
    return code(cu.cuLaunchKernel(example_kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                  (unsigned)shared_bytes, stream, params, NULL));
}
