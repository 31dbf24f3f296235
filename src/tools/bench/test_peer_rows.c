/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Putting the two sides of --peers together: what is read from their files, medians, ratios by round, and the limits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "peer_limits.h"
#include "peer_plan.h"
#include "peer_rows.h"

#include <math.h>

static bool feed(peer_table *table, const char *text, int ranks, int side, int round) {
    char copy[2048];
    snprintf(copy, sizeof copy, "%s", text);
    FILE *file = fmemopen(copy, strlen(copy), "r");
    assert_non_null(file);
    const bool done = peer_table_read(table, file, "", ranks, side, round);
    fclose(file);
    return done;
}

static void assert_near(double value, double expected) {
    assert_true(fabs(value - expected) <= 1e-9 * fabs(expected));
}

static void only_whole_lines_with_positive_figures_count(void **state) {
    (void)state;
    peer_table table = {0};
    int count = 0;
    assert_false(feed(&table,
                      "noise\nrow a 8 us\nrow a 8 s 1\nrow a 8 us 0\nrow a 8 us -1\nrow a 8 us nan\nrow a 8 us inf\n"
                      "row a 8 us 1 2\nrow  8 us 1 x\nrowa 8 us 1\n",
                      2, PEER_OURS, 0));
    assert_int_equal(table.count, 0);
    assert_null(peer_table_merge(&table, &count));
    assert_true(feed(&table, "device D\nversion V 1\nrow a 8 us 1.5\ndone\n", 2, PEER_OURS, 0));
    assert_int_equal(table.count, 1);
    assert_string_equal(table.device, "D");
    assert_string_equal(table.version[PEER_OURS], "V 1");
    assert_string_equal(table.version[PEER_THEIRS], "");
    peer_table_free(&table);
}

/* Rounds 0 to 2, one of which has no figure of theirs: medians of what there is, ratios of the pairs. */
static void ratios_are_taken_within_a_round(void **state) {
    (void)state;
    peer_table table = {0};
    int count = 0;
    feed(&table, "row a 8 us 2\nrow b 16 MB/s 100\ndone\n", 2, PEER_OURS, 0);
    feed(&table, "row a 8 us 10\ndone\n", 2, PEER_THEIRS, 0);
    feed(&table, "row a 8 us 6\ndone\n", 2, PEER_OURS, 1);
    feed(&table, "row a 8 us 3\ndone\n", 2, PEER_OURS, 2);
    feed(&table, "row a 8 us 4\ndone\n", 2, PEER_THEIRS, 2);
    feed(&table, "row a 8 us 7\ndone\n", 4, PEER_THEIRS, 0);
    peer_row *rows = peer_table_merge(&table, &count);
    assert_int_equal(count, 3);
    const measure_result *a = peer_find(rows, count, "a", 8, 2);
    assert_non_null(a);
    assert_near(a->value[PEER_OURS].median, 3.0);
    assert_near(a->value[PEER_OURS].min, 2.0);
    assert_near(a->value[PEER_OURS].max, 6.0);
    assert_near(a->value[PEER_THEIRS].median, 7.0);
    assert_near(a->ratio[PEER_OURS].min, 0.2);
    assert_near(a->ratio[PEER_OURS].max, 0.75);
    assert_int_equal(a->repeats, 3);
    const measure_result *b = peer_find(rows, count, "b", 16, 2);
    assert_non_null(b);
    assert_int_equal(b->kind, MEASURE_BANDWIDTH);
    assert_true(isnan(b->value[PEER_THEIRS].median) && isnan(b->ratio[PEER_OURS].median));
    const measure_result *theirs = peer_find(rows, count, "a", 8, 4);
    assert_non_null(theirs);
    assert_true(isnan(theirs->value[PEER_OURS].median));
    assert_int_equal(rows[2].result.ranks, 4);
    assert_null(peer_find(rows, count, "a", 9, 2));
    free(rows);
    peer_table_free(&table);
}

static void the_row_in_which_a_run_ended_is_known(void **state) {
    (void)state;
    peer_table table = {0};
    assert_false(feed(&table, "at a 8\nrow a 8 us 1\nat b 8\n", 2, PEER_OURS, 0));
    assert_string_equal(table.at, "b");
    assert_false(feed(&table, "at a 8\nrow a 8 us 1\nat b 8\nmissing b 8: not here\n", 2, PEER_OURS, 0));
    assert_string_equal(table.at, "");
    assert_false(feed(&table, "", 2, PEER_OURS, 0));
    assert_string_equal(table.at, "");
    peer_table_free(&table);
}

