/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Litmus tests in which streams take part: payloads written by kernels, by puts and by the copy engine, and flags
 * awaited by streams and by kernels that stay; store buffering by puts and gets. Without the order of a stream the
 * tests must fail.
 */
#include "litmus.h"
#include "support/ranges.h"

/* What goes from stream to stream, or between streams and kernels that stay. */
typedef struct {
    litmus_place p;
    rig_report *report;
    void *locked; /* memory of the host */
    const char *what;
    int by_puts;
    int by_engine;    /* the driver copies from memory of the host, which no kernel does */
    int by_calls;     /* a kernel that stays sends */
    int to_kernel;    /* a kernel that stays receives */
    int out_of_order; /* the signal does not wait for the payload */
    peerwin_stream other;
} traffic;

/* Fills the payload at its target, or fills it here and lets it be copied; then a signal. */
static void send(const traffic *t, uint64_t round) {
    const litmus_place *p = &t->p;
    unsigned blocks = p->bytes > 16384 ? 16 : 1;
    rig_fill_args fill = {litmus_payload(p, p->right), round, p->bytes / 8};
    if (t->by_engine) {
        fill.to = t->locked;
        rig_launch(RIG_KERNEL_fill, blocks, &fill, job.stream);
        DEVICE_OK(device.cuMemcpyAsync(device_address(litmus_payload(p, p->right)), device_address(t->locked), p->bytes,
                                       (CUstream)job.stream));
        CHECK_OK(peerwin_signal(p->win, p->right, 0, PEERWIN_SIGNAL_SET, round, job.stream));
        return;
    }
    if (t->by_puts) {
        fill.to = p->source;
        rig_launch(RIG_KERNEL_fill, blocks, &fill, job.stream);
        CHECK_OK(peerwin_put_signal(p->win, p->right, litmus_payload_offset(), p->source, p->bytes, 0,
                                    PEERWIN_SIGNAL_SET, round, job.stream));
        return;
    }
    if (t->out_of_order) {
        rig_delay_args delay = {NULL, round, 1, 0, 100000};
        rig_launch(RIG_KERNEL_delay, 1, &delay, job.stream);
    }
    rig_launch(RIG_KERNEL_fill, blocks, &fill, job.stream);
    CHECK_OK(peerwin_signal(p->win, p->right, 0, PEERWIN_SIGNAL_SET, round, t->out_of_order ? t->other : job.stream));
}

static void receive(const traffic *t, uint64_t round) {
    const litmus_place *p = &t->p;
    rig_check_args check = {litmus_payload(p, job.rank), round, p->bytes / 8, t->report};
    peerwin_stream stream = t->out_of_order ? t->other : job.stream;
    CHECK_OK(peerwin_wait(p->win, 0, round, stream));
    rig_launch(RIG_KERNEL_check, p->bytes > 16384 ? 16 : 1, &check, stream);
    CHECK_OK(peerwin_signal(p->win, p->left, 1, PEERWIN_SIGNAL_SET, round, stream));
}

/* The kernel's part of the rounds, on a stream that shares no queue with the others. */
static void launch_part(const traffic *t, uint64_t first, uint64_t rounds, uint32_t parts) {
    const litmus_place *p = &t->p;
    rig_call_args a = {
        .view = p->view,
        .source = p->source,
        .offset = litmus_payload_offset(),
        .words = p->bytes / 8,
        .stride = p->stride,
        .first = first,
        .rounds = rounds,
        .right = p->right,
        .left = p->left,
        .parts = parts,
        .report = t->report + 1,
    };
    rig_launch(RIG_KERNEL_call, 1, &a, t->other);
}

static void run_batch(const traffic *t, uint64_t first, uint64_t rounds) {
    if (t->by_calls) {
        launch_part(t, first, rounds, RIG_SENDS | RIG_AWAITS_ACK);
    }
    for (uint64_t round = first + 1; round <= first + rounds; round++) {
        if (!t->by_calls) {
            send(t, round);
        }
        if (!t->to_kernel) {
            receive(t, round);
        }
        if (!t->by_calls) {
            CHECK_OK(peerwin_wait(t->p.win, 1, round, job.stream));
        }
    }
    if (t->to_kernel) {
        launch_part(t, first, rounds, RIG_RECEIVES);
    }
    check_done(t->p.ctx);
    if (t->other != NULL) {
        CHECK_OK(peerwin_stream_sync(t->p.ctx, t->other));
    }
}

