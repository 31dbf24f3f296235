/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Host waits: spin a little, yield, then sleep on the doorbell; always with an eye on the deadline and on dead peers.
 */
#ifndef PW_TRANSFER_WAIT_H
#define PW_TRANSFER_WAIT_H

#include "window/context.h"

/* Cyclic comparison: counters may wrap. */
static inline int pw_reached(uint64_t value, uint64_t target) {
    return (int64_t)(value - target) >= 0;
}

/* A wait that may span several words, with one deadline. */
typedef struct {
    peerwin_ctx *ctx;
    pw_watch watch;
    int spun;    /* the caller has polled already: yield at once */
    int started; /* the watch runs: reading the clock is put off until a wait does not end at once */
} pw_waiter;

/* Waits in my own pad until *word has reached `target` (an acquire). 0, or the cause that ended it. */
pw_cause pw_waiter_await(pw_waiter *waiter, const _Atomic uint64_t *word, uint64_t target);

/* The same for a single word. */
static inline pw_cause pw_wait_word(peerwin_ctx *ctx, const _Atomic uint64_t *word, uint64_t target) {
    if (pw_reached(atomic_load_explicit(word, memory_order_acquire), target))
        return 0;
    pw_waiter waiter = {.ctx = ctx};
    return pw_waiter_await(&waiter, word, target);
}

/* Breaks the context for a cause found while waiting, and returns the status for the caller. Not for a plain time-out.
 */
PEERWIN_MUST_USE peerwin_status pw_wait_broken(peerwin_ctx *ctx, pw_cause cause, const pw_site *site);

/*
 * Waits until the word of every rank in my own pad has reached `target`, with one deadline for all: OK, TIMEOUT with
 * the ranks that are missing, or the cause, for which the context is then broken. `spun`: the caller has polled
 * already.
 */
PEERWIN_MUST_USE peerwin_status pw_wait_all(peerwin_ctx *ctx,
                                            const _Atomic uint64_t *(*word_of)(const peerwin_ctx *ctx, int rank),
                                            uint64_t target, int spun, const pw_site *site);

#endif
