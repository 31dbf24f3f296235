/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests with random halo plans share. All ranks draw the same numbers, so each knows what the others have.
 *
 * What came up in the plans of a job is noted in sets, and looked at in the end: a generator that leaves something out
 * would test less than it says.
 */
#ifndef PEERWIN_TESTS_HALO_RANDOM_H
#define PEERWIN_TESTS_HALO_RANDOM_H

#include <stddef.h>
#include <stdint.h>

enum { MOST_RANKS = 8 };

/** How many plans: several hundred in a run of all tests, most of them on few ranks, where they cost less. */
int random_plans(int most, int simulated);

/** A set of numbers below 64. */
void cover(uint64_t *set, size_t value);
/** Fails unless all numbers from low to high are in the set. */
void check_covered(const char *what, uint64_t set, size_t low, size_t high);

void random_blocks_get_exactly_their_ghosts(void);
void random_lists_of_faces_arrive_byte_for_byte(void);

#endif
