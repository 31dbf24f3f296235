/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts in CUDA space without MPI: the ranks of a job are made by hand in one process, on one device. Each
 * has an arena, a segment, a pad, a stream and a window over everyone's. Everything here ends the program when it
 * fails.
 */
#ifndef SIM_SIDES_H
#define SIM_SIDES_H

#include "memory/gpu_cuda.h"
#include "window/watchdog.h"
#include "window/window.h"

#include "simcuda.h"

#include <cudaTypedefs.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, peerwin_last_error());      \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CU(call)                 CHECK((call) == CUDA_SUCCESS)
#define OK(call)                 CHECK((call) == PEERWIN_OK)
#define SAYS(call, status, word) CHECK((call) == (status) && strstr(peerwin_last_error(), word))

/* The driver's calls as the test makes them, and those of the simulator, which a real driver has not. */
#define SIDES_CALLS(X)                                                                                                 \
    X(cuInit, 2000)                                                                                                    \
    X(cuDeviceGet, 2000)                                                                                               \
    X(cuDevicePrimaryCtxRetain, 7000)                                                                                  \
    X(cuDevicePrimaryCtxRelease, 11000)                                                                                \
    X(cuCtxGetCurrent, 4000)                                                                                           \
    X(cuCtxSetCurrent, 4000)                                                                                           \
    X(cuCtxCreate, 3020)                                                                                               \
    X(cuCtxDestroy, 4000)                                                                                              \
    X(cuMemAlloc, 3020)                                                                                                \
    X(cuMemFree, 3020)                                                                                                 \
    X(cuMemAllocHost, 3020)                                                                                            \
    X(cuMemFreeHost, 2000)                                                                                             \
    X(cuMemcpyAsync, 4000)                                                                                             \
    X(cuMemsetD8Async, 3020)                                                                                           \
    X(cuStreamCreate, 2000)                                                                                            \
    X(cuStreamDestroy, 4000)                                                                                           \
    X(cuStreamQuery, 2000)                                                                                             \
    X(cuStreamSynchronize, 2000)                                                                                       \
    X(cuStreamBeginCapture, 10010)                                                                                     \
    X(cuStreamEndCapture, 10000)                                                                                       \
    X(cuGraphInstantiateWithFlags, 11040)                                                                              \
    X(cuGraphLaunch, 10000)                                                                                            \
    X(cuGraphExecDestroy, 10000)                                                                                       \
    X(cuGraphDestroy, 10000)                                                                                           \
    X(cuEventCreate, 2000)                                                                                             \
    X(cuEventRecord, 2000)                                                                                             \
    X(cuStreamWaitEvent, 3020)                                                                                         \
    X(cuEventDestroy, 4000)

#define SIDES_SIMULATOR(X)                                                                                             \
    X(simcuda_reset)                                                                                                   \
    X(simcuda_fail)                                                                                                    \
    X(simcuda_calls)                                                                                                   \
    X(simcuda_injected)                                                                                                \
    X(simcuda_only_this_thread)                                                                                        \
    X(simcuda_lose_context)                                                                                            \
    X(simcuda_live)                                                                                                    \
    X(simcuda_dump)                                                                                                    \
    X(simcuda_kind_name)

struct sides_calls {
#define SIDES_MEMBER(name, version_) PFN_##name##_v##version_ name;
    SIDES_CALLS(SIDES_MEMBER)
#undef SIDES_MEMBER
};
struct sides_simulator {
#define SIDES_MEMBER(name) __typeof__(&name) name;
    SIDES_SIMULATOR(SIDES_MEMBER)
#undef SIDES_MEMBER
};
extern struct sides_calls cu;
extern struct sides_simulator sim;

/* Loads the driver. 1 if it is the simulator. */
int sides_load(const char *driver);

/* A program's cases; each runs in a process of its own. */
typedef struct {
    const char *name;
    void (*run)(void);
    int simulated; /* cannot be had of a real driver */
} sides_case;

/* `program LIBRARY [CASE...]`: runs the cases, or those that are named. Returns the exit status. */
int sides_main(int argc, char **argv, const sides_case *cases, size_t count);
extern const char *library; /* as given to sides_main */
extern pid_t sleeper;       /* a process that does nothing, started before the driver was */

/* Starts counting calls; 1 if there were `count` since then, or nobody counts. */
void sim_reset(void);
int sim_counted(const char *name, unsigned long count);

enum { SEGMENT = 64 << 10, SLOTS = 64, MOST_SIDES = 150 };

typedef struct {
    peerwin_ctx *ctx;
    peerwin_win *win;
    CUstream stream;
    CUdeviceptr arena, segment;
} side;

/*
 * Makes `count` ranks; `mine` of them have a context, the others only memory. No watchdog thread unless `watchdog`.
 * The primary context of the device is current then.
 */
void sides_make(const char *driver, side *sides, int count, int mine, int watchdog);

/* Ends them, and checks that nothing is left. */
void sides_end(side *sides, int count, int mine);

/* What is in device memory, and what is to be; for the test, behind the library's back. */
void peek(CUdeviceptr from, void *host, size_t bytes);
void poke(CUdeviceptr to, const void *host, size_t bytes);
uint64_t peek_word(CUdeviceptr from);
void poke_word(CUdeviceptr to, uint64_t value);

#endif
