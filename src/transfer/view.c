/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Views: what kernels, and in host space the code in their place, need to know of a window; see peerwin/device.cuh.
 *
 * A view holds addresses and places only. In CUDA space they are those of the arenas, in host space those of the pads,
 * which have the same region inside. The addresses of all ranks are in a table that the window owns.
 */
#include "peerwin/device.cuh"

#include "transfer/door.h"
#include "window/sharing.h"
#include "window/space.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>

_Static_assert((int)PW_DEV_OK == (int)PEERWIN_OK && (int)PW_DEV_TIMEOUT == (int)PEERWIN_ERR_TIMEOUT, "statuses");
_Static_assert((int)PW_DEV_MISMATCH == (int)PEERWIN_ERR_MISMATCH, "statuses");
_Static_assert((int)PW_DEV_FLOAT == (int)PEERWIN_FLOAT && (int)PW_DEV_INT64 == (int)PEERWIN_INT64, "types");
_Static_assert((int)PW_DEV_MIN == (int)PEERWIN_MIN && (int)PW_DEV_MAX == (int)PEERWIN_MAX, "operations");
_Static_assert((int)PW_DEV_LINE == (int)PW_LINE && (int)PEERWIN_VIEW_SERIES == (int)PW_NUM_SERIES, "lines");
_Static_assert((int)PW_DEV_SERIES == (int)PW_SERIES_DEVICE, "the series of kernels");
_Static_assert((int)PW_DEV_REDUCE_SLOT == (int)PW_ARENA_REDUCE_SLOT, "slots of all-reduces");
_Static_assert((int)PW_DEV_REDUCE_WORDS * 8 == (int)PW_DEV_REDUCE_SLOT, "words of all-reduces");
_Static_assert((int)PW_DEV_MESSAGE_SLOT == (int)PW_MESSAGE_SLOT, "slots of messages");
_Static_assert((int)PW_DEV_MESSAGE_SLOTS == (int)PW_MESSAGE_SLOTS, "slots of messages");
_Static_assert((int)PEERWIN_MESSAGE_SLOTS == (int)PW_MESSAGE_SLOTS, "slots of messages");

/* ---- the table ---- */

static void fill_entry(const peerwin_win *win, int rank, peerwin_view_peer *entry) {
    const peerwin_ctx *ctx = win->ctx;
    const pw_win_peer *peer = &win->peers[rank];
    *entry = (peerwin_view_peer){.base = peer->base, .bytes = peer->bytes};
    entry->arena = ctx->gpu ? ctx->peers[rank].arena : ctx->peers[rank].pad;
    if (peer->path != PEERWIN_PATH_NONE && entry->arena)
        entry->signals = (uint64_t *)(void *)(entry->arena + win->pad_offset);
}

static peerwin_view_peer *list_entries(const peerwin_win *win) {
    peerwin_view_peer *entries = calloc((size_t)win->ctx->size, sizeof *entries);
    for (int rank = 0; entries && rank < win->ctx->size; rank++)
        fill_entry(win, rank, &entries[rank]);
    return entries;
}

/* Puts the table where kernels find it. Takes the entries over in host space. */
static peerwin_status keep_table(peerwin_win *win, peerwin_view_peer *entries, const pw_site *site) {
    pw_gpu *gpu = win->ctx->gpu;
    if (!gpu) {
        win->view_table = entries;
        return PEERWIN_OK;
    }
    peerwin_status status = pw_space_enter(win->ctx, site);
    if (status == PEERWIN_OK) {
        status = pw_gpu_keep(gpu, entries, (size_t)win->ctx->size * sizeof *entries, site, &win->view_table);
        pw_space_leave(win->ctx);
    }
    return status;
}

/* ---- the view ---- */

static void fill_places(const peerwin_ctx *ctx, peerwin_view *view) {
    const pw_arena_layout layout = pw_arena_layout_of(ctx->size);
    const uint64_t first = ctx->gpu ? 0 : ctx->layout.arena;
    for (int series = 0; series < PW_NUM_SERIES; series++) {
        view->barrier_lines[series] = first + layout.kernel_lines[series];
        view->reduce_slots[series] = first + layout.reduce_slots[series];
    }
    view->barrier_epochs = first + layout.control + offsetof(pw_arena_control, barrier_epoch);
    view->reduce_epochs = first + layout.control + offsetof(pw_arena_control, reduce_epoch);
    view->messages = first + layout.messages;
    view->message_credits = first + layout.message_credits;
    view->message_counts = first + layout.message_counts;
}

