/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * From paired faces to moves: straight into the receiver's segment, or into its staging area and on from there.
 */
#include "halo/draft.h"

#include "halo/lay.h"
#include "transfer/box.h"
#include "transfer/door.h"

/* Plans that push more than this wake their neighbours one by one. */
enum { LARGE = 8192 };

/* ---- words */

/* The lesser of `data` and what words can carry of every face of such a list to or from `rank`; adds their room. */
static uint64_t least_data(const pw_face_record *faces, int count, int64_t rank, int to_rank, uint64_t data,
                           uint64_t *total) {
    for (int i = 0; i < count; i++) {
        if ((faces[i].peer == rank) != to_rank || faces[i].bytes == 0)
            continue;
        if (faces[i].words < data)
            data = faces[i].words;
        *total += pw_word_room(faces[i].bytes);
    }
    return data;
}

/*
 * How many words the faces that `rank` gets from others take, 0 if they come as they are. All of them carry the same
 * number of bytes, so that their places are known at both ends.
 */
static uint64_t words_to(const pw_draft *d, int rank, int *data_out) {
    uint64_t room = 0;
    uint64_t sent = 0;
    uint64_t data = least_data(d->lists[rank].recv, d->lists[rank].num_recv, rank, 0, PW_WORD_DATA, &room);
    for (int from = 0; from < d->halo->ctx->size; from++)
        if (from != rank)
            data = least_data(d->lists[from].send, d->lists[from].num_send, rank, 1, data, &sent);
    const int fits = (data == PW_WORD_DATA || data == PW_WORD_DATA_LEAST) && room / data <= PW_HALO_MOST_WORDS;
    *data_out = fits && room > 0 ? (int)data : 0;
    return fits ? room / data : 0;
}

/* Those of the plans that are alive. The same on all ranks, which make and free plans in the same order. */
static uint64_t words_in_use(const peerwin_ctx *ctx) {
    uint64_t words = 0;
    for (const pw_plan *plan = ctx->plans; plan; plan = plan->next)
        words += ((const peerwin_halo *)(const void *)plan)->words;
    return words;
}

/* Only kernels that wait can take them. All plans together leave half of the signals to others, without which those
 * could not be made. */
void pw_draft_choose_words(pw_draft *d) {
    peerwin_halo *halo = d->halo;
    const peerwin_ctx *ctx = halo->ctx;
    const uint64_t most = PW_ARENA_SIGNALS_BYTES / sizeof(uint64_t) / 2;
    if (!pw_on_streams(ctx) || !ctx->kernels_wait ||
        pw_halo_handshake(halo) + PW_HALO_ROOMS * PW_HALO_MOST_WORDS > PW_HALO_MOST_SIGNALS ||
        PW_HALO_ROOMS * (words_in_use(ctx) + PW_HALO_MOST_WORDS) > most)
        return;
    for (int rank = 0; rank < ctx->size; rank++) {
        int data = 0;
        const uint64_t words = words_to(d, rank, &data);
        if (words > halo->words)
            halo->words = words;
        if (rank == ctx->rank)
            halo->takes_words = data;
        for (int i = 0; i < halo->num_neighbors; i++)
            if (halo->neighbors[i].rank == rank)
                halo->neighbors[i].takes_words = data;
    }
}

/* ---- what others say */

static peerwin_win *find_window(const peerwin_ctx *ctx, uint64_t ordinal) {
    for (peerwin_win *win = ctx->windows; win; win = win->next)
        if (pw_win_ordinal(win) == ordinal && !win->of_plan)
            return win;
    return NULL;
}

/* How many bytes each word carries of what that rank gets; 0 = it gets none. */
static uint64_t data_to(const peerwin_halo *halo, int rank) {
    if (rank == halo->ctx->rank)
        return (uint64_t)halo->takes_words;
    for (int i = 0; i < halo->num_neighbors; i++)
        if (halo->neighbors[i].rank == rank)
            return (uint64_t)halo->neighbors[i].takes_words;
    return 0;
}

/* 1 if the words of what I send would lie behind all words. */
static int words_leave(const pw_draft *d, int i) {
    const pw_face_record *target = d->targets[i];
    const uint64_t data = data_to(d->halo, d->sent[i].peer);
    const uint64_t room = data * d->halo->words;
    return d->sent[i].peer != d->halo->ctx->rank && target->words && data > 0 &&
           (target->word_place % pw_word_room(1) != 0 || target->word_place > room ||
            pw_word_room(target->bytes) > room - target->word_place);
}

/* How large a rank's staging area is, or half of it, by what it says of its faces. */
static uint64_t staging_of(const pw_face_list *list) {
    uint64_t bytes = 0;
    for (int i = 0; i < list->num_recv; i++)
        if (list->recv[i].staged)
            bytes += pw_pad_round(list->recv[i].bytes, PW_LINE);
    return bytes;
}

/* 1 if what I put into that rank's staging area would not stay in it. */
static int staged_leaves(const pw_draft *d, int i) {
    const pw_face_record *target = d->targets[i];
    const uint64_t room = target->staged ? staging_of(&d->lists[d->sent[i].peer]) : 0;
    return target->staged &&
           (target->place % PW_LINE != 0 || target->place > room || target->bytes > room - target->place);
}

/* What the receivers say of their boxes came in a message: nothing may be stored outside their segments. */
peerwin_status pw_draft_check_targets(const pw_draft *d, const pw_site *site) {
    for (int i = 0; i < d->num_sent; i++) {
        const int rank = d->sent[i].peer;
        const peerwin_win *win = find_window(d->halo->ctx, d->targets[i]->window);
        const peerwin_box box = pw_face_box(d->targets[i]);
        size_t extent = 0;
        if (!win || pw_box_extent(&box, &extent) != 0 || pw_box_bytes(&box) != d->targets[i]->bytes ||
            (extent > 0 && !pw_in_range(&win->peers[rank], box.offset, extent)) || words_leave(d, i) ||
            staged_leaves(d, i))
            return pw_fail(PEERWIN_ERR_INTERNAL, site, "the face received from rank %d is none of its segment", rank);
    }
    return PEERWIN_OK;
}

