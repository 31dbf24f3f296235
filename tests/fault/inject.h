/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Faults at a chosen call. The programs here link the static library with --wrap, so that the calls which peerwin
 * itself makes (and no call of MPI or of the C library) go through the functions of inject.c. A plan says which of them
 * to strike, the how-manieth, and with what: an errno, death, a stop, or a delay.
 *
 * A plan counts calls of the thread that armed it only, and only until inject_disarm.
 */
#ifndef PEERWIN_TESTS_INJECT_H
#define PEERWIN_TESTS_INJECT_H

#include <stdint.h>

/** Every call that can be struck. The first ones can fail; those from MPI_COMM_IDUP on can only be places. */
#define INJECT_CALLS(X)                                                                                                \
    X(MALLOC, "malloc")                                                                                                \
    X(CALLOC, "calloc")                                                                                                \
    X(MMAP, "mmap")                                                                                                    \
    X(MADVISE, "madvise")                                                                                              \
    X(MEMFD_CREATE, "memfd_create")                                                                                    \
    X(FTRUNCATE, "ftruncate")                                                                                          \
    X(FALLOCATE, "fallocate")                                                                                          \
    X(FCNTL, "fcntl")                                                                                                  \
    X(FSTAT, "fstat")                                                                                                  \
    X(SOCKET, "socket")                                                                                                \
    X(BIND, "bind")                                                                                                    \
    X(LISTEN, "listen")                                                                                                \
    X(CONNECT, "connect")                                                                                              \
    X(ACCEPT4, "accept4")                                                                                              \
    X(GETSOCKNAME, "getsockname")                                                                                      \
    X(GETSOCKOPT, "getsockopt")                                                                                        \
    X(SENDMSG, "sendmsg")                                                                                              \
    X(RECVMSG, "recvmsg")                                                                                              \
    X(POLL, "poll")                                                                                                    \
    X(PIDFD_OPEN, "pidfd_open")                                                                                        \
    X(GETRANDOM, "getrandom")                                                                                          \
    X(OPEN, "open")                                                                                                    \
    X(MPI_COMM_IDUP, "MPI_Comm_idup")                                                                                  \
    X(MPI_IALLREDUCE, "MPI_Iallreduce")                                                                                \
    X(MPI_IALLGATHER, "MPI_Iallgather")                                                                                \
    X(MPI_IBCAST, "MPI_Ibcast")                                                                                        \
    X(MPI_TEST, "MPI_Test")                                                                                            \
    X(MUNMAP, "munmap")                                                                                                \
    X(CLOSE, "close")

typedef enum {
#define INJECT_ENUM(name, text) INJECT_##name,
    INJECT_CALLS(INJECT_ENUM)
#undef INJECT_ENUM
        INJECT_COUNT
} inject_call;

#define INJECT_BIT(call) (1ull << (call))
/** Every place but MPI_Test, whose number of calls differs from run to run. */
#define INJECT_ANY ((INJECT_BIT(INJECT_COUNT) - 1) & ~INJECT_BIT(INJECT_MPI_TEST))

typedef enum { INJECT_FAIL, INJECT_KILL, INJECT_STOP, INJECT_DELAY, INJECT_CALLBACK } inject_action;

typedef struct {
    uint64_t calls; /* bits of inject_call */
    int nth;        /* strikes at the nth of them, counted from 1; 0 = never, only counts */
    int lasting;    /* and at all that come after it */
    inject_action action;
    int value;              /* FAIL: errno; DELAY: milliseconds */
    void (*callback)(void); /* CALLBACK: run before the call */
} inject_plan;

void inject_arm(const inject_plan *plan);
/** Ends the plan; returns 1 if it struck. */
int inject_disarm(void);
/** Calls counted under the last plan. */
int inject_counted(void);
/** Where the last plan struck. */
inject_call inject_struck(void);
const char *inject_name(inject_call call);

/** Where the time of a death or stop is written before it happens (nanoseconds of the monotonic clock). */
void inject_stamp_to(_Atomic int64_t *stamp);
void inject_stamp(void);
/** Dies or stops here and now, with the stamp. */
void inject_die(void);
void inject_stop(void);

#endif
