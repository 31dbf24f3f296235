/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies and fills. Every end of a copy is checked when it is queued: memory that is gone, that nobody was given access
 * to, or that is too short is misuse. Host memory that the driver does not know is pageable and is read and written in
 * stream order, too: whoever touches it before is found by a race detector. A small upload from it returns when the
 * driver has the bytes, and the device gets them a little later, as on a device.
 */
#include "sim.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum place { PLACE_ANY, PLACE_HOST, PLACE_DEVICE };
enum { STAGED_BYTES = 65536, STAGED_NS = 200000, MANY_PAGES = 65536 };

static size_t last_byte(const size_t count[3], size_t pitch, size_t slice) {
    return (count[2] - 1) * slice + (count[1] - 1) * pitch + count[0];
}

/* One end of a copy by a device: `bytes` from `start`. */
static CUresult check_end(const struct sim_stream *stream, uintptr_t start, size_t bytes, bool write, enum place place,
                          bool *to_peer_out) {
    int device = stream->ctx->device;
    const struct sim_range *range = sim_range_at(start);
    *to_peer_out = range != NULL && sim_range_imported(range);
    if (start == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (range == NULL && !sim_va_owns(start)) {
        return place == PLACE_DEVICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    if (range == NULL && place == PLACE_ANY) { /* taken for pageable host memory */
        sim_crash("0x%llx is not mapped", (unsigned long long)start);
    }
    if (range == NULL) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is not mapped", (unsigned long long)start);
    }
    if (range->freeing) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "memory is used after it was freed");
    }
    if (bytes > range->size - (start - range->start) && range->kind != SIM_RANGE_VMM) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "%zu bytes at 0x%llx reach past the end of an allocation", bytes,
                          (unsigned long long)start);
    }
    if (!sim_accessible(device, start, bytes, write)) {
        return sim_misuse(CUDA_ERROR_INVALID_VALUE, "device %d has no %s access to 0x%llx", device,
                          write ? "write" : "read", (unsigned long long)start);
    }
    return CUDA_SUCCESS;
}

/* A few words are moved each at once, as by a copy engine: a wait, or a kernel that runs, may be looking at them. */
enum { FEW_BYTES = 16 << 10 };

static void move(unsigned char *dst, const unsigned char *src, size_t bytes) {
    if (bytes <= FEW_BYTES && ((uintptr_t)dst | (uintptr_t)src | bytes) % 8 == 0) {
        for (size_t i = 0; i < bytes / 8; i++) {
            __atomic_store_n((uint64_t *)(void *)dst + i,
                             __atomic_load_n((const uint64_t *)(const void *)src + i, __ATOMIC_ACQUIRE),
                             __ATOMIC_RELEASE);
        }
    } else if (bytes == 4 && ((uintptr_t)dst | (uintptr_t)src) % 4 == 0) {
        __atomic_store_n((uint32_t *)(void *)dst,
                         __atomic_load_n((const uint32_t *)(const void *)src, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
    } else {
        memmove(dst, src, bytes);
    }
}

/* The memory itself; unlocked, in a stream thread. A row in a dropped copy is still walked. */
CUresult sim_execute_copy(const struct sim_op_copy *copy) {
    enum simcuda_writes mode = copy->to_peer ? sim_write_mode() : SIMCUDA_WRITES_ARRIVE;
    if (copy->staged) {
        struct timespec late = {0, STAGED_NS};
        nanosleep(&late, NULL);
    }
    bool drop = mode == SIMCUDA_WRITES_DROP || mode == SIMCUDA_WRITES_DROP_COPIES;
    for (size_t z = 0; z < copy->depth && !drop; z++) {
        for (size_t y = 0; y < copy->height; y++) {
            unsigned char *dst = (unsigned char *)copy->dst + z * copy->dst_slice + y * copy->dst_pitch;
            const unsigned char *src = (const unsigned char *)copy->src + z * copy->src_slice + y * copy->src_pitch;
            move(dst, src, copy->width);
            if (mode == SIMCUDA_WRITES_CORRUPT) {
                dst[copy->width - 1] ^= 0x10;
            }
        }
    }
    return CUDA_SUCCESS;
}

/* A race detector sees stores, not pages that go. */
#if defined(__SANITIZE_THREAD__)
#define SEES_STORES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SEES_STORES 1
#endif
#endif
#ifndef SEES_STORES
#define SEES_STORES 0
#endif

/* Zeroes whole pages by giving them back, which spares a fault for each. Returns how far it came. */
static size_t drop_pages(uintptr_t start, size_t bytes) {
    uintptr_t from = (start + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
    uintptr_t to = (start + bytes) / SIM_PAGE * SIM_PAGE;
    if (SEES_STORES || bytes < MANY_PAGES || madvise((void *)from, to - from, MADV_REMOVE) != 0) {
        return 0;
    }
    memset((void *)start, 0, from - start);
    return to - start;
}

CUresult sim_execute_fill(const struct sim_op_fill *fill) {
    enum simcuda_writes mode = fill->to_peer ? sim_write_mode() : SIMCUDA_WRITES_ARRIVE;
    if (mode == SIMCUDA_WRITES_DROP || mode == SIMCUDA_WRITES_DROP_COPIES) {
        return CUDA_SUCCESS;
    }
    if (!fill->words) {
        size_t done = (unsigned char)fill->value == 0 ? drop_pages(fill->dst, fill->count) : 0;
        memset((void *)(fill->dst + done), (int)fill->value, fill->count - done);
    } else {
        for (size_t i = 0; i < fill->count; i++) {
            ((uint32_t *)fill->dst)[i] = fill->value;
        }
    }
    return CUDA_SUCCESS;
}

static CUresult queue_copy(struct sim_stream *stream, const struct sim_op_copy *copy, enum place dst, enum place src) {
    const size_t count[3] = {copy->width, copy->height, copy->depth};
    bool to_peer, from_peer;
    if (copy->width == 0 || copy->height == 0 || copy->depth == 0) {
        return CUDA_SUCCESS;
    }
    CUresult rc = check_end(stream, copy->dst, last_byte(count, copy->dst_pitch, copy->dst_slice), true, dst, &to_peer);
    if (rc == CUDA_SUCCESS) {
        rc = check_end(stream, copy->src, last_byte(count, copy->src_pitch, copy->src_slice), false, src, &from_peer);
    }
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    struct sim_op *op = sim_op_new(SIM_OP_COPY, copy->staged ? copy->width : 0);
    op->u.copy = *copy;
    op->u.copy.to_peer = to_peer;
    if (copy->staged) {
        memcpy(op->params, (const void *)copy->src, copy->width);
        op->u.copy.src = (uintptr_t)op->params;
    }
    return sim_enqueue(stream, op);
}

static CUresult flat(CUstream handle, uintptr_t dst, enum place dst_place, uintptr_t src, enum place src_place,
                     size_t bytes, bool wait) {
    CUresult rc;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream == NULL) {
        return rc;
    }
    struct sim_op_copy copy = {.dst = dst, .src = src, .width = bytes, .height = 1, .depth = 1};
    copy.staged = wait && src_place == PLACE_HOST && bytes <= STAGED_BYTES && sim_range_at(src) == NULL;
    rc = queue_copy(stream, &copy, dst_place, src_place);
    return rc == CUDA_SUCCESS && wait && !copy.staged ? sim_stream_drain(stream) : rc;
}

SIM_ENTRY cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    SIM_RUN(cuMemcpy, flat(NULL, dst, PLACE_ANY, src, PLACE_ANY, ByteCount, true));
}

SIM_ENTRY cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) {
    SIM_RUN(cuMemcpyHtoD_v2, flat(NULL, dstDevice, PLACE_DEVICE, (uintptr_t)srcHost, PLACE_HOST, ByteCount, true));
}

