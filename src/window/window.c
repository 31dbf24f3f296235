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
#include "window/space.h"
#include "window/verify.h"
#include "window/watchdog.h"

#include <errno.h>
#include <stdio.h>
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
    size_t at = ctx->gpu ? ctx->arena_layout.signals : ctx->layout.signals;
    size_t end = ctx->gpu ? ctx->arena_layout.bytes : ctx->layout.bytes;
    peerwin_win *before = NULL;
    peerwin_win *after = ctx->windows;
    while (after && after->pad_offset - at < need) {
        at = after->pad_offset + signal_bytes(after->num_signals);
        before = after;
        after = after->next;
    }
    if (end - at < need)
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
    peerwin_ctx *ctx = win->ctx;
    if (ctx->gpu)
        return pw_gpu_zero(ctx->gpu, ctx->peers[ctx->rank].arena + win->pad_offset, signal_bytes(win->num_signals),
                           site);
    char *first = ctx->pad + win->pad_offset;
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

/* What the caller of alloc or attach asks for. */
typedef struct {
    pw_call call;
    int attach;
    void *base;
    size_t bytes;
    peerwin_win_config config;
} request;

peerwin_status pw_win_unmap_peers(peerwin_win *win) {
    peerwin_status first = PEERWIN_OK;
    for (int rank = 0; rank < win->ctx->size; rank++) {
        pw_win_peer *peer = &win->peers[rank];
        peerwin_status status = pw_import_release(&win->ctx->imports, peer->import);
        peer->import = NULL;
        if (first == PEERWIN_OK)
            first = status;
        if (rank != win->ctx->rank)
            peer->base = NULL;
    }
    return first;
}

static peerwin_status free_view_table(peerwin_win *win, peerwin_status first) {
    if (win->view_table && win->ctx->gpu)
        first = pw_gpu_drop(win->ctx->gpu, win->view_table, first);
    else
        free(win->view_table);
    win->view_table = NULL;
    return first;
}

peerwin_status pw_win_release(peerwin_win *win) {
    peerwin_status first = win->peers ? pw_win_unmap_peers(win) : PEERWIN_OK;
    first = free_view_table(win, first);
    peerwin_status status = win->segment.ops ? win->segment.ops->release(&win->segment) : PEERWIN_OK;
    give_signals_back(win);
    free(win->peers);
    free(win);
    return first != PEERWIN_OK ? first : status;
}

static peerwin_status describe(const peerwin_win *win, const request *r, const pw_site *site, pw_announce *mine) {
    const pw_segment *segment = &win->segment;
    *mine = (pw_announce){.id = win->id,
                          .generation = win->generation,
                          .bytes = r->bytes,
                          .mapped = segment->mapped,
                          .offset = segment->mapped > 0 ? (uint64_t)(win->base - (char *)segment->base) : 0,
                          .granularity = segment->ops->granularity(segment->gpu),
                          .kind = segment->ops->kind,
                          .handles = r->config.handles,
                          .read_only = (uint32_t)r->config.read_only,
                          .num_signals = win->num_signals,
                          .pad_offset = win->pad_offset,
                          .has_neighbors = r->config.neighbors != NULL,
                          .attached = (uint32_t)r->attach,
                          .num_pieces = (uint32_t)segment->num_pieces,
                          .memory_id = segment->id};
    memcpy(mine->name, win->name, sizeof mine->name);
    if (getrandom(&mine->nonce, sizeof mine->nonce, 0) != (ssize_t)sizeof mine->nonce)
        return pw_fail_errno(site, errno, "getrandom");
    return r->attach ? pw_verify_ends(win->ctx, win->base, r->bytes, site, mine->ends) : PEERWIN_OK;
}

/* The kind of memory that a window of this context is made of. */
static peerwin_status choose_memory(const peerwin_ctx *ctx, const request *r, const pw_site *site,
                                    const pw_memory_ops **ops_out) {
    unsigned mask = r->config.handles;
    if (!ctx->gpu) {
        *ops_out = &pw_memory_host;
        return PEERWIN_OK;
    }
    if (ctx->memory && (mask == 0 || (mask & (unsigned)ctx->memory->kind))) {
        *ops_out = ctx->memory;
        return PEERWIN_OK;
    }
    if (!ctx->memory)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "this context is for attached pool memory (PEERWIN_HANDLE_POOL): it cannot allocate windows");
    return pw_fail(
        PEERWIN_ERR_UNSUPPORTED, site,
        "windows of this context are made of %s memory, which handles (0x%x) leaves out: set the kind for the "
        "context (config.handles of peerwin_init, or PEERWIN_HANDLES)",
        ctx->memory->name, mask);
}

