/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Contributions to all-reduces; see gather.h.
 *
 * By MPI, barrier and all-reduce are the same collective, so that ranks in different calls find out instead of taking
 * each other's messages for theirs. It has a communicator of its own: one that timed out and is not repeated meets no
 * other collective there.
 */
#include "transfer/gather.h"

#include <stdio.h>
#include <string.h>

static void describe(uint64_t shape, char *text, size_t bytes) {
    if (shape == PW_SHAPE_BARRIER)
        snprintf(text, bytes, "is in peerwin_barrier");
    else
        snprintf(text, bytes, "combines %u values of type %u by operation %u", (unsigned)(shape & 0xff),
                 (unsigned)(shape >> 8 & 0xff), (unsigned)(shape >> 16 & 0xff));
}

static peerwin_status differ(int rank, uint64_t zeros, uint64_t theirs, const pw_site *site) {
    char a[64];
    char b[64];
    describe(zeros, a, sizeof a);
    describe(theirs, b, sizeof b);
    return pw_fail(PEERWIN_ERR_MISMATCH, site, "rank 0 %s, rank %d %s", a, rank, b);
}

static peerwin_status refused(int rank, peerwin_status mine, const pw_site *site) {
    pw_site there = *site;
    there.peer = rank;
    return mine != PEERWIN_OK
               ? mine
               : pw_fail(PEERWIN_ERR_ARG, &there, "that rank's arguments are invalid; its own error says why");
}

peerwin_status pw_shapes_check(const peerwin_ctx *ctx, pw_slot_at *slot_at, peerwin_status mine, const pw_site *site) {
    uint64_t zeros = slot_at(ctx, 0)->shape;
    int odd = PW_NONE;
    for (int rank = 0; rank < ctx->size; rank++) {
        uint64_t shape = slot_at(ctx, rank)->shape;
        if (shape == PW_SHAPE_REFUSED)
            return refused(rank, mine, site);
        if (shape != zeros && odd == PW_NONE)
            odd = rank;
    }
    return odd == PW_NONE ? PEERWIN_OK : differ(odd, zeros, slot_at(ctx, odd)->shape, site);
}

/* ---- by MPI */

const pw_reduce_slot *pw_gathered_slot(const peerwin_ctx *ctx, int rank) {
    return &ctx->gathered[rank];
}

static peerwin_status start(peerwin_ctx *ctx, uint64_t shape, const void *values, size_t bytes, const pw_site *site) {
    pw_reduce_slot *mine = &ctx->gathered[ctx->size];
    mine->shape = shape;
    if (bytes > 0)
        memcpy(mine->values, values, bytes);
    pw_full_fence(); /* earlier puts, as in quiet */
    int code = MPI_Iallgather(mine, (int)sizeof *mine, MPI_BYTE, ctx->gathered, (int)sizeof *mine, MPI_BYTE,
                              ctx->series_comm, &ctx->series_request);
    return code == MPI_SUCCESS ? PEERWIN_OK : pw_ctx_not_started(ctx, code, "MPI_Iallgather", site);
}

peerwin_status pw_gather_slots(peerwin_ctx *ctx, pw_series *series, uint64_t shape, const void *values, size_t bytes,
                               const pw_site *site) {
    peerwin_status status = series->pending ? PEERWIN_OK : start(ctx, shape, values, bytes, site);
    if (status != PEERWIN_OK)
        return status;
    series->pending = 1;
    status = pw_ctx_resumable_wait(ctx, &ctx->series_request, "MPI_Iallgather", site);
    if (status == PEERWIN_OK)
        series->pending = 0;
    return status;
}
