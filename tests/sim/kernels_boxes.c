/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Boxes of many shapes through launch.h, against plain loops.
 */
#include "kernels_arena.h"

#include <string.h>

static uint32_t random_state = 12345;

static size_t below(size_t limit) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % limit;
}

/* Bytes that a box spans from its first on. */
static size_t span(const peerwin_box *box) {
    return box->count[0] + (box->count[1] - 1) * box->stride[0] + (box->count[2] - 1) * box->stride[1];
}

static void box_as_a_loop(const peerwin_box *to, const peerwin_box *from) {
    for (size_t plane = 0; plane < to->count[2]; plane++)
        for (size_t row = 0; row < to->count[1]; row++)
            memcpy(wanted + to->offset + row * to->stride[0] + plane * to->stride[1],
                   given + from->offset + row * from->stride[0] + plane * from->stride[1], to->count[0]);
}

static void box(const peerwin_box *to, const peerwin_box *from, const char *what) {
    const size_t end = to->offset + span(to) + 512;
    CHECK(end <= ARENA && from->offset + span(from) <= ARENA);
    begin(end);
    box_as_a_loop(to, from);
    OK(pw_launch_box(gpu, NULL, bare_pointer(target), to, bare_pointer(source), from, &bare_site));
    compare(end, end, what);
}

/* Pitches of `unit` bytes that leave rows apart, or with luck without a gap. */
static void give_pitches(peerwin_box *b, size_t unit) {
    b->stride[0] = b->count[0] + unit * below(below(2) ? 1 : 20);
    b->stride[1] = b->stride[0] * b->count[1] + unit * below(below(2) ? 1 : 50);
    b->offset = 256 + unit * below(64);
}

static void random_boxes(int times) {
    static const size_t units[] = {1, 2, 4, 8, 16};
    for (int i = 0; i < times; i++) {
        const size_t unit = units[below(5)];
        const size_t cells = 1 + below(i % 4 == 0 ? 3 : i % 4 == 1 ? 20 : 200);
        peerwin_box to = {.count = {unit * cells, 1 + below(30), 1 + below(12)}};
        peerwin_box from = to;
        give_pitches(&to, unit);
        give_pitches(&from, unit);
        if (i % 5 == 0)
            from.stride[0] = unit * below(8); /* rows of the source may overlap, or be the same */
        char what[160];
        snprintf(what, sizeof what, "box %d: %zu x %zu x %zu bytes, to %zu:%zu:%zu from %zu:%zu:%zu", i, to.count[0],
                 to.count[1], to.count[2], to.offset, to.stride[0], to.stride[1], from.offset, from.stride[0],
                 from.stride[1]);
        box(&to, &from, what);
    }
}

/* The faces of a field of 40 x 44 x 48 doubles with ghosts one element wide. */
static void faces_of_a_field(void) {
    static const struct {
        const char *name;
        size_t count[3], to, from;
    } faces[] = {{"x-face", {8, 42, 38}, 0, 46},
                 {"y-face", {8 * 46, 1, 38}, 1, 42 * 48 + 1},
                 {"z-face", {8 * 46, 42, 1}, 1, 49}};
    const size_t row = 48 * 8, plane = 44 * row;
    for (size_t i = 0; i < sizeof faces / sizeof *faces; i++) {
        peerwin_box to = {.offset = plane + row + 8 * faces[i].to, .stride = {row, plane}};
        peerwin_box from = {.offset = plane + row + 8 * faces[i].from, .stride = {row, plane}};
        memcpy(to.count, faces[i].count, sizeof to.count);
        memcpy(from.count, faces[i].count, sizeof from.count);
        box(&to, &from, faces[i].name);
        from.offset += 3; /* as if the field began anywhere */
        box(&to, &from, faces[i].name);
    }
}

/* The pitch of what there is one of means nothing. */
static void pitches_that_do_not_count(void) {
    peerwin_box to = {.offset = 8, .count = {24, 9, 1}, .stride = {40, SIZE_MAX}};
    peerwin_box from = {.offset = 16, .count = {24, 9, 1}, .stride = {32, 3}};
    size_t end = to.offset + 9 * 40 + 512;
    begin(end);
    box_as_a_loop(&to, &from);
    OK(pw_launch_box(gpu, NULL, bare_pointer(target), &to, bare_pointer(source), &from, &bare_site));
    compare(end, end, "a box of one plane");
}

static void boxes_by_few_blocks(void) {
    const int real = gpu->about.multiprocessors;
    gpu->about.multiprocessors = 1;
    peerwin_box thin = {.offset = 8, .count = {8, 300, 200}, .stride = {32, 9728}};
    peerwin_box from_thin = {.offset = 24, .count = {8, 300, 200}, .stride = {16, 4832}};
    box(&thin, &from_thin, "a thin box by few blocks");
    peerwin_box wide = {.offset = 9, .count = {3000, 20, 30}, .stride = {3333, 66667}};
    peerwin_box from_wide = {.offset = 21, .count = {3000, 20, 30}, .stride = {3021, 60543}};
    box(&wide, &from_wide, "a wide box by few blocks");
    gpu->about.multiprocessors = real;
}

/* Rows that begin with the first byte of memory, or end with the last. */
static void boxes_at_the_ends_of_memory(void) {
    for (size_t i = 0; i < 256; i++) {
        peerwin_box to = {.offset = 256 + i / 16, .count = {50 + i % 47, 3, 2}, .stride = {171, 541}};
        peerwin_box from = {.offset = i % 16, .count = {50 + i % 47, 3, 2}, .stride = {131, 401}};
        box(&to, &from, "a box at the beginning of memory");
        from.offset = ARENA - span(&from) - i % 16;
        box(&to, &from, "a box at the end of memory");
    }
}

/* The wide loads of a row stay within it. */
static void boxes_read_their_rows_only(void) {
    for (size_t i = 0; i < 256; i++) {
        peerwin_box to = {.offset = 256 + i / 16, .count = {50 + i % 47, 3, 2}, .stride = {171, 541}};
        peerwin_box from = {.offset = 64 + i % 16, .count = {50 + i % 47, 3, 2}, .stride = {160, 800}};
        forbid_sources();
        for (size_t row = 0; row < 6; row++)
            allow_source(from.offset + row % 3 * from.stride[0] + row / 3 * from.stride[1], from.count[0]);
        box(&to, &from, "a box that reads nothing else");
        allow_sources();
    }
}

void boxes_are_right(void) {
    faces_of_a_field();
    random_boxes(600);
    pitches_that_do_not_count();
    boxes_at_the_ends_of_memory();
    boxes_read_their_rows_only();
    boxes_by_few_blocks();
}
