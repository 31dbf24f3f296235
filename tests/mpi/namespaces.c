/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks in containers, imitated by namespaces entered after MPI_Init: a private IPC namespace with a tiny /dev/shm,
 * no tracing, host names that lie, network namespaces of their own. One case per job, because there is no way back.
 * Where namespaces are not allowed the case is skipped on all ranks together.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/memory.h"

static int cannot_unshare(int flags) {
    return unshare(flags) != 0;
}

/* Windows larger than any /dev/shm here, put round the ring, whatever the sizes. */
static void check_exchange(peerwin_ctx *ctx, int node_ranks) {
    enum { BYTES = 1 << 20 };
    peerwin_win *win = test_window(ctx, BYTES);
    void *buffer = buffer_new(BYTES);
    int right = (job.rank + 1) % job.size;
    int left = (job.rank + job.size - 1) % job.size;
    int size = 0;
    MPI_Comm_size(peerwin_node_comm(ctx), &size);
    CHECK_EQUAL(size, node_ranks);
    fill_buffer(buffer, 0, job.rank, 0, BYTES / 8);
    CHECK_EQUAL(peerwin_win_path(win, right), right == job.rank ? PEERWIN_PATH_SELF : PEERWIN_PATH_DIRECT);
    CHECK_OK(peerwin_put_signal(win, right, 0, buffer, BYTES, 0, PEERWIN_SIGNAL_SET, 1, job.stream));
    CHECK_OK(peerwin_wait(win, 0, 1, job.stream));
    check_fill_segment(win, 0, left, 0, BYTES / 8);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    buffer_free(buffer);
    CHECK_OK(peerwin_win_free(win));
}

static void check_all_ranks_are_one_node(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    check_exchange(ctx, job.size);
    CHECK_OK(peerwin_finalize(ctx));
}

static int cannot_have_a_tiny_shm(void) {
    return cannot_unshare(CLONE_NEWIPC | CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
           mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") != 0;
}

/* A child tries first: in a chroot, for example, only half of it works, and that half cannot be undone. */
static int child_cannot_have_a_tiny_shm(void) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        _exit(cannot_have_a_tiny_shm());
    }
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

/* A private IPC namespace, 64 KiB of /dev/shm, and a process that may not be traced. */
static void c16_private_ipc_tiny_shm_and_no_ptrace(void) {
    int cannot = child_cannot_have_a_tiny_shm();
    if (test_agree_skip(cannot || cannot_have_a_tiny_shm(), "IPC and mount namespaces are not allowed here")) {
        return;
    }
    CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
    check_all_ranks_are_one_node();
    CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
}

/* Every rank in a network namespace of its own: names of abstract sockets are not seen by the others. */
static void c16_network_namespaces_are_bridged_by_a_directory_or_named(void) {
    char directory[] = "/tmp/peerwin-test-XXXXXX";
    peerwin_ctx *ctx = NULL;
    if (job.rank == 0) {
        CHECK(mkdtemp(directory) != NULL);
    }
    MPI_Bcast(directory, sizeof(directory), MPI_CHAR, 0, MPI_COMM_WORLD);
    int skip = test_agree_skip(cannot_unshare(CLONE_NEWNET), "network namespaces are not allowed here");
    if (!skip) {
        peerwin_status status = peerwin_init(MPI_COMM_WORLD, NULL, &ctx);
        test_check_same(__FILE__, __LINE__, "peerwin_init", status);
        if (status == PEERWIN_OK) {
            for (int rank = 0; rank < job.size; rank++) {
                peerwin_peer peer = {.size = sizeof(peer)};
                CHECK_OK(peerwin_peer_query(ctx, rank, &peer));
                CHECK((peer.path == PEERWIN_PATH_NONE) == (peer.reason[0] != '\0'));
                CHECK(peer.path != PEERWIN_PATH_NONE || test_text_has(peer.reason, "namespace"));
            }
            CHECK_OK(peerwin_finalize(ctx));
        } else {
            CHECK(test_text_has(peerwin_last_error(), "namespace"));
            CHECK(test_text_has(peerwin_last_error(), "PEERWIN_SOCKET_DIR"));
        }
        test_env("PEERWIN_SOCKET_DIR", directory);
        check_all_ranks_are_one_node();
        test_env("PEERWIN_SOCKET_DIR", NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.rank == 0) {
        CHECK(rmdir(directory) == 0); /* empty: no socket was left */
    }
}

static void c17_different_host_names_on_one_node_are_one_node(void) {
    char name[32];
    if (test_agree_skip(cannot_unshare(CLONE_NEWUTS), "UTS namespaces are not allowed here")) {
        return;
    }
    snprintf(name, sizeof(name), "node-%d", job.rank);
    CHECK(sethostname(name, strlen(name)) == 0);
    check_all_ranks_are_one_node();
}

/* Pretended nodes have one host name in common: it makes them no node. */
static void c17_one_host_name_on_several_nodes_is_several_nodes(void) {
    test_env("PEERWIN_NODE_RANKS", "1");
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (int rank = 0; rank < job.size; rank++) {
        peerwin_peer peer = {.size = sizeof(peer)};
        CHECK_OK(peerwin_peer_query(ctx, rank, &peer));
        CHECK_EQUAL(peer.node, rank);
        CHECK_EQUAL(peer.path, rank == job.rank ? PEERWIN_PATH_SELF : PEERWIN_PATH_NONE);
    }
    CHECK_OK(peerwin_finalize(ctx));
    test_env("PEERWIN_NODE_RANKS", NULL);
}

static const test_case cases[] = {
    TEST_CASE(c16_private_ipc_tiny_shm_and_no_ptrace, 1, 0),
    TEST_CASE(c16_network_namespaces_are_bridged_by_a_directory_or_named, 2, 0),
    TEST_CASE(c17_different_host_names_on_one_node_are_one_node, 1, 0),
    TEST_CASE(c17_one_host_name_on_several_nodes_is_several_nodes, 2, 0),
};
TEST_MAIN(cases)
