/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Few descriptors. The limit is set inside the ranks, after MPI_Init, because a launcher with so few could not start.
 * Whatever happens, it happens on every rank, it is called by its name, and nothing is lost.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "support/leaks.h"
#include "support/memory.h"

static void set_descriptor_limit(rlim_t limit) {
    struct rlimit now;
    CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0);
    now.rlim_cur = limit < now.rlim_max ? limit : now.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &now) == 0);
}

/* Counting takes a descriptor, and a driver may have taken the last. */
static size_t count_descriptors(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    rlim_t now = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    size_t count = leaks_open_descriptors();
    limit.rlim_cur = now;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    return count;
}

static rlim_t descriptor_limit(void) {
    struct rlimit now;
    CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0);
    return now.rlim_cur;
}

/* The only way to fail here: no descriptors, said so, and on every rank alike. */
static int is_ok_or_names_descriptors(const char *call, peerwin_status status) {
    test_check_same(__FILE__, __LINE__, call, status);
    if (status == PEERWIN_OK) {
        return 1;
    }
    CHECK_STATUS(status, PEERWIN_ERR_NO_MEMORY, "descriptor", "rank");
    return 0;
}

static void check_ring(peerwin_win *win, uint64_t round) {
    double value = job.rank * 1e6 + (double)round;
    int right = (job.rank + 1) % job.size;
    CHECK_OK(peerwin_put_signal(win, right, 0, &value, sizeof(value), 0, PEERWIN_SIGNAL_SET, round, job.stream));
    CHECK_OK(peerwin_wait(win, 0, round, job.stream));
    segment_load(win, 0, &value, sizeof(value));
    CHECK(value == (job.rank + job.size - 1) % job.size * 1e6 + (double)round);
}

/* Makes `count` windows that live at once, as far as it goes. */
static void check_windows(peerwin_ctx *ctx, int count) {
    peerwin_win *win[64] = {NULL};
    int made = 0;
    size_t descriptors = count_descriptors();
    while (made < count &&
           is_ok_or_names_descriptors("peerwin_win_alloc", peerwin_win_alloc(ctx, 4096, NULL, &win[made]))) {
        made++;
    }
    for (int i = 0; i < made; i++) {
        check_ring(win[i], (uint64_t)i + 1);
    }
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    for (int i = 0; i < made; i++) {
        CHECK_OK(peerwin_win_free(win[i]));
    }
    CHECK_EQUAL(count_descriptors(), descriptors);
    if (job.rank == 0) {
        printf("   %d of %d windows with %d descriptors\n", made, count, (int)descriptor_limit());
    }
}

static void check_under_limit(rlim_t limit, int windows) {
    rlim_t before = descriptor_limit();
    peerwin_config config;
    peerwin_ctx *ctx = NULL;
    peerwin_config_init(&config);
    config.space = job.space;
    set_descriptor_limit(limit);
    if (is_ok_or_names_descriptors("peerwin_init", peerwin_init(MPI_COMM_WORLD, &config, &ctx))) {
        check_windows(ctx, windows);
        CHECK_OK(peerwin_finalize(ctx));
    }
    set_descriptor_limit(before);
}

static void forty_windows_with_48_descriptors(void) {
    check_under_limit(48, 40);
}

static void twenty_windows_with_48_descriptors(void) {
    check_under_limit(48, 20);
}

/* Windows that are there already must not need descriptors to live. */
static void forty_windows_made_before_the_limit_do_not_stop_the_next(void) {
    peerwin_win *win[40];
    rlim_t before = descriptor_limit();
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    size_t descriptors = leaks_open_descriptors();
    for (int i = 0; i < 40; i++) {
        win[i] = test_window(ctx, 4096);
    }
    CHECK_EQUAL(leaks_open_descriptors(), descriptors);
    set_descriptor_limit((rlim_t)descriptors + 24);
    check_windows(ctx, 5);
    set_descriptor_limit(before);
    for (int i = 0; i < 40; i++) {
        CHECK_OK(peerwin_win_free(win[i]));
    }
    CHECK_OK(peerwin_finalize(ctx));
}

