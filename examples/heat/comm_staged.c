/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Communication by messages for fields on a GPU: edges are packed into a buffer, sent, and what came is copied to the
 * ghosts. The buffer is pinned host memory, or, where MPI says that it takes such, memory of the GPU.
 *
 * The host waits for the copies out before it sends, and the copies in are in the stream before the next sweep. They
 * have ended before anything is received again, because by then the host has waited for the stream.
 */
#include <stdlib.h>

#include "heat_cuda.h"

#if defined(OPEN_MPI) && defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

struct staged {
    struct comm base; /* first, so that a pointer to it is one to this */
    struct block block;
    cudaStream_t stream;
    bool takes_gpu_memory;  /* MPI */
    double *fields;         /* on the GPU */
    double *buffer;         /* on the GPU, or pinned */
    double *out[NUM_SIDES]; /* parts of it, one edge each */
    double *in[NUM_SIDES];
};

static bool mpi_takes_gpu_memory(void) {
    int yes = 0;

#if defined(MPIX_CUDA_AWARE_SUPPORT) && MPIX_CUDA_AWARE_SUPPORT
    yes = MPIX_Query_cuda_support();
#elif defined(MPIX_GPU_SUPPORT_CUDA)
    MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &yes);
#endif
    return agree(yes != 0);
}

static int opposite(int side) {
    return side ^ 1;
}

static bool is_row(int side) {
    return side == SOUTH || side == NORTH;
}

static int edge_cells(const struct block *b, int side) {
    return is_row(side) ? b->nx : b->ny;
}

/* The first cell of the edge at `side`, or of the ghosts beyond it. */
static double *edge(const struct staged *s, enum shared field, int side, bool ghosts) {
    const struct block *b = &s->block;
    const int before = ghosts ? -1 : 0, after = ghosts ? 0 : -1;
    const int i = side == WEST ? before : side == EAST ? b->nx + after : 0;
    const int j = side == SOUTH ? before : side == NORTH ? b->ny + after : 0;

    return s->base.shared[field] + cell(b, i, j);
}

/* An edge as rows and columns of a copy: a row of the field is one row, a column as many as it has cells. */
static void copy_edge(const struct staged *s, int side, double *to, size_t to_pitch, const double *from,
                      size_t from_pitch) {
    const size_t cells = (size_t)edge_cells(&s->block, side);
    const size_t width = is_row(side) ? cells : 1, height = is_row(side) ? 1 : cells;

    cuda_must(
        cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width * sizeof(double), height, cudaMemcpyDefault, s->stream),
        "cudaMemcpy2DAsync");
}

/* The pitch of an edge, in bytes: in a field, and where it is packed. */
static size_t field_pitch(const struct block *b) {
    return (size_t)b->pitch * sizeof(double);
}

static size_t packed_pitch(const struct block *b, int side) {
    return sizeof(double) * (is_row(side) ? (size_t)b->nx : 1);
}

static void staged_start(struct comm *comm, enum shared field) {
    const struct staged *s = (const struct staged *)comm;
    const struct block *b = &s->block;

    for (int side = 0; side < NUM_SIDES; side++)
        if (b->neighbour[side] != MPI_PROC_NULL)
            copy_edge(s, side, s->out[side], packed_pitch(b, side), edge(s, field, side, false), field_pitch(b));
}

static void copy_in(const struct staged *s, enum shared field) {
    const struct block *b = &s->block;

    for (int side = 0; side < NUM_SIDES; side++)
        if (b->neighbour[side] != MPI_PROC_NULL)
            copy_edge(s, side, edge(s, field, side, true), field_pitch(b), s->in[side], packed_pitch(b, side));
}

