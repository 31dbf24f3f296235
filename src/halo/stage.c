/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which faces come through the receiver's staging area. The receiver decides, by its own boxes and by where the sender
 * is, and says so in its record of the face: what both ends know is what it said.
 *
 * In host space these are small faces and those of thin rows, from other ranks.
 *
 * In CUDA space a device stores thin rows into its own memory as fast as any others, but over a link each row is a
 * packet: a cell of 8 bytes takes as long as 32. So from another device faces of narrow rows come packed, and finish
 * unpacks them. That is a launch where there was but a wait, so there must be enough of them to make up for it. Only
 * the rows of the receiver count: what lies apart at the sender alone is gathered there, and goes over the link in one
 * piece.
 */
#include "halo/draft.h"

#include "transfer/box.h"
#include "transfer/door.h"

/*
 * By the bytes of packets and their headers, and a pass over the memory of the receiver for unpacking, a thousand rows
 * of 8 bytes save 0.07 us, those of 16 bytes 0.04 and those of 32 nothing. A launch takes 3 to 4 us.
 */
enum { ROWS_TO_PACK = 48 << 10, NARROW_ROW = 16 };

static int is_thin(const peerwin_box *box) {
    return box->count[0] < PW_THIN_ROW && box->count[1] > 1;
}

static void stage(pw_draft *d, pw_face_record *record) {
    record->staged = 1;
    record->place = d->halo->half;
    d->halo->half += pw_pad_round(record->bytes, PW_LINE);
}

/* ---- host space ---- */

static int is_staged(const peerwin_ctx *ctx, const pw_face_record *record) {
    const peerwin_box given = pw_face_box(record);
    const peerwin_box box = pw_box_simplify(&given);
    return record->peer != ctx->rank && !pw_box_empty(&box) && (is_thin(&box) || record->bytes <= PW_HALO_SMALL);
}

/* ---- CUDA space ---- */

/* Rows that share a line go over a link together. */
static int is_narrow(const peerwin_box *box) {
    return box->count[0] <= NARROW_ROW && box->stride[0] >= PW_LINE;
}

static int comes_over_link(const peerwin_ctx *ctx, const peerwin_face *face) {
    const peerwin_link link = ctx->peers[face->peer].link;
    return (link == PEERWIN_LINK_NVLINK || link == PEERWIN_LINK_PCIE || link == PEERWIN_LINK_FABRIC) &&
           face->win->peers[ctx->rank].kind != PEERWIN_HANDLE_HOST;
}

/* How many rows of a face would be packets of their own, 0 if it comes as it is. */
static uint64_t rows_to_pack(const peerwin_ctx *ctx, const peerwin_face *face) {
    const peerwin_box box = pw_box_simplify(&face->box);
    if (face->peer == ctx->rank || pw_box_empty(&box) || !is_thin(&box))
        return 0;
    if (ctx->halo_pack != PW_HALO_PACK_ALWAYS && (!is_narrow(&box) || !comes_over_link(ctx, face)))
        return 0;
    return box.count[1] * box.count[2];
}

/* All that come, or none. Where windows cannot be allocated, but only attached, there is no staging area. */
static int is_packing(const pw_draft *d) {
    const peerwin_ctx *ctx = d->halo->ctx;
    uint64_t rows = 0;
    if (ctx->halo_pack == PW_HALO_PACK_NEVER || !ctx->memory)
        return 0;
    for (int i = 0; i < d->num_received; i++)
        rows += rows_to_pack(ctx, &d->halo->received[i]);
    return rows > 0 && (ctx->halo_pack == PW_HALO_PACK_ALWAYS || rows >= ROWS_TO_PACK);
}

/* ---- both ---- */

void pw_draft_stage(pw_draft *d) {
    const peerwin_ctx *ctx = d->halo->ctx;
    const int on_streams = pw_on_streams(ctx);
    const int packing = on_streams && is_packing(d);
    for (int i = 0; i < d->num_received; i++) {
        pw_face_record *record = &d->records[d->num_sent + i];
        if (on_streams ? packing && rows_to_pack(ctx, &d->halo->received[i]) > 0 : is_staged(ctx, record))
            stage(d, record);
    }
}
