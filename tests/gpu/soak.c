/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Long runs of what keeps ranks together, with delays on the host and on the device, so that they meet in every order.
 * In each round a rank publishes the round to the others, passes what is tested, and looks at what the others have
 * published: never less than its own round. Everything is given to streams; the host waits now and then.
 *
 * The kind of barrier is the environment's (PEERWIN_BARRIER).
 */
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "support/memory.h"

enum { WORDS = 32 }; /* that a rank publishes to each other */
static const uint64_t DELAY_NS = 20000;

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    peerwin_stream streams[2];
    rig_report *reports[2];            /* a stream's each */
    uint64_t last[2 * RIG_MOST_RANKS]; /* that each rank has published on each stream */
    uint64_t *staging;                 /* what is put */
    uint64_t *counter;                 /* the round, for graphs */
    uint64_t seed;
} soak;

static soak begin(void) {
    soak s = {.seed = (uint64_t)job.rank * 7919 + 13};
    CHECK(job.size <= RIG_MOST_RANKS);
    s.ctx = rig_context();
    s.win = test_window(s.ctx, 2 * (size_t)job.size * WORDS * 8);
    for (int i = 0; i < 2; i++) {
        s.streams[i] = device_stream_new();
        s.reports[i] = rig_reports_new(1);
    }
    s.staging = device_new(WORDS * 8);
    s.counter = device_new(8);
    device_set(s.counter, 0, 8);
    return s;
}

static double seconds_of(void) {
    return rig.seconds > 0 ? rig.seconds : 1e9;
}

static rig_report end(soak *s) {
    rig_report sum = {0};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(peerwin_stream_sync(s->ctx, s->streams[i]));
        rig_report one = rig_reports_end(s->reports[i], 1);
        sum.rounds += one.rounds;
        sum.wrong += one.wrong;
        device_stream_free(s->streams[i]);
    }
    device_free(s->staging);
    device_free(s->counter);
    MPI_Barrier(MPI_COMM_WORLD);
    test_free(s->ctx, s->win);
    return sum;
}

static void tell(const char *what, uint64_t rounds, uint64_t asked, double took, const rig_report *sum) {
    const char *kind = getenv("PEERWIN_BARRIER");
    rig_say("soak %s, barrier %s, %d ranks: %llu of %llu rounds in %.2f s (%.1f us each), %llu wrong", what,
            kind != NULL ? kind : "auto", job.size, (unsigned long long)rounds, (unsigned long long)asked, took,
            1e6 * took / (double)rounds, (unsigned long long)sum->wrong);
    CHECK_EQUAL(sum->wrong, 0);
    CHECK_EQUAL(sum->rounds, rounds * (uint64_t)job.size);
}

/* Mostly none, at times some microseconds, rarely a millisecond. */
static void host_delay(soak *s) {
    uint64_t draw = test_random(&s->seed) % 256;
    double until = test_seconds() + (draw == 0 ? 1e-3 : draw < 8 ? (double)draw * 2e-5 : 0);
    while (test_seconds() < until) {
    }
}

static void device_delay(uint64_t round, peerwin_stream stream) {
    rig_delay_args a = {NULL, round, (uint64_t)job.rank + 1, 0, DELAY_NS};
    rig_launch(RIG_KERNEL_delay, 1, &a, stream);
}

/* What a rank publishes on a stream has a place of its own, since nothing orders it with the other stream's. */
static size_t place_of(int rank, int which) {
    return (size_t)which * (size_t)job.size + (size_t)rank;
}

static uint64_t *words_at(const soak *s, int rank, int which) {
    uint64_t *words = peerwin_win_ptr(s->win, rank);
    CHECK(words != NULL);
    return words + place_of(job.rank, which) * WORDS;
}

static void publish_by_kernel(const soak *s, uint64_t round, int which) {
    rig_publish_args a = {.round = round, .count = (uint32_t)job.size, .words = WORDS};
    for (int rank = 0; rank < job.size; rank++) {
        a.to[rank] = words_at(s, rank, which);
    }
    rig_launch(RIG_KERNEL_publish, 1, &a, s->streams[which]);
}

