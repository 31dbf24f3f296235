/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels of peerwin's side of --peers: their names and arguments, for host and device.
 */
#ifndef PEERWIN_BENCH_PEER_KERNELS_H
#define PEERWIN_BENCH_PEER_KERNELS_H

#include "peerwin/device.cuh"

#define PEER_KERNELS(X)                                                                                                \
    X(put)                                                                                                             \
    X(get)                                                                                                             \
    X(put_signal)                                                                                                      \
    X(message)                                                                                                         \
    X(fetch_add)                                                                                                       \
    X(barrier)                                                                                                         \
    X(reduce)

enum { PEER_SIGNAL = 1 }; /* the slot of kernels; slot 0 is that of streams */

/* What a kernel has found out. */
typedef struct {
    uint64_t ns;     /* of the rounds after the warm-up, by the device's clock */
    uint64_t status; /* a peerwin_status: why it ended early */
    double sum;      /* reduce: the first value of the first round */
} peer_finding;

typedef struct {
    peerwin_view view;
    char *mine;      /* source of puts, target of gets */
    uint64_t offset; /* in the partner's segment */
    uint64_t bytes;  /* of an operation */
    uint64_t slice;  /* put, get: a block's part */
    uint64_t base;   /* put_signal: the signal's value before */
    int32_t partner;
    int32_t warm;
    int32_t iterations; /* 0: nothing is done at all */
    int32_t reserved;
    peer_finding *finding;
} peer_args;

#endif
