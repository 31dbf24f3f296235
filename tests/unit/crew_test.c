/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Who may help a rank with its pages: processors that the launcher may use and no rank is bound to, near to the rank,
 * shared out so that there are never more threads than processors; nobody where nothing looks like a launcher's
 * binding. On made-up machines, and in a child that is bound as a launcher would.
 */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/processors.h"
#include "memory/pages.h"
#include "unit/unit.h"
#include "window/crew.h"

/* ---- sets of processors */

static cpu_set_t range(size_t first, size_t count) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t cpu = first; cpu < first + count; cpu++) {
        CPU_SET(cpu, &set);
    }
    return set;
}

static cpu_set_t both(cpu_set_t a, cpu_set_t b) {
    cpu_set_t set;
    CPU_OR(&set, &a, &b);
    return set;
}

static int common(cpu_set_t a, cpu_set_t b) {
    cpu_set_t set;
    CPU_AND(&set, &a, &b);
    return CPU_COUNT(&set);
}

static void assert_set(cpu_set_t got, cpu_set_t wanted) {
    assert_true(CPU_EQUAL(&got, &wanted));
}

static cpu_set_t own_processors(void) {
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    return set;
}

static size_t first_of(cpu_set_t set) {
    size_t cpu = 0;
    while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &set)) {
        cpu++;
    }
    return cpu;
}

static void bind_to(cpu_set_t set) {
    assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* ---- made-up jobs: one machine, unless said otherwise */

enum { MOST_RANKS = 64 };
static pw_hello hellos[MOST_RANKS];

static peerwin_ctx job_of(int size, int rank) {
    memset(hellos, 0, sizeof(hellos));
    return (peerwin_ctx){.size = size, .rank = rank, .hellos = hellos};
}

static void bind_rank(int rank, cpu_set_t set) {
    memset(hellos[rank].cpus, 0, sizeof(hellos[rank].cpus));
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            hellos[rank].cpus[cpu / 8] = (uint8_t)(hellos[rank].cpus[cpu / 8] | 1U << cpu % 8);
        }
    }
}

static void bind_one_each(int size) {
    for (int rank = 0; rank < size; rank++) {
        bind_rank(rank, range((size_t)rank, 1));
    }
}

static pw_crew share(const peerwin_ctx *ctx, cpu_set_t job, cpu_set_t near) {
    return pw_crew_share(ctx, &job, &near);
}

static void what_no_rank_has_is_shared_out(void **state) {
    peerwin_ctx ctx = job_of(2, 1);
    (void)state;
    bind_one_each(2);
    pw_crew crew = share(&ctx, range(0, 16), range(0, CPU_SETSIZE));
    assert_int_equal(crew.helpers, 7);
    assert_set(crew.where, range(9, 7));
    ctx.rank = 0;
    assert_set(share(&ctx, range(0, 16), range(0, CPU_SETSIZE)).where, range(2, 7));
    assert_int_equal(share(&ctx, range(0, 2), range(0, CPU_SETSIZE)).helpers, 0);
    assert_int_equal(share(&ctx, range(0, 3), range(0, CPU_SETSIZE)).helpers, 0);
    assert_int_equal(share(&ctx, range(0, 4), range(0, CPU_SETSIZE)).helpers, 1);
}

static void a_launcher_that_is_confined_confines_helpers(void **state) {
    peerwin_ctx ctx = job_of(2, 0);
    (void)state;
    bind_one_each(2);
    pw_crew crew = share(&ctx, range(8, 4), range(0, 16));
    assert_int_equal(crew.helpers, 2);
    assert_set(crew.where, range(8, 2));
    assert_int_equal(share(&ctx, range(0, 1), range(0, 16)).helpers, 0);
}

static void near_processors_are_shared_by_those_who_are_near(void **state) {
    peerwin_ctx ctx = job_of(3, 0);
    (void)state;
    bind_rank(0, range(0, 1));
    bind_rank(1, range(8, 1));
    bind_rank(2, range(9, 1));
    pw_crew crew = share(&ctx, range(0, 16), range(0, 8));
    assert_int_equal(crew.helpers, 7);
    assert_set(crew.where, range(1, 7));
    ctx.rank = 1;
    crew = share(&ctx, range(0, 16), range(8, 8));
    assert_int_equal(crew.helpers, 3);
    assert_set(crew.where, range(10, 3));
    ctx.rank = 2;
    assert_set(share(&ctx, range(0, 16), range(8, 8)).where, range(13, 3));
}

