/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts: over any communicator, several at a time, freed in any order; node, direct communicator and paths.
 */
#include <stdlib.h>
#include <string.h>

#include "support/held.h"
#include "support/leaks.h"
#include "support/memory.h"

/* A ring put with signal in the context: proof that it works. */
static void check_works(peerwin_ctx *ctx) {
    int rank = peerwin_rank(ctx);
    int size = peerwin_size(ctx);
    int right = (rank + 1) % size;
    int left = (rank + size - 1) % size;
    peerwin_win *win = test_window(ctx, 800);
    void *source = buffer_new(800);
    fill_buffer(source, 0, rank, 0, 100);
    CHECK_OK(peerwin_put_signal(win, right, 0, source, 800, 3, PEERWIN_SIGNAL_SET, 1, job.stream));
    CHECK_OK(peerwin_wait(win, 3, 1, job.stream));
    check_fill_segment(win, 0, left, 0, 100);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    CHECK_OK(peerwin_check(ctx));
    buffer_free(source);
    CHECK_OK(peerwin_win_free(win));
}

static void check_comm(MPI_Comm comm) {
    int rank = -1;
    int size = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    peerwin_ctx *ctx = test_context(comm, 0);
    CHECK_EQUAL(peerwin_rank(ctx), rank);
    CHECK_EQUAL(peerwin_size(ctx), size);
    CHECK_EQUAL(peerwin_get_space(ctx), job.space);
    check_works(ctx);
    CHECK_OK(peerwin_finalize(ctx));
}

static void works_on_world(void) {
    check_comm(MPI_COMM_WORLD);
}

static void works_on_a_communicator_of_one_rank(void) {
    check_comm(MPI_COMM_SELF);
}

static void works_on_split_communicators_with_reversed_ranks(void) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, job.rank % 2, -job.rank, &half);
    check_comm(half);
    MPI_Comm_free(&half);
}

static void works_on_some_ranks_only(void) {
    MPI_Comm some;
    MPI_Comm_split(MPI_COMM_WORLD, job.rank == 0 ? MPI_UNDEFINED : 0, job.rank, &some);
    if (some != MPI_COMM_NULL) {
        check_comm(some);
        MPI_Comm_free(&some);
    }
}

static void works_on_a_cartesian_communicator(void) {
    int dims[2] = {0, 0};
    int periods[2] = {1, 0};
    MPI_Comm cart;
    MPI_Dims_create(job.size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &cart);
    check_comm(cart);
    MPI_Comm_free(&cart);
}

static void works_on_a_graph_communicator(void) {
    int right = (job.rank + 1) % job.size;
    int left = (job.rank + job.size - 1) % job.size;
    int weight = 1;
    MPI_Comm graph;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, &weight, 1, &right, &weight, MPI_INFO_NULL, 0, &graph);
    check_comm(graph);
    MPI_Comm_free(&graph);
}

static void the_callers_communicator_may_be_freed_at_once(void) {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    peerwin_ctx *ctx = test_context(copy, 0);
    MPI_Comm_free(&copy);
    check_works(ctx);
    CHECK_OK(peerwin_finalize(ctx));
}

static void no_config_means_defaults(void) {
    peerwin_ctx *ctx = NULL;
    CHECK_OK(peerwin_init(MPI_COMM_WORLD, NULL, &ctx));
    CHECK(peerwin_get_space(ctx) == PEERWIN_SPACE_HOST || peerwin_get_space(ctx) == PEERWIN_SPACE_CUDA);
    CHECK_OK(peerwin_finalize(ctx));
}

static void several_contexts_live_at_once_and_end_in_any_order(void) {
    enum { COUNT = 5 };
    static const int order[COUNT] = {2, 0, 4, 1, 3};
    MPI_Comm half;
    peerwin_ctx *ctx[COUNT];
    peerwin_win *win[COUNT];
    MPI_Comm_split(MPI_COMM_WORLD, job.rank % 2, job.rank, &half);
    for (int i = 0; i < COUNT; i++) {
        ctx[i] = test_context(i % 2 == 0 ? MPI_COMM_WORLD : half, 0);
        win[i] = test_window(ctx[i], 64 * (size_t)(i + 1));
    }
    for (int i = 0; i < COUNT; i++) {
        int k = order[i];
        for (int other = i; other < COUNT; other++) {
            check_works(ctx[order[other]]);
        }
        test_free(ctx[k], win[k]);
    }
    MPI_Comm_free(&half);
}

