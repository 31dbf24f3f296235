/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Exchange and import: every rank hands the handles of its segment to its peers and maps theirs.
 */
#ifndef PW_WINDOW_EXCHANGE_H
#define PW_WINDOW_EXCHANGE_H

#include "window/context.h"

/* What is known of a peer's segment, and what becomes of it. */
typedef struct {
    int wanted;               /* exchange with this rank; symmetric */
    const pw_memory_ops *ops; /* the kind of its segment */
    uint64_t mapped;          /* bytes that it maps to, 0 = it has none */
    int num_pieces;
    uint64_t memory_id; /* 0 = no name */
    pw_import *import;  /* the result; NULL if there is nothing */
    int failed;         /* tolerant: the exchange with this rank failed */
} pw_exchange_peer;

typedef struct {
    uint64_t id;
    uint64_t generation;
    unsigned flags;          /* PW_READ_ONLY, PW_SPARSE */
    int tolerant;            /* a pair that fails is a result: its reason goes into ctx->peers */
    pw_segment *segment;     /* mine */
    pw_exchange_peer *peers; /* per rank */
} pw_exchange;

/*
 * Runs the exchange with every wanted rank, in an order in which at most one descriptor per rank is in flight. A rank
 * that fails, or knows that it has failed before (`local`), still plays its part, so nobody waits for it. Returns this
 * rank's status, to be agreed on; on failure nothing is mapped.
 */
PEERWIN_MUST_USE peerwin_status pw_exchange_run(peerwin_ctx *ctx, pw_exchange *exchange, peerwin_status local,
                                                const pw_site *site);

/* Gives back everything that an exchange imported. The first failure. */
peerwin_status pw_exchange_undo(peerwin_ctx *ctx, pw_exchange_peer *peers);

#endif