static void reasons_are_named_once(void **state) {
    (void)state;
    peer_table table = {0};
    feed(&table, "missing a 8: not here\nmissing a 16: not here\nmissing b 8: not here\nmissing c\n", 2, PEER_OURS, 0);
    feed(&table, "missing a 8: not here\n", 2, PEER_OURS, 1);
    assert_int_equal(table.num_missing[PEER_OURS], 2);
    assert_string_equal(table.missing[PEER_OURS][0], "a, 2 ranks: not here");
    for (int i = 0; i < 100; i++)
        feed(&table, "missing a 8: not here\n", i + 3, PEER_OURS, 0);
    assert_int_equal(table.num_missing[PEER_OURS], PEER_MOST_MISSING);
    peer_table_free(&table);
}

/* The outcomes of all limits of a list, as numbers of each. */
static int check_all(const peer_table *table, bool apart, int seen[3]) {
    int count = 0;
    peer_row *rows = peer_table_merge(table, &count);
    memset(seen, 0, 3 * sizeof *seen);
    int limits = 0;
    for (int i = 0; i < peer_limit_count(); i++)
        if (peer_limit_is_apart(i) == apart) {
            seen[peer_limit_check(i, rows, count).outcome]++;
            limits++;
        }
    free(rows);
    return limits;
}

/* Just kept, and just broken, in the kinds of limits that look at NVSHMEM, at the driver's copy, or at nothing else. */
static void limits_are_held_against_the_figures(void **state) {
    (void)state;
    peer_table table = {0};
    int seen[3];
    for (int apart = 0; apart < 2; apart++) {
        const int limits = check_all(&table, apart != 0, seen);
        assert_true(limits > 10);
        assert_int_equal(seen[PEER_NO_FIGURE], limits);
    }
    feed(&table,
         "row copy 268435456 MB/s 2000000\nrow put-all 268435456 MB/s 1800000\nrow put-1 16777216 MB/s 47600\n"
         "row stream-barrier 0 us 3.2\nrow fetch-add 8 us 0.2\n",
         2, PEER_OURS, 0);
    feed(&table,
         "row put-all 268435456 MB/s 1440000\nrow put-1 16777216 MB/s 28000\nrow stream-barrier 0 us 5\n"
         "row fetch-add 8 us 0.2\n",
         2, PEER_THEIRS, 0);
    check_all(&table, false, seen);
    assert_int_equal(seen[PEER_KEPT], 6);
    assert_int_equal(seen[PEER_BROKEN], 0);
    peer_table_free(&table);
    feed(&table,
         "row copy 268435456 MB/s 2000000\nrow put-all 268435456 MB/s 1790000\nrow put-1 16777216 MB/s 47500\n"
         "row stream-barrier 0 us 3.3\nrow fetch-add 8 us 0.21\n",
         2, PEER_OURS, 0);
    feed(&table,
         "row put-all 268435456 MB/s 1440000\nrow put-1 16777216 MB/s 28000\nrow stream-barrier 0 us 5\n"
         "row fetch-add 8 us 0.2\n",
         2, PEER_THEIRS, 0);
    check_all(&table, false, seen);
    assert_int_equal(seen[PEER_KEPT], 0);
    assert_int_equal(seen[PEER_BROKEN], 6);
    peer_table_free(&table);
}

/* Both sides take the sizes of rows from the plan, and what is moved from the blocks. */
static void rows_of_ghosts_have_the_bytes_of_their_faces(void **state) {
    (void)state;
    int seen = 0;
    for (int i = 0; i < PLAN_ROWS; i++) {
        const plan_row *row = &plan_rows[i];
        if (row->halo == PLAN_NO_HALO)
            continue;
        assert_int_equal(shape_sent(&plan_halos[row->halo], 0), row->bytes);
        assert_int_equal(shape_sent(&plan_halos[row->halo], 1), row->bytes);
        seen |= 1 << row->halo;
    }
    assert_int_equal(seen, (1 << PLAN_HALOS) - 2);
}

