/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Figures and names as text. Pure functions.
 */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>

bool text_format(char *to, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(to, size, format, args);
    va_end(args);
    return length >= 0 && (size_t)length < size;
}

void text_bytes(char *to, size_t size, size_t bytes) {
    if (bytes >= 1u << 20 && bytes % (1u << 20) == 0)
        snprintf(to, size, "%zu MiB", bytes >> 20);
    else if (bytes >= 1u << 10 && bytes % (1u << 10) == 0)
        snprintf(to, size, "%zu KiB", bytes >> 10);
    else
        snprintf(to, size, "%zu B", bytes);
}
