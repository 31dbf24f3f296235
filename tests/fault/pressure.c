/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What users and machines do to a library without meaning harm: ranks in different calls, limits on everything, signals
 * all the time, more of everything than anybody needs. No call hangs, no process dies, all ranks hear the same, and
 * what was there before works after.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "support/leaks.h"
#include "support/memory.h"

static void check_ring(peerwin_win *win) {
    int right = (job.rank + 1) % job.size;
    int left = (job.rank + job.size - 1) % job.size;
    uint64_t value = (uint64_t)job.rank;
    uint64_t got = 0;
    CHECK_OK(peerwin_put_signal(win, right, 0, &value, sizeof(value), 0, PEERWIN_SIGNAL_ADD, 1, NULL));
    CHECK_OK(peerwin_consume(win, 0, 1, NULL));
    segment_load(win, 0, &got, sizeof(got));
    CHECK_EQUAL(got, left);
}

static void check_works(peerwin_ctx *ctx) {
    peerwin_win *win = test_window(ctx, 4096);
    check_ring(win);
    CHECK_OK(peerwin_barrier(ctx, NULL));
    CHECK_OK(peerwin_win_free(win));
}

/* ---------------------------------------------------------------------------------- ranks in different calls */

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *first;
    peerwin_win *second;
} set;

typedef peerwin_status (*collective)(set *s);

static peerwin_status call_alloc(set *s) {
    peerwin_win *win = NULL;
    peerwin_status status = peerwin_win_alloc(s->ctx, 64, NULL, &win);
    CHECK(win == NULL);
    return status;
}

static peerwin_status call_bad_alloc(set *s) {
    return peerwin_win_alloc(s->ctx, 64, NULL, NULL);
}

static peerwin_status call_attach(set *s) {
    peerwin_win *win = NULL;
    return peerwin_win_attach(s->ctx, s, sizeof(*s), NULL, &win);
}

static peerwin_status call_free_first(set *s) {
    return peerwin_win_free(s->first);
}

static peerwin_status call_free_second(set *s) {
    return peerwin_win_free(s->second);
}

static peerwin_status call_finalize(set *s) {
    return peerwin_finalize(s->ctx);
}

static const collective calls[] = {call_alloc,      call_bad_alloc,   call_attach,
                                   call_free_first, call_free_second, call_finalize};
enum { CALLS = sizeof(calls) / sizeof(calls[0]), BAD = 1 };

/* Every pair of different calls, one by rank 0 or the last rank, the other by all the others. */
static void ranks_in_different_calls_are_told_so_and_go_on(void) {
    set s;
    s.ctx = test_context(MPI_COMM_WORLD, 10000);
    s.first = test_window(s.ctx, 4096);
    s.second = test_window(s.ctx, 8192);
    for (int one = 0; one < CALLS; one++) {
        for (int other = 0; other < CALLS; other++) {
            int odd_one_out = (one + other) % 2 == 0 ? 0 : job.size - 1;
            if (one == other || one + other == BAD) { /* both of these are alloc */
                continue;
            }
            CHECK_STATUS_ALL(calls[job.rank == odd_one_out ? one : other](&s), PEERWIN_ERR_MISMATCH,
                             "different collective calls");
            CHECK_OK(peerwin_check(s.ctx));
            check_ring(s.first);
            check_ring(s.second);
            CHECK_OK(peerwin_barrier(s.ctx, NULL));
        }
    }
    CHECK_OK(peerwin_win_free(s.first));
    test_free(s.ctx, s.second);
}

/* A barrier is not agreed on: who waits there is released when the others' call times out. */
static void a_rank_in_a_barrier_and_others_in_alloc_all_return(void) {
    set s;
    s.ctx = test_context(MPI_COMM_WORLD, 300);
    s.first = test_window(s.ctx, 64);
    double start = test_seconds();
    peerwin_status status = job.rank == 0 ? peerwin_barrier(s.ctx, NULL) : call_alloc(&s);
    CHECK(status == PEERWIN_ERR_TIMEOUT || status == PEERWIN_ERR_ABORTED);
    CHECK(test_seconds() - start < 2);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_STATUS(peerwin_check(s.ctx), PEERWIN_ERR_ABORTED, "timed out");
    test_free(s.ctx, s.first);
}

