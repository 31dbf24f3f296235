/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What every wait watches: the cause word of the context, dead peers, and the deadline.
 *
 * A wait polls its own condition; between polls it asks pw_watch_look, which is cheap when called often. When that
 * says that the wait is over, the caller rechecks its condition once more before it believes so: a peer may have
 * answered and exited in between.
 */
#ifndef PW_BASE_WATCH_H
#define PW_BASE_WATCH_H

#include "base/clock.h"
#include "base/liveness.h"

/* Why the context is broken: status << 32 | rank. 0 = it is not. */
typedef uint64_t pw_cause;

static inline pw_cause pw_cause_make(peerwin_status status, int rank) {
    return (uint64_t)status << 32 | (uint32_t)rank;
}

static inline int pw_cause_status(pw_cause cause) {
    return (int)(cause >> 32);
}

static inline int pw_cause_rank(pw_cause cause) {
    return (int)(uint32_t)cause;
}

typedef struct {
    pw_liveness *live;              /* may be NULL */
    const _Atomic uint64_t *broken; /* the context's cause word, may be NULL */
    int64_t deadline;               /* pw_deadline */
    int64_t next_poll;              /* when the pidfds are polled next; 0 = at once */
} pw_watch;

/*
 * 0 to go on waiting, else the cause that ends the wait: the context's, PEER_LOST with the rank, or TIMEOUT
 * with rank PW_NONE. Sets no last error.
 */
pw_cause pw_watch_look(pw_watch *watch);

#endif
