/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The arithmetic of the all-reduce; see combine.h. One function for all callers, so that the bits do not depend on
 * where it was inlined.
 */
#include "transfer/combine.h"

#include <string.h>

static double combine_double(double a, double b, peerwin_op op) {
    if (op == PEERWIN_SUM)
        return a + b;
    if (a != a || b != b)
        return a != a ? a : b;
    if (op == PEERWIN_MIN)
        return b < a ? b : a;
    return b > a ? b : a;
}

static float combine_float(float a, float b, peerwin_op op) {
    if (op == PEERWIN_SUM)
        return a + b;
    if (a != a || b != b)
        return a != a ? a : b;
    if (op == PEERWIN_MIN)
        return b < a ? b : a;
    return b > a ? b : a;
}

static int64_t combine_int64(int64_t a, int64_t b, peerwin_op op) {
    if (op == PEERWIN_SUM)
        return (int64_t)((uint64_t)a + (uint64_t)b);
    if (op == PEERWIN_MIN)
        return b < a ? b : a;
    return b > a ? b : a;
}

/* Values are copied in and out: the slots hold them as bytes. */
#define COMBINE(type_, function_)                                                                                      \
    do {                                                                                                               \
        type_ a;                                                                                                       \
        type_ b;                                                                                                       \
        memcpy(&a, (const char *)into + (size_t)i * sizeof a, sizeof a);                                               \
        memcpy(&b, (const char *)from + (size_t)i * sizeof b, sizeof b);                                               \
        a = function_(a, b, op);                                                                                       \
        memcpy((char *)into + (size_t)i * sizeof a, &a, sizeof a);                                                     \
    } while (0)

void pw_combine(void *into, const void *from, int count, peerwin_type type, peerwin_op op) {
    for (int i = 0; i < count; i++) {
        if (type == PEERWIN_DOUBLE)
            COMBINE(double, combine_double);
        else if (type == PEERWIN_FLOAT)
            COMBINE(float, combine_float);
        else
            COMBINE(int64_t, combine_int64);
    }
}
