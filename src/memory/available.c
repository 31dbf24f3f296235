/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How much memory there is; see available.h.
 *
 * A control group (of a container, of a batch system's job) limits all processes in it and in the groups below. In both
 * versions of these a process's groups are named in /proc/self/cgroup, from the root of a hierarchy on; a container
 * often sees only a part of that, from its own group on, in the root's place. So groups that cannot be seen are left
 * out. What a group holds in caches of files can be had as well; to ask for that is slow, and only done if it matters.
 */
#include "memory/available.h"

#include "base/fd.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024, TEXT_BYTES = 8192, CACHES = 3 };

/* The files of a version of control groups, and its names of what can be had from caches. */
typedef struct {
    const char *place;
    const char *limit;
    const char *usage;
    const char *caches[CACHES];
} version;

static const version first = {"/sys/fs/cgroup/memory",
                              "memory.limit_in_bytes",
                              "memory.usage_in_bytes",
                              {"total_inactive_file", "total_active_file", NULL}};
static const version second = {
    "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}};

/* Of a file of the kernel's in a folder; "" if it cannot be read. */
static void read_text(const char *folder, const char *name, char text[TEXT_BYTES]) {
    char path[PATH_BYTES];
    memset(text, 0, TEXT_BYTES);
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, TEXT_BYTES - 1);
    pw_close(&fd);
    text[length > 0 ? length : 0] = '\0';
}

/* SIZE_MAX for what is no number, like "max". */
static size_t read_number(const char *folder, const char *name) {
    char text[TEXT_BYTES];
    uint64_t number = 0;
    read_text(folder, name, text);
    return sscanf(text, "%" SCNu64, &number) == 1 ? (size_t)number : SIZE_MAX;
}

/* The number in the row "<name> <number>"; `otherwise` if there is none. */
static size_t number_of_row(const char *text, const char *name, size_t otherwise) {
    size_t length = strlen(name);
    for (const char *row = text; row; row = strchr(row, '\n')) {
        row += *row == '\n';
        if (strncmp(row, name, length) == 0 && row[length] == ' ')
            return (size_t)strtoull(row + length, NULL, 10);
    }
    return otherwise;
}

static size_t sum(size_t a, size_t b) {
    return a < SIZE_MAX - b ? a + b : SIZE_MAX;
}

static size_t left_in_group(const version *v, const char *folder, size_t wanted) {
    size_t limit = read_number(folder, v->limit);
    size_t usage = limit == SIZE_MAX ? SIZE_MAX : read_number(folder, v->usage);
    if (usage == SIZE_MAX)
        return SIZE_MAX;
    size_t left = limit > usage ? limit - usage : 0;
    if (left >= wanted)
        return left;
    char text[TEXT_BYTES];
    read_text(folder, "memory.stat", text);
    for (int i = 0; i < CACHES && v->caches[i]; i++)
        left = sum(left, number_of_row(text, v->caches[i], 0));
    return left < limit ? left : limit;
}

/* The least that a group from `path` up to the root has left. Shortens the path. */
static size_t left_in_groups(const char *root, const version *v, char *path, size_t wanted) {
    size_t least = SIZE_MAX;
    for (;;) {
        char folder[PATH_BYTES];
        char *end = strrchr(path, '/');
        if (end && end[1] == '\0')
            *end = '\0'; /* of the root itself */
        if (snprintf(folder, sizeof folder, "%s%s%s", root, v->place, path) < (int)sizeof folder) {
            size_t left = left_in_group(v, folder, wanted);
            least = left < least ? left : least;
        }
        end = strrchr(path, '/');
        if (!end)
            return least;
        *end = '\0';
    }
}

/* Is `word` in a list of `length` bytes with commas in between? */
static int is_in_list(const char *list, size_t length, const char *word) {
    size_t size = strlen(word);
    for (size_t at = 0; at + size <= length; at++)
        if ((at == 0 || list[at - 1] == ',') && strncmp(list + at, word, size) == 0 &&
            (at + size == length || list[at + size] == ','))
            return 1;
    return 0;
}

/* Rows are "<number>:<controllers>:<path>"; the second version has one of its own, without controllers. */
static size_t left_in_all_groups(const char *root, size_t wanted) {
    char folder[PATH_BYTES];
    char text[TEXT_BYTES];
    char *rest = NULL;
    size_t least = SIZE_MAX;
    snprintf(folder, sizeof folder, "%s/proc/self", root);
    read_text(folder, "cgroup", text);
    for (char *row = strtok_r(text, "\n", &rest); row; row = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(row, ':');
        char *path = controllers ? strchr(++controllers, ':') : NULL;
        if (!path)
            continue;
        size_t length = (size_t)(path++ - controllers);
        if (length != 0 && !is_in_list(controllers, length, "memory"))
            continue;
        size_t left = left_in_groups(root, length == 0 ? &second : &first, path, wanted);
        least = left < least ? left : least;
    }
    return least;
}

static size_t left_in_machine(const char *root) {
    char folder[PATH_BYTES];
    char text[TEXT_BYTES];
    snprintf(folder, sizeof folder, "%s/proc", root);
    read_text(folder, "meminfo", text);
    size_t kilobytes = number_of_row(text, "MemAvailable:", SIZE_MAX);
    return kilobytes < SIZE_MAX / 1024 ? kilobytes * 1024 : SIZE_MAX;
}

size_t pw_memory_available(const char *root, size_t wanted) {
    size_t machine = left_in_machine(root);
    size_t groups = left_in_all_groups(root, wanted);
    return machine < groups ? machine : groups;
}
