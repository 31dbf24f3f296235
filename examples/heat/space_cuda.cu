/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fields in GPU memory, swept by kernels in one stream.
 *
 * The first sweep of an iteration is one kernel that writes the new p beside the old one: whoever needs p of a cell
 * computes it from the old p and from r, so that no block of threads waits for another. The fused operation is spelled
 * out there, because a cell's p must have the same bits wherever it is computed, here and on the neighbour's GPU.
 *
 * Sums have one order: threads of a block as a tree, then the blocks by number, in whichever block ends last. The
 * number of blocks depends on the size alone, so a run repeats bit by bit.
 */
#include <cuda_runtime.h>

#include <cstdlib>

#include "heat_cuda.h"

namespace {

const int WIDTH = 32, HEIGHT = 8, THREADS = WIDTH * HEIGHT; /* of a block of threads */
const int MAX_BLOCKS = 2048;

struct gpu {
    struct space base; /* first, so that a pointer to it is one to this */
    cudaStream_t stream;
    cudaEvent_t added; /* the latest sweep that adds something up has ended */
    double *partial;   /* per block */
    unsigned *ended;   /* blocks of the sweep under way */
    double *sum;       /* in host memory that the GPU writes */
};

/* ---------------------------------------------------------------------------------------- in kernels: sums */

struct total {
    double *partial;
    unsigned *ended;
    double *sum;
};

__device__ double sum_of_block(double value) {
    __shared__ double values[THREADS];
    const int t = threadIdx.y * WIDTH + threadIdx.x;

    values[t] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half)
            values[t] += values[t + half];
        __syncthreads();
    }
    const double sum = values[0];
    __syncthreads();
    return sum;
}

/* Every thread of every block comes here with its part. */
__device__ void add_up(const total &to, double part) {
    __shared__ bool last;
    const int t = threadIdx.y * WIDTH + threadIdx.x;
    const unsigned blocks = gridDim.x * gridDim.y;
    const double mine = sum_of_block(part);

    if (t == 0) {
        to.partial[blockIdx.y * gridDim.x + blockIdx.x] = mine;
        __threadfence();
        last = atomicAdd(to.ended, 1u) == blocks - 1;
    }
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    double value = 0;
    for (unsigned k = t; k < blocks; k += THREADS)
        value += __ldcg(&to.partial[k]);
    value = sum_of_block(value);
    if (t == 0) {
        *to.ended = 0;
        *to.sum = value;
    }
}

/* ------------------------------------------------------------------------------------------------ kernels */

/* The block, and pointers to its cell (0, 0). */
struct fields {
    int nx, ny;
    ptrdiff_t pitch;
    double *u, *r, *p, *next_p, *w, *energy;
    const double *half, *density;
};

/* Cells of a frame of `ghosts` around the block: this thread's column, and its first row and the step to the next. */
__device__ int column(int ghosts) {
    return (int)(blockIdx.x * WIDTH + threadIdx.x) - ghosts;
}

__device__ int first_row(int ghosts) {
    return (int)(blockIdx.y * HEIGHT + threadIdx.y) - ghosts;
}

__device__ int row_step() {
    return (int)gridDim.y * HEIGHT;
}

#define EACH_CELL(f, c)                                                                                                \
    if (column(0) < (f).nx)                                                                                            \
        for (ptrdiff_t j = first_row(0), c = j * (f).pitch + column(0); j < (f).ny;                                    \
             j += row_step(), c = j * (f).pitch + column(0))

__global__ void set_u_kernel(fields f) {
    EACH_CELL(f, c) f.u[c] = f.energy[c] * f.density[c];
}

__global__ void set_energy_kernel(fields f) {
    EACH_CELL(f, c) f.energy[c] = f.u[c] / f.density[c];
}

__global__ void finish_u_kernel(fields f, double alpha) {
    EACH_CELL(f, c) f.u[c] += alpha * f.p[c];
}

/* (A v) in cell c, where v and its neighbours are given. */
__device__ double apply(const fields &f, ptrdiff_t c, double v, double west, double east, double south, double north) {
    const double *half = f.half + c;
    const double kw = half[0] + half[-1], ke = half[0] + half[1];
    const double ks = half[0] + half[-f.pitch], kn = half[0] + half[f.pitch];

    return (1.0 + ke + kw + kn + ks) * v - ke * east - kw * west - kn * north - ks * south;
}

