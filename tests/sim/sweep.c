/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Every driver call fails: the nth of each name that a rank makes in init, alloc, attach, put, free and finalize, for
 * n = 1, 2, ... until nothing was struck, with the codes that such a call may have. Whatever fails, the call ends at
 * once, every rank has the same status and a text that names the rank; nothing is left over, in the driver or the
 * process, on any rank; the context lives on, and the next attempt works. That the library does without what failed, or
 * takes another kind of memory, is fine.
 *
 * All runs happen in one job. The rank that is struck changes from run to run.
 */
#include <stdlib.h>
#include <string.h>

#include "script.h"
#include "support/leaks.h"
#include "support/memory.h"
#include "support/ranges.h"

enum { TIMEOUT_MS = 8000, MOST_CALLS = 400, MOST_NAMES = 96, TEXT_BYTES = 400, VARIANTS = 2 };
#define AT_ONCE 4.0 /* seconds; half of what a deadline would take */

/* ---------------------------------------------------------------------------------------- what calls may fail with */

typedef struct {
    const char *call; /* a part of its name */
    CUresult codes[VARIANTS];
} fault;

static const fault faults[] = {
    {"cuMemCreate", {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_PERMITTED}},
    {"Alloc", {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN}},
    {"Reserve", {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE}},
    {"cuMemMap", {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE}},
    {"HostRegister", {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED}},
    {"Export", {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_UNKNOWN}},
    {"Import", {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_INVALID_VALUE}},
    {"cuIpcGet", {CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OUT_OF_MEMORY}},
    {"cuIpcOpen", {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY}},
    {"cuMemSetAccess", {CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_UNKNOWN}},
    {"Create", {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED}},
    {"", {CUDA_ERROR_UNKNOWN, CUDA_ERROR_INVALID_VALUE}},
};

static CUresult code_of(const char *call, int variant) {
    size_t i = 0;
    while (strstr(call, faults[i].call) == NULL) {
        i++;
    }
    return faults[i].codes[variant];
}

/* ------------------------------------------------------------------------------------------------ what is run */

/** A part of a window's life. What begin makes, end takes away; run is struck in between. */
typedef struct {
    const char *name;
    void (*begin)(void);
    peerwin_status (*run)(void);
    /* Takes away what run made if it succeeded, after using it. */
    void (*use)(void);
    int is_local;   /* run returns the status of this rank's own calls; they were repeated until they succeeded */
    int is_release; /* run has released everything, even if it failed */
} phase;

static peerwin_ctx *ctx;
static peerwin_win *win;
static void *memory;
static size_t memory_bytes;

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

static peerwin_status run_attach(void) {
    return peerwin_win_attach(ctx, (char *)memory + 512, memory_bytes - 1024, NULL, &win);
}

static peerwin_status run_free(void) {
    peerwin_status status = peerwin_win_free(win);
    win = NULL; /* a native failure is told, and the window is gone all the same */
    return status;
}

static peerwin_status run_finalize(void) {
    peerwin_status status = peerwin_finalize(ctx);
    ctx = NULL;
    return status;
}

