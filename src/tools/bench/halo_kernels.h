/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Kernels around exchanges of ghosts: their names and arguments, for host and device. Packing and unpacking are what
 * the baselines need; filling and checking prove every way.
 */
#ifndef PEERWIN_BENCH_HALO_KERNELS_H
#define PEERWIN_BENCH_HALO_KERNELS_H

#include "halo_shape.h"

#define HALO_KERNELS(X)                                                                                                \
    X(pack)                                                                                                            \
    X(unpack)                                                                                                          \
    X(fill)                                                                                                            \
    X(check)

enum { HALO_LANES = 256 };

/* For pack, unpack and check a grid has a row of blocks for each face of each field. */
typedef struct {
    char *array;
    uint64_t field, row, plane; /* bytes from one to the next */
    uint64_t bytes;             /* fill: of all fields */
    uint64_t *wrong;            /* check: bytes that are not what they should be */
    int32_t rank;
    int32_t fields;
    uint32_t elem;
    int32_t faces; /* 0: nothing is done at all */
    halo_face face[SHAPE_SIDES];
    char *packed[SHAPE_SIDES]; /* pack: where the face goes; unpack: where it is */
} halo_args;

/* What stands in a byte of a rank's arrays. */
static inline
#ifdef __CUDACC__
    __device__
#endif
        uint8_t
        halo_pattern(int32_t rank, uint64_t at) {
    const uint32_t x = ((uint32_t)at * 2654435761u) ^ (uint32_t)(at >> 11);
    return (uint8_t)((x ^ (x >> 8) ^ (x >> 16) ^ (x >> 24)) + (uint32_t)rank * 37u + 1u);
}

#endif