/* ----------------------------------------------------------------------------------------------------- limits */

static void limit(int resource, rlim_t bytes) {
    struct rlimit now;
    CHECK(getrlimit((__rlimit_resource_t)resource, &now) == 0);
    now.rlim_cur = bytes < now.rlim_max ? bytes : now.rlim_max;
    CHECK(setrlimit((__rlimit_resource_t)resource, &now) == 0);
}

static rlim_t limit_of(int resource) {
    struct rlimit now;
    CHECK(getrlimit((__rlimit_resource_t)resource, &now) == 0);
    return now.rlim_cur;
}

/* Alloc and init with a limit on the last rank; returns how often they worked. */
static int try_under(int resource, rlim_t bytes, size_t window) {
    rlim_t normal = limit_of(resource);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 10000);
    peerwin_ctx *late = NULL;
    peerwin_win *win = NULL;
    if (job.rank == job.size - 1) {
        limit(resource, bytes);
    }
    peerwin_status status = peerwin_win_alloc(ctx, window, NULL, &win);
    peerwin_status init_status = peerwin_init(MPI_COMM_WORLD, NULL, &late);
    limit(resource, normal);
    int worked = (status == PEERWIN_OK) + (init_status == PEERWIN_OK);
    test_check_same(__FILE__, __LINE__, "peerwin_win_alloc", status);
    test_check_same(__FILE__, __LINE__, "peerwin_init", init_status);
    CHECK(status == PEERWIN_OK || status == PEERWIN_ERR_NO_MEMORY);
    CHECK(init_status == PEERWIN_OK || init_status == PEERWIN_ERR_NO_MEMORY);
    CHECK((win != NULL) == (status == PEERWIN_OK) && (late != NULL) == (init_status == PEERWIN_OK));
    check_works(ctx);
    CHECK_OK(peerwin_win_free(win));
    CHECK_OK(peerwin_finalize(late));
    CHECK_OK(peerwin_finalize(ctx));
    return worked;
}

static void limits_of_one_rank_are_everyones_status(void) {
    if (test_agree_skip(TEST_SANITIZED, "sanitizers need the address space")) {
        return;
    }
    for (rlim_t bytes = 0; bytes < (rlim_t)512 << 20; bytes = bytes * 16 + 4096) {
        try_under(RLIMIT_FSIZE, bytes, (size_t)4 << 20);
        try_under(RLIMIT_AS, leaks_address_space_bytes() + bytes, (size_t)4 << 20);
    }
    CHECK_EQUAL(try_under(RLIMIT_MEMLOCK, 0, (size_t)4 << 20), 2);
    CHECK_EQUAL(try_under(RLIMIT_FSIZE, 0, (size_t)4 << 20), 0);
}

/* ---------------------------------------------------------------------------------------------------- signals */

static volatile sig_atomic_t ticks;

static void on_tick(int number) {
    (void)number;
    ticks++;
}

static void tick_every(int microseconds) {
    struct sigaction action = {.sa_handler = microseconds > 0 ? on_tick : SIG_DFL}; /* no SA_RESTART */
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    if (microseconds > 0) {
        CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    }
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    if (microseconds == 0) {
        CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    }
}

static void signals_every_millisecond_hold_nothing_up(void) {
    enum { ROUNDS = 20 };
    size_t large = (size_t)(TEST_SANITIZED ? 64 : 512) << 20;
    ticks = 0;
    double start = test_seconds();
    tick_every(1000);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 30000);
    peerwin_win *win = test_window(ctx, job.rank == 0 ? large : 0);
    CHECK_OK(peerwin_win_free(win));
    for (int round = 0; round < ROUNDS; round++) {
        check_works(ctx);
    }
    CHECK_OK(peerwin_finalize(ctx));
    tick_every(0);
    double seconds = test_seconds() - start;
    CHECK(ticks > 0);
    if (job.rank == 0) {
        printf("   %d signals in %.2f s\n", (int)ticks, seconds);
    }
}

/* ---------------------------------------------------------------------------------------------- wild arguments */

enum { SEGMENT = 4096, MOST_STRIDE = 64, SOURCE = 2 * SEGMENT * (MOST_STRIDE + 1) };

