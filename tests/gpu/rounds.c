/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Rounds of all ranks: barriers inside of kernels, with ranks that come too late, and all-reduces of random values,
 * not-a-numbers and infinities among them, on streams and inside of kernels: the result in rank order, and the same
 * bits on every rank.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "support/memory.h"
#include "transfer/combine.h"

enum { MOST = 64, STRIDE = MOST * 8, BATCH = 64 };

static double seconds_of(void) {
    return rig.seconds > 0 ? rig.seconds : 1e9;
}

/* ------------------------------------------------------------------------------------------ barriers in kernels */

static void barriers_in_kernels_keep_the_ranks_together(void) {
    enum { WORDS = 32 };
    uint64_t rounds = rig_amount(rig.rounds, 100000, 300);
    uint64_t given = 0;
    uint64_t step = 10;
    peerwin_ctx *ctx = rig_context();
    peerwin_win *win = test_window(ctx, (size_t)job.size * WORDS * 8);
    rig_report *report = rig_reports_new(1);
    rig_meet_args a = {.words = WORDS, .most_ns = 5000, .report = report};
    CHECK_OK(peerwin_win_view(win, &a.view));
    double start = test_seconds();
    while (!rig_is_over(start, given, rounds, seconds_of())) {
        a.first = given;
        a.rounds = step < rounds - given ? step : rounds - given;
        rig_launch(RIG_KERNEL_meet, 1, &a, job.stream);
        check_done(ctx);
        given += a.rounds;
        int grow = test_seconds() - start < 2;
        MPI_Allreduce(MPI_IN_PLACE, &grow, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        step *= grow ? 4 : 1;
    }
    double took = test_seconds() - start;
    rig_report sum = rig_reports_end(report, 1);
    rig_say("soak barriers in kernels, %d ranks: %llu rounds in %.2f s (%.2f us each), %llu wrong", job.size,
            (unsigned long long)given, took, 1e6 * took / (double)given, (unsigned long long)sum.wrong);
    CHECK_EQUAL(sum.late, 0);
    CHECK_EQUAL(sum.wrong, 0);
    CHECK_EQUAL(sum.rounds, given * (uint64_t)job.size);
    test_free(ctx, win);
}

/* -------------------------------------------------------------------------------------------------- late peers */

static peerwin_status hold(peerwin_ctx *ctx, rig_hold_args *a) {
    uint64_t status = 0;
    rig_launch(RIG_KERNEL_hold, 1, a, job.stream);
    check_done(ctx);
    device_copy(&status, a->status, sizeof(status));
    return (peerwin_status)status;
}

/* The last rank comes when the others have given up once; then the same call of theirs completes. */
static void check_late(int barrier) {
    enum { SLOT = 3, VALUE = 7 };
    int late = job.rank == job.size - 1;
    uint64_t again = 0;
    peerwin_ctx *ctx = rig_context();
    peerwin_win *win = test_window(ctx, 8);
    rig_hold_args a = {.value = VALUE, .slot = SLOT, .barrier = (uint32_t)barrier, .status = device_new(8)};
    CHECK_OK(peerwin_win_view(win, &a.view));
    a.view.timeout_ns = 100000000;
    double start = test_seconds();
    if (!late) {
        CHECK_EQUAL(hold(ctx, &a), PEERWIN_ERR_TIMEOUT);
        CHECK(test_seconds() - start >= 0.09);
    }
    double took = test_seconds() - start;
    CHECK_OK(peerwin_check(ctx));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int rank = 0; late && !barrier && rank < job.size; rank++) {
        CHECK_OK(peerwin_signal(win, rank, SLOT, PEERWIN_SIGNAL_SET, VALUE, job.stream));
    }
    peerwin_status status = PEERWIN_ERR_TIMEOUT;
    for (; status == PEERWIN_ERR_TIMEOUT && again < 100; again++) {
        status = hold(ctx, &a);
    }
    CHECK_EQUAL(status, PEERWIN_OK);
    MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    rig_say("stuck in a kernel's %s, %d ranks: TIMEOUT after at most %.3f s of 0.100, completed when repeated",
            barrier ? "barrier" : "wait", job.size, took);
    CHECK(took < 5);
    device_free(a.status);
    MPI_Barrier(MPI_COMM_WORLD);
    test_free(ctx, win);
}

