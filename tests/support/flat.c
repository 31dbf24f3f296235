/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See flat.h. All but resident memory has to be equal, to the byte, each time that is looked.
 *
 * Resident memory is that of all mappings but programs and libraries, whose pages come when their code runs first and
 * go when the machine needs memory. It has to be equal, too, in most intervals between two looks, which a leak of a few
 * bytes in each cycle is not. Now and then it may grow by a few pages that are not the library's: Open MPI gets the
 * elements of its lists by the dozen when a rank is further ahead of the others than it ever was, and touches more of
 * its shared memory then. A simulated driver keeps numbers of all that there ever was, in tables that it doubles, and a
 * real one does what it likes: it may open a device for a while, too.
 */
#include "flat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "held.h"
#include "leaks.h"
#include "test.h"

enum { INTERVALS = 10, MOST_OF_MPI = 128 << 10, MOST_OF_SIMULATOR = 256 << 10 };

struct flat_watch {
    int settled, step, looks;
    flat_slack slack; /* nothing but on a real device */
    size_t descriptors;
    leaks_memory memory;
    held_heap heap;
    device_snapshot driver;
    size_t resident[INTERVALS + 1];
};

flat_watch *flat_begin(int cycles, int settled, const flat_slack *of_driver) {
    flat_watch *watch = calloc(1, sizeof(*watch));
    CHECK(watch != NULL);
    CHECK(cycles > settled + INTERVALS);
    watch->settled = settled;
    watch->step = (cycles - 1 - settled) / INTERVALS;
    if (device_is_real()) {
        watch->slack = *of_driver;
    }
    held_begin();
    return watch;
}

static void check_memory(const flat_watch *watch, const leaks_memory *now) {
    const leaks_memory *before = &watch->memory;
    if (device_is_real()) {
        CHECK(now->mappings <= before->mappings + watch->slack.mappings);
        CHECK(now->space <= before->space + watch->slack.space);
    } else {
        CHECK_EQUAL(now->mappings, before->mappings);
        CHECK_EQUAL(now->space, before->space);
    }
}

void flat_look(flat_watch *watch, int cycle) {
    if (cycle < watch->settled || (cycle - watch->settled) % watch->step != 0 || watch->looks > INTERVALS) {
        return;
    }
    const size_t descriptors = leaks_open_descriptors();
    const leaks_memory memory = leaks_read_memory();
    const held_heap heap = held_by_library();
    if (watch->looks == 0) {
        watch->descriptors = descriptors;
        watch->memory = memory;
        watch->heap = heap;
        watch->driver = device_take();
    }
    if (!device_is_real() || watch->looks == INTERVALS) {
        CHECK_EQUAL(descriptors, watch->descriptors);
    }
    CHECK_EQUAL(heap.blocks, watch->heap.blocks);
    CHECK_EQUAL(heap.bytes, watch->heap.bytes);
    device_check(&watch->driver);
    if (!TEST_SANITIZED) {
        check_memory(watch, &memory);
    }
    watch->resident[watch->looks++] = memory.resident;
}

static void check_resident(const flat_watch *watch) {
    const size_t *resident = watch->resident;
    int unchanged = 0;
    if (device_is_real()) {
        CHECK(resident[INTERVALS] <= resident[0] + watch->slack.resident);
    } else if (job.space == PEERWIN_SPACE_CUDA) {
        CHECK(resident[INTERVALS] <= resident[0] + MOST_OF_SIMULATOR);
    } else {
        for (int i = 0; i < INTERVALS; i++) {
            unchanged += resident[i + 1] <= resident[i];
        }
        CHECK(resident[INTERVALS] <= resident[0] + MOST_OF_MPI);
        CHECK(unchanged > INTERVALS / 2);
    }
}

void flat_end(flat_watch *watch) {
    CHECK_EQUAL(watch->looks, INTERVALS + 1);
    if (!TEST_SANITIZED) {
        check_resident(watch);
    }
    CHECK_EQUAL(held_by_library().blocks, 0);
    free(watch);
}
