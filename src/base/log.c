/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The log; see log.h. A line is written by one call, so that the lines of several ranks do not mix.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static _Atomic int wanted = PW_LOG_WARN;

void pw_log_set_level(pw_log_level level) {
    atomic_store_explicit(&wanted, (int)level, memory_order_relaxed);
}

void pw_log(pw_log_level level, int rank, const char *format, ...) {
    static const char *const names[] = {"error", "warning", "info", "debug"};
    if ((int)level > atomic_load_explicit(&wanted, memory_order_relaxed))
        return;
    int saved = errno;
    char line[1280];
    int used = rank < 0 ? snprintf(line, sizeof line, "peerwin %s: ", names[level])
                        : snprintf(line, sizeof line, "peerwin[%d] %s: ", rank, names[level]);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    size_t length = (size_t)used + (more > 0 ? (size_t)more : 0);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written; /* a log that cannot be written is no reason to fail */
    errno = saved;
}
