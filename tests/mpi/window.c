/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The life of windows: sizes, neighbours, ids, order of frees, read-only windows, and thousands of cycles.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/device.h"
#include "support/flat.h"
#include "support/leaks.h"
#include "support/memory.h"

static size_t size_of_rank(int rank) {
    static const size_t sizes[] = {4097, 0, 1, 3u << 20, 12288, 7, 64, 4096};
    return sizes[rank % 8];
}

static void check_zeroed(peerwin_win *win, size_t bytes) {
    unsigned char *got = host_new(bytes);
    segment_load(win, 0, got, bytes);
    check_all("a fresh segment", got, 0, bytes);
    free(got);
}

static void check_signals_are_zero(peerwin_win *win, unsigned count) {
    for (unsigned slot = 0; slot < count; slot++) {
        uint64_t value = 1;
        CHECK_OK(peerwin_signal_read(win, slot, &value));
        CHECK_EQUAL(value, 0);
    }
}

/* Twice, so that the second window gets memory and slots that the first one used. */
static void a_fresh_window_is_zeroed_and_so_are_its_signals(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (int round = 0; round < 2; round++) {
        peerwin_win *win = test_window(ctx, 100003);
        check_zeroed(win, 100003);
        check_signals_are_zero(win, 64);
        CHECK_OK(peerwin_barrier(ctx, job.stream));
        segment_set(win, 0xEE);
        for (unsigned slot = 0; slot < 64; slot++) {
            CHECK_OK(peerwin_signal(win, (job.rank + 1) % job.size, slot, PEERWIN_SIGNAL_SET, 99, job.stream));
        }
        CHECK_OK(done(ctx, peerwin_barrier(ctx, job.stream)));
        uint64_t value = 0;
        CHECK_OK(peerwin_signal_read(win, 63, &value));
        CHECK_EQUAL(value, 99);
        CHECK_OK(peerwin_win_free(win));
    }
    CHECK_OK(peerwin_finalize(ctx));
}

/* The kind that the job asked for, or one that a device can make. */
static void check_kind(peerwin_handle kind) {
    int asked = 0;
    asked |= test_forced_handle("host") ? PEERWIN_HANDLE_HOST : 0;
    asked |= test_forced_handle("legacy") ? PEERWIN_HANDLE_LEGACY : 0;
    asked |= test_forced_handle("fd") ? PEERWIN_HANDLE_FD : 0;
    asked |= test_forced_handle("fabric") ? PEERWIN_HANDLE_FABRIC : 0;
    CHECK(asked != 0 ? (int)kind == asked : kind == PEERWIN_HANDLE_FD || kind == PEERWIN_HANDLE_LEGACY);
}

static void sizes_may_differ_and_be_zero(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, size_of_rank(job.rank));
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_EQUAL(peerwin_win_bytes(win, rank), size_of_rank(rank));
        CHECK_EQUAL(peerwin_win_path(win, rank), rank == job.rank ? PEERWIN_PATH_SELF : PEERWIN_PATH_DIRECT);
        CHECK((peerwin_win_ptr(win, rank) == NULL) == (size_of_rank(rank) == 0));
        if (job.space == PEERWIN_SPACE_HOST) {
            CHECK_EQUAL(peerwin_win_handle(win, rank), PEERWIN_HANDLE_HOST);
        } else {
            check_kind(peerwin_win_handle(win, rank));
        }
    }
    check_zeroed(win, size_of_rank(job.rank));
    test_free(ctx, win);
}

static void all_sizes_may_be_zero_and_signals_still_work(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 0);
    peerwin_signal_op op = test_has_adds(ctx) ? PEERWIN_SIGNAL_ADD : PEERWIN_SIGNAL_SET;
    CHECK_OK(peerwin_put_signal(win, (job.rank + 1) % job.size, 0, NULL, 0, 5, op, 2, job.stream));
    CHECK_OK(peerwin_wait(win, 5, 2, job.stream));
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    test_free(ctx, win);
}

