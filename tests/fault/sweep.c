/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every system call of set-up fails once: the nth call of each kind, with each errno it may have, on one rank, for n =
 * 1, 2, ... until nothing was struck. Whatever fails, the call ends at once, every rank has the same status and the
 * same text, which names the rank and the system call; nothing is left over; and the next attempt works.
 *
 * All runs happen in one job. Every rank sees the outcome of all, so that all judge alike.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inject.h"
#include "support/leaks.h"
#include "support/memory.h"

enum { TIMEOUT_MS = 3000, MAX_NTH = 64, TEXT_BYTES = 600 };
#define AT_ONCE 1.0 /* seconds */

/** What may come of a failure. */
typedef enum {
    REPORTED, /* a status for all, and the context lives on */
    ABSORBED, /* tried again, or done without: the call succeeds */
    EITHER,   /* depends on the place, or on what the others do meanwhile; the context may break */
    BREAKS    /* a status for all; the channel, and with it the context, may be beyond use */
} outcome;

typedef struct {
    inject_call call;
    int code;
    outcome expect;
} fault;

static const fault faults[] = {
    {INJECT_MALLOC, ENOMEM, REPORTED},
    {INJECT_CALLOC, ENOMEM, REPORTED},
    {INJECT_MMAP, ENOMEM, REPORTED},
    {INJECT_MMAP, EPERM, REPORTED},
    {INJECT_MADVISE, EINVAL, EITHER},
    {INJECT_MADVISE, ENOMEM, EITHER},
    {INJECT_MEMFD_CREATE, EMFILE, REPORTED},
    {INJECT_MEMFD_CREATE, ENOSYS, REPORTED},
    {INJECT_FTRUNCATE, ENOMEM, REPORTED},
    {INJECT_FALLOCATE, ENOSPC, REPORTED},
    {INJECT_FALLOCATE, EINTR, ABSORBED},
    {INJECT_FCNTL, EPERM, REPORTED},
    {INJECT_FSTAT, ENOMEM, REPORTED},
    {INJECT_SOCKET, EMFILE, REPORTED},
    {INJECT_SOCKET, ENOBUFS, REPORTED},
    {INJECT_BIND, ENOMEM, REPORTED},
    {INJECT_LISTEN, EADDRINUSE, REPORTED},
    {INJECT_CONNECT, EINTR, ABSORBED},
    {INJECT_CONNECT, EAGAIN, ABSORBED},
    {INJECT_CONNECT, ECONNREFUSED, ABSORBED}, /* without a direct path */
    {INJECT_CONNECT, ENOMEM, REPORTED},
    {INJECT_ACCEPT4, EINTR, ABSORBED},
    {INJECT_ACCEPT4, ECONNABORTED, ABSORBED},
    {INJECT_ACCEPT4, EMFILE, REPORTED},
    {INJECT_ACCEPT4, ENOMEM, REPORTED},
    {INJECT_GETSOCKNAME, ENOBUFS, REPORTED},
    {INJECT_SENDMSG, EINTR, ABSORBED},
    {INJECT_SENDMSG, EAGAIN, ABSORBED},
    {INJECT_SENDMSG, ETOOMANYREFS, REPORTED},
    {INJECT_SENDMSG, ENOBUFS, REPORTED},
    {INJECT_SENDMSG, EPIPE, BREAKS},
    {INJECT_RECVMSG, EINTR, ABSORBED},
    {INJECT_RECVMSG, EAGAIN, ABSORBED},
    {INJECT_RECVMSG, ENOMEM, BREAKS},
    {INJECT_RECVMSG, ECONNRESET, BREAKS},
    {INJECT_POLL, EINTR, ABSORBED},
    {INJECT_POLL, ENOMEM, EITHER},
    {INJECT_PIDFD_OPEN, EMFILE, REPORTED},
    {INJECT_PIDFD_OPEN, ENOSYS, ABSORBED},
    {INJECT_PIDFD_OPEN, EPERM, ABSORBED},
    {INJECT_GETRANDOM, ENOSYS, REPORTED},
    {INJECT_OPEN, EMFILE, EITHER},
};

/* ------------------------------------------------------------------------------------------------ what is run */

static peerwin_ctx *ctx;
static peerwin_win *win;
static leaks_snapshot *without_context;
static int runs_total;
static int problems;

static peerwin_status run_init(void) {
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = job.space;
    config.timeout_ms = TIMEOUT_MS;
    return peerwin_init(MPI_COMM_WORLD, &config, &ctx);
}

static peerwin_status run_alloc(void) {
    return peerwin_win_alloc(ctx, 5000 * ((size_t)job.rank + 1), NULL, &win);
}

static peerwin_status run_free(void) {
    peerwin_status status = peerwin_win_free(win);
    if (status == PEERWIN_OK) {
        win = NULL;
    }
    return status;
}

