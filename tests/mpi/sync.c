/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Signals, waits, barriers: values that wrap, data that is there when its signal is, and nobody who passes early.
 */
#include <stdlib.h>
#include <string.h>

#include "support/device.h"
#include "support/memory.h"

/* A time-out that passes soon, and in which a context can begin even if the machine is busy. */
enum { SHORT_MS = TEST_SANITIZED ? 1500 : 250 };

static int right_of(int rank) {
    return (rank + 1) % job.size;
}

static int left_of(int rank) {
    return (rank + job.size - 1) % job.size;
}

static uint64_t slot_value(peerwin_win *win, unsigned slot) {
    uint64_t value = 0;
    CHECK_OK(peerwin_signal_read(win, slot, &value));
    return value;
}

/* Delays of 0 to 400 microseconds, now and then 5 ms, so that ranks meet in every order. */
static void random_delay(uint64_t *seed) {
    uint64_t draw = test_random(seed) % 64;
    double end = test_seconds() + (draw == 0 ? 5e-3 : draw < 16 ? (double)(draw * 25) * 1e-6 : 0);
    while (test_seconds() < end) {
        if (draw == 0) {
            test_sleep_ms(1);
        }
    }
}

/* -------------------------------------------------------------------------------------------------- signals */

/* Then the case ends here: on such machines add_is_refused_where_there_are_no_atomics. */
static int cannot_add(peerwin_ctx *ctx) {
    if (!test_agree_skip(!test_has_adds(ctx), "there are no atomics between these devices")) {
        return 0;
    }
    CHECK_OK(peerwin_finalize(ctx));
    return 1;
}

