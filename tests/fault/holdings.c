/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What peerwin holds of this process; see holdings.h.
 */
#include "holdings.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"

static void count_descriptor(const char *target, holdings *h) {
    h->sockets += strncmp(target, "socket:", 7) == 0;
    h->pidfds += strstr(target, "pidfd") != NULL;
    h->memory_files += strstr(target, "memfd:") != NULL;
}

static void read_descriptors(holdings *h) {
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char target[256] = "";
        if (readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1) > 0) {
            count_descriptor(target, h);
        }
    }
    closedir(folder);
}

static void read_mappings(holdings *h) {
    char line[1024];
    FILE *file = fopen("/proc/self/maps", "re");
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        h->mappings += strstr(line, "memfd:peerwin") != NULL;
    }
    fclose(file);
}

static void read_threads(holdings *h) {
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder != NULL);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        h->threads += entry->d_name[0] != '.';
    }
    closedir(folder);
}

holdings holdings_take(void) {
    holdings h = {0};
    read_descriptors(&h);
    read_mappings(&h);
    read_threads(&h);
    return h;
}

void holdings_check(const holdings *before, const char *what) {
    holdings now = holdings_take();
    if (now.sockets > before->sockets || now.pidfds > before->pidfds || now.memory_files > before->memory_files ||
        now.mappings > before->mappings || now.threads > before->threads) {
        test_fail(
            __FILE__, __LINE__,
            "%s left something over: sockets %d to %d, pidfds %d to %d, memory files %d to %d, mappings %d to %d, "
            "threads %d to %d",
            what, before->sockets, now.sockets, before->pidfds, now.pidfds, before->memory_files, now.memory_files,
            before->mappings, now.mappings, before->threads, now.threads);
    }
}
