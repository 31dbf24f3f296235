/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of a context, however it comes.
 */
#ifndef PW_WINDOW_LIFETIME_H
#define PW_WINDOW_LIFETIME_H

#include "window/context.h"

/*
 * A zeroed context, or NULL if the process has neither pages nor heap left: the one failure of which a rank cannot tell
 * the others.
 */
peerwin_ctx *pw_ctx_new(void);

/* Frees the struct alone, unless MPI may still write into it. */
void pw_ctx_delete(peerwin_ctx *ctx);

/* Maps the pads of all ranks that can be reached, and proves them. Collective. */
PEERWIN_MUST_USE peerwin_status pw_pads_map(peerwin_ctx *ctx, const pw_site *site);

/* Learns of MPI_Finalize: a context that outlives it is reported and closed for all calls but finalize. */
PEERWIN_MUST_USE peerwin_status pw_lifetime_watch_mpi(peerwin_ctx *ctx, const pw_site *site);

/*
 * For an init that failed on all ranks: unmaps what this rank has of the others, and waits for them to do the same,
 * since an owner may not give up first. The last error stays.
 */
void pw_ctx_unmap_together(peerwin_ctx *ctx, const pw_site *site);

/* Frees whatever the context holds, windows included, and the context. Communicators only while MPI is up. */
void pw_ctx_release(peerwin_ctx *ctx);

/* Releases a window's memory and mappings in this process, and the window. Local. The first failure. */
peerwin_status pw_win_release(peerwin_win *win);

#endif
