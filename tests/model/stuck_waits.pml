/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How waits of streams end when a peer is lost: src/window/watchdog.c, and await in src/transfer/stream_signal.c.
 *
 * Modelled: one rank and a peer that may die. The peer signals 1, 2, ... in two slots by turns, and the last of its
 * stores may land when it is dead already. The host thread calls wait: it looks whether the context is broken, notes
 * what is awaited, and gives the wait to the stream; at the end, and perhaps before, it sits in a synchronisation that
 * ends only when the stream is idle. The watchdog sees that the peer is dead, breaks the context, and from then on
 * writes the value that is awaited + BIG into every slot that is awaited, again and again. Words are cyclic and of 4
 * bits; BIG is a quarter of their range, as 2^62 is of 64 bits.
 * With PHASES the waits are those of graphs that were launched before: for 1, in two flags by turns, each of which the
 * stream itself resets, so that every wait takes a release of its own.
 * With SECOND the watchdog ends when the last store of the dead peer has landed and no call is left that found the
 * context whole and has not given its wait to the stream. A second is long enough for that where nobody is held up, so
 * this is what ends waits within a second.
 * Left out: how a death is noticed; barrier lines, which are written with the slots.
 *
 * Always: the host thread comes to its end.
 * Guards: GIVE_UP (the watchdog ends at some time); ALL_ONES (are written, which are not larger than anything, since
 * the comparison is cyclic). With SECOND: NOTE_LATE (after the wait is the stream's); WRITE_ONCE (nothing is repeated);
 * NO_LOOK (calls do not look whether the context is broken).
 */
#ifndef CALLS
#define CALLS 4
#endif

#define BIG 4
#define SLOT(call) ((call) & 1)
#define REACHED(word, value) ((((word) - (value)) & 15) < 8)
#ifdef ALL_ONES
#define RELEASING(value) 15
#else
#define RELEASING(value) (((value) + BIG) & 15)
#endif

#ifdef PHASES
#define AWAITED(call) 1
#define MAY_SIGNAL(call) (executed >= call - 1 && word[SLOT(call)] == 0)
#else
#define AWAITED(call) (call)
#define MAY_SIGNAL(call) true
#endif
#if defined(SECOND)
#define DONE (landed && !pending)
#elif defined(GIVE_UP)
#define DONE true
#else
#define DONE finished
#endif

byte word[2];
byte noted[2]; /* what is awaited, 0: nothing */
byte given;    /* waits that the stream has got */
byte executed; /* waits that have ended */
bool pending;  /* a call has found the context whole, and its wait is not the stream's yet */
bool dead, landed, broken, finished;

proctype peer() {
    byte call = 1;
    do
    :: atomic {
           call <= CALLS && MAY_SIGNAL(call) ->
           word[SLOT(call)] = AWAITED(call);
           call++
       }
    :: break
    od;
    if
    :: call > CALLS
    :: else ->
        dead = true;
        if
        :: word[SLOT(call)] = AWAITED(call)
        :: true
        fi
    fi;
    landed = true
}

/* Waits end in the order in which they were given. */
proctype stream() {
    do
    :: atomic {
           executed < given && REACHED(word[SLOT(executed + 1)], AWAITED(executed + 1)) ->
           executed++
       }
#ifdef PHASES
       word[SLOT(executed)] = 0
#endif
    :: finished -> break
    od
}

inline note() {
    noted[SLOT(call)] = call
}

inline give() {
    atomic {
        given++;
        pending = false
    }
}

proctype host() {
#ifdef PHASES
    atomic {
        noted[0] = 1;
        noted[1] = 1;
        given = CALLS
    }
#else
    byte call;
    for (call : 1 .. CALLS) {
        atomic {
            if
#ifndef NO_LOOK
            :: broken -> break
            :: else -> pending = true
#else
            :: true
#endif
            fi
        }
#ifdef NOTE_LATE
        give();
        note();
#else
        note();
        give();
#endif
        if
        :: executed == given
        :: true
        fi
    }
#endif
    executed == given;
    finished = true
}

#define STALE(slot) (noted[slot] != 0 && word[slot] != RELEASING(noted[slot]))

/* What is read from the table takes a while to land. */
inline release(slot) {
    value = RELEASING(noted[slot]);
    word[slot] = value;
    value = 0
}

inline release_noted(slot) {
    if
    :: noted[slot] == 0
    :: else -> release(slot)
    fi
}

/* A round that changes nothing is left out, so that a wait which none of them would end shows as a deadlock. */
proctype watchdog() {
    byte value;
    if
    :: finished
    :: dead ->
        broken = true;
#ifndef WRITE_ONCE
        do
        :: STALE(0) -> release(0)
        :: STALE(1) -> release(1)
        :: DONE -> break
        od;
#endif
#if defined(SECOND) || defined(WRITE_ONCE)
        release_noted(0);
        release_noted(1)
#endif
    fi
}

init {
    atomic {
        run peer();
        run host();
        run stream();
        run watchdog()
    }
}
