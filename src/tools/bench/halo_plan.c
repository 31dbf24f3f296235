/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See halo_plan.h. A face is tagged with its field and with the side on which it goes out.
 */
#include "halo_plan.h"

#include "text.h"

#include <stdio.h>
#include <string.h>

static peerwin_face face_of(const halo_shape *s, const halo_face *face, peerwin_win *win, int field, bool ghosts) {
    const size_t elem = (size_t)s->elem;
    peerwin_face out = {.peer = face->peer, .win = win};
    out.tag = field * SHAPE_SIDES + (ghosts ? face->side ^ 1 : face->side);
    out.box.offset = (size_t)shape_field(s) * (size_t)field + (size_t)(ghosts ? face->recv : face->send);
    out.box.count[0] = face->count[0] * elem;
    out.box.count[1] = face->count[1];
    out.box.count[2] = face->count[2];
    out.box.stride[0] = s->dims > 1 ? (size_t)shape_pitch(s, s->dims - 2) : 0;
    out.box.stride[1] = s->dims > 2 ? (size_t)shape_pitch(s, s->dims - 3) : 0;
    return out;
}

peerwin_halo *halo_plan_make(const bench *b, peerwin_ctx *ctx, peerwin_win *win, const halo_shape *shape) {
    peerwin_face send[SHAPE_SIDES * SHAPE_MOST_FIELDS], recv[SHAPE_SIDES * SHAPE_MOST_FIELDS];
    halo_face faces[SHAPE_SIDES];
    peerwin_halo *plan = NULL;
    int count = 0;
    const int sides = shape_faces(shape, b->rank, faces);
    for (int field = 0; field < shape->fields; field++)
        for (int i = 0; i < sides; i++, count++) {
            send[count] = face_of(shape, &faces[i], win, field, false);
            recv[count] = face_of(shape, &faces[i], win, field, true);
        }
    bench_check(peerwin_halo_create(ctx, count, send, count, recv, 0, &plan), "peerwin_halo_create");
    return plan;
}

void halo_plan_name(const halo_shape *shape, const char *what, char *name, size_t size) {
    size_t used = 0;
    text_format(name, size, "halo%s", what);
    for (int d = 0; d < shape->dims; d++) {
        used = strlen(name);
        text_format(name + used, size - used, "%c%d", d == 0 ? '-' : 'x', shape->grid[d]);
    }
    const struct {
        char letter;
        int value, usual;
    } more[] = {{'d', shape->depth, 1}, {'f', shape->fields, 1}, {'e', shape->elem, 8}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        used = strlen(name);
        if (more[i].value != more[i].usual)
            text_format(name + used, size - used, "-%c%d", more[i].letter, more[i].value);
    }
}

halo_shape halo_shape_of(int ranks, const options_halo *block, bool cut_fastest) {
    halo_shape s = {.dims = block->dims,
                    .periodic = {1, 1, 1},
                    .cells = {block->cells, block->cells, block->cells},
                    .depth = block->depth,
                    .fields = block->fields,
                    .elem = block->elem};
    if (!cut_fastest)
        MPI_Dims_create(ranks, s.dims, s.grid);
    for (int d = 0; cut_fastest && d < s.dims; d++)
        s.grid[d] = d == s.dims - 1 ? ranks : 1;
    return s;
}
