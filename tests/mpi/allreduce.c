/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The small all-reduce: in rank order, the same bits on every rank and in every run, whatever the values are.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"

enum { MOST = 64 };

static size_t size_of_type(peerwin_type type) {
    return type == PEERWIN_FLOAT ? 4 : 8;
}

static double combine_double(double a, double b, peerwin_op op) {
    if (op == PEERWIN_SUM) {
        return a + b;
    }
    if (isnan(a) || isnan(b)) {
        return (double)NAN;
    }
    return (op == PEERWIN_MIN ? b < a : b > a) ? b : a;
}

static float combine_float(float a, float b, peerwin_op op) {
    if (op == PEERWIN_SUM) {
        return a + b;
    }
    if (isnan(a) || isnan(b)) {
        return NAN;
    }
    return (op == PEERWIN_MIN ? b < a : b > a) ? b : a;
}

static int64_t combine_int64(int64_t a, int64_t b, peerwin_op op) {
    if (op == PEERWIN_SUM) {
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
    return (op == PEERWIN_MIN ? b < a : b > a) ? b : a;
}

/* What the result must be: element by element, rank after rank. `all` holds the values of rank r at r * count. */
static void combine(void *result, const void *all, int count, peerwin_type type, peerwin_op op) {
    memcpy(result, all, (size_t)count * size_of_type(type));
    for (int i = count; i < count * job.size; i++) {
        int k = i % count;
        if (type == PEERWIN_DOUBLE) {
            ((double *)result)[k] = combine_double(((double *)result)[k], ((const double *)all)[i], op);
        } else if (type == PEERWIN_FLOAT) {
            ((float *)result)[k] = combine_float(((float *)result)[k], ((const float *)all)[i], op);
        } else {
            ((int64_t *)result)[k] = combine_int64(((int64_t *)result)[k], ((const int64_t *)all)[i], op);
        }
    }
}

static int is_nan_at(const void *values, int k, peerwin_type type) {
    return (type == PEERWIN_DOUBLE && isnan(((const double *)values)[k])) ||
           (type == PEERWIN_FLOAT && isnan(((const float *)values)[k]));
}

/* Bit for bit, except that one NaN is as good as another. */
static void check_result(const char *got, const char *want, int count, peerwin_type type, peerwin_op op) {
    size_t size = size_of_type(type);
    for (int k = 0; k < count; k++) {
        int nan = is_nan_at(want, k, type);
        if (nan ? !is_nan_at(got, k, type) : memcmp(got + size * (size_t)k, want + size * (size_t)k, size) != 0) {
            test_fail(__FILE__, __LINE__, "type %d, op %d, element %d of %d differs", (int)type, (int)op, k, count);
        }
    }
}

static void check_same_bits_everywhere(const void *values, size_t bytes) {
    char *first = host_new(bytes);
    memcpy(first, values, bytes);
    MPI_Bcast(first, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    check_bytes("the result, against rank 0", values, (const unsigned char *)first, bytes);
    free(first);
}

/* In place, and done: in CUDA space on a copy that the device can use. */
static peerwin_status reduce(peerwin_ctx *ctx, void *values, int count, peerwin_type type, peerwin_op op) {
    size_t bytes = (size_t)count * size_of_type(type);
    if (job.space == PEERWIN_SPACE_HOST) {
        return peerwin_allreduce(ctx, values, count, type, op, job.stream);
    }
    void *buffer = buffer_new(bytes);
    buffer_store(buffer, 0, values, bytes);
    peerwin_status status = done(ctx, peerwin_allreduce(ctx, buffer, count, type, op, job.stream));
    buffer_load(buffer, 0, values, bytes);
    buffer_free(buffer);
    return status;
}

static void check_reduce(peerwin_ctx *ctx, const void *values, int count, peerwin_type type, peerwin_op op) {
    size_t bytes = (size_t)count * size_of_type(type);
    char *all = host_new(bytes * (size_t)job.size);
    char *want = host_new(bytes);
    char *got = host_new(bytes);
    memcpy(got, values, bytes);
    MPI_Allgather(values, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    combine(want, all, count, type, op);
    CHECK_OK(reduce(ctx, got, count, type, op));
    CHECK_OK(peerwin_stream_sync(ctx, job.stream));
    check_result(got, want, count, type, op);
    check_same_bits_everywhere(got, bytes);
    free(all);
    free(want);
    free(got);
}

static void draw_values(uint64_t *seed, void *values, int count, peerwin_type type) {
    for (int k = 0; k < count; k++) {
        uint64_t bits = test_random(seed);
        double magnitude = ldexp((double)(int64_t)bits, (int)(test_random(seed) % 60) - 90);
        if (type == PEERWIN_DOUBLE) {
            ((double *)values)[k] = magnitude;
        } else if (type == PEERWIN_FLOAT) {
            ((float *)values)[k] = (float)magnitude;
        } else {
            ((int64_t *)values)[k] = (int64_t)bits;
        }
    }
}

static void every_type_op_and_count_gives_the_rank_order_result(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    uint64_t seed = (uint64_t)job.rank * 31 + 7;
    double values[MOST];
    for (int type = PEERWIN_DOUBLE; type <= PEERWIN_INT64; type++) {
        for (int op = PEERWIN_SUM; op <= PEERWIN_MAX; op++) {
            for (int count = 1; count <= MOST; count += count < 10 ? 1 : 9) {
                draw_values(&seed, values, count, (peerwin_type)type);
                check_reduce(ctx, values, count, (peerwin_type)type, (peerwin_op)op);
            }
        }
    }
    CHECK_OK(peerwin_finalize(ctx));
}

/* The rank that has the odd value goes round, and so does the value. */
static void odd_double(peerwin_ctx *ctx, peerwin_op op) {
    static const double odd[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 0.0, -0.0, 5e-324, 1.7e308};
    enum { COUNT = sizeof(odd) / sizeof(odd[0]) };
    double values[COUNT * 2];
    for (int turn = 0; turn < job.size; turn++) {
        for (int k = 0; k < COUNT; k++) {
            values[k] = job.rank == turn ? odd[k] : 1.5 * job.rank;
            values[COUNT + k] = odd[(k + job.rank + turn) % COUNT];
        }
        check_reduce(ctx, values, COUNT * 2, PEERWIN_DOUBLE, op);
    }
}

static void odd_float(peerwin_ctx *ctx, peerwin_op op) {
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-45f, 3e38f};
    enum { COUNT = sizeof(odd) / sizeof(odd[0]) };
    float values[COUNT * 2];
    for (int turn = 0; turn < job.size; turn++) {
        for (int k = 0; k < COUNT; k++) {
            values[k] = job.rank == turn ? odd[k] : 1.5f * (float)job.rank;
            values[COUNT + k] = odd[(k + job.rank + turn) % COUNT];
        }
        check_reduce(ctx, values, COUNT * 2, PEERWIN_FLOAT, op);
    }
}

static void nan_infinity_and_signed_zero_give_the_same_bits_everywhere(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (int op = PEERWIN_SUM; op <= PEERWIN_MAX; op++) {
        odd_double(ctx, (peerwin_op)op);
        odd_float(ctx, (peerwin_op)op);
    }
    CHECK_OK(peerwin_finalize(ctx));
}

static void integer_sums_wrap(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    int64_t values[3] = {INT64_MAX, INT64_MIN, -1};
    check_reduce(ctx, values, 3, PEERWIN_INT64, PEERWIN_SUM);
    check_reduce(ctx, values, 3, PEERWIN_INT64, PEERWIN_MIN);
    check_reduce(ctx, values, 3, PEERWIN_INT64, PEERWIN_MAX);
    CHECK_OK(peerwin_finalize(ctx));
}

/* Sizes, types and barriers mixed, back to back: no value of one call may show in the next. */
static void calls_in_a_row_do_not_mix(void) {
    int rounds = test_rounds(job.size <= 2 ? 20000 : 2000, 200);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (int round = 0; round < rounds; round++) {
        int64_t values[MOST];
        int count = 1 + round % MOST;
        for (int k = 0; k < count; k++) {
            values[k] = (int64_t)round * 1000 + k + job.rank;
        }
        CHECK_OK(reduce(ctx, values, count, PEERWIN_INT64, PEERWIN_SUM));
        int64_t ranks = (int64_t)job.size * (job.size - 1) / 2;
        CHECK_EQUAL(values[0], (int64_t)round * 1000 * job.size + ranks);
        CHECK_EQUAL(values[count - 1], ((int64_t)round * 1000 + count - 1) * job.size + ranks);
        if (round % 7 == 0) {
            CHECK_OK(peerwin_barrier(ctx, job.stream));
        }
    }
    CHECK_OK(peerwin_finalize(ctx));
}

static void an_allreduce_orders_like_a_barrier(void) {
    int rounds = test_rounds(job.size <= 4 ? 1000 : 200, 100);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 8 * (size_t)job.size);
    for (int64_t round = 1; round <= rounds; round++) {
        int64_t sum = round;
        for (int rank = 0; rank < job.size; rank++) {
            CHECK_OK(peerwin_put(win, rank, 8 * (size_t)job.rank, &round, 8, job.stream));
        }
        CHECK_OK(reduce(ctx, &sum, 1, PEERWIN_INT64, PEERWIN_SUM));
        CHECK_EQUAL(sum, round * job.size);
        for (int rank = 0; rank < job.size; rank++) {
            int64_t seen = 0;
            segment_load(win, 8 * (size_t)rank, &seen, 8);
            CHECK(seen == round || seen == round + 1);
        }
    }
    test_free(ctx, win);
}

/* On a stream the ranks find out when it runs, and that is the end of the context. */
static void differing_arguments_on_streams(void) {
    for (int i = 0; i < 3; i++) {
        int odd = job.rank == i % job.size;
        peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
        peerwin_win *win = test_window(ctx, 64);
        double *values = peerwin_win_ptr(win, job.rank);
        CHECK_OK(peerwin_allreduce(ctx, values, 4, PEERWIN_DOUBLE, PEERWIN_SUM, job.stream));
        CHECK_OK(peerwin_stream_sync(ctx, job.stream));
        MPI_Barrier(MPI_COMM_WORLD); /* who is ahead may find out before who is behind is through with the first */
        peerwin_status status =
            peerwin_allreduce(ctx, values, odd && i == 0 ? 3 : 4, odd && i == 1 ? PEERWIN_INT64 : PEERWIN_DOUBLE,
                              odd && i == 2 ? PEERWIN_MIN : PEERWIN_SUM, job.stream);
        CHECK(status == PEERWIN_OK || status == PEERWIN_ERR_MISMATCH); /* the others may have found out */
        CHECK_STATUS_ALL(peerwin_stream_sync(ctx, job.stream), PEERWIN_ERR_MISMATCH, "count, type or operation");
        CHECK_STATUS_ALL(peerwin_check(ctx), PEERWIN_ERR_MISMATCH, "count, type or operation");
        CHECK_STATUS_ALL(peerwin_barrier(ctx, job.stream), PEERWIN_ERR_MISMATCH, "rank");
        CHECK_OK(peerwin_win_free(win));
        CHECK_OK(peerwin_finalize(ctx));
    }
}

static void differing_arguments_are_a_mismatch_everywhere(void) {
    if (job.space != PEERWIN_SPACE_HOST) {
        differing_arguments_on_streams();
        return;
    }
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    int odd = job.rank == job.size - 1;
    double values[4] = {1, 2, 3, 4};
    CHECK_STATUS_ALL(peerwin_allreduce(ctx, values, odd ? 3 : 4, PEERWIN_DOUBLE, PEERWIN_SUM, job.stream),
                     PEERWIN_ERR_MISMATCH, "rank");
    CHECK_STATUS_ALL(peerwin_allreduce(ctx, values, 4, odd ? PEERWIN_INT64 : PEERWIN_DOUBLE, PEERWIN_SUM, job.stream),
                     PEERWIN_ERR_MISMATCH, "rank");
    CHECK_STATUS_ALL(peerwin_allreduce(ctx, values, 4, PEERWIN_DOUBLE, odd ? PEERWIN_MIN : PEERWIN_SUM, job.stream),
                     PEERWIN_ERR_MISMATCH, "rank");
    for (int k = 0; k < 4; k++) {
        CHECK(values[k] == k + 1);
    }
    CHECK_OK(peerwin_check(ctx));
    int64_t sum = 1;
    CHECK_OK(peerwin_allreduce(ctx, &sum, 1, PEERWIN_INT64, PEERWIN_SUM, job.stream));
    CHECK_EQUAL(sum, job.size);
    CHECK_OK(peerwin_finalize(ctx));
}

static void wrong_arguments_are_refused(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    double value = 1;
    CHECK_STATUS(peerwin_allreduce(NULL, &value, 1, PEERWIN_DOUBLE, PEERWIN_SUM, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS_ALL(peerwin_allreduce(ctx, NULL, 1, PEERWIN_DOUBLE, PEERWIN_SUM, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS_ALL(peerwin_allreduce(ctx, &value, 0, PEERWIN_DOUBLE, PEERWIN_SUM, job.stream), PEERWIN_ERR_ARG, "64");
    CHECK_STATUS_ALL(peerwin_allreduce(ctx, &value, 65, PEERWIN_DOUBLE, PEERWIN_SUM, job.stream), PEERWIN_ERR_ARG,
                     "64");
    CHECK_STATUS_ALL(peerwin_allreduce(ctx, &value, -1, PEERWIN_DOUBLE, PEERWIN_SUM, job.stream), PEERWIN_ERR_ARG,
                     "64");
    CHECK_STATUS_ALL(peerwin_allreduce(ctx, &value, 1, (peerwin_type)9, PEERWIN_SUM, job.stream), PEERWIN_ERR_ARG,
                     "type");
    CHECK_STATUS_ALL(peerwin_allreduce(ctx, &value, 1, PEERWIN_DOUBLE, (peerwin_op)9, job.stream), PEERWIN_ERR_ARG,
                     "op");
    CHECK(value == 1);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    CHECK_OK(peerwin_finalize(ctx));
}

static const test_case cases[] = {
    TEST_CASE(every_type_op_and_count_gives_the_rank_order_result, 1, 0),
    TEST_CASE(nan_infinity_and_signed_zero_give_the_same_bits_everywhere, 1, 0),
    TEST_CASE(integer_sums_wrap, 1, 0),
    TEST_CASE(calls_in_a_row_do_not_mix, 1, 0),
    TEST_CASE(an_allreduce_orders_like_a_barrier, 1, 0),
    TEST_CASE(differing_arguments_are_a_mismatch_everywhere, 2, 0),
    TEST_CASE(wrong_arguments_are_refused, 1, 0),
};
TEST_MAIN(cases)
