/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Laying out the table: how the moves of a plan are cut into parts for warps, and these dealt to blocks.
 *
 * The cost of an item is the memory that it touches, 16 bytes or a cell of its own sector, so parts have equally many
 * items. All parts of a block go to one rank. Small plans have one part a warp with four items a lane, all of whose
 * loads are in flight at once; large ones have longer parts rather than more blocks than the device runs in a few
 * waves. A plan whose blocks may wait for grants has no more than its share of the multiprocessors.
 */
#include "halo/table.h"

#include "halo/halo.h"
#include "window/sharing.h"
#include "window/space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LANE_ITEMS = 4, LANE_ITEMS_WAITING = 8, WAVES = 8 };

/* Rows of at most so many cells are moved by cells, longer ones by vectors of 16 bytes. */
enum { THIN_ROW_CELLS = 32, VECTOR = 16 };

/* What is pushed to one rank: a list of moves, NULL at the end of the targets. The last target is this rank itself. */
typedef struct {
    const pw_moves *moves;
    const pw_halo_neighbor *neighbor; /* NULL = this rank */
    pw_push_move *laid;
} target;

/* The table as the host makes it: offsets in bytes from its beginning. */
typedef struct {
    peerwin_halo *halo;
    target *targets;
    uint32_t num_targets, num_moves, num_sources;
    uint32_t per_part; /* items */
    uint32_t num_blocks;
    pw_push_move *moves;
    char *bytes;
    size_t size;
    size_t epochs, tickets, grants, arrivals, permits, blocks, parts, laid;
} layout;

static uint64_t divide_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

/* ---- moves ---- */

/* n * factor >> shift is n / by for n < 2^31: factor exceeds 2^shift / by by at most 1, and n * by < 2^shift. */
static pw_divisor divisor_of(uint64_t by) {
    uint32_t bits = 0;
    if (by >> 31 != 0)
        return (pw_divisor){0, 0};
    while ((uint64_t)1 << bits < by)
        bits++;
    return (pw_divisor){(uint32_t)(((uint64_t)1 << (31 + bits)) / by + 1), 31 + bits};
}

static uint64_t bits_of(const void *base, const peerwin_box *box) {
    uint64_t bits = (uint64_t)(uintptr_t)base | box->count[0];
    if (box->count[1] > 1)
        bits |= box->stride[0];
    if (box->count[2] > 1)
        bits |= box->stride[1];
    return bits;
}

/* The largest cell that every row of both boxes is made of. */
static uint32_t cell_of(const pw_move *move) {
    const uint64_t bits = bits_of(move->to, &move->to_box) | bits_of(move->from, &move->from_box);
    return bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 1;
}

/* How many aligned vectors of the target a row touches at most. */
static uint64_t slots_of(const pw_move *move, uint32_t cell) {
    const peerwin_box *box = &move->to_box;
    uint64_t before = VECTOR - cell; /* of the first vector */
    if ((box->count[1] == 1 || box->stride[0] % VECTOR == 0) && (box->count[2] == 1 || box->stride[1] % VECTOR == 0))
        before = (uint64_t)(uintptr_t)move->to % VECTOR;
    return divide_up(before + box->count[0], VECTOR);
}

static pw_push_side side_of(const void *base, const peerwin_box *box, uint64_t per_row) {
    return (pw_push_side){.base = (char *)(uintptr_t)base,
                          .row = box->stride[0],
                          .plane = box->stride[1],
                          .per_row = per_row,
                          .per_plane = box->count[1],
                          .by_row = divisor_of(per_row),
                          .by_plane = divisor_of(box->count[1])};
}

static uint64_t items_of(const pw_push_move *laid, const pw_move *move) {
    return laid->to.per_row * move->to_box.count[1] * move->to_box.count[2];
}

static pw_push_move lay_move(const pw_move *move) {
    pw_push_move laid = {.row_bytes = move->to_box.count[0], .cell = cell_of(move)};
    laid.even = pw_move_is_even(move) != 0;
    laid.slots = laid.even && laid.cell < VECTOR && laid.row_bytes > (uint64_t)THIN_ROW_CELLS * laid.cell;
    const uint64_t slots = laid.slots ? slots_of(move, laid.cell) : 0;
    laid.to = side_of(move->to, &move->to_box, slots ? slots : move->to_box.count[0] / laid.cell);
    laid.from = side_of(move->from, &move->from_box, slots ? slots : move->from_box.count[0] / laid.cell);
    laid.wide = items_of(&laid, move) >> 31 != 0;
    return laid;
}

/* ---- targets ---- */

