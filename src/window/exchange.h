/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Exchange and import: every rank hands the handle of its segment to its peers and maps theirs.
 */
#ifndef PW_WINDOW_EXCHANGE_H
#define PW_WINDOW_EXCHANGE_H

#include "window/context.h"

typedef struct {
    uint64_t id;
    uint64_t generation;
    unsigned flags;              /* PW_READ_ONLY */
    pw_segment *segment;         /* mine */
    const unsigned char *wanted; /* per rank: 1 = exchange with it; symmetric */
    const uint64_t *mapped;      /* per rank: bytes that its segment maps to, 0 = it has none */
    pw_mapping *mappings;        /* per rank, written for the wanted ones */
} pw_exchange;

/*
 * Runs the exchange with every wanted rank, in an order in which at most one descriptor per rank is in flight. A rank
 * that fails, or knows that it has failed before (`local`), still plays its part, so nobody waits for it. Returns this
 * rank's status, to be agreed on; on failure nothing is mapped.
 */
PEERWIN_MUST_USE peerwin_status pw_exchange_run(peerwin_ctx *ctx, pw_exchange *exchange, peerwin_status local,
                                                const pw_site *site);

#endif
