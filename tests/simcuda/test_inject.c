/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Injection: the n-th call, named calls, sticky failures, releasing calls, delays, signals, lost contexts, and writes
 * to peers that do not arrive or arrive wrong.
 */
#define _GNU_SOURCE
#include "simtest.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simtest_kernels.h"

static void nth_call(void) {
    CUcontext ctx = NULL;
    CUdevice device;
    start();
    simcuda_reset();
    simcuda_fail(NULL, 3, CUDA_ERROR_OPERATING_SYSTEM, 0);
    OK(cuCtxGetCurrent(&ctx));
    OK(cuCtxGetDevice(&device));
    CHECK_EQ(simcuda_injected(), 0);
    CHECK_RC(cuDeviceGet(&device, 0), CUDA_ERROR_OPERATING_SYSTEM);
    OK(cuDeviceGet(&device, 0));
    CHECK_EQ(simcuda_injected(), 1);
    CHECK_EQ(simcuda_calls(NULL), 4);
    CHECK_EQ(simcuda_calls("cuDeviceGet"), 2);
    CHECK(strcmp(simcuda_call_name(3), "cuDeviceGet") == 0);
    CHECK(simcuda_call_name(5) == NULL);
    stop();
}

static void named_call(void) {
    CUdeviceptr a = 0, b = 0, c = 0;
    start();
    simcuda_reset();
    simcuda_fail("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY, 0);
    OK(cuMemAlloc(&a, 4096));
    OK(cuMemFree(a));
    CHECK_RC(cuMemAlloc(&b, 4096), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQ(b, 0);
    OK(cuMemAlloc(&c, 4096));
    OK(cuMemFree(c));
    CHECK_EQ(simcuda_injected(), 1);
    stop();
}

static void sticky(void) {
    CUevent event = NULL;
    CUdevice device;
    start();
    simcuda_fail("cuEventCreate", 2, CUDA_ERROR_NOT_PERMITTED, 1);
    OK(cuEventCreate(&event, 0));
    for (int i = 0; i < 5; i++) {
        CUevent none = NULL;
        CHECK_RC(cuEventCreate(&none, 0), CUDA_ERROR_NOT_PERMITTED);
    }
    OK(cuDeviceGet(&device, 0));
    CHECK_EQ(simcuda_injected(), 5);
    simcuda_reset();
    OK(cuEventDestroy(event));
    OK(cuEventCreate(&event, 0));
    OK(cuEventDestroy(event));
    stop();
}

/* A driver whose releasing call fails has released all the same, or it never will: nobody can do better. */
static void releases_all_the_same(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = device_prop(0, FD);
    CUdeviceptr ptr = 0, plain = 0;
    CUstream stream = NULL;
    CUevent event = NULL;
    start();
    OK(cuMemAlloc(&plain, 4096));
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    OK(map_whole(handle, 2 * MIB, &ptr));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    simcuda_fail(NULL, 1, CUDA_ERROR_UNKNOWN, 1);
    CHECK_RC(cuMemUnmap(ptr, 2 * MIB), CUDA_ERROR_UNKNOWN);
    CHECK_RC(cuMemAddressFree(ptr, 2 * MIB), CUDA_ERROR_UNKNOWN);
    CHECK_RC(cuMemRelease(handle), CUDA_ERROR_UNKNOWN);
    CHECK_RC(cuMemFree(plain), CUDA_ERROR_UNKNOWN);
    CHECK_RC(cuStreamDestroy(stream), CUDA_ERROR_UNKNOWN);
    CHECK_RC(cuEventDestroy(event), CUDA_ERROR_UNKNOWN);
    simcuda_reset();
    stop();
}

/* What fails makes nothing. */
static void makes_nothing(void) {
    CUdeviceptr ptr = 0;
    CUstream stream = NULL;
    CUmemAllocationProp prop = device_prop(0, FD);
    CUmemGenericAllocationHandle handle = 0;
    start();
    simcuda_fail(NULL, 1, CUDA_ERROR_OUT_OF_MEMORY, 1);
    CHECK_RC(cuMemAlloc(&ptr, 4096), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_RC(cuMemCreate(&handle, 2 * MIB, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_RC(cuMemAddressReserve(&ptr, 2 * MIB, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_RC(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(ptr == 0 && handle == 0 && stream == NULL);
    simcuda_reset();
    stop();
}

static void delay(void) {
    CUdevice device;
    start();
    simcuda_delay("cuDeviceGet", 2, 150);
    double begin = now();
    OK(cuDeviceGet(&device, 0));
    CHECK(now() - begin < 0.14);
    begin = now();
    OK(cuDeviceGet(&device, 0));
    CHECK(now() - begin >= 0.15);
    simcuda_reset();
    simcuda_delay("cuDeviceGet", 0, 60);
    begin = now();
    OK(cuDeviceGet(&device, 0));
    OK(cuDeviceGet(&device, 0));
    CHECK(now() - begin >= 0.12);
    simcuda_reset();
    stop();
}

static void *get_devices(void *failures) {
    CUdevice device;
    for (int i = 0; i < 10; i++) {
        *(int *)failures += cuDeviceGet(&device, 0) != CUDA_SUCCESS;
    }
    return NULL;
}

static void only_this_thread(void) {
    CUdevice device;
    pthread_t thread;
    int failures = 0;
    start();
    simcuda_reset();
    simcuda_fail("cuDeviceGet", 1, CUDA_ERROR_UNKNOWN, 1);
    simcuda_only_this_thread(1);
    CHECK_EQ(pthread_create(&thread, NULL, get_devices, &failures), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(failures, 0);
    CHECK_RC(cuDeviceGet(&device, 0), CUDA_ERROR_UNKNOWN);
    simcuda_only_this_thread(0);
    CHECK_EQ(pthread_create(&thread, NULL, get_devices, &failures), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(failures, 10);
    simcuda_reset();
    stop();
}

static void from_environment(void) {
    CUcontext ctx = NULL;
    CUdevice device;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    CHECK_RC(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    stop();
}

static void for_another_rank(void) {
    CUcontext ctx = NULL;
    CUdevice device;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    stop();
}

static void killed(void) {
    CUdeviceptr ptr = 0;
    start();
    simcuda_signal("cuMemAlloc", 2, SIGKILL);
    OK(cuMemAlloc(&ptr, 4096));
    cuMemAlloc(&ptr, 4096);
}

static void stopped(void) {
    int status = 0;
    pid_t pid = fork(); /* before cuInit */
    if (pid == 0) {
        CUdevice device;
        start();
        simcuda_signal("cuDeviceGet", 1, SIGSTOP);
        OK(cuDeviceGet(&device, 0));
        simcuda_reset();
        stop();
        _exit(7);
    }
    CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK_EQ(kill(pid, SIGCONT), 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void lost_context(void) {
    CUdeviceptr ptr = 0, more = 0;
    CUcontext ctx = NULL;
    CUstream stream = NULL;
    start();
    OK(cuMemAlloc(&ptr, 4096));
    OK(cuMemsetD8(ptr, 0, 4096));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32(stream, ptr, 1, CU_STREAM_WAIT_VALUE_EQ));
    CHECK_RC(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    CHECK_EQ(simcuda_lose_context(CUDA_ERROR_ILLEGAL_ADDRESS), 0);
    CHECK_RC(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_RC(cuMemAlloc(&more, 4096), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_RC(cuStreamDestroy(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_RC(cuMemFree(ptr), CUDA_ERROR_ILLEGAL_ADDRESS);
    stop();
    CHECK_RC(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(simcuda_lose_context(CUDA_ERROR_UNKNOWN), -1);
}

/* ---- writes to a peer: the peer owns the memory and says what has become of it ---- */

enum { WORDS = 6 };

static void owner(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = device_prop(0, FD);
    CUdeviceptr ptr = 0;
    int fd = -1;
    uint32_t words[WORDS];
    start();
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    OK(map_whole(handle, 2 * MIB, &ptr));
    OK(cuMemsetD8(ptr, 0, 2 * MIB));
    OK(cuMemExportToShareableHandle(&fd, handle, FD, 0));
    tell_fd(fd);
    close(fd);
    await();
    OK(cuMemcpyDtoH(words, ptr, sizeof words));
    tell(words, sizeof words);
    unmap_whole(ptr, 2 * MIB);
    OK(cuMemRelease(handle));
    stop();
}

/* Word 0 by a copy, 1 by a fill, 2 and 3 by a memory operation, 4 by a kernel. */
static void write_all(enum simcuda_writes mode, uint32_t arrived[WORDS]) {
    CUmemGenericAllocationHandle handle = 0;
    CUmodule module = NULL;
    CUdeviceptr ptr = 0;
    uint32_t value = 0x11111111;
    start();
    int fd = hear_fd();
    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, FD));
    close(fd);
    simcuda_peer_writes(mode);
    OK(map_whole(handle, 2 * MIB, &ptr));
    OK(cuMemRelease(handle));
    OK(cuMemcpyHtoD(ptr, &value, 4));
    OK(cuMemsetD32(ptr + 4, 0x22222222, 1));
    OK(cuStreamWriteValue64(NULL, ptr + 8, 0x3333333333333333, 0));
    struct simtest_add add = {ptr + 16, 0x44444444, 1};
    void *params[1] = {&add};
    OK(cuLaunchKernel(kernel(&module, "simtest_add"), 1, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    OK(cuCtxSynchronize());
    OK(cuModuleUnload(module));
    hand();
    hear(arrived, WORDS * sizeof *arrived);
    unmap_whole(ptr, 2 * MIB);
    stop();
}

static void writes_arrive(void) {
    uint32_t w[WORDS];
    write_all(SIMCUDA_WRITES_ARRIVE, w);
    CHECK(w[0] == 0x11111111 && w[1] == 0x22222222 && w[2] == 0x33333333 && w[3] == 0x33333333 && w[4] == 0x44444444);
    CHECK_EQ(w[5], 0);
}

static void writes_drop(void) {
    uint32_t w[WORDS];
    write_all(SIMCUDA_WRITES_DROP, w);
    CHECK((w[0] | w[1] | w[2] | w[3] | w[4]) == 0);
}

static void copies_drop(void) {
    uint32_t w[WORDS];
    write_all(SIMCUDA_WRITES_DROP_COPIES, w);
    CHECK((w[0] | w[1] | w[2] | w[3]) == 0 && w[4] == 0x44444444);
}

static void kernels_drop(void) {
    uint32_t w[WORDS];
    write_all(SIMCUDA_WRITES_DROP_KERNELS, w);
    CHECK_EQ(w[4], 0);
}

static void writes_corrupt(void) {
    uint32_t w[WORDS];
    write_all(SIMCUDA_WRITES_CORRUPT, w);
    CHECK(w[0] == (0x11111111 ^ 0x10000000) && w[2] == (0x33333333 ^ 0x10) && w[4] == 0x44444444);
}

static const struct simtest tests[] = {
    {"nth_call", nth_call, NULL, NULL, NULL, 0, NULL},
    {"named_call", named_call, NULL, NULL, NULL, 0, NULL},
    {"sticky", sticky, NULL, NULL, NULL, 0, NULL},
    {"releases_all_the_same", releases_all_the_same, NULL, NULL, NULL, 0, NULL},
    {"makes_nothing", makes_nothing, NULL, NULL, NULL, 0, NULL},
    {"delay", delay, NULL, NULL, NULL, 0, NULL},
    {"only_this_thread", only_this_thread, NULL, NULL, NULL, 0, NULL},
    {"from_environment", from_environment, NULL, "SIMCUDA_FAIL=0:2:46", NULL, 0, NULL},
    {"for_another_rank", for_another_rank, NULL, "SIMCUDA_FAIL=1:2:46", NULL, 0, NULL},
    {"as_rank_one", from_environment, NULL, "SIMCUDA_FAIL=1:2:46 OMPI_COMM_WORLD_RANK=1", NULL, 0, NULL},
    {"killed", killed, NULL, NULL, NULL, SIGKILL, NULL},
    {"stopped", stopped, NULL, NULL, NULL, 0, NULL},
    {"lost_context", lost_context, NULL, NULL, NULL, 0, NULL},
    {"writes_arrive", writes_arrive, owner, NULL, NULL, 0, NULL},
    {"writes_drop", writes_drop, owner, NULL, NULL, 0, NULL},
    {"copies_drop", copies_drop, owner, NULL, NULL, 0, NULL},
    {"kernels_drop", kernels_drop, owner, NULL, NULL, 0, NULL},
    {"writes_corrupt", writes_corrupt, owner, NULL, NULL, 0, NULL},
    {NULL, NULL, NULL, NULL, NULL, 0, NULL}};

int main(int argc, char **argv) {
    return simtest_main(argc, argv, tests);
}
