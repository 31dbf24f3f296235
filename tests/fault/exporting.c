/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One rank cannot export its segment, another cannot import one: nobody is left in the exchange, all hear at once what
 * happened where, and the next attempt works in the same context.
 */
#include <errno.h>
#include <stdlib.h>

#include "inject.h"
#include "support/memory.h"

enum { BYTES = 100000 };

typedef struct {
    inject_call call;
    int nth;
    int code;
    peerwin_status status;
    const char *word;
} failure;

static void check_exchange(peerwin_ctx *ctx) {
    peerwin_win *win = test_window(ctx, BYTES);
    void *buffer = buffer_new(BYTES);
    int left = (job.rank + job.size - 1) % job.size;
    fill_buffer(buffer, 0, job.rank, 0, BYTES / 8);
    CHECK_OK(peerwin_put_signal(win, (job.rank + 1) % job.size, 0, buffer, BYTES, 0, PEERWIN_SIGNAL_SET, 1, NULL));
    CHECK_OK(peerwin_wait(win, 0, 1, NULL));
    check_fill_segment(win, 0, left, 0, BYTES / 8);
    CHECK_OK(peerwin_barrier(ctx, NULL));
    buffer_free(buffer);
    CHECK_OK(peerwin_win_free(win));
}

static void check_failure(peerwin_ctx *ctx, int victim, const failure *f) {
    inject_plan plan = {.calls = INJECT_BIT(f->call), .nth = f->nth, .action = INJECT_FAIL, .value = f->code};
    peerwin_win *win = NULL;
    char rank[32];
    snprintf(rank, sizeof(rank), "rank %d", victim);
    if (job.rank == victim) {
        inject_arm(&plan);
    }
    double start = test_seconds();
    peerwin_status status = peerwin_win_alloc(ctx, BYTES, NULL, &win);
    double seconds = test_seconds() - start;
    CHECK(job.rank != victim || inject_disarm());
    CHECK_STATUS_ALL(status, f->status, rank, f->word);
    CHECK(win == NULL);
    CHECK(seconds < 5);
    CHECK_OK(peerwin_check(ctx));
    check_exchange(ctx);
}

static void check_failures(int victim, const failure *failures, size_t count) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    check_exchange(ctx);
    for (size_t i = 0; i < count; i++) {
        check_failure(ctx, victim, &failures[i]);
    }
    CHECK_OK(peerwin_finalize(ctx));
}

static void c21_a_failed_export_reaches_all_and_a_retry_works(void) {
    /* The first, third, ... message of an exchange carries the segment; the others are answers. */
    static const failure failures[] = {
        {INJECT_MEMFD_CREATE, 1, EMFILE, PEERWIN_ERR_NO_MEMORY, "memfd_create"},
        {INJECT_FALLOCATE, 1, ENOSPC, PEERWIN_ERR_NO_MEMORY, "fallocate"},
        {INJECT_FCNTL, 1, EPERM, PEERWIN_ERR_PERMISSION, "fcntl"},
        {INJECT_SENDMSG, 1, ETOOMANYREFS, PEERWIN_ERR_NO_MEMORY, "sendmsg"},
        {INJECT_SENDMSG, 3, ETOOMANYREFS, PEERWIN_ERR_NO_MEMORY, "sendmsg"},
        {INJECT_SENDMSG, 5, ETOOMANYREFS, PEERWIN_ERR_NO_MEMORY, "sendmsg"},
    };
    check_failures(2, failures, sizeof(failures) / sizeof(failures[0]));
}

static void c21_a_failed_import_reaches_all_and_a_retry_works(void) {
    static const failure failures[] = {
        {INJECT_FSTAT, 1, ENOMEM, PEERWIN_ERR_NO_MEMORY, "fstat"},
        {INJECT_MMAP, 2, ENOMEM, PEERWIN_ERR_NO_MEMORY, "mmap"}, /* the first is the own segment */
        {INJECT_MMAP, 3, EPERM, PEERWIN_ERR_PERMISSION, "mmap"},
        {INJECT_MMAP, 4, ENOMEM, PEERWIN_ERR_NO_MEMORY, "mmap"},
        {INJECT_FCNTL, 3, EPERM, PEERWIN_ERR_INTERNAL, "not sealed"},
    };
    check_failures(1, failures, sizeof(failures) / sizeof(failures[0]));
}

static const test_case cases[] = {
    TEST_CASE(c21_a_failed_export_reaches_all_and_a_retry_works, 4, 0),
    TEST_CASE(c21_a_failed_import_reaches_all_and_a_retry_works, 4, 0),
};
TEST_MAIN(cases)
