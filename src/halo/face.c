/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Faces; see face.h.
 */
#include "halo/face.h"

#include "transfer/box.h"

#include <inttypes.h>

/* ---- boxes that meet */

/* Rows in two levels of steps, the wider ones outside. */
typedef struct {
    int64_t first, width;
    int64_t outer, outer_step, inner, inner_step;
} rows;

static rows rows_of(const peerwin_box *box) {
    rows r = {.first = (int64_t)box->offset,
              .width = (int64_t)box->count[0],
              .inner = (int64_t)box->count[1],
              .inner_step = (int64_t)box->stride[0],
              .outer = (int64_t)box->count[2],
              .outer_step = (int64_t)box->stride[1]};
    if (r.inner == 1 || r.inner_step == 0)
        r.inner = r.inner_step = 1;
    if (r.outer == 1 || r.outer_step == 0)
        r.outer = r.outer_step = 1;
    if (r.outer > 1 && (r.inner == 1 || r.inner_step <= r.outer_step))
        return r;
    return (rows){r.first, r.width, r.inner, r.inner_step, r.outer, r.outer_step};
}

static int64_t last_row(const rows *r) {
    return r->first + (r->outer - 1) * r->outer_step + (r->inner - 1) * r->inner_step;
}

static int64_t divide_down(int64_t a, int64_t b) {
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

static int64_t divide_up(int64_t a, int64_t b) {
    return -divide_down(-a, b);
}

static int64_t at_least(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t at_most(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* 1 if some row of `r` begins in [low, high]. */
static int begins_within(const rows *r, int64_t low, int64_t high) {
    int64_t reach = (r->inner - 1) * r->inner_step;
    low -= r->first;
    high -= r->first;
    int64_t outer = at_least(0, divide_up(low - reach, r->outer_step));
    int64_t last = at_most(r->outer - 1, divide_down(high, r->outer_step));
    for (; outer <= last; outer++) {
        int64_t inner = at_least(0, divide_up(low - outer * r->outer_step, r->inner_step));
        if (inner < r->inner && outer * r->outer_step + inner * r->inner_step <= high)
            return 1;
    }
    return 0;
}

int pw_boxes_meet(const peerwin_box *a, const peerwin_box *b) {
    if (pw_box_empty(a) || pw_box_empty(b))
        return 0;
    rows x = rows_of(a);
    rows y = rows_of(b);
    if (x.outer * x.inner > y.outer * y.inner) {
        rows z = x;
        x = y;
        y = z;
    }
    if (last_row(&x) + x.width <= y.first || last_row(&y) + y.width <= x.first)
        return 0;
    for (int64_t outer = 0; outer < x.outer; outer++)
        for (int64_t inner = 0; inner < x.inner; inner++) {
            int64_t row = x.first + outer * x.outer_step + inner * x.inner_step;
            if (begins_within(&y, row - y.width + 1, row + x.width - 1))
                return 1;
        }
    return 0;
}

/* ---- one rank's faces */

static int is_there(const peerwin_face *face) {
    return face->peer != MPI_PROC_NULL;
}

static peerwin_status check_box(const peerwin_ctx *ctx, const char *kind, int i, const peerwin_face *face,
                                const pw_site *site) {
    size_t extent = 0;
    size_t bytes = face->win->peers[ctx->rank].bytes;
    int has_extent = pw_box_extent(&face->box, &extent) == 0;
    if (has_extent && (extent == 0 || (extent <= bytes && face->box.offset <= bytes - extent)))
        return PEERWIN_OK;
    return pw_fail(
        PEERWIN_ERR_RANGE, site,
        "%s[%d] (rank %d and peer %d, tag %d): a box of %zu bytes, %zu rows and %zu planes from offset %zu on "
        "%s the segment, which has %zu bytes",
        kind, i, ctx->rank, face->peer, face->tag, face->box.count[0], face->box.count[1], face->box.count[2],
        face->box.offset, has_extent ? "leaves" : "is larger than", bytes);
}

static peerwin_status check_face(const peerwin_ctx *ctx, const char *kind, int i, const peerwin_face *face,
                                 const pw_site *site) {
    if (face->peer < 0 || face->peer >= ctx->size)
        return pw_fail(PEERWIN_ERR_ARG, site, "%s[%d].peer is %d, not one of 0..%d", kind, i, face->peer,
                       ctx->size - 1);
    if (!face->win || face->win->ctx != ctx)
        return pw_fail(PEERWIN_ERR_ARG, site, "%s[%d].win is %s", kind, i, face->win ? "of another context" : "NULL");
    pw_site there = *site;
    there.peer = face->peer;
    if (ctx->peers[face->peer].path != PEERWIN_PATH_SELF && ctx->peers[face->peer].path != PEERWIN_PATH_DIRECT)
        return pw_fail(PEERWIN_ERR_UNREACHABLE, &there, "%s[%d]: no direct path: %s", kind, i,
                       ctx->peers[face->peer].reason);
    return check_box(ctx, kind, i, face, site);
}

/* The sender stores into my window. */
static peerwin_status check_target(const peerwin_ctx *ctx, int i, const peerwin_face *face, const pw_site *site) {
    pw_site there = *site;
    there.peer = face->peer;
    if (face->win->peers[face->peer].path == PEERWIN_PATH_NONE)
        return pw_fail(PEERWIN_ERR_UNREACHABLE, &there, "recv[%d]: it is not a neighbour of this window", i);
    if (face->peer != ctx->rank && face->win->peers[face->peer].read_only)
        return pw_fail(PEERWIN_ERR_PERMISSION, &there, "recv[%d]: the window is read-only for its peers", i);
    if (pw_box_overlaps_itself(&face->box))
        return pw_fail(
            PEERWIN_ERR_ARG, site,
            "recv[%d] (rank %d and peer %d, tag %d): rows of the box overlap: %zu bytes, %zu rows %zu apart, "
            "%zu planes %zu apart",
            i, ctx->rank, face->peer, face->tag, face->box.count[0], face->box.count[1], face->box.stride[0],
            face->box.count[2], face->box.stride[1]);
    return PEERWIN_OK;
}

static int faces_meet(const peerwin_face *a, const peerwin_face *b) {
    return is_there(a) && is_there(b) && a->win == b->win && pw_boxes_meet(&a->box, &b->box);
}

static peerwin_status check_overlap(const peerwin_ctx *ctx, const pw_faces *faces, int i, const pw_site *site) {
    const peerwin_face *face = &faces->recv[i];
    for (int k = 0; k < i; k++)
        if (faces_meet(&faces->recv[k], face))
            return pw_fail(PEERWIN_ERR_MISMATCH, site,
                           "rank %d receives %zu bytes from rank %d (tag %d) and %zu bytes from rank %d (tag %d) into "
                           "boxes that overlap: recv[%d] and recv[%d]",
                           ctx->rank, pw_box_bytes(&faces->recv[k].box), faces->recv[k].peer, faces->recv[k].tag,
                           pw_box_bytes(&face->box), face->peer, face->tag, k, i);
    for (int k = 0; k < faces->num_send; k++)
        if (faces_meet(&faces->send[k], face))
            return pw_fail(
                PEERWIN_ERR_ARG, site,
                "rank %d sends to rank %d (tag %d) from a box that overlaps the one in which it receives from "
                "rank %d (tag %d): send[%d] and recv[%d]",
                ctx->rank, faces->send[k].peer, faces->send[k].tag, face->peer, face->tag, k, i);
    return PEERWIN_OK;
}

static peerwin_status check_plans(const peerwin_ctx *ctx, int i, const peerwin_face *face, const pw_site *site) {
    for (const pw_plan *plan = ctx->plans; plan; plan = plan->next)
        for (int k = 0; k < plan->num_received; k++)
            if (faces_meet(&plan->received[k], face))
                return pw_fail(PEERWIN_ERR_STATE, site,
                               "on rank %d recv[%d] (peer %d, tag %d) overlaps recv[%d] (peer %d, tag %d) of halo plan "
                               "%u, which is alive: free that one, or, if barriers separate the two, say "
                               "PEERWIN_HALO_SHARED",
                               ctx->rank, i, face->peer, face->tag, k, plan->received[k].peer, plan->received[k].tag,
                               plan->ordinal);
    return PEERWIN_OK;
}

peerwin_status pw_faces_check(const peerwin_ctx *ctx, const pw_faces *faces, int shared, const pw_site *site) {
    peerwin_status status = PEERWIN_OK;
    for (int i = 0; i < faces->num_send && status == PEERWIN_OK; i++)
        if (is_there(&faces->send[i]))
            status = check_face(ctx, "send", i, &faces->send[i], site);
    for (int i = 0; i < faces->num_recv && status == PEERWIN_OK; i++) {
        if (!is_there(&faces->recv[i]))
            continue;
        status = check_face(ctx, "recv", i, &faces->recv[i], site);
        if (status == PEERWIN_OK)
            status = check_target(ctx, i, &faces->recv[i], site);
    }
    for (int i = 0; i < faces->num_recv && status == PEERWIN_OK; i++) {
        status = check_overlap(ctx, faces, i, site);
        if (status == PEERWIN_OK && !shared)
            status = check_plans(ctx, i, &faces->recv[i], site);
    }
    return status;
}

/* ---- pairs */

pw_face_record pw_face_describe(const peerwin_face *face) {
    const peerwin_box *box = &face->box;
    return (pw_face_record){.peer = face->peer,
                            .tag = face->tag,
                            .bytes = pw_box_bytes(box),
                            .window = pw_win_ordinal(face->win),
                            .offset = box->offset,
                            .count = {box->count[0], box->count[1], box->count[2]},
                            .stride = {box->stride[0], box->stride[1]}};
}

peerwin_box pw_face_box(const pw_face_record *record) {
    return (peerwin_box){.offset = record->offset,
                         .count = {record->count[0], record->count[1], record->count[2]},
                         .stride = {record->stride[0], record->stride[1]}};
}

/* The number of faces of (peer, tag) in a list, and one of them. */
static int find(const pw_face_record *list, int count, int64_t peer, int64_t tag, const pw_face_record **found_out) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        if (list[i].peer != peer || list[i].tag != tag)
            continue;
        *found_out = &list[i];
        found++;
    }
    return found;
}

/* What the two ends of a face do, for messages. */
typedef struct {
    const char *does, *other_does, *list, *other_list;
} words;

/* One face of mine: it must be the only one of its name here, and have one of the same size there. */
static peerwin_status pair_one(const pw_face_record *face, const pw_face_record *mine, int count,
                               const pw_face_record *theirs, int other_count, int me, const words *w,
                               const pw_face_record **other_out, const pw_site *site) {
    const pw_face_record *other = NULL;
    int peer = (int)face->peer;
    if (find(mine, count, face->peer, face->tag, &other) > 1)
        return pw_fail(PEERWIN_ERR_MISMATCH, site,
                       "rank %d lists two %s faces of %" PRIu64 " and %" PRIu64
                       " bytes with rank %d and tag %d: tags are unique for each peer and direction",
                       me, w->list, face->bytes, other->bytes, peer, (int)face->tag);
    int found = find(theirs, other_count, me, face->tag, &other);
    if (found > 1)
        return pw_fail(
            PEERWIN_ERR_MISMATCH, site,
            "rank %d lists two %s faces with rank %d and tag %d: tags are unique for each peer and direction", peer,
            w->other_list, me, (int)face->tag);
    if (found == 0)
        return pw_fail(PEERWIN_ERR_MISMATCH, site,
                       "rank %d %s %" PRIu64 " bytes %s rank %d with tag %d, but rank %d lists no such %s face", me,
                       w->does, face->bytes, w->list[0] == 's' ? "to" : "from", peer, (int)face->tag, peer,
                       w->other_list);
    if (other->bytes != face->bytes)
        return pw_fail(PEERWIN_ERR_MISMATCH, site,
                       "rank %d %s %" PRIu64 " bytes %s rank %d with tag %d, but rank %d %s %" PRIu64 " bytes", me,
                       w->does, face->bytes, w->list[0] == 's' ? "to" : "from", peer, (int)face->tag, peer,
                       w->other_does, other->bytes);
    *other_out = other;
    return PEERWIN_OK;
}

peerwin_status pw_faces_pair(const pw_face_list *lists, int me, const pw_face_record **targets_out,
                             const pw_site *site) {
    static const words sending = {"sends", "expects", "send", "receive"};
    static const words receiving = {"expects", "sends", "receive", "send"};
    const pw_face_list *mine = &lists[me];
    peerwin_status status = PEERWIN_OK;
    for (int i = 0; i < mine->num_send && status == PEERWIN_OK; i++) {
        const pw_face_list *theirs = &lists[mine->send[i].peer];
        status = pair_one(&mine->send[i], mine->send, mine->num_send, theirs->recv, theirs->num_recv, me, &sending,
                          &targets_out[i], site);
    }
    for (int i = 0; i < mine->num_recv && status == PEERWIN_OK; i++) {
        const pw_face_list *theirs = &lists[mine->recv[i].peer];
        const pw_face_record *source = NULL;
        status = pair_one(&mine->recv[i], mine->recv, mine->num_recv, theirs->send, theirs->num_send, me, &receiving,
                          &source, site);
    }
    return status;
}
