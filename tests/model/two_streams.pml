/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Barriers of a context on different streams form one sequence: src/transfer/stream_barrier.c.
 *
 * Modelled: N ranks, each with two streams that know nothing of each other. Every rank puts each of EPOCHS barriers on a
 * stream of its choice. In barrier e a stream writes e to its rank's line at every rank, its own last, and waits until
 * all lines at its rank have reached e. On another stream than that of the barrier before, it first waits until those
 * lines have reached e - 1.
 * Left out: the host, which waits for nothing here: all is enqueued at the beginning, and a stream begins when it likes.
 *
 * Always: a stream that leaves e finds that every rank has arrived in e; no line goes back; all get through.
 * Guards: NO_JOIN (nothing is awaited on a new stream), OWN_LINE_FIRST (the own line is no longer the end of the writes).
 */
#ifndef N
#define N 2
#endif
#ifndef EPOCHS
#define EPOCHS 4
#endif

#define AT(rank, e) ((rank) * (EPOCHS + 1) + (e))
#define STREAM_OF(e) (choices >> (e) & 1)
#if N == 2
#define LINES_REACHED(e) (line[me * N] >= (e) && line[me * N + 1] >= (e))
#define ALL_ARRIVED(e) (arrived[AT(0, e)] && arrived[AT(1, e)])
#else
#define LINES_REACHED(e) (line[me * N] >= (e) && line[me * N + 1] >= (e) && line[me * N + 2] >= (e))
#define ALL_ARRIVED(e) (arrived[AT(0, e)] && arrived[AT(1, e)] && arrived[AT(2, e)])
#endif
#ifdef OWN_LINE_FIRST
#define FIRST 0
#else
#define FIRST 1
#endif

byte line[N * N];               /* [owner][writer] */
bool arrived[N * (EPOCHS + 1)]; /* [rank][epoch] */

inline arrive() {
    atomic {
        arrived[AT(me, e)] = true;
        i = 0
    }
    do
    :: atomic {
           i < N ->
           owner = (me + FIRST + i) % N;
           assert(line[owner * N + me] < e);
           line[owner * N + me] = e;
           i++
       }
    :: atomic { i == N -> i = 0; owner = 0; break }
    od
}

/* Bit e of `choices` is the stream of barrier e. */
proctype stream(byte me; bit mine; byte choices) {
    byte e, i, owner;
    for (e : 1 .. EPOCHS) {
        if
        :: STREAM_OF(e) != mine
        :: else ->
#ifndef NO_JOIN
            if
            :: e > 1 && STREAM_OF(e - 1) != mine -> LINES_REACHED(e - 1)
            :: else
            fi;
#endif
            arrive();
            LINES_REACHED(e);
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