static peerwin_status run_transfer(void) {
    int right = (job.rank + 1) % job.size;
    double value = job.rank;
    peerwin_status status = peerwin_barrier(ctx, NULL);
    if (status == PEERWIN_OK) {
        status = peerwin_put_signal(win, right, 8, &value, sizeof(value), 3, PEERWIN_SIGNAL_ADD, 1, NULL);
    }
    if (status == PEERWIN_OK) {
        status = peerwin_consume(win, 3, 1, NULL);
    }
    return status == PEERWIN_OK ? peerwin_allreduce(ctx, &value, 1, PEERWIN_DOUBLE, PEERWIN_SUM, NULL) : status;
}

static void check_ring(void) {
    static double round;
    int left = (job.rank + job.size - 1) % job.size;
    double value = job.rank + 1000 * ++round;
    CHECK_OK(
        peerwin_put_signal(win, (job.rank + 1) % job.size, 16, &value, sizeof(value), 5, PEERWIN_SIGNAL_ADD, 1, NULL));
    CHECK_OK(peerwin_consume(win, 5, 1, NULL));
    segment_load(win, 16, &value, sizeof(value));
    CHECK(value == left + 1000 * round);
    CHECK_OK(peerwin_barrier(ctx, NULL));
}

/* ------------------------------------------------------------------------------------------------- the verdict */

typedef struct {
    int status;
    int check;
    int struck;
    double seconds;
    char text[TEXT_BYTES];
} result;

static result *results;

static void problem(const char *phase, const fault *f, int nth, int rank, const char *what) {
    problems++;
    if (job.rank != 0) {
        return;
    }
    fprintf(stderr, "PROBLEM %s, %s call %d on rank %d of %d fails with errno %d (%s): %s\n", phase,
            inject_name(f->call), nth, rank, job.size, f->code, strerror(f->code), what);
    for (int i = 0; i < job.size; i++) {
        if (i > 0 && results[i].status == results[0].status && results[i].check == results[0].check &&
            strcmp(results[i].text, results[0].text) == 0) {
            continue;
        }
        fprintf(stderr, "  rank %d: %s, then %s, %.3f s: %s\n", i, peerwin_strerror((peerwin_status)results[i].status),
                peerwin_strerror((peerwin_status)results[i].check), results[i].seconds, results[i].text);
    }
}

static int all_same(void) {
    for (int i = 1; i < job.size; i++) {
        if (results[i].status != results[0].status || results[i].check != results[0].check ||
            strcmp(results[i].text, results[0].text) != 0) {
            return 0;
        }
    }
    return 1;
}

/* What a text must say: the system call, or what it was for. */
static const char *word_of(inject_call call) {
    switch (call) {
    case INJECT_MALLOC:
    case INJECT_CALLOC:
        return "alloc failed";
    case INJECT_FCNTL:
        return "seal";
    case INJECT_GETSOCKNAME:
        return "bind";
    case INJECT_OPEN: /* files of /proc, whose content is what matters */
        return "";
    default:
        return inject_name(call);
    }
}

static const char *judge_failure(const fault *f, int rank) {
    char where[32];
    peerwin_status status = (peerwin_status)results[0].status;
    snprintf(where, sizeof(where), "rank %d", rank);
    if (status == PEERWIN_ERR_TIMEOUT || status == PEERWIN_ERR_PEER_LOST || status == PEERWIN_ERR_ABORTED) {
        return "the status tells of a peer";
    }
    if (f->expect == ABSORBED) {
        return "this should have been overcome";
    }
    if (!test_text_has(results[0].text, where)) {
        return "the text does not name the rank";
    }
    if (!test_text_has(results[0].text, word_of(f->call))) {
        return "the text does not name the system call";
    }
    if (f->expect != BREAKS && f->expect != EITHER && results[0].check != PEERWIN_OK) {
        return "the context is broken";
    }
    return NULL;
}

static const char *judge(const fault *f, int rank) {
    for (int i = 0; i < job.size; i++) {
        if (results[i].seconds > AT_ONCE) {
            return "it took too long";
        }
    }
    if (!all_same()) {
        return "the ranks disagree";
    }
    if (results[0].status != PEERWIN_OK) {
        return judge_failure(f, rank);
    }
    return f->expect == REPORTED || f->expect == BREAKS ? "the failure was not reported" : NULL;
}

/* ---------------------------------------------------------------------------------------------------- one run */

