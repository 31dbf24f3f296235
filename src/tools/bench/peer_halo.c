/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * peerwin's side of --peers: exchanges of ghosts. Rows of the same blocks follow each other and share arrays and plan.
 * Every way is proved before it is measured.
 */
#define _GNU_SOURCE
#include "peer_side.h"

void peer_halo_close(peer_side *s) {
    if (s->halo_number != PLAN_NO_HALO)
        halo_run_close(&s->halo);
    s->halo_number = PLAN_NO_HALO;
}

static bool open_halo(peer_side *s, int number) {
    if (s->halo_number == number)
        return true;
    peer_halo_close(s);
    if (!halo_run_open(&s->halo, s->b, s->ctx, s->stream, &s->more, &plan_halos[number]))
        return false;
    s->halo_number = number;
    s->halo.nccl = s->nccl;
    return true;
}

static halo_way *way_of(const peer_side *s, const plan_row *row) {
    switch (row->work) {
    case PLAN_HALO:
        return s->nccl != NULL ? halo_by_nccl : halo_by_plan;
    case PLAN_HALO_GRAPH:
        return halo_by_graph;
    case PLAN_HALO_COPY:
        return halo_by_copy;
    case PLAN_HALO_ENGINE:
        return halo_by_engine;
    case PLAN_HALO_MPI:
        return halo_by_mpi;
    default:
        bench_fail("%s is no row of ghosts", row->name);
    }
}

static double timed(peer_side *s, halo_way *way, int times) {
    float ms = 0.0f;
    bench_check(way(&s->halo, 1), "exchange");
    peer_wait(s);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_cuda_check(s->more.cuEventRecord(s->begin, s->stream), "cuEventRecord");
    bench_check(way(&s->halo, times), "exchange");
    bench_cuda_check(s->more.cuEventRecord(s->end, s->stream), "cuEventRecord");
    peer_wait(s);
    bench_cuda_check(s->more.cuEventElapsedTime(&ms, s->begin, s->end), "cuEventElapsedTime");
    return (double)ms * 1e3 / times;
}

peerwin_status peer_halo_batch(peer_side *s, const plan_row *row, int iterations, double *us_out) {
    const bool graph = row->work == PLAN_HALO_GRAPH;
    const int launches = iterations > HALO_IN_A_GRAPH ? iterations / HALO_IN_A_GRAPH : 1;
    *us_out = 0.0;
    if (!open_halo(s, row->halo))
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, &bench_cuda_site, "this build has no kernels");
    int could = row->work == PLAN_HALO_COPY || halo_run_prove(&s->halo, way_of(s, row)) == PEERWIN_OK;
    MPI_Allreduce(MPI_IN_PLACE, &could, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!could)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, &bench_cuda_site, "no exchange in graphs on this machine");
    *us_out = timed(s, way_of(s, row), graph ? launches : iterations) / (graph ? HALO_IN_A_GRAPH : 1);
    return PEERWIN_OK;
}