static void contexts_can_be_made_and_ended_many_times(void) {
    size_t descriptors = leaks_open_descriptors();
    held_begin();
    for (int i = test_rounds(100, 20); i > 0; i--) {
        peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
        CHECK_OK(peerwin_barrier(ctx, job.stream));
        CHECK_OK(peerwin_finalize(ctx));
    }
    CHECK_EQUAL(leaks_open_descriptors(), descriptors);
    CHECK_EQUAL(held_by_library().blocks, 0);
}

static void finalize_frees_forgotten_windows(void) {
    held_begin();
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *kept = test_window(ctx, 100000);
    peerwin_win *forgotten = test_window(ctx, 200000);
    CHECK(forgotten != kept);
    CHECK_OK(peerwin_finalize(ctx));
    CHECK_EQUAL(held_by_library().blocks, 0);
}

static void finalize_and_free_of_null_are_fine(void) {
    CHECK_OK(peerwin_finalize(NULL));
    CHECK_OK(peerwin_win_free(NULL));
}

static void accessors_of_null_say_nothing_is_there(void) {
    CHECK_EQUAL(peerwin_rank(NULL), -1);
    CHECK_EQUAL(peerwin_size(NULL), 0);
    CHECK_EQUAL(peerwin_get_space(NULL), PEERWIN_SPACE_AUTO);
    CHECK(peerwin_node_comm(NULL) == MPI_COMM_NULL);
    CHECK(peerwin_direct_comm(NULL) == MPI_COMM_NULL);
    CHECK(peerwin_win_ptr(NULL, 0) == NULL);
    CHECK_EQUAL(peerwin_win_bytes(NULL, 0), 0);
    CHECK_EQUAL(peerwin_win_path(NULL, 0), PEERWIN_PATH_NONE);
    CHECK_EQUAL(peerwin_win_id(NULL), 0);
    CHECK_EQUAL(peerwin_win_generation(NULL), 0);
}

static void check_same_order(MPI_Comm comm, int first_world_rank, int count) {
    int size = 0;
    int rank = -1;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    CHECK_EQUAL(size, count);
    CHECK_EQUAL(rank, job.rank - first_world_rank);
}

static void node_and_direct_communicators_hold_all_ranks_of_one_machine(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    check_same_order(peerwin_node_comm(ctx), 0, job.size);
    check_same_order(peerwin_direct_comm(ctx), 0, job.size);
    CHECK_OK(peerwin_finalize(ctx));
}

static peerwin_peer query(const peerwin_ctx *ctx, int rank) {
    peerwin_peer peer;
    memset(&peer, 0x5A, sizeof(peer));
    peer.size = sizeof(peer);
    CHECK_OK(peerwin_peer_query(ctx, rank, &peer));
    return peer;
}

/* Links of PCIe have no atomics, and devices have none in host memory. */
static void check_atomics(const peerwin_peer *peer) {
    if (test_forced_handle("host") || peer->link == PEERWIN_LINK_PCIE) {
        CHECK_EQUAL(peer->native_atomics, 0);
    } else if (getenv("SIMCUDA_TOPOLOGY") != NULL) {
        CHECK_EQUAL(peer->native_atomics, 1);
    }
}

static void peer_query_tells_path_and_reason(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (int rank = 0; rank < job.size; rank++) {
        peerwin_peer peer = query(ctx, rank);
        CHECK_EQUAL(peer.path, rank == job.rank ? PEERWIN_PATH_SELF : PEERWIN_PATH_DIRECT);
        CHECK_EQUAL(peer.node, 0);
        CHECK_EQUAL(strlen(peer.reason), 0);
        if (job.space == PEERWIN_SPACE_HOST) {
            CHECK_EQUAL(peer.link, PEERWIN_LINK_HOST);
            CHECK_EQUAL(peer.native_atomics, 1);
            CHECK_EQUAL(strlen(peer.device), 0);
        } else {
            CHECK(peer.link != PEERWIN_LINK_NONE);
            CHECK(strlen(peer.device) >= 36);
            check_atomics(&peer);
        }
    }
    CHECK_OK(peerwin_finalize(ctx));
}

