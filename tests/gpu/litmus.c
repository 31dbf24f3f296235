/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Litmus tests between ranks: message passing (who sees the flag sees the payload) and store buffering (of two ranks
 * that store and then load, one sees the other's store), for payloads written by kernels and by the copy engine, and
 * flags awaited by kernels and by streams. Each rank writes to the next one and is written to by the one before, so all
 * directions of a job are tested at once.
 *
 * A test that never fails shows nothing: without_fences_... leaves out what makes it right, and says where that was
 * seen. Which fences a machine needs is the machine's; a flag before its payload must be caught everywhere.
 */
#include <string.h>

#include "rig.h"

enum { LINE = 8 * RIG_LINE_WORDS, AREAS = 4, FLAG = 0, ACK = 1, STORE = 2, SEEN = 3, MOST_BLOCKS = 64 };
static const uint64_t LIMIT_NS = 20000000000u;

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    int right, left, partner;
    unsigned blocks;
    size_t bytes;  /* of a payload */
    size_t stride; /* from one block's payload to the next one's */
} place;

static place begin(size_t bytes, unsigned blocks) {
    place p = {.bytes = bytes, .blocks = blocks, .stride = (bytes + LINE - 1) / LINE * LINE};
    p.right = (job.rank + 1) % job.size;
    p.left = (job.rank + job.size - 1) % job.size;
    p.partner = (job.rank ^ 1) < job.size ? job.rank ^ 1 : MPI_PROC_NULL;
    p.ctx = test_context(MPI_COMM_WORLD, 0);
    p.win = test_window(p.ctx, (size_t)AREAS * MOST_BLOCKS * LINE + p.stride * blocks);
    return p;
}

static void end(place *p) {
    test_free(p->ctx, p->win);
}

/* A line for each block. */
static uint64_t *lines_of(const place *p, int rank, int area) {
    char *base = peerwin_win_ptr(p->win, rank);
    CHECK(base != NULL);
    return (uint64_t *)(void *)(base + (size_t)area * MOST_BLOCKS * LINE);
}

static size_t payload_offset(void) {
    return (size_t)AREAS * MOST_BLOCKS * LINE;
}

static uint64_t *payload_of(const place *p, int rank) {
    return lines_of(p, rank, AREAS);
}

static unsigned blocks_of(void) {
    unsigned blocks = rig.blocks != 0 ? rig.blocks : rig.simulated ? 2 : 16;
    return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
}

static double seconds_of(void) {
    return rig.seconds > 0 ? rig.seconds : rig.simulated ? 2.0 : 20.0;
}

static void tell(const char *what, size_t bytes, const rig_report *sum, double seconds) {
    /* Every rank has counted the rounds. */
    rig_say("litmus %s, %zu B, %d ranks: %llu rounds in %.2f s (%.3f us each), %llu wrong", what, bytes, job.size,
            (unsigned long long)sum->rounds, seconds, 1e6 * seconds * job.size / (double)(sum->rounds + !sum->rounds),
            (unsigned long long)sum->wrong);
}

/* ------------------------------------------------------------------------------------------ kernels to kernels */

static void launch_pass(const place *p, uint64_t first, uint64_t rounds, uint32_t without, rig_report *reports) {
    rig_pass_args a = {
        .to = payload_of(p, p->right),
        .own = payload_of(p, job.rank),
        .flag_out = lines_of(p, p->right, FLAG),
        .ack_out = lines_of(p, p->left, ACK),
        .flag_in = lines_of(p, job.rank, FLAG),
        .ack_in = lines_of(p, job.rank, ACK),
        .words = p->bytes / 8,
        .stride = p->stride / 8,
        .first = first,
        .rounds = rounds,
        .limit_ns = LIMIT_NS,
        .without = without,
        .report = reports,
    };
    rig_launch(RIG_KERNEL_pass, p->blocks, &a, job.stream);
}

