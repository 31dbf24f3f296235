/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What every part of peerwin-info shares: how it fails when nothing can be reported any more.
 */
#ifndef PEERWIN_INFO_H
#define PEERWIN_INFO_H

#include <stddef.h>

/** Says why and ends the whole job: the other ranks may be waiting for this one. */
_Noreturn void info_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Zeroed memory for `count` things of `bytes` bytes, at least one; to be freed by the caller. Never NULL. */
void *info_alloc(size_t count, size_t bytes);

#endif
