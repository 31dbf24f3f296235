/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that is stopped (SIGSTOP) is not dead: the others' waits time out and name it, nothing is lost, and when it
 * runs again (SIGCONT) the repeated call goes on. In a collective call the time-out breaks the context on every rank,
 * and every rank can finalize it alone.
 *
 * The last rank stops itself; rank 0 wakes it after a time that is longer than every deadline here.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject.h"
#include "support/leaks.h"
#include "support/memory.h"

enum { TIMEOUT_MS = 800, INIT_MS = 1600 }; /* INIT_MS: the sleeper is to come to its place before it has passed */
#define SLACK 0.75                         /* seconds; less than a second deadline would take */

static int sleeper; /* the rank that is stopped */
static pid_t sleeper_pid;
static MPI_Comm awake = MPI_COMM_NULL; /* the others */

static void choose_sleeper(void) {
    int pid = (int)getpid();
    if (awake == MPI_COMM_NULL) {
        MPI_Comm_split(MPI_COMM_WORLD, job.rank == job.size - 1, job.rank, &awake);
    }
    sleeper = job.size - 1;
    MPI_Bcast(&pid, 1, MPI_INT, sleeper, MPI_COMM_WORLD);
    sleeper_pid = pid;
}

/* Is the sleeper stopped now? */
static int is_stopped(void) {
    char path[64];
    char state = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)sleeper_pid);
    FILE *file = fopen(path, "re");
    CHECK(file != NULL);
    CHECK_EQUAL(fscanf(file, "%*d %*[^)]) %c", &state), 1);
    fclose(file);
    return state == 'T';
}

static void await_stop(void) {
    double end = test_seconds() + 5;
    while (!is_stopped()) {
        CHECK(test_seconds() < end);
        test_sleep_ms(1);
    }
}

/* When all have seen it stopped. */
static void wake(void) {
    MPI_Barrier(awake);
    if (job.rank == 0) {
        CHECK(kill(sleeper_pid, SIGCONT) == 0);
    }
}

/* The text names the rank and says that it is stopped. */
static void check_timed_out(peerwin_status status, double start) {
    char rank[32];
    double took = test_seconds() - start;
    snprintf(rank, sizeof(rank), "rank %d", sleeper);
    CHECK_STATUS(status, PEERWIN_ERR_TIMEOUT, rank, "stopped");
    CHECK(took > TIMEOUT_MS * 1e-3 - 0.01);
    CHECK(took < TIMEOUT_MS * 1e-3 + SLACK);
}

/* Goes on with a wait until it ends; the sleeper needs a moment to wake up. */
#define CHECK_OK_AT_LAST(call)                                                                                         \
    do {                                                                                                               \
        peerwin_status last_ = PEERWIN_ERR_TIMEOUT;                                                                    \
        for (int tries_ = 0; tries_ < 20 && last_ == PEERWIN_ERR_TIMEOUT; tries_++) {                                  \
            last_ = (call);                                                                                            \
        }                                                                                                              \
        CHECK_OK(last_);                                                                                               \
    } while (0)

/* The deadline may strike once more here; then the context is broken, and ended by this rank alone. */
static void end_at_last(peerwin_ctx *ctx) {
    if (peerwin_finalize(ctx) != PEERWIN_OK) {
        CHECK_OK(peerwin_finalize(ctx));
    }
}

