/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The pages of memory files: large files get pages of 2 MiB where the kernel gives them. They are made, mapped and
 * registered with a driver in a fraction of the time that small ones take, and the file is no larger for them: what is
 * less than a whole one stays in small pages.
 */
#ifndef PW_MEMORY_PAGES_H
#define PW_MEMORY_PAGES_H

#include "memory/memory.h"

#include <stddef.h>

/* One file is made by no more than so many threads, the caller's included. */
enum { PW_HUGE_PAGE = 2 << 20, PW_PAGES_THREADS = 4 };

/*
 * Maps a whole memory file to be shared, where huge pages of it can be mapped as such, unless another thread takes that
 * place first. MAP_FAILED and errno; what it returned is unmapped by munmap.
 */
void *pw_pages_map(int fd, size_t bytes, int access);

/* What became of a file: bytes in huge pages, and the threads that made them. */
typedef struct {
    size_t huge;
    int threads;
} pw_pages;

/*
 * Allocates all pages of a file without any, which is mapped at `base` by the call above; zeroed. The crew helps if it
 * is needed; NULL = none. Returns 0 or an errno.
 */
int pw_pages_fill(int fd, void *base, size_t bytes, const pw_crew *crew, pw_pages *made_out);

#endif
