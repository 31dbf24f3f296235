/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the figures were measured on: a figure without its machine means nothing.
 */
#ifndef PEERWIN_BENCH_MACHINE_H
#define PEERWIN_BENCH_MACHINE_H

#include "peerwin/peerwin.h"

typedef struct {
    char cpu[96];    /* model name */
    char kernel[96]; /* "Linux 6.1.0" */
    char mpi[96];    /* "Open MPI v4.1.4" */
    char date[32];   /* start of the run, ISO 8601, local time */
} machine;

/** Describes the machine of the calling rank; what cannot be found out is "unknown". */
machine machine_describe(void);

/** The CPUs of a node that the ranks of `comm` may run on, taken together: each may be bound to one. Collective. */
int machine_count_cpus(MPI_Comm comm);

#endif