/* A context and a window with a deadline so short that set-up may miss it on a busy machine: then again. */
static peerwin_ctx *short_of_time(peerwin_win **win_out) {
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = job.space;
    config.timeout_ms = TIMEOUT_MS;
    for (int tries = 0; tries < 20; tries++) {
        peerwin_ctx *ctx = NULL;
        peerwin_win *win = NULL;
        int made = peerwin_init(MPI_COMM_WORLD, &config, &ctx) == PEERWIN_OK &&
                   peerwin_win_alloc(ctx, 4096, NULL, &win) == PEERWIN_OK;
        MPI_Allreduce(MPI_IN_PLACE, &made, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        if (made) {
            *win_out = win;
            return ctx;
        }
        end_at_last(ctx);
    }
    test_fail(__FILE__, __LINE__, "there is no context in %d ms, however often it is tried", TIMEOUT_MS);
}

/* ------------------------------------------------------------------------------------- waits that can be repeated */

static void barrier_times_out_and_goes_on(void) {
    peerwin_win *win = NULL;
    peerwin_ctx *ctx = short_of_time(&win);
    choose_sleeper();
    for (int round = 0; round < 2; round++) {
        double value = 10 * round + 7;
        if (job.rank == sleeper) {
            inject_stop();
            for (int to = 0; to < job.size; to++) {
                CHECK_OK(peerwin_put(win, to, 8, &value, sizeof(value), NULL));
            }
        } else {
            await_stop();
            double start = test_seconds();
            check_timed_out(peerwin_barrier(ctx, NULL), start);
            CHECK_OK(peerwin_check(ctx));
            start = test_seconds();
            check_timed_out(peerwin_barrier(ctx, NULL), start);
            wake();
        }
        CHECK_OK_AT_LAST(peerwin_barrier(ctx, NULL));
        segment_load(win, 8, &value, sizeof(value));
        CHECK(value == 10 * round + 7);
        CHECK_OK_AT_LAST(peerwin_barrier(ctx, NULL));
    }
    end_at_last(ctx);
}

static void wait_times_out_and_goes_on(void) {
    peerwin_win *win = NULL;
    peerwin_ctx *ctx = short_of_time(&win);
    double value = 42.5;
    choose_sleeper();
    if (job.rank == sleeper) {
        inject_stop();
        for (int to = 0; to < job.size - 1; to++) {
            CHECK_OK(peerwin_put_signal(win, to, 16, &value, sizeof(value), 2, PEERWIN_SIGNAL_ADD, 3, NULL));
        }
    } else {
        await_stop();
        double start = test_seconds();
        check_timed_out(peerwin_wait(win, 2, 3, NULL), start);
        start = test_seconds();
        check_timed_out(peerwin_consume(win, 2, 3, NULL), start);
        wake();
        CHECK_OK_AT_LAST(peerwin_consume(win, 2, 3, NULL));
        segment_load(win, 16, &value, sizeof(value));
        CHECK(value == 42.5);
        uint64_t left = 1;
        CHECK_OK(peerwin_signal_read(win, 2, &left));
        CHECK_EQUAL(left, 0);
    }
    CHECK_OK_AT_LAST(peerwin_barrier(ctx, NULL));
    end_at_last(ctx);
}

static void allreduce_times_out_and_goes_on_with_the_first_values(void) {
    peerwin_win *win = NULL;
    peerwin_ctx *ctx = short_of_time(&win);
    choose_sleeper();
    int64_t sum = job.size * (job.size + 1) / 2;
    for (int round = 0; round < 3; round++) {
        int64_t values[2] = {job.rank + 1, round};
        if (job.rank == sleeper && round == 1) {
            inject_stop();
        } else if (round == 1) {
            await_stop();
            double start = test_seconds();
            check_timed_out(peerwin_allreduce(ctx, values, 2, PEERWIN_INT64, PEERWIN_SUM, NULL), start);
            CHECK_EQUAL(values[0], job.rank + 1);
            CHECK_STATUS(peerwin_barrier(ctx, NULL), PEERWIN_ERR_STATE, "all-reduce");
            values[0] = -1000; /* given first was another */
            wake();
        }
        CHECK_OK_AT_LAST(peerwin_allreduce(ctx, values, 2, PEERWIN_INT64, PEERWIN_SUM, NULL));
        CHECK_EQUAL(values[0], sum);
        CHECK_EQUAL(values[1], round * job.size);
    }
    CHECK_OK_AT_LAST(peerwin_barrier(ctx, NULL));
    end_at_last(ctx);
}

/* ---------------------------------------------------------------------- collective calls, which break the context */

typedef peerwin_status (*collective)(peerwin_ctx *ctx, peerwin_win **win);

static peerwin_status do_alloc(peerwin_ctx *ctx, peerwin_win **win) {
    peerwin_win *second = NULL;
    (void)win;
    peerwin_status status = peerwin_win_alloc(ctx, 70000, NULL, &second);
    CHECK((status == PEERWIN_OK) == (second != NULL));
    return status;
}

static peerwin_status do_free(peerwin_ctx *ctx, peerwin_win **win) {
    (void)ctx;
    return peerwin_win_free(*win);
}

static peerwin_status do_finalize(peerwin_ctx *ctx, peerwin_win **win) {
    (void)win;
    return peerwin_finalize(ctx);
}

/* One rank's time-out breaks the context for all; those whose own clock had not run out yet are told that it did there.
 */
static void check_broken(const char *what, peerwin_status status, double seconds) {
    if (status != PEERWIN_ERR_TIMEOUT && status != PEERWIN_ERR_ABORTED) {
        test_fail(__FILE__, __LINE__, "%s: got %d (%s)", what, (int)status, peerwin_strerror(status));
    }
    if (seconds > TIMEOUT_MS * 1e-3 + SLACK) {
        test_fail(__FILE__, __LINE__, "%s: it took %.3f s", what, seconds);
    }
    CHECK(status == PEERWIN_ERR_ABORTED || test_text_has(peerwin_last_error(), "stopped"));
    CHECK(test_text_has(peerwin_last_error(), status == PEERWIN_ERR_ABORTED ? "timed out" : "deadline"));
}

/* What a context and its window are when the call is over: finalize and free that were local have ended them. */
static void end_broken(peerwin_ctx *ctx, peerwin_win *win, collective call, peerwin_status status) {
    if (call == do_finalize && status == PEERWIN_OK) {
        return;
    }
    CHECK_STATUS(peerwin_check(ctx), PEERWIN_ERR_ABORTED, "timed out");
    CHECK_STATUS(peerwin_barrier(ctx, NULL), PEERWIN_ERR_ABORTED, "timed out");
    if (job.rank % 2 == 0 && !(call == do_free && status == PEERWIN_OK)) {
        CHECK_OK(peerwin_win_free(win)); /* local now */
    }
    CHECK_OK(peerwin_finalize(ctx));
}

static void stop_in(const char *what, collective call, const inject_plan *plan) {
    peerwin_win *win = NULL;
    peerwin_ctx *ctx = short_of_time(&win);
    peerwin_status status;
    choose_sleeper();
    if (job.rank == sleeper) {
        if (plan != NULL) {
            inject_arm(plan);
        } else {
            inject_stop();
        }
        status = call(ctx, &win); /* may even succeed, if all others had done their part */
        CHECK(plan == NULL || inject_disarm());
    } else {
        double start = test_seconds();
        status = call(ctx, &win);
        check_broken(what, status, test_seconds() - start);
        await_stop();
        wake();
    }
    end_broken(ctx, win, call, status);
    if (job.rank == 0) {
        printf("   %s\n", what);
    }
}

static void a_collective_call_that_times_out_breaks_the_context_everywhere(void) {
    inject_plan plan = {.calls = INJECT_BIT(INJECT_SENDMSG), .nth = 1, .action = INJECT_STOP};
    stop_in("alloc, before it comes", do_alloc, NULL);
    stop_in("alloc, before sending", do_alloc, &plan);
    plan.calls = INJECT_BIT(INJECT_RECVMSG);
    stop_in("alloc, before receiving", do_alloc, &plan);
    plan = (inject_plan){.calls = INJECT_BIT(INJECT_MMAP), .nth = 2, .action = INJECT_STOP};
    stop_in("alloc, before mapping", do_alloc, &plan);
    plan = (inject_plan){.calls = INJECT_BIT(INJECT_MPI_IALLREDUCE), .nth = 4, .action = INJECT_STOP};
    stop_in("alloc, verifying", do_alloc, &plan);
    stop_in("free, before it comes", do_free, NULL);
    plan = (inject_plan){.calls = INJECT_BIT(INJECT_MUNMAP), .nth = 1, .action = INJECT_STOP};
    stop_in("free, unmapping", do_free, &plan);
    stop_in("finalize, before it comes", do_finalize, NULL);
    plan.calls = INJECT_BIT(INJECT_MUNMAP);
    stop_in("finalize, unmapping", do_finalize, &plan);
}

/* ------------------------------------------------------------------------------------------------------- init */

static void stop_in_init(const char *what, const inject_plan *plan) {
    peerwin_config config;
    peerwin_ctx *ctx = NULL;
    peerwin_config_init(&config);
    config.space = job.space;
    config.timeout_ms = INIT_MS;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm); /* given up with the time-out */
    choose_sleeper();
    double start = test_seconds();
    if (job.rank == sleeper) {
        if (plan != NULL) {
            inject_arm(plan);
        } else {
            inject_stop();
        }
        peerwin_status status = peerwin_init(comm, &config, &ctx);
        CHECK(plan == NULL || inject_disarm());
        CHECK(status != PEERWIN_OK && ctx == NULL);
    } else {
        peerwin_status status = peerwin_init(comm, &config, &ctx);
        CHECK(status == PEERWIN_ERR_TIMEOUT || status == PEERWIN_ERR_ABORTED || status == PEERWIN_ERR_PEER_LOST);
        CHECK(ctx == NULL);
        double took = test_seconds() - start;
        if (took > INIT_MS * 1e-3 + SLACK) {
            test_fail(__FILE__, __LINE__, "%s: it took %.3f s", what, took);
        }
        await_stop();
        test_sleep_ms(200); /* its deadline has passed too */
        wake();
    }
    if (job.rank == 0) {
        printf("   %s\n", what);
    }
    ctx = test_context(MPI_COMM_WORLD, 5000);
    CHECK_OK(peerwin_barrier(ctx, NULL));
    CHECK_OK(peerwin_finalize(ctx));
}