static void add_is_refused_where_there_are_no_atomics(void) {
    double value = 5;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    int right = right_of(job.rank);
    if (test_agree_skip(test_has_adds(ctx) || right == job.rank, "there are atomics")) {
        CHECK_OK(peerwin_finalize(ctx));
        return;
    }
    peerwin_win *win = test_window(ctx, 8);
    CHECK_STATUS(peerwin_signal(win, right, 0, PEERWIN_SIGNAL_ADD, 1, job.stream), PEERWIN_ERR_UNSUPPORTED, "atomics",
                 "SET");
    CHECK_STATUS(peerwin_put_signal(win, right, 0, &value, 8, 0, PEERWIN_SIGNAL_ADD, 1, job.stream),
                 PEERWIN_ERR_UNSUPPORTED, "atomics", "SET");
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    CHECK_EQUAL(slot_value(win, 0), 0);
    segment_load(win, 0, &value, 8);
    CHECK(value == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(peerwin_signal(win, right, 0, PEERWIN_SIGNAL_SET, 3, job.stream));
    CHECK_OK(done(ctx, peerwin_wait(win, 0, 3, job.stream)));
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    test_free(ctx, win);
}

static void set_and_add_from_every_rank_arrive(void) {
    uint64_t rounds = (uint64_t)test_rounds(500, 100);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    if (cannot_add(ctx)) {
        return;
    }
    peerwin_win *win = test_window(ctx, 8);
    for (uint64_t i = 1; i <= rounds; i++) {
        for (int rank = 0; rank < job.size; rank++) {
            CHECK_OK(peerwin_signal(win, rank, 0, PEERWIN_SIGNAL_ADD, i, job.stream));
        }
        CHECK_OK(peerwin_signal(win, right_of(job.rank), 1, PEERWIN_SIGNAL_SET, i * 1000, job.stream));
    }
    uint64_t sum = (uint64_t)job.size * rounds * (rounds + 1) / 2;
    CHECK_OK(peerwin_wait(win, 0, sum, job.stream));
    CHECK_OK(done(ctx, peerwin_wait(win, 1, rounds * 1000, job.stream)));
    CHECK_EQUAL(slot_value(win, 0), sum);
    CHECK_EQUAL(slot_value(win, 1), rounds * 1000);
    test_free(ctx, win);
}

static void every_slot_is_its_own(void) {
    peerwin_win_config config;
    peerwin_win *win = NULL;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win_config_init(&config);
    config.num_signals = 1000;
    CHECK_OK(peerwin_win_alloc(ctx, 8, &config, &win));
    for (unsigned slot = 0; slot < 1000; slot++) {
        CHECK_OK(peerwin_signal(win, right_of(job.rank), slot, PEERWIN_SIGNAL_SET,
                                ((uint64_t)job.rank << 40) + slot * 7919ull, job.stream));
    }
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    for (unsigned slot = 0; slot < 1000; slot++) {
        CHECK_EQUAL(slot_value(win, slot), ((uint64_t)left_of(job.rank) << 40) + slot * 7919ull);
    }
    CHECK_STATUS(peerwin_signal(win, right_of(job.rank), 1000, PEERWIN_SIGNAL_SET, 1, job.stream), PEERWIN_ERR_ARG,
                 "slot");
    test_free(ctx, win);
}

static void the_most_slots_a_window_can_have_work(void) {
    peerwin_win_config config;
    peerwin_win *win = NULL;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win_config_init(&config);
    config.num_signals = 65536;
    for (int round = 0; round < 3; round++) {
        CHECK_OK(peerwin_win_alloc(ctx, 8, &config, &win));
        CHECK_EQUAL(slot_value(win, 65535), 0);
        CHECK_OK(peerwin_barrier(ctx, job.stream));
        CHECK_OK(peerwin_signal(win, right_of(job.rank), 65535, PEERWIN_SIGNAL_SET, 5, job.stream));
        CHECK_OK(peerwin_wait(win, 65535, 5, job.stream));
        CHECK_OK(peerwin_win_free(win));
    }
    CHECK_OK(peerwin_finalize(ctx));
}

static void counters_may_wrap(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    if (cannot_add(ctx)) {
        return;
    }
    peerwin_win *win = test_window(ctx, 8);
    uint64_t start = UINT64_MAX - 20;
    CHECK_OK(peerwin_signal(win, right_of(job.rank), 0, PEERWIN_SIGNAL_SET, start, job.stream));
    CHECK_OK(peerwin_wait(win, 0, start, job.stream));
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    for (uint64_t step = 1; step <= 50; step++) {
        CHECK_OK(peerwin_signal(win, right_of(job.rank), 0, PEERWIN_SIGNAL_ADD, 1, job.stream));
        CHECK_OK(peerwin_wait(win, 0, start + step, job.stream));
        /* A value from before the wrap is satisfied too. */
        CHECK_OK(peerwin_wait(win, 0, start, job.stream));
    }
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    CHECK_EQUAL(slot_value(win, 0), start + 50);
    test_free(ctx, win);
}

static void a_value_before_the_slot_by_half_the_range_is_still_awaited(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, SHORT_MS);
    peerwin_win *win = test_window(ctx, 8);
    CHECK_OK(peerwin_signal(win, job.rank, 0, PEERWIN_SIGNAL_SET, UINT64_C(1) << 63, job.stream));
    CHECK_STATUS(done(ctx, peerwin_wait(win, 0, 0, job.stream)), PEERWIN_ERR_TIMEOUT, "slot");
    test_fulfil(ctx, win, 0, 0);
    CHECK_OK(peerwin_signal(win, job.rank, 0, PEERWIN_SIGNAL_SET, UINT64_C(1) << 63, job.stream));
    CHECK_OK(done(ctx, peerwin_wait(win, 0, 1, job.stream)));
    MPI_Barrier(MPI_COMM_WORLD);
    test_free(ctx, win);
}

