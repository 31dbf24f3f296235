/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The agreement on the space; see space.h.
 *
 * Every rank shows a card: its device, or why it has none. All ranks read the same cards and come to the same space.
 */
#include "window/space.h"

#include "base/log.h"
#include "window/sharing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Masks without a kind of device memory keep to the host, unless CUDA space is asked for by name. */
static int wants_device(const pw_options *options) {
    if (options->space == PEERWIN_SPACE_HOST)
        return 0;
    return options->space == PEERWIN_SPACE_CUDA || options->handles == 0 ||
           (options->handles & ~(unsigned)PEERWIN_HANDLE_HOST) != 0;
}

static int node_rank(const peerwin_ctx *ctx) {
    int lower = 0;
    for (int rank = 0; rank < ctx->rank; rank++)
        lower += ctx->peers[rank].node == ctx->peers[ctx->rank].node;
    return lower;
}

static peerwin_status open_device(peerwin_ctx *ctx, const pw_settings *settings, const pw_site *site) {
    const pw_gpu_request request = {.library = settings->cuda_library,
                                    .choice = settings->device,
                                    .node_rank = node_rank(ctx),
                                    .rank = ctx->rank,
                                    .devices = settings->devices,
                                    .num_devices = settings->num_devices,
                                    .timeout_ms = ctx->timeout_ms};
    return pw_gpu_open(&request, site, &ctx->gpu);
}

static void fill_card(const peerwin_ctx *ctx, peerwin_status status, pw_card *card) {
    memset(card, 0, sizeof *card);
    card->status = (uint32_t)status;
    if (status != PEERWIN_OK) {
        snprintf(card->reason, sizeof card->reason, "%s", peerwin_last_error());
        return;
    }
    const pw_device *about = pw_gpu_about(ctx->gpu);
    card->handles = about->handles;
    memcpy(card->uuid, about->uuid, sizeof card->uuid);
    memcpy(card->pci, about->pci, sizeof card->pci);
    pw_sharing_fill_card(about, card);
}

/* Reads the cards of all ranks; the lowest rank without a device in *without_out. */
static peerwin_status read_cards(peerwin_ctx *ctx, const uint8_t *all, int *without_out, const pw_site *site) {
    *without_out = PW_NONE;
    for (int rank = 0; rank < ctx->size; rank++) {
        pw_site there = *site;
        there.peer = rank;
        if (pw_card_decode(all + (size_t)rank * PW_CARD_BYTES, &ctx->cards[rank]) != 0)
            return pw_fail(PEERWIN_ERR_INTERNAL, &there, "the record received is not a device's card");
        if (ctx->cards[rank].status != PEERWIN_OK && *without_out == PW_NONE)
            *without_out = rank;
    }
    return PEERWIN_OK;
}

static peerwin_status show_cards(peerwin_ctx *ctx, peerwin_status opened, int *without_out, const pw_site *site) {
    uint8_t bytes[PW_CARD_BYTES];
    pw_card mine;
    void *all = NULL;
    ctx->cards = calloc((size_t)ctx->size, sizeof *ctx->cards);
    peerwin_status status = pw_ctx_agree(ctx, ctx->cards ? PEERWIN_OK : pw_fail_errno(site, ENOMEM, "calloc"), site);
    if (status != PEERWIN_OK)
        return status;
    fill_card(ctx, opened, &mine);
    pw_card_encode(&mine, bytes);
    status = pw_ctx_gather(ctx, bytes, sizeof bytes, &all, site);
    if (status != PEERWIN_OK)
        return status;
    status = read_cards(ctx, all, without_out, site);
    free(all);
    return pw_ctx_agree(ctx, status, site);
}

static void close_device(peerwin_ctx *ctx) {
    pw_gpu_close(ctx->gpu);
    ctx->gpu = NULL;
}

