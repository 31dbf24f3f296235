/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Random halo plans, compared byte for byte with what they promise: blocks of Cartesian grids, and lists of faces with
 * any shapes at both ends. All ranks draw the same numbers, so each knows what the others have.
 */
#include <stdlib.h>
#include <string.h>

#include "support/device.h"
#include "support/memory.h"

enum { MOST_DIMS = 3, MOST_BLOCKS = 8, SENTINEL = 0xC7 };

/* How many plans: several hundred in a run of all tests, most of them on few ranks, where they cost less. */
static int plans(int most, int simulated) {
    const int share = job.size <= 2 ? 1 : job.size <= 4 ? 2 : 4;
    return device_is_real() ? most : test_rounds(most, TEST_SANITIZED ? simulated / 2 : simulated / share);
}

/* What came up in the plans of a job, as bits: a generator that leaves something out would test less than it says. */
typedef struct {
    uint64_t elems, dims, depths, fields, flags, walls, faces;
    uint64_t even, odd; /* element sizes of faces that go by 2 bytes, and of those at odd places */
} coverage;

enum { FACE_SELF = 0, FACE_EMPTY = 1, FACE_AGAIN = 2, FACE_ONCE = 3 };

static void cover(uint64_t *set, size_t value) {
    *set |= (uint64_t)1 << value;
}

/* All values from low to high. */
static void check_covered(uint64_t set, size_t low, size_t high) {
    for (size_t value = low; value <= high; value++) {
        if (!(set >> value & 1)) {
            test_fail(__FILE__, __LINE__, "no plan had the value %zu of %zu to %zu", value, low, high);
        }
    }
}

/* ------------------------------------------------------------------------------------- blocks of a grid */

/* What all ranks know. Dimension 0 of the communicator comes first, whichever varies fastest. */
typedef struct {
    int dims, size[MOST_DIMS], periodic[MOST_DIMS];
    size_t inside[MOST_DIMS][MOST_BLOCKS]; /* extent of each block without ghosts */
    size_t depth[MOST_DIMS], elem;
    unsigned flags, seed;
} grid;

/* My block of it. */
typedef struct {
    int coords[MOST_DIMS];
    size_t extent[MOST_DIMS], first[MOST_DIMS], global[MOST_DIMS]; /* first: global index of the first inside cell */
} block;

static void draw_sizes(grid *g, uint64_t *state, int ranks) {
    g->dims = (int)test_random_in(state, 1, MOST_DIMS);
    for (int d = 0, left = ranks; d < MOST_DIMS; d++) {
        g->size[d] = d < g->dims ? (int)test_random_in(state, 1, (size_t)left) : 1;
        left /= g->size[d];
    }
}

/* The n-th one: element sizes take turns. */
static grid draw_grid(uint64_t *state, int n) {
    grid g = {.elem = 1 + (size_t)n % 16, .seed = (unsigned)test_random_in(state, 1, 1000)};
    draw_sizes(&g, state, job.size);
    g.flags = (unsigned)test_random_in(state, 0, 3); /* CORNERS and FASTEST_FIRST, or not */
    for (int d = 0; d < g.dims; d++) {
        g.periodic[d] = (int)test_random_in(state, 0, 1);
        g.depth[d] = test_random_in(state, test_random_in(state, 0, 9) == 0 ? 0 : 1, 4);
        for (int i = 0; i < g.size[d]; i++) {
            g.inside[d][i] = g.depth[d] + test_random_in(state, g.depth[d] == 0, 5);
        }
    }
    return g;
}

static block my_block(const grid *g, MPI_Comm cart) {
    block b = {.coords = {0}};
    int rank = 0;
    MPI_Comm_rank(cart, &rank);
    MPI_Cart_coords(cart, rank, g->dims, b.coords);
    for (int d = 0; d < MOST_DIMS; d++) {
        b.extent[d] = b.global[d] = 1;
        for (int i = 0; d < g->dims && i < g->size[d]; i++) {
            b.first[d] += i < b.coords[d] ? g->inside[d][i] : 0;
            b.global[d] += g->inside[d][i];
        }
        if (d < g->dims) {
            b.extent[d] = g->inside[d][b.coords[d]] + 2 * g->depth[d];
            b.global[d]--;
        }
    }
    return b;
}

