/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fields in GPU memory, swept by kernels in one stream; sweeps.cuh has the kernels.
 *
 * Sums go to the host, for ranks that communicate by messages, or stay on the GPU: see gpu_begin and gpu_iterate.
 */
#include <cstdlib>

#include "sweeps.cuh"

namespace {

struct gpu {
    struct space base; /* first, so that a pointer to it is one to this */
    cudaStream_t stream;
    cudaEvent_t added;     /* the latest sweep that adds something up has ended */
    pair *partial;         /* per block of threads */
    unsigned *ended;       /* blocks of the sweep under way */
    double *sums;          /* NUM_SUMS, in GPU memory */
    double *seen;          /* the same in host memory that the GPU writes */
    state *steps;          /* in GPU memory */
    batch_report *reports; /* two, in host memory that the GPU writes */
};

gpu *gpu_of(const problem *problem) {
    return reinterpret_cast<gpu *>(problem->space);
}

/* As the sweep sees them that reads those of `turn`. */
fields fields_of(const problem *problem, int turn) {
    const ptrdiff_t first = cell(&problem->block, 0, 0);
    fields f;

    f.nx = problem->block.nx;
    f.ny = problem->block.ny;
    f.pitch = problem->block.pitch;
    f.u = problem->u + first;
    f.p = problem->p + first;
    f.r = problem->r[turn] + first;
    f.s = problem->s[turn] + first;
    f.w = problem->w[turn] + first;
    f.next_r = problem->r[!turn] + first;
    f.next_s = problem->s[!turn] + first;
    f.next_w = problem->w[!turn] + first;
    f.energy = problem->energy + first;
    f.half = problem->half + first;
    f.density = problem->density + first;
    return f;
}

/* Blocks of threads for the cells. Where rows are many, one has several bands of them. */
dim3 grid_for(const problem *problem) {
    const int columns = (problem->block.nx + WIDTH - 1) / WIDTH, rows = (problem->block.ny + HEIGHT - 1) / HEIGHT;
    const int most = columns < MAX_BLOCKS ? MAX_BLOCKS / columns : 1;

    return dim3((unsigned)columns, (unsigned)(rows < most ? rows : most));
}

/* Every kernel takes one argument. */
template <typename Argument> void launch(void (*kernel)(Argument), const problem *problem, Argument argument) {
    void *arguments[] = {const_cast<std::remove_const_t<Argument> *>(&argument)};

    cuda_must(cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid_for(problem), dim3(WIDTH, HEIGHT),
                               arguments, 0, gpu_of(problem)->stream),
              "cudaLaunchKernel");
}

total total_to(const gpu *g, double *sums) {
    const total to = {g->partial, g->ended, sums};

    return to;
}

/* ------------------------------------------------------------------------------------------------- sweeps */

void set_u(problem *problem) {
    launch(set_u_kernel, problem, fields_of(problem, 0));
}

void set_energy(problem *problem) {
    launch(set_energy_kernel, problem, fields_of(problem, 0));
}

void residual(problem *problem) {
    launch(residual_kernel, problem, fields_of(problem, 0));
}

/* What comes later in the stream does not hold up the sums. */
void added(const gpu *g) {
    cuda_must(cudaEventRecord(g->added, g->stream), "cudaEventRecord");
}

void sums(problem *problem, double *sums_out) {
    const gpu *g = gpu_of(problem);
    const volatile double *seen = g->seen;

    cuda_must(cudaEventSynchronize(g->added), "cudaEventSynchronize");
    for (int k = 0; k < NUM_SUMS; k++)
        sums_out[k] = seen[k];
}

void sum_total(problem *problem) {
    const gpu *g = gpu_of(problem);

    launch(total_kernel, problem, adding{fields_of(problem, 0), total_to(g, g->seen), nullptr});
    added(g);
}

void multiply(problem *problem) {
    const gpu *g = gpu_of(problem);

    launch(multiply_kernel, problem, adding{fields_of(problem, 0), total_to(g, g->seen), nullptr});
    problem->turn = 0;
    added(g);
}