static void an_init_that_times_out_makes_no_context(void) {
    inject_plan plan = {.calls = INJECT_BIT(INJECT_PIDFD_OPEN), .nth = 1, .action = INJECT_STOP};
    stop_in_init("init, before it comes", NULL);
    stop_in_init("init, before watching", &plan);
    plan.calls = INJECT_BIT(INJECT_CONNECT);
    stop_in_init("init, connecting", &plan);
    plan = (inject_plan){.calls = INJECT_BIT(INJECT_RECVMSG), .nth = 1, .action = INJECT_STOP};
    stop_in_init("init, awaiting the answer", &plan);
    plan = (inject_plan){.calls = INJECT_BIT(INJECT_SENDMSG), .nth = 3, .action = INJECT_STOP};
    stop_in_init("init, exchange of pads", &plan);
}

static const test_case cases[] = {
    TEST_CASE(barrier_times_out_and_goes_on, 2, 0),
    TEST_CASE(wait_times_out_and_goes_on, 2, 0),
    TEST_CASE(allreduce_times_out_and_goes_on_with_the_first_values, 2, 0),
    TEST_CASE(a_collective_call_that_times_out_breaks_the_context_everywhere, 2, 0),
    TEST_CASE(an_init_that_times_out_makes_no_context, 2, 0),
};
TEST_MAIN(cases)
