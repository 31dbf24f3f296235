/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a program does that has no plans. Faces are packed by one kernel and unpacked by one; faces that lie together
 * travel together; those that a rank has for itself never leave the device.
 *
 * The memory into which neighbours copy has two halves. A neighbour that has sent round n + 1 has unpacked round n
 * before, and everyone to whom I send also sends to me: so after a round is there, the half of the round before may be
 * written again.
 */
#include "halo_run.h"

#include "memory/launch.h"

char *halo_run_half(const halo_run *run, int rank) {
    return (char *)peerwin_win_ptr(run->stage.win, rank) + run->round % HALO_HALVES * run->slots;
}

/* What is for others goes into `packed`, what is mine at once into my own half. */
void halo_run_pack(halo_run *run) {
    halo_args args = halo_run_args(run);
    run->round++;
    for (int i = 0; i < run->num_faces; i++) {
        char *to = run->faces[i].peer == run->b->rank ? halo_run_half(run, run->b->rank) : run->packed;
        args.packed[i] = to + shape_slot(&run->shape, run->faces[i].side ^ 1);
    }
    halo_run_launch(run, HALO_KERNEL_pack, &args, 0);
}

void halo_run_unpack(const halo_run *run) {
    halo_args args = halo_run_args(run);
    for (int i = 0; i < run->num_faces; i++)
        args.packed[i] = halo_run_half(run, run->b->rank) + shape_slot(&run->shape, run->faces[i].side);
    halo_run_launch(run, HALO_KERNEL_unpack, &args, 0);
}

/* --------------------------------------------------------------------------------------------- the copy engine */

/* True once for each rank in a list. */
static bool is_first(const halo_range *ranges, int i) {
    for (int k = 0; k < i; k++)
        if (ranges[k].peer == ranges[i].peer)
            return false;
    return true;
}

peerwin_status halo_by_engine(halo_run *run, int times) {
    const pw_driver *driver = run->b->device->driver;
    for (int i = 0; i < times; i++) {
        halo_run_pack(run);
        for (int k = 0; k < run->num_out; k++) {
            const halo_range *r = &run->out[k];
            char *there = halo_run_half(run, r->peer);
            bench_cuda_check(driver->cuMemcpyAsync(pw_device_address(there + r->at),
                                                   pw_device_address(run->packed + r->at), r->bytes, run->stream),
                             "cuMemcpyAsync");
        }
        for (int k = 0; k < run->num_out; k++)
            if (is_first(run->out, k))
                bench_check(peerwin_signal(run->stage.win, run->out[k].peer, (unsigned)run->b->rank, PEERWIN_SIGNAL_SET,
                                           run->round, run->stream),
                            "peerwin_signal");
        for (int k = 0; k < run->num_in; k++)
            if (is_first(run->in, k))
                bench_check(peerwin_wait(run->stage.win, (unsigned)run->in[k].peer, run->round, run->stream),
                            "peerwin_wait");
        halo_run_unpack(run);
    }
    return PEERWIN_OK;
}

/* --------------------------------------------------------------------------------------------------------- MPI */

static void exchange_on_host(const halo_run *run) {
    MPI_Request requests[2 * SHAPE_SIDES];
    int count = 0;
    for (int k = 0; k < run->num_in; k++)
        MPI_Irecv(run->host + run->slots + run->in[k].at, (int)run->in[k].bytes, MPI_BYTE, run->in[k].peer, 0,
                  run->b->comm, &requests[count++]);
    for (int k = 0; k < run->num_out; k++)
        MPI_Isend(run->host + run->out[k].at, (int)run->out[k].bytes, MPI_BYTE, run->out[k].peer, 0, run->b->comm,
                  &requests[count++]);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

peerwin_status halo_by_mpi(halo_run *run, int times) {
    const pw_driver *driver = run->b->device->driver;
    for (int i = 0; i < times; i++) {
        halo_run_pack(run);
        for (int k = 0; k < run->num_out; k++)
            bench_cuda_check(driver->cuMemcpyDtoHAsync(run->host + run->out[k].at,
                                                       pw_device_address(run->packed + run->out[k].at),
                                                       run->out[k].bytes, run->stream),
                             "cuMemcpyDtoHAsync");
        bench_cuda_check(driver->cuStreamSynchronize(run->stream), "cuStreamSynchronize");
        exchange_on_host(run);
        for (int k = 0; k < run->num_in; k++)
            bench_cuda_check(
                driver->cuMemcpyHtoDAsync(pw_device_address(halo_run_half(run, run->b->rank) + run->in[k].at),
                                          run->host + run->slots + run->in[k].at, run->in[k].bytes, run->stream),
                "cuMemcpyHtoDAsync");
        halo_run_unpack(run);
    }
    return PEERWIN_OK;
}

/* ------------------------------------------------------------------------------------------------- as a measure */

/* The library's own copy kernel, into the staging memory: of a neighbour on this device everything, else its part. */
peerwin_status halo_by_copy(halo_run *run, int times) {
    const int peer = run->num_out > 0 ? run->out[0].peer : run->b->rank;
    peerwin_peer about = {.size = sizeof about};
    uint64_t theirs = 0;
    const uint64_t all = shape_sent(&run->shape, run->b->rank);
    bench_check(peerwin_peer_query(run->ctx, peer, &about), "peerwin_peer_query");
    for (int i = 0; i < run->num_faces; i++)
        theirs += run->faces[i].peer == run->b->rank ? 0 : shape_face_bytes(&run->shape, &run->faces[i]);
    if (about.link == PEERWIN_LINK_SAME_DEVICE || peer == run->b->rank)
        theirs = all;
    for (int i = 0; i < times; i++) {
        bench_check(pw_launch_copy(run->b->device->gpu, run->stream, peerwin_win_ptr(run->stage.win, peer), run->packed,
                                   (size_t)theirs, &bench_cuda_site),
                    "the copy kernel");
        bench_check(pw_launch_copy(run->b->device->gpu, run->stream, halo_run_half(run, run->b->rank) + theirs,
                                   run->packed + theirs, (size_t)(all - theirs), &bench_cuda_site),
                    "the copy kernel");
    }
    return PEERWIN_OK;
}
