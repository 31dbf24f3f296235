/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Processors; see processors.h.
 */
#include "base/processors.h"

#include "base/fd.h"
#include "base/liveness.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many wrappers between a launcher and a rank are more than anybody has. */
enum { MOST_ANCESTORS = 16 };

static int is_within(const cpu_set_t *part, const cpu_set_t *whole) {
    cpu_set_t both;
    CPU_OR(&both, part, whole);
    return CPU_EQUAL(&both, whole);
}

int pw_processors_of_launcher(const cpu_set_t *own, cpu_set_t *out) {
    pid_t pid = getppid();
    for (int i = 0; i < MOST_ANCESTORS && pid > 0; i++) {
        cpu_set_t theirs;
        if (sched_getaffinity(pid, sizeof theirs, &theirs) != 0)
            return 0;
        if (!is_within(&theirs, own)) {
            *out = theirs;
            return 1;
        }
        pid = pw_process_parent(pid);
    }
    return 0;
}

/* Adds a list as the kernel writes them, "0-3,8"; stops at what is none. */
static void add_list(const char *text, cpu_set_t *set) {
    for (;;) {
        char *end = NULL;
        unsigned long first = strtoul(text, &end, 10);
        if (end == text)
            return;
        unsigned long last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            CPU_SET(cpu, set);
        if (*end != ',')
            return;
        text = end + 1;
    }
}

/* The processors of a node; none if it has none, or they cannot be read. */
static void read_node(const char *nodes, const char *name, cpu_set_t *out) {
    char path[512];
    char text[4096];
    CPU_ZERO(out);
    if (snprintf(path, sizeof path, "%s/%s/cpulist", nodes, name) >= (int)sizeof path)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    pw_close(&fd);
    if (length < 0)
        return;
    text[length] = '\0';
    add_list(text, out);
}

void pw_processors_near(const char *nodes, const cpu_set_t *own, cpu_set_t *out) {
    DIR *folder = opendir(nodes);
    CPU_ZERO(out);
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        cpu_set_t node;
        cpu_set_t both;
        if (strncmp(entry->d_name, "node", 4) != 0)
            continue;
        read_node(nodes, entry->d_name, &node);
        CPU_AND(&both, &node, own);
        if (CPU_COUNT(&both) > 0)
            CPU_OR(out, out, &node);
    }
    if (folder)
        closedir(folder);
    if (CPU_COUNT(out) == 0)
        memset(out, 0xff, sizeof *out);
}
