/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Where windows live: the agreement on host or CUDA space, and the arenas that CUDA space needs.
 */
#ifndef PW_WINDOW_SPACE_H
#define PW_WINDOW_SPACE_H

#include "window/config.h"
#include "window/context.h"

/*
 * Opens this rank's device where one is wanted, and agrees on the space: what was asked for, or CUDA if every rank has
 * a working device and else host. Afterwards ctx->space is settled, and ctx->gpu is there if it is CUDA. Collective.
 */
PEERWIN_MUST_USE peerwin_status pw_space_settle(peerwin_ctx *ctx, const pw_settings *settings, const pw_site *site);

/*
 * CUDA space: finds the kind of memory that connects the ranks, by really making, passing, mapping, writing and
 * checking an arena of each kind in turn, and settles path and reason of every pair. The gpu is entered. Collective.
 */
PEERWIN_MUST_USE peerwin_status pw_arenas_map(peerwin_ctx *ctx, const pw_site *site);

/*
 * Where all ranks share a device: has every rank's arena begin where the lines of meetings in kernels are near. Before
 * anybody uses them. The gpu is entered. Collective.
 */
PEERWIN_MUST_USE peerwin_status pw_arenas_place(peerwin_ctx *ctx, const pw_site *site);

/*
 * Makes the events of barriers of that kind, and opens those of all ranks. The gpu is entered. Collective. What fails
 * is given back with the context.
 */
PEERWIN_MUST_USE peerwin_status pw_events_map(peerwin_ctx *ctx, const pw_site *site);

/* Enters the gpu, if there is one. On failure the caller takes part in its collective with that status. */
PEERWIN_MUST_USE peerwin_status pw_space_enter(peerwin_ctx *ctx, const pw_site *site);

/* The same for the end of something: tries once more. */
PEERWIN_MUST_USE peerwin_status pw_space_enter_to_end(peerwin_ctx *ctx, const pw_site *site);

/* The same for a release, which must go on: says in the log if it cannot. 1 if it is entered. */
int pw_space_enter_to_release(peerwin_ctx *ctx, const pw_site *site);

void pw_space_leave(peerwin_ctx *ctx);

/*
 * Waits for all work given to the device, and tries once more if the driver fails. OK in host space. A lost CUDA
 * context breaks the context, so that all ranks hear of it. The gpu is entered.
 */
PEERWIN_MUST_USE peerwin_status pw_space_quiesce(peerwin_ctx *ctx, const pw_site *site);

#endif
