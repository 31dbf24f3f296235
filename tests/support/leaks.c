/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads /proc/self. Descriptors are compared by what they point to, shared and file mappings by name; private
 * anonymous memory (heap, thread stacks that the C library keeps) only by a coarse count, because it comes and goes
 * without anyone's fault. Shared libraries are left out: MPI loads components whenever it likes.
 */
#include "leaks.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "test.h"

/* Drivers have a thread for each stream, real ones fewer, whose stacks the C library keeps for the next. */
enum { MAX_TEXT = 320, ANONYMOUS_SLACK = 12, ANONYMOUS_SLACK_OF_DRIVERS = 60, DRIVERS_SPARE = 4 };

typedef struct {
    char (*text)[MAX_TEXT];
    size_t count;
    size_t room;
} text_list;

struct leaks_snapshot {
    text_list descriptors;
    text_list mappings; /* shared or of a file */
    size_t anonymous;
    size_t threads;
};

static void list_add(text_list *list, const char *text) {
    if (list->count == list->room) {
        list->room = list->room * 2 + 64;
        list->text = realloc(list->text, list->room * sizeof(*list->text));
        CHECK(list->text != NULL);
    }
    snprintf(list->text[list->count++], MAX_TEXT, "%s", text);
}

/* Takes one entry equal to text out of the list; returns 0 if there is none. */
static int list_take(text_list *list, const char *text) {
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->text[i], text) == 0) {
            memmove(list->text[i], list->text[list->count - 1], MAX_TEXT);
            list->count--;
            return 1;
        }
    }
    return 0;
}

static void read_descriptors(text_list *list) {
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char target[MAX_TEXT] = "";
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(folder)) {
            continue;
        }
        if (readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1) > 0) {
            list_add(list, target);
        }
    }
    closedir(folder);
}

static size_t count_threads(void) {
    size_t count = 0;
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder != NULL);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        count += entry->d_name[0] != '.';
    }
    closedir(folder);
    return count;
}

static int is_library(const char *name) {
    return strstr(name, ".so") != NULL;
}

/* The rest of a line behind `fields` words and the spaces around them. (Sweeps read thousands of maps: no sscanf.) */
static char *skip_fields(char *line, int fields) {
    for (; fields > 0; fields--) {
        line += strcspn(line, " \n");
        line += strspn(line, " ");
    }
    return line;
}

static void read_mappings(leaks_snapshot *snapshot) {
    FILE *file = fopen("/proc/self/maps", "re");
    char line[1024];
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        const char *permissions = skip_fields(line, 1);
        char *name = skip_fields(line, 5);
        name[strcspn(name, "\n")] = '\0';
        CHECK(strcspn(permissions, " ") == 4);
        if (is_library(name)) {
            continue;
        }
        if (permissions[3] == 's' || name[0] == '/') {
            list_add(&snapshot->mappings, name);
        } else if (name[0] == '\0') {
            snapshot->anonymous++;
        }
    }
    fclose(file);
}

leaks_snapshot *leaks_take(void) {
    leaks_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    CHECK(snapshot != NULL);
    read_descriptors(&snapshot->descriptors);
    read_mappings(snapshot);
    snapshot->threads = count_threads();
    return snapshot;
}

void leaks_free(leaks_snapshot *snapshot) {
    if (snapshot == NULL) {
        return;
    }
    free(snapshot->descriptors.text);
    free(snapshot->mappings.text);
    free(snapshot);
}

/*
 * A real driver opens its devices again when it likes, and keeps a few; and event descriptors, for a device that it
 * uses for the first time. Leaks of each cycle show in tests of many, and all others on the simulated driver.
 */
static int is_drivers(const char *text, int *spare) {
    int its = strncmp(text, "/dev/nvidia", 11) == 0;
    its |= device_is_real() && strcmp(text, "anon_inode:[eventfd]") == 0;
    return its && (*spare)-- > 0;
}

/* Entries of `after` that `before` lacks. Entries that went are not looked at: MPI may close things too. */
static void fail_on_new(const char *kind, text_list *before, const text_list *after) {
    int spare = DRIVERS_SPARE;
    for (size_t i = 0; i < after->count; i++) {
        if (!list_take(before, after->text[i]) && !is_drivers(after->text[i], &spare)) {
            test_fail(__FILE__, __LINE__, "a %s is left over: %s", kind, after->text[i]);
        }
    }
}

leaks_snapshot *leaks_check_on(leaks_snapshot *before) {
    leaks_snapshot *after = leaks_take();
    /* A thread that was joined can stay listed for a moment. */
    for (int tries = 0; tries < 100 && after->threads > before->threads; tries++) {
        test_sleep_ms(10);
        after->threads = count_threads();
    }
    /* Those of a driver end when they like, a little after what they were for. */
    if (job.space == PEERWIN_SPACE_HOST || after->threads > before->threads) {
        CHECK_EQUAL(after->threads, before->threads);
    }
    fail_on_new("descriptor", &before->descriptors, &after->descriptors);
    fail_on_new("mapping", &before->mappings, &after->mappings);
    size_t slack = job.space == PEERWIN_SPACE_HOST ? ANONYMOUS_SLACK : ANONYMOUS_SLACK_OF_DRIVERS;
    if (!TEST_SANITIZED && after->anonymous > before->anonymous + slack) {
        test_fail(__FILE__, __LINE__, "anonymous mappings grew from %zu to %zu", before->anonymous, after->anonymous);
    }
    leaks_free(before);
    return after;
}

void leaks_check(leaks_snapshot *before) {
    leaks_free(leaks_check_on(before));
}

size_t leaks_open_descriptors(void) {
    text_list list = {0};
    read_descriptors(&list);
    free(list.text);
    return list.count;
}

/* The first number of statm, in pages. */
size_t leaks_address_space_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "re");
    size_t pages = 0;
    CHECK(file != NULL);
    CHECK_EQUAL(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

leaks_memory leaks_read_memory(void) {
    FILE *file = fopen("/proc/self/smaps", "re");
    leaks_memory memory = {0};
    char line[1024];
    int counts = 0;
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        size_t begin = 0;
        size_t end = 0;
        size_t kilobytes = 0;
        char permissions[5] = "";
        char name[MAX_TEXT] = "";
        if (sscanf(line, "%zx-%zx %4s %*s %*s %*s %319[^\n]", &begin, &end, permissions, name) >= 3) {
            memory.mappings++;
            memory.space += strcmp(name, "[heap]") == 0 ? 0 : end - begin;
            counts = permissions[3] == 's' || name[0] != '/'; /* else a program or library */
        } else if (counts &&
                   (sscanf(line, "Rss: %zu", &kilobytes) == 1 || sscanf(line, "Swap: %zu", &kilobytes) == 1)) {
            memory.resident += kilobytes * 1024;
        }
    }
    fclose(file);
    return memory;
}

void leaks_permissions(const void *address, char permissions_out[5]) {
    FILE *file = fopen("/proc/self/maps", "re");
    char line[1024];
    permissions_out[0] = '\0';
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned long start = 0;
        unsigned long end = 0;
        char permissions[5];
        if (sscanf(line, "%lx-%lx %4s", &start, &end, permissions) == 3 && start <= (unsigned long)address &&
            (unsigned long)address < end) {
            memcpy(permissions_out, permissions, 5);
            break;
        }
    }
    fclose(file);
}
