/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The handshake of halo plans: peerwin_halo_start, _finish and _release.
 *
 * Modelled: N ranks, each with all others as neighbours, and two plans over two buffers. For every plan and pair there
 * is a word of grants at the sender and a word of arrivals at the receiver, and a ghost cell that holds which exchange
 * filled it. All calls of a rank are on one stream. start releases the ghosts (raises the grants at the senders) unless
 * they are, then for every face waits for the receiver's grant, writes and raises the arrivals there; finish waits for
 * the arrivals; then the ghosts are read. A rank may release as soon as it has read, or leave it to the next start, and
 * may finish the first plan before it starts the second one, or afterwards.
 * With FLAGS, as in graphs on devices that ranks share in turns, the words are 1 or 0 and whoever waited for the 1 writes
 * the 0. With ALL_FIRST, as by memory operations of a stream, start waits for all grants, resets them, and then pushes.
 * Left out: the wrap of counters; in which order the blocks of a kernel push, since no block waits for another.
 *
 * Always: ghosts change only between start or release and finish; they are of this exchange when they are read; all get
 * through.
 * Guards: NO_GRANT (faces are pushed at once), GRANT_EARLY (at finish, before the ghosts are read), GRANT_AT_CREATION
 * (the first push does not wait), GRANT_LATE (start pushes, then releases), OTHER_ORDER (one rank starts its plans the
 * other way round, and finishes them when both are started; with RELEASE_BEFORE, both released before, this holds),
 * NO_RESET (of the arrivals, with FLAGS), RESET_LATE (of the grants, with FLAGS: after the push).
 */
#ifndef N
#define N 2
#endif
#ifndef PLANS
#define PLANS 2
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif

#define PAIR(plan, owner, other) (((plan) * N + (owner)) * N + (other))
#ifdef FLAGS
#define RAISED(word, k) (word == 1)
#define RAISE(word, k) word = 1
#else
#define RAISED(word, k) (word >= k)
#define RAISE(word, k) word = k
#endif

byte grants[2 * N * N];   /* [plan][sender][receiver] */
byte arrivals[2 * N * N]; /* [plan][receiver][sender] */
byte ghost[2 * N * N];    /* [plan][receiver][sender] */
bool open[2 * N];         /* [plan][receiver]: its ghosts may change */

inline grant(plan, k) {
    open[(plan) * N + me] = true;
    for (peer : 0 .. N - 1) {
        if
        :: peer == me
        :: else -> RAISE(grants[PAIR(plan, peer, me)], k)
        fi
    }
}

inline release(plan) {
    if
    :: open[(plan) * N + me]
    :: else -> grant(plan, round)
    fi
}

inline write(plan, what) {
    assert(open[(plan) * N + peer]);
    ghost[PAIR(plan, peer, me)] = what
}

inline await_grant(plan) {
#ifndef NO_GRANT
    RAISED(grants[PAIR(plan, me, peer)], round)
#else
    skip
#endif
}

inline take_grant(plan) {
#ifdef FLAGS
    grants[PAIR(plan, me, peer)] = 0
#else
    skip
#endif
}

/* The bytes of a face move while others look. */
inline push_face(plan) {
    atomic { write(plan, 0) }
    atomic { write(plan, round) }
    RAISE(arrivals[PAIR(plan, peer, me)], round)
}

inline push(plan) {
#ifdef ALL_FIRST
    for (peer : 0 .. N - 1) {
        if
        :: peer == me
        :: else -> await_grant(plan)
        fi
    }
    for (peer : 0 .. N - 1) {
        if
        :: peer == me
        :: else -> take_grant(plan)
        fi
    }
    for (peer : 0 .. N - 1) {
        if
        :: peer == me
        :: else -> push_face(plan)
        fi
    }
#else
    for (peer : 0 .. N - 1) {
        if
        :: peer == me
        :: else ->
            await_grant(plan);
#ifdef RESET_LATE
            push_face(plan);
            take_grant(plan)
#else
            take_grant(plan);
            push_face(plan)
#endif
        fi
    }
#endif
}

inline start(plan) {
#ifdef GRANT_LATE
    push(plan);
    release(plan)
#else
#ifndef RELEASE_BEFORE
    release(plan);
#endif
    push(plan)
#endif
}

inline await_arrivals(plan) {
    for (peer : 0 .. N - 1) {
        if
        :: peer == me
        :: else -> RAISED(arrivals[PAIR(plan, me, peer)], round)
        fi
    }
#if defined(FLAGS) && !defined(NO_RESET)
    for (peer : 0 .. N - 1) {
        arrivals[PAIR(plan, me, peer)] = 0
    }
#endif
    open[(plan) * N + me] = false;
}

/* One look, at the last moment, is enough: a ghost that changes meanwhile is noticed by its writer. */
inline read_ghosts(plan) {
    atomic {
        peer = 0;
        do
        :: peer < N ->
            assert(peer == me || ghost[PAIR(plan, me, peer)] == round);
            peer++
        :: else -> break
        od
    }
}

/* ... and the reading after it, and perhaps the release. */
inline finish(plan) {
    await_arrivals(plan);
#ifdef GRANT_EARLY
    grant(plan, round + 1);
    read_ghosts(plan)
#else
    read_ghosts(plan);
    if
    :: true
    :: grant(plan, round + 1)
    fi
#endif
}

#ifdef OTHER_ORDER
#define A (me == 0)
#define B (me != 0)
#else
#define A 0
#define B 1
#endif

proctype rank(byte me) {
    byte round, peer;
    for (round : 1 .. ROUNDS) {
#ifdef RELEASE_BEFORE
        release(A);
        release(B);
#endif
        start(A);
#if PLANS == 1
        finish(A)
#else
        if
        :: start(B); finish(A); finish(B)
#ifndef OTHER_ORDER
        :: finish(A); start(B); finish(B)
#endif
        fi
#endif
    }
}

init {
    byte r;
    atomic {
#ifdef GRANT_AT_CREATION
        for (r : 0 .. 2 * N * N - 1) {
            grants[r] = 1
        }
#endif
        for (r : 0 .. N - 1) {
            run rank(r)
        }
    }
}
