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

#include "peerwin/device/block.h"

enum { PEERWIN_VIEW_VERSION = 1, PEERWIN_VIEW_NEAR = 8, PEERWIN_VIEW_SERIES = 3 };

/* The series of rounds that users' kernels make; the others are the library's own. */
enum { PW_DEV_SERIES = 2 };

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
    uint32_t all_reachable; /* 0: some rank's arena is not to be had, and rounds of all ranks neither */
    uint32_t one_device;    /* 1: all ranks and the memory are on the device of this rank */
    uint32_t counts;        /* 1: barriers count by additions; the same for all windows of all ranks */
    uint32_t reserved;
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
    void *context;            /* host space: for the library; NULL in CUDA space */
    peerwin_view_peer own;
    peerwin_view_peer near[PEERWIN_VIEW_NEAR];
} peerwin_view;

enum { PW_DEV_LINE = 128, PW_DEV_REDUCE_SLOT = 1024, PW_DEV_REDUCE_WORDS = 128 };
enum { PW_DEV_MESSAGE_SLOT = 128, PW_DEV_MESSAGE_SLOTS = 8, PW_DEV_MESSAGE_WORDS = 16 };

/*
 * The addresses of a rank. What is loaded from the view is kept apart from what is loaded from the table: merged into
 * one load, as compilers like to do, both would come from memory.
 */
#if defined(__CUDACC__)
#define PW_DEV_APART(pointer) asm volatile("" : "+l"(pointer))
#else
#define PW_DEV_APART(pointer) ((void)0)
#endif

PW_DEV char *pw_dev_base(const peerwin_view *view, int rank) {
    char *base;
    if (rank < PEERWIN_VIEW_NEAR) {
        base = view->near[rank].base;
        PW_DEV_APART(base);
    } else {
        base = view->peers[rank].base;
    }
    return base;
}

PW_DEV uint64_t *pw_dev_signals(const peerwin_view *view, int rank) {
    uint64_t *signals;
    if (rank < PEERWIN_VIEW_NEAR) {
        signals = view->near[rank].signals;
        PW_DEV_APART(signals);
    } else {
        signals = view->peers[rank].signals;
    }
    return signals;
}

PW_DEV char *pw_dev_arena(const peerwin_view *view, int rank) {
    char *arena;
    if (rank < PEERWIN_VIEW_NEAR) {
        arena = view->near[rank].arena;
        PW_DEV_APART(arena);
    } else {
        arena = view->peers[rank].arena;
    }
    return arena;
}

PW_DEV pw_dev_bound pw_dev_bound_of(const peerwin_view *view) {
    pw_dev_bound bound;
    bound.broken = view->broken;
    bound.timeout_ns = view->timeout_ns;
    bound.context = view->context;
    return bound;
}

/* A word in the arena of `rank`, and one in my own. */
PW_DEV uint64_t *pw_dev_word(const peerwin_view *view, int rank, uint64_t offset) {
    return (uint64_t *)(void *)(pw_dev_arena(view, rank) + offset);
}

PW_DEV uint64_t *pw_dev_own_word(const peerwin_view *view, uint64_t offset) {
    return (uint64_t *)(void *)(view->own.arena + offset);
}

#endif
