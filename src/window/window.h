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
    int of_plan;                  /* a halo plan's own, which the caller does not know */
    char name[PW_NAME_BYTES];
};

/* A halo plan, as far as windows are concerned: the beginning of struct peerwin_halo. */
struct pw_plan {
    pw_plan *next;
    uint32_t ordinal;
    peerwin_win *const *windows; /* that its faces lie in, which cannot be freed before it */
    int num_windows;
    const peerwin_face *received; /* my receive faces */
    int num_received;
    void (*release)(pw_plan *plan); /* frees the plan alone */
};

static inline uint32_t pw_win_ordinal(const peerwin_win *win) {
    return (uint32_t)win->id;
}

/*
 * The same as alloc and free for those who have entered the context already (make: and its space) and met no failure.
 * Collective. *gone_out: the window is gone, whatever the status.
 */
PEERWIN_MUST_USE peerwin_status pw_win_make(peerwin_ctx *ctx, size_t bytes, const peerwin_win_config *config,
                                            peerwin_win **win_out, const pw_site *site);
PEERWIN_MUST_USE peerwin_status pw_win_close(peerwin_win *win, peerwin_status ready, int *gone_out,
                                             const pw_site *site);

/* Takes away a window that nobody has used, on the way out of a failure of all ranks. Collective; waits for no work. */
void pw_win_abandon(peerwin_win *win, const pw_site *site);

/* Free in a context that is broken: nobody waits for anybody. */
void pw_win_close_alone(peerwin_win *win, const pw_site *site);

/* Unmaps the peers' segments in this process. The first failure; they are unmapped in any case. */
peerwin_status pw_win_unmap_peers(peerwin_win *win);

#endif
