/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The exchange: start, finish, release; in host space here, in CUDA space in stream.c.
 *
 * Exchange n moves the faces of everyone's n-th start. A receiver grants n to its senders when it has read what n - 1
 * brought: in release, or at the latest in its start of n. A sender pushes its faces of n to a receiver that has
 * granted n, and then reports their arrival. Staged faces leave the ghosts alone until the receiver's finish, and the
 * two halves of the staging area are used by turns: the half of n is free once n - 2 was read from it, which the grant
 * of n - 1 says. So a rank can be ahead of a neighbour by one start, or by two, and nobody waits for a rank that is not
 * its neighbour, nor for another plan.
 *
 * Order. The grant is a release, after the receiver's loads of its ghosts (and of its staging area) in program order;
 * the sender's load of it is an acquire, before its stores: so no store of n overtakes a load of n - 1. The arrival is
 * a release after those stores, its load an acquire before the receiver's loads: so the receiver finds all of n.
 *
 * Waiting for several ranks, the first that is there is served first. Start and finish that time out have done their
 * part for the ranks that were there, and go on with the others when they are repeated.
 */
#include "halo/halo.h"

#include "transfer/door.h"
#include "transfer/wait.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- words */

static uint64_t word_at_me(const peerwin_halo *halo, pw_halo_word word, int writer) {
    const _Atomic uint64_t *signals = halo->win->peers[halo->ctx->rank].signals;
    return atomic_load_explicit(&signals[pw_halo_slot(halo, word, writer)], memory_order_acquire);
}

static void tell(const peerwin_halo *halo, const pw_halo_neighbor *n, pw_halo_word word) {
    _Atomic uint64_t *signals = halo->win->peers[n->rank].signals;
    uint64_t value = word == PW_HALO_GRANT ? halo->granted : halo->epoch;
    atomic_store_explicit(&signals[pw_halo_slot(halo, word, halo->ctx->rank)], value, memory_order_release);
}

/*
 * Those whom this rank has told something may sleep: the doorbell's rule, see pad.c. A fence takes as long as a small
 * push, so there is one for all, before this rank waits or returns; large pushes are not waited for.
 */
static void wake_neighbors(const peerwin_halo *halo) {
    pw_fence_before_wake(halo->ctx);
    for (int i = 0; i < halo->num_neighbors; i++)
        pw_pad_wake_sleeper(halo->ctx->peers[halo->neighbors[i].rank].pad);
}

/* ---- one pass over the neighbours */

/* What start waits for of a neighbour, or finish, and what it then does. */
typedef struct {
    peerwin_halo *halo;
    unsigned role;
    pw_halo_word word;
    void (*serve)(const peerwin_halo *halo, const pw_halo_neighbor *n);
    const char *missing;
} pass;

static int is_wanted(const pass *p, const pw_halo_neighbor *n) {
    return (n->roles & p->role) != 0 && !n->done;
}

static int is_there(const pass *p, const pw_halo_neighbor *n) {
    int ahead = p->word == PW_HALO_GRANT && n->push.count == 0; /* all of it is staged */
    return pw_reached(word_at_me(p->halo, p->word, n->rank), p->halo->epoch - (uint64_t)ahead);
}

static int somebody_is_there(const void *what) {
    const pass *p = what;
    for (int i = 0; i < p->halo->num_neighbors; i++)
        if (is_wanted(p, &p->halo->neighbors[i]) && is_there(p, &p->halo->neighbors[i]))
            return 1;
    return 0;
}

/* Serves those that are there, and returns how many are not. */
static int serve_present(const pass *p) {
    int missing = 0;
    for (int i = 0; i < p->halo->num_neighbors; i++) {
        pw_halo_neighbor *n = &p->halo->neighbors[i];
        if (!is_wanted(p, n))
            continue;
        if (is_there(p, n)) {
            p->serve(p->halo, n);
            n->done = 1;
        } else {
            missing++;
        }
    }
    return missing;
}

static peerwin_status timed_out(const pass *p, const pw_site *site) {
    char missing[200] = "";
    char stopped[200] = "";
    size_t used = 0;
    for (int i = 0; i < p->halo->num_neighbors && used < sizeof missing - 16; i++)
        if (is_wanted(p, &p->halo->neighbors[i]))
            used += (size_t)snprintf(missing + used, sizeof missing - used, " %d", p->halo->neighbors[i].rank);
    pw_liveness_describe_stopped(&p->halo->ctx->live, stopped, sizeof stopped);
    return pw_fail(PEERWIN_ERR_TIMEOUT, site, "halo plan %u, exchange %" PRIu64 ": %s rank%s%s; call again to go on",
                   p->halo->plan.ordinal, p->halo->epoch, p->missing, missing, stopped);
}

/* Serves all, in the order in which they come; one deadline for all. */
static peerwin_status serve_all(const pass *p, const pw_site *site) {
    pw_waiter waiter = {.ctx = p->halo->ctx};
    while (serve_present(p) > 0) {
        if (p->word == PW_HALO_GRANT)
            wake_neighbors(p->halo); /* before this rank waits itself */
        pw_cause cause = pw_waiter_until(&waiter, somebody_is_there, p);
        if (cause == 0)
            continue;
        if (pw_cause_status(cause) == PEERWIN_ERR_TIMEOUT && pw_cause_rank(cause) == PW_NONE)
            return timed_out(p, site);
        return pw_wait_broken(p->halo->ctx, cause, site);
    }
    if (p->word == PW_HALO_GRANT)
        wake_neighbors(p->halo);
    return PEERWIN_OK;
}

static void nobody_is_done(peerwin_halo *halo) {
    for (int i = 0; i < halo->num_neighbors; i++)
        halo->neighbors[i].done = 0;
}

/* ---- the calls in host space */

