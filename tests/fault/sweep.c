/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every system call of set-up fails: the nth call of each kind, with each errno it may have, on one rank, for n = 1, 2,
 * ... until nothing was struck; once, and from then on. Whatever fails, the call ends at once, every rank has the same
 * status and the same text, which names the rank and the system call; nothing is left over, no context is broken on
 * some ranks only; and the next attempt works. Failures that the library overcomes are marked so in the table.
 *
 * All runs happen in one job. Every rank sees the outcome of all, so that all judge alike.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inject.h"
#include "support/leaks.h"
#include "support/memory.h"

enum { TIMEOUT_MS = 5000, MAX_NTH = 64, TEXT_BYTES = 600 };
#define AT_ONCE 2.5 /* seconds; half of what a deadline would take */

/** What must come of a failure. */
typedef enum {
    NOT_RUN,
    REPORTED, /* a status for all, and the context lives on */
    OVERCOME, /* tried again, or done without: the call succeeds */
    SPARED,   /* the first of init has a substitute and is overcome; else REPORTED */
    EITHER,   /* advice is overcome, a need is reported: the name of the call does not tell which it was */
    BREAKS,   /* a status for all; the channel, and with it the context, may be beyond use */
    HANGS_UP  /* as if a peer had closed the channel: PEER_LOST for all; the context may break */
} outcome;

typedef struct {
    inject_call call;
    int code;
    outcome once;
    outcome lasting; /* from the nth call on */
} fault;

static const fault faults[] = {
    {INJECT_MALLOC, ENOMEM, REPORTED, REPORTED},
    {INJECT_CALLOC, ENOMEM, REPORTED, REPORTED},
    {INJECT_MMAP, ENOMEM, SPARED, REPORTED},
    {INJECT_MMAP, EPERM, SPARED, REPORTED},
    {INJECT_MADVISE, EINVAL, EITHER, EITHER},
    {INJECT_MADVISE, ENOMEM, EITHER, EITHER},
    {INJECT_MEMFD_CREATE, EMFILE, REPORTED, REPORTED},
    {INJECT_MEMFD_CREATE, ENOSYS, REPORTED, REPORTED},
    {INJECT_FTRUNCATE, ENOMEM, REPORTED, NOT_RUN},
    {INJECT_FALLOCATE, ENOSPC, REPORTED, REPORTED},
    {INJECT_FALLOCATE, EINTR, OVERCOME, NOT_RUN},
    {INJECT_FCNTL, EPERM, REPORTED, REPORTED},
    {INJECT_FSTAT, ENOMEM, REPORTED, NOT_RUN},
    {INJECT_SOCKET, EMFILE, REPORTED, REPORTED},
    {INJECT_SOCKET, ENOBUFS, REPORTED, NOT_RUN},
    {INJECT_BIND, ENOMEM, REPORTED, NOT_RUN},
    {INJECT_LISTEN, EADDRINUSE, REPORTED, NOT_RUN},
    {INJECT_CONNECT, EINTR, OVERCOME, NOT_RUN},
    {INJECT_CONNECT, EAGAIN, OVERCOME, NOT_RUN},
    {INJECT_CONNECT, ECONNREFUSED, OVERCOME, OVERCOME}, /* without a direct path */
    {INJECT_CONNECT, ENOMEM, REPORTED, REPORTED},
    {INJECT_ACCEPT4, EINTR, OVERCOME, NOT_RUN},
    {INJECT_ACCEPT4, ECONNABORTED, OVERCOME, NOT_RUN},
    {INJECT_ACCEPT4, EMFILE, REPORTED, REPORTED},
    {INJECT_ACCEPT4, ENOMEM, OVERCOME, REPORTED},
    {INJECT_ACCEPT4, ENOBUFS, OVERCOME, REPORTED},
    {INJECT_GETSOCKNAME, ENOBUFS, REPORTED, NOT_RUN},
    {INJECT_SENDMSG, EINTR, OVERCOME, NOT_RUN},
    {INJECT_SENDMSG, EAGAIN, OVERCOME, NOT_RUN},
    {INJECT_SENDMSG, ETOOMANYREFS, BREAKS, BREAKS}, /* as it comes with a descriptor it leaves the context whole */
    {INJECT_SENDMSG, ENOBUFS, OVERCOME, BREAKS},
    {INJECT_SENDMSG, ENOMEM, OVERCOME, BREAKS},
    {INJECT_SENDMSG, EPIPE, HANGS_UP, HANGS_UP},
    {INJECT_RECVMSG, EINTR, OVERCOME, NOT_RUN},
    {INJECT_RECVMSG, EAGAIN, OVERCOME, NOT_RUN},
    {INJECT_RECVMSG, ENOMEM, OVERCOME, BREAKS},
    {INJECT_RECVMSG, ENOBUFS, OVERCOME, BREAKS},
    {INJECT_RECVMSG, ECONNRESET, HANGS_UP, HANGS_UP},
    {INJECT_POLL, EINTR, OVERCOME, NOT_RUN},
    {INJECT_POLL, ENOMEM, OVERCOME, NOT_RUN},
    {INJECT_PIDFD_OPEN, EMFILE, REPORTED, REPORTED},
    {INJECT_PIDFD_OPEN, ENOSYS, OVERCOME, OVERCOME},
    {INJECT_PIDFD_OPEN, EPERM, OVERCOME, OVERCOME},
    {INJECT_GETRANDOM, ENOSYS, REPORTED, REPORTED},
    {INJECT_OPEN, EMFILE, EITHER, EITHER},
};

