/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Harness of the MPI tests. A program is a table of cases, each named for what it promises; all run in one job, or
 * only those named on the command line. Rank 0 prints a line for each.
 *
 * A failing CHECK prints rank, place, values and the last error, and ends the whole job: a test framework that
 * unwinds on one rank would leave the others waiting. Every case is bracketed by a count of descriptors, mappings and
 * threads, and of what is alive in a simulated driver, so a case must free all that it makes. A skip is agreed by all
 * ranks, which exit with 77 together.
 *
 * In CUDA space calls give work to a stream and return: done() stands where the host goes on with what they did.
 */
#ifndef PEERWIN_TESTS_TEST_H
#define PEERWIN_TESTS_TEST_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

#include "peerwin/peerwin.h"

#define TEST_EXIT_SKIP 77

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

/**
 * This process's place in the job, the space under test (--space, or PWTEST_SPACE; host by default), and the stream
 * that calls use: NULL, or one of the job's own in CUDA space with PWTEST_STREAM=own.
 */
typedef struct {
    int rank;
    int size;
    peerwin_space space;
    peerwin_stream stream;
} test_job;
extern test_job job;

/** One promise. It runs on jobs of min_ranks to max_ranks ranks; a max_ranks of 0 means any number above. */
typedef struct {
    const char *name;
    void (*run)(void);
    int min_ranks;
    int max_ranks;
} test_case;

#define TEST_CASE(function, min_ranks, max_ranks)                                                                      \
    { #function, function, min_ranks, max_ranks }
#define TEST_MAIN(cases)                                                                                               \
    int main(int argc, char **argv) {                                                                                  \
        return test_main(argc, argv, cases, (int)(sizeof(cases) / sizeof((cases)[0])));                                \
    }

/** Starts MPI, warms it up, runs the cases, ends MPI. Returns the exit status. */
int test_main(int argc, char **argv, const test_case *cases, int count);
/** As test_main's beginning and end, for the programs that go on after MPI_Finalize. */
void test_begin(int argc, char **argv);
void test_run(const char *name, void (*run)(void));
int test_end(void);

/** Skips what is left of the case if any rank says that it cannot run; returns 1 on every rank, or 0 on every rank. */
int test_agree_skip(int cannot, const char *why);

_Noreturn void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void test_check_equal(const char *file, int line, const char *what, long long got, long long want);
void test_check_status(const char *file, int line, const char *call, peerwin_status got, peerwin_status want, ...)
    __attribute__((sentinel));
void test_check_same(const char *file, int line, const char *call, peerwin_status got);
int test_text_has(const char *text, const char *word);

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            test_fail(__FILE__, __LINE__, "not true: %s", #condition);                                                 \
        }                                                                                                              \
    } while (0)
#define CHECK_EQUAL(got, want)                                                                                         \
    test_check_equal(__FILE__, __LINE__, #got " == " #want, (long long)(got), (long long)(want))
/** CHECK_STATUS(call, status, word...): the status, and every word in peerwin_last_error() (letter case aside). */
#define CHECK_STATUS(call, want, ...)                                                                                  \
    test_check_status(__FILE__, __LINE__, #call, call, want, __VA_ARGS__, (const char *)NULL)
#define CHECK_OK(call) test_check_status(__FILE__, __LINE__, #call, call, PEERWIN_OK, (const char *)NULL)
/** The same on every rank of the job: for collective calls. */
#define CHECK_STATUS_ALL(call, want, ...)                                                                              \
    do {                                                                                                               \
        peerwin_status status_of_call_ = (call);                                                                       \
        test_check_same(__FILE__, __LINE__, #call, status_of_call_);                                                   \
        test_check_status(__FILE__, __LINE__, #call, status_of_call_, want, __VA_ARGS__, (const char *)NULL);          \
    } while (0)

/* ---------------------------------------------------------------------------------------------- small helpers */

/**
 * The end of a call: in host space what it returned; in CUDA space, if it succeeded, what peerwin_stream_sync of the
 * job's stream returns, so that its result counts and a time-out shows.
 */
peerwin_status done(peerwin_ctx *ctx, peerwin_status status);
/** Fails unless the work that this rank gave to the job's stream is done, well. */
void check_done(peerwin_ctx *ctx);
/**
 * A wait that timed out still stands in the job's stream in CUDA space, and all that is given to it later stands behind
 * it: lets it pass, by a signal to the own slot from another stream. Nothing in host space.
 */
void test_fulfil(peerwin_ctx *ctx, peerwin_win *win, unsigned slot, uint64_t value);
/** 1 if every rank that is reached has atomics, so that signals may add: not over PCIe, nor in host memory on devices.
 */
int test_has_adds(const peerwin_ctx *ctx);
/** How often to do something: as often as in host space, or in CUDA space, where a simulated driver is slow. */
int test_rounds(int host, int cuda);
/** 1 if the job is restricted to this kind of handle (PEERWIN_HANDLES). */
int test_forced_handle(const char *kind);

/** A context over comm in the space under test; timeout_ms as in peerwin_config. */
peerwin_ctx *test_context(MPI_Comm comm, int timeout_ms);
/** A window of the context, with default options; all ranks give the same size here or not as they like. */
peerwin_win *test_window(peerwin_ctx *ctx, size_t bytes);
void test_free(peerwin_ctx *ctx, peerwin_win *win);

void test_sleep_ms(int ms);
double test_seconds(void);
/** A small generator, the same on every rank for the same state; never 0. */
uint64_t test_random(uint64_t *state);
/** A number in [low, high]. */
size_t test_random_in(uint64_t *state, size_t low, size_t high);
/** Sets a variable of the environment, or takes it out if value is NULL. */
void test_env(const char *name, const char *value);
/** A number as text, for the words of CHECK_STATUS; good until the eighth call after. */
const char *test_number(size_t value);

#endif
