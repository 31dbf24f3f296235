/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The pad: a small shared segment of every rank, mapped once by all ranks it can reach. It holds what ranks write to
 * each other besides window data: the control block, a line per writer for barriers, slots for all-reduces, and the
 * signals of all windows.
 *
 * What stands in a pad was written by another process, possibly one that crashed: read once into locals, then check.
 */
#ifndef PW_WINDOW_PAD_H
#define PW_WINDOW_PAD_H

#include "base/watch.h"
#include "memory/memory.h"

#include <stddef.h>

enum { PW_LINE = 128, PW_REDUCE_VALUES = 64, PW_PAD_SIGNALS_BYTES = 64 << 20, PW_BARRIER_TURNS = 4 };

/* Words that are written by different ranks, or polled while others are written, have lines of their own. */
typedef struct {
    _Alignas(PW_LINE) _Atomic uint64_t broken;   /* pw_cause; written once, by anyone */
    _Alignas(PW_LINE) _Atomic uint32_t doorbell; /* counts wake-ups; the owner sleeps on it */
    _Atomic uint32_t sleepers;                   /* 1 while the owner sleeps or is about to */
    _Alignas(PW_LINE) _Atomic uint32_t goodbye;  /* the owner has finished with the context */
} pw_control;

typedef struct {
    _Alignas(PW_LINE) _Atomic uint64_t epoch;
} pw_barrier_line;

/* One writer's contribution to an all-reduce. Up to 6 values share one cache line with their epoch. */
typedef struct {
    _Alignas(PW_LINE) _Atomic uint64_t epoch;
    uint64_t shape; /* type, operation, count */
    uint64_t values[PW_REDUCE_VALUES];
} pw_reduce_slot;

/* Where things are in a pad of a context with `size` ranks. */
typedef struct {
    size_t barrier_lines; /* PW_BARRIER_TURNS per writer, used by turns */
    size_t reduce_slots;  /* two per writer, used alternately */
    size_t arena;         /* host space: what code in the place of kernels writes and awaits, as in an arena */
    size_t signals;
    size_t bytes;
} pw_pad_layout;