__global__ void residual_kernel(fields f, total to) {
    double part = 0;

    EACH_CELL(f, c) {
        const double *u = f.u + c;
        const double r = u[0] - apply(f, c, u[0], u[-1], u[1], u[-f.pitch], u[f.pitch]);
        f.r[c] = r;
        part += r * r;
    }
    add_up(to, part);
}

/* p in the iteration that begins. */
__device__ double turned(const fields &f, ptrdiff_t c, double beta) {
    return fma(beta, f.p[c], f.r[c]);
}

__global__ void turn_kernel(fields f, double alpha, double beta, total to) {
    const int i = column(1);
    double part = 0;

    if (i <= f.nx) {
        for (int j = first_row(1); j <= f.ny; j += row_step()) {
            const ptrdiff_t c = j * f.pitch + i;
            const double p = turned(f, c, beta);
            f.next_p[c] = p;
            if (i < 0 || i == f.nx || j < 0 || j == f.ny)
                continue;
            const double w = apply(f, c, p, turned(f, c - 1, beta), turned(f, c + 1, beta),
                                   turned(f, c - f.pitch, beta), turned(f, c + f.pitch, beta));
            f.u[c] += alpha * f.p[c];
            f.w[c] = w;
            part += w * p;
        }
    }
    add_up(to, part);
}

__global__ void descend_kernel(fields f, double alpha, total to) {
    double part = 0;

    EACH_CELL(f, c) {
        const double r = f.r[c] - alpha * f.w[c];
        f.r[c] = r;
        part += r * r;
    }
    add_up(to, part);
}

__global__ void total_kernel(fields f, total to) {
    double part = 0;

    EACH_CELL(f, c) part += f.density[c] * f.u[c];
    add_up(to, part);
}

/* ------------------------------------------------------------------------------------------------- sweeps */

gpu *gpu_of(const problem *problem) {
    return reinterpret_cast<gpu *>(problem->space);
}

fields fields_of(const problem *problem) {
    const ptrdiff_t first = cell(&problem->block, 0, 0);
    fields f;

    f.nx = problem->block.nx;
    f.ny = problem->block.ny;
    f.pitch = problem->block.pitch;
    f.u = problem->u + first;
    f.r = problem->r + first;
    f.p = problem->p + first;
    f.next_p = problem->next_p + first;
    f.w = problem->w + first;
    f.energy = problem->energy + first;
    f.half = problem->half + first;
    f.density = problem->density + first;
    return f;
}

total total_of(const gpu *g) {
    const total to = {g->partial, g->ended, g->sum};
    return to;
}

/* Blocks for the cells and a frame of ghosts. Where rows are many, a block takes several. */
dim3 grid_for(const problem *problem, int ghosts) {
    const int columns = (problem->block.nx + 2 * ghosts + WIDTH - 1) / WIDTH;
    const int rows = (problem->block.ny + 2 * ghosts + HEIGHT - 1) / HEIGHT;
    const int most = columns < MAX_BLOCKS ? MAX_BLOCKS / columns : 1;

    return dim3((unsigned)columns, (unsigned)(rows < most ? rows : most));
}

const dim3 THREADS_OF_BLOCK(WIDTH, HEIGHT);

void launched(const char *kernel) {
    cuda_must(cudaGetLastError(), kernel);
}

/* What comes later in the stream does not hold up the sum. */
void adds_up(const gpu *g, const char *kernel) {
    launched(kernel);
    cuda_must(cudaEventRecord(g->added, g->stream), "cudaEventRecord");
}

double sum(problem *problem) {
    const gpu *g = gpu_of(problem);

    cuda_must(cudaEventSynchronize(g->added), "cudaEventSynchronize");
    return *static_cast<volatile double *>(g->sum);
}

void set_u(problem *problem) {
    set_u_kernel<<<grid_for(problem, 0), THREADS_OF_BLOCK, 0, gpu_of(problem)->stream>>>(fields_of(problem));
    launched("set_u");
}

void set_energy(problem *problem) {
    set_energy_kernel<<<grid_for(problem, 0), THREADS_OF_BLOCK, 0, gpu_of(problem)->stream>>>(fields_of(problem));
    launched("set_energy");
}

void residual(problem *problem) {
    const gpu *g = gpu_of(problem);

    residual_kernel<<<grid_for(problem, 0), THREADS_OF_BLOCK, 0, g->stream>>>(fields_of(problem), total_of(g));
    adds_up(g, "residual");
}

void turn(problem *problem, double alpha, double beta) {
    const gpu *g = gpu_of(problem);

    turn_kernel<<<grid_for(problem, 1), THREADS_OF_BLOCK, 0, g->stream>>>(fields_of(problem), alpha, beta, total_of(g));
    double *const old = problem->p;
    problem->p = problem->next_p;
    problem->next_p = old;
    adds_up(g, "turn");
}

