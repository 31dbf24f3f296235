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

#include <stddef.h>

enum { PW_HUGE_PAGE = 2 << 20 };

/*
 * Maps a whole memory file to be shared, where huge pages of it can be mapped as such, unless another thread takes that
 * place first. MAP_FAILED and errno; what it returned is unmapped by munmap.
 */
void *pw_pages_map(int fd, size_t bytes, int access);

/*
 * Allocates all pages of a file without any, which is mapped at `base` by the call above; zeroed. Returns 0 or an
 * errno. *huge_out is how many bytes are in huge pages.
 */
int pw_pages_fill(int fd, void *base, size_t bytes, size_t *huge_out);

#endif