static void grant(const peerwin_halo *halo) {
    for (int i = 0; i < halo->num_neighbors; i++)
        if (halo->neighbors[i].roles & PW_HALO_SENDS_TO_ME)
            tell(halo, &halo->neighbors[i], PW_HALO_GRANT);
}

static void push(const peerwin_halo *halo, const pw_halo_neighbor *n) {
    pw_moves_run(&n->push, 0, 0);
    pw_moves_run(&n->post, (halo->epoch & 1) * n->half, 0);
    tell(halo, n, PW_HALO_ARRIVAL);
    if (halo->large) {
        pw_fence_before_wake(halo->ctx);
        pw_pad_wake_sleeper(halo->ctx->peers[n->rank].pad);
    }
}

static void spread(const peerwin_halo *halo, const pw_halo_neighbor *n) {
    pw_moves_run(&n->spread, 0, (halo->epoch & 1) * halo->half);
}

/* Peers that wait come first, then what stays here, then peers that are late. */
static peerwin_status start_here(peerwin_halo *halo, int resumed, const pw_site *site) {
    const pass p = {halo, PW_HALO_GETS_FROM_ME, PW_HALO_GRANT, push, "ghosts not yet released by"};
    if (!resumed && halo->own.count > 0) {
        (void)serve_present(&p);
        wake_neighbors(halo);
        pw_moves_run(&halo->own, 0, 0);
    }
    return serve_all(&p, site);
}

static peerwin_status finish_here(peerwin_halo *halo, const pw_site *site) {
    const pass p = {halo, PW_HALO_SENDS_TO_ME, PW_HALO_ARRIVAL, spread, "no faces yet from"};
    return serve_all(&p, site);
}

/* ---- the sequence */

peerwin_status pw_halo_refuse(const peerwin_halo *halo, const char *what, const pw_site *site) {
    static const char *const states[] = {"is not under way", "timed out in start, which must be repeated first",
                                         "has been started", "timed out in finish, which must be repeated first",
                                         "is being captured"};
    return pw_fail(PEERWIN_ERR_STATE, site, "%s is not its turn: exchange %" PRIu64 " of halo plan %u %s", what,
                   halo->epoch, halo->plan.ordinal, states[halo->state]);
}

/* Nobody is woken yet. */
static void release_ghosts(peerwin_halo *halo) {
    if (halo->granted != halo->epoch)
        return; /* done already */
    halo->granted = halo->epoch + 1;
    grant(halo);
}

static peerwin_status begin(peerwin_halo *halo, const pw_site *site) {
    if (halo->state != PW_HALO_IDLE)
        return pw_halo_refuse(halo, "start", site);
    release_ghosts(halo);
    halo->epoch++;
    halo->state = PW_HALO_STARTING;
    nobody_is_done(halo);
    return PEERWIN_OK;
}

static peerwin_status start(peerwin_halo *halo, const pw_site *site) {
    int resumed = halo->state == PW_HALO_STARTING;
    peerwin_status status = resumed ? PEERWIN_OK : begin(halo, site);
    if (status != PEERWIN_OK)
        return status;
    if (!resumed && halo->large)
        wake_neighbors(halo); /* not only when the pushes are done */
    status = start_here(halo, resumed, site);
    if (status == PEERWIN_OK)
        halo->state = PW_HALO_STARTED;
    return status;
}

static peerwin_status finish(peerwin_halo *halo, const pw_site *site) {
    if (halo->state != PW_HALO_STARTED && halo->state != PW_HALO_FINISHING)
        return pw_halo_refuse(halo, "finish", site);
    if (halo->state == PW_HALO_STARTED)
        nobody_is_done(halo);
    halo->state = PW_HALO_FINISHING;
    peerwin_status status = finish_here(halo, site);
    if (status == PEERWIN_OK)
        halo->state = PW_HALO_IDLE;
    return status;
}

static peerwin_status release(peerwin_halo *halo, const pw_site *site) {
    if (halo->state != PW_HALO_IDLE)
        return pw_halo_refuse(halo, "release", site);
    release_ghosts(halo);
    wake_neighbors(halo);
    return PEERWIN_OK;
}

static peerwin_status in_host_space(peerwin_halo *halo, pw_halo_call call, const pw_site *site) {
    switch (call) {
    case PW_HALO_CALL_START:
        return start(halo, site);
    case PW_HALO_CALL_FINISH:
        return finish(halo, site);
    default:
        return release(halo, site);
    }
}

/* The way of all three: into the context, to where its memory is, and back. */
static peerwin_status run(peerwin_halo *halo, peerwin_stream stream, const char *name, pw_halo_call call) {
    if (!halo)
        return pw_refuse_null(NULL, name, "halo");
    peerwin_ctx *ctx = halo->ctx;
    peerwin_status status = pw_ctx_enter(ctx, name);
    if (status != PEERWIN_OK)
        return status;
    const pw_site *site = PW_SITE(name, NULL, ctx->rank, PW_NONE);
    status = pw_on_streams(ctx) ? pw_halo_on_stream(halo, call, stream, site) : in_host_space(halo, call, site);
    pw_ctx_leave(ctx);
    return status;
}

peerwin_status peerwin_halo_start(peerwin_halo *halo, peerwin_stream stream) {
    return run(halo, stream, "peerwin_halo_start", PW_HALO_CALL_START);
}

peerwin_status peerwin_halo_finish(peerwin_halo *halo, peerwin_stream stream) {
    return run(halo, stream, "peerwin_halo_finish", PW_HALO_CALL_FINISH);
}

peerwin_status peerwin_halo_release(peerwin_halo *halo, peerwin_stream stream) {
    return run(halo, stream, "peerwin_halo_release", PW_HALO_CALL_RELEASE);
}
