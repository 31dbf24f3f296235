/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The context: what a rank knows of itself and its peers, and the guards at the door of every call.
 *
 * A context is broken for good when its cause word (in the own pad) is not 0. Whoever finds a reason writes it into the
 * cause word of every rank it can reach and wakes them, so all ranks return the same cause from then on. The end of MPI
 * closes the context in the same way, but on this rank only.
 */
#ifndef PW_WINDOW_CONTEXT_H
#define PW_WINDOW_CONTEXT_H

#include "base/agree.h"
#include "base/env.h"
#include "base/gate.h"
#include "memory/gpu.h"
#include "window/channel.h"
#include "window/imports.h"
#include "window/pad.h"

#include <stdatomic.h>
#include <stdint.h>

typedef struct pw_watchdog pw_watchdog;
typedef struct pw_plan pw_plan;

enum { PW_REASON_BYTES = 200 };

/* What is known of one rank. */
typedef struct {
    peerwin_path path;
    peerwin_link link;
    int node;
    int socket; /* descriptor channel, -1 if there is none */
    char *pad;  /* its pad in this process, NULL if it is not reachable */
    pw_import *pad_import;
    char *arena; /* CUDA space: its device pad as this process's streams see it, NULL if it is not reachable */
    pw_import *arena_import;
    pw_import *events_import; /* for barriers of kind EVENT */
    int native_atomics;
    char device[PW_DEVICE_UUID];
    char reason[PW_REASON_BYTES];
} pw_peer;

/* How long a host wait polls, looks again between other things, and then sleeps. */
typedef struct {
    int pauses; /* between this rank's arrival and its first look at the others' */
    int polls;
    int rounds;         /* after the polls */
    int polls_of_round; /* 0: a round gives the processor away once instead */
} pw_patience;

/* A note on its way by MPI. */
typedef struct {
    int open;
    MPI_Request request;
    uint8_t bytes[PW_NOTE_BYTES];
} pw_post;

/* A barrier or all-reduce that timed out is resumed by the next call. */
typedef struct {
    uint64_t epoch;
    int pending;
    uint64_t shape; /* of the pending all-reduce */
} pw_series;

/*
 * Barriers and all-reduces of a context on streams are one sequence: what the last one was, so that the next one on
 * another stream can await its end.
 */
typedef enum {
    PW_LAST_NONE = 0,
    PW_LAST_LINES,   /* a barrier by memory operations */
    PW_LAST_BARRIER, /* a barrier by kernels */
    PW_LAST_REDUCE,
    PW_LAST_EVENTS
} pw_last;

typedef struct {
    pw_last last;
    uint64_t stream;   /* number of the stream that it was on */
    uint64_t lines;    /* epoch of the last barrier by memory operations */
    uint64_t barriers; /* ... of the last barrier by kernels, ... */
    uint64_t reduces;  /* ... and of the last all-reduce, of the eager series */
    uint64_t capture;  /* of what was captured last: the number of its capture, 0 = nothing was, ... */
    uint64_t captured; /* ... and of its stream */
    uint64_t pending;  /* number of the stream that an EVENT barrier, which must be repeated, is on */
    int met;           /* ... and the hosts have met in it */
    uint64_t known;    /* number of a stream that is known to be of this context */
} pw_sequence;

struct peerwin_ctx {
    /* The guards, looked at by every call. */
    pw_gate gate; /* one thread at a time */
    char *pad;    /* my own */

    _Atomic uint32_t aborting; /* threads in peerwin_abort, which pass the gate by */

    uint32_t alive; /* 1; a forked child finds this struct wiped */
    int wiped;      /* ... if the kernel does that; else the pid tells */
    pid_t pid;
    int on_heap; /* where this struct is */
    int rank, size;
    peerwin_space space;
    unsigned flags;
    int timeout_ms;
    int mpi_threads;      /* MPI_THREAD_... that the program has */
    pw_patience patience; /* of host waits */
    int fences_far;       /* who sleeps makes the fence of who wakes, too: see pad.c */
    int all_direct;       /* every rank reaches every rank directly */
    int host_direct;      /* ... and in host space: barriers are made in the pads */
    uint32_t serial;      /* same on all ranks, differs between contexts */

