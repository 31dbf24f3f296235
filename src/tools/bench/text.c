/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Figures as text. Pure functions.
 */
#include "text.h"

#include <stdio.h>

void text_bytes(char *to, size_t size, size_t bytes) {
    if (bytes >= 1u << 20 && bytes % (1u << 20) == 0)
        snprintf(to, size, "%zu MiB", bytes >> 20);
    else if (bytes >= 1u << 10 && bytes % (1u << 10) == 0)
        snprintf(to, size, "%zu KiB", bytes >> 10);
    else
        snprintf(to, size, "%zu B", bytes);
}
