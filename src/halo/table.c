/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Laying out the table: what the kernels of each kind move, and what they tell to whom. The host makes an image of it,
 * in which pointers are those of the device.
 */
#include "halo/table.h"

#include "halo/deal.h"
#include "halo/halo.h"
#include "window/sharing.h"
#include "window/space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TAKE = PW_HALO_SERIES, UNPACK = TAKE + PW_HALO_SERIES, DEALS = UNPACK + PW_HALO_SERIES };

/* The table as the host makes it. */
typedef struct {
    peerwin_halo *halo;
    pw_deal deals[DEALS];
    size_t num_sources, num_targets;
    char *bytes;
    size_t size;
    size_t counts, tickets, grants, arrivals, permits;
} layout;

/* ---- targets ---- */

static void add_target(const layout *l, pw_deal *d, const pw_moves *moves, const pw_halo_neighbor *neighbor,
                       int words) {
    pw_deal_add(d, moves, neighbor, words, l->halo->words * sizeof(uint64_t));
}

static void list_targets(const layout *l, pw_deal *d) {
    const peerwin_halo *halo = l->halo;
    for (int i = 0; i < halo->num_neighbors; i++) {
        const pw_halo_neighbor *n = &halo->neighbors[i];
        if (n->roles & PW_HALO_GETS_FROM_ME)
            add_target(l, d, n->takes_words ? &n->post : &n->push, n, n->takes_words);
    }
    if (halo->own.count > 0)
        add_target(l, d, &halo->own, NULL, 0);
}

static void list_sources(const layout *l, pw_deal *d) {
    const peerwin_halo *halo = l->halo;
    d->takes = 1;
    for (int i = 0; i < halo->num_neighbors && halo->takes_words; i++)
        if (halo->neighbors[i].spread.count > 0)
            add_target(l, d, &halo->neighbors[i].spread, &halo->neighbors[i], halo->takes_words);
}

static int is_packed(const peerwin_halo *halo) {
    for (int i = 0; i < halo->num_neighbors; i++)
        if (halo->neighbors[i].unpack.count > 0)
            return 1;
    return 0;
}

/* Those that wait do so for all that comes, so they are finish; what comes as words needs none. */
static void list_unpacks(const layout *l, pw_deal *d) {
    const peerwin_halo *halo = l->halo;
    d->unpacks = 1;
    if (!is_packed(halo) || halo->takes_words)
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
    for (int series = 0; series < PW_HALO_SERIES; series++) {
        l->deals[series].series = l->deals[TAKE + series].series = series;
        list_targets(l, &l->deals[series]);
        list_sources(l, &l->deals[TAKE + series]);
        list_unpacks(l, &l->deals[UNPACK + series]);
    }
}

/* ---- the image ---- */

static size_t reserve(layout *l, size_t bytes) {
    const size_t at = l->size;
    l->size += pw_pad_round(bytes, PW_LINE);
    return at;
}

/* Of a kernel that is start and finish, with that which grants. */
static size_t blocks_of_both(const layout *l, int series) {
    return 1 + (size_t)l->deals[series].num_blocks + l->deals[TAKE + series].num_blocks;
}

