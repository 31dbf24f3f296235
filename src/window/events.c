/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Interprocess events for barriers of kind EVENT, made and opened once per context: the exchange of segments does it.
 */
#include "memory/events.h"
#include "window/exchange.h"
#include "window/space.h"

#include <errno.h>
#include <stdlib.h>

static pw_exchange_peer *list_peers(const peerwin_ctx *ctx) {
    pw_exchange_peer *peers = calloc((size_t)ctx->size, sizeof *peers);
    for (int rank = 0; peers && rank < ctx->size; rank++)
        peers[rank] = (pw_exchange_peer){
            .wanted = rank != ctx->rank, .ops = pw_events(), .mapped = PW_EVENTS, .num_pieces = PW_EVENTS};
    return peers;
}

static peerwin_status exchange(peerwin_ctx *ctx, pw_exchange_peer *peers, const pw_site *site) {
    pw_exchange x = {.id = (uint64_t)ctx->serial << 32, .generation = 3, .segment = &ctx->events, .peers = peers};
    peerwin_status status = pw_exchange_run(ctx, &x, PEERWIN_OK, site);
    for (int rank = 0; status == PEERWIN_OK && rank < ctx->size; rank++)
        ctx->peers[rank].events_import = peers[rank].import;
    return pw_ctx_agree(ctx, status, site);
}

peerwin_status pw_events_map(peerwin_ctx *ctx, const pw_site *site) {
    pw_exchange_peer *peers = list_peers(ctx);
    peerwin_status status = peers ? PEERWIN_OK : pw_fail_errno(site, ENOMEM, "calloc");
    if (status == PEERWIN_OK)
        status = pw_events()->alloc(ctx->gpu, &(pw_order){.bytes = PW_EVENTS}, site, &ctx->events);
    status = pw_ctx_agree(ctx, status, site);
    if (status == PEERWIN_OK)
        status = exchange(ctx, peers, site);
    free(peers);
    return status;
}
