/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the library holds of the heap, apart from what MPI, a driver and the test hold: held.c has a malloc of its own
 * that knows by the caller whose a block is. It is for the programs that are built with it, and counts nothing under
 * sanitizers, which have one, too, nor where the C library is not glibc.
 */
#ifndef PEERWIN_TESTS_HELD_H
#define PEERWIN_TESTS_HELD_H

#include <stddef.h>

typedef struct {
    size_t blocks, bytes;
} held_heap;

/** Counts what the library gets from now on. */
void held_begin(void);
/** What the library's functions have got since from malloc, calloc and realloc and nobody has freed. */
held_heap held_by_library(void);

#endif