/* Global index in dimension d of the local index i; -1: beyond a wall. *ghost_out: it is a ghost. */
static long global_index(const grid *g, const block *b, int d, size_t i, int *ghost_out) {
    long n = (long)b->global[d];
    long at = (long)(b->first[d] + i) - (long)g->depth[d];
    *ghost_out = d < g->dims && (i < g->depth[d] || i >= b->extent[d] - g->depth[d]);
    if (d < g->dims && g->periodic[d]) {
        return (at + 4 * n) % n;
    }
    return at < 0 || at >= n ? -1 : at;
}

/* The bytes of the cell with these local indices: inside only, or as they are after an exchange. */
static void set_cell(const grid *g, const block *b, const size_t at[], int step, int exchanged, unsigned char *cell) {
    int ghosts = 0;
    int walls = 0;
    size_t index = 0;
    for (int d = 0; d < MOST_DIMS; d++) {
        int ghost = 0;
        long global = global_index(g, b, d, at[d], &ghost);
        ghosts += ghost;
        walls += global < 0;
        index = index * b->global[d] + (size_t)global;
    }
    int corner = ghosts > 1 && !(g->flags & PEERWIN_HALO_CORNERS);
    if (walls > 0 || corner || (ghosts > 0 && !exchanged)) {
        memset(cell, SENTINEL, g->elem);
        return;
    }
    for (size_t k = 0; k < g->elem; k++) {
        cell[k] = pattern_byte(step, g->seed, index * g->elem + k);
    }
}

/* The whole array; returns its bytes. */
static size_t set_array(const grid *g, const block *b, int step, int exchanged, unsigned char *array) {
    int fastest_first = (g->flags & PEERWIN_HALO_FASTEST_FIRST) != 0;
    size_t place[MOST_DIMS];
    size_t bytes = g->elem;
    for (int n = 0; n < MOST_DIMS; n++) {
        int d = fastest_first ? n : MOST_DIMS - 1 - n;
        place[d] = bytes;
        bytes *= b->extent[d];
    }
    size_t at[MOST_DIMS];
    for (at[0] = 0; at[0] < b->extent[0]; at[0]++) {
        for (at[1] = 0; at[1] < b->extent[1]; at[1]++) {
            for (at[2] = 0; at[2] < b->extent[2]; at[2]++) {
                set_cell(g, b, at, step, exchanged, array + at[0] * place[0] + at[1] * place[1] + at[2] * place[2]);
            }
        }
    }
    return bytes;
}

static void exchange_blocks(peerwin_ctx *ctx, peerwin_win *win, peerwin_halo *halo, const grid *g, const block *b) {
    size_t room = peerwin_win_bytes(win, job.rank);
    unsigned char *want = host_new(room);
    unsigned char *got = host_new(room);
    for (int step = 0; step < 3; step++) {
        size_t bytes = set_array(g, b, step, 0, want);
        segment_store(win, 0, want, bytes);
        if (step != 1) {
            CHECK_OK(peerwin_halo_release(halo, job.stream)); /* else start does it */
        }
        CHECK_OK(peerwin_halo_start(halo, job.stream));
        CHECK_OK(peerwin_halo_finish(halo, job.stream));
        segment_load(win, 0, got, room);
        set_array(g, b, step, 1, want);
        check_bytes("the block after an exchange", got, want, bytes);
        check_all("behind the block", got + bytes, TEST_GUARD, room - bytes);
    }
    check_done(ctx);
    free(want);
    free(got);
}

static void cover_grid(coverage *seen, const grid *g) {
    cover(&seen->elems, g->elem);
    cover(&seen->dims, (size_t)g->dims);
    cover(&seen->flags, g->flags);
    for (int d = 0; d < g->dims; d++) {
        cover(&seen->depths, g->depth[d]);
        cover(&seen->walls, (size_t)g->periodic[d]);
    }
}

