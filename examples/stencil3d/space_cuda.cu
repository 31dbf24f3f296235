/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fields in GPU memory, swept by kernels in one stream, while exchanges have another of higher priority: their blocks
 * of threads come first as soon as some of a sweep's have ended. Two events keep the streams in order, in graphs too.
 */
#include <cstdio>

#include "stencil.h"
#include "stencil3d_cuda.h"

namespace {

const int WIDTH = 32, HEIGHT = 8, THREADS = WIDTH * HEIGHT; /* of a block of threads */
const int DEPTH = 16;                                       /* planes that it goes through */

struct gpu {
    struct space base; /* first, so that a pointer to it is one to this */
    cudaStream_t sweeps, exchanges;
    cudaEvent_t swept, exchanged;
};

gpu *gpu_of(struct space *space) {
    return reinterpret_cast<gpu *>(space);
}

/* ------------------------------------------------------------------------------------------------ kernels */

struct region {
    ptrdiff_t first; /* cell, counted from the beginning of a field */
    unsigned cells[DIMS];
};

/* What a sweep is about: one large region in chunks of planes, or several thin ones. */
struct task {
    const double *now;
    double *next;
    ptrdiff_t row, plane;
    size_t field;
    unsigned chunks;
    struct region region[SHELL_BOXES];
};

template <int POINTS> __device__ double mean(const double *u, const task &t) {
    return POINTS == DIRECTIONS ? mean_of_27(u, t.row, t.plane) : mean_of_7(u, t.row, t.plane);
}

/* A large region: a thread goes through the planes of a chunk, so that caches hold what it needs again. */
template <int POINTS> __global__ void sweep_region(task t) {
    const region &r = t.region[0];
    const unsigned k = blockIdx.x * WIDTH + threadIdx.x, j = blockIdx.y * HEIGHT + threadIdx.y;
    const unsigned field = blockIdx.z / t.chunks, begin = blockIdx.z % t.chunks * DEPTH;
    const unsigned end = begin + DEPTH < r.cells[0] ? begin + DEPTH : r.cells[0];
    const double *__restrict__ now = t.now;
    double *__restrict__ next = t.next;

    if (k >= r.cells[2] || j >= r.cells[1])
        return;
    ptrdiff_t c = (ptrdiff_t)(field * t.field) + r.first + begin * t.plane + j * t.row + k;
    for (unsigned i = begin; i < end; i++, c += t.plane)
        next[c] = mean<POINTS>(now + c, t);
}

/* Thin regions, one for each y of the grid: cells by number, since some are one cell wide. */
template <int POINTS> __global__ void sweep_shell(task t) {
    const region &r = t.region[blockIdx.y];
    const unsigned count = r.cells[0] * r.cells[1] * r.cells[2];
    const ptrdiff_t start = (ptrdiff_t)(blockIdx.z * t.field) + r.first;

    for (unsigned n = blockIdx.x * THREADS + threadIdx.x; n < count; n += gridDim.x * THREADS) {
        const unsigned k = n % r.cells[2], line = n / r.cells[2];
        const ptrdiff_t c = start + line / r.cells[1] * t.plane + line % r.cells[1] * t.row + k;
        t.next[c] = mean<POINTS>(t.now + c, t);
    }
}

/* ------------------------------------------------------------------------------------------------- sweeps */

region region_of(const struct block *b, const struct box *box) {
    region r;
    r.first = first_cell(b, box);
    for (int d = 0; d < DIMS; d++)
        r.cells[d] = (unsigned)box->cells[d];
    return r;
}

unsigned blocks_for(size_t cells, unsigned each) {
    return (unsigned)((cells + each - 1) / each);
}

void sweep_one(const gpu *g, const struct block *b, task *t) {
    const unsigned *cells = t->region[0].cells;

    t->chunks = blocks_for(cells[0], DEPTH);
    const dim3 grid(blocks_for(cells[2], WIDTH), blocks_for(cells[1], HEIGHT), t->chunks * (unsigned)b->fields);
    cuda_launch(b->points == DIRECTIONS ? sweep_region<DIRECTIONS> : sweep_region<7>, grid, dim3(WIDTH, HEIGHT), *t,
                g->sweeps);
}

void sweep_several(const gpu *g, const struct block *b, const task *t, int count, size_t most) {
    const dim3 grid(blocks_for(most, THREADS), (unsigned)count, (unsigned)b->fields);

    cuda_launch(b->points == DIRECTIONS ? sweep_shell<DIRECTIONS> : sweep_shell<7>, grid, dim3(THREADS), *t, g->sweeps);
}

void sweep(struct space *space, const struct block *b, const double *now, double *next, const struct box *boxes,
           int count) {
    task t = {now, next, b->row, b->plane, b->field, 1, {}};
    size_t most = 0;

    for (int i = 0; i < count; i++) {
        t.region[i] = region_of(b, &boxes[i]);
        most = cells_of(&boxes[i]) > most ? cells_of(&boxes[i]) : most;
    }
    if (most > 0 && count == 1)
        sweep_one(gpu_of(space), b, &t);
    else if (most > 0)
        sweep_several(gpu_of(space), b, &t, count, most);
}

/* ------------------------------------------------------------------------------------- streams and graphs */

void follow(cudaStream_t stream, cudaEvent_t event, cudaStream_t leader) {
    cuda_must(cudaEventRecord(event, leader), "cudaEventRecord");
    cuda_must(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
}

void fork_exchanges(struct space *space) {
    const gpu *g = gpu_of(space);
    follow(g->exchanges, g->swept, g->sweeps);
}

void join_exchanges(struct space *space) {
    const gpu *g = gpu_of(space);
    follow(g->sweeps, g->exchanged, g->exchanges);
}

/* The stream of exchanges comes into the capture by its first fork, and a join leads it back. */
void record(struct space *space) {
    cuda_must(cudaStreamBeginCapture(gpu_of(space)->sweeps, cudaStreamCaptureModeThreadLocal),
              "cudaStreamBeginCapture");
}

void *recorded(struct space *space) {
    const gpu *g = gpu_of(space);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;

    if (cudaStreamEndCapture(g->sweeps, &graph) == cudaSuccess && graph != nullptr) {
        if (cudaGraphInstantiateWithFlags(&ready, graph, 0) == cudaSuccess)
            cuda_must(cudaGraphUpload(ready, g->sweeps), "cudaGraphUpload");
        else
            ready = nullptr;
        cudaGraphDestroy(graph);
    }
    cudaGetLastError(); /* without a graph the steps are given one by one */
    return ready;
}

void replay(struct space *space, void *graph) {
    cuda_must(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), gpu_of(space)->sweeps), "cudaGraphLaunch");
}

