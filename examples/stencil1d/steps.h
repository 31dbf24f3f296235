/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The time steps: everything that runs where the window's memory is. One source for both spaces: a kernel of one block
 * on a GPU, a plain function on the host, where the block is one thread.
 *
 * A rank's segment holds its rod twice, old and new by turns, each with a ghost at either end. The thread that computes
 * the first cell stores it into the left neighbour's ghost at once and signals; so does that of the last cell, to the
 * right. A step then waits for both neighbours' signals of that step.
 *
 * No acknowledgement is needed: my step s + 1 is stored where step s - 1 was. I make it after I got the neighbour's
 * step s, and that cell was computed from the ghost of step s - 1, so nobody needs that any more.
 */
#ifndef STENCIL1D_STEPS_H
#define STENCIL1D_STEPS_H

#include <peerwin/device.cuh>

#if defined(__CUDACC__)
#define STEPS static __device__ __forceinline__
#define LANE  threadIdx.x
#define LANES blockDim.x
#else
#define STEPS static inline
#define LANE  0u
#define LANES 1u
#endif

enum { FROM_LEFT = 0, FROM_RIGHT = 1 }; /* signals of my own window: the step that the neighbour has sent */

typedef struct {
    peerwin_view view;
    int left, right;                /* ranks, MPI_PROC_NULL at the walls */
    size_t cells;                   /* my own, 1 or more */
    size_t left_cells, right_cells; /* the neighbours' */
    double factor;                  /* of the second difference */
    uint64_t steps;
} rod;

/* Where the rod of a step is in a segment: cell 0 and cell cells + 1 are the ghosts. */
STEPS size_t place_of(size_t cells, uint64_t step, size_t cell) {
    return ((size_t)(step % 2) * (cells + 2) + cell) * sizeof(double);
}

/* A cell at the edge goes straight into the neighbour's memory, and the signal says which step it is of. */
STEPS void tell(const rod *r, int neighbor, size_t ghost, unsigned slot, double value, uint64_t step) {
    if (neighbor < 0)
        return;
    *(double *)peerwin_dev_ptr(&r->view, neighbor, ghost) = value;
    peerwin_dev_signal(&r->view, neighbor, slot, PEERWIN_SIGNAL_SET, step);
}

STEPS peerwin_status hear(const rod *r, int neighbor, unsigned slot, uint64_t step) {
    return neighbor < 0 ? PEERWIN_OK : peerwin_dev_wait_block(&r->view, slot, step);
}

/* All steps of this rank, from step 0, whose ghosts are there. The same status for every thread of the block. */
STEPS peerwin_status run_steps(const rod *r) {
    peerwin_status status = PEERWIN_OK;
    for (uint64_t step = 1; step <= r->steps && status == PEERWIN_OK; step++) {
        const double *old = (const double *)peerwin_dev_ptr(&r->view, r->view.rank, place_of(r->cells, step - 1, 0));
        double *now = (double *)peerwin_dev_ptr(&r->view, r->view.rank, place_of(r->cells, step, 0));
        for (size_t cell = 1 + LANE; cell <= r->cells; cell += LANES) {
            const double value = old[cell] + r->factor * (old[cell - 1] - 2 * old[cell] + old[cell + 1]);
            now[cell] = value;
            if (cell == 1)
                tell(r, r->left, place_of(r->left_cells, step, r->left_cells + 1), FROM_RIGHT, value, step);
            if (cell == r->cells)
                tell(r, r->right, place_of(r->right_cells, step, 0), FROM_LEFT, value, step);
        }
        status = hear(r, r->left, FROM_LEFT, step);
        if (status == PEERWIN_OK)
            status = hear(r, r->right, FROM_RIGHT, step);
#if defined(__CUDACC__)
        __syncthreads(); /* at the walls nobody was heard, and all cells of the step must be there */
#endif
    }
    return status;
}

#endif
