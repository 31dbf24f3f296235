/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Exchange and import; see exchange.h.
 *
 * In step k every rank sends to the rank k places on and receives from the rank k places back, and answers. Both sides
 * walk through the same steps in the same order, so the messages of a channel pair up, whatever fails in between: a
 * rank without a handle says so in its note, and one that could not map says so in its answer. Only a channel that
 * breaks leaves the ranks out of step.
 *
 * A segment of several pieces takes as many rounds within the step. Ranks without a channel are written to by MPI.
 */
#include "window/exchange.h"

#include "window/post.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

peerwin_status pw_exchange_undo(peerwin_ctx *ctx, pw_exchange_peer *peers) {
    peerwin_status first = PEERWIN_OK;
    for (int rank = 0; rank < ctx->size; rank++) {
        peerwin_status status = pw_import_release(&ctx->imports, peers[rank].import);
        peers[rank].import = NULL;
        if (first == PEERWIN_OK)
            first = status;
    }
    return first;
}

/* The channel broke: nobody can tell any more which message comes next. */
static void lose_step(peerwin_ctx *ctx, peerwin_status status) {
    ctx->agree.out_of_step = 1;
    ctx->agree.aftermath = status == PEERWIN_ERR_PEER_LOST; /* it hung up because it failed first, or it is gone */
}

static peerwin_status send_note(peerwin_ctx *ctx, const pw_exchange *x, int to, pw_note *note, int fd, pw_watch *watch,
                                const pw_site *site) {
    note->rank = (uint32_t)ctx->rank;
    note->id = x->id;
    note->generation = x->generation;
    if (ctx->peers[to].socket < 0)
        return pw_post_send(ctx, to, note, site);
    return pw_channel_send(ctx->peers[to].socket, note, fd, watch, site);
}

static peerwin_status send_answer(peerwin_ctx *ctx, const pw_exchange *x, int to, peerwin_status status,
                                  pw_watch *watch, const pw_site *site) {
    pw_note note = {.kind = PW_NOTE_ACK, .status = (uint32_t)status};
    return send_note(ctx, x, to, &note, -1, watch, site);
}

/* A note with a handle, or with the reason why there is none. */
static peerwin_status send_piece(peerwin_ctx *ctx, const pw_exchange *x, int to, int piece, const pw_handle *handle,
                                 peerwin_status exported, pw_watch *watch, const pw_site *site) {
    pw_note note = {.kind = PW_NOTE_HANDLE, .status = (uint32_t)exported, .piece = (uint32_t)piece};
    if (exported == PEERWIN_OK) {
        note.bytes = handle->bytes;
        memcpy(note.token, handle->token, sizeof note.token);
    }
    peerwin_status status = send_note(ctx, x, to, &note, exported == PEERWIN_OK ? handle->fd : -1, watch, site);
    explicit_bzero(&note, sizeof note);
    return status;
}

static peerwin_status send_handle(peerwin_ctx *ctx, const pw_exchange *x, int to, int piece, peerwin_status local,
                                  pw_watch *watch, const pw_site *site) {
    pw_handle handle = {.fd = -1};
    peerwin_status exported = local;
    if (exported == PEERWIN_OK && x->segment->mapped > 0)
        exported = x->segment->ops->export_handle(x->segment, piece, &handle, site);
    peerwin_status sent = send_piece(ctx, x, to, piece, &handle, exported, watch, site);
    int with_fd = handle.fd >= 0;
    handle.fd = -1; /* the segment's */
    pw_handle_close(&handle);
    if (sent == PEERWIN_ERR_NO_MEMORY && with_fd) {
        /* Too many descriptors in flight, say. The peer must still hear from this rank, and can without one. */
        char text[PW_ERROR_TEXT];
        strncpy(text, peerwin_last_error(), sizeof text - 1);
        text[sizeof text - 1] = '\0';
        exported = sent;
        sent = send_piece(ctx, x, to, piece, &handle, exported, watch, site);
        if (sent == PEERWIN_OK)
            return pw_error_adopt(exported, text);
    }
    if (sent != PEERWIN_OK)
        lose_step(ctx, sent);
    return sent != PEERWIN_OK ? sent : exported;
}

