/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Transfers on streams, between ranks that are made by hand in one process (sides.h); on the simulated driver, or on a
 * real one, which leaves out what needs calls to fail. Every case is a process of its own, because the simulated driver
 * reads its environment once, and a lost context stays lost.
 */
#include "sides.h"

#include "base/clock.h"
#include "transfer/box.h"
#include "transfer/stream.h"
#include "transfer/stream_door.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static side sides[MOST_SIDES];

static void *any(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

/* The three kinds of local memory: device, page-locked, pageable. */
enum { KINDS = 3 };
static void *locals[KINDS];

static void make_locals(void) {
    CUdeviceptr device = 0;
    CU(cu.cuMemAlloc(&device, SEGMENT));
    locals[0] = any(device);
    CU(cu.cuMemAllocHost(&locals[1], SEGMENT));
    locals[2] = malloc(SEGMENT);
    CHECK(locals[2]);
}

static void free_locals(void) {
    CU(cu.cuMemFree((CUdeviceptr)(uintptr_t)locals[0]));
    CU(cu.cuMemFreeHost(locals[1]));
    free(locals[2]);
}

static void write_local(int kind, const unsigned char *bytes, size_t count) {
    if (kind == 0)
        poke((CUdeviceptr)(uintptr_t)locals[0], bytes, count);
    else
        memcpy(locals[kind], bytes, count);
}

static void read_local(int kind, unsigned char *bytes, size_t count) {
    if (kind == 0)
        peek((CUdeviceptr)(uintptr_t)locals[0], bytes, count);
    else
        memcpy(bytes, locals[kind], count);
}

static unsigned seed = 1;

static unsigned any_number(unsigned below) {
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % below;
}

static void any_bytes(unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)any_number(256);
}

static unsigned char here[SEGMENT], there[SEGMENT], seen[SEGMENT];

static void set_scene(int kind) {
    any_bytes(here, SEGMENT);
    any_bytes(there, SEGMENT);
    write_local(kind, here, SEGMENT);
    poke(sides[1].segment, there, SEGMENT);
}

static void check_scene(int kind) {
    OK(peerwin_stream_sync(sides[0].ctx, sides[0].stream));
    read_local(kind, seen, SEGMENT);
    CHECK(memcmp(seen, here, SEGMENT) == 0);
    peek(sides[1].segment, seen, SEGMENT);
    CHECK(memcmp(seen, there, SEGMENT) == 0);
}

static void contiguous_bytes_arrive_at_any_alignment(void) {
    sides_make(library, sides, 2, 2, 0);
    make_locals();
    for (int round = 0; round < 120; round++) {
        int kind = round % KINDS;
        size_t bytes = 1 + any_number(round % 2 ? 80 : 20000);
        size_t at = any_number(SEGMENT - 20000);
        size_t from = any_number(SEGMENT - 20000);
        set_scene(kind);
        OK(peerwin_put(sides[0].win, 1, at, (char *)locals[kind] + from, bytes, sides[0].stream));
        memcpy(there + at, here + from, bytes);
        check_scene(kind);
        OK(peerwin_get(sides[0].win, 1, from, (char *)locals[kind] + at, bytes, sides[0].stream));
        memcpy(here + at, there + from, bytes);
        check_scene(kind);
    }
    free_locals();
    sides_end(sides, 2, 2);
}

static void the_kernel_copies_what_the_engine_does(void) {
    const pw_site site = {.call = "test", .rank = 0, .peer = 1};
    sides_make(library, sides, 2, 2, 0);
    make_locals();
    for (int round = 0; round < 60; round++) {
        size_t bytes = 1 + any_number(20000);
        size_t at = any_number(SEGMENT - 20000);
        set_scene(round % 2);
        OK(pw_stream_enter(sides[0].ctx, sides[0].stream, &site));
        OK(pw_stream_copy(sides[0].ctx, any(sides[1].segment + at), (char *)locals[round % 2] + 3, bytes, PW_WAY_KERNEL,
                          sides[0].stream, &site));
        OK(pw_stream_leave(sides[0].ctx, PEERWIN_OK));
        memcpy(there + at, here + 3, bytes);
        check_scene(round % 2);
    }
    free_locals();
    sides_end(sides, 2, 2);
}

/* A box that stays inside a segment: plain, with planes between rows, with odd pitches; a source's rows may overlap. */
static peerwin_box any_box(const size_t count[3], int source) {
    peerwin_box box = {.offset = any_number(64), .count = {count[0], count[1], count[2]}};
    size_t row = count[0] + (any_number(3) ? any_number(40) : 0);
    switch (any_number(source ? 5 : 3)) {
    case 0: /* planes are whole rows apart, as in an array */
        box.stride[0] = row;
        box.stride[1] = row * (count[1] + any_number(3));
        break;
    case 1: /* planes anywhere behind each other */
        box.stride[0] = row;
        box.stride[1] = row * count[1] + any_number(7);
        break;
    case 2: /* rows of all planes between each other */
        box.stride[1] = row;
        box.stride[0] = row * count[2] + any_number(7);
        break;
    case 3: /* planes a few whole rows apart: the source's may share rows */
        box.stride[0] = row;
        box.stride[1] = row * any_number((unsigned)count[1]);
        break;
    default:
        box.stride[0] = any_number((unsigned)count[0] + 1);
        box.stride[1] = any_number(100);
    }
    if (count[1] == 1)
        box.stride[0] = SIZE_MAX / 3; /* not looked at */
    if (count[2] == 1)
        box.stride[1] = SIZE_MAX / 5;
    return box;
}

