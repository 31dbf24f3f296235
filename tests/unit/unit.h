/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * cmocka with the headers that it wants before it, and a few checks of our own.
 */
#ifndef PEERWIN_TESTS_UNIT_H
#define PEERWIN_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

/* The last error must hold the word. */
#define assert_error_has(word)                                                                                         \
    do {                                                                                                               \
        if (strstr(peerwin_last_error(), word) == NULL) {                                                              \
            fail_msg("the last error \"%s\" does not have \"%s\"", peerwin_last_error(), word);                        \
        }                                                                                                              \
    } while (0)

#endif
