/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Bad input: each is refused with its status and a sentence that helps, on every rank where the call is collective,
 * and the context works afterwards.
 */
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"

/* ------------------------------------------------------------------------------------------------ transfers */

static void check_rank_refused(peerwin_win *win, int rank) {
    char word[32];
    char bytes[16] = "";
    peerwin_box box = {.offset = 0, .count = {4, 1, 1}, .stride = {0, 0}};
    snprintf(word, sizeof(word), "%d", rank);
    CHECK_STATUS(peerwin_put(win, rank, 0, bytes, 4, job.stream), PEERWIN_ERR_ARG, "rank", word);
    CHECK_STATUS(peerwin_get(win, rank, 0, bytes, 4, job.stream), PEERWIN_ERR_ARG, "rank", word);
    CHECK_STATUS(peerwin_put_box(win, rank, &box, bytes, &box, job.stream), PEERWIN_ERR_ARG, "rank", word);
    CHECK_STATUS(peerwin_get_box(win, rank, &box, bytes, &box, job.stream), PEERWIN_ERR_ARG, "rank", word);
    CHECK_STATUS(peerwin_signal(win, rank, 0, PEERWIN_SIGNAL_SET, 1, job.stream), PEERWIN_ERR_ARG, "rank", word);
    CHECK_STATUS(peerwin_put_signal(win, rank, 0, bytes, 4, 0, PEERWIN_SIGNAL_SET, 1, job.stream), PEERWIN_ERR_ARG,
                 "rank", word);
}

static void a_rank_out_of_range_is_refused_by_every_call(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 64);
    peerwin_peer peer = {.size = sizeof(peer)};
    check_rank_refused(win, job.size);
    check_rank_refused(win, -1);
    check_rank_refused(win, MPI_ANY_SOURCE);
    check_rank_refused(win, 2147483647);
    CHECK_STATUS(peerwin_peer_query(ctx, job.size, &peer), PEERWIN_ERR_ARG, "rank");
    CHECK_STATUS(peerwin_peer_query(ctx, -1, &peer), PEERWIN_ERR_ARG, "rank");
    peer.size = 0;
    CHECK_STATUS(peerwin_peer_query(ctx, 0, &peer), PEERWIN_ERR_ARG, "size");
    CHECK_STATUS(peerwin_peer_query(ctx, 0, NULL), PEERWIN_ERR_ARG, "NULL");
    test_free(ctx, win);
}

static void check_range_refused(peerwin_win *win, size_t offset, size_t bytes, size_t size) {
    int right = (job.rank + 1) % job.size;
    char buffer[128] = "";
    CHECK_STATUS(peerwin_put(win, right, offset, buffer, bytes, job.stream), PEERWIN_ERR_RANGE, test_number(offset),
                 test_number(bytes), test_number(size));
    CHECK_STATUS(peerwin_get(win, right, offset, buffer, bytes, job.stream), PEERWIN_ERR_RANGE, test_number(offset),
                 test_number(bytes), test_number(size));
    CHECK_STATUS(peerwin_put_signal(win, right, offset, buffer, bytes, 0, PEERWIN_SIGNAL_SET, 1, job.stream),
                 PEERWIN_ERR_RANGE, test_number(offset), test_number(bytes), test_number(size));
}

static void a_range_outside_the_segment_is_refused_naming_offset_bytes_and_size(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    /* Sizes differ, so that the check must use the target's. */
    peerwin_win *win = test_window(ctx, 1000 + 16 * (size_t)job.rank);
    size_t size = peerwin_win_bytes(win, (job.rank + 1) % job.size);
    check_range_refused(win, size, 1, size);
    check_range_refused(win, size - 63, 64, size);
    check_range_refused(win, 0, size + 1, size);
    check_range_refused(win, SIZE_MAX, 1, size);
    check_range_refused(win, SIZE_MAX - 7, 16, size);
    check_range_refused(win, 16, SIZE_MAX - 7, size);
    check_range_refused(win, (size_t)1 << 63, (size_t)1 << 63, size);
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    uint64_t value = 1;
    CHECK_OK(peerwin_signal_read(win, 0, &value));
    CHECK_EQUAL(value, 0);
    unsigned char *got = host_new(1000);
    segment_load(win, 0, got, 1000);
    check_all("the segment", got, 0, 1000);
    free(got);
    test_free(ctx, win);
}