static void boxes_arrive_whatever_their_strides(void) {
    sides_make(library, sides, 2, 2, 0);
    make_locals();
    for (int round = 0; round < 360; round++) {
        int kind = round % KINDS;
        size_t count[3] = {1 + any_number(round % 5 ? 60 : 600), 1 + any_number(9), 1 + any_number(5)};
        if (round % 7 == 0)
            count[1 + any_number(2)] = 1;
        peerwin_box to = any_box(count, 0);
        peerwin_box from = any_box(count, 1);
        set_scene(kind);
        OK(peerwin_put_box(sides[0].win, 1, &to, locals[kind], &from, sides[0].stream));
        pw_box_copy((char *)there, &to, (const char *)here, &from);
        check_scene(kind);
        OK(peerwin_get_box(sides[0].win, 1, &from, locals[kind], &to, sides[0].stream));
        pw_box_copy((char *)here, &to, (const char *)there, &from);
        check_scene(kind);
    }
    free_locals();
    sides_end(sides, 2, 2);
}

static void boxes_of_the_driver_are_one_call(void) {
    const size_t count[3] = {24, 10, 4};
    peerwin_box to = {.offset = 8, .count = {24, 10, 4}, .stride = {32, 320}};
    peerwin_box from = {.offset = 1, .count = {24, 10, 4}, .stride = {4 * 25, 25}};
    (void)count;
    sides_make(library, sides, 2, 2, 0);
    make_locals();
    set_scene(2);
    sim_reset();
    OK(peerwin_put_box(sides[0].win, 1, &to, locals[2], &to, sides[0].stream));
    CHECK(sim_counted("cuMemcpy3DAsync", 1) && sim_counted("cuMemcpyAsync", 0));
    pw_box_copy((char *)there, &to, (const char *)here, &to);
    check_scene(2);
    sim_reset();
    OK(peerwin_put_box(sides[0].win, 1, &from, locals[2], &from, sides[0].stream));
    CHECK(sim_counted("cuMemcpy3DAsync", 1) && sim_counted("cuMemcpyAsync", 0));
    pw_box_copy((char *)there, &from, (const char *)here, &from);
    check_scene(2);
    sim_reset();
    OK(peerwin_put_box(sides[0].win, 1, &to, locals[0], &from, sides[0].stream));
    CHECK(sim_counted("cuLaunchKernel", 1) && sim_counted("cuMemcpy3DAsync", 0));
    free_locals();
    OK(peerwin_stream_sync(sides[0].ctx, sides[0].stream));
    sides_end(sides, 2, 2);
}

static void bad_arguments_give_the_stream_nothing(void) {
    char byte = 0;
    peerwin_win *win;
    sides_make(library, sides, 2, 2, 0);
    make_locals();
    win = sides[0].win;
    win->peers[1].read_only = 1;
    sim_reset();
    CHECK(peerwin_put(win, 2, 0, &byte, 1, NULL) == PEERWIN_ERR_ARG);
    CHECK(peerwin_put(win, 0, SEGMENT, &byte, 1, NULL) == PEERWIN_ERR_RANGE);
    CHECK(peerwin_put(win, 0, 0, NULL, 1, NULL) == PEERWIN_ERR_ARG);
    CHECK(peerwin_put(win, 1, 0, &byte, 1, NULL) == PEERWIN_ERR_PERMISSION);
    CHECK(peerwin_get(win, 0, SEGMENT, &byte, 1, NULL) == PEERWIN_ERR_RANGE);
    CHECK(peerwin_get(win, 0, 0, NULL, 1, NULL) == PEERWIN_ERR_ARG);
    CHECK(peerwin_signal(win, 1, SLOTS, PEERWIN_SIGNAL_SET, 1, NULL) == PEERWIN_ERR_ARG);
    CHECK(peerwin_wait(win, SLOTS, 1, NULL) == PEERWIN_ERR_ARG);
    CHECK(peerwin_consume(win, SLOTS, 1, NULL) == PEERWIN_ERR_ARG);
    CHECK(peerwin_signal_read(win, 0, NULL) == PEERWIN_ERR_ARG);
    OK(peerwin_put(win, MPI_PROC_NULL, 0, &byte, 1, NULL));
    OK(peerwin_put(win, 0, 0, NULL, 0, NULL));
    OK(peerwin_get(win, 1, SEGMENT, NULL, 0, NULL));
    CHECK(sim_counted(NULL, 0));
    CHECK(peerwin_allreduce(sides[0].ctx, NULL, 1, PEERWIN_INT64, PEERWIN_SUM, NULL) == PEERWIN_ERR_ARG);
    CHECK(peerwin_allreduce(sides[0].ctx, &byte, 65, PEERWIN_INT64, PEERWIN_SUM, NULL) == PEERWIN_ERR_ARG);
    CHECK(sim_counted(NULL, 0));
    SAYS(peerwin_allreduce(sides[0].ctx, locals[2], 1, PEERWIN_INT64, PEERWIN_SUM, NULL), PEERWIN_ERR_ARG,
         "memory that kernels");
    SAYS(peerwin_allreduce(sides[0].ctx, (char *)locals[0] + 4, 1, PEERWIN_INT64, PEERWIN_SUM, NULL), PEERWIN_ERR_ARG,
         "aligned");
    free_locals();
    sides_end(sides, 2, 2);
}

