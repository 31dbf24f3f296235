/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sets of numbers as people write them: "0-3,7".
 */
#ifndef PEERWIN_INFO_RANGES_H
#define PEERWIN_INFO_RANGES_H

#include <stddef.h>

enum { RANGES_BYTES = 256 };

/** The indices below `n` whose entry in `set` is not 0, "none" if there are none; "..." at the end if it is too long.
 */
void ranges_format(char to[RANGES_BYTES], const unsigned char *set, int n);

#endif
