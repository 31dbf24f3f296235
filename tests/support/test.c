/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The harness: starting and ending, checks, agreed skips. Counting what is left over is in leaks.c.
 */
#include "test.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "leaks.h"

test_job job;

static const char *current_case = "start";
static int cases_run;
static int cases_skipped;

/* ------------------------------------------------------------------------------------------------------ checks */

_Noreturn void test_fail(const char *file, int line, const char *format, ...) {
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "FAILED rank %d of %d, %s:%d, %s: %s\n  last error: \"%s\"\n", job.rank, job.size, file, line,
            current_case, text, peerwin_last_error());
    fflush(NULL);
    int initialized = 0;
    int finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (initialized && !finalized) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    _exit(1);
}

void test_check_equal(const char *file, int line, const char *what, long long got, long long want) {
    if (got != want) {
        test_fail(file, line, "%s: got %lld, want %lld", what, got, want);
    }
}

int test_text_has(const char *text, const char *word) {
    size_t length = strlen(word);
    for (; *text != '\0'; text++) {
        if (strncasecmp(text, word, length) == 0) {
            return 1;
        }
    }
    return length == 0;
}

void test_check_status(const char *file, int line, const char *call, peerwin_status got, peerwin_status want, ...) {
    if (got != want) {
        test_fail(file, line, "%s: got %d (%s), want %d (%s)", call, (int)got, peerwin_strerror(got), (int)want,
                  peerwin_strerror(want));
    }
    const char *text = peerwin_last_error();
    if (want != PEERWIN_OK && strlen(text) < 20) {
        test_fail(file, line, "%s: the last error is not a sentence", call);
    }
    va_list words;
    va_start(words, want);
    for (const char *word = va_arg(words, const char *); word != NULL; word = va_arg(words, const char *)) {
        if (!test_text_has(text, word)) {
            test_fail(file, line, "%s: the last error does not name \"%s\"", call, word);
        }
    }
    va_end(words);
}

void test_check_same(const char *file, int line, const char *call, peerwin_status got) {
    int span[2] = {(int)got, -(int)got};
    MPI_Allreduce(MPI_IN_PLACE, span, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (span[0] != -span[1]) {
        test_fail(file, line, "%s: the ranks disagree: got %d here, others between %d and %d", call, (int)got, -span[1],
                  span[0]);
    }
}

/* ---------------------------------------------------------------------------------------------- start and end */

static peerwin_space space_of(const char *name) {
    if (strcmp(name, "host") == 0) {
        return PEERWIN_SPACE_HOST;
    }
    if (strcmp(name, "cuda") == 0) {
        return PEERWIN_SPACE_CUDA;
    }
    test_fail(__FILE__, __LINE__, "space \"%s\": must be host or cuda", name);
}

/* Removes `--space name` from the arguments, so that what is left are names of cases. */
static int take_options(int argc, char **argv) {
    const char *space = getenv("PWTEST_SPACE");
    int kept = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--space") == 0 && i + 1 < argc) {
            space = argv[++i];
        } else {
            argv[kept++] = argv[i];
        }
    }
    job.space = space_of(space != NULL ? space : "host");
    return kept;
}

