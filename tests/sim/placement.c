/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Who can reach whom on which machine, and what is said of it: devices shared or hidden, without peer access, instances
 * of one device, fabric handles that are announced and refused. The machine is pretended by the job's environment.
 *
 * Pairs without a direct path have no path at all in this version: what is not checked for them is that data comes by
 * messages.
 */
#include <stdlib.h>
#include <string.h>

#include "script.h"
#include "support/calls.h"
#include "support/leaks.h"
#include "support/listen.h"
#include "support/memory.h"

static int right_of(int rank) {
    return (rank + 1) % job.size;
}

static int left_of(int rank) {
    return (rank + job.size - 1) % job.size;
}

static peerwin_peer query(const peerwin_ctx *ctx, int rank) {
    peerwin_peer peer = {.size = sizeof(peer)};
    CHECK_OK(peerwin_peer_query(ctx, rank, &peer));
    return peer;
}

/* A context with what all ranks wrote meanwhile; NULL if init failed, with the status. */
static peerwin_ctx *heard_context(unsigned flags, unsigned handles, char **text_out, peerwin_status *status_out) {
    peerwin_config config;
    peerwin_ctx *ctx = NULL;
    peerwin_config_init(&config);
    config.space = PEERWIN_SPACE_CUDA;
    config.flags = flags;
    config.handles = handles;
    MPI_Barrier(MPI_COMM_WORLD);
    listener l = listen_begin();
    *status_out = peerwin_init(MPI_COMM_WORLD, &config, &ctx);
    char *mine = listen_end(&l);
    test_check_same(__FILE__, __LINE__, "peerwin_init", *status_out);
    *text_out = listen_all(mine);
    free(mine);
    return ctx;
}

/* 1 MiB of Fill to the right, and got from the left. */
static void check_both_ways(peerwin_ctx *ctx) {
    enum { BYTES = 1 << 20 };
    peerwin_win *win = test_window(ctx, 2 * BYTES);
    void *buffer = buffer_new(BYTES);
    fill_buffer(buffer, 0, job.rank, 0, BYTES / 8);
    fill_segment(win, BYTES, job.rank, 7, BYTES / 8);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    CHECK_OK(peerwin_put(win, right_of(job.rank), 0, buffer, BYTES, job.stream));
    CHECK_OK(peerwin_get(win, left_of(job.rank), BYTES, buffer, BYTES, job.stream));
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    check_fill_segment(win, 0, left_of(job.rank), 0, BYTES / 8);
    check_fill_buffer(buffer, 0, left_of(job.rank), 7, BYTES / 8);
    buffer_free(buffer);
    CHECK_OK(peerwin_win_free(win));
}

static void check_matched_by_uuid(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (int rank = 0; rank < job.size; rank++) {
        peerwin_peer peer = query(ctx, rank);
        CHECK_EQUAL(peer.path, rank == job.rank ? PEERWIN_PATH_SELF : PEERWIN_PATH_DIRECT);
        if (rank == job.rank) {
            CHECK_EQUAL(peer.link, PEERWIN_LINK_SAME_DEVICE);
        } else if (device_is_real()) {
            CHECK(peer.link == PEERWIN_LINK_NVLINK || peer.link == PEERWIN_LINK_PCIE);
        } else { /* the driver does not tell how a device is linked that it may not show, but NVML does */
            int switched = strncmp(getenv("SIMCUDA_TOPOLOGY"), "nvswitch", 8) == 0;
            CHECK_EQUAL(peer.link, switched ? PEERWIN_LINK_NVLINK : PEERWIN_LINK_PCIE);
            CHECK_EQUAL(peer.native_atomics, switched);
        }
        for (int other = 0; other < rank; other++) {
            CHECK(strcmp(peer.device, query(ctx, other).device) != 0);
        }
    }
    check_both_ways(ctx);
    CHECK_OK(peerwin_finalize(ctx));
}

/*
 * Every rank calls its device 0: they are told apart by UUID. A driver keeps descriptors for a hidden device that it
 * has begun to use, but no more of them for the next context.
 */
