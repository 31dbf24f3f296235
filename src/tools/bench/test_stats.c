/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The figures of peerwin-bench: medians and quartiles of odd, even and single counts.
 */
#include "stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect(const stats *s, double min, double q1, double median, double q3, double max) {
    const double got[] = {s->min, s->q1, s->median, s->q3, s->max};
    const double wanted[] = {min, q1, median, q3, max};
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        assert_float_equal((float)got[i], (float)wanted[i], 0.0f);
}

static void one_value_is_everything(void **state) {
    (void)state;
    double values[] = {3.5};
    const stats s = stats_of(values, 1);
    expect(&s, 3.5, 3.5, 3.5, 3.5, 3.5);
}

static void an_odd_count_has_a_middle(void **state) {
    (void)state;
    double values[] = {9, 1, 5, 3, 7};
    const stats s = stats_of(values, 5);
    expect(&s, 1, 3, 5, 7, 9);
}

static void an_even_count_is_interpolated(void **state) {
    (void)state;
    double values[] = {4, 1, 3, 2};
    const stats s = stats_of(values, 4);
    expect(&s, 1, 1.75, 2.5, 3.25, 4);
}

static void an_outlier_does_not_move_the_median(void **state) {
    (void)state;
    double values[] = {1, 1, 1e9, 1, 1};
    const stats s = stats_of(values, 5);
    expect(&s, 1, 1, 1, 1, 1e9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_value_is_everything),
        cmocka_unit_test(an_odd_count_has_a_middle),
        cmocka_unit_test(an_even_count_is_interpolated),
        cmocka_unit_test(an_outlier_does_not_move_the_median),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
