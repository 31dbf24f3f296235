/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Mapping the pads, once per context.
 */
#include "window/exchange.h"
#include "window/lifetime.h"

#include <errno.h>
#include <stdlib.h>

static void adopt(peerwin_ctx *ctx, const pw_exchange_peer *peers) {
    for (int rank = 0; rank < ctx->size; rank++) {
        pw_peer *peer = &ctx->peers[rank];
        if (rank == ctx->rank) {
            peer->pad = ctx->pad;
            continue;
        }
        if (!peers[rank].import)
            continue; /* out of reach, or it could not export and all are about to hear of it */
        peer->pad_import = peers[rank].import;
        peer->pad = peer->pad_import->mapping.base;
        ctx->live.goodbyes[rank] = &pw_pad_control(peer->pad)->goodbye;
    }
    ctx->agree.broken = &pw_pad_control(ctx->pad)->broken;
}

/* What `writer` writes into the pad of `owner` to prove the mapping: differs for every pair. */
static uint64_t proof(const peerwin_ctx *ctx, int writer, int owner) {
    return (uint64_t)ctx->serial << 32 | (uint64_t)(uint32_t)(writer * 65599 + owner + 1);
}

/* Every rank writes its own line in every pad it has mapped; the owners check and clear them. */
static peerwin_status prove(peerwin_ctx *ctx, const pw_site *site) {
    for (int rank = 0; rank < ctx->size; rank++)
        if (ctx->peers[rank].pad)
            atomic_store(&pw_pad_barrier_line(ctx->peers[rank].pad, &ctx->layout, ctx->rank, 0)->epoch,
                         proof(ctx, ctx->rank, rank));
    peerwin_status status = pw_ctx_agree(ctx, PEERWIN_OK, site);
    if (status != PEERWIN_OK)
        return status;
    for (int rank = 0; rank < ctx->size && status == PEERWIN_OK; rank++) {
        pw_site there = *site;
        there.peer = rank;
        if (!ctx->peers[rank].pad)
            continue;
        _Atomic uint64_t *word = &pw_pad_barrier_line(ctx->pad, &ctx->layout, rank, 0)->epoch;
        if (atomic_load(word) != proof(ctx, rank, ctx->rank))
            status = pw_fail(PEERWIN_ERR_INTERNAL, &there, "what the peer wrote to this rank's pad did not arrive");
        atomic_store(word, 0);
    }
    return pw_ctx_agree(ctx, status, site);
}

static pw_exchange_peer *list_peers(const peerwin_ctx *ctx) {
    pw_exchange_peer *peers = calloc((size_t)ctx->size, sizeof *peers);
    for (int rank = 0; peers && rank < ctx->size; rank++)
        peers[rank] = (pw_exchange_peer){.wanted = ctx->peers[rank].path == PEERWIN_PATH_DIRECT,
                                         .ops = &pw_memory_host,
                                         .mapped = ctx->pad_segment.mapped,
                                         .num_pieces = 1};
    return peers;
}

peerwin_status pw_pads_map(peerwin_ctx *ctx, const pw_site *site) {
    pw_exchange_peer *peers = NULL;
    const pw_order order = {.bytes = ctx->layout.bytes, .flags = PW_SPARSE, .name = "peerwin-pad"};
    peerwin_status status = pw_memory_host.alloc(NULL, &order, site, &ctx->pad_segment);
    if (status == PEERWIN_OK) {
        ctx->pad = ctx->pad_segment.base;
        status = pw_memory_host.seal(&ctx->pad_segment, 0, site);
        peers = list_peers(ctx);
    }
    if (status == PEERWIN_OK && !peers)
        status = pw_fail_errno(site, ENOMEM, "calloc");
    /* These must be there before anyone sends; the rest may fail and the exchange tells the others. */
    status = pw_ctx_agree(ctx, status, site);
    if (status != PEERWIN_OK)
        goto free_peers;
    pw_exchange exchange = {.id = (uint64_t)ctx->serial << 32,
                            .generation = 1,
                            .segment = &ctx->pad_segment,
                            .flags = PW_SPARSE,
                            .peers = peers};
    status = pw_exchange_run(ctx, &exchange, PEERWIN_OK, site);
    pw_memory_host.exported(&ctx->pad_segment);
    if (status == PEERWIN_OK)
        adopt(ctx, peers);
    status = pw_ctx_agree(ctx, status, site);
    if (status == PEERWIN_OK && !(ctx->flags & PEERWIN_NO_VERIFY))
        status = prove(ctx, site);

free_peers:
    free(peers);
    return status;
}
