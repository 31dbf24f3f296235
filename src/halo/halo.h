/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A halo plan: which bytes go where, settled once, and where the exchange stands.
 *
 * A plan has a window of its own. Its signals are the handshake: words per writer, each on a line of its own, which
 * count exchanges. GRANT at a sender: the receiver lets exchange n overwrite its ghosts. ARRIVAL at a receiver: the
 * sender's faces of exchange n are there. Its data is the staging area, into which peers put small faces and those of
 * thin rows, and from which finish spreads them; it has two halves, used by turns. In CUDA space only thin faces go
 * there, of which stage.c says, and it is one; and further signals carry small faces where kernels may wait, as
 * memory/kernels.h says.
 */
#ifndef PW_HALO_HALO_H
#define PW_HALO_HALO_H

#include "halo/face.h"
#include "halo/move.h"
#include "halo/table.h"
#include "window/window.h"

/* Roles of a neighbour, bits; and what its words at me say. */
enum { PW_HALO_SENDS_TO_ME = 1, PW_HALO_GETS_FROM_ME = 2 };

/* A rank gets its faces as words if there are at most so many; signals of a plan's window. */
enum { PW_HALO_MOST_WORDS = 4096, PW_HALO_MOST_SIGNALS = 65536 };

/* Rooms for words: two for exchanges on streams, by turns, and two for those in graphs. */
enum { PW_HALO_ROOMS = 4 };

/*
 * Faces of at most so many bytes are staged whatever their rows: a copy more takes less time than a wait more. Where
 * ranks outnumber processors, a neighbour that has not released its ghosts may not even have had its turn yet.
 */
enum { PW_HALO_SMALL = 4096 };
typedef enum {
    PW_HALO_GRANT = 0,
    PW_HALO_ARRIVAL = 1,
    PW_HALO_GRAPH_GRANT = 2, /* the same for exchanges in graphs */
    PW_HALO_GRAPH_ARRIVAL = 3,
    PW_HALO_WORDS = 4
} pw_halo_word;

/* A rank with which this one exchanges faces; itself is none. */
typedef struct {
    int rank;
    unsigned roles;
    int done;        /* its part of the start or finish that is running */
    pw_moves push;   /* from my segments to its segments */
    pw_moves post;   /* from my segments to its staging area, or, in CUDA space, its words */
    pw_moves spread; /* from my staging area, or my words, to my segments */
    pw_moves unpack; /* CUDA space: from my staging area to my segments */
    size_t half;     /* bytes of half its staging area */
    int takes_words; /* CUDA space: its faces come as words of so many bytes of data; 0 = as they are */
} pw_halo_neighbor;

/* STARTING and FINISHING: timed out, and to be repeated. CAPTURED: a graph has the start, and wants the finish. */
typedef enum { PW_HALO_IDLE = 0, PW_HALO_STARTING, PW_HALO_STARTED, PW_HALO_FINISHING, PW_HALO_CAPTURED } pw_halo_state;

struct peerwin_halo {
    pw_plan plan; /* first: what the layers below know of it */
    peerwin_ctx *ctx;
    peerwin_win *win; /* the plan's own */
    pw_halo_state state;
    uint64_t epoch;   /* exchanges begun */
    uint64_t granted; /* up to which exchange my ghosts may be overwritten */
    unsigned stride;  /* signals from one word to the next */
    pw_halo_neighbor *neighbors;
    int num_neighbors;
    size_t half;            /* bytes of half my staging area; CUDA space: of all of it */
    int large;              /* pushes take longer than a fence */
    pw_moves own;           /* from my segments to my segments */
    pw_move *moves;         /* memory of all lists of moves */
    pw_halo_table table;    /* CUDA space, as the next five: */
    void *start_node;       /* the start that was captured last, if finish may join it, ... */
    uint64_t start_capture; /* ... and its capture */
    int joined;             /* the exchange that was started needs no finish on its stream */
    uint64_t words;         /* signals of a room for the words of small faces; the rooms are behind the handshake's */
    int takes_words;        /* the same of mine */
    peerwin_face *received; /* the plan's */
    peerwin_win **windows;  /* the same */
};

/* The slot that `writer` writes at the other side. */
static inline unsigned pw_halo_slot(const peerwin_halo *halo, pw_halo_word word, int writer) {
    return (PW_HALO_WORDS * (unsigned)writer + (unsigned)word) * halo->stride;
}

/* The word of that kind for exchanges of a series. */
static inline pw_halo_word pw_halo_in(pw_halo_word word, int series) {
    return (pw_halo_word)((int)word + series * (int)PW_HALO_GRAPH_GRANT);
}

/* Signals of the handshake; those behind them are words of faces. */
static inline unsigned pw_halo_handshake(const peerwin_halo *halo) {
    return PW_HALO_WORDS * (unsigned)halo->ctx->size * halo->stride;
}

/*
 * Makes a plan of faces that nobody has looked at; collective. The caller has entered the context. `ready` is not OK if
 * this rank has failed already and comes to tell the others.
 */
PEERWIN_MUST_USE peerwin_status pw_halo_make(peerwin_ctx *ctx, const pw_faces *faces, unsigned flags,
                                             peerwin_status ready, peerwin_halo **halo_out, const pw_site *site);

/* STATE: that call is not its turn. */
PEERWIN_MUST_USE peerwin_status pw_halo_refuse(const peerwin_halo *halo, const char *what, const pw_site *site);

/* start, finish and release in CUDA space: work for the stream, or, if it captures, for its graph. stream.c. */
typedef enum { PW_HALO_CALL_START = 0, PW_HALO_CALL_FINISH, PW_HALO_CALL_RELEASE } pw_halo_call;
PEERWIN_MUST_USE peerwin_status pw_halo_on_stream(peerwin_halo *halo, pw_halo_call call, peerwin_stream stream,
                                                  const pw_site *site);

#endif
