/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Where in its memory an arena begins, on a device that all ranks share.
 *
 * The cache of such a device has two halves. Each line is at home in one of them, and a store or addition to it goes
 * there: on an H200 an addition takes 280 cycles from the multiprocessors of that half and 490 from the others, while
 * loads take 280 from everywhere. So it is the writer whom a line must be near to: a barrier in a kernel took 0.8 or
 * 1.0 us, by the addresses that a process happened to get. The arena has room to begin at one of several places. Every
 * rank measures, from where a kernel of one block runs, how far its own lines of meetings in kernels are in the arenas
 * of the others, and each arena begins where that is the least for all who write there. All ranks gather the same
 * figures and choose alike; no more than speed depends on them.
 */
#include "base/log.h"
#include "memory/launch.h"
#include "window/sharing.h"
#include "window/space.h"

#include <errno.h>
#include <stdlib.h>

/* With many writers no place is near to all, and measuring takes long. */
enum { MOST_RANKS = 8 };

/* Per place; what the device measured, and what goes to the other ranks. */
typedef struct {
    uint64_t cycles[PW_ARENA_PLACES];
} distances;
_Static_assert(sizeof(distances) <= PW_ARENA_STEP, "the last step of the room holds what a device measured");

static int is_worth_it(const peerwin_ctx *ctx) {
    return pw_on_one_device(ctx) && ctx->kernels_wait && ctx->size > 1 && ctx->size <= MOST_RANKS;
}

/* My lines in the arena of `owner`. The figures come by the end of the room in my own, which is 0 before and after. */
static peerwin_status measure(peerwin_ctx *ctx, int owner, distances *out, const pw_site *site) {
    const pw_arena_layout *layout = &ctx->arena_layout;
    const size_t slot = layout->reduce_slots[PW_SERIES_DEVICE] + 2 * (size_t)ctx->rank * PW_ARENA_REDUCE_SLOT;
    char *figures = ctx->peers[ctx->rank].arena + layout->bytes + PW_ARENA_ROOM - PW_ARENA_STEP;
    const pw_launch_distance what = {
        .first = ctx->peers[owner].arena,
        .out = figures,
        .step = PW_ARENA_STEP,
        .count = PW_ARENA_PLACES,
        .num_lines = 3,
        .lines = {(uint32_t)(layout->kernel_lines[PW_SERIES_DEVICE] + (size_t)ctx->rank * PW_LINE), (uint32_t)slot,
                  (uint32_t)(slot + PW_ARENA_REDUCE_SLOT)}};
    peerwin_status status = pw_gpu_measure_distance(ctx->gpu, &what, site);
    if (status == PEERWIN_OK)
        status = pw_gpu_read(ctx->gpu, out, figures, sizeof *out, site);
    return status == PEERWIN_OK ? pw_gpu_zero(ctx->gpu, figures, sizeof *out, site) : status;
}

static peerwin_status measure_all(peerwin_ctx *ctx, distances mine[MOST_RANKS], const pw_site *site) {
    peerwin_status status = PEERWIN_OK;
    for (int owner = 0; owner < ctx->size && status == PEERWIN_OK; owner++)
        if (owner != ctx->rank && ctx->peers[owner].arena)
            status = measure(ctx, owner, &mine[owner], site);
    return status;
}

/* The first of the places that are the nearest to all writers together. `all` is per writer, and then per owner. */
static int nearest(const distances *all, int size, int owner) {
    uint64_t least = UINT64_MAX;
    int best = 0;
    for (int place = 0; place < PW_ARENA_PLACES; place++) {
        uint64_t sum = 0;
        for (int writer = 0; writer < size; writer++)
            sum += all[(size_t)writer * MOST_RANKS + (size_t)owner].cycles[place] & UINT32_MAX;
        if (sum < least) {
            least = sum;
            best = place;
        }
    }
    return best;
}

peerwin_status pw_arenas_place(peerwin_ctx *ctx, const pw_site *site) {
    void *all = NULL;
    if (!is_worth_it(ctx))
        return PEERWIN_OK;
    distances *mine = calloc(MOST_RANKS, sizeof *mine);
    peerwin_status status = mine ? measure_all(ctx, mine, site) : pw_fail_errno(site, ENOMEM, "calloc");
    status = pw_ctx_agree(ctx, status, site);
    if (status == PEERWIN_OK)
        status = pw_ctx_gather(ctx, mine, MOST_RANKS * sizeof *mine, &all, site);
    for (int rank = 0; rank < ctx->size && status == PEERWIN_OK; rank++) {
        const int place = nearest(all, ctx->size, rank);
        if (rank == ctx->rank)
            pw_log(PW_LOG_DEBUG, ctx->rank, "the arena begins at place %d of %d", place, (int)PW_ARENA_PLACES);
        if (ctx->peers[rank].arena)
            ctx->peers[rank].arena += (size_t)place * PW_ARENA_STEP;
    }
    free(all);
    free(mine);
    return status;
}