static void consume_takes_exactly_what_it_waited_for(void) {
    int rounds = test_rounds(1000, 200);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    if (cannot_add(ctx)) {
        return;
    }
    peerwin_win *win = test_window(ctx, 8);
    uint64_t seed = (uint64_t)job.rank + 1;
    for (int round = 0; round < rounds; round++) {
        for (int rank = 0; rank < job.size; rank++) {
            CHECK_OK(peerwin_signal(win, rank, 2, PEERWIN_SIGNAL_ADD, 1, job.stream));
        }
        if (round % 64 == 0) {
            random_delay(&seed);
        }
        CHECK_OK(peerwin_consume(win, 2, (uint64_t)job.size, job.stream));
    }
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    CHECK_EQUAL(slot_value(win, 2), 0);
    CHECK_OK(peerwin_signal(win, job.rank, 3, PEERWIN_SIGNAL_ADD, 10, job.stream));
    CHECK_OK(done(ctx, peerwin_consume(win, 3, 4, job.stream)));
    CHECK_EQUAL(slot_value(win, 3), 6);
    CHECK_OK(done(ctx, peerwin_consume(win, 3, 0, job.stream)));
    CHECK_EQUAL(slot_value(win, 3), 6);
    test_free(ctx, win);
}

/* Ping round the ring with new data every time, of sizes from nothing to beyond any small-copy limit. */
static void who_sees_the_signal_sees_the_data(void) {
    enum { BYTES = 20000 };
    unsigned rounds = (unsigned)test_rounds(2000, 400);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 2 * BYTES);
    unsigned char *bytes = host_new(BYTES);
    unsigned char *want = host_new(BYTES);
    void *source = buffer_new(BYTES);
    uint64_t seed = 77;
    for (unsigned round = 1; round <= rounds; round++) {
        size_t length = test_random_in(&seed, 0, round % 8 == 0 ? BYTES : 300);
        size_t half = round % 2 * (size_t)BYTES;
        pattern_write(bytes, job.rank, round, length);
        buffer_store(source, 0, bytes, length);
        CHECK_OK(peerwin_put_signal(win, right_of(job.rank), half, source, length, 0, PEERWIN_SIGNAL_SET, round,
                                    job.stream));
        CHECK_OK(peerwin_wait(win, 0, round, job.stream));
        segment_load(win, half, bytes, length);
        pattern_write(want, left_of(job.rank), round, length);
        check_bytes("what arrived", bytes, want, length);
        /* The right neighbour may not overwrite what I have not read: tell the left one that I have. */
        CHECK_OK(peerwin_signal(win, left_of(job.rank), 1, PEERWIN_SIGNAL_SET, round, job.stream));
        CHECK_OK(peerwin_wait(win, 1, round, job.stream));
    }
    buffer_free(source);
    free(bytes);
    free(want);
    test_free(ctx, win);
}

static void a_wait_that_times_out_may_be_repeated(void) {
    if (test_agree_skip(job.space != PEERWIN_SPACE_HOST, "for streams there is a case of its own")) {
        return;
    }
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, SHORT_MS);
    peerwin_win *win = test_window(ctx, 8);
    double start = test_seconds();
    CHECK_STATUS(peerwin_wait(win, 9, 1, job.stream), PEERWIN_ERR_TIMEOUT, "slot 9");
    double took = test_seconds() - start;
    CHECK(took >= 0.00096 * SHORT_MS && took < 5.0);
    CHECK_STATUS(peerwin_consume(win, 9, 1, job.stream), PEERWIN_ERR_TIMEOUT, "slot 9");
    CHECK_EQUAL(slot_value(win, 9), 0);
    CHECK_OK(peerwin_check(ctx));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(peerwin_signal(win, right_of(job.rank), 9, PEERWIN_SIGNAL_ADD, 1, job.stream));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(peerwin_wait(win, 9, 1, job.stream));
    CHECK_OK(peerwin_consume(win, 9, 1, job.stream));
    MPI_Barrier(MPI_COMM_WORLD);
    test_free(ctx, win);
}

