/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Random lists of faces with any shapes at both ends, in up to eight windows: every byte of every window is what it
 * was, or what came to it.
 */
#include <stdlib.h>

#include "mpi/halo_random.h"
#include "support/memory.h"

enum { MOST_FACES = 40, WINDOWS = 8, ROOM = 16 << 10 };

/* A pair of faces, as all ranks know it. */
typedef struct {
    int from, to, tag, send_window, recv_window;
    peerwin_box send, recv;
} pair;

/* Where the next box of each rank and window goes. */
typedef struct {
    size_t used[MOST_RANKS][WINDOWS];
} ledger;

static size_t bytes_of(const peerwin_box *box) {
    return box->count[0] * box->count[1] * box->count[2];
}

/* So many bytes as rows, of whole units, and planes. */
static void draw_counts(uint64_t *state, size_t bytes, size_t unit, size_t count[3]) {
    count[0] = bytes / unit;
    count[1] = count[2] = 1;
    for (int d = 1; d < 3; d++) {
        for (size_t n = test_random_in(state, 1, d == 1 ? 9 : 7); n > 1 && bytes > 0; n--) {
            if (count[0] % n == 0) {
                count[0] /= n;
                count[d] = n;
                break;
            }
        }
    }
    count[0] *= unit;
}

/* A box of these counts in memory of its own, gaps included. Pitches and place are of whole units, but for `shift`
 * bytes.
 */
static peerwin_box lay_box(uint64_t *state, const size_t count[3], size_t unit, size_t shift, size_t *used) {
    peerwin_box box = {.offset = (*used + unit - 1) / unit * unit + shift, .count = {count[0], count[1], count[2]}};
    box.stride[0] = count[0] + test_random_in(state, 0, 2) * test_random_in(state, 0, 9) / unit * unit;
    box.stride[1] = count[1] * box.stride[0] + test_random_in(state, 0, 1) * test_random_in(state, 0, 40) / unit * unit;
    if (test_random_in(state, 0, 4) == 0) { /* rows and planes change places */
        size_t stride = box.stride[0];
        box.stride[0] = box.stride[1];
        box.stride[1] = stride;
        box.count[1] = count[2];
        box.count[2] = count[1];
    }
    *used += count[2] * (count[1] * (count[0] + 18) + 40) + unit + shift;
    return box;
}

static peerwin_box draw_box(uint64_t *state, size_t bytes, size_t unit, size_t shift, size_t *used) {
    size_t count[3];
    draw_counts(state, bytes, unit, count);
    return lay_box(state, count, unit, shift, used);
}

/* The memory of all fields is taken to the same place, so that a box may be in each. */
static void level(ledger *l, int rank) {
    size_t most = 0;
    for (int w = 0; w < WINDOWS; w++) {
        most = l->used[rank][w] > most ? l->used[rank][w] : most;
    }
    for (int w = 0; w < WINDOWS; w++) {
        l->used[rank][w] = most;
    }
}

/* What came up in the lists of a job. */
typedef struct {
    uint64_t elems, fields, faces;
    uint64_t even, odd; /* element sizes of faces that go by 2 bytes, and of those at odd places */
} coverage;

enum { FACE_EMPTY = 0, FACE_SELF = 1, FACE_AGAIN = 2, FACE_BESIDE = 3, FACE_PITCH = 4, FACE_AWAY = 5 };

/* A pair of so many elements; the face that is sent may be one that is sent elsewhere, too. */
static pair draw_pair(uint64_t *state, ledger *l, int tag, size_t elem, const pair *before) {
    const size_t last = (size_t)job.size - 1;
    const size_t unit = test_random_in(state, 0, 1) == 0 ? elem : 1;
    size_t bytes = test_random_in(state, 0, 5) == 0 ? 0 : elem * test_random_in(state, 1, 600 / elem);
    pair p = {.from = (int)test_random_in(state, 0, last), .to = (int)test_random_in(state, 0, last), .tag = tag};
    p.send_window = (int)test_random_in(state, 0, WINDOWS - 1);
    p.recv_window = (int)test_random_in(state, 0, WINDOWS - 1);
    if (before != NULL) {
        p.from = before->from;
        p.send_window = before->send_window;
        p.send = before->send;
        bytes = bytes_of(&before->send);
    } else {
        p.send = draw_box(state, bytes, unit, test_random_in(state, 0, 3) / 3, &l->used[p.from][p.send_window]);
    }
    p.recv = draw_box(state, bytes, unit, test_random_in(state, 0, 3) / 3, &l->used[p.to][p.recv_window]);
    return p;
}

