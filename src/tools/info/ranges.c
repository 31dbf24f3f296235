/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sets of numbers as text; see ranges.h.
 */
#include "ranges.h"

#include <stdio.h>

void ranges_format(char to[RANGES_BYTES], const unsigned char *set, int n) {
    enum { LONGEST = 28 }; /* a comma, two numbers with a dash, and room for the dots after it */
    size_t used = 0;
    snprintf(to, RANGES_BYTES, "none");
    for (int first = 0; first < n; first++) {
        if (!set[first])
            continue;
        int last = first;
        while (last + 1 < n && set[last + 1])
            last++;
        const char *comma = used > 0 ? "," : "";
        if (used + LONGEST > RANGES_BYTES) {
            snprintf(to + used, RANGES_BYTES - used, ",...");
            return;
        }
        const int length = last > first ? snprintf(to + used, RANGES_BYTES - used, "%s%d-%d", comma, first, last)
                                        : snprintf(to + used, RANGES_BYTES - used, "%s%d", comma, first);
        used += (size_t)length;
        first = last;
    }
}
