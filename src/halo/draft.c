/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * From paired faces to moves: straight into the receiver's segment, or into its staging area and on from there.
 */
#include "halo/draft.h"

#include "transfer/box.h"
#include "transfer/door.h"

/* Plans that push more than this wake their neighbours one by one. */
enum { LARGE = 8192 };

static peerwin_win *find_window(const peerwin_ctx *ctx, uint64_t ordinal) {
    for (peerwin_win *win = ctx->windows; win; win = win->next)
        if (pw_win_ordinal(win) == ordinal && !win->of_plan)
            return win;
    return NULL;
}

/* What the receivers say of their boxes came in a message: nothing may be stored outside their segments. */
peerwin_status pw_draft_check_targets(const pw_draft *d, const pw_site *site) {
    for (int i = 0; i < d->num_sent; i++) {
        const int rank = d->sent[i].peer;
        const peerwin_win *win = find_window(d->halo->ctx, d->targets[i]->window);
        const peerwin_box box = pw_face_box(d->targets[i]);
        size_t extent = 0;
        if (!win || pw_box_extent(&box, &extent) != 0 || pw_box_bytes(&box) != d->targets[i]->bytes ||
            (extent > 0 && !pw_in_range(&win->peers[rank], box.offset, extent)))
            return pw_fail(PEERWIN_ERR_INTERNAL, site, "the face received from rank %d is none of its segment", rank);
    }
    return PEERWIN_OK;
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

static pw_move *collect_pushes(const pw_draft *d, int rank, int staged, pw_moves *moves, pw_move *list) {
    moves->list = list;
    for (int i = 0; i < d->num_sent; i++)
        if (d->sent[i].peer == rank && (int)d->targets[i]->staged == staged)
            add_push(d, moves, i);
    pw_moves_settle(moves);
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

void pw_draft_settle(const pw_draft *d) {
    peerwin_halo *halo = d->halo;
    pw_move *list = collect_pushes(d, halo->ctx->rank, 0, &halo->own, halo->moves);
    for (int i = 0; i < halo->num_neighbors; i++) {
        pw_halo_neighbor *n = &halo->neighbors[i];
        list = collect_pushes(d, n->rank, 0, &n->push, list);
        list = collect_pushes(d, n->rank, 1, &n->post, list);
        list = collect_spreads(d, n->rank, &n->spread, list);
        n->half = halo->win->peers[n->rank].bytes / 2;
        halo->large |= n->push.count > 0 || n->half > LARGE;
    }
}