/* Small numbers, and those at which sums and products overflow. */
static size_t wild(uint64_t *seed) {
    static const size_t large[] = {SIZE_MAX,        SIZE_MAX - 1, SIZE_MAX / 2,    SIZE_MAX / 2 + 1,
                                   (size_t)1 << 63, 1u << 31,     (size_t)1 << 32, (size_t)1 << 48};
    size_t kind = test_random_in(seed, 0, 3);
    if (kind == 0) {
        return large[test_random_in(seed, 0, sizeof(large) / sizeof(large[0]) - 1)] - test_random_in(seed, 0, 1);
    }
    return kind == 1 ? test_random_in(seed, 0, 4) : test_random_in(seed, 0, SEGMENT + 1);
}

/* What the caller's own memory is read or written by must be true: only the window's side is wild. */
static void wild_box(uint64_t *seed, peerwin_box *far, peerwin_box *near) {
    *far = (peerwin_box){wild(seed), {wild(seed), wild(seed), wild(seed)}, {wild(seed), wild(seed)}};
    *near = (peerwin_box){0, {far->count[0], far->count[1], far->count[2]}, {0, 0}};
    near->stride[0] = test_random_in(seed, 0, MOST_STRIDE);
    near->stride[1] = test_random_in(seed, 0, MOST_STRIDE);
}

/* A box that is read may repeat its rows without end, so its counts tell how much the caller's memory must hold. */
static int fits_memory(const peerwin_box *near) {
    return near->count[0] <= SEGMENT && near->count[1] <= SEGMENT && near->count[2] <= SEGMENT;
}

static int is_refusal(peerwin_status status) {
    return status == PEERWIN_OK || status == PEERWIN_ERR_ARG || status == PEERWIN_ERR_RANGE;
}

static void wild_arguments_are_refused_or_right(void) {
    enum { ROUNDS = 100000 };
    uint64_t seed = (uint64_t)job.rank + 1;
    long accepted = 0;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, SEGMENT);
    char *memory = host_new(SOURCE);
    memset(memory, 0, SOURCE);
    for (int round = 0; round < ROUNDS; round++) {
        peerwin_box far;
        peerwin_box near;
        int rank = (int)test_random_in(&seed, 0, (size_t)job.size + 1) - 1;
        unsigned slot = (unsigned)wild(&seed) | 64; /* never one that exists */
        size_t offset = wild(&seed);
        size_t bytes = wild(&seed);
        wild_box(&seed, &far, &near);
        peerwin_status status[] = {
            peerwin_put(win, rank, offset, memory, bytes, NULL),
            peerwin_get(win, rank, offset, memory, bytes, NULL),
            peerwin_put_box(win, rank, &far, memory, &near, NULL),
            fits_memory(&near) ? peerwin_get_box(win, rank, &far, memory, &near, NULL) : PEERWIN_ERR_ARG,
            peerwin_put_signal(win, rank, offset, memory, bytes, slot, PEERWIN_SIGNAL_ADD, 1, NULL),
            peerwin_wait(win, slot, 0, NULL),
        };
        for (size_t i = 0; i < sizeof(status) / sizeof(status[0]); i++) {
            CHECK(is_refusal(status[i]));
            accepted += status[i] == PEERWIN_OK;
        }
        CHECK(rank >= 0 && rank < job.size ? 1 : status[0] != PEERWIN_OK || rank == MPI_PROC_NULL);
        CHECK(status[5] == PEERWIN_ERR_ARG);
    }
    CHECK(accepted > ROUNDS / 10);
    free(memory);
    CHECK_OK(peerwin_barrier(ctx, NULL));
    check_ring(win);
    test_free(ctx, win);
}

/* ------------------------------------------------------------------------------------------ more of everything */

static void many_contexts_live_at_once(void) {
    enum { COUNT = 100 };
    static peerwin_ctx *ctx[COUNT];
    static peerwin_win *win[COUNT];
    for (int i = 0; i < COUNT; i++) {
        ctx[i] = test_context(MPI_COMM_WORLD, 0);
        win[i] = test_window(ctx[i], 64);
    }
    for (int i = 0; i < COUNT; i++) {
        check_ring(win[i]);
        CHECK_OK(peerwin_barrier(ctx[COUNT - 1 - i], NULL));
    }
    for (int i = 0; i < COUNT; i++) {
        int next = (i * 37 + 11) % COUNT;
        test_free(ctx[next], win[next]);
    }
}

