/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of a context; see lifetime.h.
 *
 * Goodbye is said in the own pad after the last agreed step: the memory of the pad outlives this process as long as a
 * peer has it mapped, so a peer that sees the process end looks there and knows that nothing was lost.
 */
#include "window/lifetime.h"

#include "base/fd.h"
#include "base/log.h"
#include "window/space.h"
#include "window/watchdog.h"
#include "window/window.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * Runs when MPI_Finalize begins, or when finalize itself removes the attribute (then `alive` contexts are not
 * reported). Calls no MPI: implementations differ in what they allow here.
 */
static int on_mpi_end(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm;
    (void)keyval;
    (void)extra;
    peerwin_ctx *ctx = value;
    if (ctx->closing)
        return MPI_SUCCESS;
    uint64_t unbroken = 0;
    atomic_compare_exchange_strong(&pw_pad_control(ctx->pad)->broken, &unbroken,
                                   pw_cause_make(PEERWIN_ERR_STATE, ctx->rank));
    pw_watchdog_mpi_ends(ctx);
    int windows = 0;
    for (const peerwin_win *win = ctx->windows; win; win = win->next)
        windows += !win->of_plan;
    pw_log(PW_LOG_WARN, ctx->rank,
           "MPI_Finalize was called before peerwin_finalize; a context with %d windows was left open", windows);
    return MPI_SUCCESS;
}

peerwin_status pw_lifetime_watch_mpi(peerwin_ctx *ctx, const pw_site *site) {
    int code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_mpi_end, &ctx->keyval, NULL);
    if (code != MPI_SUCCESS) {
        ctx->keyval = MPI_KEYVAL_INVALID;
        return pw_fail_mpi(site, code, "MPI_Comm_create_keyval");
    }
    code = MPI_Comm_set_attr(MPI_COMM_SELF, ctx->keyval, ctx);
    if (code != MPI_SUCCESS) {
        MPI_Comm_free_keyval(&ctx->keyval);
        return pw_fail_mpi(site, code, "MPI_Comm_set_attr");
    }
    return PEERWIN_OK;
}

static size_t context_bytes(void) {
    return pw_pad_round(sizeof(peerwin_ctx), (size_t)sysconf(_SC_PAGESIZE));
}