static void ranks_of_other_machines_do_not_count(void **state) {
    peerwin_ctx ctx = job_of(4, 0);
    (void)state;
    bind_one_each(4);
    hellos[2].boot[0] = hellos[3].boot[0] = 1;
    pw_crew crew = share(&ctx, range(0, 8), range(0, 8));
    assert_int_equal(crew.helpers, 3);
    assert_set(crew.where, range(2, 3));
}

static unsigned dice;

static size_t roll(size_t below) {
    dice = dice * 1664525U + 1013904223U;
    return (dice >> 16) % below;
}

/* Nodes of four processors, ranks of one to three in a row, anywhere. */
static void there_are_never_more_threads_than_processors(void **state) {
    (void)state;
    dice = 7;
    for (int round = 0; round < 300; round++) {
        enum { PROCESSORS = 64, NODE = 4 };
        cpu_set_t ranks[MOST_RANKS];
        cpu_set_t taken = range(0, 0);
        int size = 0;
        for (size_t cpu = roll(8); cpu + 3 <= PROCESSORS && size < MOST_RANKS; cpu += roll(9)) {
            size_t count = 1 + roll(3);
            ranks[size] = range(cpu, count);
            taken = both(taken, ranks[size++]);
            cpu += count;
        }
        peerwin_ctx ctx = job_of(size, 0);
        for (int rank = 0; rank < size; rank++) {
            bind_rank(rank, ranks[rank]);
        }
        cpu_set_t job = range(0, roll(PROCESSORS + 1));
        int threads = CPU_COUNT(&taken);
        cpu_set_t given = taken;
        for (int rank = 0; rank < size; rank++) {
            cpu_set_t near = range(0, 0);
            for (size_t node = 0; node < PROCESSORS; node += NODE) {
                if (common(range(node, NODE), ranks[rank]) > 0) {
                    near = both(near, range(node, NODE));
                }
            }
            ctx.rank = rank;
            pw_crew crew = share(&ctx, job, near);
            assert_int_equal(common(crew.where, taken), 0);
            assert_int_equal(common(crew.where, job), CPU_COUNT(&crew.where));
            assert_int_equal(crew.helpers, CPU_COUNT(&crew.where));
            threads += crew.helpers;
            crew = share(&ctx, job, range(0, PROCESSORS)); /* one node */
            assert_int_equal(crew.helpers, CPU_COUNT(&crew.where));
            assert_int_equal(common(crew.where, given), 0);
            given = both(given, crew.where);
        }
        assert_true(threads <= PROCESSORS);
    }
}

/* ---- made-up nodes */

static char folder[64];

static void make_node(const char *name, const char *list) {
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
    if (list == NULL) {
        return;
    }
    snprintf(path, sizeof(path), "%s/%s/cpulist", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(list, file);
    fclose(file);
}

static int make_nodes(void **state) {
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/peerwin-nodes-XXXXXX");
    assert_non_null(mkdtemp(folder));
    make_node("node0", "0-3,8\n");
    make_node("node1", "4-7\n");
    make_node("node2", "\n");
    make_node("node3", NULL);
    make_node("node4", "none");
    make_node("node11", "20,22-21,1000-18446744073709551615\n");
    make_node("power", "9\n");
    return 0;
}

static int remove_nodes(void **state) {
    const char *names[] = {"node0", "node1", "node2", "node3", "node4", "node11", "power"};
    char path[128];
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s/cpulist", folder, names[i]);
        unlink(path);
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        rmdir(path);
    }
    return rmdir(folder);
}

static cpu_set_t near(const char *nodes, cpu_set_t own) {
    cpu_set_t set;
    pw_processors_near(nodes, &own, &set);
    return set;
}

static void near_is_what_the_own_nodes_have(void **state) {
    cpu_set_t last = both(range(20, 1), range(1000, CPU_SETSIZE - 1000));
    (void)state;
    assert_set(near(folder, range(1, 1)), both(range(0, 4), range(8, 1)));
    assert_set(near(folder, range(5, 2)), range(4, 4));
    assert_set(near(folder, range(3, 2)), range(0, 9));
    assert_set(near(folder, range(1001, 1)), last);
}

static void where_no_node_is_known_all_is_near(void **state) {
    (void)state;
    assert_set(near(folder, range(9, 1)), range(0, CPU_SETSIZE));
    assert_set(near("/nowhere", range(0, 1)), range(0, CPU_SETSIZE));
}

