/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The life of a window: announce, accept, export, exchange, import, map, verify, ready; and free.
 *
 * peerwin_win_alloc reads as that list. What this rank needs is acquired before the ranks meet, so that its failure is
 * known in the first agreement; every later failure unwinds on every rank through the same labels.
 */
#include "window/window.h"

#include "base/log.h"
#include "window/announce.h"
#include "window/config.h"
#include "window/exchange.h"
#include "window/verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- signals: a range of every pad, the same on all ranks since all make and free windows in the same order */

static size_t signal_bytes(unsigned num_signals) {
    return pw_pad_round((size_t)num_signals * sizeof(uint64_t), PW_LINE);
}

/* Links the window in at the first gap that is large enough. */
static peerwin_status take_signals(peerwin_win *win, const pw_site *site) {
    peerwin_ctx *ctx = win->ctx;
    size_t need = signal_bytes(win->num_signals);
    size_t at = ctx->layout.signals;
    peerwin_win *before = NULL;
    peerwin_win *after = ctx->windows;
    while (after && after->pad_offset - at < need) {
        at = after->pad_offset + signal_bytes(after->num_signals);
        before = after;
        after = after->next;
    }
    if (ctx->layout.bytes - at < need)
        return pw_fail(PEERWIN_ERR_NO_MEMORY, site, "%u more signals do not fit beside those of the windows alive",
                       win->num_signals);
    win->pad_offset = at;
    win->previous = before;
    win->next = after;
    *(before ? &before->next : &ctx->windows) = win;
    if (after)
        after->previous = win;
    return PEERWIN_OK;
}

static void give_signals_back(peerwin_win *win) {
    if (win->pad_offset == 0)
        return;
    *(win->previous ? &win->previous->next : &win->ctx->windows) = win->next;
    if (win->next)
        win->next->previous = win->previous;
    win->pad_offset = 0;
}

/*
 * Zeroes my slots. Nobody can write them now: the last window that had them was freed with a barrier, and the new one
 * is not ready. Pages are asked for first where the kernel can (5.14), so that their lack is a status.
 */