static rig_report run_traffic(traffic *t, uint64_t rounds, double seconds, double *seconds_out) {
    enum { BATCH = 128 };
    uint64_t given = 0;
    t->report = rig_reports_new(2);
    double start = test_seconds();
    while (!rig_is_over(start, given, rounds, seconds)) {
        uint64_t batch = rounds - given < BATCH ? rounds - given : BATCH;
        run_batch(t, given, batch);
        given += batch;
    }
    *seconds_out = test_seconds() - start;
    rig_report sum = rig_reports_end(t->report, 2);
    CHECK_EQUAL(sum.late, 0);
    return sum;
}

static void check_traffic(traffic t, size_t bytes, uint64_t rounds) {
    double took = 0;
    t.p = litmus_begin(bytes, 1);
    t.other = t.by_calls || t.to_kernel ? device_stream_urgent() : NULL;
    t.locked = t.by_engine ? locked_new(bytes) : NULL;
    rig_report sum = run_traffic(&t, rig.simulated ? rounds / 10 + 4 : rounds, litmus_seconds(), &took);
    litmus_tell(t.what, bytes, &sum, took);
    CHECK_EQUAL(sum.wrong, 0);
    CHECK(sum.rounds > 0);
    if (t.locked != NULL) {
        locked_free(t.locked);
    }
    if (t.other != NULL) {
        device_stream_free(t.other);
    }
    litmus_end(&t.p);
}

static void kernel_to_stream(size_t bytes, uint64_t rounds) {
    check_traffic((traffic){.what = "message passing, kernel to stream"}, bytes, rounds);
}

static void message_passing_from_kernel_to_stream(void) {
    litmus_sizes(kernel_to_stream);
}

static void calls_to_stream(size_t bytes, uint64_t rounds) {
    check_traffic((traffic){.what = "message passing, calls to stream", .by_calls = 1}, bytes, rounds);
}

static void message_passing_from_calls_to_stream(void) {
    litmus_sizes(calls_to_stream);
}

static void puts_to_stream(size_t bytes, uint64_t rounds) {
    check_traffic((traffic){.what = "message passing, puts to stream", .by_puts = 1}, bytes, rounds);
}

static void message_passing_from_puts_to_stream(void) {
    litmus_sizes(puts_to_stream);
}

static void puts_to_kernel(size_t bytes, uint64_t rounds) {
    check_traffic((traffic){.what = "message passing, puts to kernel", .by_puts = 1, .to_kernel = 1}, bytes, rounds);
}

static void message_passing_from_puts_to_kernel(void) {
    litmus_sizes(puts_to_kernel);
}

static void engine_to_stream(size_t bytes, uint64_t rounds) {
    check_traffic((traffic){.what = "message passing, copy engine to stream", .by_engine = 1}, bytes, rounds);
}

static void message_passing_from_copy_engine_to_stream(void) {
    litmus_sizes(engine_to_stream);
}

static void engine_to_kernel(size_t bytes, uint64_t rounds) {
    check_traffic((traffic){.what = "message passing, copy engine to kernel", .by_engine = 1, .to_kernel = 1}, bytes,
                  rounds);
}

static void message_passing_from_copy_engine_to_kernel(void) {
    litmus_sizes(engine_to_kernel);
}

