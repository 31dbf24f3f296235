/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How lanes share a copy (peerwin/device/copy.h), in the form that a processor runs: for any number of them every byte
 * is copied, none beside, none is read outside of the source, and it does not matter which lane comes first.
 */
#include "simkernel.h"

#include <stdlib.h>
#include <string.h>

#include "peerwin/device/copy.h"
#include "unit/unit.h"

enum { ROOM = 1 << 16, GUARD = 0x5a };

static unsigned char *want, *target;

static int begin(void **state) {
    (void)state;
    want = aligned_alloc(16, ROOM);
    target = aligned_alloc(16, ROOM);
    return want == NULL || target == NULL;
}

static int end(void **state) {
    (void)state;
    free(want);
    free(target);
    return 0;
}

/* The source ends where its block does, for the sanitizers. */
static void check(uint32_t lanes, size_t to, size_t from, size_t bytes, int backwards) {
    const size_t room = to + bytes + 64;
    unsigned char *block = malloc(from + bytes + (from + bytes == 0)); /* aligned to 16 */
    unsigned char *source = block + from;
    assert_non_null(block);
    for (size_t i = 0; i < bytes; i++)
        source[i] = (unsigned char)(i * 7 + i / 251);
    memset(want, GUARD, room);
    memset(target, GUARD, room);
    memcpy(want + to, source, bytes);
    for (uint32_t lane = 0; lane < lanes; lane++)
        pw_dev_copy(target + to, source, bytes, backwards ? lanes - 1 - lane : lane, lanes);
    assert_memory_equal(target, want, room);
    free(block);
}

static const uint32_t some_lanes[] = {1, 2, 3, 5, 32, 64, 100, 128, 1024};

static void any_lanes_and_alignments_copy_exactly_their_bytes(void **state) {
    (void)state;
    for (size_t l = 0; l < sizeof some_lanes / sizeof some_lanes[0]; l++)
        for (size_t to = 0; to < 16; to += 1 + to % 3)
            for (size_t from = 0; from < 16; from++)
                for (size_t bytes = 0; bytes < 3000; bytes += 1 + bytes / 5)
                    check(some_lanes[l], to, from, bytes, (int)(bytes % 2));
}

static void long_copies_by_any_lanes_copy_exactly_their_bytes(void **state) {
    (void)state;
    for (size_t l = 0; l < sizeof some_lanes / sizeof some_lanes[0]; l++)
        for (size_t bytes = 1000; bytes < 60000; bytes += 16 * (1 + bytes / 300)) {
            check(some_lanes[l], 0, 0, bytes / 16 * 16, 1);
            check(some_lanes[l], 5, 5, bytes, 0);
            check(some_lanes[l], 8, 3, bytes, 1);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_lanes_and_alignments_copy_exactly_their_bytes),
        cmocka_unit_test(long_copies_by_any_lanes_copy_exactly_their_bytes),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
