/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Halo plans that are refused: on every rank, with a text that names both ranks, the tag and the sizes where two ranks
 * do not fit together, and without harm to what is there.
 */
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"

static int right_of(int rank) {
    return (rank + 1) % job.size;
}

static int left_of(int rank) {
    return (rank + job.size - 1) % job.size;
}

enum { BYTES = 1000 };

/* A ring of one face each, which a test spoils on one rank before it makes the plan. */
typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    peerwin_halo *halo;
    int sends, recvs;
    peerwin_face send[2], recv[2];
} ring;

static ring make_ring(void) {
    ring r = {.ctx = test_context(MPI_COMM_WORLD, 0), .sends = 1, .recvs = 1};
    r.win = test_window(r.ctx, BYTES);
    r.send[0] = (peerwin_face){right_of(job.rank), 7, r.win, {.offset = 0, .count = {48, 1, 1}}};
    r.recv[0] = (peerwin_face){left_of(job.rank), 7, r.win, {.offset = 100, .count = {48, 1, 1}}};
    return r;
}

static peerwin_status create(ring *r, unsigned flags) {
    return peerwin_halo_create(r->ctx, r->sends, r->send, r->recvs, r->recv, flags, &r->halo);
}

static int last(void) {
    return job.rank == job.size - 1;
}

/* The plan as it should be works after the refusal. */
static void works_afterwards(ring *r) {
    const ring good = {.win = r->win};
    unsigned char data[48];
    unsigned char got[48];
    peerwin_halo *halo = NULL;
    const peerwin_face send = {right_of(job.rank), 7, good.win, {.offset = 0, .count = {48, 1, 1}}};
    const peerwin_face recv = {left_of(job.rank), 7, good.win, {.offset = 100, .count = {48, 1, 1}}};
    pattern_write(data, job.rank, 3, sizeof(data));
    segment_store(r->win, 0, data, sizeof(data));
    CHECK_OK(peerwin_halo_create(r->ctx, 1, &send, 1, &recv, 0, &halo));
    CHECK_OK(peerwin_halo_start(halo, job.stream));
    CHECK_OK(peerwin_halo_finish(halo, job.stream));
    segment_load(r->win, 100, got, sizeof(got));
    pattern_write(data, left_of(job.rank), 3, sizeof(data));
    check_bytes("the ghosts afterwards", got, data, sizeof(data));
    CHECK_OK(peerwin_halo_free(halo));
}

static void end(ring *r) {
    works_afterwards(r);
    test_free(r->ctx, r->win);
}

/* ------------------------------------------------------------------------------- ranks that do not fit together */

static void a_face_without_a_partner_is_named(void) {
    ring r = make_ring();
    if (last()) {
        r.recvs = 0;
    }
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_MISMATCH, "tag 7", "48 bytes", test_number((size_t)job.size - 1),
                     test_number((size_t)left_of(job.size - 1)), "no such");
    r.recvs = 1;
    if (last()) {
        r.sends = 0;
    }
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_MISMATCH, "tag 7", "48 bytes", "no such");
    r.sends = 1;
    if (last()) {
        r.send[0].tag = 8;
    }
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_MISMATCH, "tag", "no such");
    end(&r);
}

static void sizes_that_differ_are_named(void) {
    ring r = make_ring();
    if (last()) {
        r.recv[0].box.count[0] = 52;
    }
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_MISMATCH, "48 bytes", "52 bytes", "tag 7",
                     test_number((size_t)job.size - 1), test_number((size_t)left_of(job.size - 1)));
    if (last()) {
        r.recv[0].box.count[0] = 0;
    }
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_MISMATCH, "48 bytes", "0 bytes", "tag 7");
    end(&r);
}

static void a_tag_that_stands_twice_is_named(void) {
    ring r = make_ring();
    r.send[1] = r.send[0];
    r.send[1].box.count[0] = 24;
    r.sends = last() ? 2 : 1;
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_MISMATCH, "two send faces", "tag 7", "unique");
    r.sends = 1;
    r.recv[1] = r.recv[0];
    r.recv[1].box.offset = 500;
    r.recvs = last() ? 2 : 1;
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_MISMATCH, "two receive faces", "tag 7", "unique");
    end(&r);
}

