/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Windows over memory that the program already has: a pointer anywhere inside memory of any kind that can be shared,
 * offsets kept, neighbours in the same block untouched, nothing stale after the memory was freed and made again; and
 * what cannot be shared refused by name on every rank.
 */
#include <stdlib.h>
#include <string.h>

#include "support/leaks.h"
#include "support/memory.h"
#include "support/ranges.h"

enum { MIB = 1 << 20 };

static int right_of(int rank) {
    return (rank + 1) % job.size;
}

static int left_of(int rank) {
    return (rank + job.size - 1) % job.size;
}

static peerwin_win *attach(peerwin_ctx *ctx, void *base, size_t bytes) {
    peerwin_win *win = NULL;
    CHECK_OK(peerwin_win_attach(ctx, base, bytes, NULL, &win));
    CHECK(win != NULL);
    CHECK(peerwin_win_ptr(win, peerwin_rank(ctx)) == base || bytes == 0);
    return win;
}

/* Everyone puts to the right and gets it back: exactly the window's bytes. */
static void check_exchange(peerwin_ctx *ctx, peerwin_win *win, size_t bytes, unsigned seed) {
    unsigned char *want = host_new(bytes);
    unsigned char *got = host_new(bytes);
    void *buffer = buffer_new(bytes);
    pattern_write(want, job.rank, seed, bytes);
    buffer_store(buffer, 0, want, bytes);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    CHECK_OK(peerwin_put(win, right_of(job.rank), 0, buffer, bytes, job.stream));
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    buffer_set(buffer, TEST_GUARD, bytes);
    CHECK_OK(peerwin_get(win, right_of(job.rank), 0, buffer, bytes, job.stream));
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    buffer_load(buffer, 0, got, bytes);
    check_bytes("what was got back", got, want, bytes);
    segment_load(win, 0, got, bytes);
    pattern_write(want, left_of(job.rank), seed, bytes);
    check_bytes("what was put here", got, want, bytes);
    buffer_free(buffer);
    free(want);
    free(got);
}

/* Source and target at every offset within 32 bytes, odd lengths, and a box: nothing else of the window changes. */
static void check_odd_places(peerwin_ctx *ctx, peerwin_win *win, unsigned seed) {
    enum { PLACE = 512, PLACES = 33, BYTES = PLACES * PLACE, ROWS = 9, ROW = 21 };
    unsigned char *sent = host_new(BYTES);
    unsigned char *want = host_new(BYTES);
    unsigned char *got = host_new(BYTES);
    void *buffer = buffer_new(BYTES);
    pattern_write(sent, job.rank, seed, BYTES);
    buffer_store(buffer, 0, sent, BYTES);
    memset(want, TEST_GUARD, BYTES);
    segment_store(win, 0, want, BYTES);
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    pattern_write(sent, left_of(job.rank), seed, BYTES);
    for (size_t i = 0; i < PLACES - 1; i++) {
        size_t to = i * PLACE + 32 + i;
        size_t from = i * PLACE + 32 + i * 7 % 32;
        size_t bytes = i == 0 ? 0 : 9 * i + 1;
        CHECK_OK(peerwin_put(win, right_of(job.rank), to, (char *)buffer + from, bytes, job.stream));
        memcpy(want + to, sent + from, bytes);
    }
    peerwin_box to = {(PLACES - 1) * PLACE + 3, {ROW, ROWS, 1}, {50, 0}};
    peerwin_box from = {5, {ROW, ROWS, 1}, {33, 0}};
    CHECK_OK(peerwin_put_box(win, right_of(job.rank), &to, buffer, &from, job.stream));
    for (size_t row = 0; row < ROWS; row++)
        memcpy(want + to.offset + 50 * row, sent + from.offset + 33 * row, ROW);
    CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
    segment_load(win, 0, got, BYTES);
    check_bytes("what was put at odd places", got, want, BYTES);
    buffer_free(buffer);
    free(sent);
    free(want);
    free(got);
}

/* --------------------------------------------------------------------------------------------- what is refused */

/* `odd` ranks offer `memory`, the others plain memory: refused on all, and plain memory attaches afterwards. */
static void check_refused(void *memory, size_t bytes, int odd, const char *word, const char *remedy) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = NULL;
    void *plain = device_new(bytes);
    CHECK_STATUS_ALL(peerwin_win_attach(ctx, odd ? memory : plain, bytes, NULL, &win), PEERWIN_ERR_UNSUPPORTED, word,
                     remedy, "rank");
    CHECK(win == NULL);
    CHECK_OK(peerwin_check(ctx));
    DEVICE_OK(device.cuCtxSynchronize());
    win = attach(ctx, plain, bytes);
    check_exchange(ctx, win, bytes, 1);
    test_free(ctx, win);
    device_free(plain);
}

