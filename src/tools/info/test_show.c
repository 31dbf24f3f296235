/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What peerwin-info writes, for jobs larger than a test can start and for texts that a machine seldom has.
 */
#include "info.h"
#include "json.h"
#include "pairs.h"
#include "ranges.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const pair_kind self_kind = {PEERWIN_PATH_SELF, PEERWIN_LINK_HOST, 1};
static const pair_kind host_kind = {PEERWIN_PATH_DIRECT, PEERWIN_LINK_HOST, 1};
static const pair_kind none_kind = {PEERWIN_PATH_NONE, PEERWIN_LINK_NONE, 0};

/* n ranks, `width` on a node. */
static pair_matrix *nodes(int n, int width) {
    pair_matrix *m = pairs_new(n);
    for (int from = 0; from < n; from++) {
        for (int to = 0; to < n; to++) {
            char reason[64] = "";
            if (from / width != to / width)
                snprintf(reason, sizeof reason, "rank %d is on another node", to);
            pairs_set(m, from, to, from == to ? self_kind : reason[0] != '\0' ? none_kind : host_kind, reason);
        }
    }
    return m;
}

static char *printed(const pair_matrix *m) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    pairs_print(m, file);
    fclose(file);
    return text;
}

static void test_up_to_32_ranks_are_shown_as_a_matrix(void **state) {
    (void)state;
    pair_matrix *m = nodes(32, 16);
    char *text = printed(m);
    assert_non_null(strstr(text, "from\\to    0    1"));
    assert_non_null(strstr(text, "\n         1 host self host"));
    assert_non_null(strstr(text, "\n        31    -"));
    free(text);
    pairs_free(m);
}

static void test_more_ranks_are_shown_as_ranges(void **state) {
    (void)state;
    pair_matrix *m = nodes(72, 36);
    char *text = printed(m);
    assert_null(strstr(text, "from\\to"));
    assert_non_null(strstr(text, "\n  from 0-35 to 0-35: host; 36-71: -\n  from 36-71 to 0-35: -; 36-71: host\n"));
    assert_non_null(
        strstr(text, "\n  the other rank is on another node:\n    from 0-35 to 36-71\n    from 36-71 to 0-35\n"));
    free(text);
    pairs_free(m);
}

static void test_one_odd_pair_is_not_lost_in_the_ranges(void **state) {
    (void)state;
    pair_matrix *m = nodes(40, 40);
    pairs_set(m, 5, 17, none_kind, "rank 17 runs as user 1, rank 5 as user 2");
    pairs_set(m, 17, 5, none_kind, "rank 5 runs as user 2, rank 17 as user 1");
    char *text = printed(m);
    assert_non_null(strstr(text, "\n  from 5 to 0-4,6-16,18-39: host; 5: self; 17: -\n"));
    assert_non_null(strstr(text, "\n  from 17 to 0-4,6-16,18-39: host; 5: -; 17: self\n"));
    assert_non_null(strstr(text, "\n  the other rank runs as user 1, this rank as user 2:\n    from 5 to 17\n"));
    free(text);
    pairs_free(m);
}

static void test_reasons_leave_out_the_place_and_stand_alone(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0;
    pair_matrix *m = nodes(2, 2);
    pairs_set(m, 0, 1, none_kind, "peerwin_init: arenas: rank 0, peer 1: cuX failed");
    pairs_set(m, 1, 0, none_kind, "peerwin_init: arenas: rank 1, peer 0: cuX failed");
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    pairs_print_reasons(m, file);
    fclose(file);
    assert_string_equal(text, "  cuX failed:\n    from 0 to 1\n    from 1 to 0\n");
    free(text);
    pairs_free(m);
}

/* Rank 1 in rank 12 is no rank 1. */
static void test_reasons_name_the_ranks_of_their_pair_only(void **state) {
    (void)state;
    pair_matrix *m = nodes(2, 2);
    pairs_set(m, 0, 1, none_kind, "rank 1 and rank 0, not rank 12 or rank 10");
    assert_int_equal(m->num_texts, 1);
    assert_string_equal(m->texts[0], "the other rank and this rank, not rank 12 or rank 10");
    pairs_free(m);
}

static void test_an_endless_reason_is_cut_off(void **state) {
    (void)state;
    char reason[2000];
    static const char again[] = "rank 1 ";
    for (size_t i = 0; i + 1 < sizeof reason; i++)
        reason[i] = again[i % (sizeof again - 1)];
    reason[sizeof reason - 1] = '\0';
    pair_matrix *m = nodes(2, 2);
    pairs_set(m, 0, 1, none_kind, reason);
    assert_int_equal(m->num_texts, 1);
    assert_in_range(strlen(m->texts[0]), 200, 255);
    pairs_free(m);
}

static void test_ranges_that_do_not_fit_end_in_dots(void **state) {
    (void)state;
    unsigned char set[1024] = {0};
    char text[RANGES_BYTES];
    ranges_format(text, set, 1024);
    assert_string_equal(text, "none");
    set[0] = set[2] = set[3] = set[4] = set[1023] = 1;
    ranges_format(text, set, 1024);
    assert_string_equal(text, "0,2-4,1023");
    for (int i = 0; i < 1024; i += 2)
        set[i] = 1;
    ranges_format(text, set, 1024);
    assert_string_equal(text + strlen(text) - 4, ",...");
}

static void test_json_escapes_what_is_special_and_what_is_no_utf8(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0;
    json j = {.file = open_memstream(&text, &size)};
    assert_non_null(j.file);
    json_open(&j, NULL, '[');
    json_text(&j, NULL, "a\"b\\c\n\x01");
    json_text(&j, NULL, "\xc3\xa4 \xe4 \xc0\x80 \xed\xa0\x80 \xf0\x9f\x98\x80 \xc3");
    json_text(&j, NULL, NULL);
    json_open(&j, NULL, '{');
    json_close(&j, '}');
    json_close(&j, ']');
    fclose(j.file);
    assert_string_equal(text, "[\n  \"a\\\"b\\\\c\\u000a\\u0001\",\n"
                              "  \"\xc3\xa4 \\u00e4 \\u00c0\\u0080 \\u00ed\\u00a0\\u0080 \xf0\x9f\x98\x80 \\u00c3\",\n"
                              "  null,\n  {}\n]\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_up_to_32_ranks_are_shown_as_a_matrix),
        cmocka_unit_test(test_more_ranks_are_shown_as_ranges),
        cmocka_unit_test(test_one_odd_pair_is_not_lost_in_the_ranges),
        cmocka_unit_test(test_reasons_leave_out_the_place_and_stand_alone),
        cmocka_unit_test(test_reasons_name_the_ranks_of_their_pair_only),
        cmocka_unit_test(test_an_endless_reason_is_cut_off),
        cmocka_unit_test(test_ranges_that_do_not_fit_end_in_dots),
        cmocka_unit_test(test_json_escapes_what_is_special_and_what_is_no_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