/* ---- a child that is bound */

/* Runs `look` in a child, or in a child's child, bound to the first processor. Skips where there is only one. */
static void in_bound_child(void (*look)(cpu_set_t all, cpu_set_t one), int depth) {
    cpu_set_t all = own_processors();
    cpu_set_t one = range(first_of(all), 1);
    int result = 0;
    if (CPU_COUNT(&all) < 2) {
        skip();
    }
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bind_to(one);
        for (int i = 1; i < depth; i++) { /* wrappers that stay */
            child = fork();
            if (child > 0) {
                _exit(waitpid(child, &result, 0) == child && result == 0 ? 0 : 1);
            }
        }
        look(all, one);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

#define CHILD_CHECK(holds) ((holds) ? (void)0 : (fprintf(stderr, "line %d: %s\n", __LINE__, #holds), _exit(1)))

static void find_launcher(cpu_set_t all, cpu_set_t one) {
    cpu_set_t set;
    CHILD_CHECK(pw_processors_of_launcher(&one, &set) == 1 && CPU_EQUAL(&set, &all));
    cpu_set_t everything = range(0, CPU_SETSIZE);
    CHILD_CHECK(pw_processors_of_launcher(&everything, &set) == 0);
}

static void a_launcher_is_who_may_run_elsewhere(void **state) {
    (void)state;
    in_bound_child(find_launcher, 1);
    in_bound_child(find_launcher, 4);
}

/* The other rank is on another machine, so there is a processor for this one even on a small one. */
static void settle(cpu_set_t all, cpu_set_t one) {
    peerwin_ctx ctx = job_of(2, 0);
    bind_rank(0, one);
    bind_rank(1, one);
    hellos[1].boot[0] = 1;
    cpu_set_t before = own_processors();
    pw_crew_settle(&ctx, 2);
    cpu_set_t after = own_processors();
    CHILD_CHECK(CPU_EQUAL(&before, &after) && CPU_EQUAL(&before, &one));
    pw_crew wanted = share(&ctx, all, near(PW_NODES, one));
    CHILD_CHECK(ctx.crew.helpers == wanted.helpers && CPU_EQUAL(&ctx.crew.where, &wanted.where));
    CHILD_CHECK(common(ctx.crew.where, one) == 0 && common(ctx.crew.where, all) == CPU_COUNT(&ctx.crew.where));

    hellos[1].boot[0] = 0; /* on this machine, bound to the same: nothing that a launcher does */
    pw_crew_settle(&ctx, 2);
    CHILD_CHECK(ctx.crew.helpers == 0);
    bind_rank(1, range(0, 0)); /* nothing is known of it */
    pw_crew_settle(&ctx, 2);
    CHILD_CHECK(ctx.crew.helpers == 0);
    hellos[1].boot[0] = 1; /* as at first, but not all ranks are in the context */
    bind_rank(1, one);
    pw_crew_settle(&ctx, 3);
    CHILD_CHECK(ctx.crew.helpers == 0);
    ctx.size = 1; /* confined by hand */
    pw_crew_settle(&ctx, 1);
    CHILD_CHECK(ctx.crew.helpers == 0);
    ctx.size = 2; /* with processors enough of its own */
    bind_rank(0, range(CPU_SETSIZE / 2, PW_PAGES_THREADS));
    hellos[1].boot[0] = 1;
    pw_crew_settle(&ctx, 2);
    CHILD_CHECK(ctx.crew.helpers == 0);
}

static void only_what_looks_like_a_launchers_binding_is_one(void **state) {
    (void)state;
    in_bound_child(settle, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_rank_has_is_shared_out),
        cmocka_unit_test(a_launcher_that_is_confined_confines_helpers),
        cmocka_unit_test(near_processors_are_shared_by_those_who_are_near),
        cmocka_unit_test(ranks_of_other_machines_do_not_count),
        cmocka_unit_test(there_are_never_more_threads_than_processors),
        cmocka_unit_test_setup_teardown(near_is_what_the_own_nodes_have, make_nodes, remove_nodes),
        cmocka_unit_test_setup_teardown(where_no_node_is_known_all_is_near, make_nodes, remove_nodes),
        cmocka_unit_test(a_launcher_is_who_may_run_elsewhere),
        cmocka_unit_test(only_what_looks_like_a_launchers_binding_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
