/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The faces of a plan: whether each is in order, whether boxes meet, and which faces of different ranks form a pair.
 */
#ifndef PW_HALO_FACE_H
#define PW_HALO_FACE_H

#include "window/window.h"

/* What a rank gives to a plan. Faces whose peer is MPI_PROC_NULL count as not there. */
typedef struct {
    int num_send, num_recv;
    const peerwin_face *send, *recv;
} pw_faces;

/* A face as other ranks see it. All numbers, so that it travels as it is. */
typedef struct {
    int64_t peer;
    int64_t tag;
    uint64_t bytes;
    uint64_t window;     /* number of the window that its box lies in */
    uint64_t staged;     /* receive faces: 1 if the sender puts it, packed, ... */
    uint64_t place;      /* ... to this offset of the staging area */
    uint64_t words;      /* how many bytes of it a word can carry, 0 = none; ... */
    uint64_t word_place; /* ... receive faces: its place among what words carry, in bytes */
    uint64_t offset, count[3], stride[2];
} pw_face_record;

/* The faces of one rank, in its order. */
typedef struct {
    int num_send, num_recv;
    const pw_face_record *send, *recv;
} pw_face_list;

/* The bytes in a box. The box must have an extent. */
static inline size_t pw_box_bytes(const peerwin_box *box) {
    return box->count[0] * box->count[1] * box->count[2];
}

/* 1 if the two boxes of one segment share a byte. Both have an extent, and fit into a segment. */
int pw_boxes_meet(const peerwin_box *a, const peerwin_box *b);

/*
 * Looks at this rank's faces: ARG, RANGE, UNREACHABLE, PERMISSION, MISMATCH (receive boxes that overlap), STATE (they
 * overlap those of a plan that is alive, unless `shared`).
 */
PEERWIN_MUST_USE peerwin_status pw_faces_check(const peerwin_ctx *ctx, const pw_faces *faces, int shared,
                                               const pw_site *site);

/* The record of a face; it is not staged. */
pw_face_record pw_face_describe(const peerwin_face *face);

/* The box of a record. */
peerwin_box pw_face_box(const pw_face_record *record);

/*
 * Finds the counterpart of each of my faces in the lists of all ranks: MISMATCH if one has none, or another size, or if
 * a pair of (peer, tag) is there twice. targets_out: per send face, its receive face.
 */
PEERWIN_MUST_USE peerwin_status pw_faces_pair(const pw_face_list *lists, int me, const pw_face_record **targets_out,
                                              const pw_site *site);

#endif
