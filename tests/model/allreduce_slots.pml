/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The slots of the small all-reduce: src/transfer/reduce.c on the host; on devices
 * src/transfer/kernels.cu and include/peerwin/device/rounds.h.
 *
 * Modelled: N ranks that reduce EPOCHS times without anything else between. A rank has two slots at every rank, used
 * alternately. On devices a slot is words of a value and an epoch, stored as one and in any order; a reader takes a
 * word when its epoch is the one that it waits for. With HOST_SLOT the words have no epochs, and the slot has one,
 * stored last and read first. A rank that has all words of an epoch begins the next.
 * With WRAP the epochs in words have 3 bits instead of 22, so that an old word looks new soon, and only the first epoch
 * and its double use all words of a slot: for that, all are written in the first two of every SWEEP epochs.
 * Left out: the arithmetic; deadlines.
 *
 * Always: what is taken is what its writer gave in this epoch; all get through.
 * Guards: ONE_SLOT, NO_EPOCH (whatever is there is taken), EPOCH_FIRST (of a HOST_SLOT, before the words), ONE_EPOCH
 * (the epoch of one word stands for all of them), NO_SWEEP.
 */
#ifndef N
#define N 2
#endif
#ifndef EPOCHS
#define EPOCHS 4
#endif
#ifndef WORDS
#define WORDS 2
#endif

#ifdef WRAP
#define FLAG (e & 7)
#define USED (FLAG == 1 -> WORDS : 1)
#else
#define FLAG e
#define USED WORDS
#endif
#define SWEEP 4
#ifdef NO_SWEEP
#define WRITTEN USED
#else
#define WRITTEN (e % SWEEP < 2 -> WORDS : USED)
#endif

#ifdef ONE_SLOT
#define SLOT(owner, writer) (((owner) * N + (writer)) * 2)
#else
#define SLOT(owner, writer) (((owner) * N + (writer)) * 2 + (e & 1))
#endif
#define WORD(owner, writer, i) (SLOT(owner, writer) * WORDS + (i))

/* What rank r gives in epoch e. The others know it, so that they can tell an old value from a new one. */
byte value[N * N * 2 * WORDS];
byte flag[N * N * 2 * WORDS]; /* the word's epoch */
byte epoch[N * N * 2];        /* of a HOST_SLOT */

inline store(owner, i) {
    atomic {
        value[WORD(owner, me, i)] = e;
#ifndef HOST_SLOT
        flag[WORD(owner, me, i)] = FLAG
#endif
    }
}

/* The device's stores have no order. */
inline give() {
    for (peer : 0 .. N - 1) {
        if
        :: peer == me
        :: else ->
#if defined(HOST_SLOT) && defined(EPOCH_FIRST)
            epoch[SLOT(peer, me)] = e;
#endif
            if
            :: first = 0
#ifndef HOST_SLOT
            :: first = WRITTEN - 1
#endif
            fi;
            for (i : 0 .. WRITTEN - 1) {
                store(peer, (first + i) % WRITTEN)
            }
            first = 0;
#if defined(HOST_SLOT) && !defined(EPOCH_FIRST)
            epoch[SLOT(peer, me)] = e
#endif
        fi
    }
}

inline take() {
    for (peer : 0 .. N - 1) {
        if
        :: peer == me
        :: else ->
#ifdef HOST_SLOT
            epoch[SLOT(me, peer)] >= e;
#elif defined(ONE_EPOCH)
            flag[WORD(me, peer, 0)] == FLAG;
#endif
            for (i : 0 .. USED - 1) {
                atomic {
#if !defined(HOST_SLOT) && !defined(ONE_EPOCH) && !defined(NO_EPOCH)
                    flag[WORD(me, peer, i)] == FLAG;
#endif
                    assert(value[WORD(me, peer, i)] == e)
                }
            }
        fi
    }
}

proctype rank(byte me) {
    byte e, peer, i, first;
    for (e : 1 .. EPOCHS) {
        give();
        take()
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
