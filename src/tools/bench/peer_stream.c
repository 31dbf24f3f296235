/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * peerwin's side of --peers: rows in streams. A batch is some operations to warm up, a meeting of the ranks, and the
 * batch between two events.
 */
#include "peer_side.h"

#include <string.h>

/* `times` operations of a row into the stream. */
typedef peerwin_status (*work)(peer_side *s, const plan_row *row, int times);

static peerwin_status timed(peer_side *s, const plan_row *row, work run, int times, double *us_out) {
    float ms = 0.0f;
    peerwin_status status = run(s, row, 1);
    if (status != PEERWIN_OK)
        return status;
    peer_wait(s);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_cuda_check(s->more.cuEventRecord(s->begin, s->stream), "cuEventRecord");
    status = run(s, row, times);
    bench_cuda_check(s->more.cuEventRecord(s->end, s->stream), "cuEventRecord");
    peer_wait(s);
    bench_cuda_check(s->more.cuEventElapsedTime(&ms, s->begin, s->end), "cuEventElapsedTime");
    *us_out = (double)ms * 1e3 / times;
    return status;
}

static peerwin_status put(peer_side *s, const plan_row *row, int times) {
    for (int i = 0; (s->b->rank == 0 || row->work == PLAN_BOTH_STREAM) && i < times; i++)
        bench_check(peerwin_put(s->win, s->partner, 0, s->mine, row->bytes, s->stream), "peerwin_put");
    return PEERWIN_OK;
}

static peerwin_status copy(peer_side *s, const plan_row *row, int times) {
    for (int i = 0; s->b->rank == 0 && i < times; i++)
        bench_cuda_check(s->b->device->driver->cuMemcpyAsync(pw_device_address(s->there), pw_device_address(s->mine),
                                                             row->bytes, s->stream),
                         "cuMemcpyAsync");
    return PEERWIN_OK;
}

/* As put_signal, in NCCL. */
static peerwin_status send_receive(peer_side *s, const plan_row *row, int times) {
    for (int i = 0; i < times; i++) {
        if (s->b->rank != 0)
            peer_nccl_receive(s->nccl, s->target, row->bytes, s->partner, s->stream);
        peer_nccl_send(s->nccl, s->mine, row->bytes, s->partner, s->stream);
        if (s->b->rank == 0)
            peer_nccl_receive(s->nccl, s->target, row->bytes, s->partner, s->stream);
    }
    return PEERWIN_OK;
}

/* There and back; rank 0 begins. */
static peerwin_status put_signal(peer_side *s, const plan_row *row, int times) {
    for (int i = 0; i < times; i++) {
        s->messages++;
        if (s->b->rank != 0)
            bench_check(peerwin_wait(s->win, 0, s->messages, s->stream), "peerwin_wait");
        bench_check(peerwin_put_signal(s->win, s->partner, 0, s->mine, row->bytes, 0, PEERWIN_SIGNAL_SET, s->messages,
                                       s->stream),
                    "peerwin_put_signal");
        if (s->b->rank == 0)
            bench_check(peerwin_wait(s->win, 0, s->messages, s->stream), "peerwin_wait");
    }
    return PEERWIN_OK;
}

static peerwin_status barrier(peer_side *s, const plan_row *row, int times) {
    (void)row;
    for (int i = 0; i < times; i++)
        bench_check(peerwin_barrier(s->ctx, s->stream), "peerwin_barrier");
    return PEERWIN_OK;
}

/* --------------------------------------------------------------------------------------------- all-reduces */

static peerwin_status reduce(peer_side *s, const plan_row *row, int times) {
    const int count = (int)(row->bytes / sizeof(double));
    for (int i = 0; i < times; i++) {
        const peerwin_status status =
            s->nccl != NULL ? peer_nccl_reduce(s->nccl, s->mine, count, s->stream)
                            : peerwin_allreduce(s->ctx, s->mine, count, PEERWIN_DOUBLE, PEERWIN_SUM, s->stream);
        if (status != PEERWIN_OK)
            return status;
    }
    return PEERWIN_OK;
}

static void set_values(const peer_side *s, double value) {
    double values[8];
    for (int i = 0; i < 8; i++)
        values[i] = value;
    bench_check(pw_gpu_write(s->b->device->gpu, s->mine, values, sizeof values, &bench_cuda_site), "write");
}