peerwin_ctx *pw_ctx_new(void) {
    void *pages = mmap(NULL, context_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    peerwin_ctx *ctx = pages;
    if (pages != MAP_FAILED) {
        ctx->wiped = madvise(pages, context_bytes(), MADV_WIPEONFORK) == 0;
        return ctx;
    }
    ctx = calloc(1, sizeof *ctx);
    if (ctx)
        ctx->on_heap = 1;
    return ctx;
}

void pw_ctx_delete(peerwin_ctx *ctx) {
    if (ctx->agree.unfinished)
        return;
    if (ctx->on_heap)
        free(ctx);
    else
        (void)munmap(ctx, context_bytes());
}

/* What needs MPI. Communicators with an unfinished collective are given up: freeing them could wait for the others. */
static void release_mpi(peerwin_ctx *ctx) {
    if (ctx->keyval != MPI_KEYVAL_INVALID) {
        ctx->closing = 1;
        MPI_Comm_delete_attr(MPI_COMM_SELF, ctx->keyval);
        MPI_Comm_free_keyval(&ctx->keyval);
    }
    int broken = ctx->agree.lost || (ctx->pad && pw_ctx_broken(ctx) != 0);
    if (broken)
        ctx->agree.lost = 1;
    if (!broken && ctx->series_comm != MPI_COMM_NULL && ctx->series_request == MPI_REQUEST_NULL)
        MPI_Comm_free(&ctx->series_comm);
    if (!broken && ctx->direct_comm != MPI_COMM_NULL && ctx->direct_comm != ctx->node_comm)
        MPI_Comm_free(&ctx->direct_comm);
    if (!broken && ctx->node_comm != MPI_COMM_NULL)
        MPI_Comm_free(&ctx->node_comm);
    pw_agree_destroy(&ctx->agree);
}

static void release_peers(peerwin_ctx *ctx) {
    pw_liveness_destroy(&ctx->live); /* before the pads, which it looks into */
    for (int rank = 0; ctx->peers && rank < ctx->size; rank++) {
        pw_peer *peer = &ctx->peers[rank];
        pw_close(&peer->socket);
        (void)pw_import_release(&ctx->imports, peer->pad_import);
    }
    if (ctx->pad_segment.ops)
        (void)ctx->pad_segment.ops->release(&ctx->pad_segment);
}

static void unmap_arenas(peerwin_ctx *ctx) {
    for (int rank = 0; ctx->peers && rank < ctx->size; rank++) {
        (void)pw_import_release(&ctx->imports, ctx->peers[rank].events_import);
        (void)pw_import_release(&ctx->imports, ctx->peers[rank].arena_import);
        ctx->peers[rank].events_import = ctx->peers[rank].arena_import = NULL;
        if (rank != ctx->rank)
            ctx->peers[rank].arena = NULL;
    }
}

void pw_ctx_unmap_together(peerwin_ctx *ctx, const pw_site *site) {
    char text[PW_ERROR_TEXT];
    if (ctx->space != PEERWIN_SPACE_CUDA)
        return;
    pw_watchdog_stop(ctx);
    memcpy(text, peerwin_last_error(), sizeof text);
    if (pw_space_enter_to_release(ctx, site)) {
        unmap_arenas(ctx);
        pw_space_leave(ctx);
    }
    (void)pw_error_adopt(PEERWIN_ERR_INTERNAL, text);
    pw_ctx_meet(ctx, site);
}

/* Unmaps what is left of the arenas, and gives up the device. */
static void release_device(peerwin_ctx *ctx) {
    unmap_arenas(ctx);
    if (ctx->events.ops)
        (void)ctx->events.ops->release(&ctx->events);
    if (ctx->arena_segment.ops)
        (void)ctx->arena_segment.ops->release(&ctx->arena_segment);
}

void pw_ctx_release(peerwin_ctx *ctx) {
    int finalized = 0;
    MPI_Finalized(&finalized);
    pw_watchdog_stop(ctx);
    int entered = pw_space_enter_to_release(ctx, PW_SITE("peerwin_finalize", NULL, ctx->rank, PW_NONE));
    while (ctx->plans)
        ctx->plans->release(ctx->plans);
    while (ctx->windows)
        (void)pw_win_release(ctx->windows);
    if (ctx->gpu)
        release_device(ctx);
    if (entered)
        pw_space_leave(ctx);
    pw_gpu_close(ctx->gpu);
    ctx->gpu = NULL;
    if (!finalized)
        release_mpi(ctx);
    if (ctx->series_request == MPI_REQUEST_NULL) /* else MPI still owns the block */
        free(ctx->gathered);
    release_peers(ctx);
    free(ctx->peers);
    free(ctx->hellos);
    free(ctx->cards);
    free(ctx->channels);
    free(ctx->direct);
    pw_ctx_delete(ctx);
}

static void report_forgotten(const peerwin_ctx *ctx) {
    for (const pw_plan *plan = ctx->plans; plan; plan = plan->next)
        pw_log(PW_LOG_WARN, ctx->rank, "peerwin_finalize frees halo plan %u, which was not freed", plan->ordinal);
    for (const peerwin_win *win = ctx->windows; win; win = win->next)
        if (!win->of_plan)
            pw_log(PW_LOG_WARN, ctx->rank, "peerwin_finalize frees window %u%s%s, which was not freed",
                   pw_win_ordinal(win), win->name[0] ? " " : "", win->name);
}

/* What peers have mapped is given back before anybody's memory goes. */
static void unmap_all(peerwin_ctx *ctx) {
    for (peerwin_win *win = ctx->windows; win; win = win->next)
        (void)pw_win_unmap_peers(win);
    if (ctx->gpu)
        unmap_arenas(ctx);
}

/* Everyone has come, so nobody uses a window any more; unmap, and only then release. The gpu is entered. */
static peerwin_status close_on_device(peerwin_ctx *ctx, peerwin_status ready, const pw_site *site) {
    if (ready == PEERWIN_OK)
        ready = pw_space_quiesce(ctx, site);
    peerwin_status status = pw_ctx_agree_enter(ctx, PW_CALL_FINALIZE, 0, ready, site);
    if (status != PEERWIN_OK)
        return status;
    report_forgotten(ctx);
    pw_watchdog_stop(ctx); /* it writes to the arena */
    unmap_all(ctx);
    return pw_ctx_agree(ctx, PEERWIN_OK, site);
}

static peerwin_status close_together(peerwin_ctx *ctx, const pw_site *site) {
    peerwin_status entered = pw_space_enter_to_end(ctx, site);
    peerwin_status status = close_on_device(ctx, entered, site);
    if (entered == PEERWIN_OK)
        pw_space_leave(ctx);
    return status;
}

peerwin_status peerwin_finalize(peerwin_ctx *ctx) {
    static const char call[] = "peerwin_finalize";
    int finalized = 0;
    if (!ctx)
        return PEERWIN_OK;
    peerwin_status status = pw_ctx_come_in(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    MPI_Finalized(&finalized);
    if (finalized)
        pw_log(PW_LOG_WARN, ctx->rank, "peerwin_finalize came after MPI_Finalize: released locally");
    else if (pw_ctx_broken(ctx) == 0)
        status = close_together(ctx, PW_SITE(call, NULL, ctx->rank, PW_NONE));
    if (status != PEERWIN_OK) {
        pw_ctx_leave(ctx);
        return status;
    }
    atomic_store_explicit(&pw_pad_control(ctx->pad)->goodbye, 1, memory_order_release);
    while (atomic_load(&ctx->aborting) != 0)
        sched_yield(); /* whose abort released the caller may still be telling the others */
    pw_ctx_release(ctx);
    return PEERWIN_OK;
}
