/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the kernel, or the container around us, has to allow, each tried out and not guessed from a version.
 */
#ifndef PEERWIN_INFO_CAPABILITY_H
#define PEERWIN_INFO_CAPABILITY_H

typedef struct {
    const char *name;
    const char *use;    /* what it is for, and what happens without it */
    int (*probe)(void); /* 0 or an errno; leaves nothing behind */
} capability;

enum { CAPABILITIES = 9 };

extern const capability capabilities[CAPABILITIES];

#endif