static inline size_t pw_pad_round(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

/*
 * In CUDA space there is a second pad, in device memory: the arena. It holds what streams and kernels write and await;
 * the pad in host memory keeps the rest. All of it is 0 at first. "Per writer": one for each rank, written by it alone.
 *
 * Barriers and all-reduces by kernels are three series, each with lines, slots and epochs of its own.
 */
enum { PW_SERIES_EAGER = 0, PW_SERIES_CAPTURED = 1, PW_SERIES_DEVICE = 2, PW_NUM_SERIES = 3 };

/* Of an all-reduce: PW_REDUCE_VALUES values of two self-validating words each. Of a message: sixteen such words. */
enum { PW_ARENA_REDUCE_SLOT = PW_REDUCE_VALUES * 16, PW_MESSAGE_SLOT = 128, PW_MESSAGE_SLOTS = 8 };

/* Of a word's upper 32 bits, what is below its epoch: see peerwin/device/rounds.h. */
enum { PW_REDUCE_TAG_BITS = 10 };

/* The first line of an arena; the epochs are used by the owner's kernels alone. */
typedef struct {
    uint64_t broken; /* not 0: kernels stop waiting */
    uint64_t barrier_epoch[PW_NUM_SERIES];
    uint64_t reduce_epoch[PW_NUM_SERIES];
} pw_arena_control;

typedef struct {
    size_t barrier_lines; /* of the stream barrier by memory operations; per writer, the epoch in its first 8 bytes */
    size_t control;
    size_t kernel_lines[PW_NUM_SERIES]; /* of barriers by kernels: per writer */
    size_t phase_flags;                 /* of the two-phase barrier: two lines per writer, one of each set */
    size_t reduce_slots[PW_NUM_SERIES]; /* two per writer, used alternately */
    size_t messages;                    /* PW_MESSAGE_SLOTS per writer, used in turn */
    size_t message_credits;             /* a line per writer: how many of my messages it has taken */
    size_t message_counts;              /* the owner's own: a line per peer, messages sent to and taken from it */
    size_t tickets;                     /* the owner's own: PW_TICKETS words of 32 bits, one per stream that puts */
    size_t signals;
    size_t bytes;
} pw_arena_layout;

enum { PW_ARENA_SIGNALS_BYTES = 3 << 20, PW_TICKETS = 64 };

/* An arena begins at one of so many places: see placing.c. Steps of no power of two, so that no two look alike. */
enum { PW_ARENA_PLACES = 32, PW_ARENA_STEP = 4096 + 128, PW_ARENA_ROOM = PW_ARENA_PLACES * PW_ARENA_STEP };

static inline pw_arena_layout pw_arena_layout_of(int size) {
    const size_t lines = (size_t)size * PW_LINE;
    pw_arena_layout layout;
    size_t at = 0;
    layout.barrier_lines = at, at += lines;
    layout.control = at, at += PW_LINE;
    for (int series = 0; series < PW_NUM_SERIES; series++)
        layout.kernel_lines[series] = at, at += lines;
    layout.phase_flags = at, at += 2 * lines;
    for (int series = 0; series < PW_NUM_SERIES; series++)
        layout.reduce_slots[series] = at, at += 2 * (size_t)size * PW_ARENA_REDUCE_SLOT;
    layout.messages = at, at += (size_t)size * PW_MESSAGE_SLOTS * PW_MESSAGE_SLOT;
    layout.message_credits = at, at += lines;
    layout.message_counts = at, at += lines;
    layout.tickets = at, at += PW_TICKETS * sizeof(uint32_t);
    layout.signals = pw_pad_round(at, 4096);
    layout.bytes = layout.signals + PW_ARENA_SIGNALS_BYTES;
    return layout;
}

static inline pw_pad_layout pw_pad_layout_of(int size) {
    pw_pad_layout layout;
    layout.barrier_lines = pw_pad_round(sizeof(pw_control), 4096);
    layout.reduce_slots = layout.barrier_lines + PW_BARRIER_TURNS * (size_t)size * sizeof(pw_barrier_line);
    layout.arena = layout.reduce_slots + 2 * (size_t)size * sizeof(pw_reduce_slot);
    layout.signals = pw_pad_round(layout.arena + pw_arena_layout_of(size).signals, 4096);
    layout.bytes = layout.signals + PW_PAD_SIGNALS_BYTES;
    return layout;
}

/* Addresses in an arena: for the driver, not to be touched by the host. */
static inline uint64_t *pw_arena_line(char *arena, const pw_arena_layout *layout, int writer) {
    return (uint64_t *)(void *)(arena + layout->barrier_lines + (size_t)writer * PW_LINE);
}

static inline pw_arena_control *pw_arena_control_of(char *arena, const pw_arena_layout *layout) {
    return (pw_arena_control *)(void *)(arena + layout->control);
}

static inline uint64_t *pw_arena_signal(char *arena, size_t offset, unsigned slot) {
    return (uint64_t *)(void *)(arena + offset) + slot;
}

static inline pw_control *pw_pad_control(char *pad) {
    return (pw_control *)(void *)pad;
}

static inline pw_barrier_line *pw_pad_barrier_line(char *pad, const pw_pad_layout *layout, int writer, uint64_t epoch) {
    return (pw_barrier_line *)(void *)(pad + layout->barrier_lines) + PW_BARRIER_TURNS * (size_t)writer +
           epoch % PW_BARRIER_TURNS;
}

static inline pw_reduce_slot *pw_pad_reduce_slot(char *pad, const pw_pad_layout *layout, int writer, uint64_t epoch) {
    return (pw_reduce_slot *)(void *)(pad + layout->reduce_slots) + 2 * (size_t)writer + (epoch & 1);
}

static inline _Atomic uint64_t *pw_pad_signal(char *pad, size_t pad_offset, unsigned slot) {
    return (_Atomic uint64_t *)(void *)(pad + pad_offset) + slot;
}

/* Wakes the owner of a pad if it sleeps, or in any case. The caller has stored what the owner waits for. */
void pw_pad_wake_sleeper(char *pad);
void pw_pad_wake_always(char *pad);

/* Sleeps on my doorbell for at most `milliseconds` unless it has rung since `seen` was read. */
void pw_pad_sleep(char *pad, uint32_t seen, int milliseconds);

#endif
