/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Signals: 64-bit words in the target's pad, or in its arena in CUDA space.
 */
#ifndef PW_TRANSFER_SIGNAL_H
#define PW_TRANSFER_SIGNAL_H

#include "window/window.h"

/* ARG for a slot or operation that does not exist, UNSUPPORTED for one that the rank cannot be sent. */
PEERWIN_MUST_USE peerwin_status pw_signal_check(const peerwin_win *win, const char *call, int rank, unsigned slot,
                                                peerwin_signal_op op);

/* Sends a signal that was checked to a rank that is reached. In host space it cannot fail. */
PEERWIN_MUST_USE peerwin_status pw_signal_send(peerwin_win *win, const char *call, int rank, unsigned slot,
                                               peerwin_signal_op op, uint64_t value, peerwin_stream stream);

#endif