static int all_direct(void) {
    int direct = 1;
    for (int rank = 0; rank < job.size; rank++) {
        direct &= peerwin_win_path(win, rank) != PEERWIN_PATH_NONE;
    }
    MPI_Allreduce(MPI_IN_PLACE, &direct, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return direct;
}

static void check_ring(void) {
    static double round;
    int left = (job.rank + job.size - 1) % job.size;
    double value = job.rank + 1000 * ++round;
    CHECK_OK(peerwin_put_signal(win, (job.rank + 1) % job.size, 16, &value, sizeof(value), 5, PEERWIN_SIGNAL_SET, 1,
                                job.stream));
    CHECK_OK(done(ctx, peerwin_wait(win, 5, 1, job.stream)));
    segment_load(win, 16, &value, sizeof(value));
    CHECK(value == left + 1000 * round);
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
}

static void use_window(void) {
    if (all_direct()) {
        check_ring();
    }
    CHECK_OK(run_free());
}

static void use_context(void) {
    CHECK_OK(run_alloc());
    use_window();
    CHECK_OK(run_finalize());
}

static void begin_context(void) {
    ctx = test_context(MPI_COMM_WORLD, TIMEOUT_MS);
}

static void begin_window(void) {
    CHECK_OK(run_alloc());
}

static void begin_all(void) {
    begin_context();
    begin_window();
}

static void nothing(void) {
}

/* ------------------------------------------------------------------------------------------------ transfers */

enum { PART = 3000 };

static int repeats; /* calls that failed and were made again */
static peerwin_status first_failure;
static char first_text[TEXT_BYTES];
static char *source;

static int failed(peerwin_status status) {
    if (status == PEERWIN_OK) {
        return 0;
    }
    if (repeats++ == 0) {
        first_failure = status;
        snprintf(first_text, sizeof(first_text), "%s", peerwin_last_error());
    }
    return 1;
}

/* A call that failed changed nothing, so it is made once more; only one fails. */
#define TWICE(call)                                                                                                    \
    do {                                                                                                               \
        if (failed(call)) {                                                                                            \
            CHECK_OK(call);                                                                                            \
        }                                                                                                              \
    } while (0)

static void begin_transfers(void) {
    unsigned char *data = host_new(2 * PART);
    repeats = 0;
    CHECK_OK(peerwin_win_alloc(ctx, 4 * PART, NULL, &win));
    source = buffer_new(2 * PART);
    pattern_write(data, job.rank, 1, 2 * PART);
    buffer_store(source, 0, data, 2 * PART);
    segment_store(win, 3 * PART, data, PART);
    free(data);
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
}

static peerwin_status run_transfers(void) {
    int right = (job.rank + 1) % job.size;
    uint64_t value = 0;
    peerwin_box from = {.offset = 0, .count = {40, 5, 3}, .stride = {80, 500}};
    peerwin_box to = {.offset = PART, .count = {40, 5, 3}, .stride = {40, 200}};
    TWICE(peerwin_put(win, right, 0, source, PART, job.stream));
    TWICE(peerwin_put_box(win, right, &to, source, &from, job.stream));
    TWICE(peerwin_get(win, right, 3 * PART, source + PART, PART, job.stream));
    TWICE(peerwin_put_signal(win, right, 2 * PART, source + 1, 77, 0, PEERWIN_SIGNAL_SET, 3, job.stream));
    TWICE(peerwin_signal(win, right, 1, PEERWIN_SIGNAL_ADD, 2, job.stream));
    TWICE(peerwin_wait(win, 0, 3, job.stream));
    TWICE(peerwin_consume(win, 1, 2, job.stream));
    TWICE(peerwin_quiet(ctx, job.stream));
    TWICE(peerwin_barrier(ctx, job.stream));
    TWICE(peerwin_stream_sync(ctx, job.stream));
    TWICE(peerwin_signal_read(win, 1, &value));
    CHECK_EQUAL(value, 0);
    return repeats > 0 ? first_failure : PEERWIN_OK;
}

static void use_transfers(void) {
    int left = (job.rank + job.size - 1) % job.size;
    int right = (job.rank + 1) % job.size;
    unsigned char *want = host_new(PART);
    unsigned char *got = host_new(3 * PART);
    segment_load(win, 0, got, 3 * PART);
    pattern_write(want, left, 1, PART);
    check_bytes("what was put", got, want, PART);
    check_bytes("what was put with a signal", got + 2 * PART, want + 1, 77);
    for (size_t row = 0; row < 15; row++) {
        check_bytes("a row of the box", got + PART + row * 40, want + row / 5 * 500 + row % 5 * 80, 40);
    }
    buffer_load(source, PART, got, PART);
    pattern_write(want, right, 1, PART);
    check_bytes("what was got", got, want, PART);
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    buffer_free(source);
    free(want);
    free(got);
    CHECK_OK(run_free());
}

/* ---------------------------------------------------------------------------------------------------- halo plans */

enum { FACE = 200, ROWS = 5, PITCH = 300 };

static peerwin_halo *halo;

/* Faces of rows to both neighbours, which are one rank, or this one. */
static peerwin_status run_plan(void) {
    const int right = (job.rank + 1) % job.size;
    const int left = (job.rank + job.size - 1) % job.size;
    const peerwin_box box = {.count = {FACE / ROWS, ROWS, 1}, .stride = {PITCH, 0}};
    peerwin_face send[] = {{right, 0, win, box}, {left, 1, win, box}};
    peerwin_face recv[] = {{left, 0, win, box}, {right, 1, win, box}};
    send[1].box.offset = 50;
    recv[0].box.offset = 2000;
    recv[1].box.offset = 2050;
    return peerwin_halo_create(ctx, 2, send, 2, recv, 0, &halo);
}

static peerwin_status run_free_plan(void) {
    peerwin_status status = peerwin_halo_free(halo);
    halo = NULL;
    return status;
}

static peerwin_status run_exchange(void) {
    TWICE(peerwin_halo_start(halo, job.stream));
    TWICE(peerwin_halo_finish(halo, job.stream));
    TWICE(peerwin_halo_release(halo, job.stream));
    TWICE(peerwin_stream_sync(ctx, job.stream));
    return repeats > 0 ? first_failure : PEERWIN_OK;
}

static void check_ghosts(void) {
    unsigned char got[4000];
    segment_load(win, 2000, got, 2000);
    for (int side = 0; side < 2; side++) {
        const int from = (job.rank + (side == 0 ? job.size - 1 : 1)) % job.size;
        unsigned char want[4000];
        pattern_write(want, from, 9, 2000);
        for (size_t row = 0; row < ROWS; row++) {
            const size_t at = (size_t)side * 50 + row * PITCH;
            check_bytes("a ghost", got + at, want + at, FACE / ROWS);
        }
    }
}

static void begin_plan(void) {
    unsigned char data[2000];
    repeats = 0;
    begin_window();
    pattern_write(data, job.rank, 9, sizeof(data));
    segment_store(win, 0, data, sizeof(data));
    CHECK_OK(run_plan());
}

static void use_exchange(void) {
    check_ghosts();
    CHECK_OK(run_free_plan());
    CHECK_OK(run_free());
}

static void use_plan(void) {
    unsigned char data[2000];
    repeats = 0;
    pattern_write(data, job.rank, 9, sizeof(data));
    segment_store(win, 0, data, sizeof(data));
    CHECK_OK(run_exchange());
    use_exchange();
}

static void use_freed_plan(void) {
    CHECK_OK(run_free());
}

/* ------------------------------------------------------------------------------------------------- the verdict */

/* One run: which call is struck, where. */
typedef struct {
    const phase *phase;
    int nth;
    int rank;
    CUresult code;
    char call[48];
} strike;

typedef struct {
    int status;
    int check;
    int struck;
    double seconds;
    char left[32];
    char text[TEXT_BYTES];
} result;

static result *results;
static int problems;

static void problem(const strike *s, const char *what) {
    problems++;
    if (job.rank != 0) {
        return;
    }
    fprintf(stderr, "PROBLEM %s, call %d of %s on rank %d of %d fails with %d: %s\n", s->phase->name, s->nth, s->call,
            s->rank, job.size, (int)s->code, what);
    for (int i = 0; i < job.size; i++) {
        fprintf(stderr, "  rank %d: %s, then %s, %.3f s, left \"%s\": %s\n", i,
                peerwin_strerror((peerwin_status)results[i].status), peerwin_strerror((peerwin_status)results[i].check),
                results[i].seconds, results[i].left, results[i].text);
    }
}

static int tells_of_a_peer(int status) {
    return status == PEERWIN_ERR_TIMEOUT || status == PEERWIN_ERR_PEER_LOST || status == PEERWIN_ERR_ABORTED ||
           status == PEERWIN_ERR_MPI || status == PEERWIN_ERR_SYSTEM || status == PEERWIN_ERR_CONTEXT_LOST;
}

/* A local call fails on the rank that is struck, all others on every rank. */
static const char *judge_rank(const strike *s, int rank) {
    const result *r = &results[rank];
    char name[24];
    snprintf(name, sizeof(name), "rank %d", s->rank);
    if (r->seconds > AT_ONCE) {
        return "it took too long";
    }
    if (s->phase->is_local ? rank != s->rank && r->status != PEERWIN_OK : r->status != results[0].status) {
        return "the ranks disagree";
    }
    if (r->check != PEERWIN_OK) {
        return "the context is broken";
    }
    if (r->left[0] != '\0') {
        return "something is left over";
    }
    if (r->status == PEERWIN_OK) {
        return NULL;
    }
    if (tells_of_a_peer(r->status)) {
        return "the status does not tell of a driver call";
    }
    return test_text_has(r->text, name) ? NULL : "the text does not name the rank";
}

static void judge(const strike *s) {
    for (int rank = 0; rank < job.size; rank++) {
        const char *wrong = judge_rank(s, rank);
        if (wrong != NULL) {
            problem(s, wrong);
            return;
        }
    }
}

/* ---------------------------------------------------------------------------------------------------- one run */

static void take_text(const strike *s, result *mine) {
    if (mine->status != PEERWIN_OK) {
        snprintf(mine->text, sizeof(mine->text), "%s", s->phase->is_local ? first_text : peerwin_last_error());
    }
}

/* What failed holds nothing. */
static void take_left_over(const strike *s, result *mine, const device_snapshot *before) {
    if (mine->status == PEERWIN_OK || s->phase->is_local) {
        return;
    }
    const char *left = device_left_over(before);
    if (left != NULL) {
        snprintf(mine->left, sizeof(mine->left), "%s", left);
    }
}

static void finish_run(const strike *s, const result *mine) {
    if (s->phase->is_local) {
        s->phase->use();
        return;
    }
    if (mine->status != PEERWIN_OK && !s->phase->is_release) {
        CHECK_OK(s->phase->run());
    }
    s->phase->use();
}

/* Returns 1 if the call was struck: if it was not, there are fewer calls. */
static int one_run(const strike *s) {
    result mine = {0};
    leaks_snapshot *process = leaks_take();
    device_snapshot whole = device_take();
    s->phase->begin();
    device_snapshot before = device_take();
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank == s->rank) {
        script_fail(s->call, s->nth, (int)s->code);
    }
    double start = test_seconds();
    mine.status = (int)s->phase->run();
    mine.seconds = test_seconds() - start;
    mine.struck = job.rank == s->rank ? script_end() : 0;
    take_text(s, &mine);
    take_left_over(s, &mine, &before);
    mine.check = ctx != NULL ? (int)peerwin_check(ctx) : 0;
    MPI_Allgather(&mine, (int)sizeof(mine), MPI_BYTE, results, (int)sizeof(mine), MPI_BYTE, MPI_COMM_WORLD);
    if (results[s->rank].struck) {
        judge(s);
    } else {
        CHECK_OK((peerwin_status)mine.status);
    }
    finish_run(s, &mine);
    MPI_Barrier(MPI_COMM_WORLD);
    device_check(&whole);
    leaks_check(process);
    return results[s->rank].struck;
}

