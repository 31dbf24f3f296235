/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The life of a plan: every rank tells its faces to all, each checks its own against those of its peers, the ranks
 * agree, and what is to be moved is written down.
 *
 * The receiver decides for each face whether it comes through its staging area, and says where; the sender reads that
 * in the receiver's record. Whatever can fail on one rank alone is done before an agreement.
 */
#include "halo/draft.h"

#include "halo/lay.h"
#include "transfer/box.h"
#include "transfer/door.h"
#include "window/space.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Signals are on lines of their own as long as there are enough of them. */
enum { SLOTS_PER_LINE = PW_LINE / (int)sizeof(uint64_t) };

/* ---- memory */

static void release(pw_plan *plan) {
    peerwin_halo *halo = (peerwin_halo *)(void *)plan;
    for (pw_plan **at = &halo->ctx->plans; *at; at = &(*at)->next)
        if (*at == plan) {
            *at = plan->next;
            break;
        }
    pw_halo_table_free(halo);
    free(halo->neighbors);
    free(halo->moves);
    free(halo->received);
    free(halo->windows);
    free(halo);
}

static void discard(pw_draft *d) {
    free(d->sent);
    free(d->records);
    free(d->targets);
    free(d->ranks);
    free(d->lists);
    free(d->all);
}

/* Zeroed, and never NULL for want of entries. */
static void *entries(size_t count, size_t bytes) {
    return calloc(count + 1, bytes);
}

static int take_memory(pw_draft *d, const pw_faces *faces) {
    size_t sends = (size_t)faces->num_send;
    size_t receives = (size_t)faces->num_recv;
    size_t both = sends + receives;
    peerwin_halo *halo = d->halo;
    halo->neighbors = entries(both, sizeof *halo->neighbors);
    halo->moves = entries(2 * both, sizeof *halo->moves); /* words have theirs */
    halo->received = entries(receives, sizeof *halo->received);
    halo->windows = entries(both, sizeof(peerwin_win *));
    d->sent = entries(sends, sizeof *d->sent);
    d->records = entries(both, sizeof *d->records);
    d->targets = entries(sends, sizeof *d->targets);
    d->ranks = entries(both, sizeof *d->ranks);
    d->lists = entries((size_t)halo->ctx->size, sizeof *d->lists);
    return halo->neighbors && halo->moves && halo->received && halo->windows && d->sent && d->records && d->targets &&
           d->ranks && d->lists;
}

/* ---- what this rank knows by itself */

static int keep(const peerwin_face *faces, int count, peerwin_face *kept) {
    int n = 0;
    for (int i = 0; i < count; i++)
        if (faces[i].peer != MPI_PROC_NULL)
            kept[n++] = faces[i];
    return n;
}

static void note_window(peerwin_halo *halo, peerwin_win *win) {
    for (int i = 0; i < halo->plan.num_windows; i++)
        if (halo->windows[i] == win)
            return;
    halo->windows[halo->plan.num_windows++] = win;
}

static void note_neighbor(peerwin_halo *halo, int rank, unsigned role) {
    int i = 0;
    if (rank == halo->ctx->rank)
        return;
    while (i < halo->num_neighbors && halo->neighbors[i].rank != rank)
        i++;
    halo->neighbors[i].rank = rank;
    halo->neighbors[i].roles |= role;
    if (i == halo->num_neighbors)
        halo->num_neighbors++;
}

/* In CUDA space words may carry small faces between ranks. Places are for those that come. */
static void find_words(const pw_draft *d, const peerwin_face *face, int comes, uint64_t *place,
                       pw_face_record *record) {
    const peerwin_ctx *ctx = d->halo->ctx;
    if (!pw_on_streams(ctx) || record->peer == ctx->rank || pw_box_empty(&face->box))
        return;
    record->words = pw_box_word_data(face->win->peers[ctx->rank].base, &face->box);
    record->word_place = comes ? *place : 0;
    if (comes)
        *place += pw_word_room(record->bytes);
}

static void describe(pw_draft *d) {
    peerwin_halo *halo = d->halo;
    uint64_t place = 0;
    for (int i = 0; i < d->num_sent; i++) {
        d->records[i] = pw_face_describe(&d->sent[i]);
        find_words(d, &d->sent[i], 0, &place, &d->records[i]);
        note_window(halo, d->sent[i].win);
        note_neighbor(halo, d->sent[i].peer, PW_HALO_GETS_FROM_ME);
    }
    for (int i = 0; i < d->num_received; i++) {
        pw_face_record *record = &d->records[d->num_sent + i];
        *record = pw_face_describe(&halo->received[i]);
        find_words(d, &halo->received[i], 1, &place, record);
        note_window(halo, halo->received[i].win);
        note_neighbor(halo, halo->received[i].peer, PW_HALO_SENDS_TO_ME);
    }
    for (int i = 0; i < halo->num_neighbors; i++)
        d->ranks[i] = halo->neighbors[i].rank;
    pw_draft_stage(d);
}

