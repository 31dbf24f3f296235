/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels, for space_cuda.cu alone.
 *
 * An iteration is one kernel. Whoever needs r of a cell computes it from what the last iteration has left of r, s and
 * w, so that no block of threads waits for another; what they need is still there because these three come in twos. The
 * fused operation is spelled out there, because a cell must have the same bits wherever it is computed, here and on the
 * neighbour's GPU.
 *
 * Sums have one order: threads of a warp as a tree, warps and then blocks by number, in whichever block ends last. The
 * number of blocks depends on the size alone, so a run repeats bit by bit.
 */
#ifndef HEAT_SWEEPS_CUH
#define HEAT_SWEEPS_CUH

#include <cuda_runtime.h>

#include "heat_cuda.h"

namespace {

const int WIDTH = 32, HEIGHT = 8, THREADS = WIDTH * HEIGHT; /* of a block of threads; a warp is a piece of a row */
const int MAX_BLOCKS = 2048;

/* The block of cells, and pointers to its cell (0, 0). A sweep reads r, s and w and writes the next ones. */
struct fields {
    int nx, ny;
    ptrdiff_t pitch;
    double *u, *p, *r, *s, *w, *next_r, *next_s, *next_w, *energy;
    const double *half, *density;
};

struct pair {
    double a, b;
};

/* Where a sweep adds up. */
struct total {
    pair *partial;   /* per block of threads */
    unsigned *ended; /* blocks of the sweep under way */
    double *sums;    /* NUM_SUMS of them, in memory of the host or of the GPU */
};

/* Where the iterations of a step are, on the GPU. */
struct state {
    course now;
    int iterations, done;
    unsigned batches; /* that have ended */
};

/* ------------------------------------------------------------------------------------------- adding up */

__device__ int thread_number() {
    return threadIdx.y * WIDTH + threadIdx.x;
}

/* For thread 0: the sum over a block of threads, all of which come here. */
__device__ pair sum_of_block(pair value) {
    __shared__ pair sums[HEIGHT];

    for (int lanes = WIDTH / 2; lanes > 0; lanes /= 2) {
        value.a += __shfl_down_sync(0xffffffffu, value.a, lanes);
        value.b += __shfl_down_sync(0xffffffffu, value.b, lanes);
    }
    __syncthreads(); /* for the next time */
    if (threadIdx.x == 0)
        sums[threadIdx.y] = value;
    __syncthreads();
    value = sums[0];
    for (int warp = 1; warp < HEIGHT; warp++) {
        value.a += sums[warp].a;
        value.b += sums[warp].b;
    }
    return value;
}

/* Every thread of every block comes here with its part. True for one of them, when all parts are in the sums. */
__device__ bool add_up(const total &to, pair part) {
    __shared__ bool last;
    const unsigned blocks = gridDim.x * gridDim.y;
    const pair mine = sum_of_block(part);

    if (thread_number() == 0) {
        to.partial[blockIdx.y * gridDim.x + blockIdx.x] = mine;
        __threadfence();
        last = atomicAdd(to.ended, 1u) == blocks - 1;
    }
    __syncthreads();
    if (!last)
        return false;
    __threadfence();
    pair value = {0, 0};
    for (unsigned k = thread_number(); k < blocks; k += THREADS) {
        value.a += __ldcg(&to.partial[k].a);
        value.b += __ldcg(&to.partial[k].b);
    }
    value = sum_of_block(value);
    if (thread_number() != 0)
        return false;
    *to.ended = 0;
    to.sums[0] = value.a;
    to.sums[1] = value.b;
    return true;
}

/* -------------------------------------------------------------------------------------- simple kernels */

/*
 * Each cell of this block of threads, which has a band of rows: this thread's column, and every HEIGHT-th row. The
 * bands differ by less than HEIGHT rows.
 */
__device__ int column() {
    return (int)(blockIdx.x * WIDTH + threadIdx.x);
}

__device__ int band(const fields &f) {
    return (f.ny + (int)gridDim.y * HEIGHT - 1) / ((int)gridDim.y * HEIGHT) * HEIGHT;
}

__device__ int first_row(const fields &f) {
    return (int)blockIdx.y * band(f) + (int)threadIdx.y;
}

__device__ int end_row(const fields &f) {
    return min(((int)blockIdx.y + 1) * band(f), f.ny);
}

#define EACH_CELL(f, i, j, c)                                                                                          \
    for (int i = column(), j = i < (f).nx ? first_row(f) : (f).ny; j < end_row(f); j += HEIGHT)                        \
        if (const ptrdiff_t c = j * (f).pitch + i; true)

__global__ void set_u_kernel(const fields f) {
    EACH_CELL(f, i, j, c) f.u[c] = f.energy[c] * f.density[c];
}

__global__ void set_energy_kernel(const fields f) {
    EACH_CELL(f, i, j, c) f.energy[c] = f.u[c] / f.density[c];
}

/* (A v) in cell c, where v and its neighbours are given. */
__device__ double apply(const fields &f, ptrdiff_t c, double v, double west, double east, double south, double north) {
    const double *half = f.half + c;
    const double kw = half[0] + half[-1], ke = half[0] + half[1];
    const double ks = half[0] + half[-f.pitch], kn = half[0] + half[f.pitch];

    return (1.0 + ke + kw + kn + ks) * v - ke * east - kw * west - kn * north - ks * south;
}

__device__ double apply_to(const fields &f, ptrdiff_t c, const double *v) {
    v += c;
    return apply(f, c, v[0], v[-1], v[1], v[-f.pitch], v[f.pitch]);
}

__global__ void residual_kernel(const fields f) {
    EACH_CELL(f, i, j, c) f.r[c] = f.u[c] - apply_to(f, c, f.u);
}

/* -------------------------------------------------------------------------------- kernels that add up */

struct adding {
    fields f;
    total to;
    state *steps; /* begins here, unless it is NULL */
};

__global__ void total_kernel(const adding a) {
    const fields &f = a.f;
    pair part = {0, 0};

    EACH_CELL(f, i, j, c) part.a += f.density[c] * f.u[c];
    add_up(a.to, part);
}

__global__ void multiply_kernel(const adding a) {
    const fields &f = a.f;
    pair part = {0, 0};

    EACH_CELL(f, i, j, c) {
        const double r = f.r[c], w = apply_to(f, c, f.r);
        f.w[c] = w;
        part.a += r * r;
        part.b += r * w;
    }
    if (add_up(a.to, part) && a.steps != nullptr)
        *a.steps = state{course_start(), 0, 0, 0};
}

/* ------------------------------------------------------------------------------------- an iteration */

struct iteration {
    fields f;
    total to;
    course given;          /* the coefficients, */
    state *steps;          /* unless they follow from these and from the sums of the last iteration */
    batch_report *reports; /* two, used by turns; NULL in the middle of a batch */
};

/* s and r of a cell in this iteration. */
struct vectors {
    double s, r;
};

__device__ vectors advanced(const fields &f, ptrdiff_t c, const course &now) {
    const double s = fma(now.beta, f.s[c], f.w[c]);

    return vectors{s, fma(-now.alpha, s, f.r[c])};
}

__device__ void keep(const fields &f, ptrdiff_t c, const vectors &v) {
    f.next_s[c] = v.s;
    f.next_r[c] = v.r;
}

/*
 * All that is to be done for a cell; those at the edges do it for the ghosts beyond them too. It loads first and stores
 * then, so that one wait for memory is enough.
 */
__device__ void iterate_cell(const fields &f, int i, int j, ptrdiff_t c, const course &now, pair &part) {
    const vectors here = advanced(f, c, now), west = advanced(f, c - 1, now), east = advanced(f, c + 1, now);
    const vectors south = advanced(f, c - f.pitch, now), north = advanced(f, c + f.pitch, now);
    const double p = fma(now.beta, f.p[c], f.r[c]), u = fma(now.alpha, p, f.u[c]);
    const double w = apply(f, c, here.r, west.r, east.r, south.r, north.r);

    f.p[c] = p;
    f.u[c] = u;
    f.next_w[c] = w;
    keep(f, c, here);
    if (i == 0)
        keep(f, c - 1, west);
    if (i == f.nx - 1)
        keep(f, c + 1, east);
    if (j == 0)
        keep(f, c - f.pitch, south);
    if (j == f.ny - 1)
        keep(f, c + f.pitch, north);
    part.a += here.r * here.r;
    part.b += here.r * w;
}

__device__ void report(const iteration &a, state &s, double rr) {
    if (a.reports == nullptr)
        return;
    a.reports[s.batches % 2] = batch_report{s.iterations, s.done, rr};
    s.batches++;
}

/* The coefficients of this iteration; false if there is none left to do. All threads of all ranks see the same. */
__device__ bool next_course(const iteration &a, course *now_out) {
    if (a.steps == nullptr) {
        *now_out = a.given;
        return true;
    }
    const state s = *a.steps;
    const double rr = a.to.sums[SUM_RR];
    if (s.done || !(sqrt(rr) >= TOLERANCE) || s.iterations == MAX_ITERATIONS)
        return false;
    *now_out = course_next(s.now, rr, a.to.sums[SUM_RAR]);
    return true;
}

/* Only the last thread to end writes what the others read at the beginning; where there is nothing to do, only one. */
__global__ void iterate_kernel(const iteration a) {
    const fields &f = a.f;
    pair part = {0, 0};
    course now;

    if (!next_course(a, &now)) {
        if (blockIdx.x == 0 && blockIdx.y == 0 && thread_number() == 0) {
            a.steps->done = 1;
            report(a, *a.steps, a.steps->now.rr);
        }
        return;
    }
    EACH_CELL(f, i, j, c) iterate_cell(f, i, j, c, now, part);
    if (add_up(a.to, part) && a.steps != nullptr) {
        a.steps->now = now;
        a.steps->iterations++;
        report(a, *a.steps, now.rr);
    }
}

} // namespace

#endif
