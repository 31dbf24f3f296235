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
 */
#include "window/exchange.h"

#include <string.h>
#include <sys/socket.h>

static void unmap_all(const peerwin_ctx *ctx, pw_exchange *x) {
    for (int rank = 0; rank < ctx->size; rank++)
        if (x->mappings[rank].ops)
            (void)x->mappings[rank].ops->unmap(&x->mappings[rank]);
}

/* The channel broke: nobody can tell any more which message comes next. */
static void lose_step(peerwin_ctx *ctx, peerwin_status status) {
    ctx->agree.out_of_step = 1;
    ctx->agree.aftermath = status == PEERWIN_ERR_PEER_LOST; /* it hung up because it failed first, or it is gone */
}

static peerwin_status send_note(peerwin_ctx *ctx, const pw_exchange *x, int to, pw_note_kind kind,
                                peerwin_status status, int fd, pw_watch *watch, const pw_site *site) {
    pw_note note = {.kind = (uint32_t)kind,
                    .rank = (uint32_t)ctx->rank,
                    .status = (uint32_t)status,
                    .id = x->id,
                    .generation = x->generation};
    return pw_channel_send(ctx->peers[to].socket, &note, fd, watch, site);
}

static peerwin_status send_handle(peerwin_ctx *ctx, const pw_exchange *x, int to, peerwin_status local, pw_watch *watch,
                                  const pw_site *site) {
    pw_handle handle = {.fd = -1};
    peerwin_status exported = local;
    if (exported == PEERWIN_OK && x->segment->mapped > 0)
        exported = x->segment->ops->export_handle(x->segment, 0, &handle, site);
    peerwin_status sent = send_note(ctx, x, to, PW_NOTE_HANDLE, exported, handle.fd, watch, site);
    if (sent == PEERWIN_ERR_NO_MEMORY && handle.fd >= 0) {
        /* Too many descriptors in flight, say. The peer must still hear from this rank, and can without the descriptor.
         */
        char text[PW_ERROR_TEXT];
        strncpy(text, peerwin_last_error(), sizeof text - 1);
        text[sizeof text - 1] = '\0';
        exported = sent;
        sent = send_note(ctx, x, to, PW_NOTE_HANDLE, exported, -1, watch, site);
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
    peerwin_status status = pw_channel_receive(ctx->peers[from].socket, watch, site, note_out, fd_out);
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

static peerwin_status map_handle(const pw_exchange *x, int from, const pw_handle *handle, const pw_site *site) {
    pw_mapping mapping = {
        .ops = x->segment->ops, .gpu = x->segment->gpu, .mapped = (size_t)x->mapped[from], .flags = x->flags};
    peerwin_status status = mapping.ops->map(&mapping, handle, 0, site);
    if (status == PEERWIN_OK)
        x->mappings[from] = mapping;
    return status;
}

static peerwin_status receive_handle(peerwin_ctx *ctx, const pw_exchange *x, int from, peerwin_status local,
                                     pw_watch *watch, const pw_site *site) {
    pw_note note = {0};
    pw_handle handle = {.kind = x->segment->ops->kind, .fd = -1};
    peerwin_status status = receive_note(ctx, x, from, PW_NOTE_HANDLE, watch, site, &note, &handle.fd);
    if (ctx->agree.out_of_step)
        return status;
    int empty = x->mapped[from] == 0;
    if (status == PEERWIN_OK && note.status == PEERWIN_OK && local == PEERWIN_OK) {
        if (handle.fd < 0 && !empty)
            status = pw_fail(PEERWIN_ERR_INTERNAL, site, "the peer sent no descriptor");
        else
            status = map_handle(x, from, &handle, site);
    }
    pw_handle_close(&handle);
    peerwin_status sent = send_note(ctx, x, from, PW_NOTE_ACK, status, -1, watch, site);
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

static void one_step(peerwin_ctx *ctx, pw_exchange *x, int to, int from, peerwin_status *first, char *text,
                     pw_watch *watch, const pw_site *site) {
    pw_site there = *site;
    int send = x->wanted[to];
    int receive = x->wanted[from];
    there.peer = to;
    if (send)
        note_failure(first, send_handle(ctx, x, to, *first, watch, &there), text);
    there.peer = from;
    if (receive && !ctx->agree.out_of_step)
        note_failure(first, receive_handle(ctx, x, from, *first, watch, &there), text);
    there.peer = to;
    if (send && !ctx->agree.out_of_step)
        note_failure(first, receive_answer(ctx, x, to, watch, &there), text);
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
    if (ctx->agree.out_of_step)
        hang_up(ctx);
    if (first == PEERWIN_OK)
        return PEERWIN_OK;
    unmap_all(ctx, x);
    return pw_error_adopt(first, text);
}