static void staged_add(struct comm *comm, double *value) {
    (void)comm;
    MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* A message carries the side that it leaves from as its tag. */
static void staged_finish(struct comm *comm, enum shared field, double *sums) {
    const struct staged *s = (const struct staged *)comm;
    MPI_Request requests[2 * NUM_SIDES];

    cuda_must(cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");
    for (int side = 0; side < NUM_SIDES; side++) {
        const int count = edge_cells(&s->block, side), peer = s->block.neighbour[side];
        MPI_Irecv(s->in[side], count, MPI_DOUBLE, peer, opposite(side), MPI_COMM_WORLD, &requests[side]);
        MPI_Isend(s->out[side], count, MPI_DOUBLE, peer, side, MPI_COMM_WORLD, &requests[NUM_SIDES + side]);
    }
    if (sums != NULL)
        MPI_Allreduce(MPI_IN_PLACE, sums, NUM_SUMS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Waitall(2 * NUM_SIDES, requests, MPI_STATUSES_IGNORE);
    copy_in(s, field);
}

/* The stream and the messages keep both orders. */
static void staged_release(struct comm *comm, enum shared field) {
    (void)comm;
    (void)field;
}

/* The solver waits for the stream itself. */
static void staged_settle(struct comm *comm) {
    (void)comm;
}

/* Row by row through the room for an edge, so that a message never exceeds what MPI can count. */
static void staged_collect(struct comm *comm, const struct block *from, double *cells) {
    const struct staged *s = (const struct staged *)comm;
    const bool mine = from->rank == s->block.rank;

    for (int j = 0; j < from->ny; j++) {
        double *row = cells != NULL ? cells + (size_t)j * (size_t)from->nx : NULL;
        if (mine) {
            const double *first = s->base.shared[SHARED_U] + cell(from, 0, j);
            cuda_must(cudaMemcpyAsync(from->rank == 0 ? row : s->out[SOUTH], first, (size_t)from->nx * sizeof(double),
                                      cudaMemcpyDefault, s->stream),
                      "cudaMemcpyAsync");
            cuda_must(cudaStreamSynchronize(s->stream), "cudaStreamSynchronize");
        }
        if (mine && from->rank != 0)
            MPI_Send(s->out[SOUTH], from->nx, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
        else if (!mine && s->block.rank == 0)
            MPI_Recv(row, from->nx, MPI_DOUBLE, from->rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void staged_close(struct comm *comm) {
    struct staged *s = (struct staged *)comm;

    if (s->takes_gpu_memory)
        cudaFree(s->buffer);
    else
        cudaFreeHost(s->buffer);
    cudaFree(s->fields);
    free(s);
}

static bool allocate(struct staged *s) {
    const size_t stride = block_field_stride(&s->block), fields = NUM_SHARED * stride * sizeof(double);
    const size_t longest = (size_t)(s->block.nx > s->block.ny ? s->block.nx : s->block.ny);

    const size_t edges = (size_t)(2 * NUM_SIDES) * longest * sizeof(double);

    if (cudaMalloc((void **)&s->fields, fields) != cudaSuccess)
        return false;
    if ((s->takes_gpu_memory ? cudaMalloc((void **)&s->buffer, edges) : cudaMallocHost((void **)&s->buffer, edges)) !=
        cudaSuccess)
        return false;
    cuda_must(cudaMemsetAsync(s->fields, 0, fields, s->stream), "cudaMemsetAsync"); /* ghosts at the walls stay 0 */
    for (int side = 0; side < NUM_SIDES; side++) {
        s->out[side] = s->buffer + (size_t)side * longest;
        s->in[side] = s->buffer + (size_t)(NUM_SIDES + side) * longest;
    }
    for (size_t field = 0; field < NUM_SHARED; field++)
        s->base.shared[field] = s->fields + field * stride;
    return true;
}

struct comm *comm_staged_open(const struct block *block, const struct space *space) {
    const bool takes_gpu_memory = mpi_takes_gpu_memory();
    struct staged *s = calloc(1, sizeof(*s));

    if (s != NULL) {
        s->block = *block;
        s->stream = space->stream;
        s->takes_gpu_memory = takes_gpu_memory;
        s->base.name = takes_gpu_memory ? "mpi (GPU memory)" : "mpi";
        s->base.add = staged_add;
        s->base.start = staged_start;
        s->base.finish = staged_finish;
        s->base.release = staged_release;
        s->base.settle = staged_settle;
        s->base.collect = staged_collect;
        s->base.close = staged_close;
    }
    if (agree(s != NULL && allocate(s)))
        return &s->base;
    if (block->rank == 0)
        fprintf(stderr, "heat: a rank is out of memory\n");
    if (s != NULL)
        staged_close(&s->base);
    return NULL;
}
