/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Signals: 64-bit words in the target's pad.
 */
#ifndef PW_TRANSFER_SIGNAL_H
#define PW_TRANSFER_SIGNAL_H

#include "window/window.h"

PEERWIN_MUST_USE peerwin_status pw_signal_check(const peerwin_win *win, const char *call, unsigned slot,
                                                peerwin_signal_op op);

/* Sends a signal that was checked to a rank that is reached. */
void pw_signal_send(const peerwin_win *win, int rank, unsigned slot, peerwin_signal_op op, uint64_t value);

#endif