static int one_run(const char *phase, peerwin_status (*run)(void), const fault *f, int nth, int rank) {
    inject_plan plan = {.calls = INJECT_BIT(f->call), .nth = nth, .action = INJECT_FAIL, .value = f->code};
    result mine = {0};
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank == rank) {
        inject_arm(&plan);
    }
    double start = test_seconds();
    mine.status = (int)run();
    mine.seconds = test_seconds() - start;
    mine.struck = job.rank == rank ? inject_disarm() : 0;
    if (mine.status != PEERWIN_OK) {
        snprintf(mine.text, sizeof(mine.text), "%s", peerwin_last_error());
    }
    mine.check = ctx != NULL ? (int)peerwin_check(ctx) : 0;
    MPI_Allgather(&mine, (int)sizeof(mine), MPI_BYTE, results, (int)sizeof(mine), MPI_BYTE, MPI_COMM_WORLD);
    const char *wrong = results[rank].struck ? judge(f, rank) : NULL;
    if (wrong != NULL) {
        problem(phase, f, nth, rank, wrong);
    }
    if (!results[rank].struck) {
        CHECK_OK((peerwin_status)mine.status);
    }
    return results[rank].struck;
}

static int any_broken(void) {
    int broken = 0;
    for (int i = 0; i < job.size; i++) {
        broken |= results[i].check != PEERWIN_OK;
    }
    return broken;
}

static int all_direct(void) {
    int direct = 1;
    for (int rank = 0; rank < job.size; rank++) {
        peerwin_peer peer = {.size = sizeof(peer)};
        CHECK_OK(peerwin_peer_query(ctx, rank, &peer));
        direct &= peer.path != PEERWIN_PATH_NONE;
    }
    MPI_Allreduce(MPI_IN_PLACE, &direct, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return direct;
}

/* ------------------------------------------------------------------------------------------------- the phases */

static int init_once(const fault *f, int nth, int rank) {
    leaks_snapshot *before = leaks_take();
    int struck = one_run("peerwin_init", run_init, f, nth, rank);
    if (ctx != NULL) {
        if (all_direct()) {
            CHECK_OK(run_alloc());
            check_ring();
            CHECK_OK(peerwin_win_free(win));
        }
        CHECK_OK(peerwin_finalize(ctx));
        ctx = NULL;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    leaks_check(before);
    return struck;
}

static void new_context(void) {
    without_context = leaks_take();
    ctx = test_context(MPI_COMM_WORLD, TIMEOUT_MS);
}

static void end_context(void) {
    CHECK_OK(peerwin_finalize(ctx));
    ctx = NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    leaks_check(without_context);
}

/* A context that did not survive is replaced, on all ranks; then the sockets are others, and only it is checked. */
static void check_left_over(leaks_snapshot *before) {
    if (any_broken()) {
        leaks_free(before);
        end_context();
        new_context();
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        leaks_check(before);
    }
}

static int alloc_once(const fault *f, int nth, int rank) {
    leaks_snapshot *before = leaks_take();
    win = NULL;
    int struck = one_run("peerwin_win_alloc", run_alloc, f, nth, rank);
    CHECK(results[job.rank].status == PEERWIN_OK || win == NULL);
    if (win == NULL && !any_broken()) {
        CHECK_OK(run_alloc());
    }
    if (win != NULL && !any_broken()) {
        check_ring();
    }
    CHECK_OK(peerwin_win_free(win));
    check_left_over(before);
    return struck;
}

static int transfer_and_free_once(const fault *f, int nth, int rank) {
    leaks_snapshot *before = leaks_take();
    CHECK_OK(run_alloc());
    int struck = one_run("transfers", run_transfer, f, nth, rank);
    struck |= one_run("peerwin_win_free", run_free, f, nth, rank);
    if (win != NULL) {
        CHECK_OK(run_free());
    }
    check_left_over(before);
    return struck;
}

static void sweep(int (*once)(const fault *f, int nth, int rank)) {
    int runs = 0;
    results = host_new((size_t)job.size * sizeof(*results));
    problems = 0;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        for (int rank = 0; rank<job.size; rank += job.size> 1 ? job.size - 1 : 1) {
            int nth = 1;
            while (nth <= MAX_NTH && once(&faults[i], nth, rank)) {
                nth++;
                runs++;
            }
            CHECK(nth <= MAX_NTH);
        }
    }
    free(results);
    runs_total += runs;
    if (job.rank == 0) {
        printf("   %d runs with a failure injected\n", runs);
    }
    CHECK_EQUAL(problems, 0);
}

static void init_survives_a_failure_of_any_call(void) {
    sweep(init_once);
    CHECK(runs_total > 0);
}

static void alloc_survives_a_failure_of_any_call(void) {
    int before = runs_total;
    new_context();
    sweep(alloc_once);
    end_context();
    CHECK(runs_total > before);
}

static void transfers_and_free_survive_a_failure_of_any_call(void) {
    new_context();
    sweep(transfer_and_free_once);
    end_context();
}

static const test_case cases[] = {
    TEST_CASE(init_survives_a_failure_of_any_call, 1, 0),
    TEST_CASE(alloc_survives_a_failure_of_any_call, 1, 0),
    TEST_CASE(transfers_and_free_survive_a_failure_of_any_call, 1, 0),
};
TEST_MAIN(cases)
