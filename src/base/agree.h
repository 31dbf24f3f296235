/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Agreed collectives: non-blocking MPI on a private communicator, with deadline and dead-peer check, ending in one
 * status for all ranks.
 *
 * Every collective call of the library begins with pw_agree_enter, which finds out whether all ranks are in the
 * same call, and goes on with steps that end in pw_agree_status. A started MPI collective cannot be cancelled: when one
 * times out or a peer dies, the communicator is given up (`lost`), its buffers stay alive, and nothing is
 * started on it again. These two outcomes are the only ones that may differ between ranks.
 */
#ifndef PW_BASE_AGREE_H
#define PW_BASE_AGREE_H

#include "base/watch.h"

/* The collective calls; the first word of a tag. Numbers travel between ranks: append only. */
typedef enum {
    PW_CALL_INIT = 1,
    PW_CALL_FINALIZE = 2,
    PW_CALL_ALLOC = 3,
    PW_CALL_ATTACH = 4,
    PW_CALL_FREE = 5
} pw_call;

const char *pw_call_name(pw_call call);

typedef struct pw_agree_mail pw_agree_mail;

typedef struct {
    MPI_Comm comm;
    int rank, size;
    int timeout_ms;
    pw_liveness *live;              /* NULL until the peers are known */
    const _Atomic uint64_t *broken; /* NULL until the pads are mapped */
    pw_agree_mail *mail;            /* buffers of the running step; given up with the communicator */
    int out_of_step;   /* set by a rank that gave up in the middle of an exchange; agreed at the next step */
    int lost;          /* a step did not end: nothing may be started again */
    pw_cause ended_by; /* what ended it */
} pw_agree;

/* Duplicates `comm`. On failure nothing is held, unless the duplication itself did not end (TIMEOUT). */
PEERWIN_MUST_USE peerwin_status pw_agree_create(pw_agree *agree, MPI_Comm comm, int timeout_ms, const pw_site *site);

/* Frees the communicator, collectively; a lost one is given up. */
void pw_agree_destroy(pw_agree *agree);

/*
 * One status for all: OK if `local` is OK everywhere, else that of the lowest rank that failed, whose last error
 * becomes everyone's.
 */
PEERWIN_MUST_USE peerwin_status pw_agree_status(pw_agree *agree, peerwin_status local, const pw_site *site);

/* The same, and MISMATCH if the ranks are in different calls or handle different objects (`object` is a number). */
PEERWIN_MUST_USE peerwin_status pw_agree_enter(pw_agree *agree, pw_call call, uint32_t object, peerwin_status local,
                                               const pw_site *site);

/*
 * Gathers `bytes` bytes of every rank, in rank order, into a new block that the caller frees. If a step is ended
 * by a time-out the block is given up.
 */
PEERWIN_MUST_USE peerwin_status pw_agree_gather(pw_agree *agree, const void *mine, size_t bytes, void **all_out,
                                                const pw_site *site);

/* Waits for a request of any collective on the communicator. `what` names the MPI call. */
PEERWIN_MUST_USE peerwin_status pw_agree_wait(pw_agree *agree, MPI_Request *request, const char *what,
                                              const pw_site *site);

/* Sets the last error for a cause that ended a wait, and returns the status that the caller sees. */
PEERWIN_MUST_USE peerwin_status pw_cause_fail(pw_cause cause, const pw_liveness *live, const pw_site *site);

#endif