void descend(problem *problem, double alpha) {
    const gpu *g = gpu_of(problem);

    descend_kernel<<<grid_for(problem, 0), THREADS_OF_BLOCK, 0, g->stream>>>(fields_of(problem), alpha, total_of(g));
    adds_up(g, "descend");
}

void finish_u(problem *problem, double alpha) {
    finish_u_kernel<<<grid_for(problem, 0), THREADS_OF_BLOCK, 0, gpu_of(problem)->stream>>>(fields_of(problem), alpha);
    launched("finish_u");
}

void sum_total(problem *problem) {
    const gpu *g = gpu_of(problem);

    total_kernel<<<grid_for(problem, 0), THREADS_OF_BLOCK, 0, g->stream>>>(fields_of(problem), total_of(g));
    adds_up(g, "total");
}

/* ------------------------------------------------------------------------------------------------- memory */

double *allocate(struct space *space, size_t count) {
    const gpu *g = reinterpret_cast<gpu *>(space);
    void *memory = nullptr;

    if (cudaMalloc(&memory, count * sizeof(double)) != cudaSuccess) {
        cudaGetLastError(); /* the caller says it */
        return nullptr;
    }
    cuda_must(cudaMemsetAsync(memory, 0, count * sizeof(double), g->stream), "cudaMemsetAsync");
    return static_cast<double *>(memory);
}

void release(struct space *, double *memory) {
    cuda_must(cudaFree(memory), "cudaFree");
}

void store(struct space *space, double *to, const double *from, size_t count) {
    const gpu *g = reinterpret_cast<gpu *>(space);

    cuda_must(cudaMemcpyAsync(to, from, count * sizeof(double), cudaMemcpyHostToDevice, g->stream), "cudaMemcpyAsync");
    cuda_must(cudaStreamSynchronize(g->stream), "cudaStreamSynchronize");
}

void wait(struct space *space) {
    cuda_must(cudaStreamSynchronize(reinterpret_cast<gpu *>(space)->stream), "cudaStreamSynchronize");
}

/* ------------------------------------------------------------------------------------------ open and close */

/* The device of this rank: those of its node in turn. False, after a message, if it has none. */
bool choose_device() {
    MPI_Comm node;
    int rank = 0, count = 0;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_free(&node);
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaSuccess)
        code = cudaSetDevice(rank % count);
    if (code == cudaSuccess)
        code = cudaFree(nullptr); /* makes the context, which peerwin_init then finds */
    if (code != cudaSuccess)
        fprintf(stderr, "heat: no GPU: %s\n", cudaGetErrorString(code));
    return code == cudaSuccess;
}

void close_gpu(struct space *space) {
    gpu *g = reinterpret_cast<gpu *>(space);

    cudaEventDestroy(g->added);
    cudaFreeHost(g->sum);
    cudaFree(g->ended);
    cudaFree(g->partial);
    cudaStreamDestroy(g->stream);
    delete g;
}

void fill_table(struct space *space) {
    space->name = "cuda";
    space->allocate = allocate;
    space->release = release;
    space->store = store;
    space->set_u = set_u;
    space->set_energy = set_energy;
    space->residual = residual;
    space->turn = turn;
    space->descend = descend;
    space->finish_u = finish_u;
    space->total = sum_total;
    space->sum = sum;
    space->wait = wait;
    space->close = close_gpu;
}

} // namespace

extern "C" void cuda_must(cudaError_t code, const char *call) {
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "heat: %s: %s\n", call, cudaGetErrorString(code));
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

extern "C" bool space_cuda_available(void) {
    return true;
}

extern "C" struct space *space_cuda_open(void) {
    if (!agree(choose_device()))
        return nullptr;
    gpu *g = new gpu();
    cuda_must(cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    cuda_must(cudaEventCreateWithFlags(&g->added, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    cuda_must(cudaMalloc(&g->partial, MAX_BLOCKS * sizeof(double)), "cudaMalloc");
    cuda_must(cudaMalloc(&g->ended, sizeof(unsigned)), "cudaMalloc");
    cuda_must(cudaMallocHost(&g->sum, sizeof(double)), "cudaMallocHost");
    cuda_must(cudaMemsetAsync(g->ended, 0, sizeof(unsigned), g->stream), "cudaMemsetAsync");
    fill_table(&g->base);
    g->base.stream = g->stream;
    return &g->base;
}