static void the_own_pointer_is_aligned_to_a_page(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (size_t bytes = 1; bytes < 100000; bytes = bytes * 7 + 3) {
        peerwin_win *win = test_window(ctx, bytes);
        CHECK_EQUAL((uintptr_t)peerwin_win_ptr(win, job.rank) % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
        CHECK_OK(peerwin_win_free(win));
    }
    CHECK_OK(peerwin_finalize(ctx));
}

static void stores_through_a_peers_pointer_arrive(void) {
    if (test_agree_skip(job.space != PEERWIN_SPACE_HOST, "plain loads and stores are for host memory")) {
        return;
    }
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 8 * (size_t)job.size);
    for (int rank = 0; rank < job.size; rank++) {
        double *segment = peerwin_win_ptr(win, rank);
        segment[job.rank] = (double)(job.rank * 100 + rank);
    }
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    for (int rank = 0; rank < job.size; rank++) {
        double got = 0;
        segment_load(win, 8 * (size_t)rank, &got, sizeof(got));
        CHECK(got == (double)(rank * 100 + job.rank));
    }
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    test_free(ctx, win);
}

static void queries_out_of_range_say_nothing_is_there(void) {
    static const int wrong[] = {-1, -2, 1 << 30};
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 100);
    for (size_t i = 0; i < 4; i++) {
        int rank = i < 3 ? wrong[i] : job.size;
        CHECK(peerwin_win_ptr(win, rank) == NULL);
        CHECK_EQUAL(peerwin_win_bytes(win, rank), 0);
        CHECK_EQUAL(peerwin_win_path(win, rank), PEERWIN_PATH_NONE);
    }
    test_free(ctx, win);
}

/* ------------------------------------------------------------------------------------------------- neighbours */

static int is_ring_neighbor(int rank) {
    return rank == (job.rank + 1) % job.size || rank == (job.rank + job.size - 1) % job.size;
}

static peerwin_win *ring_window(peerwin_ctx *ctx, size_t bytes) {
    int neighbors[2] = {(job.rank + 1) % job.size, (job.rank + job.size - 1) % job.size};
    peerwin_win_config config;
    peerwin_win *win = NULL;
    peerwin_win_config_init(&config);
    config.neighbors = neighbors;
    config.num_neighbors = 2;
    CHECK_OK(peerwin_win_alloc(ctx, bytes, &config, &win));
    return win;
}

static void only_neighbours_are_mapped(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = ring_window(ctx, 4096);
    char bytes[8] = "";
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_EQUAL(peerwin_win_bytes(win, rank), 4096);
        if (rank == job.rank) {
            CHECK_EQUAL(peerwin_win_path(win, rank), PEERWIN_PATH_SELF);
        } else if (is_ring_neighbor(rank)) {
            CHECK_EQUAL(peerwin_win_path(win, rank), PEERWIN_PATH_DIRECT);
        } else {
            CHECK_EQUAL(peerwin_win_path(win, rank), PEERWIN_PATH_NONE);
            CHECK(peerwin_win_ptr(win, rank) == NULL);
            CHECK_STATUS(peerwin_put(win, rank, 0, bytes, 8, job.stream), PEERWIN_ERR_UNREACHABLE, "not a neighbo");
            CHECK_STATUS(peerwin_get(win, rank, 0, bytes, 8, job.stream), PEERWIN_ERR_UNREACHABLE, "not a neighbo");
            CHECK_STATUS(peerwin_signal(win, rank, 0, PEERWIN_SIGNAL_ADD, 1, job.stream), PEERWIN_ERR_UNREACHABLE,
                         "not a neighbo");
        }
    }
    void *source = buffer_new(4096);
    fill_buffer(source, 0, job.rank, 0, 512);
    CHECK_OK(peerwin_put_signal(win, (job.rank + 1) % job.size, 0, source, 4096, 0, PEERWIN_SIGNAL_SET, 1, job.stream));
    CHECK_OK(peerwin_wait(win, 0, 1, job.stream));
    check_fill_segment(win, 0, (job.rank + job.size - 1) % job.size, 0, 512);
    buffer_free(source);
    test_free(ctx, win);
}