static void add_target(layout *l, const pw_moves *moves, const pw_halo_neighbor *neighbor) {
    target *t = &l->targets[l->num_targets++];
    *t = (target){.moves = moves, .neighbor = neighbor, .laid = l->moves + l->num_moves};
    for (int i = 0; i < moves->count; i++)
        l->moves[l->num_moves++] = lay_move(&moves->list[i]);
}

static void list_targets(layout *l) {
    const peerwin_halo *halo = l->halo;
    for (int i = 0; i < halo->num_neighbors; i++) {
        const pw_halo_neighbor *n = &halo->neighbors[i];
        if (n->roles & PW_HALO_GETS_FROM_ME)
            add_target(l, &n->push, n);
        l->num_sources += (n->roles & PW_HALO_SENDS_TO_ME) != 0;
    }
    if (halo->own.count > 0)
        add_target(l, &halo->own, NULL);
}

static uint64_t parts_of(const target *t, uint64_t per_part) {
    uint64_t parts = 0;
    for (int i = 0; i < t->moves->count; i++)
        parts += divide_up(items_of(&t->laid[i], &t->moves->list[i]), per_part);
    return parts;
}

/* A target with nothing to move is told so all the same. */
static uint64_t blocks_of(const target *t, uint64_t per_part) {
    const uint64_t parts = parts_of(t, per_part);
    return parts > 0 ? divide_up(parts, PW_PUSH_WARPS) : 1;
}

static uint64_t all_blocks(const layout *l, uint64_t per_part) {
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < l->num_targets; i++)
        blocks += blocks_of(&l->targets[i], per_part);
    return blocks;
}

static uint64_t all_items(const layout *l) {
    uint64_t items = 0;
    for (uint32_t i = 0; i < l->num_targets; i++)
        for (int k = 0; k < l->targets[i].moves->count; k++)
            items += items_of(&l->targets[i].laid[k], &l->targets[i].moves->list[k]);
    return items;
}

/*
 * Settles how long parts are, and whether blocks may wait. One block more gives the grants. Where kernels may wait on a
 * device that ranks share, the driver counts the multiprocessors of this rank's share only.
 */
static void deal(layout *l) {
    const peerwin_ctx *ctx = l->halo->ctx;
    const uint64_t share = (uint64_t)pw_gpu_about(ctx->gpu)->multiprocessors;
    const uint64_t most = share * PW_PUSH_RESIDENT * WAVES * PW_PUSH_WARPS;
    uint64_t per_part = (uint64_t)LANE_ITEMS * PW_PUSH_WARP;
    if (ctx->kernels_wait && all_blocks(l, per_part) >= share &&
        all_blocks(l, (uint64_t)LANE_ITEMS_WAITING * PW_PUSH_WARP) < share)
        per_part = (uint64_t)LANE_ITEMS_WAITING * PW_PUSH_WARP;
    l->halo->table.waits = ctx->kernels_wait && all_blocks(l, per_part) < share;
    const uint64_t longer = divide_up(all_items(l), most ? most : 1);
    if (longer > per_part)
        per_part = divide_up(longer, PW_PUSH_WARP) * PW_PUSH_WARP;
    l->per_part = (uint32_t)per_part;
    l->num_blocks = (uint32_t)all_blocks(l, per_part);
}

/* ---- the image ---- */

static size_t reserve(layout *l, size_t bytes) {
    const size_t at = l->size;
    l->size += pw_pad_round(bytes, PW_LINE);
    return at;
}

static void place(layout *l) {
    l->epochs = reserve(l, PW_PUSH_SERIES * sizeof(uint64_t));
    l->tickets = reserve(l, l->num_targets * sizeof(uint32_t));
    l->grants = reserve(l, PW_PUSH_SERIES * l->num_sources * sizeof(uint64_t *));
    l->arrivals = reserve(l, PW_PUSH_SERIES * l->num_sources * sizeof(uint64_t *));
    l->permits = reserve(l, PW_PUSH_SERIES * l->num_targets * sizeof(uint64_t *));
    l->blocks = reserve(l, l->num_blocks * sizeof(pw_push_block));
    l->parts = reserve(l, (size_t)l->num_blocks * PW_PUSH_WARPS * sizeof(pw_push_part));
    l->laid = reserve(l, l->num_moves * sizeof(pw_push_move));
}

/* The word in my slots that a rank writes, and the one of mine at a rank. */
static uint64_t *mine(const peerwin_halo *halo, pw_halo_word word, int series, int writer) {
    const pw_halo_word at = (pw_halo_word)((int)word + series * (int)PW_HALO_GRAPH_GRANT);
    return &halo->win->peers[halo->ctx->rank].slots[pw_halo_slot(halo, at, writer)];
}