    pw_agree agree;
    pw_liveness live;
    MPI_Comm node_comm, direct_comm;
    int keyval;  /* attribute on MPI_COMM_SELF that tells when MPI ends */
    int closing; /* the attribute is being removed by finalize: no accident */

    pw_hello *hellos;        /* per rank, without the nonces once connected */
    pw_card *cards;          /* per rank, once devices were asked for */
    pw_peer *peers;          /* per rank */
    unsigned char *channels; /* size * size, symmetric: pairs with a descriptor channel */
    unsigned char *direct;   /* the same: pairs with a direct path */
    pw_crew crew;            /* helps with the pages of my memory */
    pw_pad_layout layout;
    pw_segment pad_segment;

    /* CUDA space; gpu is NULL in host space. */
    pw_gpu *gpu;
    const pw_memory_ops *memory;           /* the kind of what windows allocate: agreed; NULL if none may be used */
    const pw_memory_ops *memory_of_arenas; /* the kind that connects the ranks */
    pw_arena_layout arena_layout;
    pw_segment arena_segment;
    peerwin_barrier_kind barrier_kind; /* agreed */
    int kernels_wait;                  /* kernels of the library may wait for other ranks' */
    int most_on_device;                /* so many ranks at most share a device */
    pw_sequence sequence;
    pw_segment events;     /* for barriers of kind EVENT */
    int stream_acquire;    /* what makes a stream's wait an acquire, 0 = not settled yet; see stream_signal.c */
    pw_watchdog *watchdog; /* releases streams when the context breaks; see watchdog.h */
    uint64_t ticket_of[PW_TICKETS]; /* the streams that have a ticket in my arena, by number */
    unsigned num_tickets;

    pw_import *imports; /* list: what of the peers is mapped here */
    pw_post posts[2];   /* answers, handles */
    uint8_t post_in[PW_NOTE_BYTES];

    peerwin_win *windows; /* list in order of their signals in the pad */
    uint32_t next_window;
    pw_plan *plans; /* list of the halo plans that are alive; window.h */
    uint32_t next_plan;
    pw_halo_pack halo_pack; /* which thin faces of plans come to this rank packed */

    pw_series barrier, reduce;

    /* Of contexts that reach some rank only by MPI: barriers and all-reduces have a communicator of their own. */
    MPI_Comm series_comm;
    MPI_Request series_request;
    pw_reduce_slot *gathered; /* per rank, and one more: mine, to send; MPI's while the request is open */
};

/* Comes in even if the context is broken: STATE in a forked child and for a second thread. */
PEERWIN_MUST_USE peerwin_status pw_ctx_come_in(peerwin_ctx *ctx, const char *call);

/* The way in for others than the thread that made the context. */
PEERWIN_MUST_USE peerwin_status pw_ctx_enter_shared(peerwin_ctx *ctx, const char *call);

/* The context is broken, or MPI has ended: leaves again and says why. */
PEERWIN_MUST_USE peerwin_status pw_ctx_refuse(peerwin_ctx *ctx, const char *call);

/* Refuses a forked child: STATE, else OK. */
PEERWIN_MUST_USE peerwin_status pw_ctx_check_process(const peerwin_ctx *ctx, const char *call);

/*
 * Enters a call: not in a forked child, one thread at a time, not broken, not after MPI_Finalize. Every pw_ctx_enter
 * that returned OK is paired with a pw_ctx_leave. In a forked child the gate is wiped, so it has no owner there; a
 * context that is broken or outlived MPI says so in its pad: what is left to do on the way of a small put is two
 * comparisons.
 */
PEERWIN_MUST_USE static inline peerwin_status pw_ctx_enter(peerwin_ctx *ctx, const char *call) {
    if (__builtin_expect(!pw_gate_try_owner(&ctx->gate), 0))
        return pw_ctx_enter_shared(ctx, call);
    if (__builtin_expect(atomic_load_explicit(&pw_pad_control(ctx->pad)->broken, memory_order_relaxed) != 0, 0))
        return pw_ctx_refuse(ctx, call);
    return PEERWIN_OK;
}