static void receive_boxes_that_overlap_are_named(void) {
    ring r = make_ring();
    r.sends = r.recvs = 2;
    r.send[1] = r.send[0];
    r.send[1].tag = 9;
    r.recv[1] = r.recv[0];
    r.recv[1].tag = 9;
    r.recv[1].box.offset = last() ? 147 : 148;
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_MISMATCH, "overlap", "tag 7", "tag 9", "48 bytes",
                     test_number((size_t)job.size - 1), test_number((size_t)left_of(job.size - 1)));
    /* Rows between rows do not overlap; a byte more, and they do. */
    for (int i = 0; i < 2; i++) {
        r.send[i].box = (peerwin_box){.count = {4, 6, 2}, .stride = {4, 24}};
        r.recv[i].box = (peerwin_box){.offset = 100 + 8 * (size_t)i, .count = {4, 6, 2}, .stride = {16, 100}};
    }
    CHECK_OK(create(&r, 0));
    CHECK_OK(peerwin_halo_free(r.halo));
    r.recv[1].box.offset = last() ? 103 : 108;
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_MISMATCH, "overlap", "recv[0]", "recv[1]");
    end(&r);
}

static void a_box_outside_its_segment_is_named(void) {
    ring r = make_ring();
    if (last()) {
        r.recv[0].box.offset = BYTES - 47;
    }
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_RANGE, "recv[0]", "tag 7", test_number(BYTES - 47), test_number(BYTES),
                     test_number((size_t)job.size - 1));
    r.recv[0].box.offset = 100;
    if (last()) {
        r.send[0].box = (peerwin_box){.count = {1, 2, 24}, .stride = {BYTES, 1}};
    }
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_RANGE, "send[0]", "tag 7");
    if (last()) {
        r.send[0].box = (peerwin_box){.offset = 8, .count = {1, 2, 24}, .stride = {SIZE_MAX - 4, 1}};
    }
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_RANGE, "send[0]");
    end(&r);
}

/* Rows of a send box may be the same row, so that it has more bytes than memory has: 48, if they are counted wrongly.
 */
static void a_box_of_more_bytes_than_can_be_counted_is_refused(void) {
    static const size_t counts[][3] = {
        {48, ((size_t)1 << 60) + 1, 1}, {16, ((size_t)1 << 60) + 3, 1}, {16, 3, ((size_t)1 << 60) + 1}};
    ring r = make_ring();
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        if (last()) {
            memcpy(r.send[0].box.count, counts[i], sizeof(counts[i]));
        }
        CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_RANGE, "send[0]", "tag 7", test_number(counts[i][1]));
    }
    end(&r);
}

/* ------------------------------------------------------------------------------------------ one rank's mistakes */

