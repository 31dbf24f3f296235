/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kinds of memory on a driver, as the files behind them see each other.
 */
#ifndef PW_MEMORY_KINDS_H
#define PW_MEMORY_KINDS_H

#include "memory/gpu_cuda.h"

extern const pw_memory_ops pw_memory_legacy;     /* legacy.c */
extern const pw_memory_ops pw_memory_fd;         /* vmm.c */
extern const pw_memory_ops pw_memory_fabric;     /* vmm.c */
extern const pw_memory_ops pw_memory_pool;       /* pool.c */
extern const pw_memory_ops pw_memory_registered; /* registered.c */

/* Value of CU_MEM_HANDLE_TYPE_FABRIC, which older headers lack. */
enum { PW_FABRIC_TYPE = 8 };

/* One allocation of the driver under a segment of virtual memory. What it was exported as is kept until `exported`. */
typedef struct {
    CUmemGenericAllocationHandle handle;
    size_t bytes;
    int has_export;
    int fd;
    unsigned char token[PW_TOKEN_BYTES];
} pw_vmm_piece;

/* The details of such a segment. */
typedef struct {
    int count;
    int room;
    pw_vmm_piece *pieces;
} pw_vmm_pieces;

/* Appends an allocation. The handle is the list's on success. */
PEERWIN_MUST_USE peerwin_status pw_vmm_append(pw_vmm_pieces *list, CUmemGenericAllocationHandle handle, size_t bytes,
                                              const pw_site *site);

/* Gives up what the allocations were exported as. */
void pw_vmm_forget(pw_vmm_pieces *list);

/* Releases the handles and frees the list; NULL is fine. Returns the first failure, `first` if that is one. */
peerwin_status pw_vmm_drop(const pw_gpu *gpu, pw_vmm_pieces *list, peerwin_status first);

/* Memory of the size `bytes` rounded up to `granularity` in *mapped_out; NO_MEMORY if there is no such number. */
PEERWIN_MUST_USE static inline peerwin_status pw_round_size(size_t bytes, size_t granularity, const pw_site *site,
                                                            size_t *mapped_out) {
    if (bytes > (size_t)PTRDIFF_MAX - granularity)
        return pw_fail(PEERWIN_ERR_NO_MEMORY, site, "%zu bytes are more than an address space has", bytes);
    *mapped_out = (bytes + granularity - 1) / granularity * granularity;
    return PEERWIN_OK;
}

/* Checks that [pointer, pointer + bytes) lies in one imported allocation, as its driver knows it. */
PEERWIN_MUST_USE peerwin_status pw_check_import(const pw_gpu *gpu, CUdeviceptr pointer, size_t bytes,
                                                const pw_site *site);

/*
 * Legacy memory that a context of `device` owns, or has opened, becomes accessible from the rank's other devices.
 * UNSUPPORTED if the driver does not find it from one of them.
 */
PEERWIN_MUST_USE peerwin_status pw_legacy_share(pw_gpu *gpu, CUdevice device, CUcontext owner, CUdeviceptr base,
                                                const pw_site *site);

#endif