/* MPI opens sockets, maps segments and loads components when they are first needed: make it need them all now. */
static void warm_up_mpi(void) {
    MPI_Comm node;
    MPI_Comm copy;
    MPI_Comm cart;
    MPI_Request request;
    int one = 1;
    int sum = 0;
    int zero = 0;
    int *all = calloc((size_t)job.size, sizeof(*all));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_free(&node);
    MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Iallgather(&one, 1, MPI_INT, all, 1, MPI_INT, copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ibarrier(copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int step = 0; step < job.size; step++) {
        int to = (job.rank + step) % job.size;
        int from = (job.rank - step + job.size) % job.size;
        MPI_Sendrecv(&one, 1, MPI_INT, to, 0, &sum, 1, MPI_INT, from, 0, copy, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&copy);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &job.size, &zero, 0, &cart);
    MPI_Comm_free(&cart);
    free(all);
}

/* A real driver opens what it needs for a peer's device, and its copy engine, at the first large copy. */
static void warm_up(void) {
    warm_up_mpi();
    const size_t bytes = device_is_real() ? 1 << 20 : 0;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 4096 + 2 * bytes);
    int direct = 1;
    int right = (job.rank + 1) % job.size;
    for (int rank = 0; rank < job.size; rank++) {
        direct &= peerwin_win_path(win, rank) != PEERWIN_PATH_NONE;
    }
    MPI_Allreduce(MPI_IN_PLACE, &direct, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (direct) {
        CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
        if (bytes > 0) {
            CHECK_OK(peerwin_put(win, right, bytes, peerwin_win_ptr(win, job.rank), bytes, job.stream));
            CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
        }
    }
    test_free(ctx, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

void test_begin(int argc, char **argv) {
    int provided = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    take_options(argc, argv);
    device_begin();
    warm_up();
}

void test_run(const char *name, void (*run)(void)) {
    current_case = name;
    int skipped_before = cases_skipped;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = test_seconds();
    device_snapshot driver = device_take();
    leaks_snapshot *before = leaks_take();
    run();
    MPI_Barrier(MPI_COMM_WORLD);
    device_check(&driver);
    leaks_check(before);
    MPI_Barrier(MPI_COMM_WORLD);
    cases_run++;
    if (job.rank == 0 && cases_skipped == skipped_before) {
        printf("ok %s (%d ranks, %.2f s)\n", name, job.size, test_seconds() - start);
    }
}

int test_end(void) {
    current_case = "end";
    int passed = cases_run - cases_skipped;
    if (job.rank == 0) {
        printf("%d passed, %d skipped\n", passed, cases_skipped);
    }
    device_end();
    MPI_Finalize();
    return passed > 0 ? 0 : TEST_EXIT_SKIP;
}

/* NAME... are the cases to run; !NAME... are those not to run, of all or of those named. */
static int is_named(const test_case *entry, int argc, char **argv) {
    int named = 0;
    int some_are = 0;
    for (int i = 1; i < argc; i++) {
        int is_out = argv[i][0] == '!';
        int is_it = strcmp(argv[i] + is_out, entry->name) == 0;
        if (is_out && is_it) {
            return 0;
        }
        some_are |= !is_out;
        named |= is_it;
    }
    return named || !some_are;
}

static void check_names(int argc, char **argv, const test_case *cases, int count) {
    for (int i = 1; i < argc; i++) {
        int known = 0;
        for (int k = 0; k < count; k++) {
            known |= strcmp(argv[i] + (argv[i][0] == '!'), cases[k].name) == 0;
        }
        if (!known) {
            test_fail(__FILE__, __LINE__, "no case is called \"%s\"", argv[i]);
        }
    }
}

int test_main(int argc, char **argv, const test_case *cases, int count) {
    test_begin(argc, argv);
    argc = take_options(argc, argv);
    check_names(argc, argv, cases, count);
    for (int k = 0; k < count; k++) {
        int fits = job.size >= cases[k].min_ranks && (cases[k].max_ranks == 0 || job.size <= cases[k].max_ranks);
        if (fits && is_named(&cases[k], argc, argv)) {
            test_run(cases[k].name, cases[k].run);
        }
    }
    return test_end();
}

int test_agree_skip(int cannot, const char *why) {
    MPI_Allreduce(MPI_IN_PLACE, &cannot, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (!cannot) {
        return 0;
    }
    cases_skipped++;
    if (job.rank == 0) {
        printf("skipped %s: %s\n", current_case, why);
    }
    return 1;
}

/* ---------------------------------------------------------------------------------------------- small helpers */

peerwin_status done(peerwin_ctx *ctx, peerwin_status status) {
    return status == PEERWIN_OK && job.space == PEERWIN_SPACE_CUDA ? peerwin_stream_sync(ctx, job.stream) : status;
}

void check_done(peerwin_ctx *ctx) {
    CHECK_OK(done(ctx, PEERWIN_OK));
}

void test_fulfil(peerwin_ctx *ctx, peerwin_win *win, unsigned slot, uint64_t value) {
    if (job.space == PEERWIN_SPACE_CUDA) {
        peerwin_stream other = device_stream_urgent();
        CHECK_OK(peerwin_signal(win, peerwin_rank(ctx), slot, PEERWIN_SIGNAL_SET, value, other));
        CHECK_OK(peerwin_stream_sync(ctx, other));
        device_stream_free(other);
        check_done(ctx);
    }
}

int test_has_adds(const peerwin_ctx *ctx) {
    for (int rank = 0; rank < peerwin_size(ctx); rank++) {
        peerwin_peer peer = {.size = sizeof(peer)};
        CHECK_OK(peerwin_peer_query(ctx, rank, &peer));
        if (peer.path != PEERWIN_PATH_NONE && !peer.native_atomics) {
            return 0;
        }
    }
    return 1;
}

int test_rounds(int host, int cuda) {
    return job.space == PEERWIN_SPACE_CUDA ? cuda : host;
}

int test_forced_handle(const char *kind) {
    const char *handles = getenv("PEERWIN_HANDLES");
    return handles != NULL && strcmp(handles, kind) == 0;
}

/* True on all ranks if the time of some rank ran out, after whose retreat the others' context is of no use. */
static int came_too_late(MPI_Comm comm, peerwin_status status, peerwin_ctx **ctx) {
    int late = status == PEERWIN_ERR_TIMEOUT, any = 0;
    MPI_Allreduce(&late, &any, 1, MPI_INT, MPI_MAX, comm);
    if (any && *ctx != NULL) {
        (void)peerwin_finalize(*ctx);
        *ctx = NULL;
    }
    return any;
}

/* A short time-out is for what the test is about: on a busy machine there may be another attempt to begin. */
peerwin_ctx *test_context(MPI_Comm comm, int timeout_ms) {
    enum { ATTEMPTS = 5 };
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = job.space;
    config.timeout_ms = timeout_ms;
    peerwin_ctx *ctx = NULL;
    peerwin_status status = peerwin_init(comm, &config, &ctx);
    for (int i = 1; timeout_ms != 0 && came_too_late(comm, status, &ctx) && i < ATTEMPTS; i++)
        status = peerwin_init(comm, &config, &ctx);
    CHECK_OK(status);
    CHECK(ctx != NULL);
    return ctx;
}

peerwin_win *test_window(peerwin_ctx *ctx, size_t bytes) {
    peerwin_win *win = NULL;
    CHECK_OK(peerwin_win_alloc(ctx, bytes, NULL, &win));
    CHECK(win != NULL);
    return win;
}

void test_free(peerwin_ctx *ctx, peerwin_win *win) {
    CHECK_OK(peerwin_win_free(win));
    CHECK_OK(peerwin_finalize(ctx));
}

void test_sleep_ms(int ms) {
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000L};
    nanosleep(&time, NULL);
}

double test_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

uint64_t test_random(uint64_t *state) {
    uint64_t x = *state != 0 ? *state : 0x9E3779B97F4A7C15u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x;
}

size_t test_random_in(uint64_t *state, size_t low, size_t high) {
    return low + (size_t)(test_random(state) % (high - low + 1));
}

void test_env(const char *name, const char *value) {
    CHECK(value != NULL ? setenv(name, value, 1) == 0 : unsetenv(name) == 0);
}

const char *test_number(size_t value) {
    static char text[8][32];
    static unsigned next;
    char *place = text[next++ % 8];
    snprintf(place, sizeof(text[0]), "%zu", value);
    return place;
}