static void a_wait_in_a_kernel_times_out_and_completes_when_repeated(void) {
    check_late(0);
}

static void a_barrier_in_a_kernel_times_out_and_completes_when_repeated(void) {
    check_late(1);
}

/* ------------------------------------------------------------------------------------------------- all-reduces */

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    peerwin_view view;
    char *values; /* on the device: BATCH times MOST values */
    rig_report *report;
    int in_kernel;
} reduces;

typedef struct {
    int count;
    peerwin_type type;
    peerwin_op op;
} shape;

/* Each batch has a shape; all come up. */
static shape shape_of(uint64_t batch) {
    uint64_t state = batch + 1;
    shape s = {1 + (int)(test_random(&state) % 8), (peerwin_type)(batch % 3), (peerwin_op)(batch / 3 % 3)};
    if (batch % 4 == 3) {
        s.count = 1 + (int)(test_random(&state) % MOST);
    }
    return s;
}

/* One in eight is odd. */
static double odd_or(uint64_t draw, double value) {
    static const double odd[] = {0.0, -0.0, 5e-324, 1e-310, 1.7e308, -1.7e308};
    switch (draw % 64) {
    case 0:
        return (double)NAN;
    case 1:
        return (double)INFINITY;
    case 2:
        return -(double)INFINITY;
    default:
        return draw % 64 < 9 ? odd[draw % 64 % 6] : value;
    }
}

/* Values of a rank in a batch; every rank knows those of all. */
static void draw(char *to, int rank, uint64_t batch, const shape *s) {
    uint64_t state = batch * 1000003 + (uint64_t)rank * 7919 + 1;
    for (int i = 0; i < BATCH; i++) {
        for (int k = 0; k < s->count; k++) {
            uint64_t bits = test_random(&state);
            uint64_t more = test_random(&state);
            double value = odd_or(more, ldexp((double)(int64_t)bits, (int)(more >> 8 & 63) - 90));
            float single = (float)value;
            char *at = to + (size_t)i * STRIDE + (size_t)k * pw_type_bytes(s->type);
            const void *from = s->type == PEERWIN_DOUBLE  ? (const void *)&value
                               : s->type == PEERWIN_FLOAT ? (const void *)&single
                                                          : (const void *)&bits;
            memcpy(at, from, pw_type_bytes(s->type));
        }
    }
}

static int is_nan(const char *at, peerwin_type type) {
    double value = 0;
    float single = 0;
    if (type == PEERWIN_DOUBLE) {
        memcpy(&value, at, sizeof(value));
    } else if (type == PEERWIN_FLOAT) {
        memcpy(&single, at, sizeof(single));
    }
    return isnan(value) || isnan(single);
}

/* In rank order, bit for bit; but a processor's not-a-number may have other bits than a device's. */
static void check_order(const char *got, const char *want, const shape *s) {
    size_t size = pw_type_bytes(s->type);
    for (int i = 0; i < BATCH; i++) {
        for (int k = 0; k < s->count; k++) {
            size_t at = (size_t)i * STRIDE + (size_t)k * size;
            if (is_nan(want + at, s->type) ? !is_nan(got + at, s->type) : memcmp(got + at, want + at, size) != 0) {
                test_fail(__FILE__, __LINE__, "type %d, operation %d: value %d of %d differs", (int)s->type, (int)s->op,
                          k, s->count);
            }
        }
    }
}

static void check_same_bits(const char *got) {
    char *first = host_new((size_t)BATCH * STRIDE);
    memcpy(first, got, (size_t)BATCH * STRIDE);
    MPI_Bcast(first, BATCH * STRIDE, MPI_BYTE, 0, MPI_COMM_WORLD);
    check_bytes("the results, against rank 0", (const unsigned char *)got, (const unsigned char *)first,
                (size_t)BATCH * STRIDE);
    free(first);
}

