/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The doorbell of host waits: sleep_on_doorbell in src/transfer/wait.c, src/window/pad.c.
 *
 * Modelled: SIGNALLERS processes, each of which stores 1, 2, ... in its word and wakes the waiter if that sleeps; a
 * waiter that awaits these values of all words. Every process has a store buffer: its own stores reach memory later, in
 * order. A fence, an atomic addition and a system call first empty it. FUTEX_WAIT compares and falls asleep in one
 * step; its time limit is left out, so that a wake-up that is lost shows as a deadlock.
 * Left out: processors that reorder more than stores with later loads; polling before the sleep; the cause word of a
 * broken context, which is looked at together with the word that is awaited.
 *
 * Always: all waits end.
 * Guards: NO_RECHECK (of the word, as a counted sleeper), NO_WAITER_FENCE (between counting and recheck),
 * NO_SIGNALLER_FENCE (between the word and the look for sleepers), SEEN_LATE (the doorbell is read after the recheck).
 * FAR: the waiter's fence is a far one, which empties all buffers one after the other, and signallers have none;
 * guard NEAR_ONLY (it empties its own).
 */
#ifndef SIGNALLERS
#define SIGNALLERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

#define WAITER SIGNALLERS
#define SLEEPERS SIGNALLERS /* the address behind the words */
#define DRAINED (empty(buffer[me]))

byte memory[SIGNALLERS + 1];
byte doorbell; /* is only added to, so never in a buffer */
bool asleep;
bool done[SIGNALLERS + 1];
chan buffer[SIGNALLERS + 1] = [3] of { byte, byte };

proctype bus(byte me) {
    byte at, value;
    do
    :: atomic {
           buffer[me]?at, value;
           memory[at] = value;
           at = 0;
           value = 0
       }
    :: done[me] && DRAINED -> break
    od
}

proctype signaller(byte me) {
    byte round;
    for (round : 1 .. ROUNDS) {
        buffer[me]!me, round;
#if !defined(NO_SIGNALLER_FENCE) && !defined(FAR)
        DRAINED;
#endif
        if
        :: memory[SLEEPERS] == 0
        :: else ->
            atomic {
                DRAINED;
                doorbell++
            }
            asleep = false
        fi
    }
    done[me] = true
}

inline far_fence() {
    atomic {
        do
        :: nempty(buffer[p]) ->
            buffer[p]?at, value;
            memory[at] = value
        :: empty(buffer[p]) -> break
        od;
        at = 0;
        value = 0
    }
}

inline sleep_on_doorbell() {
#ifndef SEEN_LATE
    seen = doorbell;
#endif
    buffer[me]!SLEEPERS, 1;
#ifndef NO_WAITER_FENCE
    DRAINED;
#endif
#if defined(FAR) && !defined(NEAR_ONLY)
    for (p : 0 .. SIGNALLERS - 1) {
        far_fence()
    }
#endif
    if
#ifndef NO_RECHECK
    :: memory[word] >= round
    :: else ->
#else
    :: true ->
#endif
#ifdef SEEN_LATE
        seen = doorbell;
#endif
        atomic {
            DRAINED;
            if
            :: doorbell == seen -> asleep = true
            :: else
            fi
        }
        !asleep
    fi;
    seen = 0;
    buffer[me]!SLEEPERS, 0
}

proctype waiter(byte me) {
    byte round, word, seen, p, at, value;
    for (round : 1 .. ROUNDS) {
        for (word : 0 .. SIGNALLERS - 1) {
            do
            :: memory[word] >= round -> break
            :: else -> sleep_on_doorbell()
            od
        }
    }
    done[me] = true
}

init {
    byte p;
    atomic {
        for (p : 0 .. SIGNALLERS - 1) {
            run signaller(p);
            run bus(p)
        }
        run waiter(WAITER);
        run bus(WAITER)
    }
}
