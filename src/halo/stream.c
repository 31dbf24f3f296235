/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The exchange in CUDA space: signals, waits and boxes of the stream, one after the other. Nothing is staged: a kernel
 * stores strided rows into a peer's memory as it does into its own.
 *
 * The order is that of exchange.c, in stream order: a signal follows all that the stream did before, and what follows a
 * wait comes after it. The grants of a start are given before its waits, so whatever leads to the end of a wait stands
 * before it in every stream.
 */
#include "halo/halo.h"
#include "transfer/stream_door.h"

/* In graphs words are added to, which not every link can. */
static peerwin_status check_capture(const peerwin_halo *halo, const pw_site *site) {
    peerwin_status status = PEERWIN_OK;
    for (int i = 0; i < halo->num_neighbors && status == PEERWIN_OK; i++) {
        pw_site there = *site;
        there.peer = halo->neighbors[i].rank;
        status = pw_stream_check_signal(halo->win, there.peer, PEERWIN_SIGNAL_ADD, &there);
    }
    return status;
}

peerwin_status pw_halo_stream_check(const peerwin_halo *halo, peerwin_stream stream, const pw_site *site,
                                    int *capturing_out) {
    peerwin_ctx *ctx = halo->ctx;
    peerwin_status status = pw_stream_enter(ctx, stream, site);
    if (status != PEERWIN_OK)
        return status;
    status = pw_stream_leave(ctx, pw_stream_is_capturing(ctx, stream, site, capturing_out));
    return status == PEERWIN_OK && *capturing_out ? check_capture(halo, site) : status;
}

static peerwin_status tell(peerwin_halo *halo, const pw_halo_neighbor *n, pw_halo_word word, peerwin_stream stream,
                           const pw_site *site) {
    uint64_t value = word == PW_HALO_GRANT ? halo->granted : halo->epoch;
    return pw_stream_signal(halo->win, n->rank, pw_halo_slot(halo, word, halo->ctx->rank), PEERWIN_SIGNAL_SET, value,
                            stream, site);
}

static peerwin_status await(peerwin_halo *halo, const pw_halo_neighbor *n, pw_halo_word word, peerwin_stream stream,
                            const pw_site *site) {
    return pw_stream_wait(halo->win, pw_halo_slot(halo, word, n->rank), halo->epoch, stream, site);
}

/* Pieces that are contiguous at both ends, where the layouts differ. */
static peerwin_status put_pieces(const pw_move *move, int rank, size_t offset, peerwin_stream stream,
                                 const pw_site *site) {
    pw_stretch stretch = {0};
    peerwin_status status = PEERWIN_OK;
    for (pw_move_next(move, &stretch); stretch.bytes > 0 && status == PEERWIN_OK; pw_move_next(move, &stretch))
        status =
            pw_stream_put(move->win, rank, offset + stretch.to, move->from + stretch.from, stretch.bytes, stream, site);
    return status;
}

static peerwin_status put(const pw_moves *moves, int rank, peerwin_stream stream, const pw_site *site) {
    peerwin_status status = PEERWIN_OK;
    for (int i = 0; i < moves->count && status == PEERWIN_OK; i++) {
        const pw_move *move = &moves->list[i];
        peerwin_box to = move->to_box;
        to.offset = (size_t)(move->to - move->win->peers[rank].base);
        status = pw_move_is_even(move)
                     ? pw_stream_put_box(move->win, rank, &to, move->from, &move->from_box, stream, site)
                     : put_pieces(move, rank, to.offset, stream, site);
    }
    return status;
}

peerwin_status pw_halo_stream_release(peerwin_halo *halo, peerwin_stream stream, const pw_site *site) {
    peerwin_status status = PEERWIN_OK;
    for (int i = 0; i < halo->num_neighbors && status == PEERWIN_OK; i++)
        if (halo->neighbors[i].roles & PW_HALO_SENDS_TO_ME)
            status = tell(halo, &halo->neighbors[i], PW_HALO_GRANT, stream, site);
    return status;
}

peerwin_status pw_halo_stream_start(peerwin_halo *halo, peerwin_stream stream, const pw_site *site) {
    peerwin_status status = put(&halo->own, halo->ctx->rank, stream, site);
    for (int i = 0; i < halo->num_neighbors && status == PEERWIN_OK; i++) {
        const pw_halo_neighbor *n = &halo->neighbors[i];
        if (!(n->roles & PW_HALO_GETS_FROM_ME))
            continue;
        status = await(halo, n, PW_HALO_GRANT, stream, site);
        if (status == PEERWIN_OK)
            status = put(&n->push, n->rank, stream, site);
        if (status == PEERWIN_OK)
            status = tell(halo, n, PW_HALO_ARRIVAL, stream, site);
    }
    return status;
}

peerwin_status pw_halo_stream_finish(peerwin_halo *halo, peerwin_stream stream, const pw_site *site) {
    peerwin_status status = PEERWIN_OK;
    for (int i = 0; i < halo->num_neighbors && status == PEERWIN_OK; i++)
        if (halo->neighbors[i].roles & PW_HALO_SENDS_TO_ME)
            status = await(halo, &halo->neighbors[i], PW_HALO_ARRIVAL, stream, site);
    return status;
}

/* ---- in graphs: no numbers, so that a graph can run again and again */

static peerwin_status add(peerwin_halo *halo, const pw_halo_neighbor *n, pw_halo_word word, peerwin_stream stream,
                          const pw_site *site) {
    return pw_stream_signal(halo->win, n->rank, pw_halo_slot(halo, word, halo->ctx->rank), PEERWIN_SIGNAL_ADD, 1,
                            stream, site);
}

static peerwin_status take(peerwin_halo *halo, const pw_halo_neighbor *n, pw_halo_word word, peerwin_stream stream,
                           const pw_site *site) {
    return pw_stream_consume(halo->win, pw_halo_slot(halo, word, n->rank), 1, stream, site);
}

peerwin_status pw_halo_capture_start(peerwin_halo *halo, peerwin_stream stream, const pw_site *site) {
    peerwin_status status = PEERWIN_OK;
    for (int i = 0; i < halo->num_neighbors && status == PEERWIN_OK; i++)
        if (halo->neighbors[i].roles & PW_HALO_SENDS_TO_ME)
            status = add(halo, &halo->neighbors[i], PW_HALO_GRAPH_GRANT, stream, site);
    if (status == PEERWIN_OK)
        status = put(&halo->own, halo->ctx->rank, stream, site);
    for (int i = 0; i < halo->num_neighbors && status == PEERWIN_OK; i++) {
        const pw_halo_neighbor *n = &halo->neighbors[i];
        if (!(n->roles & PW_HALO_GETS_FROM_ME))
            continue;
        status = take(halo, n, PW_HALO_GRAPH_GRANT, stream, site);
        if (status == PEERWIN_OK)
            status = put(&n->push, n->rank, stream, site);
        if (status == PEERWIN_OK)
            status = add(halo, n, PW_HALO_GRAPH_ARRIVAL, stream, site);
    }
    return status;
}

peerwin_status pw_halo_capture_finish(peerwin_halo *halo, peerwin_stream stream, const pw_site *site) {
    peerwin_status status = PEERWIN_OK;
    for (int i = 0; i < halo->num_neighbors && status == PEERWIN_OK; i++)
        if (halo->neighbors[i].roles & PW_HALO_SENDS_TO_ME)
            status = take(halo, &halo->neighbors[i], PW_HALO_GRAPH_ARRIVAL, stream, site);
    return status;
}
