/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts, windows and memory of the kind that is being measured.
 */
#include "cuda.h"

#include <stdio.h>

const pw_site bench_cuda_site = {.call = "peerwin-bench", .rank = PW_NONE, .peer = PW_NONE};

void bench_cuda_check(CUresult code, const char *call) {
    if (code != CUDA_SUCCESS)
        bench_fail("%s failed with code %d", call, (int)code);
}

/* Pools cannot be had from the library: their memory is the program's, and the library's own is of any kind then. */
peerwin_status bench_cuda_init(const bench *b, peerwin_ctx **ctx_out) {
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = PEERWIN_SPACE_CUDA;
    config.handles = b->device->kind == PEERWIN_HANDLE_POOL ? 0u : b->device->kind;
    config.flags = PEERWIN_STRICT;
    const peerwin_status status = peerwin_init(MPI_COMM_WORLD, &config, ctx_out);
    if (status == PEERWIN_OK && peerwin_get_space(*ctx_out) != PEERWIN_SPACE_CUDA)
        bench_fail("PEERWIN_SPACE overrides --space cuda");
    return status;
}

CUdeviceptr bench_cuda_memory(const bench *b, size_t bytes) {
    const bench_device *d = b->device;
    CUdeviceptr memory = 0;
    if (d->kind != PEERWIN_HANDLE_POOL)
        return 0;
    bench_cuda_check(d->driver->cuMemAllocFromPoolAsync(&memory, bytes, d->pool, d->stream), "cuMemAllocFromPoolAsync");
    bench_cuda_check(d->driver->cuStreamSynchronize(d->stream), "cuStreamSynchronize");
    return memory;
}

peerwin_status bench_cuda_attach(peerwin_ctx *ctx, CUdeviceptr memory, size_t bytes, bench_window *window_out) {
    window_out->attached = memory;
    if (memory == 0)
        return peerwin_win_alloc(ctx, bytes, NULL, &window_out->win);
    return peerwin_win_attach(ctx, (void *)(uintptr_t)memory, bytes, NULL, &window_out->win);
}

void bench_cuda_give_back(const bench *b, CUdeviceptr memory) {
    const bench_device *d = b->device;
    if (memory == 0)
        return;
    bench_cuda_check(d->driver->cuMemFreeAsync(memory, d->stream), "cuMemFreeAsync");
    bench_cuda_check(d->driver->cuStreamSynchronize(d->stream), "cuStreamSynchronize");
}

/* The environment can force another kind, which must not pass under this one's name. */
peerwin_status bench_cuda_window(const bench *b, peerwin_ctx *ctx, size_t bytes, bench_window *window_out) {
    const CUdeviceptr memory = bench_cuda_memory(b, bytes);
    const peerwin_status status = bench_cuda_attach(ctx, memory, bytes, window_out);
    if (status != PEERWIN_OK)
        bench_cuda_give_back(b, memory);
    else if (peerwin_win_handle(window_out->win, b->partner) != (peerwin_handle)b->device->kind)
        bench_fail("the window is not of the kind %s: see PEERWIN_HANDLES", b->kind);
    return status;
}

void bench_cuda_free(const bench *b, bench_window *window) {
    bench_check(peerwin_win_free(window->win), "peerwin_win_free");
    bench_cuda_give_back(b, window->attached);
}

void *bench_cuda_alloc(const bench *b, size_t bytes) {
    CUdeviceptr memory = 0;
    bench_cuda_check(b->device->driver->cuMemAlloc(&memory, bytes), "cuMemAlloc");
    return (void *)(uintptr_t)memory;
}

void bench_cuda_release(const bench *b, void *memory) {
    if (memory != NULL)
        bench_cuda_check(b->device->driver->cuMemFree(pw_device_address(memory)), "cuMemFree");
}