static void windows_with_all_the_signals_end_in_no_memory(void) {
    enum { MOST = 4096 };
    static peerwin_win *win[MOST];
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win_config config;
    peerwin_status status = PEERWIN_OK;
    int made = 0;
    peerwin_win_config_init(&config);
    config.num_signals = 65536;
    while (made < MOST && status == PEERWIN_OK) {
        status = peerwin_win_alloc(ctx, 0, &config, &win[made]);
        made += status == PEERWIN_OK;
    }
    CHECK_STATUS_ALL(status, PEERWIN_ERR_NO_MEMORY, "signals", "rank");
    CHECK(made > 1);
    CHECK_OK(peerwin_signal(win[made - 1], 0, 65535, PEERWIN_SIGNAL_ADD, 1, NULL));
    CHECK_OK(peerwin_barrier(ctx, NULL));
    CHECK_OK(peerwin_win_free(win[made / 2])); /* makes room for one */
    CHECK_OK(peerwin_win_alloc(ctx, 0, &config, &win[made / 2]));
    if (job.rank == 0) {
        printf("   %d windows with %u signals\n", made, config.num_signals);
    }
    for (int i = 0; i < made; i++) {
        CHECK_OK(peerwin_win_free(win[i]));
    }
    CHECK_OK(peerwin_finalize(ctx));
}

static void a_name_may_be_long_and_strange(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win_config config;
    peerwin_win *win[3] = {NULL};
    char name[1001];
    peerwin_win_config_init(&config);
    memset(name, '%', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    config.name = name;
    CHECK_OK(peerwin_win_alloc(ctx, 64, &config, &win[0]));
    config.name = "%s%n\n\x1b[31m\xff";
    CHECK_OK(peerwin_win_alloc(ctx, 64, &config, &win[1]));
    config.name = "";
    CHECK_OK(peerwin_win_alloc(ctx, 64, &config, &win[2]));
    check_ring(win[0]);
    CHECK_OK(peerwin_barrier(ctx, NULL));
    test_env("PEERWIN_LOG", "warn");
    CHECK_OK(peerwin_finalize(ctx)); /* names what it frees */
    test_env("PEERWIN_LOG", NULL);
}

static void neighbours_may_be_listed_twice_and_include_the_rank_itself(void) {
    enum { MOST = 64 };
    int list[MOST];
    int right = (job.rank + 1) % job.size;
    int left = (job.rank + job.size - 1) % job.size;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = NULL;
    peerwin_win_config config;
    peerwin_win_config_init(&config);
    for (int i = 0; i < MOST; i++) {
        list[i] = i % 3 == 0 ? job.rank : i % 3 == 1 ? right : left;
    }
    config.neighbors = list;
    config.num_neighbors = MOST;
    CHECK_OK(peerwin_win_alloc(ctx, 4096, &config, &win));
    check_ring(win);
    CHECK_OK(peerwin_barrier(ctx, NULL));
    CHECK_OK(peerwin_win_free(win));
    CHECK_OK(peerwin_finalize(ctx));
}

static const test_case cases[] = {
    TEST_CASE(ranks_in_different_calls_are_told_so_and_go_on, 2, 0),
    TEST_CASE(a_rank_in_a_barrier_and_others_in_alloc_all_return, 2, 0),
    TEST_CASE(limits_of_one_rank_are_everyones_status, 1, 0),
    TEST_CASE(signals_every_millisecond_hold_nothing_up, 1, 0),
    TEST_CASE(wild_arguments_are_refused_or_right, 1, 0),
    TEST_CASE(many_contexts_live_at_once, 1, 0),
    TEST_CASE(windows_with_all_the_signals_end_in_no_memory, 1, 0),
    TEST_CASE(a_name_may_be_long_and_strange, 1, 0),
    TEST_CASE(neighbours_may_be_listed_twice_and_include_the_rank_itself, 1, 0),
};
TEST_MAIN(cases)
