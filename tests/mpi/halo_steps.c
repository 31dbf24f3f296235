/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Halo plans over many steps: nobody's ghosts are overwritten before they were read, whoever is early or late, and no
 * plan waits for another one. And how waits end: by a deadline and again, by an abort.
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

/* --------------------------------------------------------------------------------------------------- a ring */

enum { CELLS = 640, ROW = 40 }; /* a face is larger than those that are always staged */

/*
 * A ring of blocks with a ghost at both ends, of contiguous cells or of thin rows: cell i of a face lies at i * step.
 */
typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    peerwin_halo *halo;
    size_t step;
} ring;

enum { LOW_GHOST = 0, LOW_FACE = 1, HIGH_FACE = 2, HIGH_GHOST = 3 };

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

static peerwin_halo *make_plan(const ring *r, unsigned flags) {
    peerwin_halo *halo = NULL;
    const peerwin_face send[] = {{left_of(job.rank), 0, r->win, part_box(r, LOW_FACE)},
                                 {right_of(job.rank), 1, r->win, part_box(r, HIGH_FACE)}};
    const peerwin_face recv[] = {{left_of(job.rank), 1, r->win, part_box(r, LOW_GHOST)},
                                 {right_of(job.rank), 0, r->win, part_box(r, HIGH_GHOST)}};
    CHECK_OK(peerwin_halo_create(r->ctx, 2, send, 2, recv, flags, &halo));
    return halo;
}

static ring make_ring(int timeout_ms, size_t step) {
    ring r = {.ctx = test_context(MPI_COMM_WORLD, timeout_ms), .step = step};
    r.win = test_window(r.ctx, (size_t)CELLS * ROW);
    r.halo = make_plan(&r, 0);
    return r;
}

static void free_ring(ring *r) {
    CHECK_OK(peerwin_halo_free(r->halo));
    test_free(r->ctx, r->win);
}

static double value(int rank, int step, int part, size_t i) {
    return rank * 1e6 + step * 1e3 + part * 100.0 + (double)i;
}

