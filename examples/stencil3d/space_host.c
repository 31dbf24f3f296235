/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fields in ordinary memory, swept by the processor.
 */
#include <stdlib.h>
#include <string.h>

#include "stencil.h"
#include "stencil3d.h"

/* Zeroed now, so that no sweep is the first to touch it. */
static double *host_allocate(struct space *space, size_t count) {
    enum { PAGE = 4096 };
    const size_t bytes = (count * sizeof(double) + PAGE - 1) / PAGE * PAGE;
    double *memory = aligned_alloc(PAGE, bytes);

    (void)space;
    if (memory != NULL)
        memset(memory, 0, bytes);
    return memory;
}

static void host_release(struct space *space, double *memory) {
    (void)space;
    free(memory);
}

static void host_copy(struct space *space, double *to, const double *from, size_t count) {
    (void)space;
    memcpy(to, from, count * sizeof(*to));
}

static void row_of_7(double *restrict next, const double *restrict now, int count, ptrdiff_t row, ptrdiff_t plane) {
    for (int k = 0; k < count; k++)
        next[k] = mean_of_7(now + k, row, plane);
}

static void row_of_27(double *restrict next, const double *restrict now, int count, ptrdiff_t row, ptrdiff_t plane) {
    for (int k = 0; k < count; k++)
        next[k] = mean_of_27(now + k, row, plane);
}

static void sweep_box(const struct block *b, const double *now, double *next, const struct box *box) {
    const ptrdiff_t first = first_cell(b, box);

    for (int i = 0; i < box->cells[0]; i++)
        for (int j = 0; j < box->cells[1]; j++) {
            const ptrdiff_t c = first + i * b->plane + j * b->row;
            if (b->points == DIRECTIONS)
                row_of_27(next + c, now + c, box->cells[2], b->row, b->plane);
            else
                row_of_7(next + c, now + c, box->cells[2], b->row, b->plane);
        }
}

static void host_sweep(struct space *space, const struct block *b, const double *now, double *next,
                       const struct box *boxes, int count) {
    (void)space;
    for (int f = 0; f < b->fields; f++)
        for (int i = 0; i < count; i++)
            sweep_box(b, now + (size_t)f * b->field, next + (size_t)f * b->field, &boxes[i]);
}

/* Everything has ended when it returns. */
static void nothing(struct space *space) {
    (void)space;
}

static struct space host = {
    .name = "host",
    .on_host = true,
    .allocate = host_allocate,
    .release = host_release,
    .store = host_copy,
    .load = host_copy,
    .fork = nothing,
    .join = nothing,
    .sweep = host_sweep,
    .close = nothing,
};

struct space *space_host_open(void) {
    return &host;
}
