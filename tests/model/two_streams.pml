/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Barriers of a context on different streams form one sequence: src/transfer/stream_meet.c.
 *
 * Modelled: N ranks, each with two streams that know nothing of each other. Every rank puts each of EPOCHS barriers on
 * a stream of its choice. In barrier e a stream writes e to its rank's line at every peer, one after the other, and
 * waits until the peers' lines at its own rank have reached e. On another stream than that of the barrier before, it
 * first waits until that one has ended: until its line at the peer that is written to last, and the peers' lines here,
 * have reached e - 1.
 * Left out: the host, which waits for nothing here: all is enqueued at the beginning, and a stream begins when it
 * likes.
 *
 * Always: a stream that leaves e finds that every rank has arrived in e; no line goes back; all get through.
 * Guards: NO_JOIN (nothing is awaited on a new stream), JOIN_PEERS_ONLY (not the own line), JOIN_FIRST (the own line
 * where it is written first).
 */
#ifndef N
#define N 2
#endif
#ifndef EPOCHS
#define EPOCHS 4
#endif

#define AT(rank, e) ((rank) * (EPOCHS + 1) + (e))
#define STREAM_OF(e) (choices >> (e) & 1)
#define LINE(owner, writer) line[((owner) % N) * N + (writer)]
#if N == 2
#define PEERS_REACHED(e) (LINE(me, (me + 1) % N) >= (e))
#define ALL_ARRIVED(e) (arrived[AT(0, e)] && arrived[AT(1, e)])
#else
#define PEERS_REACHED(e) (LINE(me, (me + 1) % N) >= (e) && LINE(me, (me + 2) % N) >= (e))
#define ALL_ARRIVED(e) (arrived[AT(0, e)] && arrived[AT(1, e)] && arrived[AT(2, e)])
#endif
#if defined(JOIN_PEERS_ONLY)
#define ENDED(e) PEERS_REACHED(e)
#elif defined(JOIN_FIRST)
#define ENDED(e) (LINE(me + 1, me) >= (e) && PEERS_REACHED(e))
#else
#define ENDED(e) (LINE(me + N - 1, me) >= (e) && PEERS_REACHED(e))
#endif

byte line[N * N];               /* [owner][writer] */
bool arrived[N * (EPOCHS + 1)]; /* [rank][epoch] */

inline arrive() {
    atomic {
        arrived[AT(me, e)] = true;
        i = 1
    }
    do
    :: atomic {
           i < N ->
           assert(LINE(me + i, me) < e);
           LINE(me + i, me) = e;
           i++
       }
    :: atomic { i == N -> i = 0; break }
    od
}

/* Bit e of `choices` is the stream of barrier e. */
proctype stream(byte me; bit mine; byte choices) {
    byte e, i;
    for (e : 1 .. EPOCHS) {
        if
        :: STREAM_OF(e) != mine
        :: else ->
#ifndef NO_JOIN
            if
            :: e > 1 && STREAM_OF(e - 1) != mine -> ENDED(e - 1)
            :: else
            fi;
#endif
            arrive();
            PEERS_REACHED(e);
            assert(ALL_ARRIVED(e))
        fi
    }
}

init {
    byte rank, e, choices;
    atomic {
        for (rank : 0 .. N - 1) {
            choices = 0;
            for (e : 2 .. EPOCHS) { /* which stream comes first makes no difference */
                if
                :: choices = choices | 1 << e
                :: true
                fi
            }
            run stream(rank, 0, choices);
            run stream(rank, 1, choices)
        }
        choices = 0
    }
}
