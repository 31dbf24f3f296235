/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Halo plans over many steps: nobody's ghosts are overwritten before they were read, whoever is early or late, and no
 * plan waits for another one. And how waits end: by a deadline and again, by an abort.
 */
#include <stdlib.h>

#include "mpi/halo_ring.h"
#include "support/memory.h"

/* ------------------------------------------------------------------------------------------ write after read */

/*
 * After each step one rank reads its ghosts twice, with a pause between. Its neighbours are idle meanwhile, or stand in
 * their next start, which the reader has been told before it pauses. All ranks draw the same numbers.
 */
typedef struct {
    int reader, idle, ms;
} rest;

static rest draw_rest(uint64_t *state, int is_last) {
    rest p = {.reader = (int)test_random_in(state, 0, (size_t)job.size - 1)};
    p.idle = is_last || test_random_in(state, 0, 2) == 0;
    p.ms = is_last ? 0 : (int)test_random_in(state, 0, 20);
    return p;
}

static int is_beside(int reader) {
    return job.rank != reader && (left_of(reader) == job.rank || right_of(reader) == job.rank);
}

static void say(int rank, int step) {
    MPI_Send(NULL, 0, MPI_BYTE, rank, step, MPI_COMM_WORLD);
}

/* Without taking the processor from whom is waited for. */
static void hear(int rank, int step) {
    for (int there = 0; !there;) {
        MPI_Iprobe(rank, step, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        if (!there) {
            test_sleep_ms(1);
        }
    }
    MPI_Recv(NULL, 0, MPI_BYTE, rank, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void for_both_sides(void (*act)(int, int), int step) {
    if (left_of(job.rank) != job.rank) {
        act(left_of(job.rank), step);
    }
    if (right_of(job.rank) != left_of(job.rank)) {
        act(right_of(job.rank), step);
    }
}

/* In host space start returns only when the reader lets it, so what is said comes first. */
static void start_beside(const ring *r, int reader, int step) {
    const int blocks = job.space == PEERWIN_SPACE_HOST;
    if (reader >= 0 && blocks) {
        say(reader, step);
    }
    CHECK_OK(peerwin_halo_start(r->halo, job.stream));
    if (reader >= 0 && !blocks) {
        say(reader, step);
    }
}

static void read_twice(const ring *r, const rest *p, int step) {
    ring_check(r, step);
    if (job.rank == p->reader) {
        if (!p->idle) {
            for_both_sides(hear, step + 1);
        }
        test_sleep_ms(p->ms);
        ring_check(r, step);
        if (p->idle) {
            for_both_sides(say, step + 1);
        }
    } else if (p->idle && is_beside(p->reader)) {
        hear(p->reader, step + 1);
    }
}

static void read_all_twice(size_t step_bytes, int steps) {
    ring r = ring_new(0, step_bytes);
    uint64_t state = 7;
    int reader = -1; /* who pauses while I start */
    for (int step = 0; step < steps; step++) {
        const rest p = draw_rest(&state, step == steps - 1);
        ring_write(&r, step);
        start_beside(&r, reader, step);
        CHECK_OK(peerwin_halo_finish(r.halo, job.stream));
        read_twice(&r, &p, step);
        reader = !p.idle && is_beside(p.reader) ? p.reader : -1;
        if (step % 3 == 0) {
            CHECK_OK(peerwin_halo_release(r.halo, job.stream));
            CHECK_OK(peerwin_halo_release(r.halo, job.stream));
        }
    }
    check_done(r.ctx);
    ring_free(&r);
}

static void ghosts_stay_while_neighbours_are_idle_or_a_step_ahead(void) {
    read_all_twice(sizeof(double), 300);
}

static void ghosts_of_thin_rows_stay_too(void) {
    read_all_twice(ROW, 60);
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
    ring a = ring_new(0, sizeof(double));
    ring b = {.ctx = a.ctx, .win = test_window(a.ctx, (size_t)CELLS * ROW), .step = ROW};
    b.halo = ring_plan(&b, 0);
    for (int step = 0; step < test_rounds(100, 10); step++) {
        ring *first = (step + job.rank) % 2 == 0 ? &a : &b;
        ring *second = first == &a ? &b : &a;
        CHECK_OK(peerwin_halo_release(a.halo, job.stream));
        CHECK_OK(peerwin_halo_release(b.halo, job.stream));
        ring_write(first, step);
        CHECK_OK(peerwin_halo_start(first->halo, job.stream));
        ring_write(second, step);
        CHECK_OK(peerwin_halo_start(second->halo, job.stream));
        CHECK_OK(peerwin_halo_finish(second->halo, job.stream));
        ring_check(second, step);
        CHECK_OK(peerwin_halo_finish(first->halo, job.stream));
        ring_check(first, step);
    }
    CHECK_OK(peerwin_halo_free(b.halo));
    CHECK_OK(peerwin_win_free(b.win));
    ring_free(&a);
}

/* The usual pair: plans over two buffers used by turns, so that each is started while the other's ghosts are read. */
static void two_buffers_by_turns_exchange_without_barriers(void) {
    ring buffer[2];
    buffer[0] = ring_new(0, sizeof(double));
    buffer[1] =
        (ring){.ctx = buffer[0].ctx, .win = test_window(buffer[0].ctx, (size_t)CELLS * ROW), .step = sizeof(double)};
    buffer[1].halo = ring_plan(&buffer[1], 0);
    for (int step = 0; step < test_rounds(400, 20); step++) {
        ring *now = &buffer[step % 2];
        ring_write(now, step);
        CHECK_OK(peerwin_halo_start(now->halo, job.stream));
        if (step > 0) {
            ring_check(&buffer[(step + 1) % 2], step - 1);
        }
        CHECK_OK(peerwin_halo_finish(now->halo, job.stream));
        ring_check(now, step);
    }
    CHECK_OK(peerwin_halo_free(buffer[1].halo));
    CHECK_OK(peerwin_win_free(buffer[1].win));
    ring_free(&buffer[0]);
}

/* Two plans into the same ghosts, kept apart by barriers. */
static void shared_plans_take_turns_between_barriers(void) {
    ring r = ring_new(0, sizeof(double));
    peerwin_halo *other = ring_plan(&r, PEERWIN_HALO_SHARED);
    peerwin_halo *first = r.halo;
    for (int step = 0; step < test_rounds(50, 6); step++) {
        peerwin_halo *now = step % 2 == 0 ? first : other;
        ring_write(&r, step);
        CHECK_OK(peerwin_halo_start(now, job.stream));
        CHECK_OK(peerwin_halo_finish(now, job.stream));
        ring_check(&r, step);
        CHECK_OK(peerwin_barrier(r.ctx, job.stream));
        check_done(r.ctx);
    }
    CHECK_OK(peerwin_halo_free(other));
    ring_free(&r);
}

/* ------------------------------------------------------------------------------------- how waits may end */

/* On a stream nothing times out but the host's wait, which is repeated. */
static void early_on_a_stream(void) {
    ring r = ring_new(500, ROW);
    ring_write(&r, 1);
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
    ring_check(&r, 1);
    ring_free(&r);
}

/* Rank 0 is early twice: its start, and then its finish, time out by name, and go on when they are repeated. */
static void early_on_the_host(void) {
    ring r = ring_new(150, sizeof(double));
    ring_write(&r, 1);
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
    ring_check(&r, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    ring_free(&r);
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
    ring r = ring_new(30000, sizeof(double));
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
    ring r = ring_new(0, ROW);
    ring_write(&r, 0);
    CHECK_OK(peerwin_halo_start(r.halo, job.stream));
    CHECK_OK(peerwin_halo_free(r.halo));
    r.halo = ring_plan(&r, 0);
    ring_write(&r, 1);
    CHECK_OK(peerwin_halo_start(r.halo, job.stream));
    CHECK_OK(peerwin_halo_finish(r.halo, job.stream));
    ring_check(&r, 1);
    CHECK_OK(peerwin_finalize(r.ctx)); /* frees plan and window, and says so */
}

int main(int argc, char **argv) {
    static const test_case everywhere[] = {
        TEST_CASE(ghosts_stay_while_neighbours_are_idle_or_a_step_ahead, 1, 0),
        TEST_CASE(ghosts_of_thin_rows_stay_too, 1, 0),
        TEST_CASE(a_sender_that_receives_nothing_does_not_get_too_far_ahead, 1, 0),
        TEST_CASE(released_plans_do_not_wait_for_each_other, 1, 0),
        TEST_CASE(two_buffers_by_turns_exchange_without_barriers, 1, 0),
        TEST_CASE(shared_plans_take_turns_between_barriers, 1, 0),
        TEST_CASE(a_plan_may_be_freed_in_the_middle_or_left_to_finalize, 1, 0),
        TEST_CASE(a_deadline_changes_nothing_and_the_call_is_repeated, 2, 0),
        TEST_CASE(an_abort_ends_the_wait_and_all_can_be_freed, 2, 0),
    };
    return test_main(argc, argv, everywhere, (int)(sizeof(everywhere) / sizeof(everywhere[0])));
}
