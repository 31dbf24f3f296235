/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The library's kernels, launched. All are asynchronous on `stream` (a CUstream, NULL = the legacy default stream of
 * the current context), accept any alignment and length, and do nothing for length 0. The gpu's context is current.
 */
#ifndef PW_MEMORY_LAUNCH_H
#define PW_MEMORY_LAUNCH_H

#include "memory/gpu.h"
#include "memory/kernels.h"

/* Copies `bytes` bytes with the whole device, or less of it where that is enough. */
PEERWIN_MUST_USE peerwin_status pw_launch_copy(pw_gpu *gpu, peerwin_stream stream, void *to, const void *from,
                                               size_t bytes, const pw_site *site);

/*
 * Copies `bytes` > 0 bytes and then stores or adds to a word, as a release of the copy and of all before it. `ticket`
 * is a word of device memory, 0, that no other launch uses before this one is over.
 */
typedef struct {
    uint64_t *word;
    uint64_t value;
    uint32_t *ticket;
    int add;
    int one_device;
} pw_launch_signal;

PEERWIN_MUST_USE peerwin_status pw_launch_copy_signal(pw_gpu *gpu, peerwin_stream stream, void *to, const void *from,
                                                      size_t bytes, const pw_launch_signal *signal,
                                                      const pw_site *site);

/* Copies a box in one launch. Counts are equal and not 0, rows of `to` do not overlap. */
PEERWIN_MUST_USE peerwin_status pw_launch_box(pw_gpu *gpu, peerwin_stream stream, void *to_base, const peerwin_box *to,
                                              const void *from_base, const peerwin_box *from, const pw_site *site);

/* Adds to a word anywhere, as a release at system scope of everything before it on the stream. */
PEERWIN_MUST_USE peerwin_status pw_launch_add(pw_gpu *gpu, peerwin_stream stream, void *word, uint64_t value,
                                              const pw_site *site);

/* Stores a word anywhere, as a release at system scope. */
PEERWIN_MUST_USE peerwin_status pw_launch_store(pw_gpu *gpu, peerwin_stream stream, void *word, uint64_t value,
                                                const pw_site *site);

/* How far the words of `count` places are, `step` bytes apart; see kernels.h. */
typedef struct {
    void *first, *out;
    unsigned step, count;
    int num_lines;
    uint32_t lines[PW_DISTANCE_LINES];
} pw_launch_distance;

/* Waits until the answer is where `out` says. On the library's own stream. */
PEERWIN_MUST_USE peerwin_status pw_gpu_measure_distance(pw_gpu *gpu, const pw_launch_distance *what,
                                                        const pw_site *site);

/* What a kernel that waits for other ranks' needs; see kernels.h. */
typedef struct {
    uint64_t *epoch, *broken;
    uint64_t next;     /* epoch of this one, */
    int known;         /* if it is known: not in graphs */
    uint64_t patience; /* ns, UINT64_MAX = without end */
    int rank, size;
    int one_device;
} pw_launch_meeting;

/*
 * A barrier by kernels, with lines in my arena at `lines`: line_of(owner) is my line at that rank. Several launches if
 * there are many ranks; *given is set once the first is the driver's.
 */
typedef struct {
    char *(*at)(const void *of, int owner);
    const void *of;
} pw_launch_places;

PEERWIN_MUST_USE peerwin_status pw_launch_barrier(pw_gpu *gpu, peerwin_stream stream, const pw_launch_meeting *meeting,
                                                  char *lines, const pw_launch_places *mine, int *given,
                                                  const pw_site *site);

/* The same for an all-reduce, or a part of one (PW_REDUCE_...): `values` is memory that kernels may use. */
typedef struct {
    void *values;
    int count;
    peerwin_type type;
    peerwin_op op;
    unsigned parts;
} pw_launch_values;

PEERWIN_MUST_USE peerwin_status pw_launch_reduce(pw_gpu *gpu, peerwin_stream stream, const pw_launch_meeting *meeting,
                                                 const pw_launch_values *values, char *slots,
                                                 const pw_launch_places *mine, int *given, const pw_site *site);

/*
 * A halo plan's kernels, see kernels.h. Of `push` and `await` everything but the meeting is filled in; words and tables
 * are memory that kernels may use.
 */
typedef struct pw_push_args pw_push_args;
typedef struct pw_await_args pw_await_args;
PEERWIN_MUST_USE peerwin_status pw_launch_push(pw_gpu *gpu, peerwin_stream stream, const pw_launch_meeting *meeting,
                                               const pw_push_args *push, const pw_site *site);
/*
 * The same for a stream that does not capture, by a kernel kept ready (ready.h) for a plan: all its launches are one
 * sequence. Made with the plan and freed with it, the gpu being entered; where that cannot be, NULL gives back what the
 * host has of it.
 */
typedef struct pw_ready pw_ready;
PEERWIN_MUST_USE peerwin_status pw_ready_push_new(pw_gpu *gpu, const pw_site *site, pw_ready **ready_out);
void pw_ready_push_free(pw_gpu *gpu, pw_ready *ready);
PEERWIN_MUST_USE peerwin_status pw_launch_ready_push(pw_gpu *gpu, const pw_ready *ready, peerwin_stream stream,
                                                     const pw_launch_meeting *meeting, const pw_push_args *push,
                                                     const pw_site *site);
/* Makes a captured push, a node of a graph, this one: 1 if that was possible. */
int pw_launch_push_instead(pw_gpu *gpu, void *node, const pw_launch_meeting *meeting, const pw_push_args *push);
PEERWIN_MUST_USE peerwin_status pw_launch_await(pw_gpu *gpu, peerwin_stream stream, const pw_launch_meeting *meeting,
                                                const pw_await_args *await, const pw_site *site);

#endif