static void c1_ranks_that_see_one_device_each_are_matched_by_uuid(void) {
    enum { CONTEXTS = 4 };
    CHECK_EQUAL(device_count(), 1);
    check_matched_by_uuid();
    size_t descriptors = leaks_open_descriptors();
    for (int i = 0; i < CONTEXTS; i++) {
        check_matched_by_uuid();
    }
    CHECK(leaks_open_descriptors() <= descriptors);
}

static void c11_ranks_that_share_a_device_are_told_so_once(void) {
    peerwin_status status = PEERWIN_OK;
    char *text = NULL;
    peerwin_ctx *ctx = heard_context(0, 0, &text, &status);
    CHECK_OK(status);
    const char *uuid = query(ctx, 0).device;
    const char *notice = strstr(text, "share");
    if (listen_count(text, "share") != 1 || listen_count(text, uuid) != 1 || !test_text_has(notice, uuid) ||
        !test_text_has(text, "rank")) {
        test_fail(__FILE__, __LINE__, "no single notice with ranks and UUID: %s", text);
    }
    for (int rank = 0; rank < job.size; rank++) {
        CHECK(strcmp(query(ctx, rank).device, uuid) == 0);
        CHECK_EQUAL(query(ctx, rank).link, PEERWIN_LINK_SAME_DEVICE);
    }
    check_both_ways(ctx);
    free(text);
    CHECK_OK(peerwin_finalize(ctx));
}

/* No path between any two ranks: why is told by the query and in one notice, and strict mode refuses. */
static void check_no_path(const char *word) {
    peerwin_status status = PEERWIN_OK;
    char *text = NULL;
    peerwin_ctx *ctx = heard_context(0, 0, &text, &status);
    CHECK_OK(status);
    if (listen_count(text, "not every rank is reached directly") != 1 || !test_text_has(text, word)) {
        test_fail(__FILE__, __LINE__, "no single notice that names %s: %s", word, text);
    }
    free(text);
    peerwin_win *win = test_window(ctx, 4096);
    void *buffer = buffer_new(4096);
    for (int rank = 0; rank < job.size; rank++) {
        peerwin_peer peer = query(ctx, rank);
        if (rank == job.rank) {
            CHECK_EQUAL(peer.path, PEERWIN_PATH_SELF);
            CHECK_OK(done(ctx, peerwin_put(win, rank, 0, buffer, 4096, job.stream)));
            continue;
        }
        CHECK_EQUAL(peer.path, PEERWIN_PATH_NONE);
        CHECK_EQUAL(peer.link, PEERWIN_LINK_NONE);
        CHECK_EQUAL(peer.node, 0);
        CHECK(test_text_has(peer.reason, word));
        CHECK(peerwin_win_ptr(win, rank) == NULL);
        CHECK_STATUS(peerwin_put(win, rank, 0, buffer, 4096, job.stream), PEERWIN_ERR_UNREACHABLE, "rank");
    }
    buffer_free(buffer);
    test_free(ctx, win);
    CHECK(heard_context(PEERWIN_STRICT, 0, &text, &status) == NULL);
    CHECK_STATUS(status, PEERWIN_ERR_UNREACHABLE, "strict", word, "rank");
    free(text);
}

static void c12_instances_of_one_device_have_no_path_and_the_reason_says_mig(void) {
    check_no_path("MIG");
}

static void c14_without_peer_access_there_is_no_path_a_notice_and_strict_mode_refuses(void) {
    check_no_path("peer");
}

/* The device announces fabric handles and refuses to make one: there is no IMEX channel. */
static void c19_fabric_handles_that_are_refused_are_replaced_and_the_log_names_imex(void) {
    peerwin_status status = PEERWIN_OK;
    char *text = NULL;
    test_env("PEERWIN_LOG", "info");
    peerwin_ctx *ctx = heard_context(0, PEERWIN_HANDLE_FABRIC | PEERWIN_HANDLE_FD, &text, &status);
    CHECK_OK(status);
    if (!test_text_has(text, "IMEX")) {
        test_fail(__FILE__, __LINE__, "the log does not name IMEX: %s", text);
    }
    free(text);
    peerwin_win *win = test_window(ctx, 4096);
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_EQUAL(peerwin_win_handle(win, rank), PEERWIN_HANDLE_FD);
    }
    CHECK_OK(peerwin_win_free(win));
    check_both_ways(ctx);
    CHECK_OK(peerwin_finalize(ctx));
    test_env("PEERWIN_LOG", NULL);
}

