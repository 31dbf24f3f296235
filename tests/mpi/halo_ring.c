/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A ring of blocks; see halo_ring.h.
 */
#include "mpi/halo_ring.h"

#include <string.h>

#include "support/memory.h"

enum { LOW_GHOST = 0, LOW_FACE = 1, HIGH_FACE = 2, HIGH_GHOST = 3 };

int right_of(int rank) {
    return (rank + 1) % job.size;
}

int left_of(int rank) {
    return (rank + job.size - 1) % job.size;
}

static size_t place(const ring *r, int part, size_t i) {
    return r->step == sizeof(double) ? ((size_t)part * CELLS + i) * sizeof(double)
                                     : i * r->step + (size_t)part * sizeof(double);
}

static peerwin_box part_box(const ring *r, int part) {
    if (r->step == sizeof(double)) {
        return (peerwin_box){.offset = place(r, part, 0), .count = {CELLS * sizeof(double), 1, 1}};
    }
    return (peerwin_box){.offset = place(r, part, 0), .count = {sizeof(double), CELLS, 1}, .stride = {r->step}};
}

peerwin_halo *ring_plan(const ring *r, unsigned flags) {
    peerwin_halo *halo = NULL;
    const peerwin_face send[] = {{left_of(job.rank), 0, r->win, part_box(r, LOW_FACE)},
                                 {right_of(job.rank), 1, r->win, part_box(r, HIGH_FACE)}};
    const peerwin_face recv[] = {{left_of(job.rank), 1, r->win, part_box(r, LOW_GHOST)},
                                 {right_of(job.rank), 0, r->win, part_box(r, HIGH_GHOST)}};
    CHECK_OK(peerwin_halo_create(r->ctx, 2, send, 2, recv, flags, &halo));
    return halo;
}

ring ring_new(int timeout_ms, size_t step) {
    ring r = {.ctx = test_context(MPI_COMM_WORLD, timeout_ms), .step = step};
    r.win = test_window(r.ctx, (size_t)CELLS * ROW);
    r.halo = ring_plan(&r, 0);
    return r;
}

void ring_free(ring *r) {
    CHECK_OK(peerwin_halo_free(r->halo));
    test_free(r->ctx, r->win);
}

static double value(int rank, int step, int part, size_t i) {
    return rank * 1e9 + step * 1e4 + part * 1e3 + (double)i;
}

/* Both faces lie beside each other: in a thick part at once, or in every row. */
void ring_write(const ring *r, int step) {
    double cells[2 * CELLS];
    const int thin = r->step != sizeof(double);
    for (size_t i = 0; i < CELLS; i++) {
        cells[thin ? 2 * i : i] = value(job.rank, step, LOW_FACE, i);
        cells[thin ? 2 * i + 1 : CELLS + i] = value(job.rank, step, HIGH_FACE, i);
    }
    if (!thin) {
        segment_store(r->win, place(r, LOW_FACE, 0), cells, sizeof(cells));
        return;
    }
    for (size_t i = 0; i < CELLS; i++) {
        segment_store(r->win, place(r, LOW_FACE, i), &cells[2 * i], 2 * sizeof(double));
    }
}

void ring_check(const ring *r, int step) {
    unsigned char all[CELLS * ROW];
    segment_load(r->win, 0, all, sizeof(all));
    for (size_t i = 0; i < CELLS; i++) {
        double low;
        double high;
        memcpy(&low, all + place(r, LOW_GHOST, i), sizeof(low));
        memcpy(&high, all + place(r, HIGH_GHOST, i), sizeof(high));
        CHECK(low == value(left_of(job.rank), step, HIGH_FACE, i));
        CHECK(high == value(right_of(job.rank), step, LOW_FACE, i));
    }
}