static void peer_query_writes_no_more_than_the_callers_size(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    union {
        peerwin_peer peer;
        unsigned char bytes[sizeof(peerwin_peer)];
    } small;
    memset(&small, 0x5A, sizeof(small));
    small.peer.size = offsetof(peerwin_peer, node);
    CHECK_OK(peerwin_peer_query(ctx, job.rank, &small.peer));
    CHECK_EQUAL(small.peer.path, PEERWIN_PATH_SELF);
    check_all("bytes past the caller's size", small.bytes + offsetof(peerwin_peer, node), 0x5A,
              sizeof(peerwin_peer) - offsetof(peerwin_peer, node));
    CHECK_OK(peerwin_finalize(ctx));
}

/* ---------------------------------------------------------------------------------------------- pretended nodes */

static int node_of(int rank, int node_ranks) {
    return rank / node_ranks;
}

static void check_pretended_paths(peerwin_ctx *ctx, int node_ranks) {
    for (int rank = 0; rank < job.size; rank++) {
        peerwin_peer peer = query(ctx, rank);
        int here = node_of(rank, node_ranks) == node_of(job.rank, node_ranks);
        CHECK_EQUAL(peer.node, node_of(rank, node_ranks));
        if (here) {
            CHECK_EQUAL(peer.path, rank == job.rank ? PEERWIN_PATH_SELF : PEERWIN_PATH_DIRECT);
        } else {
            CHECK_EQUAL(peer.path, PEERWIN_PATH_NONE);
            CHECK_EQUAL(peer.link, PEERWIN_LINK_NONE);
            CHECK(strlen(peer.reason) >= 10);
        }
    }
}

static void check_unreachable(peerwin_win *win, int rank) {
    char byte[8] = "";
    peerwin_box box = {.offset = 0, .count = {4, 1, 1}, .stride = {0, 0}};
    CHECK(peerwin_win_ptr(win, rank) == NULL);
    CHECK_EQUAL(peerwin_win_path(win, rank), PEERWIN_PATH_NONE);
    CHECK_STATUS(peerwin_put(win, rank, 0, byte, 4, job.stream), PEERWIN_ERR_UNREACHABLE, "rank");
    CHECK_STATUS(peerwin_get(win, rank, 0, byte, 4, job.stream), PEERWIN_ERR_UNREACHABLE, "rank");
    CHECK_STATUS(peerwin_put_box(win, rank, &box, byte, &box, job.stream), PEERWIN_ERR_UNREACHABLE, "rank");
    CHECK_STATUS(peerwin_get_box(win, rank, &box, byte, &box, job.stream), PEERWIN_ERR_UNREACHABLE, "rank");
    CHECK_STATUS(peerwin_signal(win, rank, 0, PEERWIN_SIGNAL_SET, 1, job.stream), PEERWIN_ERR_UNREACHABLE, "rank");
    CHECK_STATUS(peerwin_put_signal(win, rank, 0, byte, 4, 0, PEERWIN_SIGNAL_ADD, 1, job.stream),
                 PEERWIN_ERR_UNREACHABLE, "rank");
}

/* On a pretended node of k ranks: paths, sizes that are still known, refusals, and work inside the node. */
static void check_pretended_nodes(int node_ranks) {
    test_env("PEERWIN_NODE_RANKS", test_number((size_t)node_ranks));
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    int first = node_of(job.rank, node_ranks) * node_ranks;
    int count = first + node_ranks <= job.size ? node_ranks : job.size - first;
    check_same_order(peerwin_node_comm(ctx), first, count);
    check_same_order(peerwin_direct_comm(ctx), first, count);
    check_pretended_paths(ctx, node_ranks);
    peerwin_win *win = test_window(ctx, 800 + 8 * (size_t)job.rank);
    int right = first + (job.rank - first + 1) % count;
    int left = first + (job.rank - first + count - 1) % count;
    void *source = buffer_new(800);
    fill_buffer(source, 0, job.rank, 0, 100);
    CHECK_OK(peerwin_put_signal(win, right, 0, source, 800, 0, PEERWIN_SIGNAL_SET, 1, job.stream));
    CHECK_OK(peerwin_wait(win, 0, 1, job.stream));
    check_fill_segment(win, 0, left, 0, 100);
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_EQUAL(peerwin_win_bytes(win, rank), 800 + 8 * rank);
        if (node_of(rank, node_ranks) != node_of(job.rank, node_ranks)) {
            check_unreachable(win, rank);
        }
    }
    buffer_free(source);
    test_free(ctx, win);
    test_env("PEERWIN_NODE_RANKS", NULL);
}

/* Fabric handles leave the machine, and so do pretended nodes. */
static int nodes_are_linked(void) {
    return test_agree_skip(test_forced_handle("fabric"), "fabric handles reach other nodes");
}