/* One run: which call is struck, where. */
typedef struct {
    const char *phase;
    const fault *fault;
    outcome expect;
    int lasting;
    int nth;
    int rank;
} strike;

/* ------------------------------------------------------------------------------------------------ what is run */

static peerwin_ctx *ctx;
static peerwin_win *win;
static peerwin_halo *halo;
static leaks_snapshot *without_context;
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

/* A ring of thin rows, so that the plan needs memory of its own. */
static peerwin_status run_plan(void) {
    const int right = (job.rank + 1) % job.size;
    const int left = (job.rank + job.size - 1) % job.size;
    const peerwin_face send = {right, 1, win, {.offset = 0, .count = {8, 20, 1}, .stride = {32, 0}}};
    const peerwin_face recv = {left, 1, win, {.offset = 16, .count = {8, 20, 1}, .stride = {32, 0}}};
    return peerwin_halo_create(ctx, 1, &send, 1, &recv, 0, &halo);
}

static void check_exchange(void) {
    static double round;
    const int left = (job.rank + job.size - 1) % job.size;
    double value = job.rank + 1000 * ++round;
    segment_store(win, 19 * 32, &value, sizeof(value));
    CHECK_OK(peerwin_halo_start(halo, NULL));
    CHECK_OK(peerwin_halo_finish(halo, NULL));
    segment_load(win, 19 * 32 + 16, &value, sizeof(value));
    CHECK(value == left + 1000 * round);
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

static void problem(const strike *s, const char *what) {
    problems++;
    if (job.rank != 0) {
        return;
    }
    fprintf(stderr, "PROBLEM %s, %s call %d%s on rank %d of %d fails with errno %d (%s): %s\n", s->phase,
            inject_name(s->fault->call), s->nth, s->lasting ? " and all later" : "", s->rank, job.size, s->fault->code,
            strerror(s->fault->code), what);
    for (int i = 0; i < job.size; i++) {
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
    default:
        return inject_name(call);
    }
}

static int names_rank(const char *text, const char *role, int rank) {
    char words[32];
    snprintf(words, sizeof(words), "%s %d", role, rank);
    return test_text_has(text, words);
}

/* Whoever loses a channel hangs up on everyone, so many see a peer that did: any pair may be named. */
static const char *judge_hang_up(void) {
    if (results[0].status != PEERWIN_ERR_PEER_LOST) {
        return "this should be taken for a lost peer";
    }
    return test_text_has(results[0].text, "closed the descriptor channel") ? NULL
                                                                           : "the text does not say what happened";
}

static const char *judge_failure(const strike *s, outcome expect) {
    peerwin_status status = (peerwin_status)results[0].status;
    if (expect == HANGS_UP) {
        return judge_hang_up();
    }
    if (status == PEERWIN_ERR_TIMEOUT || status == PEERWIN_ERR_PEER_LOST || status == PEERWIN_ERR_ABORTED) {
        return "the status tells of a peer";
    }
    if (!names_rank(results[0].text, "rank", s->rank)) {
        return "the text does not name the rank";
    }
    if (!test_text_has(results[0].text, word_of(s->fault->call))) {
        return "the text does not name the system call";
    }
    return expect != BREAKS && results[0].check != PEERWIN_OK ? "the context is broken" : NULL;
}

static int is_in_init(const strike *s) {
    return strcmp(s->phase, "peerwin_init") == 0;
}

static const char *judge(const strike *s) {
    outcome expect = s->expect;
    if (expect == SPARED) {
        expect = is_in_init(s) && s->nth == 1 ? OVERCOME : REPORTED;
    }
    for (int i = 0; i < job.size; i++) {
        if (results[i].seconds > AT_ONCE) {
            return "it took too long";
        }
    }
    if (!all_same()) {
        return "the ranks disagree";
    }
    if (results[0].status == PEERWIN_OK) {
        return expect == OVERCOME || expect == EITHER ? NULL : "the failure was not reported";
    }
    return expect == OVERCOME ? "this should have been overcome" : judge_failure(s, expect);
}

/* ---------------------------------------------------------------------------------------------------- one run */

/* Returns 1 if the fault struck: if it did not, there are fewer calls of that kind. */
static int one_run(peerwin_status (*run)(void), const strike *s) {
    inject_plan plan = {.calls = INJECT_BIT(s->fault->call),
                        .nth = s->nth,
                        .lasting = s->lasting,
                        .action = INJECT_FAIL,
                        .value = s->fault->code};
    result mine = {0};
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank == s->rank) {
        inject_arm(&plan);
    }
    double start = test_seconds();
    mine.status = (int)run();
    mine.seconds = test_seconds() - start;
    mine.struck = job.rank == s->rank ? inject_disarm() : 0;
    if (mine.status != PEERWIN_OK) {
        snprintf(mine.text, sizeof(mine.text), "%s", peerwin_last_error());
    }
    MPI_Barrier(MPI_COMM_WORLD);
    mine.check = ctx != NULL ? (int)peerwin_check(ctx) : 0;
    MPI_Allgather(&mine, (int)sizeof(mine), MPI_BYTE, results, (int)sizeof(mine), MPI_BYTE, MPI_COMM_WORLD);
    const char *wrong = results[s->rank].struck ? judge(s) : NULL;
    if (wrong != NULL) {
        problem(s, wrong);
    }
    if (!results[s->rank].struck) {
        CHECK_OK((peerwin_status)mine.status);
    }
    return results[s->rank].struck;
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

static void use_and_end_context(void) {
    if (all_direct()) {
        CHECK_OK(run_alloc());
        check_ring();
        CHECK_OK(peerwin_win_free(win));
    }
    CHECK_OK(peerwin_finalize(ctx));
    ctx = NULL;
}

/* What there was after the run before, which is what there is before this one: taking it costs as much as a run. */
static leaks_snapshot *after_last;

static leaks_snapshot *take_before(void) {
    leaks_snapshot *before = after_last != NULL ? after_last : leaks_take();
    after_last = NULL;
    return before;
}

static int init_once(const strike *s) {
    leaks_snapshot *before = take_before();
    int struck = one_run(run_init, s);
    CHECK((results[job.rank].status == PEERWIN_OK) == (ctx != NULL));
    if (ctx == NULL) {
        CHECK_OK(run_init());
    }
    use_and_end_context();
    MPI_Barrier(MPI_COMM_WORLD);
    after_last = leaks_check_on(before);
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
        after_last = leaks_check_on(before);
    }
}

