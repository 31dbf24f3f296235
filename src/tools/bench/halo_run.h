/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Exchanges of ghosts in CUDA space, in every way that is measured: blocks of one shape on all ranks, a plan for them,
 * and what the other ways need. The arrays are the same for all.
 */
#ifndef PEERWIN_BENCH_HALO_RUN_H
#define PEERWIN_BENCH_HALO_RUN_H

#include "cuda.h"
#include "halo_kernels.h"
#include "peer_driver.h"

enum { HALO_IN_A_GRAPH = 16, HALO_HALVES = 2 };

enum {
#define HALO_NUMBER(name) HALO_KERNEL_##name,
    HALO_KERNELS(HALO_NUMBER)
#undef HALO_NUMBER
        HALO_NUM_KERNELS
};

typedef struct {
    const bench *b;
    peerwin_ctx *ctx;
    CUstream stream;
    const peer_driver *more;
    halo_shape shape;
    halo_face faces[SHAPE_SIDES];
    int num_faces;
    halo_range out[SHAPE_SIDES], in[SHAPE_SIDES]; /* between ranks */
    int num_out, num_in;
    bench_window array;
    peerwin_halo *plan;
    CUgraph graph;      /* HALO_IN_A_GRAPH exchanges, */
    CUgraphExec ready;  /* if there is one */
    uint64_t slots;     /* bytes of all packed faces */
    bench_window stage; /* faces from peers and from myself, in two halves by turns */
    char *packed;       /* faces for peers, in device memory */
    char *host;         /* the same and those from peers, page-locked */
    uint64_t round;     /* of the exchange that uses the halves */
    CUmodule module;
    CUfunction kernels[HALO_NUM_KERNELS];
    uint64_t *wrong;        /* device memory */
    struct peer_nccl *nccl; /* for halo_by_nccl (peer_nccl.h) */
} halo_run;

/**
 * Collective. False on every rank, with a message, if this build has no kernels for the device. `run` begins as zeros,
 * and may be opened again for another shape.
 */
bool halo_run_open(halo_run *run, const bench *b, peerwin_ctx *ctx, CUstream stream, const peer_driver *more,
                   const halo_shape *shape);
void halo_run_close(halo_run *run);

/**
 * A way: `times` exchanges, given to the stream. UNSUPPORTED on every rank that has no such thing; every other failure
 * ends the job.
 */
typedef peerwin_status halo_way(halo_run *run, int times);

halo_way halo_by_plan;   /* peerwin_halo_start, peerwin_halo_finish */
halo_way halo_by_graph;  /* the same in a graph: `times` graphs of HALO_IN_A_GRAPH exchanges */
halo_way halo_by_engine; /* pack, cuMemcpyAsync into the neighbour's memory, signal, wait, unpack */
halo_way halo_by_mpi;    /* pack, copy to the host, MPI, copy to the device, unpack */
halo_way halo_by_copy;   /* no exchange: one kernel copies as many bytes, contiguous */

/** Captures what halo_by_graph launches, unless that was done before. */
peerwin_status halo_run_capture(halo_run *run);

/** One exchange into arrays that were filled anew; ends the job if a ghost is wrong. UNSUPPORTED as the way. */
peerwin_status halo_run_prove(halo_run *run, halo_way *way);

/** Gives a kernel to the stream: over all faces, or over `bytes` bytes. */
void halo_run_launch(const halo_run *run, int kernel, halo_args *args, uint64_t bytes);

/** Arguments with what is the same for all kernels. */
halo_args halo_run_args(const halo_run *run);

/** For ways without a plan: the next round's packing, to where the receiver has it; the unpacking. */
void halo_run_pack(halo_run *run);
void halo_run_unpack(const halo_run *run);

/** Where packed faces arrive at a rank in this round, mapped here. */
char *halo_run_half(const halo_run *run, int rank);

/** Waits until the stream has done its work. */
void halo_run_wait(const halo_run *run);

#endif
