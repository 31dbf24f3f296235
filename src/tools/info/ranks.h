/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Who the ranks are, and what their kernels allow. Gathered on rank 0.
 */
#ifndef PEERWIN_INFO_RANKS_H
#define PEERWIN_INFO_RANKS_H

#include "capability.h"
#include "json.h"
#include "memory/device.h"
#include "peerwin/peerwin.h"

#include <stdint.h>

enum { RANKS_CPUS = 1024 };

/** One rank; travels as bytes between the ranks of one build. */
typedef struct {
    int32_t node; /* -1 = not known, because there is no context */
    int32_t pid;
    uint32_t uid;
    int32_t codes[CAPABILITIES]; /* of each probe: 0 or an errno */
    uint64_t pid_ns;
    uint64_t net_ns;
    uint64_t user_ns;
    char host[64];
    char device[PW_DEVICE_UUID]; /* that peerwin uses here, "" for none */
    char pci[PW_DEVICE_PCI];
    int32_t mps;
    char no_device[200];            /* why there is none */
    unsigned char cpus[RANKS_CPUS]; /* 1 = may run there */
} rank_record;

/** Collective over MPI_COMM_WORLD. The records in order, to be freed by the caller, on rank 0; NULL elsewhere. */
rank_record *ranks_collect(peerwin_ctx *ctx);

void ranks_print_capabilities(const rank_record *ranks, int n);
void ranks_print(const rank_record *ranks, int n);

/** Which GPU is whose; nothing if nobody has one. */
void ranks_print_devices(const rank_record *ranks, int n);

/** The lists `capabilities` (those of rank 0) and `ranks` (each with what differs from rank 0). */
void ranks_write(const rank_record *ranks, int n, json *j);

#endif