static void publish_by_copies(const soak *s, uint64_t round, int which) {
    rig_publish_args a = {.to = {s->staging}, .round = round, .count = 1, .words = WORDS};
    rig_launch(RIG_KERNEL_publish, 1, &a, s->streams[which]);
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_OK(
            peerwin_put(s->win, rank, place_of(job.rank, which) * WORDS * 8, s->staging, WORDS * 8, s->streams[which]));
    }
}

static void look(const soak *s, uint64_t ahead, int which) {
    rig_look_args a = {
        .own = peerwin_win_ptr(s->win, job.rank),
        .ahead = ahead,
        .count = 2 * (uint32_t)job.size,
        .words = WORDS,
        .report = s->reports[which],
    };
    memcpy(a.least, s->last, sizeof(a.least));
    rig_launch(RIG_KERNEL_look, 1, &a, s->streams[which]);
}

/* ---------------------------------------------------------------------------------------------------- barriers */

/* The stream that a rank takes in a round: everyone knows that of all. */
static int stream_of(int rank, uint64_t round) {
    uint64_t state = round * 8191 + (uint64_t)rank + 1;
    (void)test_random(&state);
    return (int)(test_random(&state) >> 7 & 1);
}

/* Without `together` nothing keeps the ranks in the same round. */
static void soak_round(soak *s, uint64_t round, int streams, int together) {
    int which = streams == 1 ? 0 : stream_of(job.rank, round);
    host_delay(s);
    device_delay(round, s->streams[which]);
    if (round % 2 == 0 && streams == 1) {
        publish_by_copies(s, round, which);
    } else {
        publish_by_kernel(s, round, which);
    }
    for (int rank = 0; rank < job.size; rank++) {
        s->last[place_of(rank, streams == 1 ? 0 : stream_of(rank, round))] = round;
    }
    if (together) {
        CHECK_OK(peerwin_barrier(s->ctx, s->streams[which]));
    }
    /* A rank may be a round ahead, and with two streams more: what one publishes does not wait for the other. */
    look(s, streams == 1 ? 1 : UINT64_MAX, which);
}

static void soak_barriers(const char *what, int streams) {
    uint64_t rounds = rig_amount(rig.rounds, 10000, 300);
    uint64_t round = 0;
    soak s = begin();
    double start = test_seconds();
    while (!rig_is_over(start, round, rounds, seconds_of())) {
        for (uint64_t until = round + 100 < rounds ? round + 100 : rounds; round < until;) {
            soak_round(&s, ++round, streams, 1);
        }
        CHECK_OK(peerwin_stream_sync(s.ctx, s.streams[0]));
        CHECK_OK(peerwin_stream_sync(s.ctx, s.streams[1]));
    }
    double took = test_seconds() - start;
    rig_report sum = end(&s);
    tell(what, round, rounds, took, &sum);
}

static void barriers_keep_the_ranks_together(void) {
    soak_barriers("barriers", 1);
}

static void barriers_on_two_streams_are_one_sequence(void) {
    soak_barriers("barriers on two streams", 2);
}

/* Nothing between them. */
static void barriers_alone_take_turns(void) {
    uint64_t rounds = rig_amount(rig.rounds, 10000, 300);
    soak s = begin();
    rig_report none = {.rounds = rounds * (uint64_t)job.size};
    double start = test_seconds();
    for (uint64_t i = 0; i < rounds; i++) {
        CHECK_OK(peerwin_barrier(s.ctx, s.streams[0]));
        if (i % 500 == 499) {
            CHECK_OK(peerwin_stream_sync(s.ctx, s.streams[0]));
        }
    }
    CHECK_OK(peerwin_stream_sync(s.ctx, s.streams[0]));
    double took = test_seconds() - start;
    end(&s);
    tell("barriers alone", rounds, rounds, took, &none);
}

/* The same rounds must be seen to fail where nothing keeps the ranks together: else the tests above show nothing. */
static void without_barriers_the_ranks_are_seen_apart(void) {
    uint64_t rounds = rig_amount(rig.rounds / 10, 1000, 300);
    soak s = begin();
    for (uint64_t round = 1; round <= rounds; round++) {
        soak_round(&s, round, 1, 0);
    }
    rig_report sum = end(&s);
    rig_say("soak without barriers, %d ranks: %llu words of other rounds in %llu rounds", job.size,
            (unsigned long long)sum.wrong, (unsigned long long)rounds);
    CHECK(sum.wrong > 0);
}

