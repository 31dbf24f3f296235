/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of a device that an application may have besides cuMemAlloc's: managed, virtual memory made of one or several
 * allocations, stream-ordered from the device's own pool or from one that can be shared. For tests of attach.
 */
#ifndef PEERWIN_TESTS_RANGES_H
#define PEERWIN_TESTS_RANGES_H

#include "calls.h"

void *managed_new(size_t bytes);
void managed_free(void *memory);

/** Page-locked host memory. */
void *locked_new(size_t bytes);
void locked_free(void *memory);

/** A range of virtual memory: `pieces` allocations of `piece_bytes` bytes, one behind the other. */
enum { RANGE_MOST_PIECES = 8 };
typedef struct {
    void *base;
    size_t bytes;
    size_t piece_bytes;
    int pieces;
} range;
/** The smallest size of a piece; a multiple of it will do. */
size_t range_granularity(void);
/** `types`: CU_MEM_HANDLE_TYPE_..., NONE for memory that cannot be shared. */
range range_new(int pieces, size_t piece_bytes, CUmemAllocationHandleType types);
void range_free(range *r);

/** Stream-ordered memory of the device's own pool, which cannot be shared. */
void *ordered_new(size_t bytes);
/** Gives back memory of any pool. */
void ordered_free(void *memory);

/** A pool whose memory can be shared by descriptor. */
CUmemoryPool pool_new(void);
void *pool_take(CUmemoryPool pool, size_t bytes);
void pool_free(CUmemoryPool pool);

#endif
