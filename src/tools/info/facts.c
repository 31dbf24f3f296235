/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Read from the compiler, CMake, MPI, /proc, /sys and system calls; see facts.h.
 */
#define _GNU_SOURCE
#include "facts.h"

#include "machine.h"
#include "peerwin/peerwin.h"

#include <gnu/libc-version.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

static fact *next(facts *f, const char *name) {
    if (f->count == (int)(sizeof f->list / sizeof *f->list))
        abort(); /* a list that is too short is a mistake in this file */
    fact *it = &f->list[f->count++];
    it->name = name;
    return it;
}

static void add(facts *f, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(facts *f, const char *name, const char *format, ...) {
    fact *it = next(f, name);
    va_list args;
    va_start(args, format);
    vsnprintf(it->value, sizeof it->value, format, args);
    va_end(args);
}

static void add_number(facts *f, const char *name, long long number) {
    fact *it = next(f, name);
    snprintf(it->value, sizeof it->value, "%lld", number);
    it->number = true;
}

/* ------------------------------------------------------------------------------------------------ build */

/* The whole of MPI's own text on one line. */
static void add_mpi(facts *f) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, "\n")] = '\0';
    add(f, "mpi_library", "%.200s", text[0] != '\0' ? text : "unknown");
    add(f, "mpi_headers", "MPI %d.%d", MPI_VERSION, MPI_SUBVERSION);
}

facts facts_of_build(void) {
    facts f = {.name = "build"};
#if defined(__clang__)
    add(&f, "compiler", "clang %d.%d.%d", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
    add(&f, "compiler", "gcc %s", __VERSION__);
#endif
    add(&f, "build_type", "%s", INFO_BUILD_TYPE);
    add(&f, "sanitizers", "%s", INFO_SANITIZE[0] != '\0' ? INFO_SANITIZE : "none");
    add(&f, "spaces", "%s", INFO_SPACES);
    add_mpi(&f);
    add(&f, "libc", "glibc %s, built with %d.%d", gnu_get_libc_version(), __GLIBC__, __GLIBC_MINOR__);
    return f;
}

/* ---------------------------------------------------------------------------------------------- machine */

/* The first line of a file without its end; "unknown" if it cannot be read. */
static void first_line(char *to, size_t size, const char *path) {
    snprintf(to, size, "unknown");
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(to, (int)size, file) == NULL)
        snprintf(to, size, "unknown");
    to[strcspn(to, "\n")] = '\0';
    fclose(file);
}

static void add_cpus(facts *f) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        add_number(f, "cpus_allowed", CPU_COUNT(&set));
    add_number(f, "cpus_online", sysconf(_SC_NPROCESSORS_ONLN));
}

static void add_limit(facts *f, const char *name, rlim_t limit) {
    if (limit == RLIM_INFINITY)
        add(f, name, "unlimited");
    else
        add_number(f, name, (long long)limit);
}

/* A window costs a descriptor only while it is made, a context one or two for every rank of the node. */
static void add_limits(facts *f) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        add_limit(f, "descriptors_soft_limit", limit.rlim_cur);
        add_limit(f, "descriptors_hard_limit", limit.rlim_max);
    }
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
        add_limit(f, "locked_memory_limit", limit.rlim_cur);
}

/* Shared memory counts against the control group's limit. Version 1 says "none" by the largest number of pages. */
static void add_cgroup_limit(facts *f) {
    char line[64];
    first_line(line, sizeof line, "/sys/fs/cgroup/memory.max");
    if (strcmp(line, "unknown") == 0)
        first_line(line, sizeof line, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
    const long long bytes = strtoll(line, NULL, 10);
    if (strcmp(line, "max") == 0 || bytes > LLONG_MAX / 2)
        add(f, "cgroup_memory_limit", "unlimited");
    else if (bytes > 0)
        add_number(f, "cgroup_memory_limit", bytes);
    else
        add(f, "cgroup_memory_limit", "unknown");
}

static void add_memory(facts *f) {
    char line[64];
    add_cgroup_limit(f);
    add_number(f, "memory_bytes", (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    first_line(line, sizeof line, "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    add(f, "shared_huge_pages", "%s", line);
}

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

/* There is no sure way to tell; these are the marks that the usual runtimes leave. */
static void add_container(facts *f) {
    const char *named = getenv("container");
    const char *seen = exists("/.dockerenv")               ? "docker"
                       : exists("/run/.containerenv")      ? "podman"
                       : exists("/.singularity.d")         ? "apptainer"
                       : named != NULL && named[0] != '\0' ? named
                       : getenv("KUBERNETES_SERVICE_HOST") ? "kubernetes"
                                                           : "no mark of one";
    add(f, "container", "%.60s", seen);
}

static void add_namespaces(facts *f) {
    static const char *const rows[][2] = {{"pid", "pid_namespace"},
                                          {"net", "net_namespace"},
                                          {"user", "user_namespace"},
                                          {"ipc", "ipc_namespace"},
                                          {"mnt", "mount_namespace"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[32];
        struct stat info;
        snprintf(path, sizeof path, "/proc/self/ns/%s", rows[i][0]);
        if (stat(path, &info) == 0)
            add_number(f, rows[i][1], (long long)info.st_ino);
        else
            add(f, rows[i][1], "unknown");
    }
}

facts facts_of_machine(void) {
    facts f = {.name = "machine"};
    const machine m = machine_describe();
    struct utsname os;
    char line[64];
    add(&f, "host_name", "%.64s", uname(&os) == 0 ? os.nodename : "unknown");
    add(&f, "kernel", "%s", m.kernel);
    add(&f, "cpu", "%s", m.cpu);
    add_cpus(&f);
    add_memory(&f);
    add_number(&f, "page_bytes", sysconf(_SC_PAGESIZE));
    add_limits(&f);
    first_line(line, sizeof line, "/proc/sys/kernel/yama/ptrace_scope");
    add(&f, "yama_ptrace_scope", "%s", strcmp(line, "unknown") != 0 ? line : "none");
    add_container(&f);
    add_namespaces(&f);
    return f;
}

/* ----------------------------------------------------------------------------------------------- output */

void facts_print(const facts *f) {
    printf("\n%s\n", f->name);
    for (int i = 0; i < f->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s", f->list[i].name);
        for (char *c = name; *c != '\0'; c++)
            if (*c == '_')
                *c = ' ';
        printf("  %-24s %s\n", name, f->list[i].value);
    }
}

void facts_write(const facts *f, json *j) {
    json_open(j, f->name, '{');
    for (int i = 0; i < f->count; i++) {
        if (f->list[i].number)
            json_number(j, f->list[i].name, strtoll(f->list[i].value, NULL, 10));
        else
            json_text(j, f->list[i].name, f->list[i].value);
    }
    json_close(j, '}');
}
