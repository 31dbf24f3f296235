/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Laying out the table: how the moves of a plan are cut into parts for warps, and these dealt to blocks.
 *
 * The cost of an item is the memory that it touches, 16 bytes or a cell of its own sector, so parts have equally many
 * items. All parts of a block go to one rank. Small plans have one part a warp with four items a lane, all of whose
 * loads are in flight at once, and words one item a lane; large ones have longer parts rather than more blocks than the
 * device runs in two waves, since each begins with what it has to look up. Work whose blocks may wait has no more of
 * them than this rank has multiprocessors.
 */
#include "halo/table.h"

#include "halo/halo.h"
#include "halo/lay.h"
#include "window/sharing.h"
#include "window/space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LANE_ITEMS = 4, LANE_ITEMS_WAITING = 8, LANE_ITEMS_UNPACKING = 1 << 20, WAVES = 2 };

/* Up to so many blocks parts have moves of their own: some 64 KiB. */
enum { BLOCKS_APART = 60 };

/* What goes to one rank, or comes from one. */
typedef struct {
    const pw_moves *moves;
    const pw_halo_neighbor *neighbor; /* NULL = this rank */
    int words;                        /* as words */
    pw_push_move *laid;
} target;

/* Work in the making: offsets are in bytes from the beginning of the table. */
typedef struct {
    target *targets;
    uint32_t num_targets, num_moves;
    uint32_t per_part; /* items */
    uint32_t num_blocks;
    int takes, unpacks, waits, apart;
    pw_push_move *moves;
    size_t blocks, parts, laid;
} draft;

enum { TAKE = PW_HALO_SERIES, UNPACK, DRAFTS = UNPACK + PW_HALO_SERIES };

/* The table as the host makes it. */
typedef struct {
    peerwin_halo *halo;
    draft drafts[DRAFTS];
    size_t num_sources, num_targets;
    char *bytes;
    size_t size;
    size_t counts, tickets, grants, arrivals, permits;
} layout;

static uint64_t divide_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

/* ---- targets ---- */

static void add_target(const layout *l, draft *d, const pw_moves *moves, const pw_halo_neighbor *neighbor, int words) {
    target *t = &d->targets[d->num_targets++];
    *t = (target){.moves = moves, .neighbor = neighbor, .words = words, .laid = d->moves + d->num_moves};
    for (int i = 0; i < moves->count; i++)
        d->moves[d->num_moves++] = words ? pw_lay_words(&moves->list[i], d->takes, l->halo->words * sizeof(uint64_t))
                                         : pw_lay_move(&moves->list[i]);
}

static void list_targets(const layout *l, draft *d, int series) {
    const peerwin_halo *halo = l->halo;
    for (int i = 0; i < halo->num_neighbors; i++) {
        const pw_halo_neighbor *n = &halo->neighbors[i];
        const int words = series == PW_SERIES_CAPTURED && n->takes_words;
        if (n->roles & PW_HALO_GETS_FROM_ME)
            add_target(l, d, words ? &n->post : &n->push, n, words);
    }
    if (halo->own.count > 0)
        add_target(l, d, &halo->own, NULL, 0);
}

static void list_sources(const layout *l, draft *d) {
    const peerwin_halo *halo = l->halo;
    d->takes = 1;
    for (int i = 0; i < halo->num_neighbors && halo->takes_words; i++)
        if (halo->neighbors[i].spread.count > 0)
            add_target(l, d, &halo->neighbors[i].spread, &halo->neighbors[i], 1);
}

static int is_packed(const peerwin_halo *halo) {
    for (int i = 0; i < halo->num_neighbors; i++)
        if (halo->neighbors[i].unpack.count > 0)
            return 1;
    return 0;
}

/* Those that wait do so for all that comes, so they are finish; what comes as words needs none. */
static void list_unpacks(const layout *l, draft *d, int series) {
    const peerwin_halo *halo = l->halo;
    d->unpacks = 1;
    if (!is_packed(halo) || (series == PW_SERIES_CAPTURED && halo->takes_words))
        return;
    for (int i = 0; i < halo->num_neighbors; i++)
        if (halo->neighbors[i].roles & PW_HALO_SENDS_TO_ME)
            add_target(l, d, &halo->neighbors[i].unpack, &halo->neighbors[i], 0);
}

static void list_all(layout *l) {
    const peerwin_halo *halo = l->halo;
    for (int i = 0; i < halo->num_neighbors; i++) {
        l->num_sources += (halo->neighbors[i].roles & PW_HALO_SENDS_TO_ME) != 0;
        l->num_targets += (halo->neighbors[i].roles & PW_HALO_GETS_FROM_ME) != 0;
    }
    for (int series = 0; series < PW_HALO_SERIES; series++)
        list_targets(l, &l->drafts[series], series);
    for (int series = 0; series < PW_HALO_SERIES; series++)
        list_unpacks(l, &l->drafts[UNPACK + series], series);
    list_sources(l, &l->drafts[TAKE]);
}