static peerwin_status clear_signals(const peerwin_win *win, const pw_site *site) {
    char *first = win->ctx->pad + win->pad_offset;
    size_t bytes = signal_bytes(win->num_signals);
#ifdef MADV_POPULATE_WRITE
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *begin = (char *)((uintptr_t)first / page * page);
    size_t length = pw_pad_round((size_t)(first - begin) + bytes, page);
    if (madvise(begin, length, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
        return pw_fail_errno(site, errno, "madvise(MADV_POPULATE_WRITE)");
#else
    (void)site;
#endif
    memset(first, 0, bytes);
    return PEERWIN_OK;
}

/* ---- a window in this process */

void pw_win_unmap_peers(peerwin_win *win) {
    for (int rank = 0; rank < win->ctx->size; rank++) {
        pw_win_peer *peer = &win->peers[rank];
        if (peer->mapping.ops)
            (void)peer->mapping.ops->unmap(&peer->mapping);
        if (rank != win->ctx->rank)
            peer->base = NULL;
    }
}

void pw_win_release(peerwin_win *win) {
    if (win->peers)
        pw_win_unmap_peers(win);
    if (win->segment.ops)
        (void)win->segment.ops->release(&win->segment);
    give_signals_back(win);
    free(win->peers);
    free(win);
}

static peerwin_status describe(const peerwin_win *win, size_t bytes, const peerwin_win_config *config,
                               const pw_site *site, pw_announce *mine) {
    *mine = (pw_announce){.id = win->id,
                          .generation = win->generation,
                          .bytes = bytes,
                          .mapped = win->segment.mapped,
                          .granularity = win->segment.ops->granularity(win->segment.gpu),
                          .kind = win->segment.ops->kind,
                          .handles = config->handles,
                          .read_only = (uint32_t)config->read_only,
                          .num_signals = win->num_signals,
                          .pad_offset = win->pad_offset,
                          .has_neighbors = config->neighbors != NULL};
    memcpy(mine->name, win->name, sizeof mine->name);
    if (getrandom(&mine->nonce, sizeof mine->nonce, 0) != (ssize_t)sizeof mine->nonce)
        return pw_fail_errno(site, errno, "getrandom");
    return PEERWIN_OK;
}

/* Everything that this rank contributes: the struct, signals, and a zeroed, sealed segment. */
static peerwin_status acquire(peerwin_ctx *ctx, size_t bytes, const peerwin_win_config *config, const pw_site *site,
                              peerwin_win **win_out, pw_announce *mine) {
    peerwin_win *win = calloc(1, sizeof *win);
    if (!win)
        return pw_fail_errno(site, ENOMEM, "calloc");
    *win = (peerwin_win){.ctx = ctx, .num_signals = config->num_signals, .generation = 1, .segment.fd = -1};
    win->id = (uint64_t)ctx->serial << 32 | (ctx->next_window + 1);
    if (config->name)
        strncpy(win->name, config->name, PW_NAME_BYTES - 1);
    peerwin_status status = PEERWIN_OK;
    win->peers = calloc((size_t)ctx->size, sizeof *win->peers);
    if (!win->peers)
        status = pw_fail_errno(site, ENOMEM, "calloc");
    if (status == PEERWIN_OK)
        status = take_signals(win, site);
    if (status == PEERWIN_OK)
        status = clear_signals(win, site);
    if (status == PEERWIN_OK)
        status = pw_memory_host.alloc(NULL, pw_verify_room(bytes, ctx->size), 0, "peerwin-window", site, &win->segment);
    if (status == PEERWIN_OK)
        status = pw_memory_host.seal(&win->segment, config->read_only ? PW_READ_ONLY : 0, site);
    if (status == PEERWIN_OK)
        status = describe(win, bytes, config, site, mine);
    if (status != PEERWIN_OK) {
        pw_win_release(win);
        return status;
    }
    *win_out = win;
    return PEERWIN_OK;
}

/* Fills the table that transfers look at. */
static void publish(peerwin_win *win, const pw_assembly *assembly) {
    peerwin_ctx *ctx = win->ctx;
    for (int rank = 0; rank < ctx->size; rank++) {
        const pw_announce *record = &assembly->records[rank];
        pw_win_peer *peer = &win->peers[rank];
        int self = rank == ctx->rank;
        peer->bytes = record->bytes;
        peer->kind = (peerwin_handle)record->kind;
        peer->path = self || assembly->wanted[rank] ? ctx->peers[rank].path : PEERWIN_PATH_NONE;
        peer->read_only = record->read_only && !self;
        peer->mapping = assembly->mappings[rank];
        peer->base = record->bytes == 0 ? NULL : self ? win->segment.base : peer->mapping.base;
        if (peer->path != PEERWIN_PATH_NONE)
            peer->signals = pw_pad_signal(ctx->peers[rank].pad, win->pad_offset, 0);
    }
}

static pw_site at_stage(const pw_site *site, const char *stage) {
    pw_site there = *site;
    there.stage = stage;
    pw_log(PW_LOG_DEBUG, site->rank, "%s: %s", site->call, stage);
    return there;
}

static peerwin_status assemble(peerwin_win *win, const pw_announce *mine, const peerwin_win_config *config,
                               pw_assembly *assembly, const pw_site *site) {
    peerwin_ctx *ctx = win->ctx;
    pw_site there = at_stage(site, "announce");
    int verify = !(ctx->flags & PEERWIN_NO_VERIFY);
    if (verify && config->read_only)
        pw_verify_prepare(&win->segment, mine->nonce);
    peerwin_status status = pw_announce_run(ctx, mine, config, assembly, &there);
    if (status != PEERWIN_OK)
        return status;

    there = at_stage(site, "exchange");
    pw_exchange exchange = {.id = win->id,
                            .generation = win->generation,
                            .flags = config->read_only ? PW_READ_ONLY : 0,
                            .segment = &win->segment,
                            .wanted = assembly->wanted,
                            .mapped = assembly->mapped,
                            .mappings = assembly->mappings};
    status = pw_exchange_run(ctx, &exchange, PEERWIN_OK, &there);
    win->segment.ops->exported(&win->segment);
    publish(win, assembly);

    there = at_stage(site, "verify");
    if (status == PEERWIN_OK && verify)
        status = pw_verify_mappings(win, assembly, &there);
    status = pw_ctx_agree(ctx, status, &there);
    if (status == PEERWIN_OK && verify)
        status = pw_ctx_agree(ctx, pw_verify_segment(win, assembly, &there), &there);
    return status;
}

/* ---- calls */

static peerwin_status check_request(const peerwin_ctx *ctx, const peerwin_win_config *config,
                                    peerwin_win *const *win_out, const pw_site *site) {
    if (!win_out)
        return pw_fail(PEERWIN_ERR_ARG, site, "win_out is NULL");
    if (config->reserve_bytes != 0)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "this version has windows of fixed size only: leave reserve_bytes at 0");
    if (config->handles != 0 && !(config->handles & PEERWIN_HANDLE_HOST))
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "host space needs PEERWIN_HANDLE_HOST, which handles (0x%x) leaves out", config->handles);
    for (int i = 0; config->neighbors && i < config->num_neighbors; i++)
        if (config->neighbors[i] < 0 || config->neighbors[i] >= ctx->size)
            return pw_fail(PEERWIN_ERR_ARG, site, "config.neighbors[%d] is %d, not one of 0..%d", i,
                           config->neighbors[i], ctx->size - 1);
    return PEERWIN_OK;
}

