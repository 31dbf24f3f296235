/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which processes of this node are still there: one pidfd per peer.
 *
 * A pidfd that fires is a loss only if the peer has not said goodbye: a rank that has finished with the context may
 * exit before the others are done.
 */
#ifndef PW_BASE_LIVENESS_H
#define PW_BASE_LIVENESS_H

#include "base/error.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    int count;                         /* ranks */
    int gone;                          /* lowest rank that was gone before it could be watched, or PW_NONE */
    struct pollfd *polls;              /* per rank; fd -1 where nothing is watched */
    pid_t *pids;                       /* per rank; 0 where nothing is watched */
    const _Atomic uint32_t **goodbyes; /* per rank: word in the peer's pad that it sets when done, or NULL */
} pw_liveness;

PEERWIN_MUST_USE peerwin_status pw_liveness_create(pw_liveness *live, int count, const pw_site *site);
void pw_liveness_destroy(pw_liveness *live);

/*
 * Watches process `pid` of this PID namespace as `rank`. `start` is its start time (pw_process_start) as the peer
 * itself announced it: a reused pid is then not taken for the peer. A peer that cannot be watched because it is gone
 * already is PEER_LOST, and counts as lost from then on: nobody may wait for it.
 */
PEERWIN_MUST_USE peerwin_status pw_liveness_watch(pw_liveness *live, int rank, pid_t pid, uint64_t start,
                                                  const pw_site *site);

/* The lowest rank that is gone without a goodbye, or PW_NONE. One poll without waiting. */
int pw_liveness_lost(pw_liveness *live);

/* Start time of a process in clock ticks after boot; 0 if it is not there or there is no /proc. */
PEERWIN_MUST_USE peerwin_status pw_process_start(pid_t pid, const pw_site *site, uint64_t *start_out);

/* The parent of a process; 0 if that is not known, or it has none in this PID namespace. */
pid_t pw_process_parent(pid_t pid);

/* Writes "; rank 3 (pid 17) is stopped" for every watched rank that a signal has stopped; "" if there is none. */
void pw_liveness_describe_stopped(const pw_liveness *live, char *text, size_t bytes);

#endif
