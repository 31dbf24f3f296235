/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What every wait watches; see watch.h.
 */
#include "base/watch.h"

enum { POLL_EVERY_MS = 20 };

pw_cause pw_watch_look(pw_watch *watch) {
    if (watch->broken) {
        pw_cause cause = atomic_load_explicit(watch->broken, memory_order_acquire);
        if (cause != 0)
            return cause;
    }
    int64_t now = pw_now();
    if (watch->live && now >= watch->next_poll) {
        watch->next_poll = now + POLL_EVERY_MS * PW_MS;
        int lost = pw_liveness_lost(watch->live);
        if (lost != PW_NONE)
            return pw_cause_make(PEERWIN_ERR_PEER_LOST, lost);
    }
    if (now >= watch->deadline)
        return pw_cause_make(PEERWIN_ERR_TIMEOUT, PW_NONE);
    return 0;
}
