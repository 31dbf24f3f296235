/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Small messages between kernels: peerwin_dev_send and _recv, include/peerwin/device/messages.h.
 *
 * Modelled: a sender, a receiver, and SLOTS slots in the receiver's memory, used in turn. A message is WORDS words of
 * data and its number, all of which are stored every time; they land later, in any order except that of one word. The
 * receiver waits for as many words as it asks for, takes them, and writes to the sender how many messages it has taken;
 * the sender waits while all slots are taken up.
 * Left out: deadlines; the wrap of numbers, which takes more than a slot's worth of messages.
 *
 * Always: each message arrives once, in order and whole; all get through.
 * Guards: NO_CREDIT (the sender does not wait), CREDIT_EARLY (written before the words are there), ONE_FLAG (the number
 * of the first word stands for all), SHORT (only the words that carry something are stored).
 */
#ifndef MESSAGES
#define MESSAGES 5
#endif
#define SLOTS 2
#define WORDS 2
#define WORD(message, i) ((message) % SLOTS * WORDS + (i))

byte word[SLOTS * WORDS]; /* data and number are the same here */
byte taken;
bool sent_all;
chan way[SLOTS * WORDS] = [MESSAGES] of { byte };

proctype network() {
    byte w;
    do
    :: atomic { way[0]?w -> word[0] = w; w = 0 }
    :: atomic { way[1]?w -> word[1] = w; w = 0 }
    :: atomic { way[2]?w -> word[2] = w; w = 0 }
    :: atomic { way[3]?w -> word[3] = w; w = 0 }
    :: sent_all && empty(way[0]) && empty(way[1]) && empty(way[2]) && empty(way[3]) -> break
    od
}

proctype sender() {
    byte n;
    for (n : 1 .. MESSAGES) {
#ifndef NO_CREDIT
        n - taken <= SLOTS;
#endif
        way[WORD(n, 0)]!n;
#ifdef SHORT
        if
        :: way[WORD(n, 1)]!n
        :: true
        fi
#else
        way[WORD(n, 1)]!n
#endif
    }
    sent_all = true
}

proctype receiver() {
    byte n, asked;
    for (n : 1 .. MESSAGES) {
        if
        :: asked = 1
        :: asked = WORDS
        fi;
#ifdef CREDIT_EARLY
        taken = n;
#endif
#ifdef ONE_FLAG
        word[WORD(n, 0)] == n;
#else
        word[WORD(n, 0)] == n && (asked == 1 || word[WORD(n, 1)] == n);
#endif
        assert(word[WORD(n, 0)] == n && (asked == 1 || word[WORD(n, 1)] == n));
        asked = 0;
#ifndef CREDIT_EARLY
        taken = n
#endif
    }
}

init {
    atomic {
        run network();
        run sender();
        run receiver()
    }
}