static int alloc_once(const strike *s) {
    leaks_snapshot *before = take_before();
    win = NULL;
    int struck = one_run(run_alloc, s);
    CHECK((results[job.rank].status == PEERWIN_OK) == (win != NULL));
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

static int plan_once(const strike *s) {
    leaks_snapshot *before = take_before();
    halo = NULL;
    int struck = one_run(run_plan, s);
    CHECK((results[job.rank].status == PEERWIN_OK) == (halo != NULL));
    if (halo == NULL && !any_broken()) {
        CHECK_OK(run_plan());
    }
    if (halo != NULL && !any_broken()) {
        check_exchange();
    }
    CHECK_OK(peerwin_halo_free(halo));
    if (any_broken()) {
        CHECK_OK(peerwin_win_free(win));
    }
    int again = any_broken();
    check_left_over(before);
    if (again) {
        CHECK_OK(run_alloc());
    }
    return struck;
}

/*
 * Whoever connects in init and then hangs up is turned away as a stranger. No rank does that, so a failure that looks
 * like it begins after the first messages of those that connect.
 */
static int first_nth(const strike *s) {
    return is_in_init(s) && s->fault->code == ECONNRESET ? job.size - s->rank : 1;
}

static int sweep_fault(int (*once)(const strike *s), strike s) {
    int runs = 0;
    s.expect = s.lasting ? s.fault->lasting : s.fault->once;
    if (s.expect == NOT_RUN) {
        return 0;
    }
    for (s.nth = first_nth(&s); s.nth <= MAX_NTH && once(&s); s.nth++) {
        runs++;
    }
    CHECK(s.nth <= MAX_NTH);
    return runs;
}

static void sweep(const char *phase, int (*once)(const strike *s)) {
    int runs = 0;
    leaks_free(after_last); /* of another phase */
    after_last = NULL;
    int step = job.size > 1 ? job.size - 1 : 1;
    results = host_new((size_t)job.size * sizeof(*results));
    problems = 0;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        for (int rank = 0; rank < job.size; rank += step) {
            strike s = {.phase = phase, .fault = &faults[i], .rank = rank};
            runs += sweep_fault(once, s);
            s.lasting = 1;
            runs += sweep_fault(once, s);
        }
    }
    free(results);
    if (job.rank == 0) {
        printf("   %d runs with a failure injected\n", runs);
    }
    CHECK(runs > 0);
    CHECK_EQUAL(problems, 0);
}

static void init_survives_a_failure_of_any_call(void) {
    test_env("PEERWIN_LOG", "error");
    sweep("peerwin_init", init_once);
    test_env("PEERWIN_LOG", NULL);
}

static void alloc_survives_a_failure_of_any_call(void) {
    test_env("PEERWIN_LOG", "error");
    new_context();
    sweep("peerwin_win_alloc", alloc_once);
    end_context();
    test_env("PEERWIN_LOG", NULL);
}

static void plan_survives_a_failure_of_any_call(void) {
    test_env("PEERWIN_LOG", "error");
    new_context();
    CHECK_OK(run_alloc());
    sweep("peerwin_halo_create", plan_once);
    CHECK_OK(peerwin_win_free(win));
    end_context();
    test_env("PEERWIN_LOG", NULL);
}

static const test_case cases[] = {
    TEST_CASE(init_survives_a_failure_of_any_call, 1, 0),
    TEST_CASE(alloc_survives_a_failure_of_any_call, 1, 0),
    TEST_CASE(plan_survives_a_failure_of_any_call, 1, 0),
};
TEST_MAIN(cases)