/* Asked for and nothing else: it fails, and says why. */
static void fabric_handles_alone_fail_loudly_without_an_imex_channel(void) {
    peerwin_status status = PEERWIN_OK;
    char *text = NULL;
    CHECK(heard_context(0, PEERWIN_HANDLE_FABRIC, &text, &status) == NULL);
    CHECK(status == PEERWIN_ERR_PERMISSION || status == PEERWIN_ERR_UNSUPPORTED);
    CHECK(test_text_has(peerwin_last_error(), "IMEX"));
    free(text);
    CHECK_OK(peerwin_finalize(test_context(MPI_COMM_WORLD, 0)));
}

/* ------------------------------------------------------------------------------------------------------- nodes */

static int node_ranks(void) {
    const char *ranks = getenv("PEERWIN_NODE_RANKS");
    CHECK(ranks != NULL);
    return atoi(ranks);
}

static int size_of(MPI_Comm comm) {
    int size = 0;
    MPI_Comm_size(comm, &size);
    return size;
}

static void nodes_of_one_fabric_clique_reach_each_other(void) {
    int ranks = node_ranks();
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (int rank = 0; rank < job.size; rank++) {
        peerwin_peer peer = query(ctx, rank);
        CHECK_EQUAL(peer.node, rank / ranks);
        CHECK_EQUAL(peer.path, rank == job.rank ? PEERWIN_PATH_SELF : PEERWIN_PATH_DIRECT);
        CHECK(rank / ranks == job.rank / ranks || peer.link == PEERWIN_LINK_FABRIC);
        CHECK_EQUAL(strlen(peer.reason), 0);
    }
    CHECK_EQUAL(size_of(peerwin_node_comm(ctx)), ranks);
    CHECK_EQUAL(size_of(peerwin_direct_comm(ctx)), job.size);
    peerwin_win *win = test_window(ctx, 4096);
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_EQUAL(peerwin_win_handle(win, rank), PEERWIN_HANDLE_FABRIC);
    }
    CHECK_OK(peerwin_win_free(win));
    check_both_ways(ctx);
    CHECK_OK(peerwin_finalize(ctx));
}

static void cliques_reach_only_themselves_and_say_why(void) {
    int ranks = node_ranks();
    int first = job.rank / ranks * ranks;
    int next = first + (job.rank - first + 1) % ranks;
    int last = first + (job.rank - first + ranks - 1) % ranks;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 800);
    void *buffer = buffer_new(800);
    CHECK_EQUAL(size_of(peerwin_direct_comm(ctx)), ranks);
    for (int rank = 0; rank < job.size; rank++) {
        peerwin_peer peer = query(ctx, rank);
        CHECK_EQUAL(peer.node, rank / ranks);
        if (rank / ranks != job.rank / ranks) {
            CHECK_EQUAL(peer.path, PEERWIN_PATH_NONE);
            CHECK(strlen(peer.reason) >= 10);
            CHECK_STATUS(peerwin_put(win, rank, 0, buffer, 800, job.stream), PEERWIN_ERR_UNREACHABLE, "rank");
        }
    }
    fill_buffer(buffer, 0, job.rank, 0, 100);
    CHECK_OK(peerwin_put_signal(win, next, 0, buffer, 800, 0, PEERWIN_SIGNAL_SET, 1, job.stream));
    CHECK_OK(peerwin_wait(win, 0, 1, job.stream));
    check_fill_segment(win, 0, last, 0, 100);
    buffer_free(buffer);
    test_free(ctx, win);
}