SIM_ENTRY cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    SIM_RUN(cuMemcpyDtoH_v2, flat(NULL, (uintptr_t)dstHost, PLACE_HOST, srcDevice, PLACE_DEVICE, ByteCount, true));
}

SIM_ENTRY cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
    SIM_RUN(cuMemcpyDtoD_v2, flat(NULL, dstDevice, PLACE_DEVICE, srcDevice, PLACE_DEVICE, ByteCount, true));
}

SIM_ENTRY cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    SIM_RUN(cuMemcpyAsync, flat(hStream, dst, PLACE_ANY, src, PLACE_ANY, ByteCount, false));
}

SIM_ENTRY cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream) {
    SIM_RUN(cuMemcpyHtoDAsync_v2,
            flat(hStream, dstDevice, PLACE_DEVICE, (uintptr_t)srcHost, PLACE_HOST, ByteCount, false));
}

SIM_ENTRY cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    SIM_RUN(cuMemcpyDtoHAsync_v2,
            flat(hStream, (uintptr_t)dstHost, PLACE_HOST, srcDevice, PLACE_DEVICE, ByteCount, false));
}

SIM_ENTRY cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    SIM_RUN(cuMemcpyDtoDAsync_v2, flat(hStream, dstDevice, PLACE_DEVICE, srcDevice, PLACE_DEVICE, ByteCount, false));
}

/* Devices whose contexts were not given access to each other copy through the host on a device; not here. */
static CUresult between(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t bytes,
                        CUstream stream) {
    CUresult rc;
    if (sim_context_find(dst_context, &rc) == NULL || sim_context_find(src_context, &rc) == NULL) {
        return rc;
    }
    return flat(stream, dst, PLACE_DEVICE, src, PLACE_DEVICE, bytes, false);
}

SIM_ENTRY cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                            size_t ByteCount, CUstream hStream) {
    SIM_RUN(cuMemcpyPeerAsync, between(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream));
}

struct end {
    uintptr_t address;
    enum place place;
};

static CUresult resolve(CUmemorytype type, const void *host, CUdeviceptr device, struct end *end_out) {
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        *end_out = (struct end){(uintptr_t)host, PLACE_HOST};
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
        *end_out = (struct end){(uintptr_t)device, PLACE_DEVICE};
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
        *end_out = (struct end){(uintptr_t)device, PLACE_ANY};
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE; /* arrays are not simulated */
    }
}