/* Takes a message of the kind expected; anything else means that the ranks are out of step. */
static peerwin_status receive_note(peerwin_ctx *ctx, const pw_exchange *x, int from, pw_note_kind kind, pw_watch *watch,
                                   const pw_site *site, pw_note *note_out, int *fd_out) {
    peerwin_status status = ctx->peers[from].socket < 0
                                ? pw_post_receive(ctx, from, site, note_out)
                                : pw_channel_receive(ctx->peers[from].socket, watch, site, note_out, fd_out);
    if (status == PEERWIN_ERR_NO_MEMORY && note_out->kind != 0)
        return status; /* the descriptor did not fit, the note did come */
    if (status != PEERWIN_OK) {
        lose_step(ctx, status);
        return status;
    }
    if (note_out->kind == (uint32_t)kind && (int)note_out->rank == from && note_out->id == x->id &&
        note_out->generation == x->generation)
        return PEERWIN_OK;
    pw_handle stray = {.fd = *fd_out};
    pw_handle_close(&stray);
    *fd_out = -1;
    status =
        pw_fail(PEERWIN_ERR_STALE, site, "a message of another window or generation came on the descriptor channel");
    lose_step(ctx, status);
    return status;
}

/* The import of a peer's segment: found, if its memory is mapped already, or made at the first piece. */
static peerwin_status begin_import(peerwin_ctx *ctx, const pw_exchange *x, int from, const pw_site *site) {
    pw_exchange_peer *peer = &x->peers[from];
    pw_mapping mapping = {.ops = peer->ops, .gpu = ctx->gpu, .mapped = (size_t)peer->mapped, .flags = x->flags};
    peer->import = pw_import_share(ctx->imports, from, peer->memory_id, &mapping);
    if (peer->import)
        return PEERWIN_OK;
    return pw_import_create(&ctx->imports, from, peer->memory_id, &mapping, site, &peer->import);
}

/* Half an import is none: nothing may look at the part that is not there. */
static void drop_import(peerwin_ctx *ctx, pw_exchange_peer *peer) {
    (void)pw_import_release(&ctx->imports, peer->import);
    peer->import = NULL;
}

/* Maps one piece at its place; pieces come in order. A failure gives the whole import back. */
static peerwin_status map_piece(peerwin_ctx *ctx, const pw_exchange *x, int from, int piece, const pw_handle *handle,
                                size_t *offset, const pw_site *site) {
    pw_exchange_peer *peer = &x->peers[from];
    peerwin_status status = PEERWIN_OK;
    if (handle->bytes > peer->mapped - *offset ||
        (piece == peer->num_pieces - 1 && handle->bytes != peer->mapped - *offset))
        status = pw_fail(PEERWIN_ERR_INTERNAL, site, "the pieces received are not the %llu bytes announced",
                         (unsigned long long)peer->mapped);
    if (status == PEERWIN_OK && piece == 0)
        status = begin_import(ctx, x, from, site);
    if (status == PEERWIN_OK && peer->import->count == 1) /* else it is there: others share it */
        status = peer->ops->map(&peer->import->mapping, handle, *offset, site);
    *offset += handle->bytes;
    if (status != PEERWIN_OK)
        drop_import(ctx, peer);
    return status;
}

static peerwin_status receive_handle(peerwin_ctx *ctx, const pw_exchange *x, int from, int piece, size_t *offset,
                                     peerwin_status local, pw_watch *watch, const pw_site *site) {
    pw_note note = {0};
    pw_exchange_peer *peer = &x->peers[from];
    pw_handle handle = {.kind = peer->ops->kind, .fd = -1};
    peerwin_status status = receive_note(ctx, x, from, PW_NOTE_HANDLE, watch, site, &note, &handle.fd);
    if (ctx->agree.out_of_step)
        return status;
    if (status == PEERWIN_OK && note.status == PEERWIN_OK && local == PEERWIN_OK && peer->mapped > 0) {
        handle.bytes = (size_t)note.bytes;
        memcpy(handle.token, note.token, sizeof handle.token);
        if (handle.fd < 0 && peer->ops->needs_fd)
            status = pw_fail(PEERWIN_ERR_INTERNAL, site, "the peer sent no descriptor");
        else if ((int)note.piece != piece)
            status = pw_fail(PEERWIN_ERR_INTERNAL, site, "a piece came out of order");
        else if (piece == 0 || peer->import)
            status = map_piece(ctx, x, from, piece, &handle, offset, site);
    } else if (status == PEERWIN_OK && note.status != PEERWIN_OK) {
        drop_import(ctx, peer); /* it may have failed between two pieces; everyone hears of it afterwards */
        if (x->tolerant)
            status = pw_fail((peerwin_status)note.status, site, "the peer cannot hand out its memory");
    }
    explicit_bzero(&note, sizeof note);
    pw_handle_close(&handle);
    peerwin_status sent = send_answer(ctx, x, from, status, watch, site);
    if (sent != PEERWIN_OK)
        lose_step(ctx, sent);
    return status != PEERWIN_OK ? status : sent;
}