static void arguments_that_mean_nothing_are_refused_everywhere(void) {
    ring r = make_ring();
    peerwin_halo **nowhere = last() ? NULL : &r.halo;
    CHECK_STATUS_ALL(peerwin_halo_create(r.ctx, 1, r.send, 1, r.recv, 0, nowhere), PEERWIN_ERR_ARG, "halo_out");
    CHECK_STATUS_ALL(create(&r, last() ? 64 : 0), PEERWIN_ERR_ARG, "flags", "0x40");
    CHECK_STATUS_ALL(create(&r, last() ? PEERWIN_HALO_CORNERS : 0), PEERWIN_ERR_ARG, "flags");
    CHECK_STATUS_ALL(peerwin_halo_create(r.ctx, last() ? -1 : 1, r.send, 1, r.recv, 0, &r.halo), PEERWIN_ERR_ARG,
                     "num_send");
    CHECK_STATUS_ALL(peerwin_halo_create(r.ctx, 1, r.send, 1, last() ? NULL : r.recv, 0, &r.halo), PEERWIN_ERR_ARG,
                     "recv is NULL");
    r.send[0].peer = last() ? job.size : right_of(job.rank);
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_ARG, "send[0].peer", test_number((size_t)job.size));
    r.send[0].peer = last() ? -5 : right_of(job.rank);
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_ARG, "send[0].peer", "-5");
    r.send[0].peer = right_of(job.rank);
    r.recv[0].win = last() ? NULL : r.win;
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_ARG, "recv[0].win is NULL");
    r.recv[0].win = r.win;
    if (last()) {
        r.recv[0].box = (peerwin_box){.count = {8, 6, 1}, .stride = {7, 0}};
    }
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_ARG, "recv[0]", "rows", "overlap");
    r.recv[0].box = (peerwin_box){.offset = last() ? 40 : 100, .count = {48, 1, 1}};
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_ARG, "send[0]", "recv[0]", "overlap");
    CHECK_STATUS(peerwin_halo_create(NULL, 0, NULL, 0, NULL, 0, &r.halo), PEERWIN_ERR_ARG, "ctx");
    CHECK_STATUS(peerwin_halo_start(NULL, job.stream), PEERWIN_ERR_ARG, "halo");
    CHECK_STATUS(peerwin_halo_finish(NULL, job.stream), PEERWIN_ERR_ARG, "halo");
    CHECK_STATUS(peerwin_halo_release(NULL, job.stream), PEERWIN_ERR_ARG, "halo");
    CHECK_OK(peerwin_halo_free(NULL));
    CHECK(r.halo == NULL);
    end(&r);
}

static void a_window_of_another_context_is_refused(void) {
    ring r = make_ring();
    ring other = make_ring();
    r.send[0].win = last() ? other.win : r.win;
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_ARG, "send[0].win", "another context");
    end(&other);
    end(&r);
}

static void windows_that_peers_may_not_write_are_refused(void) {
    ring r = make_ring();
    peerwin_win_config config;
    peerwin_win_config_init(&config);
    config.num_neighbors = 1;
    config.neighbors = &job.rank;
    peerwin_win *alone = NULL;
    CHECK_OK(peerwin_win_alloc(r.ctx, BYTES, &config, &alone));
    r.recv[0].win = alone;
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_UNREACHABLE, "recv[0]", "neighbour");
    CHECK_OK(peerwin_win_free(alone));
    if (!test_forced_handle("legacy")) {
        peerwin_win *guarded = NULL;
        peerwin_win_config_init(&config);
        config.read_only = 1;
        CHECK_OK(peerwin_win_alloc(r.ctx, BYTES, &config, &guarded));
        r.recv[0].win = guarded;
        CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_PERMISSION, "recv[0]", "read-only");
        r.recv[0].win = r.win;
        r.send[0].win = guarded; /* to read from it is fine */
        CHECK_OK(create(&r, 0));
        CHECK_OK(peerwin_halo_free(r.halo));
        CHECK_OK(peerwin_win_free(guarded));
    }
    end(&r);
}

/* ---------------------------------------------------------------------------------------- plans that are alive */

static void plans_that_overlap_need_the_flag(void) {
    ring r = make_ring();
    peerwin_halo *shared = NULL;
    CHECK_OK(create(&r, 0));
    peerwin_halo *first = r.halo;
    r.recv[0].box.offset = last() ? 147 : 148;
    CHECK_STATUS_ALL(create(&r, 0), PEERWIN_ERR_STATE, "recv[0]", "halo plan", "tag 7", "PEERWIN_HALO_SHARED",
                     test_number((size_t)job.size - 1));
    CHECK_OK(peerwin_halo_create(r.ctx, 1, r.send, 1, r.recv, PEERWIN_HALO_SHARED, &shared));
    CHECK_OK(peerwin_halo_free(shared));
    CHECK_OK(peerwin_halo_free(first));
    CHECK_OK(create(&r, 0));
    CHECK_OK(peerwin_halo_free(r.halo));
    end(&r);
}