/* ------------------------------------------------------------------------------------------------- the phases */

/* The names of the calls that some rank makes when nothing fails, each once. */
static struct {
    char names[MOST_NAMES][48];
    int count;
} calls;

static void add_name(const char *name) {
    for (int i = 0; i < calls.count; i++) {
        if (strcmp(calls.names[i], name) == 0) {
            return;
        }
    }
    CHECK(calls.count < MOST_NAMES);
    snprintf(calls.names[calls.count++], sizeof(calls.names[0]), "%s", name);
}

static void merge_names(void) {
    size_t bytes = sizeof(calls);
    unsigned char *all = host_new(bytes * (size_t)job.size);
    MPI_Allgather(&calls, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    memcpy(&calls, all, bytes);
    for (int rank = 1; rank < job.size; rank++) {
        __typeof__(calls) theirs;
        memcpy(&theirs, all + bytes * (size_t)rank, bytes);
        for (int i = 0; i < theirs.count; i++) {
            add_name(theirs.names[i]);
        }
    }
    free(all);
}

static void learn_names(const phase *p) {
    memset(&calls, 0, sizeof(calls));
    p->begin();
    script_listen();
    CHECK_OK(p->run());
    for (int i = 1; script_name(i)[0] != '\0'; i++) {
        add_name(script_name(i));
    }
    script_end();
    p->use();
    MPI_Barrier(MPI_COMM_WORLD);
    merge_names();
}

/*
 * Looking up the entry points fails in one way, and so does asking again whether something is done, so not each is
 * tried. With two ranks every call fails with either code; with more it is some of the calls, others for each number of
 * ranks.
 */
static int is_worth_it(const strike *s, int name, int variant) {
    if (strcmp(s->call, "cuGetProcAddress") == 0) {
        return s->nth % 16 == 1;
    }
    return job.size <= 2 || (name + s->nth + job.size + variant) % 4 == 0;
}

static int is_last(const strike *s) {
    return s->nth == (strstr(s->call, "Query") != NULL ? 4 : MOST_CALLS);
}

/* PWTEST_CALLS: only calls with that in their names. */
static int is_wanted(const char *name) {
    const char *part = getenv("PWTEST_CALLS");
    return part == NULL || strstr(name, part) != NULL;
}

static int sweep_call(const phase *p, int name, int variant) {
    int runs = 0;
    strike s = {.phase = p, .code = code_of(calls.names[name], variant)};
    snprintf(s.call, sizeof(s.call), "%s", calls.names[name]);
    for (s.nth = 1; !is_last(&s); s.nth++) {
        s.rank = (s.nth + name + variant) % job.size;
        if (is_worth_it(&s, name, variant)) {
            if (!one_run(&s)) {
                return runs;
            }
            runs++;
        }
    }
    CHECK(s.nth < MOST_CALLS);
    return runs;
}

static void sweep(const phase *p) {
    int runs = 0;
    test_env("PEERWIN_LOG", "error");
    results = host_new((size_t)job.size * sizeof(*results));
    problems = 0;
    learn_names(p);
    for (int name = 0; name < calls.count; name++) {
        for (int variant = 0; variant < VARIANTS && is_wanted(calls.names[name]); variant++) {
            runs += sweep_call(p, name, variant);
        }
    }
    free(results);
    test_env("PEERWIN_LOG", NULL);
    if (job.rank == 0) {
        printf("   %s: %d kinds of call, %d runs with a failure injected\n", p->name, calls.count, runs);
    }
    CHECK(runs > 0);
    CHECK_EQUAL(problems, 0);
}

static void sweep_in_context(const phase *p) {
    begin_context();
    sweep(p);
    CHECK_OK(run_finalize());
}

static void init_survives_a_failure_of_any_driver_call(void) {
    static const phase init = {.name = "init", .begin = nothing, .run = run_init, .use = use_context};
    sweep(&init);
}

static void alloc_survives_a_failure_of_any_driver_call(void) {
    static const phase alloc = {.name = "alloc", .begin = nothing, .run = run_alloc, .use = use_window};
    sweep_in_context(&alloc);
}

static const phase attaching = {.name = "attach", .begin = nothing, .run = run_attach, .use = use_window};

static void attach_of_an_allocation_survives_a_failure_of_any_driver_call(void) {
    memory_bytes = 1 << 20;
    memory = device_new(memory_bytes);
    sweep_in_context(&attaching);
    device_free(memory);
}

static void attach_of_virtual_memory_survives_a_failure_of_any_driver_call(void) {
    range r = range_new(2, range_granularity(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    memory = r.base;
    memory_bytes = r.bytes;
    sweep_in_context(&attaching);
    range_free(&r);
}

static void attach_of_a_pools_memory_survives_a_failure_of_any_driver_call(void) {
    CUmemoryPool pool = pool_new();
    memory_bytes = 1 << 20;
    memory = pool_take(pool, memory_bytes);
    sweep_in_context(&attaching);
    ordered_free(memory);
    pool_free(pool);
}

static void transfers_survive_a_failure_of_any_driver_call(void) {
    static const phase transfers = {
        .name = "put", .begin = begin_transfers, .run = run_transfers, .use = use_transfers, .is_local = 1};
    sweep_in_context(&transfers);
}

static void free_survives_a_failure_of_any_driver_call(void) {
    static const phase freeing = {
        .name = "free", .begin = begin_window, .run = run_free, .use = nothing, .is_release = 1};
    sweep_in_context(&freeing);
}

static void finalize_survives_a_failure_of_any_driver_call(void) {
    static const phase finalizing = {
        .name = "finalize", .begin = begin_all, .run = run_finalize, .use = nothing, .is_release = 1};
    sweep(&finalizing);
}

/* The making, the exchange and the end of a plan. */
static void plans_survive_a_failure_of_any_driver_call(void) {
    static const phase making = {.name = "plan", .begin = begin_window, .run = run_plan, .use = use_plan};
    static const phase exchanging = {
        .name = "exchange", .begin = begin_plan, .run = run_exchange, .use = use_exchange, .is_local = 1};
    static const phase freeing = {
        .name = "free of a plan", .begin = begin_plan, .run = run_free_plan, .use = use_freed_plan, .is_release = 1};
    sweep_in_context(&making);
    sweep_in_context(&exchanging);
    sweep_in_context(&freeing);
}

static const test_case cases[] = {
    TEST_CASE(init_survives_a_failure_of_any_driver_call, 1, 0),
    TEST_CASE(alloc_survives_a_failure_of_any_driver_call, 1, 0),
    TEST_CASE(attach_of_an_allocation_survives_a_failure_of_any_driver_call, 1, 0),
    TEST_CASE(attach_of_virtual_memory_survives_a_failure_of_any_driver_call, 1, 0),
    TEST_CASE(attach_of_a_pools_memory_survives_a_failure_of_any_driver_call, 2, 0),
    TEST_CASE(transfers_survive_a_failure_of_any_driver_call, 1, 0),
    TEST_CASE(free_survives_a_failure_of_any_driver_call, 1, 0),
    TEST_CASE(plans_survive_a_failure_of_any_driver_call, 1, 0),
    TEST_CASE(finalize_survives_a_failure_of_any_driver_call, 1, 0),
};
TEST_MAIN(cases)