/* A wait that is given to the stream long before the first put of its peer. */
static void c20_a_wait_before_the_peers_first_put_blocks_the_stream(void) {
    enum { BYTES = 8000 };
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, BYTES);
    void *buffer = buffer_new(BYTES);
    void *copy = buffer_new(BYTES);
    peerwin_stream stream = device_stream_new();
    fill_buffer(buffer, 0, job.rank, 0, BYTES / 8);
    if (job.rank == 1) {
        CHECK_OK(peerwin_wait(win, 0, 1, stream));
        CHECK_OK(peerwin_get(win, 1, 0, copy, BYTES, stream));
        test_sleep_ms(100);
        CHECK(!device_stream_is_idle(stream));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank == 0) {
        CHECK_OK(peerwin_put_signal(win, 1, 0, buffer, BYTES, 0, PEERWIN_SIGNAL_SET, 1, stream));
    }
    CHECK_OK(peerwin_stream_sync(ctx, stream));
    if (job.rank == 1) {
        check_fill_buffer(copy, 0, 0, 0, BYTES / 8);
    }
    device_stream_free(stream);
    buffer_free(buffer);
    buffer_free(copy);
    test_free(ctx, win);
}

/* ----------------------------------------------------------------------------------------- one rank's failure */

static void check_one_failure(unsigned kind, int rank, const char *call) {
    char name[32];
    peerwin_config config;
    peerwin_ctx *ctx = NULL;
    peerwin_win *win = NULL;
    peerwin_config_init(&config);
    config.space = PEERWIN_SPACE_CUDA;
    config.handles = kind;
    CHECK_OK(peerwin_init(MPI_COMM_WORLD, &config, &ctx));
    snprintf(name, sizeof(name), "rank %d", rank);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = test_seconds();
    if (job.rank == rank) {
        script_fail(call, 1, CUDA_ERROR_UNKNOWN);
    }
    peerwin_status status = peerwin_win_alloc(ctx, 1 << 20, NULL, &win);
    CHECK(test_seconds() - start < 5);
    CHECK(job.rank != rank || script_end() == 1);
    CHECK_STATUS_ALL(status, PEERWIN_ERR_CUDA, name, call, "999");
    CHECK(win == NULL);
    CHECK_OK(peerwin_win_alloc(ctx, 1 << 20, NULL, &win));
    CHECK_EQUAL(peerwin_win_handle(win, rank), kind);
    CHECK_OK(peerwin_win_free(win));
    check_both_ways(ctx);
    CHECK_OK(peerwin_finalize(ctx));
}

static void c21_a_failed_export_or_import_is_everyones_at_once(void) {
    check_one_failure(PEERWIN_HANDLE_FD, 2, "cuMemExportToShareableHandle");
    check_one_failure(PEERWIN_HANDLE_FD, 1, "cuMemImportFromShareableHandle");
    check_one_failure(PEERWIN_HANDLE_LEGACY, 2, "cuIpcGetMemHandle");
    check_one_failure(PEERWIN_HANDLE_LEGACY, 1, "cuIpcOpenMemHandle");
}

static const test_case cases[] = {
    TEST_CASE(c1_ranks_that_see_one_device_each_are_matched_by_uuid, 1, 0),
    TEST_CASE(c11_ranks_that_share_a_device_are_told_so_once, 2, 0),
    TEST_CASE(c12_instances_of_one_device_have_no_path_and_the_reason_says_mig, 2, 0),
    TEST_CASE(c14_without_peer_access_there_is_no_path_a_notice_and_strict_mode_refuses, 2, 0),
    TEST_CASE(c19_fabric_handles_that_are_refused_are_replaced_and_the_log_names_imex, 2, 0),
    TEST_CASE(fabric_handles_alone_fail_loudly_without_an_imex_channel, 2, 0),
    TEST_CASE(nodes_of_one_fabric_clique_reach_each_other, 2, 0),
    TEST_CASE(cliques_reach_only_themselves_and_say_why, 2, 0),
    TEST_CASE(c20_a_wait_before_the_peers_first_put_blocks_the_stream, 2, 0),
    TEST_CASE(c21_a_failed_export_or_import_is_everyones_at_once, 3, 0),
};

TEST_MAIN(cases)
