/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How programs end: in the right order, with windows forgotten, after MPI, from atexit, from a destructor of the
 * program, or not at all. Nothing crashes or hangs, statuses are those documented, and what was forgotten is told in
 * one warning per object.
 *
 * ending HOW. What happens after main cannot change the exit status, so it is told in lines, which the test expects.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/memory.h"

static peerwin_ctx *ctx; /* reachable to the end, for leak checkers */
static peerwin_win *win;
static const char *how;
static int late; /* the destructor has something to do */

/* ---------------------------------------------------------------------------------------- what is said to stderr */

static int real_stderr = -1;

static void listen_to_stderr(void) {
    int file = memfd_create("stderr", MFD_CLOEXEC);
    fflush(stderr);
    real_stderr = dup(STDERR_FILENO);
    CHECK(file >= 0 && real_stderr >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
    close(file);
}

/* How many lines of the library there were. */
static int warnings_heard(void) {
    static char text[65536];
    int count = 0;
    fflush(stderr);
    ssize_t length = pread(STDERR_FILENO, text, sizeof(text) - 1, 0);
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    if (length < 0) {
        return -1;
    }
    text[length] = '\0';
    for (const char *line = strstr(text, "peerwin["); line != NULL; line = strstr(line + 1, "peerwin[")) {
        count++;
    }
    fputs(text, stderr);
    return count;
}

/* ------------------------------------------------------------------------------------------------------- the end */

static void say_done(void) {
    printf("ended well: %s, rank %d of %d\n", how, job.rank, job.size);
    fflush(stdout);
}

static _Noreturn void complain(const char *what) {
    printf("ENDED BADLY: %s, rank %d of %d: %s, \"%s\"\n", how, job.rank, job.size, what, peerwin_last_error());
    fflush(stdout);
    _exit(1);
}

static void make(void) {
    uint64_t value = 1;
    ctx = test_context(MPI_COMM_WORLD, 5000);
    win = test_window(ctx, 10000);
    CHECK_OK(peerwin_put(win, (job.rank + 1) % job.size, 8, &value, sizeof(value), NULL));
    CHECK_OK(peerwin_barrier(ctx, NULL));
}

/* After MPI: refused or local, as documented; the last one frees. */
static void end_late(void) {
    uint64_t value = 1;
    if (peerwin_win_free(win) != PEERWIN_ERR_STATE || !test_text_has(peerwin_last_error(), "finalized")) {
        complain("free of a window after MPI is no STATE");
    }
    if (peerwin_put(win, 0, 0, &value, sizeof(value), NULL) != PEERWIN_ERR_STATE) {
        complain("a put after MPI is no STATE");
    }
    if (peerwin_finalize(ctx) != PEERWIN_OK) {
        complain("finalize after MPI fails");
    }
    ctx = NULL;
    say_done();
}

static void end_at_exit_after_mpi(void) {
    end_late();
}

/* Registered before the next one, so runs after it. */
static void mpi_at_exit(void) {
    MPI_Finalize();
    say_done();
}

static void end_at_exit_before_mpi(void) {
    if (peerwin_win_free(win) != PEERWIN_OK || peerwin_finalize(ctx) != PEERWIN_OK) {
        complain("ending before MPI fails");
    }
    ctx = NULL;
}

__attribute__((destructor)) static void end_in_destructor(void) {
    if (late) {
        end_late();
    }
}

/* ------------------------------------------------------------------------------------------------------ the ways */

static int mpi_first(void) {
    make();
    listen_to_stderr();
    MPI_Finalize();
    int heard = warnings_heard();
    if (heard != 1) {
        complain("there is not one warning");
    }
    end_late();
    return 0;
}

static int window_leaked(void) {
    make();
    CHECK(test_window(ctx, 0) != NULL);
    listen_to_stderr();
    CHECK_OK(peerwin_finalize(ctx));
    ctx = NULL;
    int heard = warnings_heard();
    CHECK_EQUAL(heard, 2); /* two windows */
    make();
    CHECK_OK(peerwin_win_free(win));
    CHECK_OK(peerwin_finalize(ctx));
    ctx = NULL;
    MPI_Finalize();
    say_done();
    return 0;
}

static int never(void) {
    make();
    listen_to_stderr();
    MPI_Finalize();
    if (warnings_heard() != 1) {
        complain("there is not one warning");
    }
    say_done();
    return 0;
}

static int at_exit_before_mpi(void) {
    CHECK(atexit(mpi_at_exit) == 0 && atexit(end_at_exit_before_mpi) == 0);
    make();
    return 0;
}

static int at_exit_after_mpi(void) {
    CHECK(atexit(end_at_exit_after_mpi) == 0);
    make();
    MPI_Finalize();
    return 0;
}

static int in_destructor(void) {
    make();
    late = 1;
    MPI_Finalize();
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} ways[] = {
    {"mpi_first", mpi_first},
    {"window_leaked", window_leaked},
    {"never", never},
    {"at_exit_before_mpi", at_exit_before_mpi},
    {"at_exit_after_mpi", at_exit_after_mpi},
    {"in_destructor", in_destructor},
};

int main(int argc, char **argv) {
    test_begin(argc, argv);
    CHECK(argc == 2);
    how = argv[1];
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strcmp(how, ways[i].name) == 0) {
            return ways[i].run();
        }
    }
    test_fail(__FILE__, __LINE__, "no way to end is called \"%s\"", how);
}
