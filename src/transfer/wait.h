/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Host waits: spin a little, yield, then sleep on the doorbell; always with an eye on the deadline and on dead peers.
 */
#ifndef PW_TRANSFER_WAIT_H
#define PW_TRANSFER_WAIT_H

#include "base/farfence.h"
#include "window/context.h"

/* Cyclic comparison: counters may wrap. */
static inline int pw_reached(uint64_t value, uint64_t target) {
    return (int64_t)(value - target) >= 0;
}

/* Lets messages of this rank move on which a peer may depend, where the program's thread level allows it. */
void pw_wait_let_mpi_move(const peerwin_ctx *ctx);

/* A wait that may span several words, with one deadline. */
typedef struct {
    peerwin_ctx *ctx;
    pw_watch watch;
    int spun;    /* the caller has polled already: yield at once */
    int started; /* the watch runs: reading the clock is put off until a wait does not end at once */
} pw_waiter;

/* Waits in my own pad until *word has reached `target` (an acquire). 0, or the cause that ended it. */
pw_cause pw_waiter_await(pw_waiter *waiter, const _Atomic uint64_t *word, uint64_t target);

/* The same until `holds` is true, which looks at words of my own pad (acquires). */
typedef int pw_condition(const void *what);
pw_cause pw_waiter_until(pw_waiter *waiter, pw_condition *holds, const void *what);

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

/* The word of a rank in my own pad. */
typedef const _Atomic uint64_t *pw_word_of_rank(const peerwin_ctx *ctx, int rank);

/* The doorbell's rule (pad.c), between a store that somebody may wait for and pw_pad_wake_sleeper. */
static inline void pw_fence_before_wake(const peerwin_ctx *ctx) {
    if (__builtin_expect(ctx->fences_far, 1))
        pw_near_order();
    else
        pw_full_fence();
}

/* Wakes every peer that sleeps. This rank has stored its own word into their pads. */
static inline void pw_wake_peers(const peerwin_ctx *ctx) {
    pw_fence_before_wake(ctx);
    for (int rank = 0; rank < ctx->size; rank++)
        if (rank != ctx->rank)
            pw_pad_wake_sleeper(ctx->peers[rank].pad);
}

/* What pw_wait_all does when polling was not enough. */
PEERWIN_MUST_USE peerwin_status pw_wait_rest(peerwin_ctx *ctx, pw_word_of_rank *word_of, uint64_t target,
                                             const pw_site *site);

/* Polls the words of all ranks for a while; 1 if all have reached `target`. Inline, so that `word_of` is too. */
static inline int pw_poll_all(const peerwin_ctx *ctx, pw_word_of_rank *word_of, uint64_t target) {
    int rank = 0;
    for (int poll = 0; poll < ctx->patience.polls; poll++) {
        while (rank < ctx->size && pw_reached(atomic_load_explicit(word_of(ctx, rank), memory_order_acquire), target))
            rank++;
        if (rank == ctx->size)
            return 1;
        pw_relax();
    }
    return 0;
}

/*
 * Waits until the word of every rank in my own pad has reached `target`, with one deadline for all: OK, TIMEOUT with
 * the ranks that are missing, or the cause, for which the context is then broken. `stored`: this rank has just stored
 * its own word into all pads, and its peers are woken here.
 *
 * They are woken after the polling, not before: then a fence finds the stores done, and only a rank that waits long, or
 * came last, has anybody to wake.
 */
PEERWIN_MUST_USE static inline peerwin_status pw_wait_all(peerwin_ctx *ctx, pw_word_of_rank *word_of, uint64_t target,
                                                          int stored, const pw_site *site) {
    if (stored) {
        int done = pw_poll_all(ctx, word_of, target);
        pw_wake_peers(ctx);
        if (done)
            return PEERWIN_OK;
    }
    return pw_wait_rest(ctx, word_of, target, site);
}

#endif
