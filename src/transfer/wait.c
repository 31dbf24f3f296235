/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Host waits; see wait.h.
 *
 * Ranks may outnumber processors, and then a waiting rank must give its own away soon: spinning helps only while the
 * peer runs at the same time (see pw_topology_patience). The order of "count myself as a sleeper, look again, sleep" is
 * argued in pad.c.
 */
#include "transfer/wait.h"

#include <sched.h>
#include <stdio.h>

enum { SLEEP_MS = 10, LOOK_EVERY = 64 };

static int there(const _Atomic uint64_t *word, uint64_t target) {
    return pw_reached(atomic_load_explicit(word, memory_order_acquire), target);
}

/*
 * A long message moves only while its ranks are inside MPI. The peer that this rank waits for may itself wait for such
 * a message of this rank, so a wait looks into MPI now and then; where the program's thread level allows it.
 */
void pw_wait_let_mpi_move(const peerwin_ctx *ctx) {
    int main_thread = 1;
    int found = 0;
    if (ctx->mpi_threads == MPI_THREAD_SERIALIZED)
        return; /* another thread may be in MPI now, and the program cannot know that this one would be too */
    if (ctx->mpi_threads != MPI_THREAD_MULTIPLE)
        MPI_Is_thread_main(&main_thread);
    if (main_thread)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, ctx->agree.comm, &found, MPI_STATUS_IGNORE);
}

/* One sleep of at most SLEEP_MS. */
static void sleep_on_doorbell(peerwin_ctx *ctx, pw_condition *holds, const void *what) {
    pw_control *control = pw_pad_control(ctx->pad);
    uint32_t seen = atomic_load_explicit(&control->doorbell, memory_order_acquire);
    atomic_store_explicit(&control->sleepers, 1, memory_order_seq_cst);
    pw_full_fence();
    int fenced = !ctx->fences_far || pw_far_fence();
    if (!holds(what) && pw_ctx_broken(ctx) == 0 && fenced)
        pw_pad_sleep(ctx->pad, seen, SLEEP_MS);
    atomic_store_explicit(&control->sleepers, 0, memory_order_relaxed);
}

static inline __attribute__((always_inline)) int poll_until(pw_condition *holds, const void *what, int polls) {
    for (int poll = 0; poll < polls; poll++) {
        if (holds(what))
            return 1;
        pw_relax();
    }
    return 0;
}

/* Inline, so that a condition known here costs no call. */
static inline __attribute__((always_inline)) pw_cause wait_until(pw_waiter *waiter, pw_condition *holds,
                                                                 const void *what) {
    peerwin_ctx *ctx = waiter->ctx;
    const pw_patience patience = ctx->patience;
    if (!waiter->spun && poll_until(holds, what, patience.polls))
        return 0;
    if (!waiter->started) {
        waiter->started = 1;
        waiter->watch = pw_ctx_watch(ctx);
    }
    for (int round = 1;; round += round < patience.rounds) {
        if (holds(what) || (round < patience.rounds && poll_until(holds, what, patience.polls_of_round)))
            return 0;
        if (round % LOOK_EVERY == 0 || round >= patience.rounds) {
            pw_cause cause = pw_watch_look(&waiter->watch);
            if (cause != 0)
                return holds(what) ? 0 : cause; /* the peer may have answered just before it went */
            pw_wait_let_mpi_move(ctx);
        }
        if (round >= patience.rounds)
            sleep_on_doorbell(ctx, holds, what);
        else if (patience.polls_of_round == 0)
            sched_yield();
    }
}

/* A word of my pad and what it must reach. */
typedef struct {
    const _Atomic uint64_t *word;
    uint64_t target;
} goal;

static int is_reached(const void *what) {
    const goal *g = what;
    return there(g->word, g->target);
}

pw_cause pw_waiter_await(pw_waiter *waiter, const _Atomic uint64_t *word, uint64_t target) {
    const goal g = {word, target};
    return wait_until(waiter, is_reached, &g);
}

pw_cause pw_waiter_until(pw_waiter *waiter, pw_condition *holds, const void *what) {
    return wait_until(waiter, holds, what);
}

peerwin_status pw_wait_broken(peerwin_ctx *ctx, pw_cause cause, const pw_site *site) {
    pw_ctx_break(ctx, cause);
    return pw_cause_fail(pw_ctx_broken(ctx), &ctx->live, site);
}

static peerwin_status not_arrived(const peerwin_ctx *ctx, pw_word_of_rank *word_of, uint64_t target,
                                  const pw_site *site) {
    char missing[200] = "";
    char stopped[200] = "";
    size_t used = 0;
    for (int rank = 0; rank < ctx->size && used < sizeof missing - 16; rank++)
        if (!there(word_of(ctx, rank), target))
            used += (size_t)snprintf(missing + used, sizeof missing - used, " %d", rank);
    pw_liveness_describe_stopped(&ctx->live, stopped, sizeof stopped);
    return pw_fail(PEERWIN_ERR_TIMEOUT, site, "not arrived: rank%s%s; call again to go on waiting", missing, stopped);
}

peerwin_status pw_wait_rest(peerwin_ctx *ctx, pw_word_of_rank *word_of, uint64_t target, const pw_site *site) {
    pw_waiter waiter = {.ctx = ctx, .spun = 1};
    for (int rank = 0; rank < ctx->size; rank++) {
        pw_cause cause = pw_waiter_await(&waiter, word_of(ctx, rank), target);
        if (cause == 0)
            continue;
        if (pw_cause_status(cause) == PEERWIN_ERR_TIMEOUT && pw_cause_rank(cause) == PW_NONE)
            return not_arrived(ctx, word_of, target, site);
        return pw_wait_broken(ctx, cause, site);
    }
    return PEERWIN_OK;
}
