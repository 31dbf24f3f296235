/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Streams and kernels: independent queues, all streams in one queue, kernels in their host form, graphs that run more
 * than once, and words that several streams write and await.
 */
#define _GNU_SOURCE
#include "simtest.h"

#include <string.h>
#include <unistd.h>

#include "simtest_kernels.h"

struct two {
    CUstream first, second, urgent;
    CUdeviceptr flag;
};

/* The first stream waits for a word that the second is told to write afterwards. */
static struct two make_two(void) {
    struct two t;
    memset(&t, 0, sizeof t);
    start();
    OK(cuMemAlloc(&t.flag, 4096));
    OK(cuMemsetD8(t.flag, 0, 4096));
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&t.first, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t.second, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreateWithPriority(&t.urgent, CU_STREAM_NON_BLOCKING, -5));
    OK(cuStreamWaitValue32(t.first, t.flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWriteValue32(t.second, t.flag, 1, 0));
    return t;
}

static void end_two(const struct two *t) {
    OK(cuStreamSynchronize(t->first));
    OK(cuStreamSynchronize(t->second));
    OK(cuStreamDestroy(t->first));
    OK(cuStreamDestroy(t->second));
    OK(cuStreamDestroy(t->urgent));
    OK(cuMemFree(t->flag));
    stop();
}

static void queues_apart(void) {
    struct two t = make_two();
    end_two(&t);
}

/* A wait whose cause was queued behind it never ends; another priority has another queue. */
static void one_queue(void) {
    struct two t = make_two();
    usleep(150000);
    CHECK_RC(cuStreamQuery(t.first), CUDA_ERROR_NOT_READY);
    CHECK_RC(cuStreamQuery(t.second), CUDA_ERROR_NOT_READY);
    OK(cuStreamWriteValue32(t.urgent, t.flag, 1, 0));
    end_two(&t);
}

