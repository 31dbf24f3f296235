/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The barrier by interprocess events: src/transfer/stream_event.c.
 *
 * Modelled: N ranks, each a host thread and STREAMS streams that run later. In epoch e the host records its event[e&1]
 * on a stream, publishes e, waits until every peer has published e, and has the stream wait for every peer's
 * event[e&1]. A wait captures the record that was made last when it is enqueued; there may have been none, and then it
 * waits for nothing. On another stream than that of e - 1, the stream first waits for everyone's event[(e-1)&1], the
 * own one, too.
 * Left out: deadlines; the wrap of epochs.
 *
 * Always: a wait captures exactly the record that is meant; a stream that leaves e finds that all ranks have arrived in
 * e and in all barriers before.
 * Guards: NO_HANDSHAKE, NO_ALTERNATION (one event per rank), PUBLISH_FIRST (before the record), NO_JOIN (of streams).
 */
#ifndef N
#define N 2
#endif
#ifndef EPOCHS
#define EPOCHS 4
#endif
#ifndef STREAMS
#define STREAMS 1
#endif

#ifdef NO_ALTERNATION
#define EVENT(rank, e) (rank)
#else
#define EVENT(rank, e) ((rank) * 2 + ((e) & 1))
#endif

#if N == 2
#define ALL(a, e) (a[0] >= e && a[1] >= e)
#define ALL_ARRIVED(e) ((arrived[0] & arrived[1] & UP_TO(e)) == UP_TO(e))
#else
#define ALL(a, e) (a[0] >= e && a[1] >= e && a[2] >= e)
#define ALL_ARRIVED(e) ((arrived[0] & arrived[1] & arrived[2] & UP_TO(e)) == UP_TO(e))
#endif
#define UP_TO(e) ((2 << (e)) - 2)
#define HAPPENED(rank, record) (record == 0 || (arrived[rank] >> (record) & 1))
#define CAPTURED(rank, e, peer) (((rank) * (EPOCHS + 1) + (e)) * N + (peer))
#define STREAM(rank, s) stream[(rank) * STREAMS + (s)]

mtype = { RECORD, WAIT, JOIN };

byte recorded[2 * N];                /* by event: the epoch of its last record, 0: none */
byte published[N];                   /* what the host has told the others */
byte captured[N * (EPOCHS + 1) * N]; /* by wait: the record that it is for */
byte arrived[N];                     /* bit e: a stream has come to the record of e */
bool over[N];                        /* the host */
chan stream[N * STREAMS] = [EPOCHS * 2] of { mtype, byte };

inline record() {
    atomic {
        recorded[EVENT(me, e)] = e;
        STREAM(me, s)!RECORD(e)
    }
}

/* In one step: what holds for a capture at any time holds for each of them at its own. */
inline capture(epoch) {
    d_step {
        peer = 0;
        do
        :: peer < N ->
            captured[CAPTURED(me, epoch, peer)] = recorded[EVENT(peer, epoch)];
            assert(captured[CAPTURED(me, epoch, peer)] == epoch);
            peer++
        :: else -> break
        od;
        peer = 0
    }
}

proctype host(byte me) {
    byte e, peer, s;
    for (e : 1 .. EPOCHS) {
#if STREAMS == 2
        if
        :: true
        :: e > 1 ->
            s = 1 - s;
#ifndef NO_JOIN
            atomic {
                capture(e - 1);
                STREAM(me, s)!JOIN(e - 1)
            }
#endif
        fi;
#endif
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
        atomic {
            capture(e);
            STREAM(me, s)!WAIT(e)
        }
    }
    over[me] = true
}

/* What is awaited stays true: the order of the waits makes no difference. */
inline await(epoch) {
    peer = 0;
    do
    :: peer < N ->
        HAPPENED(peer, captured[CAPTURED(me, epoch, peer)]);
        peer++
    :: else -> break
    od;
    peer = 0
}

proctype device(byte me; byte s) {
    byte e, peer;
    do
    :: atomic {
           STREAM(me, s)?RECORD(e) ->
           arrived[me] = arrived[me] | 1 << e;
           e = 0
       }
#if STREAMS == 2 && !defined(NO_JOIN)
    :: atomic {
           STREAM(me, s)?JOIN(e) -> await(e);
           e = 0
       }
#endif
    :: atomic {
           STREAM(me, s)?WAIT(e) -> await(e);
           assert(ALL_ARRIVED(e));
           e = 0
       }
    :: over[me] && empty(STREAM(me, s)) -> break
    od
}

init {
    byte rank, s;
    atomic {
        for (rank : 0 .. N - 1) {
            run host(rank);
            for (s : 0 .. STREAMS - 1) {
                run device(rank, s)
            }
        }
    }
}
