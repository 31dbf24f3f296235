/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The barrier of constants, for graphs on devices that ranks share: meet_in_phases in src/transfer/stream_meet.c.
 *
 * Modelled: N ranks, each a stream that replays a graph of barriers ROUNDS times in all. A barrier is twice {write 1 to
 * my flag at each peer; wait until all flags at mine are 1; write 0 to them}, on two sets of flags. The values are part
 * of the graph, so they cannot depend on how often it has run.
 * Left out: what else is in the graph; the batches in which a driver takes the operations.
 *
 * Always: whoever leaves a barrier finds all arrived in it, and all of them get through.
 * Guards: ONE_PHASE; PARITY_SETS (one phase, the two sets by turns within a graph of three barriers); PARITY_VALUES
 * (one phase, 1 and 0 by turns instead of the reset); NO_RESET.
 */
#ifndef N
#define N 2
#endif
#ifndef ROUNDS
#define ROUNDS 4
#endif

#if N == 2
#define ALL(a, e) (a[0] >= e && a[1] >= e)
#else
#define ALL(a, e) (a[0] >= e && a[1] >= e && a[2] >= e)
#endif
#if defined(ONE_PHASE) || defined(PARITY_SETS) || defined(PARITY_VALUES)
#define PHASES 1
#else
#define PHASES 2
#endif
#ifdef PARITY_SETS
#define SET ((round - 1) % 3 & 1)
#else
#define SET phase
#endif
#ifdef PARITY_VALUES
#define VALUE (round & 1)
#else
#define VALUE 1
#endif
#define FLAG(owner, writer, set) (((owner) * N + (writer)) * 2 + (set))

bit flag[N * N * 2];
byte arrived[N];

proctype stream(byte me) {
    byte round, phase, peer;
    for (round : 1 .. ROUNDS) {
        arrived[me] = round;
        for (phase : 0 .. PHASES - 1) {
            for (peer : 0 .. N - 1) {
                if
                :: peer == me
                :: else -> flag[FLAG(peer, me, SET)] = VALUE
                fi
            }
            for (peer : 0 .. N - 1) {
                if
                :: peer == me
                :: else -> flag[FLAG(me, peer, SET)] == VALUE
                fi
            }
#if !defined(PARITY_VALUES) && !defined(NO_RESET)
            for (peer : 0 .. N - 1) {
                flag[FLAG(me, peer, SET)] = 0
            }
#endif
        }
        assert(ALL(arrived, round))
    }
}

init {
    byte rank;
    atomic {
        for (rank : 0 .. N - 1) {
            run stream(rank)
        }
    }
}
