/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The staging area of halo plans in host space, src/halo/exchange.c, and with WORDS that of small faces on devices,
 * kernels PUSH and AWAIT in src/transfer/kernels.cu, and with PACKED that of thin faces on devices, src/halo/stream.c.
 *
 * Modelled: N ranks, one plan whose faces are all staged, from each rank to those above it, or BOTH_WAYS: then ranks
 * wait for each other's faces too, and hardly need the grants. For every pair there is a word of grants at the sender, a
 * word of arrivals at the receiver, and two halves of a room at the receiver, used by turns. start grants the exchange,
 * unless release did, and puts its faces as soon as the receiver has granted the exchange before: not this one, since
 * the ghosts are written by the receiver itself, in finish. finish waits for the arrivals and reads the rooms. A rank may
 * release after finish, or leave it to the next start.
 * With PACKED the room has no halves, and faces are put when the receiver has granted this very exchange.
 * With WORDS there are no arrivals: what lies in a room, one word, says of which exchange it is, and is awaited itself.
 * Left out: the wrap of counters, ghosts (nobody else writes them), faces that are not staged (halo.pml).
 *
 * Always: no room is written while it is read; what is read is of this exchange; all get through.
 * Guards: ONE_HALF (the halves are one), NO_GRANT (faces are put at once), GRANT_OLD (start waits for the grant of the
 * exchange before the one before; WORDS_GRANT_OLD: the same with WORDS; PACKED_GRANT_OLD: with PACKED, for that of the
 * exchange before), GRANT_EARLY (the next exchange is granted
 * before the rooms are read).
 */
#ifdef WORDS_GRANT_OLD
#define WORDS
#define GRANT_OLD
#endif
#ifndef N
#define N 2
#endif
#ifndef ROUNDS
#define ROUNDS 5
#endif
#ifdef PACKED_GRANT_OLD
#define PACKED
#define GRANT_OLD
#endif
#if defined(ONE_HALF) || defined(PACKED)
#define HALVES 1
#else
#define HALVES 2
#endif
#ifdef PACKED
#define BEHIND_AT_MOST 0
#else
#define BEHIND_AT_MOST 1
#endif
#ifdef GRANT_OLD
#define BEHIND (BEHIND_AT_MOST + 1)
#else
#define BEHIND BEHIND_AT_MOST
#endif

#ifdef BOTH_WAYS
#define SENDS(from, to) (from != to)
#else
#define SENDS(from, to) (from < to)
#endif

#define PAIR(owner, other) ((owner) * N + (other))
#define ROOM(k, owner, other) ((((k) % HALVES) * N + (owner)) * N + (other))

byte grants[N * N];     /* [sender][receiver] */
byte arrivals[N * N];   /* [receiver][sender] */
byte room[2 * N * N];   /* [half][receiver][sender] */
bool reading[2 * N * N]; /* the same */

inline grant(k) {
    granted = k;
    for (peer : 0 .. N - 1) {
        if
        :: !SENDS(peer, me)
        :: else -> grants[PAIR(peer, me)] = k
        fi
    }
}

inline release(k) {
    if
    :: granted == k
    :: else -> grant(k)
    fi
}

inline write(what) {
    assert(!reading[ROOM(round, peer, me)]);
    room[ROOM(round, peer, me)] = what
}

inline push() {
    for (peer : 0 .. N - 1) {
        if
        :: !SENDS(me, peer)
        :: else ->
#ifndef NO_GRANT
            grants[PAIR(me, peer)] + BEHIND >= round;
#endif
#ifdef WORDS
            atomic { write(round) }
#else
            atomic { write(0) }
            atomic { write(round) }
            arrivals[PAIR(peer, me)] = round
#endif
        fi
    }
}

inline finish() {
    for (peer : 0 .. N - 1) {
        if
        :: !SENDS(peer, me)
        :: else ->
#ifdef WORDS
            room[ROOM(round, me, peer)] == round;
#else
            arrivals[PAIR(me, peer)] >= round;
#endif
#ifdef GRANT_EARLY
            grants[PAIR(peer, me)] = round + 1;
#endif
            atomic {
                reading[ROOM(round, me, peer)] = true;
                assert(room[ROOM(round, me, peer)] == round)
            }
            atomic {
                assert(room[ROOM(round, me, peer)] == round);
                reading[ROOM(round, me, peer)] = false
            }
        fi
    }
}

proctype rank(byte me) {
    byte round, peer, granted;
    for (round : 1 .. ROUNDS) {
        release(round);
        push();
        finish();
        if
        :: true
        :: true -> grant(round + 1)
        fi
    }
}

init {
    byte r;
    atomic {
        for (r : 0 .. N - 1) {
            run rank(r)
        }
    }
}