static void reduce_batch(const reduces *r, const shape *s) {
    if (r->in_kernel) {
        rig_reduce_args a = {.view = r->view,
                             .values = r->values,
                             .count = BATCH,
                             .stride = STRIDE,
                             .each = (uint32_t)s->count,
                             .type = (uint32_t)s->type,
                             .op = (uint32_t)s->op,
                             .report = r->report};
        rig_launch(RIG_KERNEL_reduce, 1, &a, job.stream);
        return;
    }
    for (int i = 0; i < BATCH; i++) {
        CHECK_OK(peerwin_allreduce(r->ctx, r->values + (size_t)i * STRIDE, s->count, s->type, s->op, job.stream));
    }
}

/* Returns how many values were reduced, and adds the time in which that was done. */
static uint64_t check_batch(const reduces *r, uint64_t batch, double *took) {
    shape s = shape_of(batch);
    size_t bytes = (size_t)BATCH * STRIDE;
    char *mine = host_new(bytes);
    char *want = host_new(bytes);
    char *theirs = host_new(bytes);
    memset(mine, 0, bytes);
    draw(mine, job.rank, batch, &s);
    device_copy(r->values, mine, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = test_seconds();
    reduce_batch(r, &s);
    check_done(r->ctx);
    *took += test_seconds() - start;
    memset(want, 0, bytes);
    draw(want, 0, batch, &s);
    for (int rank = 1; rank < job.size; rank++) {
        draw(theirs, rank, batch, &s);
        for (int i = 0; i < BATCH; i++) {
            pw_combine(want + (size_t)i * STRIDE, theirs + (size_t)i * STRIDE, s.count, s.type, s.op);
        }
    }
    device_copy(mine, r->values, bytes);
    check_order(mine, want, &s);
    check_same_bits(mine);
    free(mine);
    free(want);
    free(theirs);
    return (uint64_t)BATCH * (uint64_t)s.count;
}

static void soak_reduces(const char *what, int in_kernel) {
    uint64_t inputs = rig_amount(rig.rounds, 100000, 3000);
    uint64_t given = 0;
    uint64_t calls = 0;
    double took = 0;
    reduces r = {.ctx = rig_context(), .in_kernel = in_kernel};
    r.win = test_window(r.ctx, 8);
    r.values = device_new((size_t)BATCH * STRIDE);
    r.report = rig_reports_new(1);
    CHECK_OK(peerwin_win_view(r.win, &r.view));
    double start = test_seconds();
    for (uint64_t batch = 0; !rig_is_over(start, given, inputs, seconds_of()); batch++) {
        given += check_batch(&r, batch, &took);
        calls += BATCH;
    }
    rig_report sum = rig_reports_end(r.report, 1);
    rig_say("soak all-reduces %s, %d ranks: %llu values in %llu calls, %.2f s (%.1f us each), all in rank order", what,
            job.size, (unsigned long long)given, (unsigned long long)calls, took, 1e6 * took / (double)calls);
    CHECK_EQUAL(sum.late, 0);
    device_free(r.values);
    test_free(r.ctx, r.win);
}

static void allreduces_on_streams_are_in_rank_order(void) {
    soak_reduces("on streams", 0);
}

static void allreduces_in_kernels_are_in_rank_order(void) {
    soak_reduces("in kernels", 1);
}

static const test_case cases[] = {
    TEST_CASE(barriers_in_kernels_keep_the_ranks_together, 1, 0),
    TEST_CASE(a_wait_in_a_kernel_times_out_and_completes_when_repeated, 2, 0),
    TEST_CASE(a_barrier_in_a_kernel_times_out_and_completes_when_repeated, 2, 0),
    TEST_CASE(allreduces_in_kernels_are_in_rank_order, 1, 0),
    TEST_CASE(allreduces_on_streams_are_in_rank_order, 1, 0),
};

RIG_MAIN(cases)
