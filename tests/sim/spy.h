/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A driver that hands every call on to the simulated one and writes down what is given away: handles, and descriptors,
 * which it gives numbers that no text has by accident. Loaded in the driver's place; the test finds its notes by dlsym.
 */
#ifndef PEERWIN_TESTS_SPY_H
#define PEERWIN_TESTS_SPY_H

#include <stddef.h>

enum { SPY_BYTES = 64, SPY_MOST = 256, SPY_FIRST_FD = 7001 };

/** A handle's bytes, or a descriptor's number; what is left of `bytes` is 0. */
typedef struct {
    const char *call;
    unsigned char bytes[SPY_BYTES];
    size_t length; /* 0 for a descriptor */
    int fd;
} spy_note;

/** `int spy_notes(spy_note *notes_out)`: up to SPY_MOST of them; returns how many. */
#define SPY_NOTES "spy_notes"

#endif