/* Only ranks with a partner. */
static void launch_cross(const place *p, uint64_t first, uint64_t rounds, uint32_t without, rig_report *reports) {
    if (p->partner == MPI_PROC_NULL) {
        return;
    }
    rig_cross_args a = {
        .store_out = lines_of(p, p->partner, STORE),
        .seen_out = lines_of(p, p->partner, SEEN),
        .store_in = lines_of(p, job.rank, STORE),
        .seen_in = lines_of(p, job.rank, SEEN),
        .first = first,
        .rounds = rounds,
        .seed = (uint64_t)job.rank,
        .limit_ns = LIMIT_NS,
        .without = without,
        .report = reports,
    };
    rig_launch(RIG_KERNEL_cross, p->blocks, &a, job.stream);
}

typedef void launcher(const place *p, uint64_t first, uint64_t rounds, uint32_t without, rig_report *reports);

/* Launches of growing length, until all blocks together have had their rounds or the time is over. */
static rig_report measure(const place *p, launcher *launch, uint64_t rounds, uint32_t without, double seconds,
                          double *seconds_out) {
    rig_report *reports = rig_reports_new((int)p->blocks);
    uint64_t each = (rounds + p->blocks - 1) / p->blocks;
    uint64_t given = 0;
    uint64_t step = each < 16 ? each : 16;
    double start = test_seconds();
    while (!rig_is_over(start, given, each, seconds)) {
        step = step < each - given ? step : each - given;
        double before = test_seconds();
        launch(p, given, step, without, reports);
        check_done(p->ctx);
        given += step;
        int grow = test_seconds() - before < seconds / 8;
        MPI_Allreduce(MPI_IN_PLACE, &grow, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        step *= grow ? 4 : 1;
    }
    *seconds_out = test_seconds() - start;
    return rig_reports_end(reports, (int)p->blocks);
}

static void check_measured(const char *what, const place *p, launcher *launch, uint64_t rounds) {
    double took = 0;
    rig_report sum = measure(p, launch, rounds, 0, seconds_of(), &took);
    tell(what, p->bytes, &sum, took);
    CHECK(sum.rounds > 0);
    CHECK_EQUAL(sum.late, 0);
    CHECK_EQUAL(sum.wrong, 0);
}

static void message_passing_from_kernel_to_kernel(void) {
    static const size_t sizes[] = {8, 64, 1024, 1 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int large = sizes[i] > 1024;
        if (rig.bytes != 0 && rig.bytes != sizes[i]) {
            continue;
        }
        place p = begin(sizes[i], blocks_of());
        check_measured("message passing, kernel to kernel", &p, launch_pass,
                       large ? rig_amount(rig.rounds / 100, 100000, 8) : rig_amount(rig.rounds, 10000000, 2000));
        end(&p);
    }
}

static void store_buffering_between_kernels(void) {
    place p = begin(8, blocks_of());
    check_measured("store buffering, kernels", &p, launch_cross, rig_amount(rig.rounds, 10000000, 2000));
    end(&p);
}

/* --------------------------------------------------------------------------------------------------- by streams */

typedef struct {
    place p;
    void *source; /* what the copy engine sends */
    rig_report *report;
    int by_copies;
    int out_of_order; /* the signal does not wait for the payload */
    peerwin_stream other;
} traffic;

/* Fills the payload at its target, or fills it here and lets it be copied; then a signal. */
static void send(const traffic *t, uint64_t round) {
    const place *p = &t->p;
    unsigned blocks = p->bytes > 16384 ? 16 : 1;
    rig_fill_args fill = {payload_of(p, p->right), round, p->bytes / 8};
    if (t->by_copies) {
        fill.to = t->source;
        rig_launch(RIG_KERNEL_fill, blocks, &fill, job.stream);
        CHECK_OK(peerwin_put_signal(p->win, p->right, payload_offset(), t->source, p->bytes, 0, PEERWIN_SIGNAL_SET,
                                    round, job.stream));
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
    const place *p = &t->p;
    rig_check_args check = {payload_of(p, job.rank), round, p->bytes / 8, t->report};
    peerwin_stream stream = t->out_of_order ? t->other : job.stream;
    CHECK_OK(peerwin_wait(p->win, 0, round, stream));
    rig_launch(RIG_KERNEL_check, p->bytes > 16384 ? 16 : 1, &check, stream);
    CHECK_OK(peerwin_signal(p->win, p->left, 1, PEERWIN_SIGNAL_SET, round, stream));
    CHECK_OK(peerwin_wait(p->win, 1, round, job.stream));
}

static rig_report run_traffic(traffic *t, uint64_t rounds, double seconds, double *seconds_out) {
    enum { BATCH = 128 };
    uint64_t given = 0;
    t->report = rig_reports_new(1);
    t->source = device_new(t->p.bytes);
    double start = test_seconds();
    while (!rig_is_over(start, given, rounds, seconds)) {
        uint64_t until = given + BATCH < rounds ? given + BATCH : rounds;
        while (given < until) {
            given++;
            send(t, given);
            receive(t, given);
        }
        check_done(t->p.ctx);
        if (t->out_of_order) {
            CHECK_OK(peerwin_stream_sync(t->p.ctx, t->other));
        }
    }
    *seconds_out = test_seconds() - start;
    device_free(t->source);
    return rig_reports_end(t->report, 1);
}

static void check_traffic(const char *what, int by_copies) {
    static const size_t sizes[] = {8, 64, 1024, 1 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int large = sizes[i] > 1024;
        double took = 0;
        if (rig.bytes != 0 && rig.bytes != sizes[i]) {
            continue;
        }
        traffic t = {.p = begin(sizes[i], 1), .by_copies = by_copies};
        uint64_t rounds = large ? rig_amount(rig.rounds / 100, 100000, 20) : rig_amount(rig.rounds, 10000000, 100);
        rig_report sum = run_traffic(&t, rounds, seconds_of(), &took);
        tell(what, sizes[i], &sum, took);
        CHECK_EQUAL(sum.wrong, 0);
        CHECK(sum.rounds > 0);
        end(&t.p);
    }
}

static void message_passing_from_kernel_to_stream(void) {
    check_traffic("message passing, kernel to stream", 0);
}

static void message_passing_from_copies_to_stream(void) {
    check_traffic("message passing, copies to stream", 1);
}

/* The partners meet; then each puts its round to the other and, when it has arrived, gets what the other has put. */
static uint64_t both_missed(const place *p, uint64_t rounds, double seconds, uint64_t *rounds_out) {
    enum { BATCH = 64 };
    uint64_t seen[BATCH], theirs[BATCH], values[BATCH];
    uint64_t missed = 0;
    uint64_t given = 0;
    uint64_t *source = device_new(sizeof(values));
    uint64_t *got = device_new(sizeof(seen));
    size_t store = (size_t)STORE * MOST_BLOCKS * LINE;
    double start = test_seconds();
    while (!rig_is_over(start, given, rounds, seconds)) {
        for (unsigned i = 0; i < BATCH; i++) {
            values[i] = given + i + 1;
        }
        device_copy(source, values, sizeof(values));
        for (unsigned i = 0; i < BATCH; i++) {
            CHECK_OK(peerwin_barrier(p->ctx, job.stream));
            CHECK_OK(peerwin_put(p->win, p->partner, store, source + i, 8, job.stream));
            CHECK_OK(peerwin_quiet(p->ctx, job.stream));
            CHECK_OK(peerwin_get(p->win, job.rank, store, got + i, 8, job.stream));
        }
        check_done(p->ctx);
        device_copy(seen, got, sizeof(seen));
        if (p->partner != MPI_PROC_NULL) {
            MPI_Sendrecv(seen, BATCH, MPI_UINT64_T, p->partner, 0, theirs, BATCH, MPI_UINT64_T, p->partner, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (unsigned i = 0; i < BATCH; i++) {
                missed += seen[i] < values[i] && theirs[i] < values[i];
            }
        }
        given += BATCH;
    }
    device_free(source);
    device_free(got);
    MPI_Allreduce(MPI_IN_PLACE, &missed, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    *rounds_out = given;
    return missed;
}

static void store_buffering_between_streams(void) {
    place p = begin(8, 1);
    rig_report sum = {0};
    double start = test_seconds();
    sum.wrong = both_missed(&p, rig_amount(rig.rounds / 10, 1000000, 128), seconds_of(), &sum.rounds);
    sum.rounds *= (uint64_t)job.size;
    tell("store buffering, copies", 8, &sum, test_seconds() - start);
    CHECK_EQUAL(sum.wrong, 0);
    end(&p);
}

/* ----------------------------------------------------------------------------------------------- without fences */

/* Returns whether it was seen to fail. */
static int try_without(const char *what, launcher *launch, uint32_t without, size_t bytes) {
    place p = begin(bytes, blocks_of());
    double took = 0;
    rig_report sum = measure(&p, launch, rig_amount(rig.rounds, 1000000, 400), without, seconds_of() / 4, &took);
    CHECK_EQUAL(sum.late, 0);
    rig_say("litmus without %s, %zu B, %d ranks: %s (%llu wrong in %llu rounds, %.2f s; %llu rounds crossed)", what,
            bytes, job.size, sum.wrong > 0 ? "seen to fail" : "not seen to fail", (unsigned long long)sum.wrong,
            (unsigned long long)sum.rounds, took, (unsigned long long)sum.crossed);
    end(&p);
    return sum.wrong > 0;
}

static void without_fences_the_tests_fail(void) {
    int seen = 0;
    seen |= try_without("the writer's fence", launch_pass, RIG_NO_WRITER_FENCE, 1024);
    seen |= try_without("the writer's fence", launch_pass, RIG_NO_WRITER_FENCE, 65536);
    seen |= try_without("the reader's fence", launch_pass, RIG_NO_READER_FENCE, 1024);
    seen |= try_without("both fences", launch_pass, RIG_NO_WRITER_FENCE | RIG_NO_READER_FENCE, 1024);
    seen |= try_without("the fence between store and load", launch_cross, RIG_NO_ORDER_FENCE, 8);
    rig_say("litmus without fences: %s on this machine", seen ? "seen to fail" : "NOT seen to fail");
    CHECK(try_without("the flag's place after the payload", launch_pass, RIG_EARLY_FLAG, 1024));
}

static void without_the_streams_order_the_tests_fail(void) {
    double took = 0;
    traffic t = {.p = begin(1024, 1), .out_of_order = 1, .other = device_stream_new()};
    rig_report sum = run_traffic(&t, rig_amount(rig.rounds / 1000, 1000, 100), seconds_of(), &took);
    rig_say("litmus without a stream's order, %d ranks: %llu wrong words in %llu rounds", job.size,
            (unsigned long long)sum.wrong, (unsigned long long)sum.rounds);
    CHECK(sum.wrong > 0);
    device_stream_free(t.other);
    end(&t.p);
}

static const test_case cases[] = {
    TEST_CASE(message_passing_from_kernel_to_kernel, 1, 0),    TEST_CASE(message_passing_from_kernel_to_stream, 1, 0),
    TEST_CASE(message_passing_from_copies_to_stream, 1, 0),    TEST_CASE(store_buffering_between_kernels, 2, 0),
    TEST_CASE(store_buffering_between_streams, 2, 0),          TEST_CASE(without_fences_the_tests_fail, 1, 0),
    TEST_CASE(without_the_streams_order_the_tests_fail, 2, 0),
};

RIG_MAIN(cases)
