/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The view of a window that kernels get, and places in it. Part of peerwin/device.cuh.
 *
 * A view is plain data without owners: the table it points to is the window's. Its first entries are in the view
 * itself, hence among a kernel's arguments, which are read faster than memory and stay when an acquire empties caches.
 */
#ifndef PEERWIN_DEVICE_VIEW_H
#define PEERWIN_DEVICE_VIEW_H

#include "peerwin/device/words.h"

enum { PEERWIN_VIEW_VERSION = 1, PEERWIN_VIEW_NEAR = 8, PEERWIN_VIEW_SERIES = 3 };

/* What a rank has that this one may load and store. Pointers are NULL where it may not. */
typedef struct {
    char *base;        /* its segment */
    uint64_t bytes;    /* the segment's size */
    uint64_t *signals; /* its signal slots of this window */
    char *arena;       /* what the calls write to each other */
} peerwin_view_peer;

typedef struct {
    uint32_t version;
    int32_t rank;
    int32_t size;
    uint32_t num_signals;
    const peerwin_view_peer *peers; /* all ranks; where kernels can read it */
    const uint64_t *broken;         /* not 0: waits end */
    uint64_t timeout_ns;            /* of every wait; UINT64_MAX = none. May be changed in a copy of the view. */
    /* Places in every arena, in bytes from its beginning. */
    uint64_t barrier_lines[PEERWIN_VIEW_SERIES]; /* a line of 128 bytes per writer */
    uint64_t reduce_slots[PEERWIN_VIEW_SERIES];  /* two slots of 1024 bytes per writer, used alternately */
    uint64_t barrier_epochs; /* one word per series: the rounds that the owner has done; its own, as are the next */
    uint64_t reduce_epochs;
    uint64_t messages;        /* 8 slots of 128 bytes per writer, used in turn */
    uint64_t message_credits; /* a line per writer: how many of the owner's messages it has taken */
    uint64_t message_counts;  /* a line per peer: messages sent to it, taken from it, and known to be taken by it */
    uint64_t sleepers;        /* host space: a 32-bit word, not 0 while the owner sleeps; 0 in CUDA space */
    peerwin_view_peer near[PEERWIN_VIEW_NEAR];
} peerwin_view;

enum { PW_DEV_LINE = 128, PW_DEV_REDUCE_SLOT = 1024, PW_DEV_REDUCE_WORDS = 128 };
enum { PW_DEV_MESSAGE_SLOT = 128, PW_DEV_MESSAGE_SLOTS = 8, PW_DEV_MESSAGE_WORDS = 16 };

PW_DEV const peerwin_view_peer *pw_dev_peer(const peerwin_view *view, int rank) {
    return rank < PEERWIN_VIEW_NEAR ? &view->near[rank] : &view->peers[rank];
}

PW_DEV pw_dev_bound pw_dev_bound_of(const peerwin_view *view) {
    pw_dev_bound bound;
    bound.broken = view->broken;
    bound.timeout_ns = view->timeout_ns;
    return bound;
}

/* A word in the arena of `rank`. */
PW_DEV uint64_t *pw_dev_word(const peerwin_view *view, int rank, uint64_t offset) {
    return (uint64_t *)(void *)(pw_dev_peer(view, rank)->arena + offset);
}

#endif