static peerwin_status make_window(peerwin_ctx *ctx, size_t bytes, const peerwin_win_config *caller_config,
                                  peerwin_win **win_out, const pw_site *site) {
    peerwin_win_config config;
    pw_assembly assembly = {0};
    peerwin_win *win = NULL;
    pw_announce mine;
    peerwin_status status = pw_win_config_read(caller_config, site, &config);
    if (status == PEERWIN_OK)
        status = check_request(ctx, &config, win_out, site);
    if (status == PEERWIN_OK)
        status = pw_assembly_create(&assembly, ctx->size, site);
    if (status == PEERWIN_OK)
        status = acquire(ctx, bytes, &config, site, &win, &mine);
    status = pw_ctx_agree_enter(ctx, PW_CALL_ALLOC, ctx->next_window + 1, status, site);
    if (status != PEERWIN_OK)
        goto release;
    ctx->next_window++;
    status = assemble(win, &mine, &config, &assembly, site);
    if (status != PEERWIN_OK)
        goto release;
    *win_out = win;
    pw_assembly_destroy(&assembly);
    return PEERWIN_OK;

release:
    if (win)
        pw_win_release(win);
    pw_assembly_destroy(&assembly);
    return status;
}

peerwin_status peerwin_win_alloc(peerwin_ctx *ctx, size_t bytes, const peerwin_win_config *config,
                                 peerwin_win **win_out) {
    static const char call[] = "peerwin_win_alloc";
    if (!ctx)
        return pw_fail(PEERWIN_ERR_ARG, PW_SITE(call, NULL, PW_NONE, PW_NONE), "ctx is NULL");
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    status = make_window(ctx, bytes, config, win_out, PW_SITE(call, NULL, ctx->rank, PW_NONE));
    pw_ctx_leave(ctx);
    return status;
}

peerwin_status peerwin_win_attach(peerwin_ctx *ctx, void *base, size_t bytes, const peerwin_win_config *config,
                                  peerwin_win **win_out) {
    static const char call[] = "peerwin_win_attach";
    (void)base;
    (void)bytes;
    (void)config;
    (void)win_out;
    if (!ctx)
        return pw_fail(PEERWIN_ERR_ARG, PW_SITE(call, NULL, PW_NONE, PW_NONE), "ctx is NULL");
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    const pw_site *site = PW_SITE(call, NULL, ctx->rank, PW_NONE);
    status = pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                     "host memory that this process has already cannot be mapped by another one: allocate it with "
                     "peerwin_win_alloc and "
                     "use peerwin_win_ptr");
    status = pw_ctx_agree_enter(ctx, PW_CALL_ATTACH, ctx->next_window + 1, status, site);
    pw_ctx_leave(ctx);
    return status;
}

/* Everyone has come, so nobody uses it any more: unmap everywhere, and only then release. */
static peerwin_status close_together(peerwin_win *win, const pw_site *site) {
    peerwin_ctx *ctx = win->ctx;
    peerwin_status status = pw_ctx_agree_enter(ctx, PW_CALL_FREE, pw_win_ordinal(win), PEERWIN_OK, site);
    if (status != PEERWIN_OK)
        return status;
    pw_win_unmap_peers(win);
    return pw_ctx_agree(ctx, PEERWIN_OK, site);
}

peerwin_status peerwin_win_free(peerwin_win *win) {
    static const char call[] = "peerwin_win_free";
    if (!win)
        return PEERWIN_OK;
    peerwin_ctx *ctx = win->ctx;
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status == PEERWIN_OK) {
        status = close_together(win, PW_SITE(call, NULL, ctx->rank, PW_NONE));
        if (status == PEERWIN_OK)
            pw_win_release(win);
        pw_ctx_leave(ctx);
        return status;
    }
    if (status < PEERWIN_ERR_PEER_LOST)
        return status;
    /* Broken: nobody waits for anybody any more. */
    pw_win_release(win);
    return PEERWIN_OK;
}

void *peerwin_win_ptr(const peerwin_win *win, int rank) {
    return win && rank >= 0 && rank < win->ctx->size ? win->peers[rank].base : NULL;
}

size_t peerwin_win_bytes(const peerwin_win *win, int rank) {
    return win && rank >= 0 && rank < win->ctx->size ? win->peers[rank].bytes : 0;
}

peerwin_handle peerwin_win_handle(const peerwin_win *win, int rank) {
    return win && rank >= 0 && rank < win->ctx->size ? win->peers[rank].kind : PEERWIN_HANDLE_HOST;
}

peerwin_path peerwin_win_path(const peerwin_win *win, int rank) {
    return win && rank >= 0 && rank < win->ctx->size ? win->peers[rank].path : PEERWIN_PATH_NONE;
}

uint64_t peerwin_win_id(const peerwin_win *win) {
    return win ? win->id : 0;
}

uint64_t peerwin_win_generation(const peerwin_win *win) {
    return win ? win->generation : 0;
}