static uint64_t *theirs(const peerwin_halo *halo, pw_halo_word word, int series, int owner) {
    const pw_halo_word at = (pw_halo_word)((int)word + series * (int)PW_HALO_GRAPH_GRANT);
    return &halo->win->peers[owner].slots[pw_halo_slot(halo, at, halo->ctx->rank)];
}

static void write_words(const layout *l) {
    const peerwin_halo *halo = l->halo;
    for (int series = 0; series < PW_PUSH_SERIES; series++) {
        uint64_t **grants = (uint64_t **)(void *)(l->bytes + l->grants) + (uint32_t)series * l->num_sources;
        uint64_t **arrivals = (uint64_t **)(void *)(l->bytes + l->arrivals) + (uint32_t)series * l->num_sources;
        uint64_t **permits = (uint64_t **)(void *)(l->bytes + l->permits) + (uint32_t)series * l->num_targets;
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

static pw_push_block block_of(const layout *l, uint32_t number, uint32_t blocks) {
    const pw_halo_neighbor *n = l->targets[number].neighbor;
    pw_push_block block = {.ticket = number, .blocks = blocks};
    for (int series = 0; n && series < PW_PUSH_SERIES; series++) {
        block.grant[series] = mine(l->halo, PW_HALO_GRANT, series, n->rank);
        block.arrival[series] = theirs(l->halo, PW_HALO_ARRIVAL, series, n->rank);
    }
    return block;
}

static void write_parts(const layout *l, const target *t, pw_push_part *part) {
    for (int i = 0; i < t->moves->count; i++) {
        const uint64_t items = items_of(&t->laid[i], &t->moves->list[i]);
        for (uint64_t first = 0; first < items; first += l->per_part)
            *part++ = (pw_push_part){
                .first = first,
                .count = items - first < l->per_part ? (uint32_t)(items - first) : l->per_part,
                .move = (uint32_t)(t->laid - l->moves) + (uint32_t)i,
            };
    }
}

static void write_blocks(const layout *l) {
    pw_push_block *block = (pw_push_block *)(void *)(l->bytes + l->blocks);
    pw_push_part *part = (pw_push_part *)(void *)(l->bytes + l->parts);
    for (uint32_t i = 0; i < l->num_targets; i++) {
        const uint32_t blocks = (uint32_t)blocks_of(&l->targets[i], l->per_part);
        write_parts(l, &l->targets[i], part);
        part += (size_t)blocks * PW_PUSH_WARPS;
        for (uint32_t k = 0; k < blocks; k++)
            *block++ = block_of(l, i, blocks);
    }
    memcpy(l->bytes + l->laid, l->moves, l->num_moves * sizeof *l->moves);
}

/* ---- the table ---- */

static void point(pw_halo_table *table, const layout *l) {
    char *base = table->memory;
    table->epochs = (uint64_t *)(void *)(base + l->epochs);
    table->tickets = (uint32_t *)(void *)(base + l->tickets);
    table->blocks = (const pw_push_block *)(void *)(base + l->blocks);
    table->parts = (const pw_push_part *)(void *)(base + l->parts);
    table->moves = (const pw_push_move *)(void *)(base + l->laid);
    for (uint32_t series = 0; series < PW_PUSH_SERIES; series++) {
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
    return 1;
}

static peerwin_status make(layout *l, const pw_site *site) {
    pw_halo_table *table = &l->halo->table;
    list_targets(l);
    deal(l);
    place(l);
    l->bytes = calloc(1, l->size);
    if (!l->bytes)
        return pw_fail_errno(site, ENOMEM, "calloc");
    write_words(l);
    write_blocks(l);
    peerwin_status status = pw_gpu_keep(l->halo->ctx->gpu, l->bytes, l->size, site, &table->memory);
    if (status != PEERWIN_OK)
        return status;
    point(table, l);
    table->num_sources = l->num_sources;
    table->num_targets = l->num_targets - (l->halo->own.count > 0);
    table->num_blocks = l->num_blocks;
    table->one_device = on_one_device(l->halo);
    return PEERWIN_OK;
}

peerwin_status pw_halo_table_make(peerwin_halo *halo, const pw_site *site) {
    layout l = {.halo = halo};
    size_t moves = (size_t)halo->own.count;
    peerwin_status status = PEERWIN_OK;
    for (int i = 0; i < halo->num_neighbors; i++)
        moves += (size_t)halo->neighbors[i].push.count;
    l.targets = calloc((size_t)halo->num_neighbors + 1, sizeof *l.targets);
    l.moves = calloc(moves + 1, sizeof *l.moves);
    status = l.targets && l.moves ? make(&l, site) : pw_fail_errno(site, ENOMEM, "calloc");
    free(l.bytes);
    free(l.moves);
    free(l.targets);
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