/* ---- signals ---- */

static int is_idle(CUstream stream) {
    CUresult code = cu.cuStreamQuery(stream);
    CHECK(code == CUDA_SUCCESS || code == CUDA_ERROR_NOT_READY);
    return code == CUDA_SUCCESS;
}

static void settle(void) {
    usleep(20000);
}

static void signals_release_waits_and_carry_puts(void) {
    uint64_t value = 7;
    uint64_t got = 0;
    sides_make(library, sides, 2, 2, 0);
    OK(peerwin_wait(sides[1].win, 3, 5, sides[1].stream));
    OK(peerwin_signal(sides[0].win, 1, 3, PEERWIN_SIGNAL_SET, 4, sides[0].stream));
    OK(peerwin_stream_sync(sides[0].ctx, sides[0].stream));
    settle();
    CHECK(!is_idle(sides[1].stream));
    OK(peerwin_put_signal(sides[0].win, 1, 40, &value, sizeof value, 3, PEERWIN_SIGNAL_SET, 5, sides[0].stream));
    OK(peerwin_stream_sync(sides[1].ctx, sides[1].stream));
    CHECK(peek_word(sides[1].segment + 40) == 7);
    OK(peerwin_signal_read(sides[1].win, 3, &got));
    CHECK(got == 5);
    for (int i = 0; i < 3; i++)
        OK(peerwin_signal(sides[i % 2].win, 1, 4, PEERWIN_SIGNAL_ADD, 10, sides[i % 2].stream));
    OK(peerwin_consume(sides[1].win, 4, 25, sides[1].stream));
    OK(peerwin_stream_sync(sides[1].ctx, sides[1].stream));
    OK(peerwin_signal_read(sides[1].win, 4, &got));
    CHECK(got == 5);
    sides_end(sides, 2, 2);
}

static void counters_may_wrap(void) {
    uint64_t got = 0;
    sides_make(library, sides, 2, 2, 0);
    OK(peerwin_signal(sides[0].win, 1, 0, PEERWIN_SIGNAL_SET, UINT64_MAX - 1, sides[0].stream));
    OK(peerwin_wait(sides[1].win, 0, UINT64_MAX - 1, sides[1].stream));
    OK(peerwin_wait(sides[1].win, 0, 3, sides[1].stream));
    OK(peerwin_stream_sync(sides[0].ctx, sides[0].stream));
    settle();
    CHECK(!is_idle(sides[1].stream));
    OK(peerwin_signal(sides[0].win, 1, 0, PEERWIN_SIGNAL_ADD, 5, sides[0].stream));
    OK(peerwin_stream_sync(sides[1].ctx, sides[1].stream));
    OK(peerwin_signal_read(sides[1].win, 0, &got));
    CHECK(got == 3);
    sides_end(sides, 2, 2);
}

static void add_is_refused_without_atomics(void) {
    uint64_t got = 0;
    sides_make(library, sides, 2, 2, 0);
    sides[0].ctx->peers[1].native_atomics = 0;
    SAYS(peerwin_signal(sides[0].win, 1, 0, PEERWIN_SIGNAL_ADD, 1, sides[0].stream), PEERWIN_ERR_UNSUPPORTED,
         "no atomics");
    SAYS(peerwin_put_signal(sides[0].win, 1, 0, &got, 8, 0, PEERWIN_SIGNAL_ADD, 1, sides[0].stream),
         PEERWIN_ERR_UNSUPPORTED, "no atomics");
    OK(peerwin_signal(sides[0].win, 0, 0, PEERWIN_SIGNAL_ADD, 1, sides[0].stream));
    OK(peerwin_signal(sides[0].win, 1, 0, PEERWIN_SIGNAL_SET, 1, sides[0].stream));
    sides[1].ctx->memory_of_arenas = pw_memory_on_gpu(PEERWIN_HANDLE_HOST);
    SAYS(peerwin_signal(sides[1].win, 1, 0, PEERWIN_SIGNAL_ADD, 1, sides[1].stream), PEERWIN_ERR_UNSUPPORTED,
         "host memory");
    SAYS(peerwin_consume(sides[1].win, 0, 1, sides[1].stream), PEERWIN_ERR_UNSUPPORTED, "host memory");
    OK(peerwin_stream_sync(sides[0].ctx, sides[0].stream));
    sides_end(sides, 2, 2);
}

/* Where writes are posted, a wait is followed by a kernel that fences. */
static void waits_over_pcie_are_acquires(void) {
    sides_make(library, sides, 2, 2, 0);
    sides[1].ctx->peers[0].link = PEERWIN_LINK_PCIE;
    OK(peerwin_signal(sides[0].win, 1, 0, PEERWIN_SIGNAL_SET, 1, sides[0].stream));
    sim_reset();
    OK(peerwin_wait(sides[1].win, 0, 1, sides[1].stream));
    CHECK(sim_counted("cuLaunchKernel", 1));
    OK(peerwin_stream_sync(sides[1].ctx, sides[1].stream));
    sides_end(sides, 2, 2);
}

/* ---- barriers ---- */