/* Rows of an odd number of elements, many of them thin. */
static void draw_field(uint64_t *state, size_t elem, size_t count[3]) {
    const int thin = test_random_in(state, 0, 3) != 0;
    const size_t most = thin ? 48 / elem : 600 / elem;
    count[0] = elem * (2 * test_random_in(state, 0, (most - 1) / 2) + 1);
    count[1] = thin ? test_random_in(state, 2, 9) : 1;
    count[2] = thin ? test_random_in(state, 1, 3) : 1;
}

/* Rows further from each other, unless they have changed places with planes. */
static void widen(peerwin_box *box, size_t unit, size_t *used) {
    if (box->stride[1] >= box->count[1] * box->stride[0]) {
        box->stride[0] += unit;
        box->stride[1] += unit * box->count[1];
        *used += unit * box->count[1] * box->count[2];
    }
}

/*
 * A face of `fields` fields: the same boxes in as many windows, but that the last one may have other pitches where it
 * is received. Returns how many pairs.
 */
static int draw_fields(uint64_t *state, ledger *l, int tag, size_t elem, int fields, pair *pairs) {
    size_t count[3];
    pair p = draw_pair(state, l, tag, elem, NULL);
    pair *last = &pairs[fields - 1];
    draw_field(state, elem, count);
    level(l, p.from);
    level(l, p.to);
    p.send = lay_box(state, count, elem, 0, &l->used[p.from][0]);
    level(l, p.from);
    p.recv = lay_box(state, count, elem, 0, &l->used[p.to][0]);
    level(l, p.to);
    for (int f = 0; f < fields; f++) {
        pairs[f] = p;
        pairs[f].tag = tag - f;
        pairs[f].send_window = pairs[f].recv_window = f;
    }
    if (test_random_in(state, 0, 1) == 0) {
        last->recv = lay_box(state, count, elem, 0, &l->used[p.to][fields - 1]);
        widen(&last->recv, elem, &l->used[p.to][fields - 1]);
    }
    return fields;
}

static int differ_in_pitch(const peerwin_box *a, const peerwin_box *b) {
    return a->count[0] == b->count[0] && a->count[1] == b->count[1] && a->count[1] > 1 && a->stride[0] != b->stride[0];
}

/*
 * AGAIN: the same bytes go out twice. BESIDE: a second face between two ranks, or of a rank with itself. PITCH: as many
 * rows as another one has, further or less far from one another.
 */
static void cover_pair(coverage *seen, const pair *pairs, int i) {
    const pair *p = &pairs[i];
    if (bytes_of(&p->send) == 0) {
        cover(&seen->faces, FACE_EMPTY);
        return;
    }
    cover(&seen->faces, p->from == p->to ? FACE_SELF : FACE_AWAY);
    for (int k = 0; k < i; k++) {
        const pair *q = &pairs[k];
        if (q->from == p->from && q->send_window == p->send_window && q->send.offset == p->send.offset &&
            bytes_of(&q->send) > 0) {
            cover(&seen->faces, FACE_AGAIN);
        } else if (q->from == p->from && q->to == p->to && bytes_of(&q->send) > 0) {
            cover(&seen->faces, FACE_BESIDE);
        }
    }
}

static size_t bits_of(const peerwin_box *box) {
    return box->count[0] | (box->count[1] > 1 ? box->stride[0] : 0) | (box->count[2] > 1 ? box->stride[1] : 0);
}

static void cover_places(coverage *seen, size_t elem, const pair *p) {
    const size_t places = p->send.offset | p->recv.offset;
    if (p->send.count[0] == 0) {
        return;
    }
    if (places % 2 != 0) {
        cover(&seen->odd, elem);
    } else if ((places | bits_of(&p->send) | bits_of(&p->recv)) % 4 == 2) {
        cover(&seen->even, elem);
    }
}

/* The n-th list: element sizes and numbers of fields take turns. */
static int draw_list(uint64_t *state, int n, pair *pairs, coverage *seen) {
    const size_t elem = 1 + (size_t)n % 16;
    const int fields = 1 + (3 * n + n / 8) % WINDOWS;
    const int most =
        n % 17 == 16 ? 0 : (int)test_random_in(state, 8, MOST_FACES / 4 * (size_t)(job.size < 4 ? job.size : 4));
    ledger l = {{{0}}};
    int count = 0;
    if (most > 0) {
        count = draw_fields(state, &l, 100, elem, fields, pairs);
        cover(&seen->elems, elem);
        cover(&seen->fields, (size_t)fields);
        cover_places(seen, elem, pairs);
        if (differ_in_pitch(&pairs[0].recv, &pairs[fields - 1].recv)) {
            cover(&seen->faces, FACE_PITCH);
        }
    }
    while (count < most) {
        const pair *before = count > 0 && test_random_in(state, 0, 5) == 0 ? &pairs[count - 1] : NULL;
        pairs[count] = draw_pair(state, &l, 100 - count, elem, before);
        cover_places(seen, elem, &pairs[count]);
        cover_pair(seen, pairs, count++);
    }
    return count;
}

