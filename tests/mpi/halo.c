/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Random halo plans, compared byte for byte with what they promise: blocks of Cartesian grids (halo_blocks.c), and
 * lists of faces with any shapes at both ends (halo_lists.c).
 */
#include "mpi/halo_random.h"

#include "support/device.h"

int random_plans(int most, int simulated) {
    const int share = job.size <= 2 ? 1 : job.size <= 4 ? 2 : 4;
    return device_is_real() ? most : test_rounds(most, TEST_SANITIZED ? simulated / 2 : simulated / share);
}

void cover(uint64_t *set, size_t value) {
    *set |= (uint64_t)1 << value;
}

void check_covered(const char *what, uint64_t set, size_t low, size_t high) {
    for (size_t value = low; value <= high; value++) {
        if (!(set >> value & 1)) {
            test_fail(__FILE__, __LINE__, "%s: no plan had %zu of %zu to %zu", what, value, low, high);
        }
    }
}

int main(int argc, char **argv) {
    static const test_case cases[] = {
        TEST_CASE(random_blocks_get_exactly_their_ghosts, 1, MOST_RANKS),
        TEST_CASE(random_lists_of_faces_arrive_byte_for_byte, 1, MOST_RANKS),
    };
    return test_main(argc, argv, cases, (int)(sizeof(cases) / sizeof(cases[0])));
}