static peerwin_status alloc_segment(peerwin_win *win, const request *r, const pw_site *site) {
    peerwin_ctx *ctx = win->ctx;
    const pw_memory_ops *ops = NULL;
    peerwin_status status = choose_memory(ctx, r, site, &ops);
    const pw_order order = {.bytes = pw_verify_room(r->bytes, ctx->size),
                            .flags = r->config.read_only ? PW_READ_ONLY : 0,
                            .name = "peerwin-window",
                            .crew = &ctx->crew};
    if (status == PEERWIN_OK)
        status = ops->alloc(ctx->gpu, &order, site, &win->segment);
    if (status == PEERWIN_OK)
        status = ops->seal(&win->segment, order.flags, site);
    win->base = win->segment.base;
    return status;
}

/* Memory of a kind that the context leaves out is not taken either. */
static peerwin_status attach_segment(peerwin_win *win, const request *r, const pw_site *site) {
    peerwin_ctx *ctx = win->ctx;
    unsigned mask = r->config.handles ? r->config.handles : ctx->hellos[0].options.handles;
    size_t offset = 0;
    if (!ctx->gpu)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "host memory that this process has already cannot be mapped by another one: allocate it with "
                       "peerwin_win_alloc and use peerwin_win_ptr");
    peerwin_status status = pw_gpu_attach(ctx->gpu, r->base, r->bytes, site, &win->segment, &offset);
    if (status != PEERWIN_OK)
        return status;
    win->base = (char *)win->segment.base + offset;
    if (r->bytes > 0 && mask != 0 && !(mask & (unsigned)win->segment.ops->kind))
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site, "the memory is of kind %s, which handles (0x%x) leaves out",
                       win->segment.ops->name, mask);
    return win->segment.ops->seal(&win->segment, r->config.read_only ? PW_READ_ONLY : 0, site);
}

/* Everything that this rank contributes: the struct, signals, and a sealed segment, zeroed if it is new. */
static peerwin_status acquire(peerwin_ctx *ctx, const request *r, const pw_site *site, peerwin_win **win_out,
                              pw_announce *mine) {
    peerwin_win *win = calloc(1, sizeof *win);
    if (!win)
        return pw_fail_errno(site, ENOMEM, "calloc");
    *win = (peerwin_win){.ctx = ctx, .num_signals = r->config.num_signals, .generation = 1, .segment.fd = -1};
    win->id = (uint64_t)ctx->serial << 32 | (ctx->next_window + 1);
    if (r->config.name)
        strncpy(win->name, r->config.name, PW_NAME_BYTES - 1);
    peerwin_status status = PEERWIN_OK;
    win->peers = calloc((size_t)ctx->size, sizeof *win->peers);
    if (!win->peers)
        status = pw_fail_errno(site, ENOMEM, "calloc");
    if (status == PEERWIN_OK)
        status = take_signals(win, site);
    if (status == PEERWIN_OK)
        status = clear_signals(win, site);
    if (status == PEERWIN_OK)
        status = r->attach ? attach_segment(win, r, site) : alloc_segment(win, r, site);
    if (status == PEERWIN_OK)
        status = describe(win, r, site, mine);
    if (status != PEERWIN_OK) {
        char text[PW_ERROR_TEXT];
        snprintf(text, sizeof text, "%s", peerwin_last_error());
        (void)pw_win_release(win);
        return pw_error_adopt(status, text);
    }
    *win_out = win;
    return PEERWIN_OK;
}

/* Fills the table that transfers look at. */
static void publish(peerwin_win *win, pw_assembly *assembly) {
    peerwin_ctx *ctx = win->ctx;
    for (int rank = 0; rank < ctx->size; rank++) {
        const pw_announce *record = &assembly->records[rank];
        pw_win_peer *peer = &win->peers[rank];
        int self = rank == ctx->rank;
        peer->bytes = record->bytes;
        peer->kind = (peerwin_handle)record->kind;
        peer->path = self || assembly->peers[rank].wanted ? ctx->peers[rank].path : PEERWIN_PATH_NONE;
        peer->read_only = record->read_only && !self;
        peer->import = assembly->peers[rank].import;
        assembly->peers[rank].import = NULL; /* the window's from now on */
        if (self)
            peer->base = record->bytes == 0 ? NULL : win->base;
        else
            peer->base =
                record->bytes == 0 || !peer->import ? NULL : (char *)peer->import->mapping.base + record->offset;
        if (peer->path == PEERWIN_PATH_NONE)
            continue;
        if (ctx->gpu)
            peer->slots = pw_arena_signal(ctx->peers[rank].arena, win->pad_offset, 0);
        else
            peer->signals = pw_pad_signal(ctx->peers[rank].pad, win->pad_offset, 0);
        peer->loads = ctx->gpu ? 0 : peer->bytes;
        peer->stores = peer->read_only ? 0 : peer->loads;
    }
}

