/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What a test can ask of the simulated driver beyond CUDA: let calls fail, wait or kill, spoil writes to peers, count
 * calls and live objects. Found with dlsym in libsimcuda.so, or linked. All of it is thread-safe.
 *
 * Environment, read by cuInit:
 *   SIMCUDA_TOPOLOGY        same-gpu (default) | nvswitch:N | pcie:N | pcie-no-peer:N | cliques:AxB | nodes:AxB
 *                           (A groups of B devices; peers within a group; in "nodes" all groups are one fabric clique)
 *   SIMCUDA_NODE, SIMCUDA_NODE_RANKS=k
 *                           this process pretends to be on node n (or: rank / k) and sees that group's devices only
 *   SIMCUDA_VISIBLE=rank    one device per local rank, as a launcher would set CUDA_VISIBLE_DEVICES
 *   CUDA_VISIBLE_DEVICES    as usual: indices or UUIDs (or their beginnings), up to the first that does not exist
 *   SIMCUDA_IMEX=1          an IMEX channel exists; without it fabric handles are announced and refused
 *   SIMCUDA_FABRIC=0        the fabric attribute is 0
 *   SIMCUDA_MPS=1, SIMCUDA_MIG=1, SIMCUDA_ATOMICS=0, SIMCUDA_FLUSH=1, SIMCUDA_NO_MEMOPS=1, SIMCUDA_NO_VMM=1
 *   SIMCUDA_DEVICE_MIB      memory of each device, 16384
 *   SIMCUDA_DRIVER_VERSION  13000; entry points of later versions are absent
 *   SIMCUDA_ONE_QUEUE=1     all streams of one priority of a context share a queue
 *   SIMCUDA_STRICT=0        misuse is answered as a driver does, instead of ending the process
 *   SIMCUDA_KERNELS         shared object with the host form of the kernels (simkernel.h)
 *   SIMCUDA_NO_PKEYS=1      device memory stays readable by host code
 *   SIMCUDA_NO_DEVICE=1     there is a driver and no device
 *   SIMCUDA_FAIL=rank:n:code[:sticky]  simcuda_fail from the environment, for whole programs
 */
#ifndef SIMCUDA_H
#define SIMCUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of live objects, for leak checks. */
enum simcuda_kind {
    SIMCUDA_ALLOCATIONS = 0,  /* device allocations of any kind made here and not freed, managed ones included */
    SIMCUDA_MAPPINGS = 1,     /* VMM mappings */
    SIMCUDA_RESERVATIONS = 2, /* reserved address ranges */
    SIMCUDA_HANDLES = 3,      /* references to VMM allocation handles made or retained here */
    SIMCUDA_IMPORTED = 4,     /* opened legacy handles, references to imported VMM handles, imported pool pointers */
    SIMCUDA_FDS = 5,          /* exported or received descriptors open in this process, the driver's own left out */
    SIMCUDA_STREAMS = 6,
    SIMCUDA_EVENTS = 7,
    SIMCUDA_MODULES = 8,
    SIMCUDA_POOLS = 9,
    SIMCUDA_HOST_RANGES = 10, /* registered or allocated */
    SIMCUDA_CONTEXTS = 11,    /* created contexts and retains of primary ones */
    SIMCUDA_GRAPHS = 12,      /* graphs and executable graphs */
    SIMCUDA_CURRENT = 13,     /* depth of this thread's stack of contexts */
    SIMCUDA_KINDS = 14
};

/* Injection. Calls are counted from 1 after simcuda_reset or after the arming call; only armed ones are touched. */
void simcuda_reset(void); /* disarm everything and set all counters to zero */
/* The n-th call (of `name`, or of any when NULL) returns `code`; from then on every such call when `sticky`. Releasing
 * calls release all the same. */
void simcuda_fail(const char *name, unsigned long n, int code, int sticky);
void simcuda_delay(const char *name, unsigned long n, unsigned milliseconds); /* n = 0: every such call */
void simcuda_signal(const char *name, unsigned long n, int signal);           /* SIGKILL or SIGSTOP to this process */
int simcuda_injected(void); /* how often an armed action has happened since the last reset or arming */
/* Only calls of the arming thread count and are touched; 0 (the default) means all threads. */
void simcuda_only_this_thread(int on);

/* What becomes of writes into imported memory. Kernel writes are affected in mappings made from then on. */
enum simcuda_writes {
    SIMCUDA_WRITES_ARRIVE = 0,
    SIMCUDA_WRITES_DROP = 1,         /* by copies, memory operations and kernels */
    SIMCUDA_WRITES_DROP_COPIES = 2,  /* by copies and memory operations */
    SIMCUDA_WRITES_DROP_KERNELS = 3, /* by kernels */
    SIMCUDA_WRITES_CORRUPT = 4       /* copies flip a bit of their last byte */
};
void simcuda_peer_writes(enum simcuda_writes mode);

/* As if a kernel had faulted: the current context is lost with this code for good. 0 on success, -1 without context. */
int simcuda_lose_context(int code);

unsigned long simcuda_calls(const char *name); /* since the last reset; NULL: all */
/* Name of the n-th call since the last reset (the last 4,096 are kept), or NULL. */
const char *simcuda_call_name(unsigned long n);
size_t simcuda_live(enum simcuda_kind kind);
const char *simcuda_kind_name(enum simcuda_kind kind);
void simcuda_dump(void);    /* every live object to stderr */
int simcuda_protects(void); /* 1 if host code cannot touch device memory here */

#ifdef __cplusplus
}
#endif

#endif
