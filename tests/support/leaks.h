/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a process holds: open descriptors (with what they point to), mappings and threads. Taken before and after a
 * test; a difference is a leak and fails it, naming what is left.
 */
#ifndef PEERWIN_TESTS_LEAKS_H
#define PEERWIN_TESTS_LEAKS_H

#include <stddef.h>

typedef struct leaks_snapshot leaks_snapshot;

leaks_snapshot *leaks_take(void);
void leaks_free(leaks_snapshot *snapshot);
/** Compares with now, fails the test if something is left, and frees the snapshot. */
void leaks_check(leaks_snapshot *before);
/** The same, and returns what there is now: for the next check, if nothing happens before that. */
leaks_snapshot *leaks_check_on(leaks_snapshot *before);

/** Counts of now. */
size_t leaks_open_descriptors(void);
size_t leaks_address_space_bytes(void);
/**
 * All mappings; the address space of all but the heap, which the C library's malloc grows and trims; and what is
 * resident, or swapped out, of all but programs and libraries.
 */
typedef struct {
    size_t mappings, space, resident;
} leaks_memory;
leaks_memory leaks_read_memory(void);
/** The permissions of the mapping that holds address ("rw-s" for example), or "" if there is none. */
void leaks_permissions(const void *address, char permissions_out[5]);

#endif