static void an_empty_neighbour_list_maps_nobody(void) {
    int nobody = 0;
    peerwin_win_config config;
    peerwin_win *win = NULL;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win_config_init(&config);
    config.neighbors = &nobody;
    config.num_neighbors = 0;
    CHECK_OK(peerwin_win_alloc(ctx, 4096, &config, &win));
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_EQUAL(peerwin_win_path(win, rank), rank == job.rank ? PEERWIN_PATH_SELF : PEERWIN_PATH_NONE);
    }
    test_free(ctx, win);
}

static void a_one_sided_neighbour_is_a_mismatch_everywhere(void) {
    int right = (job.rank + 1) % job.size;
    peerwin_win_config config;
    peerwin_win *win = NULL;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win_config_init(&config);
    config.neighbors = &right;
    config.num_neighbors = 1;
    CHECK_STATUS_ALL(peerwin_win_alloc(ctx, 4096, &config, &win), PEERWIN_ERR_MISMATCH, "neighbo", "rank");
    CHECK(win == NULL);
    win = test_window(ctx, 4096);
    test_free(ctx, win);
}

/* --------------------------------------------------------------------------------------------- ids and frees */

static void check_id_is_agreed(peerwin_win *win) {
    uint64_t mine = peerwin_win_id(win);
    uint64_t theirs = mine;
    MPI_Bcast(&theirs, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    CHECK(mine != 0);
    CHECK_EQUAL(mine, theirs);
    CHECK_EQUAL(peerwin_win_generation(win), 1);
}

static void ids_are_agreed_and_never_used_twice(void) {
    enum { COUNT = 40 };
    uint64_t seen[COUNT];
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *last = NULL;
    for (int i = 0; i < COUNT; i++) {
        peerwin_win *win = test_window(ctx, 64);
        check_id_is_agreed(win);
        seen[i] = peerwin_win_id(win);
        for (int k = 0; k < i; k++) {
            CHECK(seen[k] != seen[i]);
        }
        /* Every third window lives on for a while, so that numbers are not simply reused in order. */
        CHECK_OK(peerwin_win_free(i % 3 == 0 ? last : win));
        last = i % 3 == 0 ? win : last;
    }
    CHECK_OK(peerwin_win_free(last));
    CHECK_OK(peerwin_finalize(ctx));
}

static void windows_are_freed_in_any_order(void) {
    enum { COUNT = 12 };
    peerwin_win *win[COUNT];
    uint64_t seed = 42;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (int round = test_rounds(5, 1); round > 0; round--) {
        for (int i = 0; i < COUNT; i++) {
            win[i] = test_window(ctx, 8 + 1000 * (size_t)((i + job.rank) % 4));
            fill_segment(win[i], 0, job.rank, (size_t)i * 1000, 1);
        }
        for (int left = COUNT; left > 0; left--) {
            size_t k = test_random_in(&seed, 0, (size_t)left - 1);
            CHECK_OK(peerwin_win_free(win[k]));
            win[k] = win[left - 1];
            /* Those that are left still hold what was theirs. */
            for (int i = 0; i < left - 1; i++) {
                double value = 0;
                segment_load(win[i], 0, &value, sizeof(value));
                CHECK(value >= job.rank * 1e6 && value < job.rank * 1e6 + 12000);
            }
        }
    }
    CHECK_OK(peerwin_finalize(ctx));
}

static void freeing_different_windows_is_a_mismatch_and_frees_none(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *first = test_window(ctx, 100);
    peerwin_win *second = test_window(ctx, 200);
    CHECK_STATUS_ALL(peerwin_win_free(job.rank == 0 ? second : first), PEERWIN_ERR_MISMATCH, "rank");
    CHECK_OK(peerwin_check(ctx));
    segment_set(first, 1);
    segment_set(second, 2);
    CHECK_OK(peerwin_win_free(first));
    test_free(ctx, second);
}

static void different_collective_calls_are_a_mismatch_and_change_nothing(void) {
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = test_window(ctx, 100);
    peerwin_win *other = NULL;
    peerwin_status status = job.rank == 0 ? peerwin_win_free(win) : peerwin_win_alloc(ctx, 100, NULL, &other);
    CHECK_STATUS_ALL(status, PEERWIN_ERR_MISMATCH, "rank");
    CHECK(other == NULL);
    status = job.rank == job.size - 1 ? peerwin_finalize(ctx) : peerwin_win_free(win);
    CHECK_STATUS_ALL(status, PEERWIN_ERR_MISMATCH, "rank");
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    test_free(ctx, win);
}

static void windows_of_two_contexts_do_not_disturb_each_other(void) {
    peerwin_ctx *one = test_context(MPI_COMM_WORLD, 0);
    peerwin_ctx *two = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *a = test_window(one, 800);
    peerwin_win *b = test_window(two, 800);
    void *source = buffer_new(800);
    int right = (job.rank + 1) % job.size;
    int left = (job.rank + job.size - 1) % job.size;
    fill_buffer(source, 0, job.rank, 0, 100);
    CHECK_OK(peerwin_put_signal(a, right, 0, source, 800, 0, PEERWIN_SIGNAL_SET, 7, job.stream));
    CHECK_OK(done(one, peerwin_wait(a, 0, 7, job.stream)));
    check_signals_are_zero(b, 64);
    check_zeroed(b, 800);
    check_fill_segment(a, 0, left, 0, 100);
    buffer_free(source);
    test_free(one, a);
    test_free(two, b);
}

/* -------------------------------------------------------------------------------------------------- attach */

static void attach_of_host_memory_is_unsupported_and_says_what_to_do(void) {
    if (test_agree_skip(job.space != PEERWIN_SPACE_HOST, "host space only")) {
        return;
    }
    double memory[16] = {0};
    peerwin_win *win = NULL;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    CHECK_STATUS_ALL(peerwin_win_attach(ctx, memory, sizeof(memory), NULL, &win), PEERWIN_ERR_UNSUPPORTED,
                     "peerwin_win_alloc");
    CHECK(win == NULL);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    CHECK_OK(peerwin_finalize(ctx));
}

/* ------------------------------------------------------------------------------------------------ read-only */

static peerwin_win *read_only_window(peerwin_ctx *ctx, size_t bytes) {
    peerwin_win_config config;
    peerwin_win *win = NULL;
    peerwin_win_config_init(&config);
    config.read_only = 1;
    config.name = "read only";
    CHECK_OK(peerwin_win_alloc(ctx, bytes, &config, &win));
    return win;
}

static void a_read_only_window_can_be_read_but_not_put_to(void) {
    if (test_agree_skip(test_forced_handle("legacy"), "legacy mappings are never read-only")) {
        return;
    }
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = read_only_window(ctx, 800);
    int right = (job.rank + 1) % job.size;
    void *buffer = buffer_new(800);
    peerwin_box box = {.offset = 0, .count = {8, 2, 1}, .stride = {16, 0}};
    fill_segment(win, 0, job.rank, 0, 100);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    CHECK_OK(peerwin_get(win, right, 0, buffer, 800, job.stream));
    CHECK_OK(peerwin_stream_sync(ctx, job.stream));
    check_fill_buffer(buffer, 0, right, 0, 100);
    if (right != job.rank) {
        CHECK_STATUS(peerwin_put(win, right, 0, buffer, 8, job.stream), PEERWIN_ERR_PERMISSION, "read-only");
        CHECK_STATUS(peerwin_put_box(win, right, &box, buffer, &box, job.stream), PEERWIN_ERR_PERMISSION, "read-only");
        CHECK_STATUS(peerwin_put_signal(win, right, 0, buffer, 8, 0, PEERWIN_SIGNAL_SET, 1, job.stream),
                     PEERWIN_ERR_PERMISSION, "read-only");
        check_signals_are_zero(win, 1);
    }
    CHECK_OK(peerwin_signal(win, right, 1, PEERWIN_SIGNAL_SET, 5, job.stream));
    CHECK_OK(peerwin_wait(win, 1, 5, job.stream));
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    check_fill_segment(win, 0, job.rank, 0, 100);
    buffer_free(buffer);
    test_free(ctx, win);
}

static void a_read_only_window_of_a_kind_that_cannot_be_is_unsupported(void) {
    if (test_agree_skip(!test_forced_handle("legacy"), "legacy handles only")) {
        return;
    }
    peerwin_win_config config;
    peerwin_win *win = NULL;
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win_config_init(&config);
    config.read_only = 1;
    CHECK_STATUS_ALL(peerwin_win_alloc(ctx, 800, &config, &win), PEERWIN_ERR_UNSUPPORTED, "read", "legacy");
    CHECK(win == NULL);
    test_free(ctx, test_window(ctx, 800));
}

static void a_read_only_mapping_cannot_be_made_writable(void) {
    if (test_agree_skip(job.space != PEERWIN_SPACE_HOST, "host space only")) {
        return;
    }
    char permissions[5];
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    peerwin_win *win = read_only_window(ctx, 8192);
    for (int rank = 0; rank < job.size; rank++) {
        void *segment = peerwin_win_ptr(win, rank);
        leaks_permissions(segment, permissions);
        CHECK_EQUAL(permissions[0], 'r');
        CHECK_EQUAL(permissions[1], rank == job.rank ? 'w' : '-');
        if (rank != job.rank) {
            CHECK(mprotect(segment, 8192, PROT_READ | PROT_WRITE) != 0);
            CHECK_EQUAL(errno, EACCES);
        }
    }
    /* What the owner stores is seen by the others. */
    segment_set(win, 0x40 + job.rank);
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    for (int rank = 0; rank < job.size; rank++) {
        CHECK_EQUAL(((const unsigned char *)peerwin_win_ptr(win, rank))[8191], 0x40 + rank);
    }
    CHECK_OK(peerwin_barrier(ctx, job.stream));
    test_free(ctx, win);
}

/* --------------------------------------------------------------------------------------------------- cycles */

static size_t cycle_bytes(int cycle, int rank) {
    uint64_t state = (uint64_t)cycle * 977 + (uint64_t)rank * 31 + 5;
    test_random(&state);
    return test_random_in(&state, 0, cycle % 50 == 0 ? 2u << 20 : 60000);
}

/* One cycle: a window of this cycle's sizes, as much as fits put to the right, and checked. */
static void run_cycle(peerwin_ctx *ctx, int cycle, void *source, unsigned char *buffer, unsigned char *want) {
    int right = (job.rank + 1) % job.size;
    int left = (job.rank + job.size - 1) % job.size;
    peerwin_win *win = test_window(ctx, cycle_bytes(cycle, job.rank));
    size_t bytes = cycle_bytes(cycle, right) < 5000 ? cycle_bytes(cycle, right) : 5000;
    size_t arriving = cycle_bytes(cycle, job.rank) < 5000 ? cycle_bytes(cycle, job.rank) : 5000;
    size_t at = cycle_bytes(cycle, right) - bytes;
    pattern_write(buffer, job.rank, (unsigned)cycle, bytes);
    buffer_store(source, 0, buffer, bytes);
    CHECK_OK(peerwin_put_signal(win, right, at, source, bytes, 0, PEERWIN_SIGNAL_SET, (uint64_t)cycle + 1, job.stream));
    CHECK_OK(peerwin_wait(win, 0, (uint64_t)cycle + 1, job.stream));
    segment_load(win, cycle_bytes(cycle, job.rank) - arriving, buffer, arriving);
    pattern_write(want, left, (unsigned)cycle, arriving);
    check_bytes("what arrived", buffer, want, arriving);
    CHECK_OK(peerwin_win_free(win));
}

/* What the device has left while no rank is between an allocation and its end; 0 in host space. */
static size_t free_of_device(void) {
    size_t bytes = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (job.space == PEERWIN_SPACE_CUDA)
        bytes = device_free_bytes();
    MPI_Barrier(MPI_COMM_WORLD);
    return bytes;
}

/* On a real device several jobs share what is to be thousands of cycles in all. */
static void many_cycles_leave_descriptors_mappings_and_memory_flat(void) {
    const int cycles = test_rounds(3000, device_is_real() ? 700 : 120);
    const int settled = test_rounds(500, device_is_real() ? 100 : 60);
    const flat_slack of_driver = {.mappings = 4, .space = SIZE_MAX / 2, .resident = 1 << 20};
    const size_t granule = device_is_real() ? 2 << 20 : 0; /* of the device's memory; a driver may keep one */
    size_t device_free = 0;
    void *source = buffer_new(5000);
    unsigned char *buffer = host_new(5000);
    unsigned char *want = host_new(5000);
    flat_watch *watch = flat_begin(cycles, settled, &of_driver);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    for (int cycle = 0; cycle < cycles; cycle++) {
        run_cycle(ctx, cycle, source, buffer, want);
        flat_look(watch, cycle);
        if (cycle == settled) {
            device_free = free_of_device();
        }
    }
    CHECK(free_of_device() + granule >= device_free);
    CHECK_OK(peerwin_finalize(ctx));
    flat_end(watch);
    buffer_free(source);
    free(buffer);
    free(want);
}

static const test_case cases[] = {
    TEST_CASE(a_fresh_window_is_zeroed_and_so_are_its_signals, 1, 0),
    TEST_CASE(sizes_may_differ_and_be_zero, 1, 0),
    TEST_CASE(all_sizes_may_be_zero_and_signals_still_work, 1, 0),
    TEST_CASE(the_own_pointer_is_aligned_to_a_page, 1, 0),
    TEST_CASE(stores_through_a_peers_pointer_arrive, 1, 0),
    TEST_CASE(queries_out_of_range_say_nothing_is_there, 1, 0),
    TEST_CASE(only_neighbours_are_mapped, 1, 0),
    TEST_CASE(an_empty_neighbour_list_maps_nobody, 1, 0),
    TEST_CASE(a_one_sided_neighbour_is_a_mismatch_everywhere, 3, 0),
    TEST_CASE(ids_are_agreed_and_never_used_twice, 1, 0),
    TEST_CASE(windows_are_freed_in_any_order, 1, 0),
    TEST_CASE(freeing_different_windows_is_a_mismatch_and_frees_none, 2, 0),
    TEST_CASE(different_collective_calls_are_a_mismatch_and_change_nothing, 2, 0),
    TEST_CASE(windows_of_two_contexts_do_not_disturb_each_other, 1, 0),
    TEST_CASE(attach_of_host_memory_is_unsupported_and_says_what_to_do, 1, 0),
    TEST_CASE(a_read_only_window_can_be_read_but_not_put_to, 1, 0),
    TEST_CASE(a_read_only_window_of_a_kind_that_cannot_be_is_unsupported, 1, 0),
    TEST_CASE(a_read_only_mapping_cannot_be_made_writable, 1, 0),
    TEST_CASE(many_cycles_leave_descriptors_mappings_and_memory_flat, 1, 4),
};
TEST_MAIN(cases)