/* What ends a wait: the arena's word, or in host space the cause word itself. */
static void fill_ends(peerwin_ctx *ctx, peerwin_view *view) {
    const pw_arena_layout layout = pw_arena_layout_of(ctx->size);
    view->timeout_ns = ctx->timeout_ms < 0 ? PW_DEV_FOREVER : (uint64_t)ctx->timeout_ms * 1000000u;
    if (ctx->gpu) {
        char *arena = ctx->peers[ctx->rank].arena;
        view->broken = (const uint64_t *)(void *)(arena + layout.control + offsetof(pw_arena_control, broken));
        return;
    }
    view->broken = (const uint64_t *)(const void *)&pw_pad_control(ctx->pad)->broken;
    view->sleepers = offsetof(pw_control, sleepers);
    view->context = ctx;
}

/* Whether what kernels of this window do is seen by nobody beyond this device. Host memory is. */
static int on_one_device(const peerwin_win *win) {
    if (!pw_on_one_device(win->ctx))
        return 0;
    for (int rank = 0; rank < win->ctx->size; rank++)
        if (win->peers[rank].kind == PEERWIN_HANDLE_HOST)
            return 0;
    return 1;
}

static void fill_view(peerwin_win *win, const peerwin_view_peer *entries, peerwin_view *view) {
    peerwin_ctx *ctx = win->ctx;
    *view = (peerwin_view){.version = PEERWIN_VIEW_VERSION,
                           .rank = ctx->rank,
                           .size = ctx->size,
                           .num_signals = win->num_signals,
                           .all_reachable = 1,
                           .one_device = (uint32_t)on_one_device(win),
                           .counts = (uint32_t)pw_on_one_device(ctx),
                           .own = entries[ctx->rank],
                           .peers = win->view_table};
    for (int rank = 0; rank < ctx->size; rank++) {
        view->all_reachable &= entries[rank].arena != NULL && ctx->all_direct;
        if (rank < PEERWIN_VIEW_NEAR)
            view->near[rank] = entries[rank];
    }
    fill_places(ctx, view);
    fill_ends(ctx, view);
}

static peerwin_status make_view(peerwin_win *win, peerwin_view *view_out, const pw_site *site) {
    peerwin_view_peer *entries = list_entries(win);
    peerwin_status status = entries ? PEERWIN_OK : pw_fail_errno(site, ENOMEM, "calloc");
    if (status == PEERWIN_OK && !win->view_table)
        status = keep_table(win, entries, site);
    if (status == PEERWIN_OK)
        fill_view(win, entries, view_out);
    if (win->view_table != entries)
        free(entries);
    return status;
}

peerwin_status peerwin_inline_view(peerwin_win *win, uint32_t version, size_t bytes, void *view_out) {
    static const char call[] = "peerwin_win_view";
    peerwin_view view;
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    const pw_site *site = PW_SITE(call, NULL, win->ctx->rank, PW_NONE);
    if (!view_out)
        status = pw_refuse_null(win, call, "view_out");
    else if (version != PEERWIN_VIEW_VERSION || bytes != sizeof view)
        status = pw_fail(PEERWIN_ERR_MISMATCH, site,
                         "the program's header has views of version %u (%zu bytes), this library has version %u (%zu "
                         "bytes): compile it with the header of this library",
                         (unsigned)version, bytes, (unsigned)PEERWIN_VIEW_VERSION, sizeof view);
    else
        status = make_view(win, &view, site);
    if (status == PEERWIN_OK)
        memcpy(view_out, &view, sizeof view);
    pw_ctx_leave(win->ctx);
    return status;
}

/* ---- waits of host code ---- */

enum { RELAXED_TURNS = 2, YIELDING_TURNS = 400, LOOK_EVERY = 400, NAP_NS = 50000 };

/* A peer that died breaks the context, which ends the wait that asked. Not while another thread is in a call. */
static void look_for_dead_peers(peerwin_ctx *ctx) {
    if (pw_ctx_come_in(ctx, "peerwin_dev_wait") != PEERWIN_OK)
        return;
    const int lost = pw_ctx_broken(ctx) == 0 ? pw_liveness_lost(&ctx->live) : PW_NONE;
    if (lost != PW_NONE)
        pw_ctx_break(ctx, pw_cause_make(PEERWIN_ERR_PEER_LOST, lost));
    pw_ctx_leave(ctx);
}

uint64_t peerwin_inline_rest(void *context, uint32_t turn) {
    if (turn < RELAXED_TURNS)
        pw_relax();
    else if (turn < YIELDING_TURNS)
        sched_yield();
    else
        (void)nanosleep(&(const struct timespec){.tv_nsec = NAP_NS}, NULL);
    if (context && turn % LOOK_EVERY == LOOK_EVERY - 1)
        look_for_dead_peers(context);
    return (uint64_t)pw_now();
}

void peerwin_inline_wake(void *arena) {
    pw_pad_wake_sleeper(arena);
}
