/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Failing and memory; see info.h.
 */
#include "info.h"

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void info_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("peerwin-info: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    abort(); /* MPI_Abort does not return; the compiler does not know */
}

void *info_alloc(size_t count, size_t bytes) {
    void *memory = calloc(count > 0 ? count : 1, bytes);
    if (memory == NULL)
        info_fail("out of memory: %zu times %zu bytes", count, bytes);
    return memory;
}