/* One sum of known values, which must be right on every rank. */
static peerwin_status prove_reduce(peer_side *s, const plan_row *row) {
    const int size = s->b->size;
    double sum = 0.0;
    set_values(s, s->b->rank + 1.0);
    const peerwin_status status = reduce(s, row, 1);
    if (status != PEERWIN_OK)
        return status;
    peer_wait(s);
    bench_check(pw_gpu_read(s->b->device->gpu, &sum, s->mine, sizeof sum, &bench_cuda_site), "read");
    if (sum != size * (size + 1) / 2.0)
        bench_fail("%s: the sum is %g", row->name, sum);
    set_values(s, 0.0); /* many sums in place must not leave the range */
    return PEERWIN_OK;
}

static peerwin_status stream_reduce(peer_side *s, const plan_row *row, int iterations, double *us_out) {
    const peerwin_status status = prove_reduce(s, row);
    return status == PEERWIN_OK ? timed(s, row, reduce, iterations, us_out) : status;
}

typedef struct {
    CUgraph graph;
    CUgraphExec ready;
} peer_graph;

static peer_graph captured; /* of the row that is being measured */

static peerwin_status launch(peer_side *s, const plan_row *row, int times) {
    (void)row;
    for (int i = 0; i < times; i++)
        bench_cuda_check(s->more.cuGraphLaunch(captured.ready, s->stream), "cuGraphLaunch");
    return PEERWIN_OK;
}

static peerwin_status capture(peer_side *s, const plan_row *row) {
    bench_cuda_check(s->more.cuStreamBeginCapture(s->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                     "cuStreamBeginCapture");
    const peerwin_status status = reduce(s, row, PLAN_IN_A_GRAPH);
    bench_cuda_check(s->more.cuStreamEndCapture(s->stream, &captured.graph), "cuStreamEndCapture");
    if (status == PEERWIN_OK)
        bench_cuda_check(s->more.cuGraphInstantiateWithFlags(&captured.ready, captured.graph, 0), "cuGraphInstantiate");
    return status;
}

static peerwin_status graph_reduce(peer_side *s, const plan_row *row, int iterations, double *us_out) {
    const int launches = iterations > PLAN_IN_A_GRAPH ? iterations / PLAN_IN_A_GRAPH : 1;
    captured = (peer_graph){NULL, NULL};
    peerwin_status status = prove_reduce(s, row);
    if (status != PEERWIN_OK)
        return status;
    status = capture(s, row);
    if (status == PEERWIN_OK)
        status = timed(s, row, launch, launches, us_out);
    if (captured.ready != NULL)
        bench_cuda_check(s->more.cuGraphExecDestroy(captured.ready), "cuGraphExecDestroy");
    if (captured.graph != NULL)
        bench_cuda_check(s->more.cuGraphDestroy(captured.graph), "cuGraphDestroy");
    *us_out /= PLAN_IN_A_GRAPH;
    return status;
}

/* ------------------------------------------------------------------------------------------------- the rows */

peerwin_status peer_stream_batch(peer_side *s, const plan_row *row, int iterations, double *us_out) {
    const bool origin = s->b->rank == 0;
    peerwin_status status;
    *us_out = 0.0;
    switch (row->work) {
    case PLAN_STREAM_PUT:
    case PLAN_COPY:
        status = timed(s, row, row->work == PLAN_COPY ? copy : put, iterations, us_out);
        *us_out = origin ? *us_out : 0.0;
        return status;
    case PLAN_BOTH_STREAM:
        return timed(s, row, put, iterations, us_out);
    case PLAN_STREAM_SIGNAL:
        status = timed(s, row, s->nccl != NULL ? send_receive : put_signal, iterations, us_out);
        *us_out /= 2.0;
        return status;
    case PLAN_STREAM_BARRIER:
        return timed(s, row, barrier, iterations, us_out);
    case PLAN_STREAM_REDUCE:
        return stream_reduce(s, row, iterations, us_out);
    case PLAN_GRAPH_REDUCE:
        return graph_reduce(s, row, iterations, us_out);
    default:
        bench_fail("%s is no row in a stream", row->name);
    }
}
