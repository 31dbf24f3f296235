/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Work of one kind of kernel in the making: what goes to which rank, or comes from it, in parts for warps.
 */
#ifndef PW_HALO_DEAL_H
#define PW_HALO_DEAL_H

#include "halo/halo.h"
#include "halo/lay.h"

/* What goes to one rank, or comes from one. */
typedef struct {
    const pw_moves *moves;
    const pw_halo_neighbor *neighbor; /* NULL = this rank */
    int words;                        /* as words of so many bytes of data; 0 = as it is */
    pw_push_move *laid;
} pw_target;

/* Offsets are in bytes from the beginning of the table. */
typedef struct {
    pw_target *targets;
    uint32_t num_targets, num_moves;
    uint32_t per_part; /* items */
    uint32_t num_blocks;
    int series; /* whose words they are */
    int takes, unpacks, waits, apart;
    pw_push_move *moves;
    size_t blocks, parts, laid;
} pw_deal;

/* Takes in a target; there is room. `words` is as above, and each of their halves has `half` bytes. */
void pw_deal_add(pw_deal *d, const pw_moves *moves, const pw_halo_neighbor *neighbor, int words, size_t half);

/* All are in: settles how long parts are, and whether blocks wait, if they may. `share`: multiprocessors for them. */
void pw_deal_settle(pw_deal *d, int may_wait, uint64_t share);

/* The blocks of a target: one that has nothing to move is told so all the same. */
uint64_t pw_deal_blocks(const pw_target *t, uint64_t per_part);

/* How many moves are in the table: at least one, which is loaded for parts without items. */
size_t pw_deal_moves(const pw_deal *d);

/* Writes the parts of a target, and the moves of all when all parts are written. */
void pw_deal_write_parts(const pw_deal *d, const pw_target *t, pw_push_part *part);
void pw_deal_write_moves(const pw_deal *d, char *table);

#endif