static void a_slot_out_of_range_is_refused_naming_it(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 64);
    char bytes[8] = "";
    uint64_t value = 0;
    CHECK_STATUS(peerwin_signal(win, 0, 64, PEERWIN_SIGNAL_SET, 1, job.stream), PEERWIN_ERR_ARG, "slot", "64");
    CHECK_STATUS(peerwin_signal(win, 0, 4294967295u, PEERWIN_SIGNAL_SET, 1, job.stream), PEERWIN_ERR_ARG, "slot",
                 "4294967295");
    CHECK_STATUS(peerwin_put_signal(win, 0, 0, bytes, 8, 64, PEERWIN_SIGNAL_SET, 1, job.stream), PEERWIN_ERR_ARG,
                 "slot");
    CHECK_STATUS(peerwin_wait(win, 64, 1, job.stream), PEERWIN_ERR_ARG, "slot");
    CHECK_STATUS(peerwin_consume(win, 64, 1, job.stream), PEERWIN_ERR_ARG, "slot");
    CHECK_STATUS(peerwin_signal_read(win, 64, &value), PEERWIN_ERR_ARG, "slot");
    CHECK_STATUS(peerwin_signal(win, 0, 0, (peerwin_signal_op)2, 1, job.stream), PEERWIN_ERR_ARG, "op");
    CHECK_STATUS(peerwin_put_signal(win, 0, 0, bytes, 8, 0, (peerwin_signal_op)7, 1, job.stream), PEERWIN_ERR_ARG,
                 "op");
    CHECK_OK(peerwin_signal_read(win, 0, &value));
    CHECK_EQUAL(value, 0);
    test_free(ctx, win);
}

