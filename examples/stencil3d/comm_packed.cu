/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ghosts by messages for fields on a GPU, for comparison: one kernel packs the edges of all fields, a message goes in
 * each direction, and one kernel unpacks. Messages are of GPU memory where MPI says that it takes that; else what is
 * packed goes through page-locked host memory, in one copy each way. What stays on this rank never leaves the GPU.
 *
 * The host waits for the packing, not for the sweep beside it. What came is unpacked in the stream before the next
 * packing, for which the host waits before it receives again: so nothing is overwritten.
 */
#include <cstdlib>

#include "stencil3d_cuda.h"

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

namespace {

const int LANES = 256;

/* Edges or ghosts in one direction, and where they are packed. */
struct part {
    ptrdiff_t first;
    unsigned cells[DIMS];
    double *packed;
};

struct parts {
    double *fields; /* the buffer that they are of */
    ptrdiff_t row, plane;
    size_t field;
    struct part part[DIRECTIONS - 1]; /* all but the centre */
};

struct packed {
    struct comm base; /* first, so that a pointer to it is one to this */
    const struct block *block;
    struct space *space;
    cudaStream_t stream;
    bool staged;
    int count, remote;            /* directions that the stencil needs, those to other ranks first */
    int way[DIRECTIONS];          /* which */
    size_t start[DIRECTIONS + 1]; /* doubles, in the memories of edges and of ghosts */
    double *out, *in;             /* on the GPU */
    double *host_out, *host_in;   /* page-locked, for messages that are staged */
    struct parts edges, ghosts;
    size_t most; /* cells of the largest part */
};

packed *packed_of(struct comm *comm) {
    return reinterpret_cast<packed *>(comm);
}

/* ------------------------------------------------------------------------------------------------ kernels */

/* Parts are the y of the grid, fields its z. */
template <bool PACK> __global__ void move_parts(parts p) {
    const part &q = p.part[blockIdx.y];
    const unsigned count = q.cells[0] * q.cells[1] * q.cells[2];
    double *field = p.fields + blockIdx.z * p.field + q.first, *packed = q.packed + (size_t)blockIdx.z * count;

    for (unsigned n = blockIdx.x * LANES + threadIdx.x; n < count; n += gridDim.x * LANES) {
        const unsigned k = n % q.cells[2], line = n / q.cells[2];
        double *cell = field + line / q.cells[1] * p.plane + line % q.cells[1] * p.row + k;
        if (PACK)
            packed[n] = *cell;
        else
            *cell = packed[n];
    }
}

void move(const packed *p, bool pack, int buffer) {
    const dim3 grid((unsigned)((p->most + LANES - 1) / LANES), (unsigned)p->count, (unsigned)p->block->fields);
    parts argument = pack ? p->edges : p->ghosts;

    argument.fields = p->base.fields + (size_t)buffer * p->block->buffer;
    cuda_launch(pack ? move_parts<true> : move_parts<false>, grid, dim3(LANES), argument, p->stream);
}

/* ---------------------------------------------------------------------------------------------- exchange */

void copy_remote(const packed *p, double *to, const double *from) {
    if (p->staged && p->remote > 0)
        cuda_must(cudaMemcpyAsync(to, from, p->start[p->remote] * sizeof(double), cudaMemcpyDefault, p->stream),
                  "cudaMemcpyAsync");
}

bool packed_start(struct comm *comm, int buffer) {
    const packed *p = packed_of(comm);

    move(p, true, buffer);
    copy_remote(p, p->host_out, p->out);
    return true;
}

/* A message carries the direction in which it leaves as its tag. */
void exchange(const packed *p) {
    const struct block *b = p->block;
    double *in = p->staged ? p->host_in : p->in, *out = p->staged ? p->host_out : p->out;
    MPI_Request requests[2 * DIRECTIONS];

    for (int i = 0; i < p->remote; i++) {
        const int direction = p->way[i], peer = b->neighbour[direction];
        const int count = (int)(p->start[i + 1] - p->start[i]);
        MPI_Irecv(in + p->start[i], count, MPI_DOUBLE, peer, DIRECTIONS - 1 - direction, b->cart, &requests[i]);
        MPI_Isend(out + p->start[i], count, MPI_DOUBLE, peer, direction, b->cart, &requests[p->remote + i]);
    }
    MPI_Waitall(2 * p->remote, requests, MPI_STATUSES_IGNORE);
}

void packed_finish(struct comm *comm, int buffer) {
    const packed *p = packed_of(comm);

    if (p->remote > 0) {
        cuda_must(cudaStreamSynchronize(p->stream), "cudaStreamSynchronize");
        exchange(p);
        copy_remote(p, p->in, p->host_in);
    }
    move(p, false, buffer);
}

/* A receive says when it is ready. */
void packed_release(struct comm *, int) {
}

void packed_wait(struct comm *comm) {
    cuda_must(cudaStreamSynchronize(packed_of(comm)->stream), "cudaStreamSynchronize");
}

void packed_close(struct comm *comm) {
    packed *p = packed_of(comm);

    cudaFreeHost(p->host_in);
    cudaFreeHost(p->host_out);
    cudaFree(p->in);
    cudaFree(p->out);
    if (p->base.fields != nullptr)
        p->space->release(p->space, p->base.fields);
    delete p;
}

/* --------------------------------------------------------------------------------------------------- open */

/* True if MPI says that it takes GPU memory. Where it says nothing it may crash. */
bool mpi_takes_gpu_memory() {
#if defined(MPIX_CUDA_AWARE_SUPPORT) && MPIX_CUDA_AWARE_SUPPORT
    return MPIX_Query_cuda_support() == 1;
#else
    return false;
#endif
}

void add_direction(packed *p, int direction) {
    const struct box edge = block_edge(p->block, direction);
    const size_t cells = cells_of(&edge);

    p->way[p->count] = direction;
    p->start[p->count + 1] = p->start[p->count] + cells * (size_t)p->block->fields;
    p->most = cells > p->most ? cells : p->most;
    p->count++;
}

void sort_directions(packed *p) {
    const struct block *b = p->block;

    for (int d = 0; d < DIRECTIONS; d++)
        if (block_needs(b, d) && b->neighbour[d] != b->rank)
            add_direction(p, d);
    p->remote = p->count;
    for (int d = 0; d < DIRECTIONS; d++)
        if (block_needs(b, d) && b->neighbour[d] == b->rank)
            add_direction(p, d);
}

part part_of(const struct block *b, const struct box *box, double *memory) {
    part q;
    q.first = first_cell(b, box);
    for (int d = 0; d < DIMS; d++)
        q.cells[d] = (unsigned)box->cells[d];
    q.packed = memory;
    return q;
}

/* Ghosts that come from myself are the edges at the other end. */
double *packed_ghosts(const packed *p, int i) {
    if (i < p->remote)
        return p->in + p->start[i];
    for (int k = p->remote; k < p->count; k++)
        if (p->way[k] == DIRECTIONS - 1 - p->way[i])
            return p->out + p->start[k];
    return nullptr; /* no direction is without an opposite one */
}

void list_parts(packed *p) {
    const struct block *b = p->block;

    p->edges.row = p->ghosts.row = b->row;
    p->edges.plane = p->ghosts.plane = b->plane;
    p->edges.field = p->ghosts.field = b->field;
    for (int i = 0; i < p->count; i++) {
        const struct box edge = block_edge(b, p->way[i]), ghosts = block_ghosts(b, p->way[i]);
        p->edges.part[i] = part_of(b, &edge, p->out + p->start[i]);
        p->ghosts.part[i] = part_of(b, &ghosts, packed_ghosts(p, i));
    }
}

bool host_memory(double **memory_out, size_t bytes) {
    return cudaMallocHost(reinterpret_cast<void **>(memory_out), bytes) == cudaSuccess;
}

bool allocate(packed *p) {
    const size_t bytes = p->start[p->count] * sizeof(double);

    p->base.fields = p->space->allocate(p->space, BUFFERS * p->block->buffer);
    return p->base.fields != nullptr && cudaMalloc(&p->out, bytes) == cudaSuccess &&
           cudaMalloc(&p->in, bytes) == cudaSuccess &&
           (!p->staged || (host_memory(&p->host_out, bytes) && host_memory(&p->host_in, bytes)));
}

} // namespace

extern "C" struct comm *comm_packed_open(const struct block *block, struct space *space, bool staged) {
    packed *p = new packed();

    p->block = block;
    p->space = space;
    p->stream = static_cast<cudaStream_t>(space->stream);
    p->staged = staged || !agree(mpi_takes_gpu_memory());
    p->base.name = p->staged ? "staged" : "mpi";
    p->base.start = packed_start;
    p->base.finish = packed_finish;
    p->base.release = packed_release;
    p->base.wait = packed_wait;
    p->base.close = packed_close;
    cuda_load(move_parts<false>);
    cuda_load(move_parts<true>);
    sort_directions(p);
    if (!agree(allocate(p))) {
        cudaGetLastError(); /* the caller says it */
        packed_close(&p->base);
        return nullptr;
    }
    list_parts(p);
    return &p->base;
}
