/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * heat's input decks: what good ones mean, and what is said of bad ones.
 */
#include "heat/deck.h"
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

static bool read_bytes(const char *text, size_t bytes, struct deck *deck, char problem[400]) {
    FILE *file = fmemopen((void *)(uintptr_t)text, bytes, "r");
    assert_non_null(file);
    const bool fine = deck_read(file, "a.deck", deck, problem, 400);
    fclose(file);
    return fine;
}

static void assert_good(const char *text, struct deck *deck) {
    char problem[400];
    if (!read_bytes(text, strlen(text), deck, problem))
        fail_msg("%s", problem);
}

static void assert_bad(const char *text, const char *message) {
    struct deck deck, before;
    char problem[400];
    memset(&deck, 1, sizeof(deck));
    before = deck;
    assert_false(read_bytes(text, strlen(text), &deck, problem));
    assert_string_equal(problem, message);
    assert_memory_equal(&deck, &before, sizeof(deck)); /* written on success only */
}

static void an_empty_deck_is_the_benchmark(void **state) {
    struct deck deck;
    (void)state;
    assert_good("# nothing but words\n\n   \t \n", &deck);
    assert_true(deck_is_benchmark(&deck));
    assert_int_equal(deck.n, 250);
    assert_int_equal(deck.steps, 10);
}

static void a_deck_says_all_there_is_to_say(void **state) {
    struct deck deck;
    (void)state;
    assert_good("cells 7\r\nsteps 3\nside 2.5 # metres\ntime-step 1e-2\nbackground density 3 energy 0\n"
                "region x -1 1 y 0 2 density 5 energy 6\nregion  x 0 1  y 0 1  density 7 energy 8\n"
                "image a.png\noutput csv",
                &deck);
    assert_false(deck_is_benchmark(&deck));
    assert_int_equal(deck.n, 7);
    assert_int_equal(deck.steps, 3);
    assert_true(deck.side == 2.5 && deck.time_step == 0.01);
    assert_true(deck.background.density == 3 && deck.background.energy == 0);
    assert_int_equal(deck.num_regions, 2);
    assert_true(deck.regions[0].xmin == -1 && deck.regions[0].ymax == 2 && deck.regions[1].material.energy == 8);
    assert_string_equal(deck.image, "a.png");
    assert_true(deck.csv);
}

static void sizes_alone_leave_the_benchmark_what_it_is(void **state) {
    struct deck deck;
    (void)state;
    assert_good("cells 512\nsteps 20\noutput text\n", &deck);
    assert_true(deck_is_benchmark(&deck));
    assert_good("side 11\n", &deck);
    assert_false(deck_is_benchmark(&deck));
    assert_good("region x 0 1 y 1 2 density 0.1 energy 25\n", &deck);
    assert_int_equal(deck.num_regions, 1);
    assert_false(deck_is_benchmark(&deck));
}

static void mistakes_are_named_with_their_line(void **state) {
    (void)state;
    assert_bad("cells 5\ncels 6\n", "a.deck:2: 'cels' begins no statement: they are cells, steps, side, time-step, "
                                    "background, region, image, output");
    assert_bad("cells\n", "a.deck:1: something is missing: it is 'cells N'");
    assert_bad("\ncells 5 6\n", "a.deck:2: there is too much: it is 'cells N'");
    assert_bad("cells ten\n", "a.deck:1: 'ten' is not a number: it is 'cells N'");
    assert_bad("cells 1.5\n", "a.deck:1: cells 1.5: a whole number from 1 to 20000 is wanted");
    assert_bad("cells 0\n", "a.deck:1: cells 0: a whole number from 1 to 20000 is wanted");
    assert_bad("steps 1e7\n", "a.deck:1: steps 1e+07: a whole number from 1 to 1000000 is wanted");
    assert_bad("side -1\n", "a.deck:1: side -1: a number above 0 is wanted");
    assert_bad("time-step nan\n", "a.deck:1: 'nan' is not a number: it is 'time-step TIME'");
    assert_bad("cells 5\n# a word\ncells 6\n", "a.deck:3: 'cells' stands in line 1 already");
    assert_bad("output png\n", "a.deck:1: output png: it is text or csv");
}

static void regions_are_checked(void **state) {
    (void)state;
    assert_bad("region x 0 1 z 0 1 density 1 energy 1\n",
               "a.deck:1: 'z' stands where 'y' is wanted: it is 'region x MIN MAX y MIN MAX density D energy E'");
    assert_bad("region x 1 1 y 0 1 density 1 energy 1\n", "a.deck:1: x 1 1: the second number must be the larger one");
    assert_bad("region x 0 1 y 2 1 density 1 energy 1\n", "a.deck:1: y 2 1: the second number must be the larger one");
    assert_bad("region x 0 1 y 0 1 density 0 energy 1\n", "a.deck:1: density 0: a number above 0 is wanted");
    assert_bad("background density 1 energy -1\n", "a.deck:1: energy -1: a number from 0 on is wanted");
}

static void there_may_be_a_hundred_regions(void **state) {
    static const char line[] = "region x 0 1 y 0 1 density 1 energy 1\n";
    char text[101 * sizeof(line)] = "";
    struct deck deck;
    (void)state;
    for (size_t k = 0; k < MAX_REGIONS; k++)
        memcpy(text + k * strlen(line), line, sizeof(line));
    assert_good(text, &deck);
    assert_int_equal(deck.num_regions, MAX_REGIONS);
    memcpy(text + MAX_REGIONS * strlen(line), line, sizeof(line));
    assert_bad(text, "a.deck:101: a deck has at most 100 regions");
}

static void what_is_no_text_is_refused(void **state) {
    static const char zero[] = "cells 5\n\0\nsteps 3\n";
    static char longer[3000];
    struct deck deck;
    char problem[400];
    (void)state;
    assert_bad("cells 5\n\177ELF\n", "a.deck:2: this is no text");
    assert_false(read_bytes(zero, sizeof(zero) - 1, &deck, problem));
    assert_string_equal(problem, "a.deck:2: this is no text");
    memset(longer, 'a', sizeof(longer) - 1);
    assert_bad(longer, "a.deck:1: a line has at most 998 bytes");
    memset(longer, ' ', sizeof(longer) - 1);
    memcpy(longer, "image ", 6);
    memset(longer + 6, 'f', MAX_FILE_NAME + 1);
    longer[900] = '\0';
    assert_bad(longer, "a.deck:1: image: a file's name has at most 500 bytes");
}

static uint32_t next_random(uint32_t *seed, uint32_t below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* Any bytes: it ends, and says yes or no. */
static void noise_is_survived(void **state) {
    static const char *const pieces[] = {"region ", "x ", "1 ", "cells ", "\n", "#", "density ", "-1e999 ", "y ", "\t"};
    struct deck deck;
    char text[200], problem[400];
    uint32_t seed = 1;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        size_t used = 0;
        while (used < 120)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", pieces[next_random(&seed, 10)]);
        text[next_random(&seed, 120)] = (char)next_random(&seed, 256);
        assert_true(read_bytes(text, 120, &deck, problem) == (problem[0] == '\0'));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_deck_is_the_benchmark),
        cmocka_unit_test(a_deck_says_all_there_is_to_say),
        cmocka_unit_test(sizes_alone_leave_the_benchmark_what_it_is),
        cmocka_unit_test(mistakes_are_named_with_their_line),
        cmocka_unit_test(regions_are_checked),
        cmocka_unit_test(there_may_be_a_hundred_regions),
        cmocka_unit_test(what_is_no_text_is_refused),
        cmocka_unit_test(noise_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