/* The sweep does it: it needs the ghosts of w once more than the host's. */
void take_ghosts(problem *, const course *) {
}

void sweep(problem *problem, const course *course) {
    const gpu *g = gpu_of(problem);

    launch(iterate_kernel, problem,
           iteration{fields_of(problem, problem->turn), total_to(g, g->seen), *course, nullptr, nullptr});
    problem->turn = !problem->turn;
    added(g);
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
    cudaFreeHost(g->reports);
    cudaFreeHost(g->seen);
    cudaFree(g->steps);
    cudaFree(g->sums);
    cudaFree(g->ended);
    cudaFree(g->partial);
    cudaStreamDestroy(g->stream);
    delete g;
}

/* A kernel that is loaded by its first launch waits for those that run, and one of them may wait for another rank. */
void load_kernels() {
    const void *const kernels[] = {
        reinterpret_cast<const void *>(set_u_kernel),    reinterpret_cast<const void *>(set_energy_kernel),
        reinterpret_cast<const void *>(residual_kernel), reinterpret_cast<const void *>(total_kernel),
        reinterpret_cast<const void *>(multiply_kernel), reinterpret_cast<const void *>(iterate_kernel),
    };
    cudaFuncAttributes attributes;

    for (const void *kernel : kernels)
        cuda_must(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
}

template <typename Type> void new_on_gpu(Type **memory, size_t count) {
    cuda_must(cudaMalloc(reinterpret_cast<void **>(memory), count * sizeof(Type)), "cudaMalloc");
    cuda_must(cudaMemset(*memory, 0, count * sizeof(Type)), "cudaMemset");
}

template <typename Type> void new_on_host(Type **memory, size_t count) {
    cuda_must(cudaMallocHost(reinterpret_cast<void **>(memory), count * sizeof(Type)), "cudaMallocHost");
}

void fill_table(struct space *space) {
    space->name = "cuda";
    space->allocate = allocate;
    space->release = release;
    space->store = store;
    space->set_u = set_u;
    space->set_energy = set_energy;
    space->residual = residual;
    space->multiply = multiply;
    space->take_ghosts = take_ghosts;
    space->sweep = sweep;
    space->total = sum_total;
    space->sums = sums;
    space->solve = gpu_solve;
    space->forget = gpu_forget;
    space->way = gpu_way;
    space->wait = wait;
    space->close = close_gpu;
}

} // namespace

/* --------------------------------------------------------------------- iterations that stay on the GPU */

extern "C" void gpu_begin(struct problem *problem) {
    const gpu *g = gpu_of(problem);

    launch(multiply_kernel, problem, adding{fields_of(problem, 0), total_to(g, g->sums), g->steps});
}

extern "C" void gpu_iterate(struct problem *problem, int turn, bool last_of_batch) {
    const gpu *g = gpu_of(problem);

    launch(iterate_kernel, problem,
           iteration{fields_of(problem, turn), total_to(g, g->sums), course_start(), g->steps,
                     last_of_batch ? g->reports : nullptr});
}

extern "C" double *gpu_sums(const struct problem *problem) {
    return gpu_of(problem)->sums;
}

extern "C" const struct batch_report *gpu_report(const struct problem *problem, long batch) {
    return &gpu_of(problem)->reports[batch % 2];
}

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
    load_kernels();
    gpu *g = new gpu();
    cuda_must(cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    cuda_must(cudaEventCreateWithFlags(&g->added, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    new_on_gpu(&g->partial, MAX_BLOCKS);
    new_on_gpu(&g->ended, 1);
    new_on_gpu(&g->sums, NUM_SUMS);
    new_on_gpu(&g->steps, 1);
    new_on_host(&g->seen, NUM_SUMS);
    new_on_host(&g->reports, 2);
    cuda_must(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); /* another stream has filled the memory */
    fill_table(&g->base);
    g->base.stream = g->stream;
    return &g->base;
}
