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
    X(BOX, pw_kernel_box)                                                                                              \
    X(WORD, pw_kernel_word)

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
 * BOX. Rows are made of items, which are dealt to lanes one after the other through all rows and planes, so that the
 * work is split by bytes whatever the shape. Items are either cells, aligned pieces of 16, 8, 4 or 1 bytes, or
 * (`slots`) the places of aligned 16-byte vectors in the target which a row may touch: the first and last of a row may
 * be partly or wholly outside of it.
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

/* WORD. An aligned 64-bit word anywhere. */
enum { PW_WORD_NOTHING = 0, PW_WORD_STORE = 1, PW_WORD_ADD = 2 };
typedef struct {
    uint64_t *word;
    uint64_t value;
    uint32_t op;
} pw_word_args;

#endif
