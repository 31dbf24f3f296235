/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Exchanges of ghosts in NVSHMEM, on two PEs: one kernel that packs, whose blocks put what they have packed and of
 * which the last one signals, and one that waits for the signal and unpacks. Faces that a PE has for itself are packed
 * to where they are unpacked.
 *
 * The memory that is put into has two halves, used by turns: a PE that has signalled round n + 1 has unpacked round n.
 */
#ifndef PEERWIN_BENCH_PEER_NVSHMEM_HALO_CUH
#define PEERWIN_BENCH_PEER_NVSHMEM_HALO_CUH

#include "peer_nvshmem_rows.cuh"

#include <cstring>

/* The kernels that fill and check are those of peerwin's side. */
#define PW_KERNEL                    __global__
#define PEER_CONSTANT                const __grid_constant__
#define SIMK_KERNEL(kernel, params_) static_assert(sizeof(params_) <= 4096, "arguments of " #kernel)
#include "halo_kernels.cuh"

enum { HALO_MOST_BLOCKS = 64, HALO_FLAG = 2 };

struct halo_sending {
    halo_args faces;
    char *put_from, *put_to; /* packed faces for the peer here, and there: the same places, from these addresses on */
    unsigned *done;          /* blocks that have put, 0 before and after */
    unsigned blocks;         /* that have to */
    uint64_t *flag, round;
};

__global__ void __launch_bounds__(HALO_LANES) halo_send(const __grid_constant__ halo_sending a) {
    const unsigned face = blockIdx.y / (unsigned)a.faces.fields, field = blockIdx.y % (unsigned)a.faces.fields;
    const halo_face *f = &a.faces.face[face];
    const char *from = a.faces.array + field * a.faces.field + f->send;
    const uint64_t at = (uint64_t)field * f->cells * a.faces.elem;
    char *to = a.faces.packed[face] + at;
    const uint32_t part = ((f->cells + gridDim.x - 1) / gridDim.x + 15) / 16 * 16, begin = blockIdx.x * part;
    const uint32_t end = begin + part < f->cells ? begin + part : f->cells;
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x)
        halo_element(to + (uint64_t)i * a.faces.elem, from + halo_place(&a.faces, f, i), a.faces.elem);
    if (f->peer == a.faces.rank)
        return;
    __syncthreads();
    if (begin < end) {
        char *mine = to + (uint64_t)begin * a.faces.elem;
        nvshmemx_putmem_nbi_block(a.put_to + (mine - a.put_from), mine, (size_t)(end - begin) * a.faces.elem, f->peer);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        nvshmem_fence();
        if (atomicAdd(a.done, 1u) + 1 == a.blocks) {
            atomicExch(a.done, 0u);
            nvshmem_fence();
            nvshmemx_signal_op(a.flag, a.round, NVSHMEM_SIGNAL_SET, f->peer);
        }
    }
}

__global__ void __launch_bounds__(HALO_LANES) halo_receive(const __grid_constant__ halo_sending a) {
    const unsigned face = blockIdx.y / (unsigned)a.faces.fields, field = blockIdx.y % (unsigned)a.faces.fields;
    const halo_face *f = &a.faces.face[face];
    const char *from = a.faces.packed[face] + (uint64_t)field * f->cells * a.faces.elem;
    char *to = a.faces.array + field * a.faces.field + f->recv;
    if (f->peer != a.faces.rank)
        await(a.flag, a.round);
    SIMK_GRID_STRIDE(i, f->cells) {
        halo_element(to + halo_place(&a.faces, f, (uint32_t)i), from + i * a.faces.elem, a.faces.elem);
    }
}

/* --------------------------------------------------------------------------------------------- begin and end */

struct halo_side {
    int number; /* of the blocks, PLAN_NO_HALO = not open */
    halo_shape shape;
    halo_face face[SHAPE_SIDES];
    int faces;
    uint64_t slots;
    char *array;         /* of the device */
    char *packed, *half; /* symmetric: for the peer; from the peer, in two halves */
    unsigned *done;
    uint64_t *wrong;
    dim3 grid;
    unsigned putting;
};

static halo_side open_blocks; /* of the rows that are being measured */
static uint64_t halo_round;   /* the same on both PEs */

static void close_halo() {
    halo_side &h = open_blocks;
    if (h.number == PLAN_NO_HALO)
        return;
    CHECK(cudaFree(h.array));
    CHECK(cudaFree(h.done));
    CHECK(cudaFree(h.wrong));
    nvshmem_free(h.packed);
    nvshmem_free(h.half);
    h = halo_side();
}

