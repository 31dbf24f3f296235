/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Descriptors: they start at -1, are closed through one helper, and are close-on-exec from birth.
 */
#ifndef PW_BASE_FD_H
#define PW_BASE_FD_H

#include <errno.h>
#include <unistd.h>

/* Closes *fd unless it is -1, keeps errno, and sets -1. Not retried on EINTR: on Linux the descriptor is gone then. */
static inline void pw_close(int *fd) {
    if (*fd < 0)
        return;
    int saved = errno;
    (void)close(*fd);
    errno = saved;
    *fd = -1;
}

#endif