static void a_barrier_waits_for_everyone(void) {
    sides_make(library, sides, 3, 3, 0);
    for (int round = 0; round < 50; round++) {
        int last = (int)any_number(3);
        for (int rank = 0; rank < 3; rank++)
            if (rank != last)
                OK(peerwin_barrier(sides[rank].ctx, sides[rank].stream));
        if (round % 10 == 0)
            settle();
        CHECK(!is_idle(sides[(last + 1) % 3].stream) && !is_idle(sides[(last + 2) % 3].stream));
        OK(peerwin_barrier(sides[last].ctx, sides[last].stream));
        for (int rank = 0; rank < 3 && round % 4 == 0; rank++)
            OK(peerwin_stream_sync(sides[rank].ctx, sides[rank].stream));
        for (int rank = 0; rank < 3; rank++)
            CU(cu.cuStreamSynchronize(sides[rank].stream));
    }
    sides_end(sides, 3, 3);
}

/* The second barrier of rank 0 is on another stream and must not tell rank 1 anything before the first has passed. */
static void barriers_on_two_streams_are_one_sequence(void) {
    CUstream other = NULL;
    const pw_arena_layout layout = pw_arena_layout_of(2);
    CUdeviceptr line = 0;
    sides_make(library, sides, 2, 2, 0);
    CU(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    line = (CUdeviceptr)(uintptr_t)pw_arena_line(any(sides[1].arena), &layout, 0);
    for (int round = 0; round < 6; round++) {
        CUstream first = round % 2 ? other : sides[0].stream;
        CUstream second = round % 2 ? sides[0].stream : other;
        uint64_t before = peek_word(line);
        OK(peerwin_barrier(sides[0].ctx, first));
        OK(peerwin_barrier(sides[0].ctx, second));
        settle();
        CHECK(peek_word(line) == before + 1 && !is_idle(first) && !is_idle(second));
        OK(peerwin_barrier(sides[1].ctx, sides[1].stream));
        CU(cu.cuStreamSynchronize(first));
        for (int i = 0; i < 250 && peek_word(line) != before + 2; i++)
            settle();
        CHECK(peek_word(line) == before + 2 && !is_idle(second));
        OK(peerwin_barrier(sides[1].ctx, sides[1].stream));
        OK(peerwin_stream_sync(sides[0].ctx, second));
        OK(peerwin_stream_sync(sides[1].ctx, sides[1].stream));
    }
    CU(cu.cuStreamDestroy(other));
    sides_end(sides, 2, 2);
}

static void the_stream_of_the_last_barrier_may_be_gone(void) {
    CUstream old = NULL;
    sides_make(library, sides, 2, 2, 0);
    CU(cu.cuStreamCreate(&old, CU_STREAM_NON_BLOCKING));
    OK(peerwin_barrier(sides[0].ctx, old));
    CU(cu.cuStreamDestroy(old));
    OK(peerwin_barrier(sides[0].ctx, sides[0].stream));
    settle();
    CHECK(!is_idle(sides[0].stream));
    OK(peerwin_barrier(sides[1].ctx, sides[1].stream));
    OK(peerwin_barrier(sides[1].ctx, sides[1].stream));
    OK(peerwin_stream_sync(sides[0].ctx, sides[0].stream));
    OK(peerwin_stream_sync(sides[1].ctx, sides[1].stream));
    sides_end(sides, 2, 2);
}

/* More operations than one call takes: 150 writes and 150 waits. The others are played by the test. */
static void a_barrier_of_many_takes_several_calls(void) {
    const pw_arena_layout layout = pw_arena_layout_of(MOST_SIDES);
    sides_make(library, sides, MOST_SIDES, 1, 0);
    sim_reset();
    OK(peerwin_barrier(sides[0].ctx, sides[0].stream));
    CHECK(sim_counted("cuStreamBatchMemOp", 2));
    for (int rank = 1; rank < MOST_SIDES; rank++) {
        if (rank % 37 == 0 || rank == MOST_SIDES - 1)
            CHECK(!is_idle(sides[0].stream));
        poke_word((CUdeviceptr)(uintptr_t)pw_arena_line(any(sides[0].arena), &layout, rank), 1);
    }
    OK(peerwin_stream_sync(sides[0].ctx, sides[0].stream));
    for (int rank = 1; rank < MOST_SIDES; rank++)
        CHECK(peek_word((CUdeviceptr)(uintptr_t)pw_arena_line(any(sides[rank].arena), &layout, 0)) == 1);
    sides_end(sides, MOST_SIDES, 1);
}

static void a_failed_barrier_did_not_begin(void) {
    sides_make(library, sides, 2, 2, 0);
    sim.simcuda_fail("cuStreamBatchMemOp", 1, CUDA_ERROR_INVALID_VALUE, 0);
    CHECK(peerwin_barrier(sides[0].ctx, sides[0].stream) == PEERWIN_ERR_CUDA);
    sim_reset();
    OK(peerwin_barrier(sides[0].ctx, sides[0].stream));
    OK(peerwin_barrier(sides[1].ctx, sides[1].stream));
    OK(peerwin_stream_sync(sides[0].ctx, sides[0].stream));
    OK(peerwin_stream_sync(sides[1].ctx, sides[1].stream));
    sides[0].ctx->all_direct = 0;
    SAYS(peerwin_barrier(sides[0].ctx, sides[0].stream), PEERWIN_ERR_UNREACHABLE, "direct path");
    sides_end(sides, 2, 2);
}

static void half_a_barrier_breaks_the_context(void) {
    sides_make(library, sides, MOST_SIDES, 1, 0);
    sim.simcuda_fail("cuStreamBatchMemOp", 2, CUDA_ERROR_INVALID_VALUE, 0);
    CHECK(peerwin_barrier(sides[0].ctx, sides[0].stream) == PEERWIN_ERR_CUDA);
    sim_reset();
    CHECK(peerwin_check(sides[0].ctx) == PEERWIN_ERR_ABORTED);
    sides_end(sides, MOST_SIDES, 1);
}

/* ---- streams that may not be used ---- */

static void streams_of_other_contexts_are_refused(void) {
    CUcontext other = NULL;
    CUcontext now = NULL;
    CUstream foreign = NULL;
    char byte = 0;
    CUdevice device = 0;
    sides_make(library, sides, 2, 2, 0);
    CU(cu.cuCtxGetCurrent(&now));
    CU(cu.cuDeviceGet(&device, 0));
    CU(cu.cuCtxCreate(&other, 0, device));
    CU(cu.cuStreamCreate(&foreign, CU_STREAM_NON_BLOCKING));
    sim_reset();
    SAYS(peerwin_put(sides[0].win, 1, 0, &byte, 1, foreign), PEERWIN_ERR_ARG, "another CUDA context");
    CHECK(peerwin_get(sides[0].win, 1, 0, &byte, 1, foreign) == PEERWIN_ERR_ARG);
    CHECK(peerwin_signal(sides[0].win, 1, 0, PEERWIN_SIGNAL_SET, 1, foreign) == PEERWIN_ERR_ARG);
    CHECK(peerwin_wait(sides[0].win, 0, 1, foreign) == PEERWIN_ERR_ARG);
    CHECK(peerwin_consume(sides[0].win, 0, 1, foreign) == PEERWIN_ERR_ARG);
    CHECK(peerwin_barrier(sides[0].ctx, foreign) == PEERWIN_ERR_ARG);
    CHECK(peerwin_quiet(sides[0].ctx, foreign) == PEERWIN_ERR_ARG);
    CHECK(peerwin_stream_sync(sides[0].ctx, foreign) == PEERWIN_ERR_ARG);
    CHECK(sim_counted("cuMemcpyAsync", 0) && sim_counted("cuStreamQuery", 0));
    CUcontext still = NULL;
    CU(cu.cuCtxGetCurrent(&still));
    CHECK(still == other);
    /* The default streams are those of the library's context, whatever is current. */
    OK(peerwin_put(sides[0].win, 1, 0, &byte, 1, NULL));
    OK(peerwin_put(sides[0].win, 1, 0, &byte, 1, CU_STREAM_LEGACY));
    OK(peerwin_put(sides[0].win, 1, 0, &byte, 1, CU_STREAM_PER_THREAD));
    OK(peerwin_quiet(sides[0].ctx, NULL));
    OK(peerwin_stream_sync(sides[0].ctx, NULL));
    CU(cu.cuStreamDestroy(foreign));
    CU(cu.cuCtxDestroy(other));
    CU(cu.cuCtxSetCurrent(now));
    sides_end(sides, 2, 2);
}

static void captured(CUstream stream, CUgraphExec *exec_out) {
    CUgraph graph = NULL;
    CU(cu.cuStreamEndCapture(stream, &graph));
    CU(cu.cuGraphInstantiateWithFlags(exec_out, graph, 0));
    CU(cu.cuGraphDestroy(graph));
}

static void captures_survive_what_is_refused(void) {
    uint64_t got = 0;
    CUgraphExec exec = NULL;
    CUstream stream;
    sides_make(library, sides, 2, 2, 0);
    make_locals();
    set_scene(2);
    stream = sides[0].stream;
    CU(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(peerwin_put(sides[0].win, 1, 8, locals[0], 100, stream));
    SAYS(peerwin_stream_sync(sides[0].ctx, stream), PEERWIN_ERR_STATE, "capturing");
    OK(peerwin_get(sides[0].win, 1, 8, locals[2], 100, stream));
    OK(peerwin_signal(sides[0].win, 1, 5, PEERWIN_SIGNAL_ADD, 1, stream));
    OK(peerwin_signal(sides[0].win, 0, 6, PEERWIN_SIGNAL_ADD, 2, stream));
    OK(peerwin_consume(sides[0].win, 6, 2, stream));
    OK(peerwin_quiet(sides[0].ctx, stream));
    OK(peerwin_signal_read(sides[0].win, 5, &got)); /* has a stream of its own */
    captured(stream, &exec);
    for (int i = 0; i < 3; i++)
        CU(cu.cuGraphLaunch(exec, stream));
    OK(peerwin_stream_sync(sides[0].ctx, stream));
    OK(peerwin_signal_read(sides[1].win, 5, &got));
    CHECK(got == 3);
    OK(peerwin_signal_read(sides[0].win, 6, &got));
    CHECK(got == 0);
    CU(cu.cuGraphExecDestroy(exec));
    free_locals();
    sides_end(sides, 2, 2);
}

static void the_legacy_stream_is_refused_while_another_captures(void) {
    char byte = 0;
    CUgraphExec exec = NULL;
    CUstream blocking = NULL;
    sides_make(library, sides, 2, 2, 0);
    CU(cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CU(cu.cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAYS(peerwin_put(sides[0].win, 1, 0, &byte, 1, NULL), PEERWIN_ERR_STATE, "legacy default stream");
    CHECK(peerwin_barrier(sides[0].ctx, CU_STREAM_LEGACY) == PEERWIN_ERR_STATE);
    CHECK(peerwin_stream_sync(sides[0].ctx, NULL) == PEERWIN_ERR_STATE);
    OK(peerwin_put(sides[0].win, 1, 0, &byte, 1, sides[0].stream));
    OK(peerwin_stream_sync(sides[0].ctx, sides[0].stream));
    captured(blocking, &exec);
    CU(cu.cuGraphExecDestroy(exec));
    CU(cu.cuStreamDestroy(blocking));
    sides_end(sides, 2, 2);
}

/* ---- waits that end otherwise ---- */

static void a_timeout_changes_nothing(void) {
    char bytes[32] = "";
    sides_make(library, sides, 2, 2, 1);
    sides[1].ctx->timeout_ms = 150;
    OK(peerwin_wait(sides[1].win, 0, 1, sides[1].stream));
    SAYS(peerwin_stream_sync(sides[1].ctx, sides[1].stream), PEERWIN_ERR_TIMEOUT,
         "slot 0 of window 7 is 0, awaited is 1");
    OK(peerwin_barrier(sides[1].ctx, sides[1].stream));
    SAYS(peerwin_stream_sync(sides[1].ctx, sides[1].stream), PEERWIN_ERR_TIMEOUT, "awaited is 1; not arrived: rank 0;");
    SAYS(peerwin_get(sides[1].win, 0, 0, bytes, sizeof bytes, sides[1].stream), PEERWIN_ERR_TIMEOUT, "call again");
    OK(peerwin_check(sides[1].ctx));
    OK(peerwin_signal(sides[0].win, 1, 0, PEERWIN_SIGNAL_SET, 1, sides[0].stream));
    SAYS(peerwin_stream_sync(sides[1].ctx, sides[1].stream), PEERWIN_ERR_TIMEOUT, "not arrived: rank 0;");
    OK(peerwin_barrier(sides[0].ctx, sides[0].stream));
    sides[1].ctx->timeout_ms = 10000;
    OK(peerwin_stream_sync(sides[1].ctx, sides[1].stream));
    OK(peerwin_get(sides[1].win, 0, 0, bytes, sizeof bytes, sides[1].stream));
    sides_end(sides, 2, 2);
}

/* Gives rank 1's streams something to wait for in vain: slots, old and new values, and a barrier. */
static void get_stuck(CUstream other) {
    for (unsigned slot = 0; slot < SLOTS; slot++)
        OK(peerwin_wait(sides[1].win, slot, (uint64_t)slot << 50, sides[1].stream));
    OK(peerwin_wait(sides[1].win, 5, 3, other));
    OK(peerwin_wait(sides[1].win, 5, 2, sides[1].stream));
    OK(peerwin_barrier(sides[1].ctx, other));
    settle();
    CHECK(!is_idle(sides[1].stream) && !is_idle(other));
}

static void check_released(CUstream other, int64_t since) {
    CU(cu.cuStreamSynchronize(sides[1].stream));
    CU(cu.cuStreamSynchronize(other));
    CHECK(pw_now() - since < 1000 * PW_MS);
}

static void an_abort_frees_a_program_inside_the_driver(void) {
    CUstream other = NULL;
    sides_make(library, sides, 2, 2, 1);
    CU(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    get_stuck(other);
    int64_t since = pw_now();
    OK(peerwin_abort(sides[0].ctx));
    check_released(other, since);
    CHECK(peerwin_stream_sync(sides[1].ctx, sides[1].stream) == PEERWIN_ERR_ABORTED);
    CHECK(peerwin_check(sides[0].ctx) == PEERWIN_ERR_ABORTED);
    CU(cu.cuStreamDestroy(other));
    sides_end(sides, 2, 2);
}

/*
 * A call that found the context whole, and was held up; and after that a signal of a peer that was. The way into the
 * call is left out, where it would hear of the abort.
 */
static void what_was_held_up_stops_nobody_after_an_abort(void) {
    const pw_site site = {.call = "test", .rank = 1, .peer = PW_NONE};
    sides_make(library, sides, 2, 2, 1);
    OK(peerwin_abort(sides[0].ctx));
    usleep(1300000);
    for (int i = 0; i < 2; i++) {
        int64_t since = pw_now();
        OK(pw_stream_wait(sides[1].win, 3, 5, sides[1].stream, &site));
        check_released(sides[1].stream, since);
        poke_word((CUdeviceptr)(uintptr_t)&sides[1].win->peers[1].slots[3], 4);
    }
    CHECK(peerwin_check(sides[1].ctx) == PEERWIN_ERR_ABORTED);
    sides_end(sides, 2, 2);
}

static void *abort_soon(void *ctx) {
    usleep(50000);
    OK(peerwin_abort(ctx));
    return NULL;
}

/* Without the thread the library's own wait does what it can, and so does the end of the context. */
static void without_watchdog_the_library_frees_its_own_waits(void) {
    CUstream other = NULL;
    pthread_t thread;
    sides_make(library, sides, 2, 2, 0);
    CU(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    get_stuck(other);
    int64_t since = pw_now();
    CHECK(pthread_create(&thread, NULL, abort_soon, sides[0].ctx) == 0);
    CHECK(peerwin_stream_sync(sides[1].ctx, sides[1].stream) == PEERWIN_ERR_ABORTED);
    check_released(other, since);
    CHECK(pthread_join(thread, NULL) == 0);
    CU(cu.cuStreamDestroy(other));
    sides_end(sides, 2, 2);
}

static void the_end_of_a_broken_context_frees_streams(void) {
    CUstream other = NULL;
    sides_make(library, sides, 2, 2, 0);
    CU(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    get_stuck(other);
    int64_t since = pw_now();
    OK(peerwin_abort(sides[1].ctx));
    pw_watchdog_stop(sides[1].ctx);
    check_released(other, since);
    CU(cu.cuStreamDestroy(other));
    sides_end(sides, 2, 2);
}

static void watch_sleeper(void) {
    const pw_site site = {.call = "test", .rank = 1, .peer = 0};
    uint64_t start = 0;
    OK(pw_process_start(sleeper, &site, &start));
    OK(pw_liveness_watch(&sides[1].ctx->live, 0, sleeper, start, &site));
}

static void kill_sleeper(void) {
    CHECK(kill(sleeper, SIGKILL) == 0);
}

static void restart_watchdog(void) {
    const pw_site site = {.call = "test", .rank = 1, .peer = PW_NONE};
    pw_watchdog_stop(sides[1].ctx);
    OK(pw_watchdog_start(sides[1].ctx, &site));
}

/* Rank 0 is another process as far as liveness goes. */
static void a_death_frees_a_program_inside_the_driver(void) {
    CUstream other = NULL;
    sides_make(library, sides, 2, 2, 1);
    watch_sleeper();
    restart_watchdog();
    CU(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    get_stuck(other);
    int64_t since = pw_now();
    kill_sleeper();
    check_released(other, since);
    SAYS(peerwin_stream_sync(sides[1].ctx, sides[1].stream), PEERWIN_ERR_PEER_LOST, "peer 0");
    CU(cu.cuStreamDestroy(other));
    sides_end(sides, 2, 2);
}

static void whoever_said_goodbye_is_not_lost(void) {
    sides_make(library, sides, 2, 2, 1);
    watch_sleeper();
    restart_watchdog();
    atomic_store(&pw_pad_control(sides[0].ctx->pad)->goodbye, 1);
    OK(peerwin_wait(sides[1].win, 0, 1, sides[1].stream));
    kill_sleeper();
    usleep(250000);
    CHECK(!is_idle(sides[1].stream));
    OK(peerwin_check(sides[1].ctx));
    poke_word((CUdeviceptr)(uintptr_t)sides[1].win->peers[1].slots, 1);
    OK(peerwin_stream_sync(sides[1].ctx, sides[1].stream));
    sides_end(sides, 2, 2);
}

static void a_lost_device_context_breaks_the_context_everywhere(void) {
    char byte = 0;
    sides_make(library, sides, 2, 2, 1);
    CHECK(sim.simcuda_lose_context(CUDA_ERROR_ILLEGAL_ADDRESS) == 0);
    SAYS(peerwin_put(sides[0].win, 1, 0, &byte, 1, sides[0].stream), PEERWIN_ERR_CONTEXT_LOST, "ILLEGAL_ADDRESS");
    CHECK(peerwin_check(sides[0].ctx) == PEERWIN_ERR_CONTEXT_LOST);
    SAYS(peerwin_check(sides[1].ctx), PEERWIN_ERR_CONTEXT_LOST, "peer 0");
    CHECK(peerwin_put(sides[1].win, 0, 0, &byte, 1, sides[1].stream) == PEERWIN_ERR_CONTEXT_LOST);
    sides_end(sides, 2, 2);
}

/* ---- what a call costs ---- */

/* All but one of the driver calls of an operation are questions, each a few tens of nanoseconds. */
static void the_driver_is_called_a_few_times_only(void) {
    CUdeviceptr local = 0;
    sides_make(library, sides, 2, 2, 0);
    CU(cu.cuMemAlloc(&local, 1024));
    for (int round = 0; round < 2; round++) { /* a stream is looked at more closely once */
        sim_reset();
        OK(peerwin_put_signal(sides[0].win, 1, 0, any(local), 1024, 0, PEERWIN_SIGNAL_ADD, 1, sides[0].stream));
        CHECK(round == 0 || (sim_counted("cuLaunchKernel", 1) && sim_counted(NULL, 6)));
        sim_reset();
        OK(peerwin_wait(sides[1].win, 0, 1, sides[1].stream));
        CHECK(round == 0 || (sim_counted("cuStreamWaitValue64", 1) && sim_counted(NULL, 5)));
        sim_reset();
        OK(peerwin_barrier(sides[0].ctx, sides[0].stream));
        CHECK(round == 0 || (sim_counted("cuStreamBatchMemOp", 1) && sim_counted(NULL, 5)));
        OK(peerwin_barrier(sides[1].ctx, sides[1].stream));
    }
    sides[0].ctx->kernels_wait = sides[1].ctx->kernels_wait = 1;
    for (int rank = 0; rank < 2; rank++) {
        sim_reset();
        OK(peerwin_allreduce(sides[rank].ctx, any(local + (CUdeviceptr)rank * 512), 8, PEERWIN_DOUBLE, PEERWIN_SUM,
                             sides[rank].stream));
        CHECK(sim_counted("cuGraphLaunch", 1) && sim_counted(NULL, 7));
    }
    for (int rank = 0; rank < 2; rank++)
        OK(peerwin_stream_sync(sides[rank].ctx, sides[rank].stream));
    CU(cu.cuMemFree(local));
    sides_end(sides, 2, 2);
}

/* ---- calls that fail ---- */

enum { OPERATIONS = 10 };

/* Every call on a stream once, of ranks 0 and 1 so that nothing waits in vain. */
static peerwin_status operation(int which) {
    static uint64_t value;
    const peerwin_box flat = {.offset = 0, .count = {8, 2, 1}, .stride = {8}};
    const peerwin_box box = {.offset = 0, .count = {8, 2, 2}, .stride = {40, 200}};
    peerwin_win *win = sides[0].win;
    CUstream stream = sides[0].stream;
    switch (which) {
    case 0:
        return peerwin_put(win, 1, 0, locals[0], 100, stream);
    case 1:
        return peerwin_get(win, 1, 0, locals[2], 100, stream);
    case 2:
        return peerwin_put_box(win, 1, &box, locals[2], &box, stream);
    case 3:
        return peerwin_get_box(win, 1, &flat, locals[0], &flat, stream);
    case 4:
        return peerwin_put_signal(win, 0, 0, locals[0], 8, 1, PEERWIN_SIGNAL_ADD, 5, stream);
    case 5:
        return peerwin_consume(win, 1, 5, stream);
    case 6:
        return peerwin_wait(win, 1, 0, stream);
    case 7:
        return peerwin_signal_read(win, 1, &value);
    case 8:
        return peerwin_stream_sync(sides[0].ctx, stream);
    default:
        return peerwin_barrier(sides[0].ctx, stream);
    }
}

/* Lets the n-th driver call fail; 0 if there are not so many. */
static int injected(int which, unsigned long n, int code) {
    sim.simcuda_reset();
    sim.simcuda_fail(NULL, n, code, 0);
    peerwin_status status = operation(which);
    int happened = sim.simcuda_injected();
    sim.simcuda_reset();
    CHECK(sides[0].ctx->gpu->depth == 0);
    CHECK(happened || status == PEERWIN_OK);
    if (status != PEERWIN_OK) {
        OK(peerwin_check(sides[0].ctx));
        OK(operation(which)); /* again, and it works */
    }
    if (which == OPERATIONS - 1)
        OK(peerwin_barrier(sides[1].ctx, sides[1].stream));
    return happened;
}

static void every_driver_call_may_fail(void) {
    static const int codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN};
    CUcontext current = NULL;
    int count = 0;
    sides_make(library, sides, 2, 2, 0);
    make_locals();
    set_scene(0);
    sim.simcuda_only_this_thread(1);
    for (int which = 0; which < OPERATIONS; which++)
        for (int code = 0; code < 2; code++)
            for (unsigned long n = 1; injected(which, n, codes[code]); n++)
                count++;
    printf("%d calls failed\n", count);
    CHECK(count > 100);
    CU(cu.cuCtxGetCurrent(&current));
    CHECK(current == sides[0].ctx->gpu->context);
    OK(peerwin_stream_sync(sides[0].ctx, sides[0].stream));
    OK(peerwin_stream_sync(sides[1].ctx, sides[1].stream));
    free_locals();
    sides_end(sides, 2, 2);
}

static const sides_case cases[] = {
#define CASE(name)                                                                                                     \
    { #name, name, 0 }
#define SIMULATED(name)                                                                                                \
    { #name, name, 1 }
    CASE(contiguous_bytes_arrive_at_any_alignment),
    CASE(the_kernel_copies_what_the_engine_does),
    CASE(boxes_arrive_whatever_their_strides),
    CASE(boxes_of_the_driver_are_one_call),
    CASE(bad_arguments_give_the_stream_nothing),
    CASE(signals_release_waits_and_carry_puts),
    CASE(counters_may_wrap),
    CASE(add_is_refused_without_atomics),
    CASE(waits_over_pcie_are_acquires),
    CASE(a_barrier_waits_for_everyone),
    CASE(barriers_on_two_streams_are_one_sequence),
    CASE(the_stream_of_the_last_barrier_may_be_gone),
    CASE(a_barrier_of_many_takes_several_calls),
    CASE(the_driver_is_called_a_few_times_only),
    SIMULATED(a_failed_barrier_did_not_begin),
    SIMULATED(half_a_barrier_breaks_the_context),
    SIMULATED(every_driver_call_may_fail),
    CASE(streams_of_other_contexts_are_refused),
    CASE(captures_survive_what_is_refused),
    CASE(the_legacy_stream_is_refused_while_another_captures),
    CASE(a_timeout_changes_nothing),
    CASE(an_abort_frees_a_program_inside_the_driver),
    CASE(what_was_held_up_stops_nobody_after_an_abort),
    CASE(without_watchdog_the_library_frees_its_own_waits),
    CASE(the_end_of_a_broken_context_frees_streams),
    CASE(a_death_frees_a_program_inside_the_driver),
    CASE(whoever_said_goodbye_is_not_lost),
    SIMULATED(a_lost_device_context_breaks_the_context_everywhere),
};

int main(int argc, char **argv) {
    return sides_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