static void count_blocks(const side &s, halo_side &h) {
    uint32_t most = 1;
    int others = 0;
    for (int i = 0; i < h.faces; i++) {
        most = std::max(most, h.face[i].cells);
        others += h.face[i].peer != s.rank;
    }
    const unsigned across = std::min<unsigned>((most + HALO_LANES - 1) / HALO_LANES, HALO_MOST_BLOCKS);
    h.grid = dim3(across, (unsigned)(h.faces * h.shape.fields));
    h.putting = across * (unsigned)(others * h.shape.fields);
}

static void open_halo(const side &s, int number) {
    halo_side &h = open_blocks;
    if (h.number == number)
        return;
    close_halo();
    h.number = number;
    h.shape = plan_halos[number];
    h.faces = shape_faces(&h.shape, s.rank, h.face);
    h.slots = shape_slot(&h.shape, 2 * h.shape.dims);
    h.packed = (char *)nvshmem_malloc(h.slots);
    h.half = (char *)nvshmem_malloc(2 * h.slots);
    if (h.packed == NULL || h.half == NULL)
        fail("nvshmem_malloc", "no memory");
    CHECK(cudaMalloc((void **)&h.array, shape_bytes(&h.shape)));
    CHECK(cudaMalloc((void **)&h.done, sizeof *h.done));
    CHECK(cudaMalloc((void **)&h.wrong, sizeof *h.wrong));
    CHECK(cudaMemset(h.done, 0, sizeof *h.done));
    CHECK(cudaDeviceSynchronize());
    count_blocks(s, h);
}

/* ---------------------------------------------------------------------------------------------- one exchange */

static halo_args halo_arguments(const side &s) {
    const halo_side &h = open_blocks;
    halo_args args = halo_args();
    args.array = h.array;
    args.field = shape_field(&h.shape);
    args.row = h.shape.dims > 1 ? shape_pitch(&h.shape, h.shape.dims - 2) : 0;
    args.plane = h.shape.dims > 2 ? shape_pitch(&h.shape, h.shape.dims - 3) : 0;
    args.bytes = shape_bytes(&h.shape);
    args.wrong = h.wrong;
    args.rank = s.rank;
    args.fields = h.shape.fields;
    args.elem = (uint32_t)h.shape.elem;
    args.faces = h.faces;
    memcpy(args.face, h.face, sizeof args.face);
    return args;
}

static void exchange(const side &s) {
    const halo_side &h = open_blocks;
    halo_sending a = halo_sending();
    char *half = h.half + ++halo_round % 2 * h.slots;
    a.faces = halo_arguments(s);
    a.put_from = h.packed;
    a.put_to = half;
    a.done = h.done;
    a.blocks = h.putting;
    a.flag = s.flag + HALO_FLAG;
    a.round = halo_round;
    for (int i = 0; i < h.faces; i++)
        a.faces.packed[i] = (h.face[i].peer == s.rank ? half : h.packed) + shape_slot(&h.shape, h.face[i].side ^ 1);
    halo_send<<<h.grid, HALO_LANES, 0, s.stream>>>(a);
    for (int i = 0; i < h.faces; i++)
        a.faces.packed[i] = half + shape_slot(&h.shape, h.face[i].side);
    halo_receive<<<h.grid, HALO_LANES, 0, s.stream>>>(a);
    CHECK(cudaGetLastError());
}

/* One exchange into an array that was filled anew. */
static void prove_halo(const side &s, const plan_row &row) {
    const halo_args args = halo_arguments(s);
    uint64_t wrong = 0;
    CHECK(cudaMemset(args.wrong, 0, sizeof wrong));
    halo_fill<<<512, HALO_LANES, 0, s.stream>>>(args);
    CHECK(cudaDeviceSynchronize());
    MPI_Barrier(MPI_COMM_WORLD);
    exchange(s);
    halo_check<<<open_blocks.grid, HALO_LANES, 0, s.stream>>>(args);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&wrong, args.wrong, sizeof wrong, cudaMemcpyDeviceToHost));
    if (wrong != 0)
        fail(row.name, "ghosts are wrong");
    MPI_Barrier(MPI_COMM_WORLD);
}

static double run_halo(side &s, const plan_row &row, int iterations) {
    open_halo(s, row.halo);
    prove_halo(s, row);
    const auto work = [&](int few) {
        for (int i = 0; i < (few != 0 ? few : iterations); i++)
            exchange(s);
    };
    return timed(s, work) / iterations;
}

#endif