static void try_grid(peerwin_ctx *ctx, peerwin_win *win, const grid *drawn) {
    const grid g = *drawn;
    const int reorder = 0;
    MPI_Comm cart = MPI_COMM_NULL;
    peerwin_halo *halo = NULL;
    block b = {.coords = {0}};
    MPI_Cart_create(MPI_COMM_WORLD, g.dims, g.size, g.periodic, reorder, &cart);
    if (cart != MPI_COMM_NULL) {
        b = my_block(&g, cart);
    }
    segment_set(win, TEST_GUARD);
    CHECK_OK(peerwin_halo_create_cart(win, cart, g.elem, b.extent, g.depth, g.flags, &halo));
    if (cart != MPI_COMM_NULL) {
        exchange_blocks(ctx, win, halo, &g, &b);
    }
    CHECK_OK(peerwin_halo_free(halo));
    if (cart != MPI_COMM_NULL) {
        MPI_Comm_free(&cart);
    }
}

static void random_blocks_get_exactly_their_ghosts(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 17 * 17 * 17 * 16);
    uint64_t state = 20261129;
    coverage seen = {0};
    for (int i = 0; i < plans(job.size < 8 ? 200 : 80, 120); i++) {
        const grid g = draw_grid(&state, i);
        cover_grid(&seen, &g);
        try_grid(ctx, win, &g);
    }
    check_covered(seen.elems, 1, 16);
    check_covered(seen.dims, 1, MOST_DIMS);
    check_covered(seen.depths, 0, 4);
    check_covered(seen.flags, 0, 3);
    check_covered(seen.walls, 0, 1);
    test_free(ctx, win);
}

/* ----------------------------------------------------------------------------------------- lists of faces */

enum { MOST_FACES = 40, WINDOWS = 8, ROOM = 64 << 10 };

/* A pair of faces, as all ranks know it. */
typedef struct {
    int from, to, tag, send_window, recv_window;
    peerwin_box send, recv;
} pair;

/* Where the next box of each rank and window goes. */
typedef struct {
    size_t used[MOST_BLOCKS][WINDOWS];
} ledger;

/*
 * A box of so many bytes in a random shape, in memory of its own, gaps included. Rows, pitches and place are multiples
 * of `unit`, but for `shift` bytes.
 */