/* Both faces lie beside each other: in a thick part at once, or in every row. */
static void write_faces(const ring *r, int step) {
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

static void check_ghosts(const ring *r, int step) {
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

/* A reader that looks twice while its neighbours are as far ahead as they get, or come late themselves. */
static void read_twice(size_t step_bytes, int steps) {
    ring r = make_ring(0, step_bytes);
    uint64_t state = 7 + (uint64_t)job.rank;
    for (int step = 0; step < steps; step++) {
        int slow = step % 16 == (5 * job.rank) % 16;
        write_faces(&r, step);
        CHECK_OK(peerwin_halo_start(r.halo, job.stream));
        CHECK_OK(peerwin_halo_finish(r.halo, job.stream));
        check_ghosts(&r, step);
        if (slow) {
            test_sleep_ms((int)test_random_in(&state, 0, 20));
            check_ghosts(&r, step);
        }
        if (step % 3 == 0) {
            CHECK_OK(peerwin_halo_release(r.halo, job.stream));
            CHECK_OK(peerwin_halo_release(r.halo, job.stream));
        }
        if (step % 16 == (5 * job.rank + 8) % 16) {
            test_sleep_ms((int)test_random_in(&state, 0, 4));
        }
    }
    check_done(r.ctx);
    free_ring(&r);
}

static void ghosts_stay_as_they_are_until_they_are_released(void) {
    read_twice(sizeof(double), 300);
}

static void ghosts_of_thin_rows_stay_too(void) {
    read_twice(ROW, test_rounds(60, 10));
}

/* Between finish and release nothing may change, although every neighbour has long started the next exchange. */
static void a_neighbour_a_step_ahead_waits_for_my_release(void) {
    ring r = make_ring(0, sizeof(double));
    if (job.space == PEERWIN_SPACE_HOST) {
        for (int step = 0; step < 6; step++) {
            int late = step % job.size;
            write_faces(&r, step);
            CHECK_OK(peerwin_halo_start(r.halo, NULL));
            CHECK_OK(peerwin_halo_finish(r.halo, NULL));
            if (job.rank == late) {
                test_sleep_ms(20); /* the others stand in their next start */
            }
            check_ghosts(&r, step);
        }
    }
    free_ring(&r);
}

/* A chain: who only sends has nothing to wait for but the releases, and gets ahead as far as they let it. */
static void send_down_the_chain(size_t bytes, int steps) {
    const int from = job.rank > 0 ? job.rank - 1 : MPI_PROC_NULL;
    const int to = job.rank < job.size - 1 ? job.rank + 1 : MPI_PROC_NULL;
    unsigned char *want = host_new(bytes);
    unsigned char *got = host_new(bytes);
    uint64_t state = 3 + (uint64_t)job.rank;
    peerwin_halo *halo = NULL;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 2 * bytes);
    const peerwin_face send = {to, 0, win, {.offset = 0, .count = {bytes, 1, 1}}};
    const peerwin_face recv = {from, 0, win, {.offset = bytes, .count = {bytes, 1, 1}}};
    CHECK_OK(peerwin_halo_create(ctx, 1, &send, 1, &recv, 0, &halo));
    for (int step = 0; step < steps; step++) {
        pattern_write(want, job.rank, (unsigned)step, bytes);
        segment_store(win, 0, want, bytes);
        CHECK_OK(peerwin_halo_start(halo, job.stream));
        CHECK_OK(peerwin_halo_finish(halo, job.stream));
        for (int look = 0; look < 2 && from != MPI_PROC_NULL; look++) {
            segment_load(win, bytes, got, bytes);
            pattern_write(want, from, (unsigned)step, bytes);
            check_bytes("what the rank above sent", got, want, bytes);
            if (step % 4 == job.rank % 4) {
                test_sleep_ms((int)test_random_in(&state, 0, 3));
            }
        }
    }
    check_done(ctx);
    CHECK_OK(peerwin_halo_free(halo));
    test_free(ctx, win);
    free(want);
    free(got);
}

static void a_sender_that_receives_nothing_does_not_get_too_far_ahead(void) {
    send_down_the_chain(64, test_rounds(120, 20));
    send_down_the_chain(20000, test_rounds(120, 20));
}

/* ---------------------------------------------------------------------------------------------- two plans */

/* Released beforehand, plans may be started in any order, and neither waits for the other. */
static void released_plans_do_not_wait_for_each_other(void) {
    ring a = make_ring(0, sizeof(double));
    ring b = {.ctx = a.ctx, .win = test_window(a.ctx, (size_t)CELLS * ROW), .step = ROW};
    b.halo = make_plan(&b, 0);
    for (int step = 0; step < test_rounds(100, 10); step++) {
        ring *first = (step + job.rank) % 2 == 0 ? &a : &b;
        ring *second = first == &a ? &b : &a;
        CHECK_OK(peerwin_halo_release(a.halo, job.stream));
        CHECK_OK(peerwin_halo_release(b.halo, job.stream));
        write_faces(first, step);
        CHECK_OK(peerwin_halo_start(first->halo, job.stream));
        write_faces(second, step);
        CHECK_OK(peerwin_halo_start(second->halo, job.stream));
        CHECK_OK(peerwin_halo_finish(second->halo, job.stream));
        check_ghosts(second, step);
        CHECK_OK(peerwin_halo_finish(first->halo, job.stream));
        check_ghosts(first, step);
    }
    CHECK_OK(peerwin_halo_free(b.halo));
    CHECK_OK(peerwin_win_free(b.win));
    free_ring(&a);
}

/* The usual pair: plans over two buffers used by turns, so that each is started while the other's ghosts are read. */
static void two_buffers_by_turns_exchange_without_barriers(void) {
    ring buffer[2];
    buffer[0] = make_ring(0, sizeof(double));
    buffer[1] =
        (ring){.ctx = buffer[0].ctx, .win = test_window(buffer[0].ctx, (size_t)CELLS * ROW), .step = sizeof(double)};
    buffer[1].halo = make_plan(&buffer[1], 0);
    for (int step = 0; step < test_rounds(400, 20); step++) {
        ring *now = &buffer[step % 2];
        write_faces(now, step);
        CHECK_OK(peerwin_halo_start(now->halo, job.stream));
        if (step > 0) {
            check_ghosts(&buffer[(step + 1) % 2], step - 1);
        }
        CHECK_OK(peerwin_halo_finish(now->halo, job.stream));
        check_ghosts(now, step);
    }
    CHECK_OK(peerwin_halo_free(buffer[1].halo));
    CHECK_OK(peerwin_win_free(buffer[1].win));
    free_ring(&buffer[0]);
}

/* Two plans into the same ghosts, kept apart by barriers. */
static void shared_plans_take_turns_between_barriers(void) {
    ring r = make_ring(0, sizeof(double));
    peerwin_halo *other = make_plan(&r, PEERWIN_HALO_SHARED);
    peerwin_halo *first = r.halo;
    for (int step = 0; step < test_rounds(50, 6); step++) {
        peerwin_halo *now = step % 2 == 0 ? first : other;
        write_faces(&r, step);
        CHECK_OK(peerwin_halo_start(now, job.stream));
        CHECK_OK(peerwin_halo_finish(now, job.stream));
        check_ghosts(&r, step);
        CHECK_OK(peerwin_barrier(r.ctx, job.stream));
        check_done(r.ctx);
    }
    CHECK_OK(peerwin_halo_free(other));
    free_ring(&r);
}

/* ------------------------------------------------------------------------------------- how waits may end */

/* On a stream nothing times out but the host's wait, which is repeated. */
static void early_on_a_stream(void) {
    ring r = make_ring(500, ROW);
    write_faces(&r, 1);
    if (job.rank == 0) {
        CHECK_OK(peerwin_halo_start(r.halo, job.stream));
        CHECK_OK(peerwin_halo_finish(r.halo, job.stream));
        CHECK_STATUS(peerwin_stream_sync(r.ctx, job.stream), PEERWIN_ERR_TIMEOUT, "call again");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank != 0) {
        CHECK_OK(peerwin_halo_start(r.halo, job.stream));
        CHECK_OK(peerwin_halo_finish(r.halo, job.stream));
    }
    check_done(r.ctx);
    check_ghosts(&r, 1);
    free_ring(&r);
}

/* Rank 0 is early twice: its start, and then its finish, time out by name, and go on when they are repeated. */
static void early_on_the_host(void) {
    ring r = make_ring(150, sizeof(double));
    write_faces(&r, 1);
    if (job.rank == 0) {
        CHECK_STATUS(peerwin_halo_start(r.halo, NULL), PEERWIN_ERR_TIMEOUT, "exchange 1", "released", "rank", "1");
        CHECK_STATUS(peerwin_halo_start(r.halo, NULL), PEERWIN_ERR_TIMEOUT, "call again");
        CHECK_STATUS(peerwin_halo_finish(r.halo, NULL), PEERWIN_ERR_STATE, "start", "repeated");
        CHECK_STATUS(peerwin_halo_release(r.halo, NULL), PEERWIN_ERR_STATE, "start", "repeated");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank != 0) {
        CHECK_OK(peerwin_halo_release(r.halo, NULL));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank == 0) {
        CHECK_OK(peerwin_halo_start(r.halo, NULL));
        CHECK_STATUS(peerwin_halo_finish(r.halo, NULL), PEERWIN_ERR_TIMEOUT, "exchange 1", "no faces", "rank", "1");
        CHECK_STATUS(peerwin_halo_start(r.halo, NULL), PEERWIN_ERR_STATE, "finish", "repeated");
        CHECK_STATUS(peerwin_halo_release(r.halo, NULL), PEERWIN_ERR_STATE, "finish", "repeated");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank != 0) {
        CHECK_OK(peerwin_halo_start(r.halo, NULL));
    }
    CHECK_OK(peerwin_halo_finish(r.halo, NULL));
    check_ghosts(&r, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    free_ring(&r);
}

static void a_deadline_changes_nothing_and_the_call_is_repeated(void) {
    if (job.space == PEERWIN_SPACE_HOST) {
        early_on_the_host();
    } else {
        early_on_a_stream();
    }
}

/* An abort ends a wait; then plan and window are freed in any order, without the others. */
static void an_abort_ends_the_wait_and_all_can_be_freed(void) {
    ring r = make_ring(30000, sizeof(double));
    if (job.rank == 1) {
        test_sleep_ms(30);
        CHECK_OK(peerwin_abort(r.ctx));
    } else {
        peerwin_status status = PEERWIN_OK;
        while (status == PEERWIN_OK) { /* ranks further away from rank 1 get on for a few steps */
            status = peerwin_halo_start(r.halo, job.stream);
            if (status == PEERWIN_OK) {
                status = done(r.ctx, peerwin_halo_finish(r.halo, job.stream));
            }
        }
        CHECK_STATUS(status, PEERWIN_ERR_ABORTED, "rank");
    }
    CHECK_STATUS(peerwin_halo_start(r.halo, job.stream), PEERWIN_ERR_ABORTED, "");
    CHECK_STATUS(peerwin_halo_release(r.halo, job.stream), PEERWIN_ERR_ABORTED, "");
    if (job.rank % 2 == 0) {
        CHECK_OK(peerwin_win_free(r.win));
        CHECK_OK(peerwin_halo_free(r.halo));
    } else {
        CHECK_OK(peerwin_halo_free(r.halo));
        CHECK_OK(peerwin_win_free(r.win));
    }
    CHECK_OK(peerwin_finalize(r.ctx));
}

/* ------------------------------------------------------------------------------------------------ the end */

static void a_plan_may_be_freed_in_the_middle_or_left_to_finalize(void) {
    ring r = make_ring(0, ROW);
    write_faces(&r, 0);
    CHECK_OK(peerwin_halo_start(r.halo, job.stream));
    CHECK_OK(peerwin_halo_free(r.halo));
    r.halo = make_plan(&r, 0);
    write_faces(&r, 1);
    CHECK_OK(peerwin_halo_start(r.halo, job.stream));
    CHECK_OK(peerwin_halo_finish(r.halo, job.stream));
    check_ghosts(&r, 1);
    CHECK_OK(peerwin_finalize(r.ctx)); /* frees plan and window, and says so */
}

int main(int argc, char **argv) {
    static const test_case everywhere[] = {
        TEST_CASE(ghosts_stay_as_they_are_until_they_are_released, 1, 0),
        TEST_CASE(ghosts_of_thin_rows_stay_too, 1, 0),
        TEST_CASE(a_sender_that_receives_nothing_does_not_get_too_far_ahead, 1, 0),
        TEST_CASE(released_plans_do_not_wait_for_each_other, 1, 0),
        TEST_CASE(two_buffers_by_turns_exchange_without_barriers, 1, 0),
        TEST_CASE(shared_plans_take_turns_between_barriers, 1, 0),
        TEST_CASE(a_plan_may_be_freed_in_the_middle_or_left_to_finalize, 1, 0),
        TEST_CASE(a_neighbour_a_step_ahead_waits_for_my_release, 2, 0),
        TEST_CASE(a_deadline_changes_nothing_and_the_call_is_repeated, 2, 0),
        TEST_CASE(an_abort_ends_the_wait_and_all_can_be_freed, 2, 0),
    };
    return test_main(argc, argv, everywhere, (int)(sizeof(everywhere) / sizeof(everywhere[0])));
}
