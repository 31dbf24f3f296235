/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The barrier by interprocess events: peerwin_barrier of a context whose kind is EVENT.
 *
 * Modelled: N ranks, each a host thread and a stream that runs later. In epoch e the host records its event[e & 1] on
 * the stream, publishes e, waits until every peer has published e, and has the stream wait for every peer's event[e & 1].
 * A wait captures the record that was made last when it is enqueued; there may have been none, and then it waits for
 * nothing.
 * Left out: deadlines; the wrap of epochs; several streams, for which see two_streams.pml.
 *
 * Always: a wait captures exactly epoch e; a stream that leaves e finds all streams arrived in e.
 * Guards: NO_HANDSHAKE, NO_ALTERNATION (one event per rank), PUBLISH_FIRST (before the record).
 */
#ifndef N
#define N 2
#endif
#ifndef EPOCHS
#define EPOCHS 4
#endif

#ifdef NO_ALTERNATION
#define EVENT(rank, e) (rank)
#else
#define EVENT(rank, e) ((rank) * 2 + ((e) & 1))
#endif

#if N == 2
#define ALL(a, e) (a[0] >= e && a[1] >= e)
#else
#define ALL(a, e) (a[0] >= e && a[1] >= e && a[2] >= e)
#endif
#define CAPTURED(rank, e, peer) (((rank) * (EPOCHS + 1) + (e)) * N + (peer))

mtype = { RECORD, WAIT };

byte recorded[2 * N];                    /* by event: the epoch of its last record, 0: none */
byte published[N];                       /* what the host has told the others */
byte captured[N * (EPOCHS + 1) * N];     /* by wait: the record that it is for */
byte arrived[N];                         /* the last record that the stream has reached */
chan stream[N] = [EPOCHS * 2] of { mtype, byte };

inline record() {
    atomic {
        recorded[EVENT(me, e)] = e;
        stream[me]!RECORD(e)
    }
}

proctype host(byte me) {
    byte e, peer;
    for (e : 1 .. EPOCHS) {
#ifdef PUBLISH_FIRST
        published[me] = e;
        record();
#else
        record();
        published[me] = e;
#endif
#ifndef NO_HANDSHAKE
        ALL(published, e);
#endif
        for (peer : 0 .. N - 1) {
            d_step {
                captured[CAPTURED(me, e, peer)] = recorded[EVENT(peer, e)];
                assert(captured[CAPTURED(me, e, peer)] == e)
            }
        }
        stream[me]!WAIT(e)
    }
}

/* What is awaited stays true: the order of the waits makes no difference. */
proctype device(byte me) {
    byte e, peer;
    do
    :: atomic { stream[me]?RECORD(e) -> arrived[me] = e }
    :: atomic {
           stream[me]?WAIT(e) ->
           peer = 0;
           do
           :: peer < N ->
               arrived[peer] >= captured[CAPTURED(me, e, peer)];
               peer++
           :: else -> break
           od;
           assert(ALL(arrived, e));
           peer = 0;
           if
           :: e == EPOCHS -> break
           :: else -> e = 0
           fi
       }
    od
}

init {
    byte rank;
    atomic {
        for (rank : 0 .. N - 1) {
            run host(rank);
            run device(rank)
        }
    }
}