static void c2_managed_memory_is_refused_on_all_ranks_by_name(void) {
    void *memory = managed_new(4 * MIB);
    check_refused(memory, 4 * MIB, job.rank == job.size - 1, "managed", "peerwin_win_alloc");
    check_refused(memory, 4 * MIB, 1, "managed", "peerwin_win_alloc");
    managed_free(memory);
}

static void check_pool(peerwin_ctx *ctx, unsigned cycle) {
    CUmemoryPool pool = pool_new();
    void *memory = pool_take(pool, 2 * MIB);
    peerwin_win *win = attach(ctx, memory, 2 * MIB);
    CHECK_EQUAL(peerwin_win_handle(win, job.rank), PEERWIN_HANDLE_POOL);
    CHECK_EQUAL(peerwin_win_handle(win, right_of(job.rank)), PEERWIN_HANDLE_POOL);
    check_exchange(ctx, win, 2 * MIB, cycle);
    check_odd_places(ctx, win, cycle);
    CHECK_OK(peerwin_win_free(win));
    DEVICE_OK(device.cuCtxSynchronize());
    ordered_free(memory);
    pool_free(pool);
}

static void c3_stream_ordered_memory_is_refused_by_name_and_attached_from_a_pool_that_can_be_shared(void) {
    void *ordered = ordered_new(2 * MIB);
    check_refused(ordered, 2 * MIB, job.rank == 0, "pool", "shar");
    ordered_free(ordered);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    size_t descriptors = 0;
    for (unsigned cycle = 0; cycle < 10; cycle++) {
        check_pool(ctx, cycle);
        descriptors = cycle == 4 ? leaks_open_descriptors() : descriptors;
    }
    CHECK_EQUAL(leaks_open_descriptors(), descriptors);
    CHECK_OK(peerwin_finalize(ctx));
}

static void virtual_memory_that_cannot_be_shared_is_refused(void) {
    range r = range_new(1, range_granularity(), CU_MEM_HANDLE_TYPE_NONE);
    check_refused(r.base, r.bytes, job.rank == 0, "shareable", "handle");
    range_free(&r);
}

static void host_memory_is_refused(void) {
    void *locked = locked_new(MIB);
    void *private = host_new(MIB);
    check_refused(locked, MIB, job.rank == 0, "host", "peerwin_win_alloc");
    check_refused(private, MIB, job.rank == 0, "host", "peerwin_win_alloc");
    locked_free(locked);
    free(private);
}

static void a_range_that_leaves_its_allocation_is_refused_on_all_ranks(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = NULL;
    char *memory = device_new(4 * MIB);
    size_t bytes = job.rank == job.size - 1 ? 2 * (size_t)MIB + 1 : 2 * (size_t)MIB;
    CHECK_STATUS_ALL(peerwin_win_attach(ctx, memory + 2 * MIB, bytes, NULL, &win), PEERWIN_ERR_RANGE, "rank");
    CHECK_STATUS_ALL(peerwin_win_attach(ctx, memory, job.rank == 0 ? SIZE_MAX : 8, NULL, &win), PEERWIN_ERR_RANGE,
                     "rank");
    CHECK_STATUS_ALL(peerwin_win_attach(ctx, job.rank == 0 ? NULL : memory, 8, NULL, &win), PEERWIN_ERR_ARG, "NULL");
    CHECK(win == NULL);
    test_free(ctx, attach(ctx, memory, 4 * MIB));
    device_free(memory);
}

/* ----------------------------------------------------------------------------------------- where in the memory */

/* What lies around the window in its allocation is the program's. */
static void check_inside(peerwin_ctx *ctx, char *block, size_t block_bytes, size_t offset, size_t bytes) {
    unsigned char *all = host_new(block_bytes);
    buffer_set(block, TEST_GUARD, block_bytes);
    peerwin_win *win = attach(ctx, block + offset, bytes);
    check_exchange(ctx, win, bytes, (unsigned)offset);
    buffer_load(block, 0, all, block_bytes);
    check_all("before the window", all, TEST_GUARD, offset);
    check_all("behind the window", all + offset + bytes, TEST_GUARD, block_bytes - offset - bytes);
    CHECK_OK(peerwin_win_free(win));
    free(all);
}