static void place(layout *l) {
    l->counts = reserve(l, (1 + blocks_of_both(l, PW_SERIES_CAPTURED)) * sizeof(uint64_t));
    l->tickets = reserve(l, l->num_targets * sizeof(uint32_t));
    l->grants = reserve(l, PW_HALO_SERIES * l->num_sources * sizeof(uint64_t *));
    l->arrivals = reserve(l, PW_HALO_SERIES * l->num_sources * sizeof(uint64_t *));
    l->permits = reserve(l, PW_HALO_SERIES * l->num_targets * sizeof(uint64_t *));
    for (int i = 0; i < DEALS; i++) {
        pw_deal *d = &l->deals[i];
        d->blocks = reserve(l, d->num_blocks * sizeof(pw_push_block));
        d->parts = reserve(l, (size_t)d->num_blocks * PW_PUSH_WARPS * sizeof(pw_push_part));
        d->laid = reserve(l, pw_deal_moves(d) * sizeof(pw_push_move));
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
    const pw_target *t = &l->deals[UNPACK + series].targets[number];
    return (pw_push_block){.grant = mine(l->halo, PW_HALO_ARRIVAL, series, t->neighbor->rank), .blocks = blocks};
}

/* Words say themselves that they are there, and their half was free when the exchange before this one was granted. */
static pw_push_block block_of(const layout *l, int series, uint32_t number, uint32_t blocks) {
    const pw_target *t = &l->deals[series].targets[number];
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

static void write_deal(const layout *l, int number) {
    const pw_deal *d = &l->deals[number];
    pw_push_block *block = (pw_push_block *)(void *)(l->bytes + d->blocks);
    pw_push_part *part = (pw_push_part *)(void *)(l->bytes + d->parts);
    for (uint32_t i = 0; i < d->num_targets; i++) {
        const uint32_t blocks = (uint32_t)pw_deal_blocks(&d->targets[i], d->per_part);
        pw_deal_write_parts(d, &d->targets[i], part);
        part += (size_t)blocks * PW_PUSH_WARPS;
        for (uint32_t k = 0; k < blocks && !d->takes; k++)
            *block++ = d->unpacks ? unpacking_block(l, number - UNPACK, i, blocks) : block_of(l, number, i, blocks);
    }
    pw_deal_write_moves(d, l->bytes);
}

/* ---- the table ---- */

static pw_halo_work work_of(const char *base, const pw_deal *d) {
    return (pw_halo_work){.blocks = (const pw_push_block *)(const void *)(base + d->blocks),
                          .parts = (const pw_push_part *)(const void *)(base + d->parts),
                          .moves = (const pw_push_move *)(const void *)(base + d->laid),
                          .num_blocks = d->num_blocks,
                          .waits = d->waits,
                          .apart = d->apart};
}

static void point(pw_halo_table *table, const layout *l) {
    char *base = table->memory;
    table->finishes = (uint64_t *)(void *)(base + l->counts);
    table->starts = table->finishes + 1;
    table->num_starts = (uint32_t)blocks_of_both(l, PW_SERIES_CAPTURED);
    table->tickets = (uint32_t *)(void *)(base + l->tickets);
    for (uint32_t series = 0; series < PW_HALO_SERIES; series++) {
        table->push[series] = work_of(base, &l->deals[series]);
        table->take[series] = work_of(base, &l->deals[TAKE + series]);
        table->unpack[series] = work_of(base, &l->deals[UNPACK + series]);
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

/* Where kernels may wait on a device that ranks share, the driver counts the multiprocessors of this rank's share. */
static uint64_t share_of(const layout *l) {
    return (uint64_t)pw_gpu_about(l->halo->ctx->gpu)->multiprocessors;
}

/* All blocks of both must be there at once, and all that comes must come as words. */
static int can_join(const layout *l, int series) {
    const pw_deal *push = &l->deals[series];
    return push->waits && push->num_blocks > 0 && (l->num_sources == 0 || l->halo->takes_words) &&
           blocks_of_both(l, series) <= share_of(l);
}

/* All whose faces come here get some from here: then start waits for nobody whom it might not wait for anyhow. */
static int is_mutual(const peerwin_halo *halo) {
    for (int i = 0; i < halo->num_neighbors; i++)
        if (halo->neighbors[i].roles == PW_HALO_SENDS_TO_ME)
            return 0;
    return 1;
}

/* Large plans have other things to do than to wait for a launch. */
static peerwin_status keep_ready(const layout *l, const pw_site *site) {
    pw_halo_table *table = &l->halo->table;
    if (!table->joins[PW_SERIES_EAGER])
        return PEERWIN_OK;
    peerwin_status status = pw_ready_push_new(l->halo->ctx->gpu, site, &table->ready);
    if (status == PEERWIN_OK)
        return status;
    status = pw_gpu_drop(l->halo->ctx->gpu, table->memory, status);
    table->memory = NULL;
    return status;
}

static peerwin_status make(layout *l, const pw_site *site) {
    pw_halo_table *table = &l->halo->table;
    list_all(l);
    for (int i = 0; i < DEALS; i++)
        pw_deal_settle(&l->deals[i], l->halo->ctx->kernels_wait, share_of(l));
    place(l);
    l->bytes = calloc(1, l->size);
    if (!l->bytes)
        return pw_fail_errno(site, ENOMEM, "calloc");
    write_words(l);
    for (int i = 0; i < DEALS; i++)
        write_deal(l, i);
    peerwin_status status = pw_gpu_keep(l->halo->ctx->gpu, l->bytes, l->size, site, &table->memory);
    if (status != PEERWIN_OK)
        return status;
    point(table, l);
    table->num_sources = (uint32_t)l->num_sources;
    table->num_targets = (uint32_t)l->num_targets;
    table->joins[PW_SERIES_EAGER] = can_join(l, PW_SERIES_EAGER) && is_mutual(l->halo);
    table->joins[PW_SERIES_CAPTURED] = can_join(l, PW_SERIES_CAPTURED);
    table->one_device = on_one_device(l->halo);
    return keep_ready(l, site);
}

/* Room for whatever the deals may hold. */
static int take_memory(layout *l) {
    const peerwin_halo *halo = l->halo;
    size_t moves = (size_t)halo->own.count;
    int all = 1;
    for (int i = 0; i < halo->num_neighbors; i++) {
        const pw_halo_neighbor *n = &halo->neighbors[i];
        moves += (size_t)(n->push.count + n->post.count + n->spread.count + n->unpack.count);
    }
    for (int i = 0; i < DEALS; i++) {
        l->deals[i].targets = calloc((size_t)halo->num_neighbors + 1, sizeof(pw_target));
        l->deals[i].moves = calloc(moves + 1, sizeof(pw_push_move));
        all &= l->deals[i].targets && l->deals[i].moves;
    }
    return all;
}

peerwin_status pw_halo_table_make(peerwin_halo *halo, const pw_site *site) {
    layout l = {.halo = halo};
    peerwin_status status = take_memory(&l) ? make(&l, site) : pw_fail_errno(site, ENOMEM, "calloc");
    free(l.bytes);
    for (int i = 0; i < DEALS; i++) {
        free(l.deals[i].targets);
        free(l.deals[i].moves);
    }
    return status;
}

void pw_halo_table_free(peerwin_halo *halo) {
    peerwin_ctx *ctx = halo->ctx;
    if (!halo->table.memory)
        return;
    const int entered = pw_space_enter_to_release(ctx, PW_SITE("peerwin_halo_free", "release", ctx->rank, PW_NONE));
    pw_ready_push_free(entered ? ctx->gpu : NULL, halo->table.ready);
    halo->table.ready = NULL;
    if (entered) {
        (void)pw_gpu_drop(ctx->gpu, halo->table.memory, PEERWIN_OK);
        pw_space_leave(ctx);
    }
    halo->table.memory = NULL;
}