/* The answer only paces the exchange: a peer that failed tells everyone in the agreement that follows. */
static peerwin_status receive_answer(peerwin_ctx *ctx, const pw_exchange *x, int to, pw_watch *watch,
                                     const pw_site *site) {
    pw_note note = {0};
    pw_handle stray = {.fd = -1};
    peerwin_status status = receive_note(ctx, x, to, PW_NOTE_ACK, watch, site, &note, &stray.fd);
    pw_handle_close(&stray); /* an answer has none, but the peer decides what it sends */
    return status;
}

/* The last error must tell of the first failure, though later steps may fail too. */
static void note_failure(peerwin_status *first, peerwin_status status, char text[PW_ERROR_TEXT]) {
    if (*first != PEERWIN_OK || status == PEERWIN_OK)
        return;
    *first = status;
    strncpy(text, peerwin_last_error(), PW_ERROR_TEXT - 1);
}

/* A rank that lost step stops answering; its peers must see that at once and not at their deadline. */
static void hang_up(const peerwin_ctx *ctx) {
    for (int rank = 0; rank < ctx->size; rank++)
        if (ctx->peers[rank].socket >= 0)
            (void)shutdown(ctx->peers[rank].socket, SHUT_RDWR);
}

/* Tolerant exchanges keep the failure of a pair with the pair, unless the ranks are out of step. */
static peerwin_status tolerate(peerwin_ctx *ctx, const pw_exchange *x, int rank, peerwin_status status) {
    if (status == PEERWIN_OK || !x->tolerant || ctx->agree.out_of_step)
        return status;
    if (!x->peers[rank].failed)
        snprintf(ctx->peers[rank].reason, PW_REASON_BYTES, "%s", peerwin_last_error());
    x->peers[rank].failed = 1;
    return PEERWIN_OK;
}

static void one_step(peerwin_ctx *ctx, pw_exchange *x, int to, int from, peerwin_status *first, char *text,
                     pw_watch *watch, const pw_site *site) {
    pw_site there = *site;
    size_t offset = 0;
    int mine = x->peers[to].wanted ? x->segment->num_pieces : 0;
    int theirs = x->peers[from].wanted ? x->peers[from].num_pieces : 0;
    for (int piece = 0; (piece < mine || piece < theirs) && !ctx->agree.out_of_step; piece++) {
        there.peer = to;
        if (piece < mine)
            note_failure(first, tolerate(ctx, x, to, send_handle(ctx, x, to, piece, *first, watch, &there)), text);
        there.peer = from;
        if (piece < theirs && !ctx->agree.out_of_step)
            note_failure(first,
                         tolerate(ctx, x, from, receive_handle(ctx, x, from, piece, &offset, *first, watch, &there)),
                         text);
        there.peer = to;
        if (piece < mine && !ctx->agree.out_of_step)
            note_failure(first, receive_answer(ctx, x, to, watch, &there), text);
    }
}

peerwin_status pw_exchange_run(peerwin_ctx *ctx, pw_exchange *x, peerwin_status local, const pw_site *site) {
    char text[PW_ERROR_TEXT] = "";
    peerwin_status first = PEERWIN_OK;
    pw_watch watch = pw_ctx_watch_call(ctx);
    note_failure(&first, local, text);
    for (int k = 1; k < ctx->size && !ctx->agree.out_of_step; k++) {
        int to = (ctx->rank + k) % ctx->size;
        int from = (ctx->rank - k + ctx->size) % ctx->size;
        one_step(ctx, x, to, from, &first, text, &watch, site);
    }
    if (!ctx->agree.out_of_step)
        note_failure(&first, pw_post_flush(ctx, site), text);
    if (ctx->agree.out_of_step)
        hang_up(ctx);
    if (first == PEERWIN_OK)
        return PEERWIN_OK;
    (void)pw_exchange_undo(ctx, x->peers);
    return pw_error_adopt(first, text);
}