/* ---- moves */

/* Where the words of a face are at a rank, in its first room. */
static char *words_at(const peerwin_halo *halo, int rank, const pw_face_record *record) {
    const uint64_t data = data_to(halo, rank) == PW_WORD_DATA ? PW_WORD_DATA : PW_WORD_DATA_LEAST;
    const uint64_t first = record->word_place / data;
    return (char *)(halo->win->peers[rank].slots + pw_halo_handshake(halo) + first);
}

static void add_words(const pw_draft *d, pw_moves *moves, int i) {
    const peerwin_halo *halo = d->halo;
    const peerwin_face *face = &d->sent[i];
    const peerwin_box box = pw_box_packed(&face->box, 0);
    pw_moves_add(moves, halo->win, words_at(halo, face->peer, d->targets[i]), &box,
                 face->win->peers[halo->ctx->rank].base, &face->box);
}

static void add_push(const pw_draft *d, pw_moves *moves, int i) {
    const peerwin_halo *halo = d->halo;
    const pw_face_record *target = d->targets[i];
    const peerwin_face *face = &d->sent[i];
    const char *from = face->win->peers[halo->ctx->rank].base;
    peerwin_win *win = target->staged ? halo->win : find_window(halo->ctx, target->window);
    peerwin_box box = pw_face_box(target);
    if (target->staged)
        box = pw_box_packed(&face->box, target->place);
    if (target->bytes > 0)
        pw_moves_add(moves, win, win->peers[face->peer].base, &box, from, &face->box);
}

static void add_taking(const pw_draft *d, pw_moves *moves, int i) {
    const peerwin_halo *halo = d->halo;
    const int me = halo->ctx->rank;
    const peerwin_face *face = &halo->received[i];
    const peerwin_box box = pw_box_packed(&face->box, 0);
    pw_moves_add(moves, face->win, face->win->peers[me].base, &face->box,
                 words_at(halo, me, &d->records[d->num_sent + i]), &box);
}

static void add_spread(const pw_draft *d, pw_moves *moves, int i) {
    const peerwin_halo *halo = d->halo;
    const int me = halo->ctx->rank;
    const pw_face_record *record = &d->records[d->num_sent + i];
    const peerwin_face *face = &halo->received[i];
    if (!record->staged)
        return;
    const peerwin_box box = pw_box_packed(&face->box, record->place);
    pw_moves_add(moves, face->win, face->win->peers[me].base, &face->box, halo->win->peers[me].base, &box);
}

enum { AS_IT_IS = 1, STAGED = 2 };

static pw_move *collect_pushes(const pw_draft *d, int rank, int which, pw_moves *moves, pw_move *list) {
    moves->list = list;
    for (int i = 0; i < d->num_sent; i++)
        if (d->sent[i].peer == rank && (which & (d->targets[i]->staged ? STAGED : AS_IT_IS)))
            add_push(d, moves, i);
    pw_moves_settle(moves);
    return list + moves->count;
}

static pw_move *collect_words(const pw_draft *d, int rank, pw_moves *moves, pw_move *list) {
    moves->list = list;
    for (int i = 0; i < d->num_sent; i++)
        if (d->sent[i].peer == rank)
            add_words(d, moves, i);
    return list + moves->count;
}

static pw_move *collect_takings(const pw_draft *d, int rank, pw_moves *moves, pw_move *list) {
    moves->list = list;
    for (int i = 0; i < d->num_received; i++)
        if (d->halo->received[i].peer == rank)
            add_taking(d, moves, i);
    return list + moves->count;
}

static pw_move *collect_spreads(const pw_draft *d, int rank, pw_moves *moves, pw_move *list) {
    moves->list = list;
    for (int i = 0; i < d->num_received; i++)
        if (d->halo->received[i].peer == rank)
            add_spread(d, moves, i);
    pw_moves_settle(moves);
    return list + moves->count;
}

/* The kernels of start move all that goes to a rank, wherever it goes. */
static pw_move *settle_on_streams(const pw_draft *d, pw_halo_neighbor *n, pw_move *list) {
    list = collect_pushes(d, n->rank, AS_IT_IS | STAGED, &n->push, list);
    if (n->takes_words)
        list = collect_words(d, n->rank, &n->post, list);
    if (d->halo->takes_words)
        list = collect_takings(d, n->rank, &n->spread, list);
    return collect_spreads(d, n->rank, &n->unpack, list);
}

static pw_move *settle_here(const pw_draft *d, pw_halo_neighbor *n, pw_move *list) {
    peerwin_halo *halo = d->halo;
    list = collect_pushes(d, n->rank, AS_IT_IS, &n->push, list);
    list = collect_pushes(d, n->rank, STAGED, &n->post, list);
    n->half = halo->win->peers[n->rank].bytes / 2;
    halo->large |= n->push.count > 0 || n->half > LARGE;
    return collect_spreads(d, n->rank, &n->spread, list);
}

void pw_draft_settle(const pw_draft *d) {
    peerwin_halo *halo = d->halo;
    pw_move *list = collect_pushes(d, halo->ctx->rank, AS_IT_IS, &halo->own, halo->moves);
    for (int i = 0; i < halo->num_neighbors; i++)
        list = pw_on_streams(halo->ctx) ? settle_on_streams(d, &halo->neighbors[i], list)
                                        : settle_here(d, &halo->neighbors[i], list);
}