static void c4_offsets_inside_an_allocation_reach_exactly_those_bytes(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    char *block = device_new(8 * MIB);
    check_inside(ctx, block, 8 * MIB, 768, 1000);
    check_inside(ctx, block, 8 * MIB, 5 * MIB, 4096);
    check_inside(ctx, block, 8 * MIB, 5 * MIB + 3, 4099);
    check_inside(ctx, block, 8 * MIB, 0, 8 * MIB);
    buffer_free(block);
    CHECK_OK(peerwin_finalize(ctx));
}

/* Small allocations share a block of the driver: each is a window of its own, all of them at once. */
static void c4_twenty_small_allocations_do_not_touch_each_other(void) {
    enum { COUNT = 20, BYTES = 512 };
    char *memory[2 * COUNT];
    peerwin_win *win[COUNT];
    unsigned char got[BYTES];
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (int i = 0; i < 2 * COUNT; i++) {
        memory[i] = device_new(BYTES); /* every other one is no window */
        buffer_set(memory[i], TEST_GUARD, BYTES);
    }
    for (int i = 0; i < COUNT; i++) {
        win[i] = attach(ctx, memory[2 * i], BYTES);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        check_exchange(ctx, win[i], BYTES, 100 + i);
    }
    for (int i = 0; i < COUNT; i++) {
        buffer_load(memory[2 * i + 1], 0, got, BYTES);
        check_all("a neighbour in the block", got, TEST_GUARD, BYTES);
        CHECK_OK(peerwin_win_free(win[i]));
    }
    for (int i = 0; i < 2 * COUNT; i++) {
        buffer_free(memory[i]);
    }
    CHECK_OK(peerwin_finalize(ctx));
}

static void pieces_of_one_allocation_are_windows_side_by_side(void) {
    enum { COUNT = 4 };
    peerwin_win *win[COUNT];
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    range r = range_new(2, range_granularity(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    size_t part = r.bytes / COUNT;
    for (int i = 0; i < COUNT; i++) {
        win[i] = attach(ctx, (char *)r.base + (size_t)i * part, part);
    }
    /* Ends in an order of their own; those that are left still work. */
    static const int order[COUNT] = {2, 0, 3, 1};
    for (int i = 0; i < COUNT; i++) {
        for (int left = i; left < COUNT; left++) {
            check_exchange(ctx, win[order[left]], part, (unsigned)(10 * i + left));
        }
        CHECK_OK(peerwin_win_free(win[order[i]]));
    }
    range_free(&r);
    CHECK_OK(peerwin_finalize(ctx));
}

static void virtual_memory_of_one_or_many_allocations_is_attached(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    size_t unit = range_granularity();
    for (int pieces = 1; pieces <= 5; pieces += 2) {
        range r = range_new(pieces, unit, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        peerwin_win *win = attach(ctx, r.base, r.bytes);
        CHECK_EQUAL(peerwin_win_handle(win, job.rank), PEERWIN_HANDLE_FD);
        check_exchange(ctx, win, r.bytes, (unsigned)pieces);
        CHECK_OK(peerwin_win_free(win));
        check_inside(ctx, r.base, r.bytes, unit / 2 + 8, r.bytes - unit + 4);
        range_free(&r);
    }
    CHECK_OK(peerwin_finalize(ctx));
}

/* Sizes, kinds and numbers of pieces are each rank's own. */
static void ranks_may_attach_different_kinds_and_sizes(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    size_t unit = range_granularity();
    int pieces = job.rank % 3;
    range r = pieces > 0 ? range_new(pieces, unit, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) : (range){0};
    void *plain = device_new(unit);
    size_t bytes = pieces > 0 ? r.bytes - 64 : unit - 64;
    char *base = (char *)(pieces > 0 ? r.base : plain) + 64;
    peerwin_win *win = attach(ctx, base, bytes);
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_EQUAL(peerwin_win_bytes(win, rank), (size_t)(rank % 3 > 0 ? rank % 3 : 1) * unit - 64);
        CHECK_EQUAL(peerwin_win_handle(win, rank), rank % 3 > 0 ? PEERWIN_HANDLE_FD : PEERWIN_HANDLE_LEGACY);
    }
    check_exchange(ctx, win, unit - 64, 5);
    CHECK_OK(peerwin_win_free(win));
    if (pieces > 0) {
        range_free(&r);
    }
    device_free(plain);
    CHECK_OK(peerwin_finalize(ctx));
}

static void no_bytes_may_be_attached_on_some_ranks(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    void *memory = device_new(4096);
    size_t bytes = job.rank % 2 == 0 ? 4096 : 0;
    peerwin_win *win = attach(ctx, bytes > 0 ? memory : NULL, bytes);
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_EQUAL(peerwin_win_bytes(win, rank), rank % 2 == 0 ? 4096 : 0);
    }
    CHECK_OK(peerwin_signal(win, right_of(job.rank), 3, PEERWIN_SIGNAL_SET, 1, job.stream));
    CHECK_OK(done(ctx, peerwin_wait(win, 3, 1, job.stream)));
    test_free(ctx, win);
    device_free(memory);
}

/* The library writes nothing to memory that is the program's: not at attach, not at its end. */
static void attached_memory_is_left_as_it_was(void) {
    enum { BYTES = 3 * MIB };
    unsigned char *got = host_new(BYTES);
    unsigned char *want = host_new(BYTES);
    void *memory = device_new(BYTES);
    pattern_write(want, job.rank, 77, BYTES);
    buffer_store(memory, 0, want, BYTES);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = attach(ctx, memory, BYTES);
    buffer_load(memory, 0, got, BYTES);
    check_bytes("attached memory", got, want, BYTES);
    test_free(ctx, win);
    buffer_load(memory, 0, got, BYTES);
    check_bytes("memory after its window", got, want, BYTES);
    device_free(memory);
    free(got);
    free(want);
}

/* ------------------------------------------------------------------------------------- freed and made again */

static void c8_memory_freed_and_made_again_is_never_stale(void) {
    enum { CYCLES = 200, BYTES = 4 * MIB };
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    size_t start = device_free_bytes();
    void *buffer = buffer_new(BYTES);
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        size_t first = (size_t)cycle * 7;
        void *memory = device_new(BYTES);
        peerwin_win *win = attach(ctx, memory, BYTES);
        fill_buffer(buffer, 0, job.rank, first, 4096);
        CHECK_OK(peerwin_barrier(ctx, job.stream));
        CHECK_OK(peerwin_put(win, right_of(job.rank), BYTES - 32768, buffer, 32768, job.stream));
        CHECK_OK(peerwin_barrier(ctx, job.stream));
        check_fill_segment(win, BYTES - 32768, left_of(job.rank), first, 4096);
        CHECK_OK(peerwin_win_free(win));
        device_free(memory);
    }
    buffer_free(buffer);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(device_free_bytes() + (device_is_real() ? 16 * MIB : 0) >= start);
    CHECK_OK(peerwin_finalize(ctx));
}

