/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the litmus tests share: a window with a line for each block and purpose, and a payload for each block. Each rank
 * writes to the next one and is written to by the one before, so all directions of a job are tested at once.
 */
#ifndef PEERWIN_TESTS_GPU_LITMUS_H
#define PEERWIN_TESTS_GPU_LITMUS_H

#include "rig.h"

enum { LINE = 8 * RIG_LINE_WORDS, AREAS = 4, FLAG = 0, ACK = 1, STORE = 2, SEEN = 3, MOST_BLOCKS = 64 };

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    peerwin_view view;
    void *source; /* of the calls: a payload for each block */
    int right, left, partner;
    unsigned blocks;
    size_t bytes;  /* of a payload */
    size_t stride; /* from one block's payload to the next one's */
} litmus_place;

litmus_place litmus_begin(size_t bytes, unsigned blocks);
void litmus_end(litmus_place *p);

/** A line for each block; the payload of each block. */
uint64_t *litmus_lines(const litmus_place *p, int rank, int area);
uint64_t *litmus_payload(const litmus_place *p, int rank);
size_t litmus_payload_offset(void);

/** How long a measurement may take. */
double litmus_seconds(void);
/** Rank 0 tells what was measured. Every rank has counted the rounds. */
void litmus_tell(const char *what, size_t bytes, const rig_report *sum, double seconds);

/** For payloads of all sizes, or only of the size that was asked for; fewer where only the way is to be seen. */
void litmus_sizes(void (*test)(size_t bytes, uint64_t rounds));

#endif
