/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Processors of ranks: lists name processors that this process may use, each for one rank, and a rank takes its own
 * list and no other. The machine is the one that the test runs on, however few cores it has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "peer_place.h"
#include "peers_place.h"

enum { TEXT = 4096 };

static cpu_set_t allowed;

static int remember(void **state) {
    (void)state;
    return sched_getaffinity(0, sizeof allowed, &allowed);
}

static int restore(void **state) {
    (void)state;
    unsetenv("PEER_CPUS");
    unsetenv("OMPI_COMM_WORLD_LOCAL_RANK");
    return sched_setaffinity(0, sizeof allowed, &allowed);
}

/* How many ranks have a list; fails if a processor is in two places, or not allowed. */
static int ranks_in(const char *text) {
    int ranks = text[0] != '\0';
    cpu_set_t seen;
    CPU_ZERO(&seen);
    while (*text != '\0') {
        char *end = NULL;
        const size_t cpu = strtoul(text, &end, 10);
        assert_true(end > text && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed) && !CPU_ISSET(cpu, &seen));
        CPU_SET(cpu, &seen);
        ranks += *end == ';';
        text = *end != '\0' ? end + 1 : end;
    }
    return ranks;
}

static void no_processor_is_given_twice(void **state) {
    (void)state;
    static const options_place ways[] = {PLACE_CORE, PLACE_SPREAD};
    char text[TEXT];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        peers_place(ways[i], 1, 1, text, sizeof text);
        assert_int_equal(ranks_in(text), 1); /* there is a core for one rank anywhere */
        for (int ranks = 2; ranks <= 64; ranks *= 2) {
            peers_place(ways[i], ranks, 2, text, sizeof text);
            const int got = ranks_in(text);
            assert_true(got == ranks || (got == 0 && CPU_COUNT(&allowed) < 2 * 8 * ranks));
        }
    }
}

static void without_enough_cores_ranks_stay_where_they_are(void **state) {
    (void)state;
    char text[TEXT] = "old";
    peers_place(PLACE_SPREAD, CPU_COUNT(&allowed) + 1, 1, text, sizeof text);
    assert_string_equal(text, "");
    peers_place(PLACE_CORE, CPU_COUNT(&allowed) + 1, 1, text, sizeof text);
    assert_string_equal(text, "");
    peers_place(PLACE_NONE, 1, 1, text, sizeof text);
    assert_string_equal(text, "");
}

static size_t first_allowed(void) {
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &allowed))
        cpu++;
    return cpu;
}

static void a_rank_takes_its_own_list(void **state) {
    (void)state;
    const size_t cpu = first_allowed();
    char lists[64], text[PLACE_OF_A_RANK], expected[PLACE_OF_A_RANK];
    snprintf(lists, sizeof lists, "1023;%zu;1022", cpu); /* the others' do not exist, and would be refused */
    snprintf(expected, sizeof expected, "%zu", cpu);
    setenv("PEER_CPUS", lists, 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
    place_take();
    place_of_rank(text, sizeof text);
    assert_string_equal(text, expected);
}

static void a_rank_without_a_list_stays(void **state) {
    (void)state;
    cpu_set_t now;
    char lists[32];
    snprintf(lists, sizeof lists, "%zu", first_allowed());
    setenv("PEER_CPUS", lists, 1);
    place_take(); /* no number */
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
    place_take(); /* one list only */
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_true(CPU_EQUAL(&now, &allowed));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_processor_is_given_twice, remember, restore),
        cmocka_unit_test_setup_teardown(without_enough_cores_ranks_stay_where_they_are, remember, restore),
        cmocka_unit_test_setup_teardown(a_rank_takes_its_own_list, remember, restore),
        cmocka_unit_test_setup_teardown(a_rank_without_a_list_stays, remember, restore),
    };
    unsetenv("MPI_LOCALRANKID");
    unsetenv("SLURM_LOCALID");
    unsetenv("PMI_RANK");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
