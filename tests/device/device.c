/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * peerwin/device.cuh: what its calls promise, in host space as C11, and in kernels. The bodies are in bodies.h; here is
 * what goes before and what must be there after them.
 *
 * Ranks that share a device without MPS take turns of milliseconds on it, so rounds between ranks are few there;
 * PWTEST_DEVICE_ROUNDS multiplies them.
 */
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"
#include "support/device.h"
#include "support/memory.h"

enum { MIB = 1 << 20, SHORT_NS = 30 * 1000000 };

static peerwin_ctx *ctx;
static peerwin_win *win;
static body_args args;

static int right(void) {
    return (job.rank + 1) % job.size;
}

static unsigned lanes_of(int turn) {
    const unsigned lanes[] = {128, 32, 1024, 64, 256};
    return lanes[turn % 5];
}

static uint64_t rounds_of(uint64_t host, uint64_t cuda) {
    const char *factor = getenv("PWTEST_DEVICE_ROUNDS");
    const uint64_t rounds = job.space == PEERWIN_SPACE_CUDA ? cuda : TEST_SANITIZED ? host / 4 + 1 : host;
    return factor != NULL ? rounds * strtoull(factor, NULL, 10) : rounds;
}

/* A context, a window, its view, and a report: what every case begins with. */
static void begin(size_t bytes, size_t memory) {
    ctx = test_context(MPI_COMM_WORLD, 0);
    win = test_window(ctx, bytes);
    run_begin();
    memset(&args, 0, sizeof(args));
    CHECK_OK(peerwin_win_view(win, &args.view));
    args.report = buffer_new(sizeof(*args.report));
    args.memory = memory > 0 ? buffer_new(memory) : NULL;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void end(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    buffer_free(args.report);
    if (args.memory != NULL) {
        buffer_free(args.memory);
    }
    run_end();
    test_free(ctx, win);
}

static void start(uint32_t body, unsigned lanes) {
    buffer_set(args.report, 0, sizeof(*args.report));
    args.body = body;
    run_start(&args, lanes, job.stream);
}

static body_report finish(void) {
    body_report report;
    if (job.space == PEERWIN_SPACE_CUDA) {
        device_stream_sync(job.stream);
    }
    buffer_load(args.report, 0, &report, sizeof(report));
    return report;
}

static body_report run(uint32_t body, unsigned lanes) {
    start(body, lanes);
    return finish();
}

/* A body that must end well, with nothing wrong. */
static body_report run_well(uint32_t body, unsigned lanes) {
    const body_report report = run(body, lanes);
    if (report.wrong > 0) {
        test_fail(__FILE__, __LINE__, "body %u: %llu wrong, the last in round %llu at %llu: %llu", body,
                  (unsigned long long)report.wrong, (unsigned long long)report.round, (unsigned long long)report.place,
                  (unsigned long long)report.value);
    }
    CHECK_EQUAL(report.status, PEERWIN_OK);
    return report;
}

static peerwin_status step(uint32_t what, unsigned lanes) {
    args.step = what;
    return (peerwin_status)run(BODY_STEP, lanes).status;
}

/* ------------------------------------------------------------------------------------------------- the view */

static void a_view_of_another_version_is_a_mismatch(void) {
    peerwin_view view, other;
    begin(64, 0);
    memset(&view, 0x5a, sizeof(view));
    memcpy(&other, &view, sizeof(view));
    CHECK_STATUS(peerwin_inline_view(win, PEERWIN_VIEW_VERSION + 1, sizeof(view), &view), PEERWIN_ERR_MISMATCH,
                 "version 2", "version 1");
    CHECK_STATUS(peerwin_inline_view(win, PEERWIN_VIEW_VERSION, sizeof(view) - 8, &view), PEERWIN_ERR_MISMATCH,
                 "header");
    CHECK(memcmp(&view, &other, sizeof(view)) == 0);
    CHECK_STATUS(peerwin_win_view(NULL, &view), PEERWIN_ERR_ARG, "win");
    CHECK_STATUS(peerwin_win_view(win, NULL), PEERWIN_ERR_ARG, "view_out");
    CHECK_OK(peerwin_win_view(win, &view));
    CHECK(memcmp(&view, &args.view, sizeof(view)) == 0);
    CHECK_EQUAL(view.rank, job.rank);
    CHECK_EQUAL(view.size, job.size);
    end();
}

static void dev_ptr_is_what_win_ptr_is(void) {
    begin(256, 0);
    args.step = STEP_PTR;
    for (int rank = -2; rank < job.size + 2; rank++) {
        const int there = rank >= 0 && rank < job.size;
        args.rank = rank;
        args.offset = 24;
        const body_report report = run(BODY_STEP, 32);
        const char *want = there ? (const char *)peerwin_win_ptr(win, rank) + 24 : NULL;
        CHECK(report.value == (uint64_t)(uintptr_t)want);
    }
    end();
}

/* ----------------------------------------------------------------------------------------------------- copies */

static const uint32_t lengths[NUM_LENGTHS] = BODY_LENGTHS;

/* One launch, and what it must have left in the target: the bytes and nothing around them. */
static void check_copy(const unsigned char *from, unsigned char *got, unsigned char *want, size_t bytes) {
    memset(want, TEST_GUARD, bytes);
    for (size_t i = 0; i < NUM_LENGTHS; i++) {
        const size_t at = i * LENGTH_SLOT + 16;
        memcpy(want + at + args.to, from + at + args.from, lengths[i]);
    }
    run_well(BODY_COPY, args.scope == BY_THREAD ? 32 : args.scope == BY_WARP ? 64 : 128);
    MPI_Barrier(MPI_COMM_WORLD);
    if (args.get) {
        buffer_load(args.memory, 0, got, bytes);
    } else {
        segment_load(win, 0, got, bytes);
    }
    check_bytes("what was copied", got, want, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Everyone puts to the right, or gets from there: what arrives here is in the pattern of the rank on the left. */
static void copies(int get) {
    const size_t bytes = (size_t)NUM_LENGTHS * LENGTH_SLOT;
    const int step = job.space == PEERWIN_SPACE_HOST ? 5 : 1; /* a processor's copy is memcpy */
    unsigned char *from = host_new(bytes), *got = host_new(bytes), *want = host_new(bytes);
    const int writer = get ? right() : (job.rank + job.size - 1) % job.size;
    begin(bytes, bytes);
    pattern_write(from, job.rank, 1, bytes);
    if (get) {
        segment_store(win, 0, from, bytes);
    } else {
        buffer_store(args.memory, 0, from, bytes);
    }
    pattern_write(from, writer, 1, bytes);
    args.get = get;
    args.rank = right();
    MPI_Barrier(MPI_COMM_WORLD);
    for (args.scope = BY_THREAD; args.scope < NUM_SCOPES; args.scope++) {
        for (int pair = 0; pair < 256; pair += step) {
            args.to = (uint64_t)pair % 16;
            args.from = (uint64_t)pair / 16;
            if (get) {
                buffer_set(args.memory, TEST_GUARD, bytes);
            } else {
                segment_set(win, TEST_GUARD);
            }
            MPI_Barrier(MPI_COMM_WORLD);
            check_copy(from, got, want, bytes);
        }
    }
    end();
    free(from);
    free(got);
    free(want);
}

static void puts_of_every_alignment_and_length_move_exactly_their_bytes(void) {
    copies(0);
}

static void gets_of_every_alignment_and_length_move_exactly_their_bytes(void) {
    copies(1);
}

/* ---------------------------------------------------------------------------------------------------- signals */

static void data_is_there_when_its_signal_is_seen(void) {
    const uint64_t bytes[] = {8, 64, 1024, 40000};
    begin(MIB, MIB);
    for (args.scope = BY_THREAD; args.scope < NUM_SCOPES; args.scope++) {
        for (int i = 0; i < 4; i++) {
            args.bytes = bytes[i];
            args.offset = 8 * (uint64_t)i;
            args.rounds = rounds_of(i < 3 ? 200 : 40, 6);
            args.value += run_well(BODY_RING, lanes_of(i)).done;
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    end();
}

static void a_wait_that_timed_out_goes_on_when_it_is_repeated(void) {
    begin(64, 0);
    const uint64_t patience = args.view.timeout_ns;
    args.slot = 5;
    args.value = (uint64_t)-3;
    args.view.timeout_ns = SHORT_NS;
    args.rank = job.rank;
    args.op = PEERWIN_SIGNAL_SET;
    CHECK_EQUAL(step(STEP_SIGNAL, 32), PEERWIN_OK); /* just below the wrap-around */
    MPI_Barrier(MPI_COMM_WORLD);
    args.value = 2;
    CHECK_EQUAL(step(STEP_WAIT, 32), PEERWIN_ERR_TIMEOUT);
    CHECK_EQUAL(step(STEP_WAIT_BLOCK, 64), PEERWIN_ERR_TIMEOUT);
    MPI_Barrier(MPI_COMM_WORLD);
    args.rank = right();
    args.op = test_has_adds(ctx) ? PEERWIN_SIGNAL_ADD : PEERWIN_SIGNAL_SET;
    args.value = args.op == PEERWIN_SIGNAL_ADD ? 5 : 2; /* 2 in any case */
    CHECK_EQUAL(step(STEP_SIGNAL, 1), PEERWIN_OK);
    args.view.timeout_ns = patience;
    args.value = 2;
    CHECK_EQUAL(step(STEP_WAIT, 32), PEERWIN_OK);
    CHECK_EQUAL(step(STEP_WAIT_BLOCK, 128), PEERWIN_OK);
    args.view.timeout_ns = 0;
    CHECK_EQUAL(step(STEP_WAIT, 32), PEERWIN_OK);
    end();
}

/* The calls of the host, on streams in CUDA space, and those of kernels use the same slots. */
static void signals_pass_between_kernels_and_the_hosts_calls(void) {
    begin(64, 0);
    const int left = (job.rank + job.size - 1) % job.size;
    for (uint64_t round = 1; round <= 3; round++) {
        args.slot = 0;
        args.value = round;
        args.op = PEERWIN_SIGNAL_SET;
        args.rank = right();
        if (job.rank == 0) {
            test_sleep_ms(30); /* so that the others sleep in host space */
        }
        CHECK_EQUAL(step(STEP_SIGNAL, 32), PEERWIN_OK);
        CHECK_OK(peerwin_wait(win, 0, round, job.stream));
        CHECK_OK(peerwin_signal(win, left, 1, PEERWIN_SIGNAL_SET, round, job.stream));
        args.slot = 1;
        CHECK_EQUAL(step(STEP_WAIT_BLOCK, 32), PEERWIN_OK);
    }
    check_done(ctx);
    end();
}

static void a_rank_that_does_not_exist_makes_a_call_without_effect(void) {
    unsigned char got[64];
    begin(64, 64);
    segment_set(win, 0);
    buffer_set(args.memory, 1, 64);
    MPI_Barrier(MPI_COMM_WORLD);
    args.rank = MPI_PROC_NULL;
    CHECK_EQUAL(step(STEP_SIGNAL, 32), PEERWIN_OK);
    CHECK_EQUAL(step(STEP_SEND, 32), PEERWIN_ERR_ARG);
    args.rank = job.size;
    CHECK_EQUAL(step(STEP_RECV, 32), PEERWIN_ERR_ARG);
    args.rank = job.rank;
    args.bytes = PEERWIN_MESSAGE_BYTES + 1;
    CHECK_EQUAL(step(STEP_SEND, 32), PEERWIN_ERR_ARG);
    segment_load(win, 0, got, 64);
    check_all("the segment", got, 0, 64);
    end();
}

/* Two ranks store to each other, fence, and look: at least one sees the other's store. */
static void fences_order_a_store_before_a_later_load(void) {
    const size_t rounds = (size_t)rounds_of(20000, 20);
    unsigned char *mine = host_new(rounds), *both = host_new(rounds);
    begin(8 * rounds, rounds);
    buffer_set(args.memory, 1, rounds);
    args.rounds = rounds;
    CHECK_EQUAL(run_well(BODY_CROSS, 32).done, rounds);
    buffer_load(args.memory, 0, mine, rounds);
    MPI_Allreduce(mine, both, (int)rounds, MPI_UNSIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD);
    for (size_t i = 0; i < rounds; i++) {
        if (both[i] == job.size - 2) { /* the others have left their ones */
            test_fail(__FILE__, __LINE__, "neither rank saw the other's store in round %zu", i);
        }
    }
    end();
    free(mine);
    free(both);
}

/* ---------------------------------------------------------------------------------------------------- atomics */

static void atomics_of_all_ranks_add_up(void) {
    uint64_t words[5], handed, mine;
    begin(64, 0);
    if (test_agree_skip(!test_has_adds(ctx), "there are no atomics between these ranks")) {
        end();
        return;
    }
    const unsigned lanes = 64;
    args.rank = job.size - 1;
    args.rounds = rounds_of(2000, 50);
    mine = run_well(BODY_ATOMICS, lanes).value;
    MPI_Allreduce(&mine, &handed, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (job.rank == args.rank) {
        const uint64_t threads = job.space == PEERWIN_SPACE_CUDA && device_is_real() ? lanes : 1;
        const uint64_t calls = args.rounds * threads * (uint64_t)job.size;
        segment_load(win, 0, words, sizeof(words));
        CHECK(words[0] == 3 * calls);
        CHECK(words[1] == 2 * calls);
        CHECK((uint32_t)words[3] == (uint32_t)(5 * calls));
        CHECK((uint32_t)(words[3] >> 32) == (uint32_t)(7 * calls));
        CHECK(words[2] + (uint32_t)words[4] == handed);
    }
    end();
}

/* --------------------------------------------------------------------------------------------------- messages */

static void messages_arrive_in_order_and_whole(void) {
    begin(64, 0);
    args.rounds = rounds_of(3000, 200);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(run_well(BODY_MAIL, 32).done, args.rounds);
    }
    end();
}

/* The ring is full after eight; the ninth waits for the receiver, in vain at first. */
static void a_sender_waits_for_a_slow_receiver(void) {
    unsigned char letter[PEERWIN_MESSAGE_BYTES];
    const int receiver = job.size - 1;
    begin(64, sizeof(letter));
    const uint64_t patience = args.view.timeout_ns;
    args.bytes = sizeof(letter);
    args.rank = receiver;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PEERWIN_MESSAGE_SLOTS + 1; i++) {
            if (job.rank == 0) {
                buffer_set(args.memory, 10 * round + i, sizeof(letter));
                args.view.timeout_ns = i < PEERWIN_MESSAGE_SLOTS ? patience : SHORT_NS;
                CHECK_EQUAL(step(STEP_SEND, 1), i < PEERWIN_MESSAGE_SLOTS ? PEERWIN_OK : PEERWIN_ERR_TIMEOUT);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < PEERWIN_MESSAGE_SLOTS + 1; i++) {
            if (job.rank == receiver) {
                args.view.timeout_ns = patience;
                args.rank = 0;
                CHECK_EQUAL(step(STEP_RECV, 1), PEERWIN_OK);
                buffer_load(args.memory, 0, letter, sizeof(letter));
                check_all("the message", letter, 10 * round + i, sizeof(letter));
                args.rank = receiver;
            }
            MPI_Barrier(MPI_COMM_WORLD);
            if (job.rank == 0 && i == 0) {
                args.view.timeout_ns = patience;
                buffer_set(args.memory, 10 * round + PEERWIN_MESSAGE_SLOTS, sizeof(letter));
                CHECK_EQUAL(step(STEP_SEND, 1), PEERWIN_OK);
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
        if (job.rank == receiver) {
            args.view.timeout_ns = SHORT_NS;
            args.rank = 0;
            CHECK_EQUAL(step(STEP_RECV, 1), PEERWIN_ERR_TIMEOUT);
            args.rank = receiver;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    end();
}

/* ---------------------------------------------------------------------------------------------------- barriers */

static void after_a_barrier_nobody_is_behind(void) {
    begin(4096, 0);
    args.count = 100;
    for (int i = 0; i < 5; i++) {
        args.rounds = rounds_of(300, 5);
        args.value += run_well(BODY_ROUNDS, lanes_of(i)).done;
    }
    end();
}

/* Everybody gives up now and then, at any moment, and comes again. */
static void after_a_barrier_that_ranks_gave_up_nobody_is_behind(void) {
    begin(4096, 0);
    const uint64_t patience = args.view.timeout_ns;
    args.count = 8;
    args.gives_up = 1000000;
    for (int i = 0; i < 5; i++) {
        args.view.timeout_ns = (uint64_t)1000 << i * job.rank % 7;
        args.rounds = rounds_of(300, 5);
        args.value += run_well(BODY_ROUNDS, lanes_of(i)).done;
    }
    args.view.timeout_ns = patience;
    args.gives_up = 0;
    end();
}

/* Rank 0 comes late; the others' time is up, and then they go on with the same barrier. */
static void a_barrier_that_timed_out_goes_on_when_it_is_repeated(void) {
    begin(4096, 0);
    const uint64_t patience = args.view.timeout_ns;
    for (int round = 0; round < 3; round++) {
        args.view.timeout_ns = SHORT_NS;
        if (job.rank != round % job.size) {
            CHECK_EQUAL(step(STEP_BARRIER, 64), PEERWIN_ERR_TIMEOUT);
            CHECK_EQUAL(step(STEP_BARRIER, 1), PEERWIN_ERR_TIMEOUT);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        args.view.timeout_ns = patience;
        CHECK_EQUAL(step(STEP_BARRIER, 32), PEERWIN_OK);
        args.count = 8;
        args.rounds = 3;
        args.value += run_well(BODY_ROUNDS, 32).done;
    }
    end();
}

/* Barriers of the host's calls and of kernels count apart. */
static void barriers_of_kernels_and_of_the_host_do_not_mix(void) {
    begin(4096, 0);
    args.count = 4;
    for (int i = 0; i < 4; i++) {
        CHECK_OK(peerwin_barrier(ctx, job.stream));
        args.rounds = (uint64_t)i;
        args.value += run_well(BODY_ROUNDS, 32).done;
    }
    check_done(ctx);
    end();
}

/* -------------------------------------------------------------------------------------------------- all-reduce */

static size_t size_of(uint32_t type) {
    return type == PEERWIN_FLOAT ? 4 : 8;
}

/* A value that is hard on sums: of any magnitude, sometimes infinite, not a number, denormal or a negative zero. */
static void draw(void *to, uint32_t type, uint64_t *state) {
    const uint64_t bits = test_random(state);
    const double special[] = {INFINITY, -INFINITY, (double)NAN, -0.0, 0.0, 4.9e-324, 1e-45};
    const double plain = ldexp((double)(int32_t)bits, (int)(bits >> 40) % 80 - 40);
    const double value = bits >> 32 & 15 ? plain : special[(bits >> 36) % 7];
    const float small = (float)value;
    if (type == PEERWIN_INT64) {
        memcpy(to, &bits, sizeof(bits));
    } else if (type == PEERWIN_DOUBLE) {
        memcpy(to, &value, sizeof(value));
    } else {
        memcpy(to, &small, sizeof(small));
    }
}

static void draw_all(unsigned char *to, size_t count, int rank, unsigned seed) {
    uint64_t state = 0x1234567 + (uint64_t)rank * 7919 + seed;
    for (size_t i = 0; i < count; i++) {
        draw(to + i * size_of(args.type), args.type, &state);
    }
}

#define COMBINE(type, is_nan)                                                                                          \
    do {                                                                                                               \
        type a, b;                                                                                                     \
        memcpy(&a, into, sizeof(a));                                                                                   \
        memcpy(&b, from, sizeof(b));                                                                                   \
        if (args.op == PEERWIN_SUM) {                                                                                  \
            a += b;                                                                                                    \
        } else if (is_nan(a) || is_nan(b)) {                                                                           \
            a = is_nan(a) ? a : b;                                                                                     \
        } else if (args.op == PEERWIN_MIN ? b < a : b > a) {                                                           \
            a = b;                                                                                                     \
        }                                                                                                              \
        memcpy(into, &a, sizeof(a));                                                                                   \
    } while (0)
#define NEVER(value) 0

static void combine(unsigned char *into, const unsigned char *from) {
    if (args.type == PEERWIN_DOUBLE) {
        COMBINE(double, isnan);
    } else if (args.type == PEERWIN_FLOAT) {
        COMBINE(float, isnan);
    } else if (args.op == PEERWIN_SUM) {
        COMBINE(uint64_t, NEVER);
    } else {
        COMBINE(int64_t, NEVER);
    }
}

static int is_nan(const unsigned char *at) {
    double wide;
    float small;
    memcpy(&small, at, sizeof(small));
    if (args.type == PEERWIN_FLOAT) {
        return isnan(small);
    }
    memcpy(&wide, at, sizeof(wide));
    return args.type == PEERWIN_DOUBLE && isnan(wide);
}

/* Bit for bit, except that devices have one NaN of sums, and processors many. */
static void check_reduced(const unsigned char *got, const unsigned char *want, size_t count) {
    const size_t size = size_of(args.type);
    for (size_t i = 0; i < count; i++) {
        const int nan = args.op == PEERWIN_SUM && is_nan(want + i * size);
        if (nan ? !is_nan(got + i * size) : memcmp(got + i * size, want + i * size, size) != 0) {
            test_fail(__FILE__, __LINE__, "type %u, op %u, value %zu of %zu differs", args.type, args.op, i, count);
        }
    }
}

static void check_same_everywhere(const unsigned char *got, size_t bytes) {
    unsigned char *first = host_new(bytes);
    memcpy(first, got, bytes);
    MPI_Bcast(first, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK(memcmp(first, got, bytes) == 0);
    free(first);
}

/* `count` values in as many rounds as args.rounds says. */
static void reduce_and_check(size_t count, unsigned seed, unsigned lanes) {
    const size_t bytes = count * size_of(args.type);
    unsigned char *want = host_new(bytes), *got = host_new(bytes);
    draw_all(got, count, job.rank, seed);
    buffer_store(args.memory, 0, got, bytes);
    draw_all(want, count, 0, seed);
    for (int rank = 1; rank < job.size; rank++) {
        draw_all(got, count, rank, seed);
        for (size_t i = 0; i < count; i++) {
            combine(want + i * size_of(args.type), got + i * size_of(args.type));
        }
    }
    CHECK_EQUAL(run_well(BODY_REDUCE, lanes).done, args.rounds);
    buffer_load(args.memory, 0, got, bytes);
    check_reduced(got, want, count);
    check_same_everywhere(got, bytes);
    free(want);
    free(got);
}

static void all_reduces_have_the_bits_of_rank_order(void) {
    begin(64, 4 * MIB);
    for (int kind = 0; kind < 9; kind++) {
        size_t count = 0;
        args.type = (uint32_t)kind % 3;
        args.op = (uint32_t)kind / 3;
        args.count = 0;
        args.rounds = rounds_of(65, 8); /* every count once */
        for (uint64_t round = 0; round < args.rounds; round++) {
            count += 1 + round * 7 % 64;
        }
        reduce_and_check(count, (unsigned)kind, lanes_of(kind));
        args.count = kind % 2 ? 1 : 64;
        args.rounds = 2;
        reduce_and_check(2 * args.count, (unsigned)kind, kind % 2 ? 1 : 7);
    }
    end();
}

static void an_all_reduce_that_timed_out_goes_on_when_it_is_repeated(void) {
    double values[64];
    begin(64, sizeof(values));
    const uint64_t patience = args.view.timeout_ns;
    args.type = PEERWIN_DOUBLE;
    args.op = PEERWIN_SUM;
    args.count = 64;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 64; i++) {
            values[i] = job.rank + round + i;
        }
        buffer_store(args.memory, 0, values, sizeof(values));
        args.view.timeout_ns = SHORT_NS;
        if (job.rank != round % job.size) {
            CHECK_EQUAL(step(STEP_REDUCE, 64), PEERWIN_ERR_TIMEOUT);
            CHECK_EQUAL(step(STEP_REDUCE, 5), PEERWIN_ERR_TIMEOUT);
            buffer_load(args.memory, 0, values, sizeof(values));
            CHECK_EQUAL(values[63], job.rank + round + 63);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        args.view.timeout_ns = patience;
        CHECK_EQUAL(step(STEP_REDUCE, 32), PEERWIN_OK);
        buffer_load(args.memory, 0, values, sizeof(values));
        for (int i = 0; i < 64; i++) {
            CHECK_EQUAL(values[i], job.size * (round + i) + job.size * (job.size - 1) / 2);
        }
    }
    args.count = 65;
    CHECK_EQUAL(step(STEP_REDUCE, 32), PEERWIN_ERR_ARG);
    args.count = 0;
    CHECK_EQUAL(step(STEP_REDUCE, 32), PEERWIN_ERR_ARG);
    end();
}

/* One rank's arguments are others than the rest's: all find out, and go on with the same round when they agree. */
static void ranks_that_combine_different_things_find_out(void) {
    const double values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    double got[8];
    begin(64, sizeof(values));
    for (int i = 0; i < 4; i++) {
        const int odd = job.rank == i % job.size;
        args.type = odd && i == 1 ? PEERWIN_INT64 : odd && i == 3 ? PEERWIN_FLOAT : PEERWIN_DOUBLE;
        args.op = odd && i == 2 ? PEERWIN_MAX : PEERWIN_SUM;
        args.count = odd && i == 0 ? 3 : 8;
        buffer_store(args.memory, 0, values, sizeof(values));
        CHECK_EQUAL(step(STEP_REDUCE, lanes_of(i)), PEERWIN_ERR_MISMATCH);
        buffer_load(args.memory, 0, got, sizeof(got));
        CHECK(memcmp(got, values, sizeof(values)) == 0);
        MPI_Barrier(MPI_COMM_WORLD);
        args.type = PEERWIN_DOUBLE;
        args.op = PEERWIN_SUM;
        args.count = 8;
        const double begin_s = MPI_Wtime();
        peerwin_status status = PEERWIN_ERR_MISMATCH; /* as long as a rank has not come again */
        while (status == PEERWIN_ERR_MISMATCH && MPI_Wtime() < begin_s + 30) {
            status = step(STEP_REDUCE, lanes_of(i));
            sched_yield();
        }
        CHECK_EQUAL(status, PEERWIN_OK);
        buffer_load(args.memory, 0, got, sizeof(got));
        CHECK_EQUAL(got[0], job.size);
        CHECK_EQUAL(got[7], 8 * job.size);
    }
    end();
}

/* -------------------------------------------------------------------------------------------------------- ends */

/* One rank aborts while the others wait, without a deadline of their own. */
static void an_abort_ends_the_waits_of_kernels(void) {
    const uint32_t waits[] = {STEP_WAIT_BLOCK, STEP_BARRIER, STEP_REDUCE, STEP_RECV};
    for (int i = 0; i < 4; i++) {
        begin(64, 64);
        args.view.timeout_ns = UINT64_MAX;
        args.value = 1;
        args.count = 1;
        args.bytes = 8;
        args.rank = 0;
        args.step = waits[i];
        if (job.rank == 0) {
            test_sleep_ms(50);
            CHECK_OK(peerwin_abort(ctx));
        } else {
            CHECK_EQUAL(run(BODY_STEP, 32).status, PEERWIN_ERR_ABORTED);
            CHECK_STATUS(peerwin_check(ctx), PEERWIN_ERR_ABORTED, "abort");
        }
        CHECK_STATUS(peerwin_win_view(win, &args.view), PEERWIN_ERR_ABORTED, "abort");
        end();
    }
}

static const test_case cases[] = {
    TEST_CASE(a_view_of_another_version_is_a_mismatch, 1, 0),
    TEST_CASE(dev_ptr_is_what_win_ptr_is, 1, 0),
    TEST_CASE(puts_of_every_alignment_and_length_move_exactly_their_bytes, 1, 4),
    TEST_CASE(gets_of_every_alignment_and_length_move_exactly_their_bytes, 1, 4),
    TEST_CASE(data_is_there_when_its_signal_is_seen, 1, 0),
    TEST_CASE(a_wait_that_timed_out_goes_on_when_it_is_repeated, 1, 0),
    TEST_CASE(signals_pass_between_kernels_and_the_hosts_calls, 1, 0),
    TEST_CASE(a_rank_that_does_not_exist_makes_a_call_without_effect, 1, 0),
    TEST_CASE(fences_order_a_store_before_a_later_load, 2, 4),
    TEST_CASE(atomics_of_all_ranks_add_up, 1, 0),
    TEST_CASE(messages_arrive_in_order_and_whole, 1, 0),
    TEST_CASE(a_sender_waits_for_a_slow_receiver, 1, 0),
    TEST_CASE(after_a_barrier_nobody_is_behind, 1, 0),
    TEST_CASE(after_a_barrier_that_ranks_gave_up_nobody_is_behind, 2, 0),
    TEST_CASE(a_barrier_that_timed_out_goes_on_when_it_is_repeated, 2, 0),
    TEST_CASE(barriers_of_kernels_and_of_the_host_do_not_mix, 1, 0),
    TEST_CASE(all_reduces_have_the_bits_of_rank_order, 1, 0),
    TEST_CASE(an_all_reduce_that_timed_out_goes_on_when_it_is_repeated, 2, 0),
    TEST_CASE(ranks_that_combine_different_things_find_out, 2, 0),
    TEST_CASE(an_abort_ends_the_waits_of_kernels, 2, 0),
};

TEST_MAIN(cases)