/* ---- parts and blocks ---- */

static uint64_t parts_of(const target *t, uint64_t per_part) {
    uint64_t parts = 0;
    for (int i = 0; i < t->moves->count; i++)
        parts += divide_up(pw_laid_items(&t->laid[i], &t->moves->list[i]), per_part);
    return parts;
}

/* A target with nothing to move is told so all the same. */
static uint64_t blocks_of(const target *t, uint64_t per_part) {
    const uint64_t parts = parts_of(t, per_part);
    return parts > 0 ? divide_up(parts, PW_PUSH_WARPS) : 1;
}

static uint64_t all_blocks(const draft *d, uint64_t per_part) {
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < d->num_targets; i++)
        blocks += blocks_of(&d->targets[i], per_part);
    return blocks;
}

static uint64_t all_items(const draft *d) {
    uint64_t items = 0;
    for (uint32_t i = 0; i < d->num_targets; i++)
        for (int k = 0; k < d->targets[i].moves->count; k++)
            items += pw_laid_items(&d->targets[i].laid[k], &d->targets[i].moves->list[k]);
    return items;
}

static int has_words(const draft *d) {
    for (uint32_t i = 0; i < d->num_targets; i++)
        if (d->targets[i].words)
            return 1;
    return 0;
}

/*
 * What is unpacked stays on the device, where a block of each multiprocessor does nearly as well as more. So where the
 * stream would take longer to wait for all that comes, parts are as long as they must be.
 */
static uint64_t most_items(const draft *d) {
    return d->unpacks && d->num_targets > PW_HALO_FEW_WORDS ? LANE_ITEMS_UNPACKING : LANE_ITEMS_WAITING;
}

/* The shortest parts of which there are few enough to wait, 0 if there are none. One block more gives the grants. */
static uint64_t find_waiting(const draft *d, uint64_t share) {
    uint64_t items = has_words(d) ? 1 : LANE_ITEMS;
    for (; items <= most_items(d); items *= 2)
        if (all_blocks(d, items * PW_PUSH_WARP) < share)
            return items * PW_PUSH_WARP;
    return 0;
}

/*
 * Settles how long parts are, and whether blocks may wait. Where kernels may wait on a device that ranks share, the
 * driver counts the multiprocessors of this rank's share only.
 */
static void deal(const peerwin_ctx *ctx, draft *d) {
    const uint64_t share = (uint64_t)pw_gpu_about(ctx->gpu)->multiprocessors;
    const uint64_t waiting = ctx->kernels_wait ? find_waiting(d, share) : 0;
    const uint64_t least = (uint64_t)LANE_ITEMS * PW_PUSH_WARP;
    const uint64_t most = divide_up(all_items(d), (share ? share : 1) * PW_PUSH_RESIDENT * WAVES * PW_PUSH_WARPS);
    const uint64_t fitting = divide_up(most > least ? most : least, PW_PUSH_WARP) * PW_PUSH_WARP;
    d->waits = waiting > 0;
    d->per_part = (uint32_t)(waiting > 0 ? waiting : fitting);
    d->num_blocks = (uint32_t)all_blocks(d, d->per_part);
    d->apart = d->num_blocks <= BLOCKS_APART;
}

/* ---- the image ---- */

static size_t reserve(layout *l, size_t bytes) {
    const size_t at = l->size;
    l->size += pw_pad_round(bytes, PW_LINE);
    return at;
}

/* At least one, which is loaded for parts without items. */
static size_t moves_in_table(const draft *d) {
    if (d->apart)
        return (size_t)d->num_blocks * PW_PUSH_WARPS;
    return d->num_moves > 0 ? d->num_moves : 1;
}

static void place(layout *l) {
    l->counts = reserve(l, 3 * sizeof(uint64_t));
    l->tickets = reserve(l, l->num_targets * sizeof(uint32_t));
    l->grants = reserve(l, PW_HALO_SERIES * l->num_sources * sizeof(uint64_t *));
    l->arrivals = reserve(l, PW_HALO_SERIES * l->num_sources * sizeof(uint64_t *));
    l->permits = reserve(l, PW_HALO_SERIES * l->num_targets * sizeof(uint64_t *));
    for (int i = 0; i < DRAFTS; i++) {
        draft *d = &l->drafts[i];
        d->blocks = reserve(l, d->num_blocks * sizeof(pw_push_block));
        d->parts = reserve(l, (size_t)d->num_blocks * PW_PUSH_WARPS * sizeof(pw_push_part));
        d->laid = reserve(l, moves_in_table(d) * sizeof(pw_push_move));
    }
}

