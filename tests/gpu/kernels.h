/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the kernels of these tests are launched with, and what they report. Included by host code and by kernels.cu.
 */
#ifndef PEERWIN_TESTS_GPU_KERNELS_H
#define PEERWIN_TESTS_GPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define RIG_KERNELS(X)                                                                                                 \
    X(delay)                                                                                                           \
    X(publish)                                                                                                         \
    X(look)                                                                                                            \
    X(fill)                                                                                                            \
    X(check)                                                                                                           \
    X(pass)                                                                                                            \
    X(cross)

enum { RIG_LANES = 128, RIG_MOST_RANKS = 16, RIG_LINE_WORDS = 16 };

/* What a block has seen. Rounds are counted when they are over. */
typedef struct {
    uint64_t rounds;
    uint64_t wrong;                     /* words that were not what they must be; rounds that must not happen */
    uint64_t late;                      /* waits that were given up */
    uint64_t crossed;                   /* store buffering: rounds in which exactly one side saw the other's store */
    uint64_t at_round, at_index, value; /* of a wrong word */
} rig_report;

/* `least_ns`, and one time out of four a random time of at most `most_ns` more; the same for the same round and seed.
 */
typedef struct {
    const uint64_t *counter; /* the round, or NULL for `round` */
    uint64_t round, seed, least_ns, most_ns;
} rig_delay_args;

/* `words` words at each of `to` become the round. */
typedef struct {
    uint64_t *to[RIG_MOST_RANKS];
    uint64_t *counter; /* counted up first, and then the round; or NULL for `round` */
    uint64_t round;
    uint32_t count, words;
} rig_publish_args;

/*
 * The words of each of `count` publishers at `own` are at least the round, and at most `ahead` above it. The round is
 * the counter's, or each publisher's own.
 */
typedef struct {
    const uint64_t *own;
    const uint64_t *counter;
    uint64_t least[2 * RIG_MOST_RANKS];
    uint64_t ahead;
    uint32_t count, words;
    rig_report *report;
} rig_look_args;

/* Words that differ in every round and place: fill writes them, check compares them. */
typedef struct {
    uint64_t *to;
    uint64_t round, words;
} rig_fill_args;

typedef struct {
    const uint64_t *own;
    uint64_t round, words;
    rig_report *report;
} rig_check_args;

/* What a kernel leaves out, on purpose. */
enum {
    RIG_NO_WRITER_FENCE = 1, /* between payload and flag */
    RIG_NO_READER_FENCE = 2, /* between flag and payload */
    RIG_NO_ORDER_FENCE = 4,  /* store buffering: between store and load */
    RIG_EARLY_FLAG = 8       /* the flag goes before half of the payload */
};

/*
 * Message passing, in both directions at once: block b writes a payload and then a flag to the next rank, awaits the
 * flag of the rank before, compares the payload, and acknowledges it. Nobody writes before the acknowledgement.
 */
typedef struct {
    uint64_t *to;
    const uint64_t *own;
    uint64_t *flag_out, *ack_out; /* block b's is RIG_LINE_WORDS * b further on */
    const uint64_t *flag_in, *ack_in;
    uint64_t words, stride; /* of a payload; from one block's to the next one's */
    uint64_t first, rounds; /* rounds first + 1 .. first + rounds */
    uint64_t limit_ns;
    uint32_t without;
    rig_report *report; /* a block's each */
} rig_pass_args;

/*
 * Store buffering: both sides store to the other and load what the other stores. That neither sees the other's store
 * must not happen.
 */
typedef struct {
    uint64_t *store_out, *seen_out;
    const uint64_t *store_in, *seen_in;
    uint64_t first, rounds, seed, limit_ns;
    uint32_t without;
    rig_report *report;
} rig_cross_args;

#endif
