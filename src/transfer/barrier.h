/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The barrier of hosts, in the pads of all ranks.
 */
#ifndef PW_TRANSFER_BARRIER_H
#define PW_TRANSFER_BARRIER_H

#include "window/context.h"

/* Blocks until all ranks have come. TIMEOUT leaves ctx->barrier.pending set: the next call goes on with it. */
PEERWIN_MUST_USE peerwin_status pw_barrier_of_hosts(peerwin_ctx *ctx, const pw_site *site);

#endif