/* The word in my slots that a rank writes, and the one of mine at a rank. */
static uint64_t *mine(const peerwin_halo *halo, pw_halo_word word, int series, int writer) {
    return &halo->win->peers[halo->ctx->rank].slots[pw_halo_slot(halo, pw_halo_in(word, series), writer)];
}

static uint64_t *theirs(const peerwin_halo *halo, pw_halo_word word, int series, int owner) {
    return &halo->win->peers[owner].slots[pw_halo_slot(halo, pw_halo_in(word, series), halo->ctx->rank)];
}

static void write_words(const layout *l) {
    const peerwin_halo *halo = l->halo;
    for (int series = 0; series < PW_HALO_SERIES; series++) {
        uint64_t **grants = (uint64_t **)(void *)(l->bytes + l->grants) + (size_t)series * l->num_sources;
        uint64_t **arrivals = (uint64_t **)(void *)(l->bytes + l->arrivals) + (size_t)series * l->num_sources;
        uint64_t **permits = (uint64_t **)(void *)(l->bytes + l->permits) + (size_t)series * l->num_targets;
        for (int i = 0; i < halo->num_neighbors; i++) {
            const pw_halo_neighbor *n = &halo->neighbors[i];
            if (n->roles & PW_HALO_SENDS_TO_ME) {
                *grants++ = theirs(halo, PW_HALO_GRANT, series, n->rank);
                *arrivals++ = mine(halo, PW_HALO_ARRIVAL, series, n->rank);
            }
            if (n->roles & PW_HALO_GETS_FROM_ME)
                *permits++ = mine(halo, PW_HALO_GRANT, series, n->rank);
        }
    }
}

/* What is unpacked has arrived, and is told to nobody. */
static pw_push_block unpacking_block(const layout *l, int series, uint32_t number, uint32_t blocks) {
    const target *t = &l->drafts[UNPACK + series].targets[number];
    return (pw_push_block){.grant = mine(l->halo, PW_HALO_ARRIVAL, series, t->neighbor->rank), .blocks = blocks};
}

/* Words say themselves that they are there, and their half was free when the exchange before this one was granted. */
static pw_push_block block_of(const layout *l, int series, uint32_t number, uint32_t blocks) {
    const target *t = &l->drafts[series].targets[number];
    pw_push_block block = {.ticket = number, .blocks = blocks};
    if (!t->neighbor)
        return block;
    block.grant = mine(l->halo, PW_HALO_GRANT, series, t->neighbor->rank);
    if (t->words)
        block.behind = 1;
    else
        block.arrival = theirs(l->halo, PW_HALO_ARRIVAL, series, t->neighbor->rank);
    return block;
}

/*
 * Moves take turns, so that those of one size keep step with each other: the two x-faces of a block share their lines,
 * since the end of a row lies beside the beginning of the next, and a line is fetched for both of them only if they
 * come to it while it is in the cache.
 */
