/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the library's device memory without MPI: every case is a process of its own, started by fork and exec before
 * any driver is opened, with an environment of its own; a case may have a peer, the same program again, with a link
 * (../simcuda/link.h) between the two. Runs on the simulated driver, and but for what the simulator alone can tell, on
 * a real one.
 */
#ifndef PEERWIN_TESTS_APART_H
#define PEERWIN_TESTS_APART_H

#include "memory/gpu.h"
#include "memory/memory.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"

#define MIB ((size_t)1 << 20)

/* The driver's calls that play the application. */
#define APART_CALLS(X)                                                                                                 \
    X(cuInit, 2000)                                                                                                    \
    X(cuDeviceGetDefaultMemPool, 11020)                                                                                \
    X(cuDevicePrimaryCtxRetain, 7000)                                                                                  \
    X(cuDevicePrimaryCtxReset, 11000)                                                                                  \
    X(cuDevicePrimaryCtxRelease, 11000)                                                                                \
    X(cuCtxCreate, 3020)                                                                                               \
    X(cuCtxDestroy, 4000)                                                                                              \
    X(cuCtxGetCurrent, 4000)                                                                                           \
    X(cuCtxSetCurrent, 4000)                                                                                           \
    X(cuCtxSynchronize, 2000)                                                                                          \
    X(cuMemAlloc, 3020)                                                                                                \
    X(cuMemFree, 3020)                                                                                                 \
    X(cuMemAllocManaged, 6000)                                                                                         \
    X(cuMemAllocHost, 3020)                                                                                            \
    X(cuMemFreeHost, 2000)                                                                                             \
    X(cuMemAllocFromPoolAsync, 11020)                                                                                  \
    X(cuMemPoolCreate, 11020)                                                                                          \
    X(cuMemPoolDestroy, 11020)                                                                                         \
    X(cuMemCreate, 10020)                                                                                              \
    X(cuMemRelease, 10020)                                                                                             \
    X(cuMemAddressReserve, 10020)                                                                                      \
    X(cuMemAddressFree, 10020)                                                                                         \
    X(cuMemMap, 10020)                                                                                                 \
    X(cuMemUnmap, 10020)                                                                                               \
    X(cuMemSetAccess, 10020)                                                                                           \
    X(cuMemGetAccess, 10020)                                                                                           \
    X(cuStreamCreate, 2000)                                                                                            \
    X(cuStreamDestroy, 4000)                                                                                           \
    X(cuStreamIsCapturing, 10000)                                                                                      \
    X(cuStreamBeginCapture, 10010)                                                                                     \
    X(cuStreamEndCapture, 10000)                                                                                       \
    X(cuGraphDestroy, 10000)                                                                                           \
    X(cuStreamWaitValue32, 11070)                                                                                      \
    X(cuStreamWriteValue32, 11070)

typedef struct {
#define APART_MEMBER(name, version_) PFN_##name##_v##version_ name;
    APART_CALLS(APART_MEMBER)
#undef APART_MEMBER
} apart_calls;

/* The application's table, and what the simulator alone can do; those are NULL on a real driver. */
extern apart_calls app;
extern struct apart_simulator {
    void (*reset)(void);
    void (*fail)(const char *name, unsigned long n, int code, int sticky);
    int (*injected)(void);
    const char *(*call_name)(unsigned long n);
    unsigned long (*calls)(const char *name);
    size_t (*live)(int kind);
    const char *(*kind_name)(int kind);
    void (*dump)(void);
    int (*lose_context)(int code);
} sim;

extern const char *apart_library;
extern const pw_site apart_site;
#define SITE (&apart_site)

typedef struct {
    const char *name;
    void (*run)(void);
    void (*peer)(void);   /* NULL: it has none */
    const char *env;      /* "NAME=value NAME=value", for both */
    const char *peer_env; /* on top of it */
    int needs_simulator;  /* left out on a real driver unless it is named */
} apart_case;

/* Runs all cases, or those that are named: PROGRAM LIBRARY [CASE...]. The exit status is 0 if all went well. */
int apart_main(int argc, char **argv, const apart_case *cases);

void apart_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            apart_fail(__FILE__, __LINE__, "%s", #condition);                                                          \
    } while (0)

#define CHECK_STATUS(call, wanted)                                                                                     \
    do {                                                                                                               \
        peerwin_status status_ = (call);                                                                               \
        if (status_ != (wanted))                                                                                       \
            apart_fail(__FILE__, __LINE__, "%s is %s: %s", #call, pw_status_name((int)status_), peerwin_last_error()); \
    } while (0)
#define OK(call) CHECK_STATUS(call, PEERWIN_OK)

/* A refusal with its status, and a word that its text must have. */
#define REFUSED(call, wanted, word)                                                                                    \
    do {                                                                                                               \
        CHECK_STATUS(call, wanted);                                                                                    \
        if (!strstr(peerwin_last_error(), word))                                                                       \
            apart_fail(__FILE__, __LINE__, "%s does not say \"%s\": %s", #call, word, peerwin_last_error());           \
    } while (0)

#define CU(call)                                                                                                       \
    do {                                                                                                               \
        CUresult code_ = (call);                                                                                       \
        if (code_ != CUDA_SUCCESS)                                                                                     \
            apart_fail(__FILE__, __LINE__, "%s is %d", #call, (int)code_);                                             \
    } while (0)

/* The driver for the application, initialized. */
void app_start(void);

/* A device of the library, entered; and given back. */
pw_gpu *gpu_start(int choice);
void gpu_stop(pw_gpu *gpu);

/* What is alive in the simulated driver. */
enum { APART_FDS = 5, APART_KINDS = 14 };
typedef struct {
    size_t live[APART_KINDS];
} apart_snapshot;
apart_snapshot snapshot(void);
void check_snapshot(const apart_snapshot *before, const char *when);

/* Bytes that nobody has by chance: of a position and a seed. */
unsigned char pattern(size_t i, unsigned seed);
void fill(pw_gpu *gpu, void *at, size_t bytes, unsigned seed);
void check_fill(pw_gpu *gpu, const void *at, size_t bytes, unsigned seed);
void check_byte(pw_gpu *gpu, const void *at, size_t bytes, int value);

/* All pieces of a segment, and what else an importer needs to know; over the link. */
void send_segment(pw_segment *segment);
/* Maps what send_segment sent. */
pw_mapping receive_mapping(pw_gpu *gpu, unsigned flags);

#endif
