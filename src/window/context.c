/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The door of every call, and what happens when a context breaks; see context.h.
 */
#include "window/context.h"

#include "base/log.h"

#include <string.h>
#include <unistd.h>

peerwin_status pw_ctx_check_process(const peerwin_ctx *ctx, const char *call) {
    if (ctx->alive && (ctx->wiped || ctx->pid == getpid()))
        return PEERWIN_OK;
    return pw_fail(PEERWIN_ERR_STATE, PW_SITE(call, NULL, PW_NONE, PW_NONE),
                   "this process was forked after peerwin_init and may not use the context of its parent");
}

peerwin_status pw_ctx_come_in(peerwin_ctx *ctx, const char *call) {
    peerwin_status status = pw_ctx_check_process(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    if (pw_gate_try(&ctx->gate))
        return PEERWIN_OK;
    return pw_fail(PEERWIN_ERR_STATE, PW_SITE(call, NULL, ctx->rank, PW_NONE),
                   "another thread is in a call on this context: one thread at a time, or a context for each");
}

peerwin_status pw_ctx_enter_shared(peerwin_ctx *ctx, const char *call) {
    peerwin_status status = pw_ctx_come_in(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    return pw_ctx_broken(ctx) == 0 ? PEERWIN_OK : pw_ctx_refuse(ctx, call);
}

peerwin_status pw_ctx_refuse(peerwin_ctx *ctx, const char *call) {
    pw_ctx_leave(ctx);
    return pw_cause_fail(pw_ctx_broken(ctx), &ctx->live, PW_SITE(call, NULL, ctx->rank, PW_NONE));
}

static void break_pad(char *pad, pw_cause cause) {
    uint64_t unbroken = 0;
    if (atomic_compare_exchange_strong(&pw_pad_control(pad)->broken, &unbroken, cause))
        pw_pad_wake_always(pad);
}

static void break_here(peerwin_ctx *ctx, pw_cause cause) {
    if (pw_ctx_broken(ctx) == 0)
        pw_log(PW_LOG_WARN, ctx->rank, "the context is broken: %s, rank %d",
               peerwin_strerror((peerwin_status)pw_cause_status(cause)), pw_cause_rank(cause));
    break_pad(ctx->pad, cause);
}

void pw_ctx_break(peerwin_ctx *ctx, pw_cause cause) {
    if (!ctx->pad)
        return; /* init failed before there were pads */
    break_here(ctx, cause);
    pw_cause first = pw_ctx_broken(ctx); /* stays, here and elsewhere; that MPI ended concerns this rank alone */
    if (pw_cause_status(first) != PEERWIN_ERR_STATE)
        cause = first;
    for (int rank = 0; rank < ctx->size; rank++)
        if (ctx->peers[rank].pad && rank != ctx->rank)
            break_pad(ctx->peers[rank].pad, cause);
}

/* After a step: a communicator given up ends the context. A plain time-out is known here only, so this rank is named.
 */
static peerwin_status judge(peerwin_ctx *ctx, peerwin_status status) {
    if (!ctx->agree.lost)
        return status;
    pw_cause cause = ctx->agree.ended_by;
    if (cause == 0)
        cause = pw_cause_make(PEERWIN_ERR_MPI, ctx->rank);
    if (pw_cause_status(cause) == PEERWIN_ERR_TIMEOUT && pw_cause_rank(cause) == PW_NONE)
        cause = pw_cause_make(PEERWIN_ERR_TIMEOUT, ctx->rank);
    if (!ctx->agree.lost_together)
        pw_ctx_break(ctx, cause);
    else if (ctx->pad)
        break_here(ctx, cause); /* not elsewhere: a rank that is slower must see the end of the step, and not this */
    return status;
}

peerwin_status pw_ctx_agree(peerwin_ctx *ctx, peerwin_status local, const pw_site *site) {
    return judge(ctx, pw_agree_status(&ctx->agree, local, site));
}

peerwin_status pw_ctx_agree_enter(peerwin_ctx *ctx, pw_call call, uint32_t object, peerwin_status local,
                                  const pw_site *site) {
    return judge(ctx, pw_agree_enter(&ctx->agree, call, object, local, site));
}

peerwin_status pw_ctx_gather(peerwin_ctx *ctx, const void *mine, size_t bytes, void **all_out, const pw_site *site) {
    return judge(ctx, pw_agree_gather(&ctx->agree, mine, bytes, all_out, site));
}

void pw_ctx_meet(peerwin_ctx *ctx, const pw_site *site) {
    char text[PW_ERROR_TEXT];
    if (ctx->agree.lost)
        return;
    memcpy(text, peerwin_last_error(), sizeof text);
    peerwin_status status = pw_ctx_agree(ctx, PEERWIN_OK, site);
    (void)pw_error_adopt(status, text);
}

peerwin_status pw_ctx_not_started(peerwin_ctx *ctx, int code, const char *what, const pw_site *site) {
    ctx->agree.lost = 1;
    return judge(ctx, pw_fail_mpi(site, code, what));
}

peerwin_status pw_ctx_wait(peerwin_ctx *ctx, MPI_Request *request, const char *what, const pw_site *site) {
    return judge(ctx, pw_agree_wait(&ctx->agree, request, what, site));
}

peerwin_status pw_ctx_resumable_wait(peerwin_ctx *ctx, MPI_Request *request, const char *what, const pw_site *site) {
    ctx->agree.deadline = pw_deadline(ctx->timeout_ms);
    peerwin_status status = pw_agree_wait(&ctx->agree, request, what, site);
    if (status == PEERWIN_ERR_TIMEOUT) {
        ctx->agree.lost = 0;
        ctx->agree.unfinished = 0; /* nothing is given up: the request is kept and waited for again */
        ctx->agree.ended_by = 0;
        return status;
    }
    return judge(ctx, status);
}

pw_watch pw_ctx_watch(peerwin_ctx *ctx) {
    return (pw_watch){.live = &ctx->live,
                      .broken = ctx->pad ? &pw_pad_control(ctx->pad)->broken : NULL,
                      .deadline = pw_deadline(ctx->timeout_ms)};
}

pw_watch pw_ctx_watch_call(peerwin_ctx *ctx) {
    pw_watch watch = pw_ctx_watch(ctx);
    watch.deadline = ctx->agree.deadline;
    return watch;
}

/* ---- what a caller may ask */

int peerwin_rank(const peerwin_ctx *ctx) {
    return ctx ? ctx->rank : -1;
}

int peerwin_size(const peerwin_ctx *ctx) {
    return ctx ? ctx->size : 0;
}

peerwin_space peerwin_get_space(const peerwin_ctx *ctx) {
    return ctx ? ctx->space : PEERWIN_SPACE_AUTO;
}

MPI_Comm peerwin_node_comm(const peerwin_ctx *ctx) {
    return ctx ? ctx->node_comm : MPI_COMM_NULL;
}

MPI_Comm peerwin_direct_comm(const peerwin_ctx *ctx) {
    return ctx ? ctx->direct_comm : MPI_COMM_NULL;
}

peerwin_status peerwin_peer_query(const peerwin_ctx *ctx, int rank, peerwin_peer *peer_out) {
    static const char call[] = "peerwin_peer_query";
    if (!ctx || !peer_out)
        return pw_fail(PEERWIN_ERR_ARG, PW_SITE(call, NULL, PW_NONE, PW_NONE), "%s is NULL", ctx ? "peer_out" : "ctx");
    const pw_site *site = PW_SITE(call, NULL, ctx->rank, PW_NONE);
    peerwin_status status = pw_ctx_check_process(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    if (rank < 0 || rank >= ctx->size)
        return pw_fail(PEERWIN_ERR_ARG, site, "rank %d is not one of 0..%d", rank, ctx->size - 1);
    size_t size = peer_out->size;
    if (size < sizeof size)
        return pw_fail(PEERWIN_ERR_ARG, site, "peer_out->size is %zu: set it to sizeof(peerwin_peer) first", size);
    const pw_peer *known = &ctx->peers[rank];
    peerwin_peer peer = {.size = size,
                         .path = known->path,
                         .link = known->link,
                         .node = known->node,
                         .native_atomics = known->native_atomics,
                         .device = known->device,
                         .reason = known->reason};
    memcpy(peer_out, &peer, size < sizeof peer ? size : sizeof peer);
    return PEERWIN_OK;
}

peerwin_status peerwin_check(peerwin_ctx *ctx) {
    static const char call[] = "peerwin_check";
    if (!ctx)
        return pw_fail(PEERWIN_ERR_ARG, PW_SITE(call, NULL, PW_NONE, PW_NONE), "ctx is NULL");
    peerwin_status status = pw_ctx_check_process(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    pw_cause cause = pw_ctx_broken(ctx);
    return cause == 0 ? PEERWIN_OK : pw_cause_fail(cause, NULL, PW_SITE(call, NULL, ctx->rank, PW_NONE));
}

peerwin_status peerwin_abort(peerwin_ctx *ctx) {
    static const char call[] = "peerwin_abort";
    if (!ctx)
        return pw_fail(PEERWIN_ERR_ARG, PW_SITE(call, NULL, PW_NONE, PW_NONE), "ctx is NULL");
    peerwin_status status = pw_ctx_check_process(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    atomic_fetch_add(&ctx->aborting, 1);
    pw_ctx_break(ctx, pw_cause_make(PEERWIN_ERR_ABORTED, ctx->rank));
    atomic_fetch_sub(&ctx->aborting, 1); /* nothing after this: the context may be gone */
    return PEERWIN_OK;
}
