/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * peerwin's side of --peers: what its files share. The rows are those of peer_plan.h; rows in streams are in
 * peer_stream.c, rows in kernels in peer_device.c.
 */
#ifndef PEERWIN_BENCH_PEER_SIDE_H
#define PEERWIN_BENCH_PEER_SIDE_H

#include "cuda.h"
#include "halo_run.h"
#include "peer_nccl.h"
#include "peer_plan.h"

typedef struct peer_kernels peer_kernels; /* peer_device.c */

/* The partner's device as this process drives it, with memory of its own there (peer_copy.c). */
typedef struct {
    bool looked_for;
    CUdevice device;
    CUcontext context; /* NULL = there is none that could be driven */
    CUdeviceptr memory;
} peer_other;

typedef struct {
    const bench *b;
    bool quick;
    int warm;
    peer_driver more;
    CUstream stream;
    CUevent begin, end;
    peerwin_ctx *ctx;
    peerwin_win *win;
    char *mine;   /* device memory of this rank: plan_largest + PLAN_ROOM bytes, as the window has */
    char *target; /* my segment */
    char *there;  /* the partner's segment */
    int partner;  /* of ranks 0 and 1: the other one */
    uint64_t messages;
    peer_other other;
    halo_run halo;         /* of the last row of ghosts, */
    int halo_number;       /* of which blocks: PLAN_NO_HALO = it is not open */
    peer_nccl *nccl;       /* its rows are measured instead of peerwin's, NULL = they are not */
    peer_kernels *kernels; /* NULL = this build has none */
} peer_side;

/**
 * One batch of a row, on every rank: `*us_out` is microseconds an operation, 0 on a rank that has none. UNSUPPORTED if
 * there is no such thing in this build or on this machine; every other failure ends the job.
 */
peerwin_status peer_stream_batch(peer_side *s, const plan_row *row, int iterations, double *us_out);
peerwin_status peer_copy_batch(peer_side *s, const plan_row *row, int iterations, double *us_out);
peerwin_status peer_halo_batch(peer_side *s, const plan_row *row, int iterations, double *us_out);
peerwin_status peer_device_batch(peer_side *s, const plan_row *row, int iterations, double *us_out);

/** Loads the kernels; s->kernels stays NULL, with a message, if the device cannot take them. */
void peer_kernels_load(peer_side *s);
void peer_kernels_unload(peer_side *s);

/** End what such rows have left open. */
void peer_copy_close(peer_side *s);
void peer_halo_close(peer_side *s);

/** Waits until the stream has done its work, as the library does. */
void peer_wait(const peer_side *s);

#endif
