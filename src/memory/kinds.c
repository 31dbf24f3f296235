/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kinds of memory on a driver: which there are, and what several of them do.
 */
#include "memory/kinds.h"

#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- lists of allocations under virtual memory ---- */

peerwin_status pw_vmm_append(pw_vmm_pieces *list, CUmemGenericAllocationHandle handle, size_t bytes,
                             const pw_site *site) {
    if (list->count == list->room) {
        int room = list->room > 0 ? 2 * list->room : 1;
        pw_vmm_piece *pieces = realloc(list->pieces, (size_t)room * sizeof *pieces);
        if (!pieces)
            return pw_fail_errno(site, ENOMEM, "realloc");
        list->pieces = pieces;
        list->room = room;
    }
    list->pieces[list->count++] = (pw_vmm_piece){.handle = handle, .bytes = bytes, .fd = -1};
    return PEERWIN_OK;
}

void pw_vmm_forget(pw_vmm_pieces *list) {
    for (int i = 0; i < list->count; i++) {
        pw_close(&list->pieces[i].fd);
        explicit_bzero(list->pieces[i].token, sizeof list->pieces[i].token);
        list->pieces[i].has_export = 0;
    }
}

peerwin_status pw_vmm_drop(const pw_gpu *gpu, pw_vmm_pieces *list, peerwin_status first) {
    if (!list)
        return first;
    pw_vmm_forget(list);
    for (int i = 0; i < list->count; i++)
        first = pw_gpu_released(gpu, gpu->driver->cuMemRelease(list->pieces[i].handle), "cuMemRelease", first);
    free(list->pieces);
    free(list);
    return first;
}