static pw_site at_stage(const pw_site *site, const char *stage) {
    pw_site there = *site;
    there.stage = stage;
    pw_log(PW_LOG_DEBUG, site->rank, "%s: %s", site->call, stage);
    return there;
}

static peerwin_status assemble(peerwin_win *win, const pw_announce *mine, const request *r, pw_assembly *assembly,
                               const pw_site *site) {
    peerwin_ctx *ctx = win->ctx;
    pw_site there = at_stage(site, "announce");
    int verify = !(ctx->flags & PEERWIN_NO_VERIFY);
    peerwin_status status = PEERWIN_OK;
    if (verify && r->config.read_only && !r->attach)
        status = pw_verify_prepare(win, mine->nonce, &there);
    status = pw_ctx_agree(ctx, status, &there);
    if (status == PEERWIN_OK)
        status = pw_announce_run(ctx, mine, &r->config, assembly, &there);
    if (status != PEERWIN_OK)
        return status;

    there = at_stage(site, "exchange");
    pw_exchange exchange = {.id = win->id,
                            .generation = win->generation,
                            .flags = r->config.read_only ? PW_READ_ONLY : 0,
                            .segment = &win->segment,
                            .peers = assembly->peers};
    status = pw_exchange_run(ctx, &exchange, PEERWIN_OK, &there);
    win->segment.ops->exported(&win->segment);

    there = at_stage(site, "verify");
    if (status == PEERWIN_OK && verify)
        status = pw_verify_mappings(win, assembly, &there);
    status = pw_ctx_agree(ctx, status, &there);
    if (status == PEERWIN_OK && verify)
        status = pw_ctx_agree(ctx, pw_verify_segment(win, assembly, &there), &there);
    publish(win, assembly);
    return status;
}

/* ---- calls */

static peerwin_status check_request(const peerwin_ctx *ctx, const request *r, peerwin_win *const *win_out,
                                    const pw_site *site) {
    const peerwin_win_config *config = &r->config;
    if (!win_out)
        return pw_fail(PEERWIN_ERR_ARG, site, "win_out is NULL");
    if (r->attach && !r->base && r->bytes > 0)
        return pw_fail(PEERWIN_ERR_ARG, site, "base is NULL");
    if (config->reserve_bytes != 0)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "this version has windows of fixed size only: leave reserve_bytes at 0");
    if (!ctx->gpu && config->handles != 0 && !(config->handles & PEERWIN_HANDLE_HOST))
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "host space needs PEERWIN_HANDLE_HOST, which handles (0x%x) leaves out", config->handles);
    for (int i = 0; config->neighbors && i < config->num_neighbors; i++)
        if (config->neighbors[i] < 0 || config->neighbors[i] >= ctx->size)
            return pw_fail(PEERWIN_ERR_ARG, site, "config.neighbors[%d] is %d, not one of 0..%d", i,
                           config->neighbors[i], ctx->size - 1);
    return PEERWIN_OK;
}

/* Importers unmap before owners release, also on the way out of a failure. */
static void unmap_unused(peerwin_win *win, const pw_site *site) {
    (void)pw_win_unmap_peers(win);
    if (win->ctx->gpu)
        pw_ctx_meet(win->ctx, site);
}

static peerwin_status make_window(peerwin_ctx *ctx, request *r, const peerwin_win_config *caller_config,
                                  peerwin_status entered, peerwin_win **win_out, const pw_site *site) {
    pw_assembly assembly = {0};
    peerwin_win *win = NULL;
    pw_announce mine;
    char text[PW_ERROR_TEXT];
    peerwin_status status = entered;
    if (status == PEERWIN_OK)
        status = pw_win_config_read(caller_config, site, &r->config);
    if (status == PEERWIN_OK)
        status = check_request(ctx, r, win_out, site);
    if (status == PEERWIN_OK)
        status = pw_assembly_create(&assembly, ctx->size, site);
    if (status == PEERWIN_OK)
        status = acquire(ctx, r, site, &win, &mine);
    status = pw_ctx_agree_enter(ctx, r->call, ctx->next_window + 1, status, site);
    if (status != PEERWIN_OK)
        goto release;
    ctx->next_window++;
    status = assemble(win, &mine, r, &assembly, site);
    if (status != PEERWIN_OK)
        goto abandon;
    *win_out = win;
    pw_assembly_destroy(&assembly);
    return PEERWIN_OK;

abandon:
    snprintf(text, sizeof text, "%s", peerwin_last_error());
    (void)pw_exchange_undo(ctx, assembly.peers);
    unmap_unused(win, site);
    (void)pw_error_adopt(status, text);
release:
    snprintf(text, sizeof text, "%s", peerwin_last_error());
    if (win)
        (void)pw_win_release(win);
    pw_assembly_destroy(&assembly);
    return pw_error_adopt(status, text);
}

