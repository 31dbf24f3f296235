/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the host and the kernels (transfer/kernels.cu) have in common: the list of kernels and their arguments, one
 * struct each. Plain C, which is CUDA C++ too.
 */
#ifndef PW_MEMORY_KERNELS_H
#define PW_MEMORY_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* X(NAME, function) */
#define PW_KERNELS(X)                                                                                                  \
    X(COPY, pw_kernel_copy)                                                                                            \
    X(COPY_SIGNAL, pw_kernel_copy_signal)                                                                              \
    X(BOX, pw_kernel_box)                                                                                              \
    X(WORD, pw_kernel_word)                                                                                            \
    X(DISTANCE, pw_kernel_distance)                                                                                    \
    X(BARRIER, pw_kernel_barrier)                                                                                      \
    X(REDUCE, pw_kernel_reduce)                                                                                        \
    X(PUSH, pw_kernel_push)                                                                                            \
    X(AWAIT, pw_kernel_await)

enum {
#define PW_KERNEL_ENTRY(name, function) PW_KERNEL_##name,
    PW_KERNELS(PW_KERNEL_ENTRY)
#undef PW_KERNEL_ENTRY
        PW_NUM_KERNELS
};

/* Lanes of a block of COPY and BOX, and blocks that a multiprocessor has room for. */
enum { PW_KERNEL_LANES = 128, PW_KERNEL_RESIDENT = 8 };

/*
 * COPY. The middle are `vectors` vectors of 16 bytes, aligned at the target, `per_block` to a block; the block after
 * the last of them copies the bytes before and after the middle, one by one. Where the source is not aligned there,
 * the 32 bytes from which each vector is cut lie within the source too.
 */
typedef struct {
    char *to;
    const char *from;
    uint64_t bytes;
    uint64_t head; /* bytes before the middle */
    uint64_t vectors;
    uint32_t per_block; /* vectors, a multiple of PW_KERNEL_LANES */
    uint32_t blocks;    /* of the middle */
} pw_copy_args;

/*
 * COPY_SIGNAL. The same, and then a word: WORD's `op` by the block that is done last. `ticket` counts the blocks that
 * are, is 0 before and after, and belongs to this launch alone as long as that lasts.
 */
typedef struct {
    pw_copy_args copy;
    uint64_t *word;
    uint64_t value;
    uint32_t *ticket;
    uint32_t op;
    uint32_t one_device; /* fences need not reach further */
} pw_copy_signal_args;

/*
 * BOX. Rows are made of items, which are dealt to lanes one after the other through all rows and planes, so that the
 * work is split by bytes whatever the shape. Items are either cells, aligned pieces of 16, 8, 4, 2 or 1 bytes,
 * or (`slots`) the places of aligned 16-byte vectors in the target which a row may touch: the first and last of a row
 * may be partly or wholly outside of it.
 */
typedef struct {
    char *to; /* the first row */
    const char *from;
    uint64_t to_row, to_plane;
    uint64_t from_row, from_plane;
    uint64_t row_bytes;
    uint64_t items;     /* in all */
    uint64_t per_row;   /* items */
    uint64_t per_plane; /* rows */
    /* PW_KERNEL_LANES items on are so many items and rows, and so many bytes at either end; each time that the items
       reach the end of a row, or the rows that of a plane, so many bytes more. */
    uint64_t step_item, step_row;
    int64_t step_to, step_from;
    int64_t row_end_to, row_end_from;
    int64_t plane_end_to, plane_end_from;
    uint32_t per_block; /* items, a multiple of PW_KERNEL_LANES */
    uint32_t cell;      /* bytes, divides every address, stride and length here */
    uint32_t slots;
} pw_box_args;

/* The largest cell that addresses, strides and lengths are multiples of, all of them or-ed together. */
static inline uint32_t pw_cell_of(uint64_t bits) {
    return bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : bits % 2 == 0 ? 2 : 1;
}

/* WORD. An aligned 64-bit word anywhere. */
enum { PW_WORD_NOTHING = 0, PW_WORD_STORE = 1, PW_WORD_ADD = 2 };
typedef struct {
    uint64_t *word;
    uint64_t value;
    uint32_t op;
} pw_word_args;

/*
 * DISTANCE. How long additions take from where this kernel runs to words at `lines`, of each of `count` places `step`
 * bytes apart, together: a number of cycles per place, to `out`. Nothing is added. With `count` 0 nothing is done.
 */
enum { PW_DISTANCE_LINES = 4 };

typedef struct {
    char *first;
    uint64_t *out;
    uint32_t step;
    uint32_t count;
    uint32_t num_lines;
    uint32_t lines[PW_DISTANCE_LINES];
} pw_distance_args;

/*
 * Kernels that ranks meet in. They wait: until what they wait for is there, or `broken` is not 0, or for `patience`
 * nanoseconds (UINT64_MAX = without end), after which they set `broken`, so that no later one waits, and tell the host
 * in `report`. Whoever gives up ends its epoch as well, so that streams that await the end of it go on.
 */
typedef struct {
    uint64_t *epoch; /* of the series: the last one that is over */
    uint64_t next;   /* the epoch of this one, */
    uint32_t known;  /* if the launch knows it: a kernel in a graph looks for itself */
    uint64_t *broken;
    uint64_t *report; /* host memory */
    uint64_t patience;
    uint32_t one_device; /* all ranks are on it: fences need not reach further */
} pw_meeting;

/* Ranks written to by one launch, and lanes of its block; a meeting of more ranks takes several launches. */
enum { PW_MEETING_PEERS = 64, PW_MEETING_LANES = 128 };

