/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What ends the waits of streams. A stream that waits for a word cannot look at dead peers or at an abort, and neither
 * can a program that sits in a synchronisation of CUDA: so the library notes what its streams await, and when the
 * context breaks it writes those words itself.
 *
 * Contexts in CUDA space have a thread that does so, asleep until a peer of this node dies or the context breaks, and
 * from then on until it is finalized: every millisecond for a second, less often later. With PEERWIN_NO_WATCHDOG only
 * peerwin_stream_sync and the end of the context do it.
 */
#ifndef PW_WINDOW_WATCHDOG_H
#define PW_WINDOW_WATCHDOG_H

#include "window/context.h"

/* Starts it, last in init: peers, pads and arenas are in place. Fails with nothing held. */
PEERWIN_MUST_USE peerwin_status pw_watchdog_start(peerwin_ctx *ctx, const pw_site *site);

/*
 * Ends it, first in release, before anything of the context is given up. In a broken context streams that wait are
 * released before that. Fine if it was not started.
 */
void pw_watchdog_stop(peerwin_ctx *ctx);

/* MPI_Finalize has begun, with the context alive. */
void pw_watchdog_mpi_ends(const peerwin_ctx *ctx);

/*
 * The context is broken and about to give memory up: releases the streams that wait, and waits until the device is
 * idle, for a second at most. The gpu is entered.
 */
void pw_watchdog_settle(peerwin_ctx *ctx);

/* A stream is about to wait for my slot at this address, or for a barrier. The thread that is inside the context. */
void pw_watchdog_expect_signal(peerwin_ctx *ctx, const uint64_t *slot, uint64_t value);
void pw_watchdog_expect_barrier(peerwin_ctx *ctx, uint64_t epoch);

/* The same for a barrier in two phases, which is captured, and for barriers and all-reduces by kernels. */
void pw_watchdog_expect_phases(peerwin_ctx *ctx);
void pw_watchdog_expect_kernels(peerwin_ctx *ctx);

/* Breaks the context if a kernel has given up waiting. */
void pw_watchdog_look(peerwin_ctx *ctx);

/*
 * Writes what streams may be waiting for, to say why one is not done: "; signal slot 3 of window 1 is 0, awaited is 5"
 * and "; not arrived: rank 2". "" if there is nothing. The thread that is inside the context; the gpu is entered.
 */
void pw_watchdog_describe(peerwin_ctx *ctx, char *text, size_t bytes, const pw_site *site);

/* Writes everything that is awaited, once. The context is broken; the gpu is entered. */
void pw_watchdog_release(const peerwin_ctx *ctx);

#endif