static void null_handles_and_pointers_are_refused(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 64);
    char bytes[8] = "";
    uint64_t value = 0;
    peerwin_box box = {.offset = 0, .count = {4, 1, 1}, .stride = {0, 0}};
    peerwin_peer peer = {.size = sizeof(peer)};
    CHECK_STATUS(peerwin_put(NULL, 0, 0, bytes, 8, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_get(NULL, 0, 0, bytes, 8, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_put(NULL, MPI_PROC_NULL, 0, bytes, 8, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_put(win, 0, 0, NULL, 8, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_get(win, 0, 0, NULL, 8, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_put_box(win, 0, NULL, bytes, &box, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_put_box(win, 0, &box, NULL, &box, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_put_box(win, 0, &box, bytes, NULL, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_get_box(win, 0, NULL, bytes, &box, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_get_box(NULL, 0, &box, bytes, &box, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_signal(NULL, 0, 0, PEERWIN_SIGNAL_SET, 1, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_put_signal(NULL, 0, 0, bytes, 8, 0, PEERWIN_SIGNAL_SET, 1, job.stream), PEERWIN_ERR_ARG,
                 "NULL");
    CHECK_STATUS(peerwin_put_signal(win, 0, 0, NULL, 8, 0, PEERWIN_SIGNAL_SET, 1, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_wait(NULL, 0, 1, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_consume(NULL, 0, 1, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_signal_read(NULL, 0, &value), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_signal_read(win, 0, NULL), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_quiet(NULL, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_barrier(NULL, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_stream_sync(NULL, job.stream), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_check(NULL), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_abort(NULL), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_peer_query(NULL, 0, &peer), PEERWIN_ERR_ARG, "NULL");
    peerwin_win *none = NULL;
    CHECK_STATUS(peerwin_win_alloc(NULL, 8, NULL, &none), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS(peerwin_win_attach(NULL, bytes, 8, NULL, &none), PEERWIN_ERR_ARG, "NULL");
    CHECK(none == NULL);
    CHECK_OK(peerwin_signal_read(win, 0, &value));
    CHECK_EQUAL(value, 0);
    test_free(ctx, win);
}

/* ----------------------------------------------------------------------------------------- window options */

static void check_alloc_refused(peerwin_ctx *ctx, size_t bytes, const peerwin_win_config *config, peerwin_status status,
                                const char *word) {
    peerwin_win *win = NULL;
    CHECK_STATUS_ALL(peerwin_win_alloc(ctx, bytes, config, &win), status, word);
    CHECK(win == NULL);
}

/* The same bad option on every rank, then on one rank only. */
static void check_option_refused(peerwin_ctx *ctx, const peerwin_win_config *bad, peerwin_status status,
                                 const char *word) {
    peerwin_win_config good;
    peerwin_win_config_init(&good);
    check_alloc_refused(ctx, 64, bad, status, word);
    check_alloc_refused(ctx, 64, job.rank == job.size - 1 ? bad : &good, status, word);
}

static void bad_window_options_are_refused_on_every_rank(void) {
    static const int outside = 1 << 20;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win_config config;
    peerwin_win_config_init(&config);
    config.size = 0;
    check_option_refused(ctx, &config, PEERWIN_ERR_ARG, "size");
    config.size = sizeof(config) - 1;
    check_option_refused(ctx, &config, PEERWIN_ERR_ARG, "size");
    peerwin_win_config_init(&config);
    config.handles = 1u << 20;
    check_option_refused(ctx, &config, PEERWIN_ERR_ARG, "handles");
    peerwin_win_config_init(&config);
    config.num_signals = 65537;
    check_option_refused(ctx, &config, PEERWIN_ERR_ARG, "65536");
    peerwin_win_config_init(&config);
    config.num_neighbors = -1;
    check_option_refused(ctx, &config, PEERWIN_ERR_ARG, "neighbors");
    config.neighbors = &outside;
    config.num_neighbors = 1;
    check_option_refused(ctx, &config, PEERWIN_ERR_ARG, "neighbor");
    peerwin_win_config_init(&config);
    config.num_neighbors = 3;
    check_option_refused(ctx, &config, PEERWIN_ERR_ARG, "neighbors");
    CHECK_OK(peerwin_finalize(ctx));
}

static void what_windows_cannot_do_yet_is_unsupported(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win_config config;
    peerwin_win_config_init(&config);
    config.reserve_bytes = 1 << 20;
    check_alloc_refused(ctx, 64, &config, PEERWIN_ERR_UNSUPPORTED, "reserve_bytes");
    if (job.space == PEERWIN_SPACE_HOST) {
        peerwin_win_config_init(&config);
        config.handles = PEERWIN_HANDLE_LEGACY;
        check_alloc_refused(ctx, 64, &config, PEERWIN_ERR_UNSUPPORTED, "handles");
    }
    CHECK_OK(peerwin_finalize(ctx));
}

/* A struct longer than the library's: fine if what the library does not know is zero. */
static void a_larger_config_is_taken_if_its_tail_is_zero(void) {
    struct {
        peerwin_win_config config;
        char tail[64];
    } larger;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    memset(&larger, 0, sizeof(larger));
    larger.config.size = sizeof(larger);
    peerwin_win *win = NULL;
    CHECK_OK(peerwin_win_alloc(ctx, 64, &larger.config, &win));
    CHECK_OK(peerwin_win_free(win));
    larger.tail[63] = 1;
    check_alloc_refused(ctx, 64, &larger.config, PEERWIN_ERR_ARG, "peerwin_win_config");
    CHECK_OK(peerwin_finalize(ctx));
}

static void different_window_options_are_a_mismatch_that_shows_both_sides(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = NULL;
    peerwin_win_config config;
    peerwin_win_config_init(&config);
    config.num_signals = job.rank == job.size - 1 ? 77 : 33;
    CHECK_STATUS_ALL(peerwin_win_alloc(ctx, 64, &config, &win), PEERWIN_ERR_MISMATCH, "77", "33", "num_signals");
    peerwin_win_config_init(&config);
    config.read_only = job.rank == 0;
    CHECK_STATUS_ALL(peerwin_win_alloc(ctx, 64, &config, &win), PEERWIN_ERR_MISMATCH, "read_only");
    CHECK(win == NULL);
    CHECK_OK(peerwin_finalize(ctx));
}

static void no_place_for_the_window_is_refused_on_every_rank(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = NULL;
    CHECK_STATUS_ALL(peerwin_win_alloc(ctx, 64, NULL, job.rank == job.size - 1 ? NULL : &win), PEERWIN_ERR_ARG, "NULL");
    CHECK(win == NULL);
    CHECK_STATUS_ALL(peerwin_win_alloc(ctx, 64, NULL, NULL), PEERWIN_ERR_ARG, "NULL");
    CHECK_OK(peerwin_finalize(ctx));
}

static void more_memory_than_there_is_on_one_rank_fails_on_all_and_names_it(void) {
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4095, (size_t)1 << 63, (size_t)1 << 62, (size_t)1 << 50};
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    char name[32];
    snprintf(name, sizeof(name), "rank %d", job.size - 1);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        peerwin_win *win = NULL;
        CHECK_STATUS_ALL(peerwin_win_alloc(ctx, job.rank == job.size - 1 ? sizes[i] : 64, NULL, &win),
                         PEERWIN_ERR_NO_MEMORY, name);
        CHECK(win == NULL);
    }
    test_free(ctx, test_window(ctx, 64));
}

/* ----------------------------------------------------------------------------------------- context options */

static void check_init_refused(const peerwin_config *config, peerwin_status status, const char *word) {
    peerwin_ctx *ctx = NULL;
    CHECK_STATUS_ALL(peerwin_init(MPI_COMM_WORLD, config, &ctx), status, word);
    CHECK(ctx == NULL);
}

static peerwin_config default_config(void) {
    peerwin_config config;
    peerwin_config_init(&config);
    config.space = job.space;
    return config;
}

static void check_config_refused(const peerwin_config *bad, peerwin_status status, const char *word) {
    peerwin_config good = default_config();
    check_init_refused(bad, status, word);
    check_init_refused(job.rank == job.size - 1 ? bad : &good, status, word);
}

static void bad_context_options_are_refused_on_every_rank(void) {
    peerwin_config config = default_config();
    config.size = 0;
    check_config_refused(&config, PEERWIN_ERR_ARG, "size");
    config.size = sizeof(config) - 8;
    check_config_refused(&config, PEERWIN_ERR_ARG, "size");
    config = default_config();
    config.flags = 1u << 30;
    check_config_refused(&config, PEERWIN_ERR_ARG, "flag");
    config = default_config();
    config.space = (peerwin_space)17;
    check_config_refused(&config, PEERWIN_ERR_ARG, "space");
    config = default_config();
    config.handles = 1u << 9;
    check_config_refused(&config, PEERWIN_ERR_ARG, "handles");
    config = default_config();
    config.barrier = (peerwin_barrier_kind)9;
    check_config_refused(&config, PEERWIN_ERR_ARG, "barrier");
    config = default_config();
    config.timeout_ms = -2;
    check_config_refused(&config, PEERWIN_ERR_ARG, "timeout");
    config = default_config();
    config.num_devices = -1;
    check_config_refused(&config, PEERWIN_ERR_ARG, "num_devices");
}

static void a_larger_context_config_is_taken_if_its_tail_is_zero(void) {
    struct {
        peerwin_config config;
        char tail[64];
    } larger;
    memset(&larger, 0, sizeof(larger));
    larger.config = default_config();
    larger.config.size = sizeof(larger);
    peerwin_ctx *ctx = NULL;
    CHECK_OK(peerwin_init(MPI_COMM_WORLD, &larger.config, &ctx));
    CHECK_OK(peerwin_finalize(ctx));
    larger.tail[0] = 1;
    check_init_refused(&larger.config, PEERWIN_ERR_ARG, "peerwin_config");
}

static void what_this_build_or_machine_lacks_is_unsupported(void) {
    if (test_agree_skip(job.space != PEERWIN_SPACE_HOST, "host space only")) {
        return;
    }
    peerwin_config config = default_config();
    config.barrier = PEERWIN_BARRIER_EVENT;
    check_init_refused(&config, PEERWIN_ERR_UNSUPPORTED, "barrier");
    config = default_config();
    config.handles = PEERWIN_HANDLE_FABRIC;
    check_init_refused(&config, PEERWIN_ERR_UNSUPPORTED, "handle");
}

static void check_differ(const peerwin_config *config, const char *mine, const char *theirs) {
    peerwin_ctx *ctx = NULL;
    CHECK_STATUS_ALL(peerwin_init(MPI_COMM_WORLD, config, &ctx), PEERWIN_ERR_MISMATCH, mine, theirs, "rank");
    CHECK(ctx == NULL);
}

static void different_context_options_are_a_mismatch_that_shows_both_sides(void) {
    peerwin_config config = default_config();
    config.timeout_ms = job.rank == job.size - 1 ? 7777 : 3333;
    check_differ(&config, "7777", "3333");
    config = default_config();
    config.flags = job.rank == 0 ? PEERWIN_NO_VERIFY : 0;
    check_differ(&config, "flags", "0");
    if (job.space == PEERWIN_SPACE_HOST) {
        config = default_config();
        config.space = job.rank == 0 ? PEERWIN_SPACE_AUTO : PEERWIN_SPACE_HOST;
        check_differ(&config, "space", "differs");
    }
    config = default_config();
    test_env("PEERWIN_TIMEOUT", job.rank == 0 ? "5.5" : "6.5");
    check_differ(&config, "5500", "6500");
    test_env("PEERWIN_TIMEOUT", NULL);
    test_env("PEERWIN_NODE_RANKS", job.rank == 0 ? "1" : NULL);
    check_differ(&config, "NODE_RANKS", "1");
    test_env("PEERWIN_NODE_RANKS", NULL);
}

static void a_bad_communicator_or_place_is_refused(void) {
    peerwin_ctx *ctx = NULL;
    CHECK_STATUS(peerwin_init(MPI_COMM_NULL, NULL, &ctx), PEERWIN_ERR_ARG, "comm");
    CHECK_STATUS_ALL(peerwin_init(MPI_COMM_WORLD, NULL, NULL), PEERWIN_ERR_ARG, "NULL");
    CHECK_STATUS_ALL(peerwin_init(MPI_COMM_WORLD, NULL, job.rank == job.size - 1 ? NULL : &ctx), PEERWIN_ERR_ARG,
                     "NULL");
    CHECK(ctx == NULL);
}

static void an_intercommunicator_is_refused(void) {
    MPI_Comm half;
    MPI_Comm between;
    peerwin_ctx *ctx = NULL;
    MPI_Comm_split(MPI_COMM_WORLD, job.rank % 2, job.rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - job.rank % 2, 5, &between);
    CHECK_STATUS(peerwin_init(between, NULL, &ctx), PEERWIN_ERR_ARG, "intercommunicator");
    CHECK(ctx == NULL);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

/* ---------------------------------------------------------------------------------------------- environment */

typedef struct {
    const char *name;
    const char *bad;
    const char *valid; /* a valid value that the sentence must list */
} bad_value;

static void check_value_refused(const bad_value *row) {
    test_env(row->name, row->bad);
    peerwin_ctx *ctx = NULL;
    peerwin_config config = default_config();
    CHECK_STATUS_ALL(peerwin_init(MPI_COMM_WORLD, &config, &ctx), PEERWIN_ERR_ARG, row->name, row->bad, row->valid);
    test_env(row->name, NULL);
    if (job.rank == job.size - 1) {
        test_env(row->name, row->bad);
    }
    CHECK_STATUS_ALL(peerwin_init(MPI_COMM_WORLD, &config, &ctx), PEERWIN_ERR_ARG, row->name, row->bad, row->valid);
    CHECK(ctx == NULL);
    test_env(row->name, NULL);
}

static void unknown_environment_values_are_refused_listing_the_valid_ones(void) {
    static const bad_value rows[] = {
        {"PEERWIN_SPACE", "hots", "host"},
        {"PEERWIN_HANDLES", "fd,wheel", "legacy"},
        {"PEERWIN_BARRIER", "quick", "memop"},
        {"PEERWIN_TIMEOUT", "soon", "seconds"},
        {"PEERWIN_TIMEOUT", "-3", "seconds"},
        {"PEERWIN_TIMEOUT", "1e99", "seconds"},
        {"PEERWIN_TIMEOUT", "nan", "seconds"},
        {"PEERWIN_STRICT", "yes", "1"},
        {"PEERWIN_VERIFY", "2", "1"},
        {"PEERWIN_LOG", "loud", "debug"},
        {"PEERWIN_NODE_RANKS", "0", "1"},
        {"PEERWIN_NODE_RANKS", "2x", "1"},
        {"PEERWIN_NODE_RANKS", "99999999999999999999", "1"},
        {"PEERWIN_DEVICE", "first", "spread"},
        {"PEERWIN_SOCKET_DIR", "here", "absolute"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_value_refused(&rows[i]);
    }
}

static void the_environment_overrides_the_config(void) {
    peerwin_config config = default_config();
    peerwin_ctx *ctx = NULL;
    config.timeout_ms = 3600 * 1000;
    test_env("PEERWIN_TIMEOUT", "0.2");
    CHECK_OK(peerwin_init(MPI_COMM_WORLD, &config, &ctx));
    test_env("PEERWIN_TIMEOUT", NULL);
    peerwin_win *win = test_window(ctx, 8);
    CHECK_STATUS(done(ctx, peerwin_wait(win, 0, 1, job.stream)), PEERWIN_ERR_TIMEOUT, "slot");
    test_fulfil(ctx, win, 0, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    test_free(ctx, win);
}

static void every_log_level_works_and_verification_can_be_left_out(void) {
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    for (int i = 0; i < 4; i++) {
        /* The louder levels write to stderr: as little as possible of it. */
        test_env("PEERWIN_LOG", levels[i]);
        test_env("PEERWIN_VERIFY", i % 2 == 0 ? "0" : "1");
        peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
        test_free(ctx, test_window(ctx, 64));
    }
    test_env("PEERWIN_LOG", NULL);
    test_env("PEERWIN_VERIFY", NULL);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    CHECK_OK(peerwin_finalize(ctx));
}

/* --------------------------------------------------------------------------------------------------- status */

static void every_status_has_a_text_and_the_versions_agree(void) {
#define TEXT_IS(name, number, text)                                                                                    \
    CHECK_EQUAL(PEERWIN_##name, number);                                                                               \
    CHECK(strcmp(peerwin_strerror((peerwin_status)(number)), text) == 0);
    PEERWIN_STATUS_MAP(TEXT_IS)
#undef TEXT_IS
    CHECK(strlen(peerwin_strerror((peerwin_status)12345)) > 0);
    CHECK_EQUAL(peerwin_version(), PEERWIN_VERSION);
}

static void a_success_leaves_the_last_error_as_it_was(void) {
    char before[2048];
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    CHECK_STATUS(peerwin_quiet(NULL, job.stream), PEERWIN_ERR_ARG, "peerwin_quiet");
    snprintf(before, sizeof(before), "%s", peerwin_last_error());
    CHECK_OK(peerwin_quiet(ctx, job.stream));
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    CHECK(strcmp(before, peerwin_last_error()) == 0);
    CHECK_OK(peerwin_finalize(ctx));
    CHECK(strcmp(before, peerwin_last_error()) == 0);
}

static const test_case cases[] = {
    TEST_CASE(a_rank_out_of_range_is_refused_by_every_call, 1, 0),
    TEST_CASE(a_range_outside_the_segment_is_refused_naming_offset_bytes_and_size, 1, 0),
    TEST_CASE(a_slot_out_of_range_is_refused_naming_it, 1, 0),
    TEST_CASE(null_handles_and_pointers_are_refused, 1, 0),
    TEST_CASE(bad_window_options_are_refused_on_every_rank, 1, 0),
    TEST_CASE(what_windows_cannot_do_yet_is_unsupported, 1, 0),
    TEST_CASE(a_larger_config_is_taken_if_its_tail_is_zero, 1, 0),
    TEST_CASE(different_window_options_are_a_mismatch_that_shows_both_sides, 2, 0),
    TEST_CASE(no_place_for_the_window_is_refused_on_every_rank, 1, 0),
    TEST_CASE(more_memory_than_there_is_on_one_rank_fails_on_all_and_names_it, 1, 0),
    TEST_CASE(bad_context_options_are_refused_on_every_rank, 1, 0),
    TEST_CASE(a_larger_context_config_is_taken_if_its_tail_is_zero, 1, 0),
    TEST_CASE(what_this_build_or_machine_lacks_is_unsupported, 1, 0),
    TEST_CASE(different_context_options_are_a_mismatch_that_shows_both_sides, 2, 0),
    TEST_CASE(a_bad_communicator_or_place_is_refused, 1, 0),
    TEST_CASE(an_intercommunicator_is_refused, 2, 0),
    TEST_CASE(unknown_environment_values_are_refused_listing_the_valid_ones, 1, 0),
    TEST_CASE(the_environment_overrides_the_config, 1, 4),
    TEST_CASE(every_log_level_works_and_verification_can_be_left_out, 1, 2),
    TEST_CASE(every_status_has_a_text_and_the_versions_agree, 1, 0),
    TEST_CASE(a_success_leaves_the_last_error_as_it_was, 1, 0),
};
TEST_MAIN(cases)
