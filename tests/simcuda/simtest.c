/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Starts each case by fork and exec of this program, with its environment, and judges how it ended.
 */
#define _GNU_SOURCE
#include "simtest.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CASE_SECONDS = 30 };

void simtest_fail(const char *file, int line, const char *format, ...) {
    const char *slash = strrchr(file, '/');
    va_list args;
    fprintf(stderr, "%s:%d: ", slash != NULL ? slash + 1 : file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stderr);
    _exit(1);
}

/* ---- one case, in its own process ---- */

/* Both halves of "NAME=value NAME=value" pairs. */
static void set_environment(const char *pairs) {
    char copy[512], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", pairs != NULL ? pairs : "");
    for (char *pair = strtok_r(copy, " ", &rest); pair != NULL; pair = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(pair, '=');
        *equals = 0;
        setenv(pair, equals + 1, 1);
    }
}

static pid_t start_process(const struct simtest *test, const char *role, int link) {
    pid_t pid = fork();
    if (pid == 0) {
        set_environment(test->env);
        if (strcmp(role, "--peer") == 0) {
            set_environment(test->peer_env);
        }
        if (link >= 0 && link != LINK_FD) {
            dup2(link, LINK_FD);
        }
        execl("/proc/self/exe", "simtest", role, test->name, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static int run_here(const struct simtest *test, int is_peer) {
    pid_t peer = 0;
    int status = 0, pair[2];
    alarm(CASE_SECONDS);
    if (is_peer) {
        test->peer();
        return 0;
    }
    if (test->peer != NULL) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
            return 1;
        }
        peer = start_process(test, "--peer", pair[1]);
        close(pair[1]);
        if (pair[0] != LINK_FD) {
            dup2(pair[0], LINK_FD);
            close(pair[0]);
        }
    }
    test->run();
    if (peer > 0) {
        close(LINK_FD);
        CHECK_EQ(waitpid(peer, &status, 0), peer);
        CHECK_EQ(status, 0);
    }
    return 0;
}

/* ---- all cases ---- */

static size_t read_all(int fd, char *text, size_t room) {
    size_t used = 0;
    for (ssize_t n; used + 1 < room && (n = read(fd, text + used, room - 1 - used)) > 0;) {
        used += (size_t)n;
    }
    text[used] = 0;
    return used;
}

static int judge(const struct simtest *test, int status, const char *text) {
    int ended_well = test->signal == 0 ? WIFEXITED(status) && WEXITSTATUS(status) == 0
                                       : WIFSIGNALED(status) && WTERMSIG(status) == test->signal;
    int said = test->says == NULL || strstr(text, test->says) != NULL;
    if (ended_well && said) {
        printf("ok   %s\n", test->name);
        return 0;
    }
    printf("FAIL %s: %s %d, expected %s %d, saying \"%s\"\n%s", test->name, WIFSIGNALED(status) ? "signal" : "exit",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), test->signal != 0 ? "signal" : "exit",
           test->signal, test->says != NULL ? test->says : "", text);
    return 1;
}

/* The case's stderr comes through a pipe, and is shown if it fails. */
static int run_apart(const struct simtest *test) {
    static char text[65536];
    int pipes[2], status = 0, saved = dup(STDERR_FILENO);
    fflush(stdout);
    if (saved < 0 || pipe(pipes) != 0) {
        return 1;
    }
    dup2(pipes[1], STDERR_FILENO);
    pid_t pid = start_process(test, "--case", -1);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(pipes[1]);
    read_all(pipes[0], text, sizeof text);
    close(pipes[0]);
    return waitpid(pid, &status, 0) == pid ? judge(test, status, text) : 1;
}

int simtest_main(int argc, char **argv, const struct simtest *tests) {
    int is_case = argc == 3 && strcmp(argv[1], "--case") == 0, is_peer = argc == 3 && strcmp(argv[1], "--peer") == 0;
    int failures = 0;
    for (const struct simtest *test = tests; test->name != NULL; test++) {
        int wanted = argc == 1;
        for (int a = 1; a < argc; a++) {
            wanted |= strcmp(argv[a], test->name) == 0;
        }
        if (wanted && (is_case || is_peer)) {
            return run_here(test, is_peer);
        }
        failures += wanted && run_apart(test);
    }
    return failures;
}

/* ---- helpers ---- */

CUcontext start(void) {
    CUcontext ctx = NULL;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    return ctx;
}

void stop(void) {
    OK(cuCtxSetCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(0));
    for (int kind = 0; kind < SIMCUDA_KINDS; kind++) {
        if (simcuda_live((enum simcuda_kind)kind) != 0) {
            simcuda_dump();
            simtest_fail(__FILE__, __LINE__, "%s left", simcuda_kind_name((enum simcuda_kind)kind));
        }
    }
}

CUmemAllocationProp device_prop(int device, unsigned handle_types) {
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    prop.requestedHandleTypes = (CUmemAllocationHandleType)handle_types;
    return prop;
}

CUmemAccessDesc access_for(int device, CUmemAccess_flags flags) {
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = flags;
    return access;
}

CUresult map_whole(CUmemGenericAllocationHandle handle, size_t bytes, CUdeviceptr *ptr_out) {
    CUmemAccessDesc access = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemAddressReserve(ptr_out, bytes, 0, 0, 0));
    OK(cuMemMap(*ptr_out, bytes, 0, handle, 0));
    return cuMemSetAccess(*ptr_out, bytes, &access, 1);
}

void unmap_whole(CUdeviceptr ptr, size_t bytes) {
    OK(cuMemUnmap(ptr, bytes));
    OK(cuMemAddressFree(ptr, bytes));
}

uint32_t peek(CUdeviceptr ptr) {
    uint32_t value = 0;
    OK(cuMemcpyDtoH(&value, ptr, sizeof value));
    return value;
}

void poke(CUdeviceptr ptr, uint32_t value) {
    OK(cuMemcpyHtoD(ptr, &value, sizeof value));
    OK(cuStreamSynchronize(NULL));
}

CUfunction kernel(CUmodule *module_out, const char *name) {
    CUfunction function = NULL;
    OK(cuModuleLoadData(module_out, "simcuda"));
    OK(cuModuleGetFunction(&function, *module_out, name));
    OK(cuFuncLoad(function));
    return function;
}

double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