/* Byte number `at` of a box, in lexicographic order. */
static size_t place_of(const peerwin_box *box, size_t at) {
    size_t row = at / box->count[0];
    return box->offset + row / box->count[1] * box->stride[1] + row % box->count[1] * box->stride[0] +
           at % box->count[0];
}

static void apply(const pair *p, unsigned step, unsigned char *want) {
    for (size_t i = 0; i < bytes_of(&p->recv); i++) {
        size_t source = (size_t)p->send_window * ROOM + place_of(&p->send, i);
        want[(size_t)p->recv_window * ROOM + place_of(&p->recv, i)] = pattern_byte(p->from, step, source);
    }
}

static void exchange_lists(peerwin_win *const *win, peerwin_halo *halo, const pair *pairs, int count) {
    unsigned char *want = host_new((size_t)WINDOWS * ROOM);
    unsigned char *got = host_new(ROOM);
    for (unsigned step = 0; step < 3; step++) {
        pattern_write(want, job.rank, step, (size_t)WINDOWS * ROOM);
        for (int w = 0; w < WINDOWS; w++) {
            segment_store(win[w], 0, want + (size_t)w * ROOM, ROOM);
        }
        CHECK_OK(peerwin_halo_start(halo, job.stream));
        CHECK_OK(peerwin_halo_finish(halo, job.stream));
        for (int i = 0; i < count; i++) {
            if (pairs[i].to == job.rank) {
                apply(&pairs[i], step, want);
            }
        }
        for (int w = 0; w < WINDOWS; w++) {
            segment_load(win[w], 0, got, ROOM);
            check_bytes("a window after an exchange", got, want + (size_t)w * ROOM, ROOM);
        }
    }
    free(want);
    free(got);
}

static void try_list(peerwin_ctx *ctx, peerwin_win *const *win, const pair *pairs, int count) {
    peerwin_face send[MOST_FACES + 1];
    peerwin_face recv[MOST_FACES + 1];
    int sends = 0;
    int recvs = 0;
    peerwin_halo *halo = NULL;
    send[sends++] = recv[recvs++] = (peerwin_face){.peer = MPI_PROC_NULL};
    for (int i = 0; i < count; i++) {
        const pair p = pairs[i];
        if (p.from == job.rank) {
            send[sends++] = (peerwin_face){.peer = p.to, .tag = p.tag, .win = win[p.send_window], .box = p.send};
        }
        if (p.to == job.rank) {
            recv[recvs++] = (peerwin_face){.peer = p.from, .tag = p.tag, .win = win[p.recv_window], .box = p.recv};
        }
    }
    CHECK_OK(peerwin_halo_create(ctx, sends, send, recvs, recv, 0, &halo));
    exchange_lists(win, halo, pairs, count);
    CHECK_OK(peerwin_halo_free(halo));
}

void random_lists_of_faces_arrive_byte_for_byte(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win[WINDOWS];
    uint64_t state = 1129;
    coverage seen = {0};
    for (int w = 0; w < WINDOWS; w++) {
        win[w] = test_window(ctx, ROOM);
    }
    for (int i = 0; i < random_plans(job.size < 5 ? 60 : 32, 64); i++) {
        pair pairs[MOST_FACES];
        const int count = draw_list(&state, i, pairs, &seen);
        try_list(ctx, win, pairs, count);
    }
    check_covered("bytes of an element", seen.elems, 1, 16);
    check_covered("fields", seen.fields, 1, WINDOWS);
    check_covered("kind of face", seen.faces, FACE_EMPTY, job.size > 1 ? FACE_AWAY : FACE_PITCH);
    for (size_t elem = 2; elem <= 14; elem += 4) {
        check_covered("elements that go by 2 bytes", seen.even, elem, elem);
        check_covered("elements at odd places", seen.odd, elem, elem);
    }
    for (int w = 0; w < WINDOWS; w++) {
        CHECK_OK(peerwin_win_free(win[w]));
    }
    CHECK_OK(peerwin_finalize(ctx));
}
