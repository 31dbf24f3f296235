/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The barrier in kernels of one device, by counts: pw_dev_barrier_by_counts in include/peerwin/device/rounds.h.
 *
 * Modelled: N ranks that meet ROUNDS times. A rank adds one to its line at every peer; it waits until each of the lines
 * in its own arena is more than the rounds so far, in any order. Up to TIMEOUTS times in all some rank gives up at any
 * moment of its wait, takes back what it added, one peer after the other, and comes again. Additions are atomic, and
 * everything else may come between them. The rounds so far, which a rank counts for each peer beside the peer's line,
 * are a number here, since nobody else looks at them.
 * Left out: the order of memory; what breaks a context; numbers that wrap.
 *
 * Always: who leaves a round knows that all have come to it, be it that some have given up since; all get through.
 * Guards: NO_TAKE_BACK (what was added stays, and is added again), EXACT (a line must be one more, not more).
 */
#ifndef N
#define N 2
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 2
#endif

#define LINE(owner, writer) line[(owner) * N + (writer)]

#ifdef EXACT
#define IS_HERE(peer) (LINE(me, peer) == before + 1)
#else
#define IS_HERE(peer) (LINE(me, peer) > before)
#endif

byte line[N * N];
byte come[N]; /* the last round that a rank has come to */
byte timeouts;

/* Of a rank: the peers from 0 on, itself left out. */
inline add_to_all() {
    for (peer : 0 .. N - 1) {
        if
        :: peer != me -> LINE(peer, me) = LINE(peer, me) + 1
        :: else
        fi
    }
}

inline take_back() {
#ifdef NO_TAKE_BACK
    skip
#else
    for (peer : 0 .. N - 1) {
        if
        :: peer != me -> LINE(peer, me) = LINE(peer, me) - 1
        :: else
        fi
    }
#endif
}

/* Each lane looks at its own peer, and what it has seen it has seen. */
inline wait_for_all() {
    seen = 1 << me;
    do
    :: seen == (1 << N) - 1 -> break
    :: N > 0 && !(seen & 1) && IS_HERE(0) -> seen = seen | 1
    :: N > 1 && !(seen & 2) && IS_HERE(1) -> seen = seen | 2
#if N > 2
    :: !(seen & 4) && IS_HERE(2) -> seen = seen | 4
#endif
    :: atomic {
           seen != (1 << N) - 1 && timeouts < TIMEOUTS ->
           timeouts++
       };
       gave_up = true;
       break
    od
}

proctype rank(byte me) {
    byte round, peer, before, seen;
    bool gave_up;
    for (round : 1 .. ROUNDS) {
        come[me] = round;
        before = round - 1;
        do
        :: gave_up = false;
           add_to_all();
           wait_for_all();
           if
           :: gave_up -> take_back()
           :: else -> break
           fi
        od;
        for (peer : 0 .. N - 1) {
            assert(come[peer] >= round)
        }
    }
}

init {
    byte i;
    atomic {
        for (i : 0 .. N - 1) {
            run rank(i)
        }
    }
}