/* BARRIER. The last launch of a barrier also waits, and ends it. */
typedef struct {
    pw_meeting meeting;
    char *lines; /* mine, one per writer */
    uint32_t size;
    uint32_t waits;
    uint32_t num_peers;
    char *peers[PW_MEETING_PEERS]; /* my line at each of them, myself among them */
} pw_barrier_args;

/* REDUCE. Publishing and combining may be launched apart, with something between that makes them wait for nothing. */
enum { PW_REDUCE_PUBLISH = 1, PW_REDUCE_COMBINE = 2 };
typedef struct {
    pw_meeting meeting;
    void *values;
    char *slots; /* mine, two per writer */
    uint32_t size;
    uint32_t count;
    uint32_t type; /* peerwin_type */
    uint32_t op;   /* peerwin_op */
    uint32_t parts;
    uint32_t num_peers;
    uint32_t per_word;             /* 2^32 by the words of a rank, rounded up: to divide by them */
    char *peers[PW_MEETING_PEERS]; /* my two slots at each of them, myself among them */
} pw_reduce_args;

/*
 * PUSH. All moves of a halo plan in one launch. A move takes items, cells or slots as of BOX, from one box to another;
 * the boxes may have different rows. Moves are cut into parts of about as many items, one for each warp, so that the
 * work is the same everywhere whatever the faces are. The blocks of a target push to one rank, and tell it when the
 * last of them is done. The table that says all this is device memory of the plan, written once, but for the tickets.
 *
 * What came packed is unpacked by the same kernel: then the `grant` of a block is the arrival of the rank that it came
 * from, and nobody is told.
 */
enum { PW_PUSH_WARP = 32, PW_PUSH_WARPS = 8, PW_PUSH_LANES = PW_PUSH_WARP * PW_PUSH_WARPS, PW_PUSH_RESIDENT = 3 };

/* n / d for n < 2^31 is n * factor >> shift. */
typedef struct {
    uint32_t factor, shift;
} pw_divisor;

typedef struct {
    char *base;
    uint64_t row, plane;         /* pitches in bytes */
    uint64_t per_row, per_plane; /* items, rows */
    pw_divisor by_row, by_plane; /* the same, if the move is not wide */
} pw_push_side;

typedef struct {
    pw_push_side to, from;
    uint64_t row_bytes; /* of slots */
    uint32_t cell;      /* bytes, divides every address, stride and length here */
    uint8_t even;       /* the boxes have the same rows and planes */
    uint8_t slots;      /* ... and items are slots */
    uint8_t wide;       /* 2^31 items or more */
    uint8_t words;      /* one side are words that carry their epoch, see below */
} pw_push_move;

typedef struct {
    uint64_t first; /* item */
    uint32_t count; /* items; 0 = nothing to do */
    uint32_t move;
} pw_push_part;

/*
 * Small faces go to words at the target: 4 or 2 bytes of the face and 32 bits of the epoch each, so that whoever sees
 * the epoch has the bytes, and nothing need be fenced or told. There are two halves, used by turns, `plane` bytes
 * apart; cells of 8 bytes take two words, those of 4 or 2 one. Such a block waits for the grant of an exchange before:
 * `behind`.
 */
typedef struct {
    const uint64_t *grant; /* mine: the target's permission; NULL = none is needed */
    uint64_t *arrival;     /* at the target; NULL = it is not told */
    uint32_t ticket;       /* its number */
    uint32_t blocks;       /* of the target */
    uint32_t behind;
    uint32_t unused;
} pw_push_block;

/*
 * The first block gives the grants, if there are any, and the others follow it. `over` is for graphs, in which the
 * kernels of start and finish look for the epoch in words of their own, and each counts that of the other.
 */
typedef struct pw_push_args {
    pw_meeting meeting;
    const pw_push_block *blocks;
    const pw_push_part *parts; /* PW_PUSH_WARPS per block */
    const pw_push_move *moves;
    uint32_t *tickets;       /* one per target: count its blocks that are done, are 0 before and after */
    uint64_t *const *grants; /* words at the ranks that push to this one */
    uint64_t *over;          /* `num_over` words that become the epoch `behind` this one; NULL = nothing does */
    uint32_t num_over;
    uint32_t num_grants;
    uint32_t num_blocks;
    uint32_t waits; /* for the targets' grants; else the stream has */
    uint32_t apart; /* every part has a move of its own, that of its number: one step less in a row */
    uint32_t behind;
    /* If start and finish are one kernel, further blocks take words, as of AWAIT. In graphs each block then counts in a
       word of its own, since others may look before or after. */
    uint32_t num_takes; /* blocks */
    uint32_t take_apart;
    const pw_push_part *take_parts;
    const pw_push_move *take_moves;
    uint32_t apiece;
} pw_push_args;

/*
 * AWAIT. Its first block stores the epoch into some words, a release, waits for it in others, an acquire, and says that
 * it is over; further ones take words that came and store what they carry.
 */
typedef struct pw_await_args {
    pw_meeting meeting;
    uint64_t *const *stores;
    const uint64_t *const *waits;
    const pw_push_part *parts;
    const pw_push_move *moves;
    uint64_t *over; /* as of PUSH */
    uint32_t num_over;
    uint32_t num_stores;
    uint32_t num_waits;
    uint32_t num_blocks; /* that take words */
    uint32_t behind;     /* `over` becomes the epoch that far before this one */
    uint32_t apart;
} pw_await_args;

#endif