static peerwin_status check_arguments(const peerwin_ctx *ctx, const pw_faces *faces, unsigned flags,
                                      peerwin_halo *const *halo_out, const pw_site *site) {
    if (!halo_out)
        return pw_fail(PEERWIN_ERR_ARG, site, "halo_out is NULL");
    if (flags & ~PEERWIN_HALO_SHARED)
        return pw_fail(PEERWIN_ERR_ARG, site, "flags are 0x%x, which has unknown bits, or bits of _create_cart", flags);
    if (faces->num_send < 0 || (faces->num_send > 0 && !faces->send))
        return pw_fail(PEERWIN_ERR_ARG, site, "num_send is %d and send is %s", faces->num_send,
                       faces->send ? "set" : "NULL");
    if (faces->num_recv < 0 || (faces->num_recv > 0 && !faces->recv))
        return pw_fail(PEERWIN_ERR_ARG, site, "num_recv is %d and recv is %s", faces->num_recv,
                       faces->recv ? "set" : "NULL");
    if (ctx->size > PW_HALO_MOST_SIGNALS / PW_HALO_WORDS)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site, "halo plans are for at most %d ranks",
                       PW_HALO_MOST_SIGNALS / PW_HALO_WORDS);
    return pw_faces_check(ctx, faces, (flags & PEERWIN_HALO_SHARED) != 0, site);
}

/* Everything that needs no other rank. */
static peerwin_status prepare(pw_draft *d, peerwin_ctx *ctx, const pw_faces *faces, const pw_site *site) {
    peerwin_halo *halo = calloc(1, sizeof *halo);
    if (!halo)
        return pw_fail_errno(site, ENOMEM, "calloc");
    d->halo = halo;
    halo->ctx = ctx;
    halo->stride = ctx->size <= PW_HALO_MOST_SIGNALS / PW_HALO_WORDS / SLOTS_PER_LINE ? SLOTS_PER_LINE : 1;
    halo->plan.ordinal = ctx->next_plan + 1;
    halo->plan.release = release;
    if (!take_memory(d, faces))
        return pw_fail_errno(site, ENOMEM, "calloc");
    d->num_sent = keep(faces->send, faces->num_send, d->sent);
    d->num_received = keep(faces->recv, faces->num_recv, halo->received);
    describe(d);
    halo->plan.windows = halo->windows;
    halo->plan.received = halo->received;
    halo->plan.num_received = d->num_received;
    return PEERWIN_OK;
}

/* ---- what the ranks tell each other */

/* How many faces a rank has. */
typedef struct {
    int64_t sends, receives;
} counts;

static void read_lists(pw_draft *d, const counts *all, size_t most) {
    const pw_face_record *records = d->all;
    for (int rank = 0; rank < d->halo->ctx->size; rank++) {
        const pw_face_record *first = records + (size_t)rank * most;
        d->lists[rank] = (pw_face_list){.num_send = (int)all[rank].sends,
                                        .num_recv = (int)all[rank].receives,
                                        .send = first,
                                        .recv = first + all[rank].sends};
    }
}

static size_t most_faces(const counts *all, int size) {
    int64_t most = 1;
    for (int rank = 0; rank < size; rank++)
        if (all[rank].sends + all[rank].receives > most)
            most = all[rank].sends + all[rank].receives;
    return (size_t)most;
}

/* Every rank contributes as many records as the one that has most. */
static peerwin_status gather_records(pw_draft *d, const counts *all, const pw_site *site) {
    peerwin_ctx *ctx = d->halo->ctx;
    size_t most = most_faces(all, ctx->size);
    size_t bytes = most * sizeof(pw_face_record);
    if (bytes > INT_MAX)
        return pw_fail(PEERWIN_ERR_NO_MEMORY, site, "a rank has %zu faces, which is too many", most);
    pw_face_record *mine = calloc(most, sizeof *mine);
    peerwin_status status = mine ? PEERWIN_OK : pw_fail_errno(site, ENOMEM, "calloc");
    status = pw_ctx_agree(ctx, status, site);
    if (status == PEERWIN_OK && mine) {
        memcpy(mine, d->records, (size_t)(d->num_sent + d->num_received) * sizeof *mine);
        status = pw_ctx_gather(ctx, mine, bytes, &d->all, site);
    }
    if (status == PEERWIN_OK)
        read_lists(d, all, most);
    free(mine);
    return status;
}

static peerwin_status gather(pw_draft *d, const pw_site *site) {
    const counts mine = {d->num_sent, d->num_received};
    void *all = NULL;
    peerwin_status status = pw_ctx_gather(d->halo->ctx, &mine, sizeof mine, &all, site);
    if (status == PEERWIN_OK)
        status = gather_records(d, all, site);
    free(all);
    return status;
}

/* ---- make and free */