/* Importers keep nothing alive: what the owner frees is free. Other ranks may hold what they allocated meanwhile. */
static void c9_freed_memory_is_free_again_after_every_cycle(void) {
    int cycles = 500;
    uint64_t seed = 9;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    size_t start = device_free_bytes();
    for (int cycle = 0; cycle < cycles; cycle++) {
        size_t bytes = test_random_in(&seed, 1, 64) * MIB;
        void *memory = job.rank == 0 ? device_new(bytes) : NULL;
        peerwin_win *win = attach(ctx, memory, job.rank == 0 ? bytes : 0);
        CHECK_OK(peerwin_win_free(win));
        if (job.rank == 0) {
            device_free(memory);
            CHECK(device_free_bytes() + (device_is_real() ? 2 * MIB : 0) >= start);
        }
    }
    CHECK_OK(peerwin_finalize(ctx));
}

/* ------------------------------------------------------------------------------------------------- and devices */

static void c13_the_own_pointer_is_the_programs_and_not_opened(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_SELF, 0);
    char *memory = device_new(64 * 1024);
    peerwin_win *win = NULL;
    CHECK_OK(peerwin_win_attach(ctx, memory + 512, 4096, NULL, &win));
    CHECK(peerwin_win_ptr(win, 0) == memory + 512);
    CHECK_EQUAL(peerwin_win_path(win, 0), PEERWIN_PATH_SELF);
    CHECK_EQUAL(device_take().live[4], 0); /* imported handles */
    double value = job.rank + 0.5;
    CHECK_OK(peerwin_put_signal(win, 0, 8, &value, sizeof(value), 0, PEERWIN_SIGNAL_ADD, 1, job.stream));
    CHECK_OK(done(ctx, peerwin_consume(win, 0, 1, job.stream)));
    value = 0;
    buffer_load(memory, 520, &value, sizeof(value));
    CHECK(value == job.rank + 0.5);
    test_free(ctx, win);
    device_free(memory);
}

