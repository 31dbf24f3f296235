/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Watches that a process holds the same after each of many cycles: descriptors, mappings, address space, the library's
 * part of the heap and resident memory. For programs that are built with flat.c and held.c.
 */
#ifndef PEERWIN_TESTS_FLAT_H
#define PEERWIN_TESTS_FLAT_H

#include <stddef.h>

typedef struct flat_watch flat_watch;

/** What the driver of a GPU may take on the way, where it is a real one. */
typedef struct {
    size_t mappings, space, resident;
} flat_slack;

/** To be called before the context is made. What there is after `settled` of the `cycles` is what has to stay. */
flat_watch *flat_begin(int cycles, int settled, const flat_slack *of_driver);
/** After each cycle, with its number from 0 on. Fails the test if anything but resident memory is not as it was. */
void flat_look(flat_watch *watch, int cycle);
/** After the context is finalized: fails if resident memory grew on the way, or the library still holds heap. */
void flat_end(flat_watch *watch);

#endif