/* Destroyed with work in it, it finishes that work. */
static void destroyed_with_work(void) {
    struct two t = make_two();
    CUevent event = NULL;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CUstream brief = NULL;
    OK(cuStreamCreate(&brief, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32(brief, t.flag + 8, 7, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamWriteValue32(brief, t.flag + 12, 9, 0));
    OK(cuEventRecord(event, brief));
    OK(cuStreamDestroy(brief));
    OK(cuStreamWaitEvent(t.first, event, 0));
    OK(cuEventDestroy(event));
    OK(cuStreamWriteValue32(t.urgent, t.flag + 8, 7, 0));
    OK(cuStreamSynchronize(t.first));
    CHECK_EQ(peek(t.flag + 12), 9);
    end_two(&t);
}

static void kernels(void) {
    CUmodule module = NULL;
    CUdeviceptr ptr = 0;
    uint32_t words[1000];
    start();
    CUfunction add = kernel(&module, "simtest_add"), lanes = NULL;
    OK(cuModuleGetFunction(&lanes, module, "simtest_lanes"));
    OK(cuMemAlloc(&ptr, sizeof words));
    OK(cuMemsetD32(ptr, 5, 1000));
    struct simtest_add args = {ptr, 3, 999};
    void *params[1] = {&args};
    OK(cuLaunchKernel(add, 3, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH(words, ptr, sizeof words));
    for (int i = 0; i < 999; i++) {
        CHECK_EQ(words[i], 8);
    }
    CHECK_EQ(words[999], 5);
    struct simtest_lanes sums = {ptr};
    params[0] = &sums;
    OK(cuMemsetD32(ptr, 0, 1000));
    OK(cuLaunchKernel(lanes, 4, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH(words, ptr, sizeof words));
    for (unsigned block = 0; block < 4; block++) {
        CHECK_EQ(words[block], 127 * 128 / 2 + 1000 * 128 * block);
    }
    CHECK_EQ(words[4], 4);
    CUfunction none = NULL;
    CHECK_RC(cuModuleGetFunction(&none, module, "simtest_none"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleUnload(module));
    OK(cuMemFree(ptr));
    stop();
}

/* The driver has the bytes, the device not yet: other streams and other processes must not rely on the return. */
static void upload_returns_early(void) {
    CUdeviceptr ptr = 0;
    int early = 0;
    start();
    OK(cuMemAlloc(&ptr, MIB));
    static unsigned char bytes[MIB];
    for (int i = 0; i < 50 && !early; i++) {
        OK(cuMemcpyHtoD(ptr, bytes, 64));
        early = cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY;
        bytes[0]++;
    }
    CHECK(early);
    OK(cuStreamSynchronize(NULL));
    CHECK_EQ(peek(ptr) & 0xff, bytes[0] - 1);
    OK(cuMemcpyHtoD(ptr, bytes, MIB));
    OK(cuStreamQuery(NULL)); /* large ones wait */
    OK(cuMemFree(ptr));
    stop();
}

/* Parameters are taken at the launch, and at the capture. */
static void graph_replays(void) {
    CUmodule module = NULL;
    CUdeviceptr ptr = 0;
    CUstream stream = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    start();
    CUfunction add = kernel(&module, "simtest_add");
    OK(cuMemAlloc(&ptr, 4096));
    OK(cuMemsetD32(ptr, 0, 1024));
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    struct simtest_add args = {ptr, 2, 10};
    void *params[1] = {&args};
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    args.value = 100;
    OK(cuStreamWriteValue32(stream, ptr + 64, 77, 0));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        OK(cuGraphLaunch(exec, stream));
    }
    OK(cuStreamSynchronize(stream));
    CHECK_EQ(peek(ptr), 6);
    CHECK_EQ(peek(ptr + 64), 77);
    OK(cuGraphExecDestroy(exec));
    OK(cuModuleUnload(module));
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(ptr));
    stop();
}

/* Two streams pass a token to and fro; what was written before the token is there after it. */
static void ping_pong(void) {
    enum { ROUNDS = 200 };
    CUdeviceptr ptr = 0;
    CUstream side[2];
    CUmodule module = NULL;
    start();
    CUfunction add = kernel(&module, "simtest_add");
    OK(cuMemAlloc(&ptr, 4096));
    OK(cuMemsetD8(ptr, 0, 4096));
    OK(cuCtxSynchronize());
    for (int s = 0; s < 2; s++) {
        OK(cuStreamCreate(&side[s], CU_STREAM_NON_BLOCKING));
    }
    struct simtest_add args = {ptr + 1024, 1, 100};
    void *params[1] = {&args};
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (int s = 0; s < 2; s++) {
            CUdeviceptr mine = ptr + 8 * (CUdeviceptr)s, other = ptr + 8 * (CUdeviceptr)(1 - s);
            OK(cuStreamWaitValue64(side[s], mine, i + (s == 1), CU_STREAM_WAIT_VALUE_GEQ));
            OK(cuLaunchKernel(add, 1, 1, 1, 128, 1, 1, 0, side[s], params, NULL));
            OK(cuStreamWriteValue64(side[s], other, i + 1, 0));
        }
    }
    OK(cuCtxSynchronize());
    CHECK_EQ(peek(ptr + 1024), 2 * ROUNDS);
    CHECK_EQ(peek(ptr + 1420), 2 * ROUNDS);
    OK(cuStreamDestroy(side[0]));
    OK(cuStreamDestroy(side[1]));
    OK(cuModuleUnload(module));
    OK(cuMemFree(ptr));
    stop();
}

static const struct simtest tests[] = {
    {"queues_apart", queues_apart, NULL, NULL, NULL, 0, NULL},
    {"one_queue", one_queue, NULL, "SIMCUDA_ONE_QUEUE=1", NULL, 0, NULL},
    {"destroyed_with_work", destroyed_with_work, NULL, NULL, NULL, 0, NULL},
    {"kernels", kernels, NULL, NULL, NULL, 0, NULL},
    {"upload_returns_early", upload_returns_early, NULL, NULL, NULL, 0, NULL},
    {"graph_replays", graph_replays, NULL, NULL, NULL, 0, NULL},
    {"graph_replays_in_one_queue", graph_replays, NULL, "SIMCUDA_ONE_QUEUE=1", NULL, 0, NULL},
    {"ping_pong", ping_pong, NULL, NULL, NULL, 0, NULL},
    {NULL, NULL, NULL, NULL, NULL, 0, NULL}};

int main(int argc, char **argv) {
    return simtest_main(argc, argv, tests);
}