/* From "not one more" upwards, so that every acquisition fails in its turn: on all ranks, then on one rank only. */
static void the_limit_at_every_step_fails_alike_everywhere_and_leaks_nothing(void) {
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = job.space;
    config.timeout_ms = 20000;
    size_t descriptors = leaks_open_descriptors();
    for (int only = -1; only<job.size; only += job.size> 1 ? job.size - 1 : 2) {
        for (rlim_t spare = 0; spare < 16; spare++) {
            leaks_snapshot *before = leaks_take();
            double start = test_seconds();
            /* Counting needs a descriptor itself: the limit holds only inside. */
            rlim_t limit = only < 0 || only == job.rank ? (rlim_t)descriptors + spare : 4096;
            rlim_t normal = descriptor_limit();
            peerwin_ctx *ctx = NULL;
            peerwin_win *win = NULL;
            set_descriptor_limit(limit);
            int works = is_ok_or_names_descriptors("peerwin_init", peerwin_init(MPI_COMM_WORLD, &config, &ctx));
            if (works && is_ok_or_names_descriptors("peerwin_win_alloc", peerwin_win_alloc(ctx, 4096, NULL, &win))) {
                check_ring(win, 1);
            }
            if (works) {
                CHECK_OK(peerwin_win_free(win));
                CHECK_OK(peerwin_finalize(ctx));
            }
            set_descriptor_limit(normal);
            CHECK(test_seconds() - start < 5); /* nobody waits for one who has failed */
            leaks_check(before);
        }
    }
}

/* The same for a window alone, in a context that was made with plenty. */
static void the_limit_at_every_step_of_a_window_leaves_the_context_usable(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    size_t descriptors = leaks_open_descriptors();
    int made = 0;
    for (rlim_t spare = 0; spare < 8; spare++) {
        rlim_t normal = descriptor_limit();
        peerwin_win *win = NULL;
        int limited = spare % 2 == 0 || job.rank == job.size - 1;
        set_descriptor_limit(limited ? (rlim_t)descriptors + spare / 2 : 4096);
        if (is_ok_or_names_descriptors("peerwin_win_alloc", peerwin_win_alloc(ctx, 4096, NULL, &win))) {
            check_ring(win, spare + 1);
            made++;
        }
        CHECK_OK(peerwin_win_free(win));
        set_descriptor_limit(normal);
        CHECK_EQUAL(leaks_open_descriptors(), descriptors);
        CHECK_OK(peerwin_barrier(ctx, job.stream));
        CHECK_OK(peerwin_check(ctx));
    }
    CHECK(made > 0);
    test_free(ctx, test_window(ctx, 64));
}

static void a_thousand_cycles_with_48_descriptors_stay_flat(void) {
    rlim_t before = descriptor_limit();
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    size_t descriptors = leaks_open_descriptors();
    set_descriptor_limit(48);
    int made = 0;
    int cycles = test_rounds(1000, 100);
    for (int cycle = 0; cycle < cycles; cycle++) {
        peerwin_win *win = NULL;
        if (is_ok_or_names_descriptors("peerwin_win_alloc", peerwin_win_alloc(ctx, 4096, NULL, &win))) {
            made++;
        }
        CHECK_OK(peerwin_win_free(win));
    }
    CHECK(made == 0 || made == cycles);
    set_descriptor_limit(before);
    CHECK_EQUAL(leaks_open_descriptors(), descriptors);
    CHECK_OK(peerwin_finalize(ctx));
}

/* Address space: the mapping fails on one rank, in the middle of everything. */
static void no_address_space_on_one_rank_fails_alike_everywhere(void) {
    if (test_agree_skip(TEST_SANITIZED, "sanitizers need the address space")) {
        return;
    }
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    struct rlimit normal;
    struct rlimit tight;
    CHECK(getrlimit(RLIMIT_AS, &normal) == 0);
    tight = normal;
    tight.rlim_cur = leaks_address_space_bytes() + ((rlim_t)32 << 20);
    for (int round = 0; round < 3; round++) {
        peerwin_win *win = NULL;
        if (job.rank == job.size - 1) {
            CHECK(setrlimit(RLIMIT_AS, &tight) == 0);
        }
        CHECK_STATUS_ALL(peerwin_win_alloc(ctx, (size_t)96 << 20, NULL, &win), PEERWIN_ERR_NO_MEMORY, "rank");
        CHECK(win == NULL);
        CHECK(setrlimit(RLIMIT_AS, &normal) == 0);
        CHECK_OK(peerwin_barrier(ctx, job.stream));
    }
    test_free(ctx, test_window(ctx, 64));
}

static const test_case cases[] = {
    TEST_CASE(forty_windows_with_48_descriptors, 1, 0),
    TEST_CASE(twenty_windows_with_48_descriptors, 1, 0),
    TEST_CASE(forty_windows_made_before_the_limit_do_not_stop_the_next, 1, 0),
    TEST_CASE(the_limit_at_every_step_fails_alike_everywhere_and_leaks_nothing, 1, 0),
    TEST_CASE(the_limit_at_every_step_of_a_window_leaves_the_context_usable, 1, 0),
    TEST_CASE(a_thousand_cycles_with_48_descriptors_stay_flat, 1, 0),
    TEST_CASE(no_address_space_on_one_rank_fails_alike_everywhere, 1, 4),
};
TEST_MAIN(cases)