/* What host space does not have. */
static peerwin_status check_host(const pw_settings *settings, const pw_site *site) {
    const pw_options *options = &settings->options;
    if (options->handles != 0 && !(options->handles & PEERWIN_HANDLE_HOST))
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "host space needs PEERWIN_HANDLE_HOST, which handles (0x%x) leaves out", options->handles);
    if (options->barrier != PEERWIN_BARRIER_AUTO)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "kinds of barrier are for CUDA streams: leave it at AUTO in host space");
    if (settings->num_devices != 0)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site, "further devices are for CUDA space");
    return PEERWIN_OK;
}

static peerwin_status settle_host(peerwin_ctx *ctx, const pw_settings *settings, const pw_site *site) {
    ctx->space = PEERWIN_SPACE_HOST;
    return pw_ctx_agree(ctx, check_host(settings, site), site);
}

static peerwin_status without_device(peerwin_ctx *ctx, const pw_settings *settings, int rank, const pw_site *site) {
    const pw_card *card = &ctx->cards[rank];
    close_device(ctx);
    if (settings->options.space == PEERWIN_SPACE_CUDA)
        return pw_error_adopt((peerwin_status)card->status, card->reason);
    if (ctx->rank == 0)
        pw_log(PW_LOG_INFO, ctx->rank, "host space, because rank %d has no device: %s", rank, card->reason);
    peerwin_status status = settle_host(ctx, settings, site);
    if (status != PEERWIN_OK && card->reason[0])
        status =
            pw_fail(status, site, "host space it is, because rank %d has no device (%s), and the options do not fit it",
                    rank, card->reason);
    return status;
}

peerwin_status pw_space_settle(peerwin_ctx *ctx, const pw_settings *settings, const pw_site *site) {
    int without = PW_NONE;
    if (!wants_device(&settings->options))
        return settle_host(ctx, settings, site);
    peerwin_status status = show_cards(ctx, open_device(ctx, settings, site), &without, site);
    if (status != PEERWIN_OK)
        return status;
    if (without != PW_NONE)
        return without_device(ctx, settings, without, site);
    ctx->space = PEERWIN_SPACE_CUDA;
    for (int rank = 0; rank < ctx->size; rank++)
        memcpy(ctx->peers[rank].device, ctx->cards[rank].uuid, sizeof ctx->peers[rank].device);
    status = pw_sharing_settle(ctx, (peerwin_barrier_kind)settings->options.barrier, site);
    return pw_ctx_agree(ctx, status, site);
}

peerwin_status pw_space_enter(peerwin_ctx *ctx, const pw_site *site) {
    return ctx->gpu ? pw_gpu_enter(ctx->gpu, site) : PEERWIN_OK;
}

peerwin_status pw_space_enter_to_end(peerwin_ctx *ctx, const pw_site *site) {
    peerwin_status status = pw_space_enter(ctx, site);
    return status == PEERWIN_OK ? status : pw_space_enter(ctx, site);
}

int pw_space_enter_to_release(peerwin_ctx *ctx, const pw_site *site) {
    if (pw_space_enter_to_end(ctx, site) == PEERWIN_OK)
        return 1;
    pw_log(PW_LOG_WARN, ctx->rank, "device memory cannot be given back: %s", peerwin_last_error());
    return 0;
}

void pw_space_leave(peerwin_ctx *ctx) {
    if (ctx->gpu)
        pw_gpu_leave(ctx->gpu);
}

peerwin_status pw_space_quiesce(peerwin_ctx *ctx, const pw_site *site) {
    peerwin_status status = ctx->gpu ? pw_gpu_quiesce(ctx->gpu, site) : PEERWIN_OK;
    if (status != PEERWIN_OK && status != PEERWIN_ERR_STATE && status != PEERWIN_ERR_TIMEOUT)
        status = pw_gpu_quiesce(ctx->gpu, site);
    if (status == PEERWIN_ERR_CONTEXT_LOST)
        pw_ctx_break(ctx, pw_cause_make(status, ctx->rank));
    return status;
}