/* In CUDA space the waits stand in the stream, and it is the host's wait for the stream that is repeated. */
static void a_stream_that_waits_too_long_may_be_waited_for_again(void) {
    if (test_agree_skip(job.space != PEERWIN_SPACE_CUDA, "streams only")) {
        return;
    }
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, SHORT_MS);
    if (cannot_add(ctx)) {
        return;
    }
    peerwin_win *win = test_window(ctx, 8);
    peerwin_stream other = device_stream_urgent();
    double start = test_seconds();
    CHECK_OK(peerwin_wait(win, 9, 1, job.stream));
    CHECK_OK(peerwin_consume(win, 9, 1, job.stream));
    CHECK(test_seconds() - start < 0.00096 * SHORT_MS);
    CHECK_STATUS(peerwin_stream_sync(ctx, job.stream), PEERWIN_ERR_TIMEOUT, "slot 9");
    double took = test_seconds() - start;
    CHECK(took >= 0.00096 * SHORT_MS && took < 5.0);
    CHECK(!device_stream_is_idle(job.stream));
    CHECK_EQUAL(slot_value(win, 9), 0);
    CHECK_OK(peerwin_check(ctx));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(peerwin_signal(win, right_of(job.rank), 9, PEERWIN_SIGNAL_ADD, 3, other));
    CHECK_OK(peerwin_stream_sync(ctx, other));
    peerwin_status status = PEERWIN_ERR_TIMEOUT;
    for (int tries = 0; tries < 50 && status == PEERWIN_ERR_TIMEOUT; tries++) {
        status = peerwin_stream_sync(ctx, job.stream);
    }
    CHECK_OK(status);
    CHECK_EQUAL(slot_value(win, 9), 2);
    MPI_Barrier(MPI_COMM_WORLD);
    device_stream_free(other);
    test_free(ctx, win);
}

/* -------------------------------------------------------------------------------------------------- barriers */

static void nobody_passes_a_barrier_early(void) {
    int rounds = test_rounds(job.size <= 2 ? 3000 : job.size <= 4 ? 1000 : 300, 200);
    uint64_t seed = (uint64_t)job.rank * 7919 + 13;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, sizeof(int64_t) * (size_t)job.size);
    int64_t *seen = host_new(sizeof(*seen) * (size_t)job.size);
    void *source = buffer_new(sizeof(int64_t));
    for (int64_t round = 1; round <= rounds; round++) {
        random_delay(&seed);
        buffer_store(source, 0, &round, sizeof(round));
        for (int rank = 0; rank < job.size; rank++) {
            CHECK_OK(peerwin_put(win, rank, sizeof(round) * (size_t)job.rank, source, sizeof(round), job.stream));
        }
        CHECK_OK(peerwin_barrier(ctx, job.stream));
        segment_load(win, 0, seen, sizeof(*seen) * (size_t)job.size);
        for (int rank = 0; rank < job.size; rank++) {
            if (seen[rank] < round || seen[rank] > round + 1) {
                test_fail(__FILE__, __LINE__, "round %lld: rank %d is at %lld", (long long)round, rank,
                          (long long)seen[rank]);
            }
        }
    }
    free(seen);
    buffer_free(source);
    test_free(ctx, win);
}

static void barriers_alone_take_turns_many_times(void) {
    int rounds = test_rounds(job.size <= 2 ? 100000 : 5000, 1000);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (int i = 0; i < rounds; i++) {
        CHECK_OK(peerwin_barrier(ctx, job.stream));
    }
    CHECK_OK(peerwin_finalize(ctx));
}

static void barriers_of_two_contexts_are_separate(void) {
    peerwin_ctx *one = test_context(MPI_COMM_WORLD, 0);
    peerwin_ctx *two = test_context(MPI_COMM_WORLD, 0);
    for (int i = 0; i < 200; i++) {
        CHECK_OK(peerwin_barrier(i % 3 == 0 ? two : one, job.stream));
        if (i % 5 == 0) {
            CHECK_OK(peerwin_barrier(two, job.stream));
        }
    }
    CHECK_OK(peerwin_finalize(one));
    CHECK_OK(peerwin_finalize(two));
}