static void write_parts(const draft *d, const target *t, pw_push_part *part) {
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

static void write_moves(const layout *l, const draft *d) {
    const pw_push_part *parts = (const pw_push_part *)(const void *)(l->bytes + d->parts);
    pw_push_move *moves = (pw_push_move *)(void *)(l->bytes + d->laid);
    for (size_t i = 0; i < moves_in_table(d); i++)
        if (!d->apart || parts[i].count > 0)
            moves[i] = d->moves[d->apart ? parts[i].move : i];
}

static void write_draft(const layout *l, int number) {
    const draft *d = &l->drafts[number];
    pw_push_block *block = (pw_push_block *)(void *)(l->bytes + d->blocks);
    pw_push_part *part = (pw_push_part *)(void *)(l->bytes + d->parts);
    for (uint32_t i = 0; i < d->num_targets; i++) {
        const uint32_t blocks = (uint32_t)blocks_of(&d->targets[i], d->per_part);
        write_parts(d, &d->targets[i], part);
        part += (size_t)blocks * PW_PUSH_WARPS;
        for (uint32_t k = 0; k < blocks && number != TAKE; k++)
            *block++ = d->unpacks ? unpacking_block(l, number - UNPACK, i, blocks) : block_of(l, number, i, blocks);
    }
    write_moves(l, d);
}

/* ---- the table ---- */

static pw_halo_work work_of(const char *base, const draft *d) {
    return (pw_halo_work){.blocks = (const pw_push_block *)(const void *)(base + d->blocks),
                          .parts = (const pw_push_part *)(const void *)(base + d->parts),
                          .moves = (const pw_push_move *)(const void *)(base + d->laid),
                          .num_blocks = d->num_blocks,
                          .waits = d->waits,
                          .apart = d->apart};
}

static void point(pw_halo_table *table, const layout *l) {
    char *base = table->memory;
    table->starts = (uint64_t *)(void *)(base + l->counts);
    table->finishes = table->starts + 1;
    table->done = (uint32_t *)(void *)(table->starts + 2);
    table->tickets = (uint32_t *)(void *)(base + l->tickets);
    table->take = work_of(base, &l->drafts[TAKE]);
    for (uint32_t series = 0; series < PW_HALO_SERIES; series++) {
        table->push[series] = work_of(base, &l->drafts[series]);
        table->unpack[series] = work_of(base, &l->drafts[UNPACK + series]);
        table->grants[series] = (uint64_t *const *)(void *)(base + l->grants) + series * l->num_sources;
        table->arrivals[series] = (const uint64_t *const *)(void *)(base + l->arrivals) + series * l->num_sources;
        table->permits[series] = (const uint64_t *const *)(void *)(base + l->permits) + series * l->num_targets;
    }
}

/* Host memory is seen beyond the device. */
static int on_one_device(const peerwin_halo *halo) {
    if (!pw_on_one_device(halo->ctx))
        return 0;
    for (int i = 0; i < halo->plan.num_windows; i++)
        for (int rank = 0; rank < halo->ctx->size; rank++)
            if (halo->windows[i]->peers[rank].kind == PEERWIN_HANDLE_HOST)
                return 0;
    return !is_packed(halo) || halo->ctx->memory->kind != PEERWIN_HANDLE_HOST;
}

/* All blocks of both must be there at once, and all that comes must come as words. */
static int can_join(const layout *l) {
    const draft *push = &l->drafts[PW_SERIES_CAPTURED];
    const uint64_t share = (uint64_t)pw_gpu_about(l->halo->ctx->gpu)->multiprocessors;
    return push->waits && push->num_blocks > 0 && (l->num_sources == 0 || l->halo->takes_words) &&
           push->num_blocks + l->drafts[TAKE].num_blocks < share;
}

static peerwin_status make(layout *l, const pw_site *site) {
    pw_halo_table *table = &l->halo->table;
    list_all(l);
    for (int i = 0; i < DRAFTS; i++)
        deal(l->halo->ctx, &l->drafts[i]);
    place(l);
    l->bytes = calloc(1, l->size);
    if (!l->bytes)
        return pw_fail_errno(site, ENOMEM, "calloc");
    write_words(l);
    for (int i = 0; i < DRAFTS; i++)
        write_draft(l, i);
    peerwin_status status = pw_gpu_keep(l->halo->ctx->gpu, l->bytes, l->size, site, &table->memory);
    if (status != PEERWIN_OK)
        return status;
    point(table, l);
    table->num_sources = (uint32_t)l->num_sources;
    table->num_targets = (uint32_t)l->num_targets;
    table->joins = can_join(l);
    table->one_device = on_one_device(l->halo);
    return PEERWIN_OK;
}

/* Room for whatever the drafts may hold. */
static int take_memory(layout *l) {
    const peerwin_halo *halo = l->halo;
    size_t moves = (size_t)halo->own.count;
    int all = 1;
    for (int i = 0; i < halo->num_neighbors; i++)
        moves +=
            (size_t)(halo->neighbors[i].push.count + halo->neighbors[i].spread.count + halo->neighbors[i].unpack.count);
    for (int i = 0; i < DRAFTS; i++) {
        l->drafts[i].targets = calloc((size_t)halo->num_neighbors + 1, sizeof(target));
        l->drafts[i].moves = calloc(moves + 1, sizeof(pw_push_move));
        all &= l->drafts[i].targets && l->drafts[i].moves;
    }
    return all;
}

peerwin_status pw_halo_table_make(peerwin_halo *halo, const pw_site *site) {
    layout l = {.halo = halo};
    peerwin_status status = take_memory(&l) ? make(&l, site) : pw_fail_errno(site, ENOMEM, "calloc");
    free(l.bytes);
    for (int i = 0; i < DRAFTS; i++) {
        free(l.drafts[i].targets);
        free(l.drafts[i].moves);
    }
    return status;
}

void pw_halo_table_free(peerwin_halo *halo) {
    peerwin_ctx *ctx = halo->ctx;
    if (!halo->table.memory)
        return;
    if (pw_space_enter_to_release(ctx, PW_SITE("peerwin_halo_free", "release", ctx->rank, PW_NONE))) {
        (void)pw_gpu_drop(ctx->gpu, halo->table.memory, PEERWIN_OK);
        pw_space_leave(ctx);
    }
    halo->table.memory = NULL;
}
