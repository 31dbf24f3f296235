/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files that call the CUDA runtime share.
 */
#ifndef HEAT_CUDA_H
#define HEAT_CUDA_H

#include <cuda_runtime_api.h>

#include "heat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ends the job if a call failed: nothing of a run is left then. */
void cuda_must(cudaError_t code, const char *call);

/* Iterations in one piece of work for the stream; the host looks at the residual after each. Even: fields take turns.
 */
enum { BATCH = 8 };

/* What the GPU says at the end of a batch, in host memory. */
struct batch_report {
    int iterations; /* so far, in this step */
    int done;       /* and no further ones, for this reason */
    double rr;
};

/*
 * Iterations whose coefficients stay on the GPU. It counts them, and sees for itself when they are to end: what is
 * launched beyond the last one changes nothing. gpu_begin is space->multiply, and begins a step.
 */
void gpu_begin(struct problem *problem);
void gpu_iterate(struct problem *problem, int turn, bool last_of_batch);
double *gpu_sums(const struct problem *problem);                                  /* of the latest sweep, on the GPU */
const struct batch_report *gpu_report(const struct problem *problem, long batch); /* of that batch of the step */

/* space->solve, forget and way of GPUs; solver_cuda.c. */
int gpu_solve(struct problem *problem, struct comm *comm, struct progress *progress);
void gpu_forget(struct problem *problem);
const char *gpu_way(const struct problem *problem);

#ifdef __cplusplus
}
#endif

#endif