/* The way of both calls: into the context, onto the device, and back. */
static peerwin_status make(peerwin_ctx *ctx, request *r, const char *call, const peerwin_win_config *config,
                           peerwin_win **win_out) {
    if (!ctx)
        return pw_fail(PEERWIN_ERR_ARG, PW_SITE(call, NULL, PW_NONE, PW_NONE), "ctx is NULL");
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status != PEERWIN_OK)
        return status;
    const pw_site *site = PW_SITE(call, NULL, ctx->rank, PW_NONE);
    peerwin_status entered = pw_space_enter(ctx, site);
    status = make_window(ctx, r, config, entered, win_out, site);
    if (entered == PEERWIN_OK)
        pw_space_leave(ctx);
    pw_ctx_leave(ctx);
    return status;
}

peerwin_status peerwin_win_alloc(peerwin_ctx *ctx, size_t bytes, const peerwin_win_config *config,
                                 peerwin_win **win_out) {
    request r = {.call = PW_CALL_ALLOC, .bytes = bytes};
    return make(ctx, &r, "peerwin_win_alloc", config, win_out);
}

peerwin_status peerwin_win_attach(peerwin_ctx *ctx, void *base, size_t bytes, const peerwin_win_config *config,
                                  peerwin_win **win_out) {
    request r = {.call = PW_CALL_ATTACH, .attach = 1, .base = base, .bytes = bytes};
    return make(ctx, &r, "peerwin_win_attach", config, win_out);
}

peerwin_status pw_win_make(peerwin_ctx *ctx, size_t bytes, const peerwin_win_config *config, peerwin_win **win_out,
                           const pw_site *site) {
    request r = {.call = PW_CALL_ALLOC, .bytes = bytes};
    return make_window(ctx, &r, config, PEERWIN_OK, win_out, site);
}

void pw_win_abandon(peerwin_win *win, const pw_site *site) {
    unmap_unused(win, site);
    (void)pw_win_release(win);
}

static peerwin_status check_plans(const peerwin_win *win, const pw_site *site) {
    for (const pw_plan *plan = win->ctx->plans; plan; plan = plan->next)
        for (int i = 0; i < plan->num_windows; i++)
            if (plan->windows[i] == win)
                return pw_fail(PEERWIN_ERR_STATE, site,
                               "faces of halo plan %u lie in window %u: free the plan first (peerwin_halo_free)",
                               plan->ordinal, pw_win_ordinal(win));
    return PEERWIN_OK;
}

/*
 * Everyone has come, so nobody uses it any more: unmap everywhere, and only then release. The window is gone when the
 * second agreement was reached; what the driver said on the way is for everyone to hear.
 */
peerwin_status pw_win_close(peerwin_win *win, peerwin_status ready, int *gone_out, const pw_site *site) {
    peerwin_ctx *ctx = win->ctx;
    if (ready == PEERWIN_OK)
        ready = pw_space_enter_to_end(ctx, site);
    int entered = ready == PEERWIN_OK;
    if (ready == PEERWIN_OK)
        ready = pw_space_quiesce(ctx, site);
    peerwin_status status = pw_ctx_agree_enter(ctx, PW_CALL_FREE, pw_win_ordinal(win), ready, site);
    if (status != PEERWIN_OK) {
        if (entered)
            pw_space_leave(ctx);
        return status;
    }
    peerwin_status unmapped = pw_win_unmap_peers(win);
    status = pw_ctx_agree(ctx, PEERWIN_OK, site);
    *gone_out = status == PEERWIN_OK;
    if (*gone_out) {
        peerwin_status released = pw_win_release(win);
        if (ctx->gpu)
            status = pw_ctx_agree(ctx, unmapped != PEERWIN_OK ? unmapped : released, site);
    }
    if (entered)
        pw_space_leave(ctx);
    return status;
}

void pw_win_close_alone(peerwin_win *win, const pw_site *site) {
    peerwin_ctx *ctx = win->ctx;
    int entered = pw_space_enter_to_release(ctx, site);
    if (entered && ctx->gpu)
        pw_watchdog_settle(ctx);
    (void)pw_win_release(win);
    if (entered)
        pw_space_leave(ctx);
}

peerwin_status peerwin_win_free(peerwin_win *win) {
    static const char call[] = "peerwin_win_free";
    int gone = 0;
    if (!win)
        return PEERWIN_OK;
    peerwin_ctx *ctx = win->ctx;
    const pw_site *site = PW_SITE(call, NULL, ctx->rank, PW_NONE);
    peerwin_status status = pw_ctx_enter(ctx, call);
    if (status == PEERWIN_OK) {
        status = pw_win_close(win, check_plans(win, site), &gone, site);
        pw_ctx_leave(ctx);
        return status;
    }
    if (!pw_ctx_is_over(status))
        return status;
    pw_win_close_alone(win, site);
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