/* Mine to the partner, and, when it has arrived, what the partner has put here. */
static void cross(const litmus_place *p, uint64_t *mine, uint64_t *seen, int by_engine) {
    size_t store = (size_t)STORE * MOST_BLOCKS * LINE;
    if (by_engine && p->partner != MPI_PROC_NULL) {
        DEVICE_OK(device.cuMemcpyAsync(device_address(litmus_lines(p, p->partner, STORE)), device_address(mine), 8,
                                       (CUstream)job.stream));
        CHECK_OK(peerwin_quiet(p->ctx, job.stream));
        DEVICE_OK(device.cuMemcpyAsync(device_address(seen), device_address(litmus_lines(p, job.rank, STORE)), 8,
                                       (CUstream)job.stream));
        return;
    }
    CHECK_OK(peerwin_put(p->win, p->partner, store, mine, 8, job.stream));
    CHECK_OK(peerwin_quiet(p->ctx, job.stream));
    CHECK_OK(peerwin_get(p->win, job.rank, store, seen, 8, job.stream));
}

/* The partners meet, and then both put and get, again and again. Returns how often both missed the other's. */
static uint64_t both_missed(const litmus_place *p, int by_engine, uint64_t rounds, double seconds,
                            uint64_t *rounds_out) {
    enum { BATCH = 64 };
    uint64_t theirs[BATCH];
    uint64_t missed = 0;
    uint64_t given = 0;
    uint64_t *mine = locked_new(BATCH * 8);
    uint64_t *seen = locked_new(BATCH * 8);
    double start = test_seconds();
    while (!rig_is_over(start, given, rounds, seconds)) {
        for (unsigned i = 0; i < BATCH; i++) {
            mine[i] = given + i + 1;
        }
        for (unsigned i = 0; i < BATCH; i++) {
            CHECK_OK(peerwin_barrier(p->ctx, job.stream));
            cross(p, mine + i, seen + i, by_engine);
        }
        check_done(p->ctx);
        if (p->partner != MPI_PROC_NULL) {
            MPI_Sendrecv(seen, BATCH, MPI_UINT64_T, p->partner, 0, theirs, BATCH, MPI_UINT64_T, p->partner, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (unsigned i = 0; i < BATCH; i++) {
                missed += seen[i] < mine[i] && theirs[i] < mine[i];
            }
        }
        given += BATCH;
    }
    locked_free(mine);
    locked_free(seen);
    MPI_Allreduce(MPI_IN_PLACE, &missed, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    *rounds_out = given;
    return missed;
}

static void store_buffering_between_streams(void) {
    for (int by_engine = 0; by_engine < 2; by_engine++) {
        litmus_place p = litmus_begin(8, 1);
        rig_report sum = {0};
        double start = test_seconds();
        sum.wrong =
            both_missed(&p, by_engine, rig_amount(rig.rounds / 10, 1000000, 128), litmus_seconds(), &sum.rounds);
        sum.rounds *= (uint64_t)job.size;
        litmus_tell(by_engine ? "store buffering, copy engine" : "store buffering, puts", 8, &sum,
                    test_seconds() - start);
        CHECK_EQUAL(sum.wrong, 0);
        litmus_end(&p);
    }
}

static void without_the_streams_order_the_tests_fail(void) {
    double took = 0;
    traffic t = {.p = litmus_begin(1024, 1), .out_of_order = 1, .other = device_stream_new()};
    rig_report sum = run_traffic(&t, rig_amount(rig.rounds / 1000, 1000, 100), litmus_seconds(), &took);
    rig_say("litmus without a stream's order, %d ranks: %llu wrong words in %llu rounds", job.size,
            (unsigned long long)sum.wrong, (unsigned long long)sum.rounds);
    CHECK(sum.wrong > 0);
    device_stream_free(t.other);
    litmus_end(&t.p);
}

static const test_case cases[] = {
    TEST_CASE(message_passing_from_kernel_to_stream, 1, 0),
    TEST_CASE(message_passing_from_calls_to_stream, 1, 0),
    TEST_CASE(message_passing_from_puts_to_stream, 1, 0),
    TEST_CASE(message_passing_from_puts_to_kernel, 1, 0),
    TEST_CASE(message_passing_from_copy_engine_to_stream, 1, 0),
    TEST_CASE(message_passing_from_copy_engine_to_kernel, 1, 0),
    TEST_CASE(store_buffering_between_streams, 2, 0),
    TEST_CASE(without_the_streams_order_the_tests_fail, 2, 0),
};

RIG_MAIN(cases)
