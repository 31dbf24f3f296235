/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Finding NCCL's library, which is opened by the jobs that measure it: nothing is built.
 */
#define _GNU_SOURCE
#include "peers.h"

#include "text.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool look_at(const char *pattern, char *library, size_t size) {
    glob_t found;
    bool good = false;
    if (glob(pattern, 0, NULL, &found) != 0)
        return false;
    for (size_t i = 0; !good && i < found.gl_pathc; i++)
        good = access(found.gl_pathv[i], R_OK) == 0 && text_format(library, size, "%s", found.gl_pathv[i]);
    globfree(&found);
    return good;
}

/* Below a directory that the user names, or beside NVSHMEM as a package of Python's. */
static bool look_below(const char *dir, const char *rest, char *library, size_t size) {
    char path[4096];
    return dir != NULL && dir[0] != '\0' && text_format(path, sizeof path, "%s/%s", dir, rest) &&
           look_at(path, library, size);
}

bool peers_find_nccl(const options *opt, const char *nvshmem_dir, char *library, size_t size) {
    static const char *const patterns[] = {
        "/usr/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
        "/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
        "/opt/*/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
        "/root/*/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
        "/usr/lib/*-linux-gnu/libnccl.so.2",
        "/usr/lib64/libnccl.so.2",
        "/usr/local/cuda/lib64/libnccl.so.2",
        "/usr/local/cuda*/lib*/libnccl.so.2",
    };
    library[0] = '\0';
    if (opt->nccl != NULL)
        return look_at(opt->nccl, library, size);
    bool found = look_below(getenv("NCCL_HOME"), "lib*/libnccl.so.2", library, size) ||
                 look_below(nvshmem_dir, "../../nccl/lib/libnccl.so.2", library, size);
    for (size_t i = 0; !found && i < sizeof patterns / sizeof *patterns; i++)
        found = look_at(patterns[i], library, size);
    return found;
}
