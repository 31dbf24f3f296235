/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A step in one cell: a weighted mean of the cells around it. One source for the processor and for the GPU.
 *
 * All weights are powers of two, so that products are exact: whether a compiler fuses them with sums or not, and in
 * which sweep a cell is computed, it gets the same bits.
 */
#ifndef STENCIL3D_STENCIL_H
#define STENCIL3D_STENCIL_H

#include <stddef.h>

#if defined(__cplusplus) /* CUDA */
#define STENCIL static __device__ __forceinline__
#else
#define STENCIL static inline
#endif

/* 1/4 of the cell, 1/8 of each of the six that share a face with it. */
STENCIL double mean_of_7(const double *u, ptrdiff_t row, ptrdiff_t plane) {
    const double faces = (u[-1] + u[1]) + (u[-row] + u[row]) + (u[-plane] + u[plane]);

    return 0.25 * u[0] + 0.125 * faces;
}

/* A plane of nine: the cell itself or the one beyond, the four beside that, and the four at its corners. */
STENCIL double cross(const double *u, ptrdiff_t row) {
    return (u[-1] + u[1]) + (u[-row] + u[row]);
}

STENCIL double corners(const double *u, ptrdiff_t row) {
    return (u[-row - 1] + u[-row + 1]) + (u[row - 1] + u[row + 1]);
}

/* 8/64 of the cell, 4/64 of those at faces, 2/64 at edges, 1/64 at corners: (1/4, 1/2, 1/4) in every direction. */
STENCIL double mean_of_27(const double *u, ptrdiff_t row, ptrdiff_t plane) {
    const double faces = (u[-plane] + u[plane]) + cross(u, row);
    const double edges = (cross(u - plane, row) + cross(u + plane, row)) + corners(u, row);
    const double ends = corners(u - plane, row) + corners(u + plane, row);

    return (0.125 * u[0] + 0.0625 * faces) + (0.03125 * edges + 0.015625 * ends);
}

#endif
