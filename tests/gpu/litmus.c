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
enum { BY_CALLS = 1 << 16 }; /* peerwin's, not the tests' own stores and fences */
static const uint64_t LIMIT_NS = 20000000000u;

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    peerwin_view view;
    void *source; /* of the calls: a payload for each block */
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
    p.ctx = rig_context();
    peerwin_win_config config;
    peerwin_win_config_init(&config);
    config.num_signals = 2 * MOST_BLOCKS;
    CHECK_OK(peerwin_win_alloc(p.ctx, (size_t)AREAS * MOST_BLOCKS * LINE + p.stride * blocks, &config, &p.win));
    CHECK_OK(peerwin_win_view(p.win, &p.view));
    p.source = device_new(p.stride * blocks);
    return p;
}

static void end(place *p) {
    device_free(p->source);
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
        .view = p->view,
        .partner = without & BY_CALLS ? p->partner : MPI_PROC_NULL,
        .offset = (size_t)STORE * MOST_BLOCKS * LINE,
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

static void launch_call(const place *p, uint64_t first, uint64_t rounds, uint32_t scope, rig_report *reports) {
    /* Each scope goes on with numbers of its own. */
    rig_call_args a = {
        .view = p->view,
        .source = p->source,
        .offset = payload_offset(),
        .words = p->bytes / 8,
        .stride = p->stride,
        .first = ((uint64_t)scope << 40) + first,
        .rounds = rounds,
        .right = p->right,
        .left = p->left,
        .parts = RIG_SENDS | RIG_RECEIVES | RIG_AWAITS_ACK,
        .scope = scope,
        .report = reports,
    };
    rig_launch(RIG_KERNEL_call, p->blocks, &a, job.stream);
}

static void launch_mail(const place *p, uint64_t first, uint64_t rounds, uint32_t how, rig_report *reports) {
    rig_mail_args a = {p->view, first, rounds, p->right, p->left, reports};
    (void)how;
    rig_launch(RIG_KERNEL_mail, 1, &a, job.stream);
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

static void check_measured(const char *what, const place *p, launcher *launch, uint64_t rounds, uint32_t how) {
    double took = 0;
    rig_report sum = measure(p, launch, rounds, how, seconds_of(), &took);
    tell(what, p->bytes, &sum, took);
    CHECK(sum.rounds > 0);
    CHECK_EQUAL(sum.late, 0);
    CHECK_EQUAL(sum.wrong, 0);
}

/* For payloads of these sizes, or only of the size that was asked for; fewer where only the way is to be seen. */
static void for_all_sizes(void (*test)(size_t bytes, uint64_t rounds)) {
    static const size_t sizes[] = {8, 64, 1024, 1 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (rig.bytes == 0 ? !rig.simulated || i % 2 == 1 : rig.bytes == sizes[i]) {
            test(sizes[i],
                 sizes[i] > 1024 ? rig_amount(rig.rounds / 100, 100000, 8) : rig_amount(rig.rounds, 10000000, 1000));
        }
    }
}

static void pass_by_kernels(size_t bytes, uint64_t rounds) {
    place p = begin(bytes, blocks_of());
    check_measured("message passing, kernel to kernel", &p, launch_pass, rounds, 0);
    end(&p);
}

static void message_passing_from_kernel_to_kernel(void) {
    for_all_sizes(pass_by_kernels);
}

static void pass_by_calls(size_t bytes, uint64_t rounds) {
    place p = begin(bytes, blocks_of());
    check_measured("message passing, calls of a block", &p, launch_call, rounds, RIG_BLOCK);
    if (bytes <= 1024) {
        check_measured("message passing, calls of a warp", &p, launch_call, rounds / 10, RIG_WARP);
        check_measured("message passing, calls of a thread", &p, launch_call, rounds / 10, RIG_THREAD);
    }
    end(&p);
}

static void message_passing_by_calls_in_kernels(void) {
    for_all_sizes(pass_by_calls);
}

static void store_buffering_between_kernels(void) {
    place p = begin(8, blocks_of());
    int adds = test_has_adds(p.ctx);
    check_measured("store buffering, kernels", &p, launch_cross, rig_amount(rig.rounds, 10000000, 1000), 0);
    MPI_Allreduce(MPI_IN_PLACE, &adds, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    end(&p);
    if (adds) { /* for the swap */
        p = begin(8, blocks_of());
        check_measured("store buffering, calls", &p, launch_cross, rig_amount(rig.rounds, 10000000, 1000), BY_CALLS);
        end(&p);
    }
}

static void messages_arrive_whole_and_in_order(void) {
    place p = begin(8, 1);
    check_measured("messages of 8 to 64 bytes", &p, launch_mail, rig_amount(rig.rounds / 10, 1000000, 300), 0);
    end(&p);
}

/* --------------------------------------------------------------------------------------------------- by streams */

/* What goes from stream to stream, or between streams and kernels that stay. */
typedef struct {
    place p;
    rig_report *report;
    const char *what;
    int by_copies;
    int by_calls;     /* a kernel that stays sends */
    int to_kernel;    /* a kernel that stays receives */
    int out_of_order; /* the signal does not wait for the payload */
    peerwin_stream other;
} traffic;

/* Fills the payload at its target, or fills it here and lets it be copied; then a signal. */
static void send(const traffic *t, uint64_t round) {
    const place *p = &t->p;
    unsigned blocks = p->bytes > 16384 ? 16 : 1;
    rig_fill_args fill = {payload_of(p, p->right), round, p->bytes / 8};
    if (t->by_copies) {
        fill.to = p->source;
        rig_launch(RIG_KERNEL_fill, blocks, &fill, job.stream);
        CHECK_OK(peerwin_put_signal(p->win, p->right, payload_offset(), p->source, p->bytes, 0, PEERWIN_SIGNAL_SET,
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
}

/* The kernel's part of the rounds, on a stream that shares no queue with the others. */
static void launch_part(const traffic *t, uint64_t first, uint64_t rounds, uint32_t parts) {
    const place *p = &t->p;
    rig_call_args a = {
        .view = p->view,
        .source = p->source,
        .offset = payload_offset(),
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
    t.p = begin(bytes, 1);
    t.other = t.by_calls || t.to_kernel ? device_stream_urgent() : NULL;
    rig_report sum = run_traffic(&t, rig.simulated ? rounds / 10 + 4 : rounds, seconds_of(), &took);
    tell(t.what, bytes, &sum, took);
    CHECK_EQUAL(sum.wrong, 0);
    CHECK(sum.rounds > 0);
    if (t.other != NULL) {
        device_stream_free(t.other);
    }
    end(&t.p);
}

static void kernel_to_stream(size_t bytes, uint64_t rounds) {
    check_traffic((traffic){.what = "message passing, kernel to stream"}, bytes, rounds);
}

static void message_passing_from_kernel_to_stream(void) {
    for_all_sizes(kernel_to_stream);
}

static void calls_to_stream(size_t bytes, uint64_t rounds) {
    check_traffic((traffic){.what = "message passing, calls to stream", .by_calls = 1}, bytes, rounds);
}

static void message_passing_from_calls_to_stream(void) {
    for_all_sizes(calls_to_stream);
}

static void copies_to_stream(size_t bytes, uint64_t rounds) {
    check_traffic((traffic){.what = "message passing, copies to stream", .by_copies = 1}, bytes, rounds);
}

static void message_passing_from_copies_to_stream(void) {
    for_all_sizes(copies_to_stream);
}

static void copies_to_kernel(size_t bytes, uint64_t rounds) {
    check_traffic((traffic){.what = "message passing, copies to kernel", .by_copies = 1, .to_kernel = 1}, bytes,
                  rounds);
}

static void message_passing_from_copies_to_kernel(void) {
    for_all_sizes(copies_to_kernel);
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
    TEST_CASE(message_passing_from_kernel_to_kernel, 1, 0),    TEST_CASE(message_passing_by_calls_in_kernels, 1, 0),
    TEST_CASE(message_passing_from_kernel_to_stream, 1, 0),    TEST_CASE(message_passing_from_calls_to_stream, 1, 0),
    TEST_CASE(message_passing_from_copies_to_stream, 1, 0),    TEST_CASE(message_passing_from_copies_to_kernel, 1, 0),
    TEST_CASE(messages_arrive_whole_and_in_order, 1, 0),       TEST_CASE(store_buffering_between_kernels, 2, 0),
    TEST_CASE(store_buffering_between_streams, 2, 0),          TEST_CASE(without_fences_the_tests_fail, 1, 0),
    TEST_CASE(without_the_streams_order_the_tests_fail, 2, 0),
};

RIG_MAIN(cases)
