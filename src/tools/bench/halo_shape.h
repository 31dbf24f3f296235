/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The blocks whose ghosts are exchanged, and where their faces lie: one piece of arithmetic for peerwin's side, the
 * baselines and the NVSHMEM program. Compiles as C11 and as C++17.
 *
 * A rank has `fields` arrays of the same block, one behind the other. Dimension 0 varies slowest. Sides are numbered
 * 2 d (low) and 2 d + 1 (high); what goes out on side s comes in on side s ^ 1 of the neighbour. Ranks lie on the grid
 * as MPI_Cart_create puts them, the last dimension varying fastest.
 */
#ifndef PEERWIN_BENCH_HALO_SHAPE_H
#define PEERWIN_BENCH_HALO_SHAPE_H

#include <stddef.h>
#include <stdint.h>

enum { SHAPE_DIMS = 3, SHAPE_SIDES = 2 * SHAPE_DIMS, SHAPE_ALIGN = 256, SHAPE_MOST_FIELDS = 16, SHAPE_MOST_ELEM = 16 };

typedef struct {
    int dims;
    int grid[SHAPE_DIMS]; /* ranks in each dimension */
    int periodic[SHAPE_DIMS];
    int cells[SHAPE_DIMS]; /* of the inside */
    int depth;             /* of the ghosts */
    int fields;
    int elem; /* bytes of an element */
} halo_shape;

/* One side of a block; the same in every field. Offsets are from the begin of a field. */
typedef struct {
    int side;
    int peer;          /* the rank there */
    uint64_t send;     /* the outermost cells of the inside */
    uint64_t recv;     /* the ghosts */
    uint64_t theirs;   /* where the peer has what it sends into my ghosts */
    uint32_t count[3]; /* elements, the dimension that varies fastest first */
    uint32_t cells;    /* all of them */
} halo_face;

static inline uint64_t shape_pitch(const halo_shape *s, int d) {
    uint64_t bytes = (uint64_t)s->elem;
    for (int k = s->dims - 1; k > d; k--)
        bytes *= (uint64_t)(s->cells[k] + 2 * s->depth);
    return bytes;
}

/* From one field to the next. */
static inline uint64_t shape_field(const halo_shape *s) {
    const uint64_t bytes = shape_pitch(s, -1);
    return (bytes + SHAPE_ALIGN - 1) / SHAPE_ALIGN * SHAPE_ALIGN;
}

static inline uint64_t shape_bytes(const halo_shape *s) {
    return shape_field(s) * (uint64_t)s->fields;
}

/* The rank beside `rank` on that side, -1 if there is none. */
static inline int shape_peer(const halo_shape *s, int rank, int side) {
    const int d = side / 2;
    int below = 1, coordinate, next;
    for (int k = s->dims - 1; k > d; k--)
        below *= s->grid[k];
    coordinate = rank / below % s->grid[d];
    next = coordinate + (side % 2 == 0 ? -1 : 1);
    if ((next < 0 || next >= s->grid[d]) && !s->periodic[d])
        return -1;
    next = (next + s->grid[d]) % s->grid[d];
    return rank + (next - coordinate) * below;
}

/* The first cell of a side in its own dimension: of the inside, or of the ghosts. */
static inline uint64_t shape_first(const halo_shape *s, int side, int ghosts) {
    if (side % 2 == 0)
        return ghosts ? 0 : (uint64_t)s->depth;
    return (uint64_t)(ghosts ? s->cells[side / 2] + s->depth : s->cells[side / 2]);
}

static inline halo_face shape_face(const halo_shape *s, int side, int peer) {
    const int own = side / 2;
    uint64_t corner = 0;
    halo_face face;
    face.side = side;
    face.peer = peer;
    face.cells = 1;
    for (int n = 0; n < SHAPE_DIMS; n++) {
        const int d = s->dims - 1 - n;
        face.count[n] = (uint32_t)(d < 0 ? 1 : d == own ? s->depth : s->cells[d]);
        face.cells *= face.count[n];
        if (d >= 0 && d != own)
            corner += (uint64_t)s->depth * shape_pitch(s, d);
    }
    face.send = corner + shape_first(s, side, 0) * shape_pitch(s, own);
    face.recv = corner + shape_first(s, side, 1) * shape_pitch(s, own);
    face.theirs = corner + shape_first(s, side ^ 1, 0) * shape_pitch(s, own);
    return face;
}

/* Bytes of a face, of all fields. */
static inline uint64_t shape_face_bytes(const halo_shape *s, const halo_face *face) {
    return (uint64_t)face->cells * (uint64_t)s->elem * (uint64_t)s->fields;
}

/* Where the packed face that comes in on a side lies: the same on every rank, all fields of a side together. */
static inline uint64_t shape_slot(const halo_shape *s, int side) {
    uint64_t at = 0;
    for (int k = 0; k < side; k++) {
        const halo_face face = shape_face(s, k, 0);
        at += (shape_face_bytes(s, &face) + SHAPE_ALIGN - 1) / SHAPE_ALIGN * SHAPE_ALIGN;
    }
    return at;
}

/* All sides of a rank that have a neighbour; how many. */
static inline int shape_faces(const halo_shape *s, int rank, halo_face faces[SHAPE_SIDES]) {
    int count = 0;
    for (int side = 0; side < 2 * s->dims; side++) {
        const int peer = shape_peer(s, rank, side);
        if (peer >= 0)
            faces[count++] = shape_face(s, side, peer);
    }
    return count;
}

/*
 * Packed faces that go to another rank, or come from one, and lie together: one transfer. A sender packs a face where
 * the receiver will have it.
 */
typedef struct {
    int peer;
    uint64_t at, bytes;
} halo_range;

static inline int shape_ranges(const halo_shape *s, int rank, int sent, halo_range ranges[SHAPE_SIDES]) {
    int count = 0;
    for (int slot = 0; slot < 2 * s->dims; slot++) {
        const int side = sent ? slot ^ 1 : slot, peer = shape_peer(s, rank, side);
        const halo_face face = shape_face(s, side, peer);
        const uint64_t at = shape_slot(s, slot), bytes = shape_face_bytes(s, &face);
        halo_range *last = count > 0 ? &ranges[count - 1] : NULL;
        if (peer < 0 || peer == rank)
            continue;
        if (last != NULL && last->peer == peer && at - last->at - last->bytes < SHAPE_ALIGN) {
            last->bytes = at + bytes - last->at;
            continue;
        }
        ranges[count].peer = peer;
        ranges[count].at = at;
        ranges[count++].bytes = bytes;
    }
    return count;
}

/* Bytes that a rank sends, to itself too. */
static inline uint64_t shape_sent(const halo_shape *s, int rank) {
    halo_face faces[SHAPE_SIDES];
    const int count = shape_faces(s, rank, faces);
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += shape_face_bytes(s, &faces[i]);
    return bytes;
}

#endif
