/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Figures as text.
 */
#ifndef PEERWIN_BENCH_TEXT_H
#define PEERWIN_BENCH_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/** As snprintf, but tells whether all of it fitted. */
bool text_format(char *to, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/** "64 KiB". */
void text_bytes(char *to, size_t size, size_t bytes);

#endif
