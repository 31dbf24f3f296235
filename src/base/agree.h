/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Agreed collectives: non-blocking MPI on a private communicator, with deadline and dead-peer check, ending in one
 * status for all ranks.
 *
 * Every collective call of the library begins with pw_agree_enter, which finds out whether all ranks are in the
 * same call, and goes on with steps that end in pw_agree_status. One deadline covers the whole call. A started MPI
 * collective cannot be cancelled: when one times out or a peer dies, the communicator is given up (`lost`), the struct,
 * which holds its buffers, stays alive, and nothing is started on it again. These two outcomes are the only ones that
 * may differ between ranks.
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
    PW_CALL_FREE = 5,
    PW_CALL_HALO_CREATE = 6,
    PW_CALL_HALO_FREE = 7
} pw_call;

const char *pw_call_name(pw_call call);

typedef struct {
    MPI_Comm comm;
    int rank, size;
    int timeout_ms;
    int64_t deadline;               /* of the call that is running */
    pw_liveness *live;              /* NULL until the peers are known */
    const _Atomic uint64_t *broken; /* NULL until the pads are mapped */
    int out_of_step;                /* this rank gave up in the middle of an exchange; agreed at the next step */
    int aftermath;                  /* its failure only follows from another rank's, which is the one to tell */
    int lost;                       /* a step did not end, or ranks are out of step: nothing may be started again */
    int lost_together;              /* that was agreed: every rank knows, or is about to learn it in the same step */
    /* MPI may still write into this struct. */
    int unfinished;
    pw_cause ended_by; /* why, the same on every rank that knows */
    /* Buffers of the running step. MPI may write them for as long as a lost step is not over. */
    int64_t in[4];
    int64_t out[4];
    char text[PW_ERROR_TEXT];
} pw_agree;

/*
 * Duplicates `comm`. If that fails nothing is held, unless the duplication itself did not end (TIMEOUT): then `lost` is
 * set, and the struct must stay where it is for good.
 */
PEERWIN_MUST_USE peerwin_status pw_agree_create(pw_agree *agree, MPI_Comm comm, int timeout_ms, const pw_site *site);

/* Frees the communicator, collectively. A lost one is given up, and the struct must stay where it is for good. */
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

/* Waits for a request of any collective on the communicator, up to agree->deadline. `what` names the MPI call. */
PEERWIN_MUST_USE peerwin_status pw_agree_wait(pw_agree *agree, MPI_Request *request, const char *what,
                                              const pw_site *site);

/* Sets the last error for a cause that ended a wait, and returns the status that the caller sees. */
PEERWIN_MUST_USE peerwin_status pw_cause_fail(pw_cause cause, const pw_liveness *live, const pw_site *site);

#endif
