/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Transfers in CUDA space: work given to streams. The callers (put.c, box.c, signal.c, barrier.c) have entered the
 * context and checked ranks, ranges, slots and access; these functions check the stream, make the library's context
 * current and give the work to the driver. They do not wait for it, except pw_stream_sync and pw_stream_read_signal.
 *
 * Implemented on the driver (stream_*.c), and for builds without the CUDA headers (stream_absent.c), where no context
 * is in CUDA space and nobody comes here.
 */
#ifndef PW_TRANSFER_STREAM_H
#define PW_TRANSFER_STREAM_H

#include "window/window.h"

/* `local` is device-accessible or pageable host memory; bytes > 0. */
PEERWIN_MUST_USE peerwin_status pw_stream_put(peerwin_win *win, int rank, size_t offset, const void *local,
                                              size_t bytes, peerwin_stream stream, const pw_site *site);
PEERWIN_MUST_USE peerwin_status pw_stream_get(peerwin_win *win, int rank, size_t offset, void *local, size_t bytes,
                                              peerwin_stream stream, const pw_site *site);

/* The signal has been checked. */
PEERWIN_MUST_USE peerwin_status pw_stream_put_signal(peerwin_win *win, int rank, size_t offset, const void *local,
                                                     size_t bytes, unsigned slot, peerwin_signal_op op, uint64_t value,
                                                     peerwin_stream stream, const pw_site *site);

/* Boxes are not empty. */
PEERWIN_MUST_USE peerwin_status pw_stream_put_box(peerwin_win *win, int rank, const peerwin_box *to, const void *local,
                                                  const peerwin_box *from, peerwin_stream stream, const pw_site *site);
PEERWIN_MUST_USE peerwin_status pw_stream_get_box(peerwin_win *win, int rank, const peerwin_box *from, void *local,
                                                  const peerwin_box *to, peerwin_stream stream, const pw_site *site);

PEERWIN_MUST_USE peerwin_status pw_stream_signal(peerwin_win *win, int rank, unsigned slot, peerwin_signal_op op,
                                                 uint64_t value, peerwin_stream stream, const pw_site *site);
PEERWIN_MUST_USE peerwin_status pw_stream_wait(peerwin_win *win, unsigned slot, uint64_t value, peerwin_stream stream,
                                               const pw_site *site);
PEERWIN_MUST_USE peerwin_status pw_stream_consume(peerwin_win *win, unsigned slot, uint64_t count,
                                                  peerwin_stream stream, const pw_site *site);
PEERWIN_MUST_USE peerwin_status pw_stream_read_signal(peerwin_win *win, unsigned slot, uint64_t *value_out,
                                                      const pw_site *site);

/*
 * UNSUPPORTED if `rank` cannot be sent such a signal: there is no ADD where devices have no atomics. Enters nothing,
 * and pw_stream_signal asks it, too.
 */
PEERWIN_MUST_USE peerwin_status pw_stream_check_signal(const peerwin_win *win, int rank, peerwin_signal_op op,
                                                       const pw_site *site);

/* The barrier of all ranks on a stream. Does not block the host, unless it is of kind EVENT. */
PEERWIN_MUST_USE peerwin_status pw_stream_barrier(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site);

/* The arguments but `values` have been checked. */
PEERWIN_MUST_USE peerwin_status pw_stream_allreduce(peerwin_ctx *ctx, void *values, int count, peerwin_type type,
                                                    peerwin_op op, peerwin_stream stream, const pw_site *site);

PEERWIN_MUST_USE peerwin_status pw_stream_quiet(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site);

/* Waits on the host for the stream, with deadline and dead-peer check. */
PEERWIN_MUST_USE peerwin_status pw_stream_sync(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site);

#endif