/* ------------------------------------------------------------------------------------------------------ graphs */

/* In a graph the round is in device memory. */
static void capture_publish(const soak *s, const int *ranks, uint32_t count, peerwin_stream stream) {
    rig_delay_args delay = {s->counter, 0, (uint64_t)job.rank + 1, 0, DELAY_NS};
    rig_publish_args a = {.counter = s->counter, .count = count, .words = WORDS};
    for (uint32_t i = 0; i < count; i++) {
        a.to[i] = words_at(s, ranks[i], 0);
    }
    rig_launch(RIG_KERNEL_delay, 1, &delay, stream);
    rig_launch(RIG_KERNEL_publish, 1, &a, stream);
}

static void capture_look(const soak *s, int rank, uint32_t count, peerwin_stream stream) {
    rig_look_args a = {
        .own = (uint64_t *)peerwin_win_ptr(s->win, job.rank) + (size_t)rank * WORDS,
        .counter = s->counter,
        .ahead = 1,
        .count = count,
        .words = WORDS,
        .report = s->reports[0],
    };
    rig_launch(RIG_KERNEL_look, 1, &a, stream);
}

static void soak_graph(const char *what, soak *s, rig_graph *graph, uint64_t looks) {
    uint64_t rounds = rig_amount(rig.rounds, 5000, 200);
    uint64_t round = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = test_seconds();
    while (!rig_is_over(start, round, rounds, seconds_of())) {
        for (uint64_t until = round + 50 < rounds ? round + 50 : rounds; round < until; round++) {
            host_delay(s);
            rig_replay(graph, s->streams[0]);
        }
        CHECK_OK(peerwin_stream_sync(s->ctx, s->streams[0]));
    }
    double took = test_seconds() - start;
    rig_graph_free(graph);
    rig_report sum = end(s);
    sum.rounds /= looks;
    tell(what, round, rounds, took, &sum);
}

/* Each neighbour adds to a slot of its own, and what is awaited is consumed: the graph's values stay the same. */
static void graphs_of_add_and_consume_keep_neighbours_together(void) {
    soak s = begin();
    int right = (job.rank + 1) % job.size;
    int left = (job.rank + job.size - 1) % job.size;
    int both[2] = {left, right};
    peerwin_stream stream = s.streams[0];
    if (test_agree_skip(!test_has_adds(s.ctx), "there are no atomics between these devices")) {
        end(&s);
        return;
    }
    rig_capture(stream);
    capture_publish(&s, both, 2, stream);
    CHECK_OK(peerwin_signal(s.win, right, 0, PEERWIN_SIGNAL_ADD, 1, stream));
    CHECK_OK(peerwin_signal(s.win, left, 1, PEERWIN_SIGNAL_ADD, 1, stream));
    CHECK_OK(peerwin_consume(s.win, 0, 1, stream));
    CHECK_OK(peerwin_consume(s.win, 1, 1, stream));
    capture_look(&s, left, 1, stream);
    capture_look(&s, right, 1, stream);
    rig_graph graph = rig_capture_end(stream);
    soak_graph("graphs of add and consume", &s, &graph, 2);
}

static void graphs_of_barriers_keep_the_ranks_together(void) {
    int all[RIG_MOST_RANKS];
    soak s = begin();
    peerwin_stream stream = s.streams[0];
    for (int rank = 0; rank < job.size; rank++) {
        all[rank] = rank;
    }
    rig_capture(stream);
    capture_publish(&s, all, (uint32_t)job.size, stream);
    CHECK_OK(peerwin_barrier(s.ctx, stream));
    capture_look(&s, 0, (uint32_t)job.size, stream);
    rig_graph graph = rig_capture_end(stream);
    soak_graph("graphs of barriers", &s, &graph, 1);
}

