/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that share a device, and what follows from it: whether kernels of the library may wait for those of other
 * ranks, and by which kind of barrier streams meet. All ranks read the same cards and come to the same answers.
 */
#ifndef PW_WINDOW_SHARING_H
#define PW_WINDOW_SHARING_H

#include "window/context.h"

/* What a card says of MPS. */
void pw_sharing_fill_card(const pw_device *about, pw_card *card);

/*
 * Settles ctx->kernels_wait and ctx->barrier_kind from the cards of all ranks and the kind asked for. UNSUPPORTED, the
 * same on every rank, for EVENT where devices or machines do not have it.
 */
PEERWIN_MUST_USE peerwin_status pw_sharing_settle(peerwin_ctx *ctx, peerwin_barrier_kind asked, const pw_site *site);

/* Whether all ranks, and the arenas, are on one device: what kernels do there nobody beyond it has to see. */
static inline int pw_on_one_device(const peerwin_ctx *ctx) {
    return ctx->gpu && ctx->most_on_device == ctx->size && ctx->memory_of_arenas->kind != PEERWIN_HANDLE_HOST;
}

/* Says once what was settled; paths are known. */
void pw_sharing_say(const peerwin_ctx *ctx);

#endif
