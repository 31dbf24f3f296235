/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How a window is closed: peerwin_win_free, close_together in src/window/window.c.
 *
 * Modelled: N ranks, each with a stream, that make, use and free WINDOWS windows one after the other; all of them have
 * the same signal slot in an arena that stays. A rank's stream puts into some peers' segments, and signals them. To
 * free: wait for the own stream; meet, and agree whether everyone is ready; unmap the peers' segments; meet again;
 * release the own segment. A rank may refuse once (its stream captures, a plan lives): then all go on using the window.
 * Left out: how handles travel; mappings shared by several windows; failures of the driver; deadlines.
 *
 * Always: nothing is put through a mapping that is gone; a segment that is released is mapped nowhere, as legacy
 * handles demand; a signal of an old window never lands in the slot of a new one.
 * Guards: NO_SYNC; NO_AGREEMENT (they meet, and each acts on its own answer); NO_SECOND_BARRIER.
 */
#ifndef N
#define N 2
#endif
#ifndef WINDOWS
#define WINDOWS 2
#endif

#define PAIR(rank, owner) ((rank) * N + (owner))
#define MEETINGS (WINDOWS * 5) /* two to make a window, up to three to free it */

bool mapped[N * N];     /* [rank][owner] */
bool alive[N];          /* the segment */
byte slot[N];           /* the window that signalled last */
byte work[N];           /* the window for which the stream has work, 0: none */
byte come[MEETINGS];    /* how many ranks have come to this meeting */
bool refused[MEETINGS]; /* by one of those who have come */
byte ended;

inline put() {
    assert(mapped[PAIR(me, peer)] && alive[peer])
}

proctype stream(byte me) {
    byte peer;
    do
    :: work[me] != 0 ->
        for (peer : 0 .. N - 1) {
            if
            :: true
            :: peer != me ->
                put(); /* begins */
                put(); /* and ends */
                slot[peer] = work[me]
            fi
        }
        work[me] = 0
    :: ended == N && work[me] == 0 -> break
    od
}

inline meet(answer) {
    atomic {
        come[meeting]++;
        refused[meeting] = refused[meeting] || answer
    }
    atomic {
        come[meeting] == N;
#ifdef NO_AGREEMENT
        refuse = answer;
#else
        refuse = refused[meeting];
#endif
        meeting++
    }
}

inline make() {
    atomic {
        slot[me] = 0;
        alive[me] = true
    }
    meet(false);
    for (peer : 0 .. N - 1) {
        mapped[PAIR(me, peer)] = (peer != me)
    }
    meet(false)
}

/* What the stream has been given for an earlier window is not lost. */
inline use() {
    work[me] == 0;
    work[me] = w
}

inline free() {
#ifndef NO_SYNC
    work[me] == 0;
#endif
    if
    :: refuse = false
    :: !asked -> refuse = true
    fi;
    asked = true;
    meet(refuse)
}

inline release() {
    for (peer : 0 .. N - 1) {
        mapped[PAIR(me, peer)] = false
    }
#ifndef NO_SECOND_BARRIER
    meet(false);
#endif
    atomic {
        assert(slot[me] == 0 || slot[me] == w);
        for (peer : 0 .. N - 1) {
            assert(!mapped[PAIR(peer, me)])
        }
        alive[me] = false
    }
}

proctype rank(byte me) {
    byte w, peer, meeting;
    bool refuse, asked;
    for (w : 1 .. WINDOWS) {
        make();
        asked = false;
        do
        :: use();
           free();
           if
           :: refuse
           :: else -> break
           fi
        od;
        release()
    }
    ended++
}

init {
    byte r;
    atomic {
        for (r : 0 .. N - 1) {
            run rank(r);
            run stream(r)
        }
    }
}
