/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * NCCL's side of --peers: the rows that it can have, in a job of this program, by the library found at run time. Its
 * headers are not needed: what is used of it has not changed since version 2.7.
 */
#ifndef PEERWIN_BENCH_PEER_NCCL_H
#define PEERWIN_BENCH_PEER_NCCL_H

#include "halo_run.h"

typedef struct peer_nccl peer_nccl;

/** Collective; ends the job if the library cannot be opened or refuses the ranks. "2.28.3" in `version_out`. */
peer_nccl *peer_nccl_open(const bench *b, const char *library, char *version_out, size_t size);
void peer_nccl_close(peer_nccl *nccl);

/** Each gives work to the stream. A sum of doubles, in place. UNSUPPORTED if NCCL does not want to (in a graph). */
peerwin_status peer_nccl_reduce(peer_nccl *nccl, void *values, int count, CUstream stream);
void peer_nccl_send(peer_nccl *nccl, const void *from, size_t bytes, int rank, CUstream stream);
void peer_nccl_receive(peer_nccl *nccl, void *to, size_t bytes, int rank, CUstream stream);

/** Pack, sends and receives as one group, unpack. */
halo_way halo_by_nccl;

#endif
