/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What peerwin may hold of a process: descriptors of sockets, processes and memory files, mappings of its memory files,
 * threads. Narrower than support/leaks.h, for jobs in which ranks die: the launcher then removes and renames what MPI
 * has mapped.
 */
#ifndef PEERWIN_TESTS_HOLDINGS_H
#define PEERWIN_TESTS_HOLDINGS_H

typedef struct {
    int sockets;
    int pidfds;
    int memory_files;
    int mappings;
    int threads;
} holdings;

holdings holdings_take(void);
/** Fails the test if there is more of anything than before. */
void holdings_check(const holdings *before, const char *what);

#endif