static void pretended_nodes_have_no_path_between_them(void) {
    if (nodes_are_linked()) {
        return;
    }
    for (int node_ranks = 1; node_ranks < job.size; node_ranks++) {
        check_pretended_nodes(node_ranks);
    }
}

static void barriers_and_sums_span_pretended_nodes_or_are_refused_alike(void) {
    test_env("PEERWIN_NODE_RANKS", "1");
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    int64_t sum = job.rank;
    void *buffer = buffer_new(sizeof(sum));
    buffer_store(buffer, 0, &sum, sizeof(sum));
    peerwin_status barrier = done(ctx, peerwin_barrier(ctx, job.stream));
    test_check_same(__FILE__, __LINE__, "peerwin_barrier", barrier);
    peerwin_status reduce = done(ctx, peerwin_allreduce(ctx, buffer, 1, PEERWIN_INT64, PEERWIN_SUM, job.stream));
    test_check_same(__FILE__, __LINE__, "peerwin_allreduce", reduce);
    CHECK(barrier == PEERWIN_OK || barrier == PEERWIN_ERR_UNREACHABLE);
    CHECK_EQUAL(reduce, barrier);
    if (reduce == PEERWIN_OK) {
        buffer_load(buffer, 0, &sum, sizeof(sum));
        CHECK_EQUAL(sum, job.size * (job.size - 1) / 2);
    } else {
        CHECK(strlen(peerwin_last_error()) > 20);
    }
    buffer_free(buffer);
    CHECK_OK(peerwin_check(ctx));
    CHECK_OK(peerwin_finalize(ctx));
    test_env("PEERWIN_NODE_RANKS", NULL);
}

static void strict_mode_refuses_a_pair_without_a_path_at_init(void) {
    if (nodes_are_linked()) {
        return;
    }
    peerwin_config config;
    peerwin_ctx *ctx = NULL;
    peerwin_config_init(&config);
    config.space = job.space;
    config.flags = PEERWIN_STRICT;
    CHECK_OK(peerwin_init(MPI_COMM_WORLD, &config, &ctx));
    CHECK_OK(peerwin_finalize(ctx));
    test_env("PEERWIN_NODE_RANKS", "1");
    ctx = NULL;
    CHECK_STATUS_ALL(peerwin_init(MPI_COMM_WORLD, &config, &ctx), PEERWIN_ERR_UNREACHABLE, "strict", "rank");
    CHECK(ctx == NULL);
    test_env("PEERWIN_STRICT", "0");
    CHECK_OK(peerwin_init(MPI_COMM_WORLD, &config, &ctx));
    CHECK_OK(peerwin_finalize(ctx));
    test_env("PEERWIN_STRICT", NULL);
    test_env("PEERWIN_NODE_RANKS", NULL);
}

static const test_case cases[] = {
    TEST_CASE(works_on_world, 1, 0),
    TEST_CASE(works_on_a_communicator_of_one_rank, 1, 0),
    TEST_CASE(works_on_split_communicators_with_reversed_ranks, 1, 0),
    TEST_CASE(works_on_some_ranks_only, 2, 0),
    TEST_CASE(works_on_a_cartesian_communicator, 1, 0),
    TEST_CASE(works_on_a_graph_communicator, 1, 0),
    TEST_CASE(the_callers_communicator_may_be_freed_at_once, 1, 0),
    TEST_CASE(no_config_means_defaults, 1, 0),
    TEST_CASE(several_contexts_live_at_once_and_end_in_any_order, 1, 0),
    TEST_CASE(contexts_can_be_made_and_ended_many_times, 1, 4),
    TEST_CASE(finalize_frees_forgotten_windows, 1, 0),
    TEST_CASE(finalize_and_free_of_null_are_fine, 1, 0),
    TEST_CASE(accessors_of_null_say_nothing_is_there, 1, 0),
    TEST_CASE(node_and_direct_communicators_hold_all_ranks_of_one_machine, 1, 0),
    TEST_CASE(peer_query_tells_path_and_reason, 1, 0),
    TEST_CASE(peer_query_writes_no_more_than_the_callers_size, 1, 0),
    TEST_CASE(pretended_nodes_have_no_path_between_them, 2, 0),
    TEST_CASE(barriers_and_sums_span_pretended_nodes_or_are_refused_alike, 2, 0),
    TEST_CASE(strict_mode_refuses_a_pair_without_a_path_at_init, 2, 0),
};
TEST_MAIN(cases)
