/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Notes by MPI; see post.h.
 *
 * The buffers belong to the context, which outlives a step that did not end. A handle and its answer have a buffer
 * each: in a step of the exchange a rank sends one of both, and a buffer is waited for before it is written again, by
 * which time the message before has been received or its receiver is gone.
 */
#include "window/post.h"

#include <string.h>

enum { POST_TAG = 17 };

static peerwin_status drain(peerwin_ctx *ctx, pw_post *post, const pw_site *site) {
    peerwin_status status = PEERWIN_OK;
    if (post->open)
        status = pw_ctx_wait(ctx, &post->request, "MPI_Isend", site);
    if (status == PEERWIN_OK) {
        post->open = 0;
        explicit_bzero(post->bytes, sizeof post->bytes);
    }
    return status;
}

peerwin_status pw_post_send(peerwin_ctx *ctx, int rank, const pw_note *note, const pw_site *site) {
    pw_post *post = &ctx->posts[note->kind == PW_NOTE_HANDLE];
    peerwin_status status = drain(ctx, post, site);
    if (status != PEERWIN_OK)
        return status;
    pw_note_encode(note, post->bytes);
    int code = MPI_Isend(post->bytes, PW_NOTE_BYTES, MPI_BYTE, rank, POST_TAG, ctx->agree.comm, &post->request);
    if (code != MPI_SUCCESS)
        return pw_ctx_not_started(ctx, code, "MPI_Isend", site);
    post->open = 1;
    return PEERWIN_OK;
}

peerwin_status pw_post_receive(peerwin_ctx *ctx, int rank, const pw_site *site, pw_note *note_out) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Irecv(ctx->post_in, PW_NOTE_BYTES, MPI_BYTE, rank, POST_TAG, ctx->agree.comm, &request);
    if (code != MPI_SUCCESS)
        return pw_ctx_not_started(ctx, code, "MPI_Irecv", site);
    peerwin_status status = pw_ctx_wait(ctx, &request, "MPI_Irecv", site);
    if (status != PEERWIN_OK)
        return status;
    int valid = pw_note_decode(ctx->post_in, note_out) == 0;
    explicit_bzero(ctx->post_in, sizeof ctx->post_in);
    return valid ? PEERWIN_OK : pw_fail(PEERWIN_ERR_INTERNAL, site, "a message that is no note came instead of one");
}

peerwin_status pw_post_flush(peerwin_ctx *ctx, const pw_site *site) {
    peerwin_status status = drain(ctx, &ctx->posts[0], site);
    return status == PEERWIN_OK ? drain(ctx, &ctx->posts[1], site) : status;
}