static peerwin_status make_window(pw_draft *d, const pw_site *site) {
    peerwin_halo *halo = d->halo;
    peerwin_win_config config;
    peerwin_win_config_init(&config);
    config.neighbors = d->ranks;
    config.num_neighbors = halo->num_neighbors;
    config.num_signals = pw_halo_handshake(halo) + PW_HALO_ROOMS * (unsigned)halo->words;
    config.name = "halo plan";
    peerwin_status status =
        pw_win_make(halo->ctx, pw_on_streams(halo->ctx) ? halo->half : 2 * halo->half, &config, &halo->win, site);
    if (status == PEERWIN_OK)
        halo->win->of_plan = 1;
    return status;
}

/* A rank on which that fails takes the window of all away again. */
static peerwin_status lay_out(pw_draft *d, const pw_site *site) {
    char text[PW_ERROR_TEXT];
    peerwin_halo *halo = d->halo;
    peerwin_status status = pw_ctx_agree(halo->ctx, pw_halo_table_make(halo, site), site);
    if (status == PEERWIN_OK)
        return status;
    memcpy(text, peerwin_last_error(), sizeof text);
    pw_win_abandon(halo->win, site);
    return pw_error_adopt(status, text);
}

/* The ranks are together: from here on nothing fails on one of them alone. */
static peerwin_status make_together(pw_draft *d, const pw_site *site) {
    peerwin_ctx *ctx = d->halo->ctx;
    ctx->next_plan++;
    peerwin_status status = gather(d, site);
    if (status != PEERWIN_OK)
        return status;
    pw_draft_choose_words(d);
    status = pw_faces_pair(d->lists, ctx->rank, d->targets, site);
    if (status == PEERWIN_OK)
        status = pw_draft_check_targets(d, site);
    status = pw_ctx_agree(ctx, status, site);
    if (status == PEERWIN_OK)
        status = make_window(d, site);
    if (status != PEERWIN_OK)
        return status;
    pw_draft_settle(d);
    if (pw_on_streams(ctx))
        status = lay_out(d, site);
    if (status != PEERWIN_OK)
        return status;
    d->halo->plan.next = ctx->plans;
    ctx->plans = &d->halo->plan;
    return PEERWIN_OK;
}

peerwin_status pw_halo_make(peerwin_ctx *ctx, const pw_faces *faces, unsigned flags, peerwin_status ready,
                            peerwin_halo **halo_out, const pw_site *site) {
    pw_draft d = {0};
    if (ready == PEERWIN_OK)
        ready = check_arguments(ctx, faces, flags, halo_out, site);
    if (ready == PEERWIN_OK)
        ready = prepare(&d, ctx, faces, site);
    peerwin_status status = pw_ctx_agree_enter(ctx, PW_CALL_HALO_CREATE, ctx->next_plan + 1, ready, site);
    if (status == PEERWIN_OK)
        status = make_together(&d, site);
    discard(&d);
    if (status == PEERWIN_OK)
        *halo_out = d.halo;
    else if (d.halo)
        release(&d.halo->plan);
    return status;
}

peerwin_status peerwin_halo_create(peerwin_ctx *ctx, int num_send, const peerwin_face *send, int num_recv,
                                   const peerwin_face *recv, unsigned flags, peerwin_halo **halo_out) {
    static const char call[] = "peerwin_halo_create";
    const pw_faces faces = {.num_send = num_send, .num_recv = num_recv, .send = send, .recv = recv};
    if (!ctx)
        return pw_refuse_null(NULL, call, "ctx");
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    const pw_site *site = PW_SITE(call, NULL, ctx->rank, PW_NONE);
    peerwin_status entered = pw_space_enter(ctx, site);
    status = pw_halo_make(ctx, &faces, flags, entered, halo_out, site);
    if (entered == PEERWIN_OK)
        pw_space_leave(ctx);
    pw_ctx_leave(ctx);
    return status;
}

static peerwin_status free_together(peerwin_halo *halo, int *gone_out, const pw_site *site) {
    peerwin_status status = pw_ctx_agree_enter(halo->ctx, PW_CALL_HALO_FREE, halo->plan.ordinal, PEERWIN_OK, site);
    return status == PEERWIN_OK ? pw_win_close(halo->win, PEERWIN_OK, gone_out, site) : status;
}

peerwin_status peerwin_halo_free(peerwin_halo *halo) {
    static const char call[] = "peerwin_halo_free";
    int gone = 0;
    if (!halo)
        return PEERWIN_OK;
    peerwin_ctx *ctx = halo->ctx;
    const pw_site *site = PW_SITE(call, NULL, ctx->rank, PW_NONE);
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status == PEERWIN_OK) {
        status = free_together(halo, &gone, site);
        if (gone)
            release(&halo->plan);
        pw_ctx_leave(ctx);
        return status;
    }
    if (!pw_ctx_is_over(status))
        return status;
    pw_win_close_alone(halo->win, site);
    release(&halo->plan);
    return PEERWIN_OK;
}
