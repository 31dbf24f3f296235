/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Faults at a chosen call; see inject.h. The linker sends peerwin's call of f to __wrap_f; __real_f is the original.
 */
#include "inject.h"

#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
    inject_plan plan;
    atomic_int armed;
    pthread_t thread;
    int counted;
    int fired;
    inject_call struck;
    _Atomic int64_t *stamp;
} state;

void inject_arm(const inject_plan *plan) {
    state.plan = *plan;
    state.counted = 0;
    state.fired = 0;
    state.thread = pthread_self();
    atomic_store(&state.armed, 1);
}

int inject_disarm(void) {
    atomic_store(&state.armed, 0);
    return state.fired;
}

int inject_counted(void) {
    return state.counted;
}

inject_call inject_struck(void) {
    return state.struck;
}

const char *inject_name(inject_call call) {
    static const char *const names[] = {
#define INJECT_NAME(name, text) text,
        INJECT_CALLS(INJECT_NAME)
#undef INJECT_NAME
    };
    return names[call];
}

void inject_stamp_to(_Atomic int64_t *stamp) {
    state.stamp = stamp;
}

void inject_stamp(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (state.stamp != NULL) {
        atomic_store(state.stamp, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    }
}

void inject_die(void) {
    inject_stamp();
    kill(getpid(), SIGKILL);
    for (;;) {
        pause();
    }
}

void inject_stop(void) {
    inject_stamp();
    raise(SIGSTOP);
}

static void act(void) {
    struct timespec time = {state.plan.value / 1000, (long)(state.plan.value % 1000) * 1000000L};
    switch (state.plan.action) {
    case INJECT_KILL:
        inject_die();
        break;
    case INJECT_STOP:
        inject_stop();
        break;
    case INJECT_DELAY:
        nanosleep(&time, NULL);
        break;
    case INJECT_CALLBACK:
        state.plan.callback();
        break;
    default:
        break;
    }
}

static int is_due(int count) {
    return state.plan.nth > 0 && (count == state.plan.nth || (state.plan.lasting && count > state.plan.nth));
}

/* The errno to fail with, or 0 to go on. */
static int strike(inject_call call) {
    if (!atomic_load(&state.armed) || !(state.plan.calls & INJECT_BIT(call)) ||
        !pthread_equal(state.thread, pthread_self()) || !is_due(++state.counted)) {
        return 0;
    }
    state.fired = 1;
    state.struck = call;
    if (state.plan.action == INJECT_FAIL) {
        return state.plan.value;
    }
    act();
    return 0;
}

/* ------------------------------------------------------------------------------------------------- the wrappers */

/* HOOK(type, failure, function, name, parameters, arguments): fails with errno set, or does the real thing. */
#define HOOK(type_, failure_, function_, name_, parameters_, arguments_)                                               \
    type_ __real_##function_ parameters_;                                                                              \
    type_ __wrap_##function_ parameters_;                                                                              \
    type_ __wrap_##function_ parameters_ {                                                                             \
        int code = strike(INJECT_##name_);                                                                             \
        if (code != 0) {                                                                                               \
            errno = code;                                                                                              \
            return failure_;                                                                                           \
        }                                                                                                              \
        return __real_##function_ arguments_;                                                                          \
    }

HOOK(void *, NULL, malloc, MALLOC, (size_t bytes), (bytes))
HOOK(void *, NULL, calloc, CALLOC, (size_t count, size_t bytes), (count, bytes))
HOOK(void *, MAP_FAILED, mmap, MMAP, (void *at, size_t bytes, int access, int flags, int fd, off_t offset),
     (at, bytes, access, flags, fd, offset))
HOOK(int, -1, madvise, MADVISE, (void *at, size_t bytes, int advice), (at, bytes, advice))
HOOK(int, -1, memfd_create, MEMFD_CREATE, (const char *name, unsigned flags), (name, flags))
HOOK(int, -1, ftruncate, FTRUNCATE, (int fd, off_t length), (fd, length))
HOOK(int, -1, fallocate, FALLOCATE, (int fd, int mode, off_t offset, off_t length), (fd, mode, offset, length))
HOOK(int, -1, fstat, FSTAT, (int fd, struct stat *info), (fd, info))
HOOK(int, -1, socket, SOCKET, (int domain, int type, int protocol), (domain, type, protocol))
HOOK(int, -1, bind, BIND, (int fd, const struct sockaddr *name, socklen_t length), (fd, name, length))
HOOK(int, -1, listen, LISTEN, (int fd, int backlog), (fd, backlog))
HOOK(int, -1, connect, CONNECT, (int fd, const struct sockaddr *name, socklen_t length), (fd, name, length))
HOOK(int, -1, accept4, ACCEPT4, (int fd, struct sockaddr *name, socklen_t *length, int flags),
     (fd, name, length, flags))
HOOK(int, -1, getsockname, GETSOCKNAME, (int fd, struct sockaddr *name, socklen_t *length), (fd, name, length))
HOOK(int, -1, getsockopt, GETSOCKOPT, (int fd, int level, int option, void *value, socklen_t *length),
     (fd, level, option, value, length))
HOOK(ssize_t, -1, sendmsg, SENDMSG, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
HOOK(ssize_t, -1, recvmsg, RECVMSG, (int fd, struct msghdr *message, int flags), (fd, message, flags))
HOOK(int, -1, poll, POLL, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
HOOK(ssize_t, -1, getrandom, GETRANDOM, (void *bytes, size_t count, unsigned flags), (bytes, count, flags))
HOOK(int, -1, munmap, MUNMAP, (void *at, size_t bytes), (at, bytes))
HOOK(int, -1, close, CLOSE, (int fd), (fd))

HOOK(int, MPI_ERR_OTHER, MPI_Comm_idup, MPI_COMM_IDUP, (MPI_Comm comm, MPI_Comm *copy, MPI_Request *request),
     (comm, copy, request))
HOOK(int, MPI_ERR_OTHER, MPI_Iallreduce, MPI_IALLREDUCE,
     (const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request),
     (in, out, count, type, op, comm, request))
HOOK(int, MPI_ERR_OTHER, MPI_Iallgather, MPI_IALLGATHER,
     (const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count, MPI_Datatype out_type,
      MPI_Comm comm, MPI_Request *request),
     (in, in_count, in_type, out, out_count, out_type, comm, request))
HOOK(int, MPI_ERR_OTHER, MPI_Ibcast, MPI_IBCAST,
     (void *bytes, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request),
     (bytes, count, type, root, comm, request))
HOOK(int, MPI_ERR_OTHER, MPI_Test, MPI_TEST, (MPI_Request * request, int *done, MPI_Status *status),
     (request, done, status))

/* Functions with variable arguments: all of them take one word, or words in registers. */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
    int code = strike(INJECT_OPEN);
    if (code != 0) {
        errno = code;
        return -1;
    }
    return __real_open(path, flags, 0); /* the library only reads */
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) {
    va_list args;
    va_start(args, command);
    long value = va_arg(args, long);
    va_end(args);
    int code = strike(INJECT_FCNTL);
    if (code != 0) {
        errno = code;
        return -1;
    }
    return __real_fcntl(fd, command, value);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    long a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(args, long);
    }
    va_end(args);
    int code = number == SYS_pidfd_open ? strike(INJECT_PIDFD_OPEN) : 0;
    if (code != 0) {
        errno = code;
        return -1;
    }
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
