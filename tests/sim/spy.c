/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The spy; see spy.h. Linked to the simulated driver, so whatever is not found here is found there.
 */
#include "spy.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define SPY_EXPORT __attribute__((visibility("default")))

static struct {
    pthread_mutex_t lock;
    spy_note notes[SPY_MOST];
    int count;
    int next_fd;
    PFN_cuIpcGetMemHandle_v4010 get_handle;
    PFN_cuMemExportToShareableHandle_v10020 export_memory;
    PFN_cuMemPoolExportToShareableHandle_v11020 export_pool;
    PFN_cuMemPoolExportPointer_v11020 export_pointer;
} spy = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_fd = SPY_FIRST_FD};

static void note(const char *call, const void *bytes, size_t length, int fd) {
    pthread_mutex_lock(&spy.lock);
    if (spy.count < SPY_MOST) {
        spy_note *n = &spy.notes[spy.count++];
        n->call = call;
        n->length = length;
        n->fd = fd;
        if (length > 0) {
            memcpy(n->bytes, bytes, length);
        }
    }
    pthread_mutex_unlock(&spy.lock);
}

/* Moves a descriptor to a number of four digits. */
static void move_fd(int *fd) {
    pthread_mutex_lock(&spy.lock);
    int moved = fcntl(*fd, F_DUPFD_CLOEXEC, spy.next_fd);
    spy.next_fd = moved >= 0 ? moved + 1 : spy.next_fd;
    pthread_mutex_unlock(&spy.lock);
    if (moved >= 0) {
        close(*fd);
        *fd = moved;
    }
}

static void note_shareable(const char *call, void *handle, CUmemAllocationHandleType type) {
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        move_fd(handle);
        note(call, NULL, 0, *(int *)handle);
    } else {
        note(call, handle, sizeof(CUmemFabricHandle), -1);
    }
}

static CUresult get_handle(CUipcMemHandle *handle, CUdeviceptr at) {
    CUresult code = spy.get_handle(handle, at);
    if (code == CUDA_SUCCESS) {
        note("cuIpcGetMemHandle", handle, sizeof(*handle), -1);
    }
    return code;
}

static CUresult export_memory(void *handle, CUmemGenericAllocationHandle memory, CUmemAllocationHandleType type,
                              unsigned long long flags) {
    CUresult code = spy.export_memory(handle, memory, type, flags);
    if (code == CUDA_SUCCESS) {
        note_shareable("cuMemExportToShareableHandle", handle, type);
    }
    return code;
}

static CUresult export_pool(void *handle, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags) {
    CUresult code = spy.export_pool(handle, pool, type, flags);
    if (code == CUDA_SUCCESS) {
        note_shareable("cuMemPoolExportToShareableHandle", handle, type);
    }
    return code;
}

static CUresult export_pointer(CUmemPoolPtrExportData *data, CUdeviceptr at) {
    CUresult code = spy.export_pointer(data, at);
    if (code == CUDA_SUCCESS) {
        note("cuMemPoolExportPointer", data, sizeof(*data), -1);
    }
    return code;
}

/* Puts `mine` in the place of what the driver gave, and keeps that. */
static void take_place(void **entry, void *kept, const void *mine, size_t size) {
    memcpy(kept, entry, size);
    memcpy(entry, mine, size);
}

#define TAKE_PLACE(function)                                                                                           \
    do {                                                                                                               \
        __typeof__(spy.function) mine_ = function;                                                                     \
        take_place(entry, &spy.function, &mine_, sizeof(mine_));                                                       \
    } while (0)

SPY_EXPORT CUresult cuGetProcAddress_v2(const char *name, void **entry, int version, cuuint64_t flags,
                                        CUdriverProcAddressQueryResult *found) {
    PFN_cuGetProcAddress_v12000 next = NULL;
    void *symbol = dlsym(RTLD_NEXT, "cuGetProcAddress_v2");
    memcpy(&next, &symbol, sizeof(next));
    CUresult code = next(name, entry, version, flags, found);
    if (code != CUDA_SUCCESS || *entry == NULL) {
        return code;
    }
    if (strcmp(name, "cuIpcGetMemHandle") == 0) {
        TAKE_PLACE(get_handle);
    } else if (strcmp(name, "cuMemExportToShareableHandle") == 0) {
        TAKE_PLACE(export_memory);
    } else if (strcmp(name, "cuMemPoolExportToShareableHandle") == 0) {
        TAKE_PLACE(export_pool);
    } else if (strcmp(name, "cuMemPoolExportPointer") == 0) {
        TAKE_PLACE(export_pointer);
    }
    return code;
}

SPY_EXPORT int spy_notes(spy_note *notes_out);

SPY_EXPORT int spy_notes(spy_note *notes_out) {
    pthread_mutex_lock(&spy.lock);
    int count = spy.count;
    memcpy(notes_out, spy.notes, (size_t)count * sizeof(*notes_out));
    pthread_mutex_unlock(&spy.lock);
    return count;
}