/* What a rank sends to another is what that one expects, in the same places, however the ranks lie. */
static void ranges_of_sender_and_receiver_agree(void **state) {
    (void)state;
    static const halo_shape shapes[] = {{1, {4, 1, 1}, {0, 0, 0}, {5, 1, 1}, 2, 3, 4},
                                        {2, {2, 3, 1}, {1, 0, 0}, {7, 4, 1}, 1, 2, 12},
                                        {3, {2, 1, 1}, {1, 1, 1}, {6, 5, 4}, 2, 1, 8},
                                        {3, {1, 2, 3}, {0, 1, 1}, {3, 8, 5}, 3, 1, 1},
                                        {3, {3, 2, 2}, {1, 1, 0}, {4, 4, 4}, 1, 16, 16}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const halo_shape *s = &shapes[i];
        const int ranks = s->grid[0] * s->grid[1] * s->grid[2];
        for (int me = 0; me < ranks; me++) {
            halo_range sent[SHAPE_SIDES], got[SHAPE_SIDES];
            const int num_sent = shape_ranges(s, me, 1, sent);
            for (int k = 0; k < num_sent; k++) {
                const int num_got = shape_ranges(s, sent[k].peer, 0, got);
                int found = 0;
                for (int g = 0; g < num_got; g++)
                    found += got[g].peer == me && got[g].at == sent[k].at && got[g].bytes == sent[k].bytes;
                assert_int_equal(found, 1);
            }
        }
    }
}

static void exchanges_are_held_against_other_rows(void **state) {
    (void)state;
    static const char *const figures[] = {
        "row halo-3d 12582912 us 125\nrow halo-3d-copy 12582912 us 100\nrow halo-3d-mpi 12582912 us 1250\n"
        "row halo-x 4194304 us 30\nrow halo-z 4194304 us 10\n",
        "row halo-3d 12582912 us 126\nrow halo-3d-copy 12582912 us 100\nrow halo-3d-mpi 12582912 us 1250\n"
        "row halo-x 4194304 us 31\nrow halo-z 4194304 us 10\n"};
    for (int broken = 0; broken < 2; broken++) {
        peer_table table = {0};
        int seen[3];
        feed(&table, figures[broken], 2, PEER_OURS, 0);
        check_all(&table, false, seen);
        assert_int_equal(seen[PEER_KEPT], broken ? 0 : 3);
        assert_int_equal(seen[PEER_BROKEN], broken ? 3 : 0);
        check_all(&table, true, seen);
        assert_int_equal(seen[PEER_KEPT] + seen[PEER_BROKEN], 0);
        peer_table_free(&table);
    }
}

/* The same figures, and other promises. */
static void ranks_on_devices_of_their_own_have_other_limits(void **state) {
    (void)state;
    peer_table table = {0};
    int seen[3];
    feed(&table, "row stream-barrier 0 us 3.4\nrow get-1 16777216 MB/s 36000\n", 2, PEER_OURS, 0);
    feed(&table, "row stream-barrier 0 us 10\nrow get-1 16777216 MB/s 9000\n", 2, PEER_THEIRS, 0);
    check_all(&table, true, seen);
    assert_int_equal(seen[PEER_KEPT], 2);
    assert_int_equal(seen[PEER_BROKEN], 0);
    feed(&table,
         "row stream-put 8 us 2.29\nrow peer-copy 8 us 2\nrow stream-put 65536 us 3.31\nrow peer-copy 65536 us 3\n"
         "row stream-put 1048576 us 5.5\nrow peer-copy 1048576 us 5\nrow put-all 16777216 MB/s 300\n"
         "row put-all-many 16777216 MB/s 400\nrow peer-copy-bw 16777216 MB/s 430\nrow both-put 16777216 MB/s 300\n"
         "row both-copy 16777216 MB/s 430\n",
         2, PEER_OURS, 0);
    check_all(&table, true, seen);
    assert_int_equal(seen[PEER_KEPT], 5); /* 2 before, 0.3 us more, 10 % more, and the better of two */
    assert_int_equal(seen[PEER_BROKEN], 2);
    check_all(&table, false, seen);
    assert_int_equal(seen[PEER_KEPT], 1); /* 0.65 x, but not 3.2 us */
    assert_int_equal(seen[PEER_BROKEN], 1);
    peer_table_free(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_whole_lines_with_positive_figures_count),
        cmocka_unit_test(ratios_are_taken_within_a_round),
        cmocka_unit_test(the_row_in_which_a_run_ended_is_known),
        cmocka_unit_test(reasons_are_named_once),
        cmocka_unit_test(limits_are_held_against_the_figures),
        cmocka_unit_test(rows_of_ghosts_have_the_bytes_of_their_faces),
        cmocka_unit_test(ranges_of_sender_and_receiver_agree),
        cmocka_unit_test(exchanges_are_held_against_other_rows),
        cmocka_unit_test(ranks_on_devices_of_their_own_have_other_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
