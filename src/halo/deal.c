/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Dealing out work: how the moves of a plan are cut into parts for warps, and these dealt to blocks.
 *
 * The cost of an item is the memory that it touches, 16 bytes or a cell of its own sector, so parts have equally many
 * items. All parts of a block go to one rank. Small plans have one part a warp with four items a lane, all of whose
 * loads are in flight at once, and words one item a lane; large ones have longer parts rather than more blocks than the
 * device runs in two waves, since each begins with what it has to look up. Work whose blocks may wait has no more of
 * them than this rank has multiprocessors.
 */
#include "halo/deal.h"

enum { LANE_ITEMS = 4, LANE_ITEMS_WAITING = 8, LANE_ITEMS_UNPACKING = 1 << 20, WAVES = 2 };

/* Lanes count the items of a part in 32 bits, some rounds beyond its end. */
enum { MOST_ITEMS = 1 << 30 };

/* Up to so many blocks parts have moves of their own: some 64 KiB. */
enum { BLOCKS_APART = 60 };

static uint64_t divide_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

void pw_deal_add(pw_deal *d, const pw_moves *moves, const pw_halo_neighbor *neighbor, int words, size_t half) {
    pw_target *t = &d->targets[d->num_targets++];
    *t = (pw_target){.moves = moves, .neighbor = neighbor, .words = words, .laid = d->moves + d->num_moves};
    for (int i = 0; i < moves->count; i++)
        d->moves[d->num_moves++] =
            words ? pw_lay_words(&moves->list[i], d->takes, words, half, 2 * half * (size_t)d->series)
                  : pw_lay_move(&moves->list[i]);
}

/* ---- parts and blocks ---- */

static uint64_t parts_of(const pw_target *t, uint64_t per_part) {
    uint64_t parts = 0;
    for (int i = 0; i < t->moves->count; i++)
        parts += divide_up(pw_laid_items(&t->laid[i], &t->moves->list[i]), per_part);
    return parts;
}

uint64_t pw_deal_blocks(const pw_target *t, uint64_t per_part) {
    const uint64_t parts = parts_of(t, per_part);
    return parts > 0 ? divide_up(parts, PW_PUSH_WARPS) : 1;
}

static uint64_t all_blocks(const pw_deal *d, uint64_t per_part) {
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < d->num_targets; i++)
        blocks += pw_deal_blocks(&d->targets[i], per_part);
    return blocks;
}

static uint64_t all_items(const pw_deal *d) {
    uint64_t items = 0;
    for (uint32_t i = 0; i < d->num_targets; i++)
        for (int k = 0; k < d->targets[i].moves->count; k++)
            items += pw_laid_items(&d->targets[i].laid[k], &d->targets[i].moves->list[k]);
    return items;
}

static int has_words(const pw_deal *d) {
    for (uint32_t i = 0; i < d->num_targets; i++)
        if (d->targets[i].words)
            return 1;
    return 0;
}

/*
 * What is unpacked stays on the device, where a block of each multiprocessor does nearly as well as more. So where the
 * stream would take longer to wait for all that comes, parts are as long as they must be.
 */
static uint64_t most_items(const pw_deal *d) {
    return d->unpacks && d->num_targets > PW_HALO_FEW_WORDS ? LANE_ITEMS_UNPACKING : LANE_ITEMS_WAITING;
}

/* The shortest parts of which there are few enough to wait, 0 if there are none. One block more gives the grants. */
static uint64_t find_waiting(const pw_deal *d, uint64_t share) {
    uint64_t items = has_words(d) ? 1 : LANE_ITEMS;
    for (; items <= most_items(d); items *= 2)
        if (all_blocks(d, items * PW_PUSH_WARP) < share)
            return items * PW_PUSH_WARP;
    return 0;
}

void pw_deal_settle(pw_deal *d, int may_wait, uint64_t share) {
    const uint64_t waiting = may_wait ? find_waiting(d, share) : 0;
    const uint64_t least = (uint64_t)LANE_ITEMS * PW_PUSH_WARP;
    const uint64_t most = divide_up(all_items(d), (share ? share : 1) * PW_PUSH_RESIDENT * WAVES * PW_PUSH_WARPS);
    const uint64_t wanted = divide_up(most > least ? most : least, PW_PUSH_WARP) * PW_PUSH_WARP;
    const uint64_t fitting = wanted < MOST_ITEMS ? wanted : MOST_ITEMS;
    d->waits = waiting > 0;
    d->per_part = (uint32_t)(waiting > 0 ? waiting : fitting);
    d->num_blocks = (uint32_t)all_blocks(d, d->per_part);
    d->apart = d->num_blocks <= BLOCKS_APART;
}

/* ---- the table ---- */

size_t pw_deal_moves(const pw_deal *d) {
    if (d->apart)
        return (size_t)d->num_blocks * PW_PUSH_WARPS;
    return d->num_moves > 0 ? d->num_moves : 1;
}

/*
 * Moves take turns, so that those of one size keep step with each other: the two x-faces of a block share their lines,
 * since the end of a row lies beside the beginning of the next, and a line is fetched for both of them only if they
 * come to it while it is in the cache.
 */
void pw_deal_write_parts(const pw_deal *d, const pw_target *t, pw_push_part *part) {
    const pw_push_part *end = part + parts_of(t, d->per_part);
    for (uint64_t first = 0; part < end; first += d->per_part)
        for (int i = 0; i < t->moves->count; i++) {
            const uint64_t items = pw_laid_items(&t->laid[i], &t->moves->list[i]);
            if (first >= items)
                continue;
            *part++ = (pw_push_part){
                .first = first,
                .count = items - first < d->per_part ? (uint32_t)(items - first) : d->per_part,
                .move = (uint32_t)(t->laid - d->moves) + (uint32_t)i,
            };
        }
}

void pw_deal_write_moves(const pw_deal *d, char *table) {
    const pw_push_part *parts = (const pw_push_part *)(const void *)(table + d->parts);
    pw_push_move *moves = (pw_push_move *)(void *)(table + d->laid);
    for (size_t i = 0; i < pw_deal_moves(d); i++)
        if (!d->apart || parts[i].count > 0)
            moves[i] = d->moves[d->apart ? parts[i].move : i];
}