/* pw_ctx_enter refused: is the context broken, so that each rank frees what it has for itself? */
static inline int pw_ctx_is_over(peerwin_status status) {
    return status >= PEERWIN_ERR_PEER_LOST || status == PEERWIN_ERR_MISMATCH;
}

/*
 * The fast way alone, for calls that call nothing while they are inside: 1 if the calling thread is inside now, which
 * pw_ctx_leave_own ends. 0: by pw_ctx_enter, which also finds out why.
 */
static inline int pw_ctx_try_own(peerwin_ctx *ctx) {
    if (__builtin_expect(!pw_gate_try_bias(&ctx->gate), 0))
        return 0;
    if (__builtin_expect(atomic_load_explicit(&pw_pad_control(ctx->pad)->broken, memory_order_relaxed) == 0, 1))
        return 1;
    pw_gate_leave_bias(&ctx->gate);
    return 0;
}

static inline void pw_ctx_leave_own(peerwin_ctx *ctx) {
    pw_gate_leave_bias(&ctx->gate);
}

/* The calling thread would come in by the fast way; for calls that change nothing in the context. */
static inline int pw_ctx_is_mine(const peerwin_ctx *ctx) {
    return atomic_load_explicit(&ctx->gate.owner, memory_order_relaxed) == pw_this_thread() &&
           atomic_load_explicit(&pw_pad_control(ctx->pad)->broken, memory_order_relaxed) == 0;
}

static inline void pw_ctx_leave(peerwin_ctx *ctx) {
    pw_gate_leave(&ctx->gate);
}

/* Barriers and all-reduces that are captured are kernels that wait; else memory operations in two phases. */
static inline int pw_kernels_meet(const peerwin_ctx *ctx) {
    return ctx->kernels_wait || ctx->barrier_kind == PEERWIN_BARRIER_KERNEL;
}

/* The cause for which the context is broken, 0 if it is not. */
static inline pw_cause pw_ctx_broken(const peerwin_ctx *ctx) {
    return atomic_load_explicit(&pw_pad_control(ctx->pad)->broken, memory_order_acquire);
}

/* Breaks the context, here and at every rank that can be reached, and wakes them. The first cause stays. */
void pw_ctx_break(peerwin_ctx *ctx, pw_cause cause);

/* pw_agree_..., and the context is broken if the step did not end or left the ranks out of step. */
PEERWIN_MUST_USE peerwin_status pw_ctx_agree(peerwin_ctx *ctx, peerwin_status local, const pw_site *site);
PEERWIN_MUST_USE peerwin_status pw_ctx_agree_enter(peerwin_ctx *ctx, pw_call call, uint32_t object,
                                                   peerwin_status local, const pw_site *site);
PEERWIN_MUST_USE peerwin_status pw_ctx_gather(peerwin_ctx *ctx, const void *mine, size_t bytes, void **all_out,
                                              const pw_site *site);

/* All ranks meet, on the way out of a failure; not if they no longer can. The last error stays. */
void pw_ctx_meet(peerwin_ctx *ctx, const pw_site *site);

/* A collective did not start here, so this rank has lost step with the others: breaks the context. */
PEERWIN_MUST_USE peerwin_status pw_ctx_not_started(peerwin_ctx *ctx, int code, const char *what, const pw_site *site);

/* Waits for a request of the collective call that is running; the context is broken if that does not end. */
PEERWIN_MUST_USE peerwin_status pw_ctx_wait(peerwin_ctx *ctx, MPI_Request *request, const char *what,
                                            const pw_site *site);

/*
 * Waits for a request that the next call may resume: a time-out leaves the context whole. TIMEOUT, or the cause that
 * broke it.
 */
PEERWIN_MUST_USE peerwin_status pw_ctx_resumable_wait(peerwin_ctx *ctx, MPI_Request *request, const char *what,
                                                      const pw_site *site);

/* A watch over this context: for a wait that begins now, or for the rest of the collective call that is running. */
pw_watch pw_ctx_watch(peerwin_ctx *ctx);
pw_watch pw_ctx_watch_call(peerwin_ctx *ctx);

#endif