static void a_window_cannot_be_freed_under_a_plan(void) {
    ring r = make_ring();
    peerwin_win *other = test_window(r.ctx, BYTES);
    if (last()) {
        r.send[0].win = other; /* one rank's face is enough */
    }
    CHECK_OK(create(&r, 0));
    CHECK_STATUS_ALL(peerwin_win_free(other), PEERWIN_ERR_STATE, "halo plan", "free the plan");
    CHECK_STATUS_ALL(peerwin_win_free(r.win), PEERWIN_ERR_STATE, "halo plan", "free the plan");
    CHECK_OK(peerwin_halo_start(r.halo, job.stream));
    CHECK_OK(peerwin_halo_finish(r.halo, job.stream));
    check_done(r.ctx);
    CHECK_OK(peerwin_halo_free(r.halo));
    CHECK_OK(peerwin_win_free(other));
    end(&r);
}

static void start_and_finish_take_turns(void) {
    ring r = make_ring();
    CHECK_OK(create(&r, 0));
    CHECK_STATUS(peerwin_halo_finish(r.halo, job.stream), PEERWIN_ERR_STATE, "finish", "not under way");
    CHECK_OK(peerwin_halo_release(r.halo, job.stream));
    CHECK_OK(peerwin_halo_release(r.halo, job.stream));
    CHECK_OK(peerwin_halo_start(r.halo, job.stream));
    CHECK_STATUS(peerwin_halo_start(r.halo, job.stream), PEERWIN_ERR_STATE, "start", "exchange 1");
    CHECK_STATUS(peerwin_halo_release(r.halo, job.stream), PEERWIN_ERR_STATE, "release", "started");
    CHECK_OK(peerwin_halo_finish(r.halo, job.stream));
    CHECK_STATUS(peerwin_halo_finish(r.halo, job.stream), PEERWIN_ERR_STATE, "finish");
    check_done(r.ctx);
    CHECK_OK(peerwin_halo_free(r.halo));
    end(&r);
}

/* Ranks in different calls, or with different plans, find out. */
static void ranks_in_different_calls_are_told(void) {
    ring r = make_ring();
    peerwin_halo *second = NULL;
    CHECK_OK(create(&r, 0));
    CHECK_OK(peerwin_halo_create(r.ctx, 0, NULL, 0, NULL, 0, &second));
    CHECK_STATUS_ALL(peerwin_halo_free(last() ? second : r.halo), PEERWIN_ERR_MISMATCH, "");
    CHECK_STATUS_ALL(last() ? peerwin_halo_free(r.halo) : peerwin_win_free(r.win),
                     job.size > 1 ? PEERWIN_ERR_MISMATCH : PEERWIN_OK, "");
    CHECK_OK(peerwin_halo_free(second));
    CHECK_OK(peerwin_halo_free(r.halo));
    end(&r);
}

/* ------------------------------------------------------------------------------------------- Cartesian grids */

