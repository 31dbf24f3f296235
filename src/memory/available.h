/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How much memory there is. Who takes more than that does not get an error: the kernel ends some process instead.
 */
#ifndef PW_MEMORY_AVAILABLE_H
#define PW_MEMORY_AVAILABLE_H

#include <stddef.h>

/*
 * Bytes that this process can still have, of the machine's memory and of what the control groups that it is in may use;
 * SIZE_MAX if the kernel does not tell. Exact only where it is less than `wanted`. `root` is "": the kernel's files are
 * below it.
 */
size_t pw_memory_available(const char *root, size_t wanted);

#endif