static peerwin_box draw_box(uint64_t *state, size_t bytes, size_t unit, size_t shift, size_t *used) {
    size_t row = bytes / unit;
    size_t rows = 1;
    size_t planes = 1;
    for (size_t n = test_random_in(state, 1, 9); n > 1 && bytes > 0; n--) {
        if (row % n == 0) {
            row /= n;
            rows = n;
            break;
        }
    }
    for (size_t n = test_random_in(state, 1, 7); n > 1 && bytes > 0; n--) {
        if (row % n == 0) {
            row /= n;
            planes = n;
            break;
        }
    }
    row *= unit;
    peerwin_box box = {.offset = (*used + unit - 1) / unit * unit + shift, .count = {row, rows, planes}};
    box.stride[0] = row + test_random_in(state, 0, 2) * test_random_in(state, 0, 9) / unit * unit;
    box.stride[1] = rows * box.stride[0] + test_random_in(state, 0, 1) * test_random_in(state, 0, 40) / unit * unit;
    if (test_random_in(state, 0, 4) == 0) { /* rows and planes change places */
        size_t stride = box.stride[0];
        box.stride[0] = box.stride[1];
        box.stride[1] = stride;
        box.count[1] = planes;
        box.count[2] = rows;
    }
    *used += planes * (rows * (row + 18) + 40) + unit + shift;
    return box;
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

/* A pair of so many elements; the face that is sent may be one that is sent elsewhere, too. */
static pair draw_pair(uint64_t *state, ledger *l, int tag, size_t elem, const pair *before) {
    const size_t last = (size_t)job.size - 1;
    const size_t unit = test_random_in(state, 0, 1) == 0 ? elem : 1;
    pair p = {.from = (int)test_random_in(state, 0, last), .to = (int)test_random_in(state, 0, last), .tag = tag};
    size_t bytes = test_random_in(state, 0, 5) == 0 ? 0 : elem * test_random_in(state, 1, 600 / elem);
    p.send_window = (int)test_random_in(state, 0, WINDOWS - 1);
    p.recv_window = (int)test_random_in(state, 0, WINDOWS - 1);
    if (before != NULL) {
        p.from = before->from;
        p.send_window = before->send_window;
        p.send = before->send;
        bytes = p.send.count[0] * p.send.count[1] * p.send.count[2];
    } else {
        p.send = draw_box(state, bytes, unit, test_random_in(state, 0, 3) / 3, &l->used[p.from][p.send_window]);
    }
    p.recv = draw_box(state, bytes, unit, test_random_in(state, 0, 3) / 3, &l->used[p.to][p.recv_window]);
    return p;
}

/* A face of `fields` fields: the same boxes in as many windows, of an odd number of elements. Returns how many pairs.
 */
static int draw_fields(uint64_t *state, ledger *l, int tag, size_t elem, int fields, pair *pairs) {
    pair p = draw_pair(state, l, tag, elem, NULL);
    level(l, p.from);
    level(l, p.to);
    const size_t bytes = elem * (2 * test_random_in(state, 0, (600 / elem - 1) / 2) + 1);
    p.send = draw_box(state, bytes, elem, 0, &l->used[p.from][0]);
    level(l, p.from);
    p.recv = draw_box(state, bytes, elem, 0, &l->used[p.to][0]);
    level(l, p.to);
    for (int f = 0; f < fields; f++) {
        pairs[f] = p;
        pairs[f].tag = tag - f;
        pairs[f].send_window = pairs[f].recv_window = f;
    }
    return fields;
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
    }
    while (count < most) {
        const pair *before = count > 0 && test_random_in(state, 0, 5) == 0 ? &pairs[count - 1] : NULL;
        pair p = draw_pair(state, &l, 100 - count, elem, before);
        cover(&seen->faces, p.from == p.to ? FACE_SELF : FACE_ONCE);
        cover(&seen->faces, p.send.count[0] == 0 ? FACE_EMPTY : before != NULL ? FACE_AGAIN : FACE_ONCE);
        cover_places(seen, elem, &p);
        pairs[count++] = p;
    }
    return count;
}

/* Byte number `at` of a box, in lexicographic order. */
static size_t place_of(const peerwin_box *box, size_t at) {
    size_t row = at / box->count[0];
    return box->offset + row / box->count[1] * box->stride[1] + row % box->count[1] * box->stride[0] +
           at % box->count[0];
}

static size_t bytes_of(const peerwin_box *box) {
    return box->count[0] * box->count[1] * box->count[2];
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

static void random_lists_of_faces_arrive_byte_for_byte(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win[WINDOWS];
    uint64_t state = 1129;
    coverage seen = {0};
    for (int w = 0; w < WINDOWS; w++) {
        win[w] = test_window(ctx, ROOM);
    }
    for (int i = 0; i < plans(job.size < 8 ? 60 : 32, 64); i++) {
        pair pairs[MOST_FACES];
        const int count = draw_list(&state, i, pairs, &seen);
        try_list(ctx, win, pairs, count);
    }
    check_covered(seen.elems, 1, 16);
    check_covered(seen.fields, 1, WINDOWS);
    check_covered(seen.faces, FACE_SELF, FACE_ONCE);
    for (size_t elem = 2; elem <= 14; elem += 4) {
        check_covered(seen.even, elem, elem);
        check_covered(seen.odd, elem, elem);
    }
    for (int w = 0; w < WINDOWS; w++) {
        CHECK_OK(peerwin_win_free(win[w]));
    }
    CHECK_OK(peerwin_finalize(ctx));
}

int main(int argc, char **argv) {
    static const test_case cases[] = {
        TEST_CASE(random_blocks_get_exactly_their_ghosts, 1, MOST_BLOCKS),
        TEST_CASE(random_lists_of_faces_arrive_byte_for_byte, 1, MOST_BLOCKS),
    };
    return test_main(argc, argv, cases, (int)(sizeof(cases) / sizeof(cases[0])));
}
