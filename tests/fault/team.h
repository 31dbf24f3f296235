/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Jobs in which ranks end before the others. The first ranks are the team and stay; the others go in turn. The
 * launcher's exit status says nothing about such a job: the team writes a verdict, which survivors.sh reads.
 */
#ifndef PEERWIN_TESTS_TEAM_H
#define PEERWIN_TESTS_TEAM_H

#include "support/test.h"

/** Shares a page for the time of the last death, and makes team_comm. `count` ranks stay. */
void team_begin(int count);
/** The team's communicator, on all others that of those who go. */
extern MPI_Comm team_comm;
extern int team_size;

/** A barrier that does not take the processor from those who work. */
void team_meet(MPI_Comm comm);
/** The largest of the team's values, likewise. */
double team_max(double value);
/** Since the last death or stop (see inject_die). */
double team_seconds_since_death(void);

/** Rank 0 writes the verdict; then the process ends, without MPI_Finalize, which would wait for those who are gone. */
_Noreturn void team_end(const char *verdict);

#endif
