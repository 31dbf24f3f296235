/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Announce and accept: what every rank contributes to a window, and whether that fits together.
 */
#ifndef PW_WINDOW_ANNOUNCE_H
#define PW_WINDOW_ANNOUNCE_H

#include "window/exchange.h"
#include "window/window.h"

/* What all ranks know of a window in the making. */
typedef struct {
    pw_announce *records;    /* per rank */
    unsigned char *listed;   /* per rank: a neighbour */
    pw_exchange_peer *peers; /* per rank; wanted: a neighbour that I reach directly */
} pw_assembly;

PEERWIN_MUST_USE peerwin_status pw_assembly_create(pw_assembly *assembly, int size, const pw_site *site);
void pw_assembly_destroy(pw_assembly *assembly);

/*
 * Gathers everyone's record and neighbour list and checks that they fit together: the same verdict, computed from the
 * same values, on every rank. Collective.
 */
PEERWIN_MUST_USE peerwin_status pw_announce_run(peerwin_ctx *ctx, const pw_announce *mine,
                                                const peerwin_win_config *config, pw_assembly *assembly,
                                                const pw_site *site);

/* MISMATCH if two records do not fit together. Pure. */
PEERWIN_MUST_USE peerwin_status pw_announce_accept(const pw_announce *records, int size, const pw_site *site);

/* MISMATCH if a neighbour entry of the size*size matrix has no counterpart. Pure. */
PEERWIN_MUST_USE peerwin_status pw_neighbors_accept(const unsigned char *matrix, int size, const pw_site *site);

#endif