void forget(struct space *space, void *graph) {
    cuda_must(cudaStreamSynchronize(gpu_of(space)->sweeps), "cudaStreamSynchronize");
    cuda_must(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)), "cudaGraphExecDestroy");
}

/* ------------------------------------------------------------------------------------------------- memory */

double *allocate(struct space *, size_t count) {
    void *memory = nullptr;

    if (cudaMalloc(&memory, count * sizeof(double)) != cudaSuccess) {
        cudaGetLastError(); /* the caller says it */
        return nullptr;
    }
    return static_cast<double *>(memory);
}

void release(struct space *, double *memory) {
    cuda_must(cudaFree(memory), "cudaFree");
}

void copy(struct space *space, double *to, const double *from, size_t count) {
    const gpu *g = gpu_of(space);

    cuda_must(cudaMemcpyAsync(to, from, count * sizeof(double), cudaMemcpyDefault, g->sweeps), "cudaMemcpyAsync");
    cuda_must(cudaStreamSynchronize(g->sweeps), "cudaStreamSynchronize");
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
        fprintf(stderr, "stencil3d: no GPU: %s\n", cudaGetErrorString(code));
    return code == cudaSuccess;
}

void close_gpu(struct space *space) {
    gpu *g = gpu_of(space);

    cudaEventDestroy(g->exchanged);
    cudaEventDestroy(g->swept);
    cudaStreamDestroy(g->exchanges);
    cudaStreamDestroy(g->sweeps);
    delete g;
}

void make_streams(gpu *g) {
    int lowest = 0, highest = 0;

    cuda_must(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    cuda_must(cudaStreamCreateWithPriority(&g->sweeps, cudaStreamNonBlocking, lowest), "cudaStreamCreateWithPriority");
    cuda_must(cudaStreamCreateWithPriority(&g->exchanges, cudaStreamNonBlocking, highest),
              "cudaStreamCreateWithPriority");
    cuda_must(cudaEventCreateWithFlags(&g->swept, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    cuda_must(cudaEventCreateWithFlags(&g->exchanged, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

void fill_table(struct space *space) {
    space->name = "cuda";
    space->allocate = allocate;
    space->release = release;
    space->store = copy;
    space->load = copy;
    space->fork = fork_exchanges;
    space->join = join_exchanges;
    space->sweep = sweep;
    space->record = record;
    space->recorded = recorded;
    space->replay = replay;
    space->forget = forget;
    space->close = close_gpu;
}

} // namespace

void cuda_must(cudaError_t code, const char *call) {
    if (code == cudaSuccess)
        return;
    fprintf(stderr, "stencil3d: %s: %s\n", call, cudaGetErrorString(code));
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    exit(EXIT_FAILURE);
}

extern "C" bool space_cuda_available(void) {
    return true;
}

extern "C" struct space *space_cuda_open(void) {
    if (!agree(choose_device()))
        return nullptr;
    gpu *g = new gpu();
    make_streams(g);
    cuda_load(sweep_region<7>);
    cuda_load(sweep_region<DIRECTIONS>);
    cuda_load(sweep_shell<7>);
    cuda_load(sweep_shell<DIRECTIONS>);
    fill_table(&g->base);
    g->base.stream = g->exchanges;
    return &g->base;
}