static CUresult copy_2d(const CUDA_MEMCPY2D *p, CUstream handle) {
    CUresult rc;
    struct end dst, src;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream == NULL || p == NULL) {
        return stream == NULL ? rc : CUDA_ERROR_INVALID_VALUE;
    }
    if (resolve(p->dstMemoryType, p->dstHost, p->dstDevice, &dst) != CUDA_SUCCESS ||
        resolve(p->srcMemoryType, p->srcHost, p->srcDevice, &src) != CUDA_SUCCESS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t dst_pitch = p->dstPitch == 0 ? p->WidthInBytes + p->dstXInBytes : p->dstPitch;
    size_t src_pitch = p->srcPitch == 0 ? p->WidthInBytes + p->srcXInBytes : p->srcPitch;
    if (dst_pitch < p->WidthInBytes + p->dstXInBytes || src_pitch < p->WidthInBytes + p->srcXInBytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_op_copy copy = {.dst = dst.address + p->dstY * dst_pitch + p->dstXInBytes,
                               .src = src.address + p->srcY * src_pitch + p->srcXInBytes,
                               .width = p->WidthInBytes,
                               .height = p->Height,
                               .depth = 1,
                               .dst_pitch = dst_pitch,
                               .src_pitch = src_pitch};
    return queue_copy(stream, &copy, dst.place, src.place);
}

SIM_ENTRY cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream) {
    SIM_RUN(cuMemcpy2DAsync_v2, copy_2d(pCopy, hStream));
}

static CUresult copy_3d(const CUDA_MEMCPY3D *p, CUstream handle) {
    CUresult rc;
    struct end dst, src;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream == NULL || p == NULL) {
        return stream == NULL ? rc : CUDA_ERROR_INVALID_VALUE;
    }
    if (resolve(p->dstMemoryType, p->dstHost, p->dstDevice, &dst) != CUDA_SUCCESS ||
        resolve(p->srcMemoryType, p->srcHost, p->srcDevice, &src) != CUDA_SUCCESS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t dst_pitch = p->dstPitch == 0 ? p->WidthInBytes + p->dstXInBytes : p->dstPitch;
    size_t src_pitch = p->srcPitch == 0 ? p->WidthInBytes + p->srcXInBytes : p->srcPitch;
    size_t dst_height = p->dstHeight == 0 ? p->Height + p->dstY : p->dstHeight;
    size_t src_height = p->srcHeight == 0 ? p->Height + p->srcY : p->srcHeight;
    if (dst_pitch < p->WidthInBytes + p->dstXInBytes || src_pitch < p->WidthInBytes + p->srcXInBytes ||
        (p->Depth > 1 && (dst_height < p->Height + p->dstY || src_height < p->Height + p->srcY))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_op_copy copy = {
        .dst = dst.address + (p->dstZ * dst_height + p->dstY) * dst_pitch + p->dstXInBytes,
        .src = src.address + (p->srcZ * src_height + p->srcY) * src_pitch + p->srcXInBytes,
        .width = p->WidthInBytes,
        .height = p->Height,
        .depth = p->Depth,
        .dst_pitch = dst_pitch,
        .dst_slice = dst_pitch * dst_height,
        .src_pitch = src_pitch,
        .src_slice = src_pitch * src_height,
    };
    return queue_copy(stream, &copy, dst.place, src.place);
}

SIM_ENTRY cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream) {
    SIM_RUN(cuMemcpy3DAsync_v2, copy_3d(pCopy, hStream));
}

static CUresult fill(CUstream handle, CUdeviceptr dst, unsigned value, size_t count, bool words, bool wait) {
    CUresult rc;
    bool to_peer;
    struct sim_stream *stream = sim_stream_find(handle, &rc);
    if (stream == NULL) {
        return rc;
    }
    if (words && dst % 4 != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (count == 0) {
        return CUDA_SUCCESS;
    }
    rc = check_end(stream, dst, words ? 4 * count : count, true, PLACE_DEVICE, &to_peer);
    if (rc != CUDA_SUCCESS) {
        return rc;
    }
    struct sim_op *op = sim_op_new(SIM_OP_FILL, 0);
    op->u.fill = (struct sim_op_fill){dst, count, value, words, to_peer};
    rc = sim_enqueue(stream, op);
    return rc == CUDA_SUCCESS && wait ? sim_stream_drain(stream) : rc;
}

SIM_ENTRY cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
    SIM_RUN(cuMemsetD8_v2, fill(NULL, dstDevice, uc, N, false, true));
}

SIM_ENTRY cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
    SIM_RUN(cuMemsetD32_v2, fill(NULL, dstDevice, ui, N, true, true));
}

SIM_ENTRY cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
    SIM_RUN(cuMemsetD8Async, fill(hStream, dstDevice, uc, N, false, false));
}

SIM_ENTRY cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
    SIM_RUN(cuMemsetD32Async, fill(hStream, dstDevice, ui, N, true, false));
}