/* The barrier that timed out goes on: in CUDA space it stands in the stream, unless it is the hosts that meet. */
static peerwin_status barrier_again(peerwin_ctx *ctx) {
    const char *kind = getenv("PEERWIN_BARRIER");
    int by_hosts = job.space != PEERWIN_SPACE_CUDA || (kind != NULL && strcmp(kind, "event") == 0);
    return by_hosts ? done(ctx, peerwin_barrier(ctx, job.stream)) : peerwin_stream_sync(ctx, job.stream);
}

static void a_late_rank_is_named_and_the_barrier_can_be_repeated(void) {
    int late = job.size - 1;
    char name[32];
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, SHORT_MS);
    snprintf(name, sizeof(name), "rank %d", late);
    for (int round = 0; round < 3; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (job.rank == late) {
            for (int rank = 0; rank < late; rank++) { /* not after so much time: the others may be late themselves */
                MPI_Recv(NULL, 0, MPI_INT, rank, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
            CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
        } else {
            CHECK_STATUS(done(ctx, peerwin_barrier(ctx, job.stream)), PEERWIN_ERR_TIMEOUT, name);
            MPI_Send(NULL, 0, MPI_INT, late, round, MPI_COMM_WORLD);
            peerwin_status status = PEERWIN_ERR_TIMEOUT;
            for (int tries = 0; tries < 50 && status == PEERWIN_ERR_TIMEOUT; tries++) {
                status = barrier_again(ctx);
            }
            CHECK_OK(status);
        }
    }
    CHECK_OK(peerwin_check(ctx));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(peerwin_finalize(ctx));
}

static void stream_sync_and_quiet_are_local_and_succeed(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    if (job.rank == 0) {
        CHECK_OK(peerwin_stream_sync(ctx, job.stream));
        CHECK_OK(peerwin_quiet(ctx, job.stream));
    }
    CHECK_OK(peerwin_finalize(ctx));
}

/* A message too long for MPI's buffers moves only while both ranks are in MPI: a rank that waits here must let it. */
static void a_long_mpi_message_moves_while_its_receiver_waits(void) {
    enum { COUNT = 1 << 20 };
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 20000);
    double *values = malloc(COUNT * sizeof(*values));
    CHECK(values != NULL);
    for (int i = 0; i < COUNT; i++) {
        values[i] = job.rank == 1 ? i : -1;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    if (job.rank == 0) {
        MPI_Irecv(values, COUNT, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD, &request);
    } else if (job.rank == 1) {
        MPI_Send(values, COUNT, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD);
    }
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    if (job.rank == 0) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < COUNT; i++) {
            CHECK(values[i] == i);
        }
    }
    free(values);
    CHECK_OK(peerwin_finalize(ctx));
}

static const test_case cases[] = {
    TEST_CASE(add_is_refused_where_there_are_no_atomics, 1, 0),
    TEST_CASE(set_and_add_from_every_rank_arrive, 1, 0),
    TEST_CASE(every_slot_is_its_own, 1, 0),
    TEST_CASE(the_most_slots_a_window_can_have_work, 1, 0),
    TEST_CASE(counters_may_wrap, 1, 0),
    TEST_CASE(a_value_before_the_slot_by_half_the_range_is_still_awaited, 1, 2),
    TEST_CASE(consume_takes_exactly_what_it_waited_for, 1, 0),
    TEST_CASE(who_sees_the_signal_sees_the_data, 1, 4),
    TEST_CASE(a_wait_that_times_out_may_be_repeated, 1, 4),
    TEST_CASE(a_stream_that_waits_too_long_may_be_waited_for_again, 1, 4),
    TEST_CASE(nobody_passes_a_barrier_early, 1, 0),
    TEST_CASE(barriers_alone_take_turns_many_times, 1, 0),
    TEST_CASE(barriers_of_two_contexts_are_separate, 1, 0),
    TEST_CASE(a_late_rank_is_named_and_the_barrier_can_be_repeated, 2, 4),
    TEST_CASE(a_long_mpi_message_moves_while_its_receiver_waits, 2, 4),
    TEST_CASE(stream_sync_and_quiet_are_local_and_succeed, 1, 0),
};
TEST_MAIN(cases)
