/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Read from /proc, uname, the scheduler and MPI.
 */
#define _GNU_SOURCE
#include "machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

/* The model name; other processors than x86 have none there, and the architecture stands in. */
static void find_cpu(char *to, size_t size, const char *architecture) {
    snprintf(to, size, "%s", architecture);
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL)
        return;
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        const char *value = strstr(line, ": ");
        if (strncmp(line, "model name", 10) != 0 || value == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(to, size, "%s", value + 2);
        break;
    }
    fclose(file);
}

/* The first part of MPI's own text: the rest is how and by whom it was built. */
static void find_mpi(char *to, size_t size) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    snprintf(to, size, "%.*s", (int)size - 1, text);
}

machine machine_describe(void) {
    machine m = {.cpu = "unknown", .kernel = "unknown", .mpi = "unknown", .date = "unknown"};
    struct utsname os;
    if (uname(&os) == 0) {
        find_cpu(m.cpu, sizeof m.cpu, os.machine);
        snprintf(m.kernel, sizeof m.kernel, "%.20s %.60s", os.sysname, os.release);
    }
    find_mpi(m.mpi, sizeof m.mpi);
    const time_t now = time(NULL);
    struct tm local;
    if (localtime_r(&now, &local) != NULL)
        strftime(m.date, sizeof m.date, "%Y-%m-%dT%H:%M:%S%z", &local);
    return m;
}

int machine_count_cpus(MPI_Comm comm) {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    MPI_Allreduce(MPI_IN_PLACE, &set, sizeof set, MPI_BYTE, MPI_BOR, comm);
    return CPU_COUNT(&set);
}
