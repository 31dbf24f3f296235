/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kinds of memory on a driver: which there are, and what several of them do.
 */
#include "memory/kinds.h"

const pw_memory_ops *pw_memory_on_gpu(peerwin_handle kind) {
    switch ((int)kind) {
    case PEERWIN_HANDLE_HOST:
        return &pw_memory_registered;
    case PEERWIN_HANDLE_LEGACY:
        return &pw_memory_legacy;
    case PEERWIN_HANDLE_FD:
        return &pw_memory_fd;
    case PEERWIN_HANDLE_FABRIC:
        return &pw_memory_fabric;
    case PEERWIN_HANDLE_POOL:
        return &pw_memory_pool;
    default:
        return NULL;
    }
}

peerwin_status pw_check_import(const pw_gpu *gpu, CUdeviceptr pointer, size_t bytes, const pw_site *site) {
    CUdeviceptr base = 0;
    size_t size = 0;
    CUresult code = gpu->driver->cuMemGetAddressRange(&base, &size, pointer);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuMemGetAddressRange");
    size_t before = pointer - base;
    if (before > size || bytes > size - before)
        return pw_fail(PEERWIN_ERR_INTERNAL, site,
                       "the memory behind the handle received is smaller than the %zu bytes announced", bytes);
    return PEERWIN_OK;
}