/* The caller's current device is another one than the window's, and stays so. */
static void c15_the_window_is_on_the_pointers_device_whatever_is_current(void) {
    CUdevice other = 0;
    CUcontext mine = NULL;
    CUcontext elsewhere = NULL;
    CUcontext now = NULL;
    if (test_agree_skip(device_count() < 2, "two devices are needed")) {
        return;
    }
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    void *memory = device_new(MIB);
    DEVICE_OK(device.cuCtxGetCurrent(&mine));
    DEVICE_OK(device.cuDeviceGet(&other, (device_mine() + 1) % device_count()));
    DEVICE_OK(device.cuDevicePrimaryCtxRetain(&elsewhere, other));
    DEVICE_OK(device.cuCtxSetCurrent(elsewhere));
    peerwin_win *win = attach(ctx, memory, MIB);
    CHECK_OK(peerwin_signal(win, right_of(job.rank), 0, PEERWIN_SIGNAL_SET, 1, NULL));
    CHECK_OK(peerwin_wait(win, 0, 1, NULL));
    CHECK_OK(peerwin_stream_sync(ctx, NULL));
    peerwin_win *own = test_window(ctx, 4096);
    DEVICE_OK(device.cuCtxGetCurrent(&now));
    CHECK(now == elsewhere);
    DEVICE_OK(device.cuCtxSetCurrent(mine));
    check_exchange(ctx, win, MIB, 15);
    check_exchange(ctx, own, 4096, 16);
    DEVICE_OK(device.cuCtxSetCurrent(elsewhere));
    CHECK_OK(peerwin_win_free(own));
    CHECK_OK(peerwin_win_free(win));
    CHECK_OK(peerwin_finalize(ctx));
    DEVICE_OK(device.cuCtxGetCurrent(&now));
    CHECK(now == elsewhere);
    DEVICE_OK(device.cuCtxSetCurrent(mine));
    DEVICE_OK(device.cuDevicePrimaryCtxRelease(other));
    device_free(memory);
}

/* Memory of a device that the rank did not declare is its mistake; declared, its own device has access to it. */
static void memory_of_another_device_must_be_declared(void) {
    CUdevice other = 0;
    CUcontext mine = NULL;
    CUcontext elsewhere = NULL;
    peerwin_win *win = NULL;
    if (test_agree_skip(device_count() < 2, "two devices are needed")) {
        return;
    }
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    DEVICE_OK(device.cuCtxGetCurrent(&mine));
    DEVICE_OK(device.cuDeviceGet(&other, (device_mine() + 1) % device_count()));
    DEVICE_OK(device.cuDevicePrimaryCtxRetain(&elsewhere, other));
    DEVICE_OK(device.cuCtxSetCurrent(elsewhere));
    void *memory = device_new(MIB);
    DEVICE_OK(device.cuCtxSetCurrent(mine));
    CHECK_STATUS_ALL(peerwin_win_attach(ctx, memory, MIB, NULL, &win), PEERWIN_ERR_ARG, "device");
    CHECK(win == NULL);
    CHECK_OK(peerwin_finalize(ctx));
    DEVICE_OK(device.cuCtxSetCurrent(elsewhere));
    device_free(memory);
    DEVICE_OK(device.cuCtxSetCurrent(mine));
    DEVICE_OK(device.cuDevicePrimaryCtxRelease(other));
}

static const test_case cases[] = {
    TEST_CASE(c2_managed_memory_is_refused_on_all_ranks_by_name, 1, 0),
    TEST_CASE(c3_stream_ordered_memory_is_refused_by_name_and_attached_from_a_pool_that_can_be_shared, 2, 0),
    TEST_CASE(virtual_memory_that_cannot_be_shared_is_refused, 1, 0),
    TEST_CASE(host_memory_is_refused, 1, 0),
    TEST_CASE(a_range_that_leaves_its_allocation_is_refused_on_all_ranks, 1, 0),
    TEST_CASE(c4_offsets_inside_an_allocation_reach_exactly_those_bytes, 1, 0),
    TEST_CASE(c4_twenty_small_allocations_do_not_touch_each_other, 1, 0),
    TEST_CASE(pieces_of_one_allocation_are_windows_side_by_side, 1, 0),
    TEST_CASE(virtual_memory_of_one_or_many_allocations_is_attached, 1, 0),
    TEST_CASE(ranks_may_attach_different_kinds_and_sizes, 1, 0),
    TEST_CASE(no_bytes_may_be_attached_on_some_ranks, 1, 0),
    TEST_CASE(attached_memory_is_left_as_it_was, 1, 0),
    TEST_CASE(c8_memory_freed_and_made_again_is_never_stale, 1, 0),
    TEST_CASE(c9_freed_memory_is_free_again_after_every_cycle, 1, 0),
    TEST_CASE(c13_the_own_pointer_is_the_programs_and_not_opened, 1, 0),
    TEST_CASE(c15_the_window_is_on_the_pointers_device_whatever_is_current, 1, 0),
    TEST_CASE(memory_of_another_device_must_be_declared, 1, 0),
};
TEST_MAIN(cases)
