/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the simulated driver itself. Every case has a process of its own, because the driver reads its environment
 * once and answers misuse by ending the process; a case says which end it expects. A case may have a peer: the same
 * program again, running another function, with the link (link.h) between them.
 */
#ifndef SIMCUDA_SIMTEST_H
#define SIMCUDA_SIMTEST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cuda.h>

#include "link.h"
#include "simcuda.h"

#define MIB    ((size_t)1 << 20)
#define FD     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define FABRIC CU_MEM_HANDLE_TYPE_FABRIC

struct simtest {
    const char *name;
    void (*run)(void);
    void (*peer)(void);   /* the other process, or NULL */
    const char *env;      /* "NAME=value NAME=value", for both */
    const char *peer_env; /* on top of it, for the peer */
    int signal;           /* the process ends by this signal, 0: it returns */
    const char *says;     /* and has written this to stderr */
};

/* Runs all cases, or those that are named; the number of failures is the exit status. */
int simtest_main(int argc, char **argv, const struct simtest *tests);

/* Ends the process with status 1 and says where. */
void simtest_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            simtest_fail(__FILE__, __LINE__, "%s", #condition);                                                        \
        }                                                                                                              \
    } while (0)

#define CHECK_RC(call, expected)                                                                                       \
    do {                                                                                                               \
        CUresult simtest_rc_ = (call), simtest_expected_ = (expected);                                                 \
        if (simtest_rc_ != simtest_expected_) {                                                                        \
            simtest_fail(__FILE__, __LINE__, "%s is %d, not %d", #call, (int)simtest_rc_, (int)simtest_expected_);     \
        }                                                                                                              \
    } while (0)
#define OK(call) CHECK_RC(call, CUDA_SUCCESS)

#define CHECK_EQ(value, expected)                                                                                      \
    do {                                                                                                               \
        long long simtest_value_ = (long long)(value), simtest_expected_ = (long long)(expected);                      \
        if (simtest_value_ != simtest_expected_) {                                                                     \
            simtest_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #value, simtest_value_, simtest_expected_);       \
        }                                                                                                              \
    } while (0)

CUcontext start(void); /* cuInit, the primary context of device 0 retained and current */
void stop(void);       /* released again; nothing may be left */
CUmemAllocationProp device_prop(int device, unsigned handle_types);
CUmemAccessDesc access_for(int device, CUmemAccess_flags flags);
/* Reserves, maps and opens an allocation to device 0; the first error comes back. */
CUresult map_whole(CUmemGenericAllocationHandle handle, size_t bytes, CUdeviceptr *ptr_out);
void unmap_whole(CUdeviceptr ptr, size_t bytes);
uint32_t peek(CUdeviceptr ptr);
void poke(CUdeviceptr ptr, uint32_t value);
CUfunction kernel(CUmodule *module_out, const char *name); /* of the program's own kernels, loaded */
double now(void);                                          /* seconds */

#endif
