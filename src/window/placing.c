/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Where in its memory an arena begins, on a device that all ranks share.
 *
 * The cache of such a device has two halves. Each line is at home in one of them, and a store or addition to it goes
 * there: on an H200 an addition takes 280 cycles from the multiprocessors of that half and 490 from the others. So a
 * barrier in a kernel took 0.8 or 1.0 us, by the addresses that a process happened to get. The arena has room to begin
 * at one of several places, and every rank takes that from which the lines of meetings in kernels are nearest, from
 * where a kernel of one block runs. That is measured, and no more than speed depends on it.
 */
#include "base/log.h"
#include "memory/launch.h"
#include "window/sharing.h"
#include "window/space.h"

#include <stdlib.h>

/* With many writers no place is near for all, and measuring takes long. */
enum { MOST_RANKS = 8 };
_Static_assert((int)PW_NEAREST_LINES >= 3 * (MOST_RANKS - 1), "a barrier's line and two slots per writer");

static int is_worth_it(const peerwin_ctx *ctx) {
    return pw_on_one_device(ctx) && ctx->kernels_wait && ctx->size > 1 && ctx->size <= MOST_RANKS;
}

static int list_lines(const peerwin_ctx *ctx, uint32_t lines[PW_NEAREST_LINES]) {
    const pw_arena_layout *layout = &ctx->arena_layout;
    int count = 0;
    for (int writer = 0; writer < ctx->size; writer++) {
        if (writer == ctx->rank)
            continue;
        const size_t slot = layout->reduce_slots[PW_SERIES_DEVICE] + 2 * (size_t)writer * PW_ARENA_REDUCE_SLOT;
        lines[count++] = (uint32_t)(layout->kernel_lines[PW_SERIES_DEVICE] + (size_t)writer * PW_LINE);
        lines[count++] = (uint32_t)slot;
        lines[count++] = (uint32_t)(slot + PW_ARENA_REDUCE_SLOT);
    }
    return count;
}

/* The answer comes by the last word of the room, which is 0 before and after, as all of it. */
static peerwin_status find_nearest(peerwin_ctx *ctx, uint64_t *start_out, const pw_site *site) {
    char *base = ctx->arena_segment.base;
    char *answer = base + ctx->arena_layout.bytes + PW_ARENA_ROOM - sizeof *start_out;
    pw_launch_nearest what = {.first = base, .step = PW_ARENA_STEP, .count = PW_ARENA_PLACES, .best_out = answer};
    uint64_t best = 0;
    what.num_lines = list_lines(ctx, what.lines);
    peerwin_status status = pw_gpu_find_nearest(ctx->gpu, &what, site);
    if (status == PEERWIN_OK)
        status = pw_gpu_read(ctx->gpu, &best, answer, sizeof best, site);
    if (status == PEERWIN_OK)
        status = pw_gpu_zero(ctx->gpu, answer, sizeof best, site);
    if (status == PEERWIN_OK)
        pw_log(PW_LOG_DEBUG, ctx->rank, "the arena begins at place %llu of %d", (unsigned long long)best,
               (int)PW_ARENA_PLACES);
    *start_out = best * PW_ARENA_STEP;
    return status;
}

static peerwin_status move_arenas(peerwin_ctx *ctx, const uint64_t *starts, const pw_site *site) {
    for (int rank = 0; rank < ctx->size; rank++) {
        pw_site there = *site;
        there.peer = rank;
        if (starts[rank] >= PW_ARENA_ROOM || starts[rank] % PW_LINE != 0)
            return pw_fail(PEERWIN_ERR_INTERNAL, &there, "an arena cannot begin at %llu",
                           (unsigned long long)starts[rank]);
        if (ctx->peers[rank].arena)
            ctx->peers[rank].arena += starts[rank];
    }
    return PEERWIN_OK;
}

peerwin_status pw_arenas_place(peerwin_ctx *ctx, const pw_site *site) {
    uint64_t start = 0;
    void *starts = NULL;
    if (!is_worth_it(ctx))
        return PEERWIN_OK;
    peerwin_status status = pw_ctx_agree(ctx, find_nearest(ctx, &start, site), site);
    if (status == PEERWIN_OK)
        status = pw_ctx_gather(ctx, &start, sizeof start, &starts, site);
    if (status != PEERWIN_OK)
        return status;
    status = move_arenas(ctx, starts, site);
    free(starts);
    return pw_ctx_agree(ctx, status, site);
}
