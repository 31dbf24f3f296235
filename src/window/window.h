/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A window: one segment per rank, the mappings of the neighbours' segments, and signals in the pads.
 */
#ifndef PW_WINDOW_WINDOW_H
#define PW_WINDOW_WINDOW_H

#include "window/context.h"
#include "window/lifetime.h"

/* One rank's segment as this rank sees it. */
typedef struct {
    char *base;           /* load/store address here, NULL if there is none */
    size_t bytes;         /* its size, known for every rank */
    size_t stores, loads; /* `bytes` where a call of the host may store or load by itself, else 0: see put.c */
    peerwin_path path;
    peerwin_handle kind;
    int read_only;             /* this rank may not store to it */
    _Atomic uint64_t *signals; /* host space: its signal slots here, NULL if not reachable */
    uint64_t *slots;           /* CUDA space: the same in its arena, for streams */
    pw_import *import;
} pw_win_peer;

struct peerwin_win {
    peerwin_ctx *ctx;
    pw_win_peer *peers; /* per rank */
    unsigned num_signals;
    uint64_t id;
    uint64_t generation;
    size_t pad_offset; /* of its signals in every pad */
    pw_segment segment;
    void *view_table;             /* what views of it point to, once there is one; device memory in CUDA space */
    char *base;                   /* of my own segment, which may begin later than the memory that is shared */
    peerwin_win *next, *previous; /* in order of pad_offset */
    char name[PW_NAME_BYTES];
};

static inline uint32_t pw_win_ordinal(const peerwin_win *win) {
    return (uint32_t)win->id;
}

/* Unmaps the peers' segments in this process. The first failure; they are unmapped in any case. */
peerwin_status pw_win_unmap_peers(peerwin_win *win);

#endif
