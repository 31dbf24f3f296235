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

#include "peerwin/device.cuh"

#define RIG_KERNELS(X)                                                                                                 \
    X(delay)                                                                                                           \
    X(publish)                                                                                                         \
    X(look)                                                                                                            \
    X(fill)                                                                                                            \
    X(check)                                                                                                           \
    X(pass)                                                                                                            \
    X(cross)                                                                                                           \
    X(call)                                                                                                            \
    X(meet)                                                                                                            \
    X(reduce)                                                                                                          \
    X(mail)                                                                                                            \
    X(hold)                                                                                                            \
    X(draw)                                                                                                            \
    X(sums)

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
 * must not happen. By peerwin's calls if `partner` is a rank: then the word is at `offset` of its segment.
 */
typedef struct {
    peerwin_view view;
    int partner;
    uint64_t offset;
    uint64_t *store_out, *seen_out;
    const uint64_t *store_in, *seen_in;
    uint64_t first, rounds, seed, limit_ns;
    uint32_t without;
    rig_report *report;
} rig_cross_args;

/*
 * Message passing by peerwin's own calls. A kernel may do a part of it, and streams the rest. Payloads are at `offset`
 * of each segment, one for each block, and `stride` bytes apart, as are their sources.
 */
enum { RIG_SENDS = 1, RIG_RECEIVES = 2, RIG_AWAITS_ACK = 4 };
enum { RIG_BLOCK = 0, RIG_WARP = 1, RIG_THREAD = 2 };
typedef struct {
    peerwin_view view;
    uint64_t *source;
    uint64_t offset, words, stride;
    uint64_t first, rounds;
    int right, left;
    uint32_t parts, scope;
    rig_report *report; /* a block's each */
} rig_call_args;

/* Every rank publishes the round to all, passes the barrier in the kernel, and looks. One block. */
typedef struct {
    peerwin_view view;
    uint64_t words; /* that a rank publishes to each other */
    uint64_t first, rounds, most_ns;
    rig_report *report;
} rig_meet_args;

/* `count` all-reduces of `each` values, one after the other, `stride` bytes apart. One block. */
typedef struct {
    peerwin_view view;
    void *values;
    uint64_t count, stride;
    uint32_t each, type, op;
    rig_report *report;
} rig_reduce_args;

/* In graphs: `count` doubles of a rank and a round, and whether they are the sums over all ranks, in rank order. */
typedef struct {
    const uint64_t *counter;
    double *values;
    uint32_t rank, count;
} rig_draw_args;

typedef struct {
    const uint64_t *counter;
    const double *values;
    uint32_t size, count;
    rig_report *report;
} rig_sums_args;

/* Small messages round the ring. One block. */
typedef struct {
    peerwin_view view;
    uint64_t first, rounds;
    int right, left;
    rig_report *report;
} rig_mail_args;

/* A wait for a signal, or the barrier, and the status it returned. One block. */
typedef struct {
    peerwin_view view;
    uint64_t value;
    uint32_t slot, barrier;
    uint64_t *status;
} rig_hold_args;

#endif
