/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The driver and the context of the job; see device.h.
 */
#include "device.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

device_calls device;

static void *library;
static CUcontext context;
static CUdevice mine;
static int count;

void device_ok(const char *file, int line, const char *what, CUresult code) {
    const char *name = "?";
    if (code == CUDA_SUCCESS) {
        return;
    }
    if (device.cuGetErrorName != NULL) {
        device.cuGetErrorName(code, &name);
    }
    test_fail(file, line, "%s: %s (%d)", what, name, (int)code);
}

static void open_driver(void) {
    const char *path = getenv("PEERWIN_CUDA_LIBRARY");
    library = dlopen(path != NULL && *path != '\0' ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        test_fail(__FILE__, __LINE__, "no driver: %s", dlerror());
    }
    PFN_cuGetProcAddress_v12000 get = NULL;
    void *entry = dlsym(library, "cuGetProcAddress_v2");
    CHECK(entry != NULL);
    memcpy(&get, &entry, sizeof(entry));
#define DEVICE_FETCH(name, version)                                                                                    \
    entry = NULL;                                                                                                      \
    DEVICE_OK(get(#name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));                                   \
    CHECK(entry != NULL);                                                                                              \
    memcpy(&device.name, &entry, sizeof(entry));
    DEVICE_CALLS(DEVICE_FETCH)
#undef DEVICE_FETCH
}

/* Ranks of a node, or of one that is pretended, take its devices by turns. */
static int node_rank(void) {
    const char *pretended = getenv("PEERWIN_NODE_RANKS");
    MPI_Comm node;
    int rank = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, job.rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_free(&node);
    return pretended != NULL && atoi(pretended) > 0 ? job.rank % atoi(pretended) : rank;
}

/* The driver keeps things for its first copy and its first stream-ordered memory: they are no leaks of a test. */
static void warm_up(void) {
    int value = 0;
    CUdeviceptr memory = 0;
    DEVICE_OK(device.cuMemAllocAsync(&memory, sizeof(value), job.stream));
    device_copy((void *)(uintptr_t)memory, &value, sizeof(value));
    DEVICE_OK(device.cuMemFreeAsync(memory, job.stream));
    device_stream_sync(job.stream);
}

void device_begin(void) {
    const char *own = getenv("PWTEST_STREAM");
    if (job.space != PEERWIN_SPACE_CUDA) {
        return;
    }
    open_driver();
    DEVICE_OK(device.cuInit(0));
    DEVICE_OK(device.cuDeviceGetCount(&count));
    CHECK(count > 0);
    DEVICE_OK(device.cuDeviceGet(&mine, node_rank() % count));
    DEVICE_OK(device.cuDevicePrimaryCtxRetain(&context, mine));
    DEVICE_OK(device.cuCtxSetCurrent(context));
    job.stream = own != NULL && strcmp(own, "own") == 0 ? device_stream_new() : NULL;
    warm_up();
}

void device_end(void) {
    if (context == NULL) {
        return;
    }
    if (job.stream != NULL) {
        device_stream_free(job.stream);
        job.stream = NULL;
    }
    DEVICE_OK(device.cuCtxSetCurrent(NULL));
    DEVICE_OK(device.cuDevicePrimaryCtxRelease(mine));
    context = NULL;
}

int device_count(void) {
    return count;
}

int device_mine(void) {
    return mine;
}

void *device_new(size_t bytes) {
    CUdeviceptr memory = 0;
    DEVICE_OK(device.cuMemAlloc(&memory, bytes > 0 ? bytes : 1));
    return (void *)(uintptr_t)memory;
}

void device_free(void *memory) {
    if (memory != NULL) {
        DEVICE_OK(device.cuMemFree(device_address(memory)));
    }
}

void device_copy(void *to, const void *from, size_t bytes) {
    if (bytes > 0) {
        DEVICE_OK(device.cuMemcpyAsync(device_address(to), device_address(from), bytes, job.stream));
    }
    device_stream_sync(job.stream);
}

void device_set(void *at, int byte, size_t bytes) {
    if (bytes > 0) {
        DEVICE_OK(device.cuMemsetD8Async(device_address(at), (unsigned char)byte, bytes, job.stream));
    }
    device_stream_sync(job.stream);
}

int device_is_real(void) {
    const char *path = getenv("PEERWIN_CUDA_LIBRARY");
    return job.space == PEERWIN_SPACE_CUDA && (path == NULL || *path == '\0');
}

size_t device_free_bytes(void) {
    size_t free_bytes = 0;
    size_t total = 0;
    DEVICE_OK(device.cuMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

peerwin_stream device_stream_new(void) {
    CUstream stream = NULL;
    DEVICE_OK(device.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

peerwin_stream device_stream_urgent(void) {
    CUstream stream = NULL;
    int least = 0;
    int greatest = 0;
    DEVICE_OK(device.cuCtxGetStreamPriorityRange(&least, &greatest));
    DEVICE_OK(device.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
    return stream;
}

void device_stream_free(peerwin_stream stream) {
    device_stream_sync(stream);
    DEVICE_OK(device.cuStreamDestroy(stream));
}

void device_stream_sync(peerwin_stream stream) {
    DEVICE_OK(device.cuStreamSynchronize(stream));
}

int device_stream_is_idle(peerwin_stream stream) {
    CUresult code = device.cuStreamQuery(stream);
    if (code != CUDA_ERROR_NOT_READY) {
        DEVICE_OK(code);
    }
    return code == CUDA_SUCCESS;
}

void *device_simulated(const char *name) {
    return library != NULL ? dlsym(library, name) : NULL;
}

device_snapshot device_take(void) {
    device_snapshot snapshot = {{0}};
    void *entry = device_simulated("simcuda_live");
    size_t (*live)(int kind) = NULL;
    if (entry != NULL) {
        memcpy(&live, &entry, sizeof(entry));
        for (int kind = 0; kind < DEVICE_KINDS; kind++) {
            snapshot.live[kind] = live(kind);
        }
    }
    return snapshot;
}

const char *device_left_over(const device_snapshot *before) {
    device_snapshot after = device_take();
    for (int kind = 0; kind < DEVICE_KINDS; kind++) {
        if (after.live[kind] > before->live[kind]) {
            const char *(*name_of)(int kind) = NULL;
            void *entry = device_simulated("simcuda_kind_name");
            memcpy(&name_of, &entry, sizeof(entry));
            return name_of(kind);
        }
    }
    return NULL;
}

void device_check(const device_snapshot *before) {
    const char *left = device_left_over(before);
    if (left != NULL) {
        void (*dump)(void) = NULL;
        void *entry = device_simulated("simcuda_dump");
        memcpy(&dump, &entry, sizeof(entry));
        dump();
        test_fail(__FILE__, __LINE__, "the driver has %s left over", left);
    }
}
