/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of a plan in CUDA space: what its kernels move and whom they tell, in device memory. Made once with the
 * plan and freed with it; nothing in it depends on which exchange it is, so a graph can run it again and again.
 */
#ifndef PW_HALO_TABLE_H
#define PW_HALO_TABLE_H

#include "memory/kernels.h"
#include "memory/launch.h"
#include "window/window.h"

typedef struct peerwin_halo peerwin_halo;

/* Exchanges on streams and those in graphs: as PW_SERIES_EAGER and PW_SERIES_CAPTURED. */
enum { PW_HALO_SERIES = 2 };

/* Up to so many words are awaited by the stream rather than by a kernel: 1.4 us each, where a launch takes 2.3 to 4. */
enum { PW_HALO_FEW_WORDS = 2 };

/* What one kind of kernel moves. Pointers are into the table, for kernels alone. */
typedef struct {
    const pw_push_block *blocks; /* NULL for those that take words */
    const pw_push_part *parts;
    const pw_push_move *moves;
    uint32_t num_blocks;
    int waits; /* its blocks may wait for the grants themselves: few enough, and allowed to */
    int apart; /* there is a move for each part */
} pw_halo_work;

/* The same for all other pointers but `memory`. */
typedef struct {
    void *memory; /* NULL: none */
    pw_halo_work push[PW_HALO_SERIES];
    pw_halo_work take[PW_HALO_SERIES];   /* the words of small faces; no blocks if they come as they are */
    pw_halo_work unpack[PW_HALO_SERIES]; /* what came packed; no blocks if nothing does */
    uint32_t *tickets;
    uint64_t *starts, *finishes;             /* in graphs: exchanges that are over, for the kernels of either, */
    uint32_t num_starts;                     /* ... the first for each block of one that is both */
    uint64_t *const *grants[PW_HALO_SERIES]; /* at the ranks that push to me, */
    const uint64_t *const *arrivals[PW_HALO_SERIES]; /* ... what they tell me, */
    const uint64_t *const *permits[PW_HALO_SERIES];  /* ... and what those that I push to let me do */
    uint32_t num_sources, num_targets;
    int joins[PW_HALO_SERIES]; /* one kernel may be start and finish */
    pw_ready *ready;           /* the push of exchanges on streams, if it is kept ready */
    int one_device;            /* nobody beyond this device sees what its kernels do */
} pw_halo_table;

/* The moves of the plan are settled. The gpu is entered. On failure there is none. */
PEERWIN_MUST_USE peerwin_status pw_halo_table_make(peerwin_halo *halo, const pw_site *site);

/* Nothing that was given to the device needs it any more. Fine if there is none. */
void pw_halo_table_free(peerwin_halo *halo);

#endif
