/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How much memory there is: the least of what the machine has and what each control group that this process is in has
 * left, in both versions, from a batch system's job and from within a container. On made-up files of the kernel's, and
 * once on the real ones.
 */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/available.h"
#include "memory/memory.h"
#include "unit/unit.h"

#define GIB  ((size_t)1 << 30)
#define MUCH (1000 * GIB)

static char root[64];

/* Writes a file below the root, with the folders that it needs. */
static void put(const char *path, const char *text) {
    char whole[512];
    int length = snprintf(whole, sizeof(whole), "%s%s", root, path);
    assert_true(length < (int)sizeof(whole));
    for (char *at = strchr(whole + strlen(root) + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        assert_true(mkdir(whole, 0700) == 0 || errno == EEXIST);
        *at = '/';
    }
    FILE *file = fopen(whole, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void put_number(const char *path, size_t number) {
    char text[32];
    snprintf(text, sizeof(text), "%zu\n", number);
    put(path, text);
}

/* A machine with 512 GiB left. */
static int begin(void **state) {
    (void)state;
    snprintf(root, sizeof(root), "/tmp/peerwin-root-XXXXXX");
    assert_non_null(mkdtemp(root));
    put("/proc/meminfo",
        "MemTotal:       1056964608 kB\nMemFree:        1 kB\nMemAvailable:   536870912 kB\nCached: 1 kB\n");
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static int end(void **state) {
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void without_groups_it_is_the_machines(void **state) {
    (void)state;
    assert_int_equal(pw_memory_available(root, MUCH), 512 * GIB);
    put("/proc/self/cgroup", "0::/\n");
    assert_int_equal(pw_memory_available(root, MUCH), 512 * GIB);
}

static void what_the_kernel_does_not_tell_is_no_limit(void **state) {
    (void)state;
    put("/proc/meminfo", "");
    assert_int_equal(pw_memory_available(root, MUCH), SIZE_MAX);
    put("/proc/meminfo", "NotMemAvailable: 5 kB\nMemAvailable:\n");
    put("/proc/self/cgroup", "no rows\n0:\n::\n1:memory\n");
    assert_int_equal(pw_memory_available(root, MUCH), SIZE_MAX);
    assert_int_equal(pw_memory_available("/nowhere", MUCH), SIZE_MAX);
}

static void the_tightest_group_counts(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/slurm/job_7/step_0\n");
    put("/sys/fs/cgroup/slurm/memory.max", "max\n");
    put_number("/sys/fs/cgroup/slurm/memory.current", 900 * GIB);
    put_number("/sys/fs/cgroup/slurm/job_7/memory.max", 64 * GIB);
    put_number("/sys/fs/cgroup/slurm/job_7/memory.current", 24 * GIB);
    put_number("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", 128 * GIB);
    put_number("/sys/fs/cgroup/slurm/job_7/step_0/memory.current", 20 * GIB);
    assert_int_equal(pw_memory_available(root, MUCH), 40 * GIB);
    put_number("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", 21 * GIB);
    assert_int_equal(pw_memory_available(root, MUCH), GIB);
    put_number("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", 19 * GIB);
    assert_int_equal(pw_memory_available(root, MUCH), 0);
}

static void caches_can_be_had(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/job\n");
    put_number("/sys/fs/cgroup/job/memory.max", 16 * GIB);
    put_number("/sys/fs/cgroup/job/memory.current", 15 * GIB);
    put("/sys/fs/cgroup/job/memory.stat",
        "anon 1\nfile 9999999999999\nworkingset_inactive_file 77\ninactive_file 2147483648\nactive_file 1073741824\n"
        "slab_reclaimable 1073741824\nslab 5\n");
    assert_int_equal(pw_memory_available(root, MUCH), 5 * GIB);
    put("/sys/fs/cgroup/job/memory.stat", "inactive_file 99999999999999\n");
    assert_int_equal(pw_memory_available(root, MUCH), 16 * GIB);
}

/* A container's own group is the root of what it sees, whatever the name of it says. */
static void a_container_sees_its_group_in_the_roots_place(void **state) {
    (void)state;
    put_number("/sys/fs/cgroup/memory.max", 8 * GIB);
    put_number("/sys/fs/cgroup/memory.current", 2 * GIB);
    put("/proc/self/cgroup", "0::/\n");
    assert_int_equal(pw_memory_available(root, MUCH), 6 * GIB);
    put("/proc/self/cgroup", "0::/kubepods/pod1/2f3c\n");
    assert_int_equal(pw_memory_available(root, MUCH), 6 * GIB);
    put("/proc/self/cgroup", "0::/../2f3c\n");
    assert_int_equal(pw_memory_available(root, MUCH), 6 * GIB);
}

static void the_first_version_has_other_names(void **state) {
    (void)state;
    put("/proc/self/cgroup", "12:pids:/a\n9:memory_other:/b\n5:cpu,memory:/docker/2f3c\n0::/\n");
    put_number("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", 1);
    put_number("/sys/fs/cgroup/memory/b/memory.usage_in_bytes", 1);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put_number("/sys/fs/cgroup/memory/memory.usage_in_bytes", 700 * GIB);
    assert_int_equal(pw_memory_available(root, MUCH), 512 * GIB);
    put_number("/sys/fs/cgroup/memory/docker/2f3c/memory.limit_in_bytes", 10 * GIB);
    put_number("/sys/fs/cgroup/memory/docker/2f3c/memory.usage_in_bytes", 9 * GIB);
    put("/sys/fs/cgroup/memory/docker/2f3c/memory.stat", "inactive_file 5\ntotal_inactive_file 1073741824\n");
    assert_int_equal(pw_memory_available(root, MUCH), 2 * GIB);
}

static void what_is_enough_is_not_looked_at_closely(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/job\n");
    put_number("/sys/fs/cgroup/job/memory.max", 16 * GIB);
    put_number("/sys/fs/cgroup/job/memory.current", 10 * GIB);
    put("/sys/fs/cgroup/job/memory.stat", "inactive_file 2147483648\n");
    assert_int_equal(pw_memory_available(root, 6 * GIB), 6 * GIB);
    assert_int_equal(pw_memory_available(root, 7 * GIB), 8 * GIB);
}

/* This machine has some, and says what is too much. */
static void the_real_ones_are_read(void **state) {
    const pw_site site = {"peerwin_win_alloc", "allocate", 0, PW_NONE};
    size_t available = pw_memory_available("", SIZE_MAX);
    pw_segment segment;
    (void)state;
    assert_true(available > (1 << 20) && available < SIZE_MAX / 2);
    pw_order order = {available + available / 2, 0, "available", NULL};
    assert_int_equal(pw_memory_host.alloc(NULL, &order, &site, &segment), PEERWIN_ERR_NO_MEMORY);
    assert_error_has("are available");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_groups_it_is_the_machines, begin, end),
        cmocka_unit_test_setup_teardown(what_the_kernel_does_not_tell_is_no_limit, begin, end),
        cmocka_unit_test_setup_teardown(the_tightest_group_counts, begin, end),
        cmocka_unit_test_setup_teardown(caches_can_be_had, begin, end),
        cmocka_unit_test_setup_teardown(a_container_sees_its_group_in_the_roots_place, begin, end),
        cmocka_unit_test_setup_teardown(the_first_version_has_other_names, begin, end),
        cmocka_unit_test_setup_teardown(what_is_enough_is_not_looked_at_closely, begin, end),
        cmocka_unit_test(the_real_ones_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