static void grids_that_make_no_sense_are_refused_everywhere(void) {
    ring r = make_ring();
    const int sizes[] = {job.size, 1};
    const int periodic[] = {1, 0};
    const size_t extent[] = {6, 5};
    const size_t depth[] = {2, 1};
    const size_t narrow[] = {5, 5};
    const size_t wide[] = {6, 50};
    MPI_Comm cart = MPI_COMM_NULL;
    MPI_Comm many = MPI_COMM_NULL;
    const int ones[] = {job.size, 1, 1, 1};
    MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periodic, 0, &cart);
    MPI_Cart_create(MPI_COMM_WORLD, 4, ones, ones, 0, &many);
    CHECK_STATUS_ALL(peerwin_halo_create_cart(r.win, MPI_COMM_WORLD, 8, extent, depth, 0, &r.halo), PEERWIN_ERR_ARG,
                     "Cartesian");
    CHECK_STATUS_ALL(peerwin_halo_create_cart(r.win, many, 8, extent, depth, 0, &r.halo), PEERWIN_ERR_ARG,
                     "4 dimensions");
    CHECK_STATUS_ALL(peerwin_halo_create_cart(r.win, cart, last() ? 0 : 8, extent, depth, 0, &r.halo), PEERWIN_ERR_ARG,
                     "elem_bytes");
    CHECK_STATUS_ALL(peerwin_halo_create_cart(r.win, cart, 8, last() ? NULL : extent, depth, 0, &r.halo),
                     PEERWIN_ERR_ARG, "extent");
    CHECK_STATUS_ALL(peerwin_halo_create_cart(r.win, cart, 8, last() ? narrow : extent, depth, 0, &r.halo),
                     PEERWIN_ERR_ARG, "extent[0] is 5", "at least 2");
    CHECK_STATUS_ALL(peerwin_halo_create_cart(r.win, cart, 8, last() ? wide : extent, depth, 0, &r.halo),
                     PEERWIN_ERR_RANGE, test_number(6 * 50 * 8), test_number(BYTES));
    CHECK_STATUS_ALL(peerwin_halo_create_cart(r.win, cart, 8, extent, depth, 128, &r.halo), PEERWIN_ERR_ARG, "flags");
    CHECK_STATUS(peerwin_halo_create_cart(NULL, cart, 8, extent, depth, 0, &r.halo), PEERWIN_ERR_ARG, "win");
    if (job.size > 1) { /* a wider face on one rank than on its neighbours */
        CHECK_STATUS_ALL(peerwin_halo_create_cart(r.win, cart, last() ? 4 : 8, extent, depth, 0, &r.halo),
                         PEERWIN_ERR_MISMATCH, "48 bytes", "24 bytes", "tag");
    }
    CHECK_OK(peerwin_halo_create_cart(r.win, cart, 8, extent, depth, 0, &r.halo));
    CHECK_OK(peerwin_halo_free(r.halo));
    MPI_Comm_free(&cart);
    MPI_Comm_free(&many);
    end(&r);
}

static void a_grid_with_ranks_outside_the_context_is_refused(void) {
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm cart = MPI_COMM_NULL;
    const int periodic = 1;
    const size_t extent = 6;
    const size_t depth = 1;
    MPI_Comm_split(MPI_COMM_WORLD, job.rank > 0, 0, &half);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &job.size, &periodic, 0, &cart);
    peerwin_ctx *ctx = test_context(half, 0);
    peerwin_win *win = test_window(ctx, BYTES);
    peerwin_halo *halo = NULL;
    CHECK_STATUS(peerwin_halo_create_cart(win, cart, 8, &extent, &depth, 0, &halo), PEERWIN_ERR_ARG,
                 "not in the context");
    test_free(ctx, win);
    MPI_Comm_free(&cart);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv) {
    static const test_case cases[] = {
        TEST_CASE(a_face_without_a_partner_is_named, 1, 0),
        TEST_CASE(sizes_that_differ_are_named, 1, 0),
        TEST_CASE(a_tag_that_stands_twice_is_named, 1, 0),
        TEST_CASE(receive_boxes_that_overlap_are_named, 1, 0),
        TEST_CASE(a_box_of_more_bytes_than_can_be_counted_is_refused, 1, 0),
        TEST_CASE(a_box_outside_its_segment_is_named, 1, 0),
        TEST_CASE(arguments_that_mean_nothing_are_refused_everywhere, 1, 0),
        TEST_CASE(a_window_of_another_context_is_refused, 1, 0),
        TEST_CASE(windows_that_peers_may_not_write_are_refused, 2, 0),
        TEST_CASE(plans_that_overlap_need_the_flag, 1, 0),
        TEST_CASE(a_window_cannot_be_freed_under_a_plan, 1, 0),
        TEST_CASE(start_and_finish_take_turns, 1, 0),
        TEST_CASE(ranks_in_different_calls_are_told, 2, 0),
        TEST_CASE(grids_that_make_no_sense_are_refused_everywhere, 1, 0),
        TEST_CASE(a_grid_with_ranks_outside_the_context_is_refused, 2, 0),
    };
    return test_main(argc, argv, cases, (int)(sizeof(cases) / sizeof(cases[0])));
}