/* Each replay has values of its own, and the sums must be those in rank order. */
static void graphs_of_allreduces_sum_in_rank_order(void) {
    enum { COUNT = 8 };
    double *values = device_new(COUNT * sizeof(double));
    soak s = begin();
    peerwin_stream stream = s.streams[0];
    int self = job.rank;
    rig_draw_args draw = {s.counter, values, (uint32_t)job.rank, COUNT};
    rig_sums_args sums = {s.counter, values, (uint32_t)job.size, COUNT, s.reports[0]};
    rig_capture(stream);
    capture_publish(&s, &self, 1, stream);
    rig_launch(RIG_KERNEL_draw, 1, &draw, stream);
    CHECK_OK(peerwin_allreduce(s.ctx, values, COUNT, PEERWIN_DOUBLE, PEERWIN_SUM, stream));
    rig_launch(RIG_KERNEL_sums, 1, &sums, stream);
    rig_graph graph = rig_capture_end(stream);
    soak_graph("graphs of all-reduces", &s, &graph, 1);
    device_free(values);
}

/* -------------------------------------------------------------------------------------------------------- C5 */

/* Each rank sends what a long kernel before it has made, from a host that goes on at once. */
static void c5_a_put_waits_for_the_kernel_that_makes_its_data(void) {
    enum { BYTES = 1 << 16 };
    uint64_t rounds = rig_amount(rig.rounds, 200, 5);
    uint64_t kernel_ns = rig.simulated ? 10000000 : 50000000;
    double longest = 0;
    int right = (job.rank + 1) % job.size;
    peerwin_ctx *ctx = rig_context();
    peerwin_win *win = test_window(ctx, BYTES);
    rig_report *report = rig_reports_new(1);
    uint64_t *source = device_new(BYTES);
    for (uint64_t round = 1; round <= rounds; round++) {
        rig_delay_args delay = {NULL, round, 0, kernel_ns, 0};
        rig_fill_args fill = {source, round, BYTES / 8};
        rig_check_args check = {peerwin_win_ptr(win, job.rank), round, BYTES / 8, report};
        rig_launch(RIG_KERNEL_delay, 1, &delay, job.stream);
        rig_launch(RIG_KERNEL_fill, 4, &fill, job.stream);
        double before = test_seconds();
        CHECK_OK(peerwin_put_signal(win, right, 0, source, BYTES, 0, PEERWIN_SIGNAL_SET, round, job.stream));
        double took = test_seconds() - before;
        longest = took > longest ? took : longest;
        CHECK_OK(peerwin_wait(win, 0, round, job.stream));
        rig_launch(RIG_KERNEL_check, 4, &check, job.stream);
        CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    }
    MPI_Allreduce(MPI_IN_PLACE, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    rig_report sum = rig_reports_end(report, 1);
    rig_say("soak C5, %d ranks: %llu of %llu words wrong in %llu rounds, longest call %.3f ms", job.size,
            (unsigned long long)sum.wrong, (unsigned long long)(sum.rounds * BYTES / 8), (unsigned long long)rounds,
            1e3 * longest);
    CHECK_EQUAL(sum.wrong, 0);
    CHECK_EQUAL(sum.rounds, rounds * (uint64_t)job.size);
    /* A simulated driver's machine may be busy with other tests: there the call must only not wait for the kernel. */
    CHECK(longest < (rig.simulated ? 1e-9 * (double)kernel_ns : 5e-3));
    device_free(source);
    test_free(ctx, win);
}

static const test_case cases[] = {
    TEST_CASE(barriers_keep_the_ranks_together, 1, 0),
    TEST_CASE(barriers_on_two_streams_are_one_sequence, 1, 0),
    TEST_CASE(barriers_alone_take_turns, 1, 0),
    TEST_CASE(without_barriers_the_ranks_are_seen_apart, 2, 0),
    TEST_CASE(graphs_of_add_and_consume_keep_neighbours_together, 1, 0),
    TEST_CASE(graphs_of_barriers_keep_the_ranks_together, 1, 0),
    TEST_CASE(graphs_of_allreduces_sum_in_rank_order, 1, 0),
    TEST_CASE(c5_a_put_waits_for_the_kernel_that_makes_its_data, 1, 0),
};

RIG_MAIN(cases)
