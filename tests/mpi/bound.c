/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that are bound to one processor each: threads that help with a large window run where no rank is bound, in all
 * no more than there are processors, and are gone with the call; the rank's own binding stays. Ranks that share
 * processors have their threads there. The job's launcher must not bind: the ranks do, before peerwin_init.
 *
 * pthread_create is this program's, and counts; so is open, which gives every rank a machine of its own if told to.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/test.h"

enum { BYTES = 64 << 20, HUGE = 2 << 20, COLLAPSE = 25, MOST_HELPERS = 3, NOTED = 64 };

/* By the library, in whose place it is called. */
#define VISIBLE __attribute__((visibility("default")))

typedef struct {
    void *(*run)(void *);
    void *argument;
    int number;
} start;

static start starts[NOTED];
static cpu_set_t places[NOTED];
static char names[NOTED][16];
static _Atomic int started;

static void *note_and_run(void *argument) {
    const start *s = argument;
    sched_getaffinity(0, sizeof(places[0]), &places[s->number]);
    void *result = s->run(s->argument);
    pthread_getname_np(pthread_self(), names[s->number], sizeof(names[0]));
    return result;
}

VISIBLE int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int number = atomic_fetch_add(&started, 1);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (number >= NOTED)
        return real(thread, how, run, argument);
    starts[number] = (start){run, argument, number};
    return real(thread, how, note_and_run, &starts[number]);
}

static int apart; /* ranks say that they are on different machines */

/* A file that holds the id of this rank's machine. */
static int open_boot_id(void) {
    char text[40];
    int fd = memfd_create("boot_id", MFD_CLOEXEC);
    int length = snprintf(text, sizeof(text), "00000000-0000-0000-0000-%012d\n", job.rank + 1);
    CHECK(fd >= 0 && write(fd, text, (size_t)length) == length && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

VISIBLE int open(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list more;
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    if (apart && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)
        return open_boot_id();
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "open");
    return real(path, flags, mode);
}

static cpu_set_t allowed(void) {
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
    return set;
}

static int common(cpu_set_t a, cpu_set_t b) {
    cpu_set_t set;
    CPU_AND(&set, &a, &b);
    return CPU_COUNT(&set);
}

/* The first `count` of a set from its n-th on. */
static cpu_set_t part_of(cpu_set_t all, int n, int count) {
    cpu_set_t part;
    CPU_ZERO(&part);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && count > 0; cpu++) {
        if (CPU_ISSET(cpu, &all) && n-- <= 0) {
            CPU_SET(cpu, &part);
            count--;
        }
    }
    return part;
}

/* Makes a large window, bound to `own`. Returns the threads that helped, of which none may run on any of `not_there`.
 */
static int helpers_of_window(cpu_set_t own, cpu_set_t not_there) {
    cpu_set_t before = allowed();
    int helpers = 0;
    CHECK(started > 0); /* by MPI: this program's pthread_create is the one that is called */
    CHECK(sched_setaffinity(0, sizeof(own), &own) == 0);
    peerwin_ctx *ctx = test_context(MPI_COMM_WORLD, 0);
    int first = started;
    peerwin_win *win = test_window(ctx, BYTES);
    for (int i = first; i < started && i < NOTED; i++) {
        if (strcmp(names[i], "peerwin-pages") == 0) {
            helpers++;
            CHECK_EQUAL(common(places[i], not_there), 0);
        }
    }
    cpu_set_t after = allowed();
    CHECK(CPU_EQUAL(&after, &own));
    test_free(ctx, win);
    CHECK(sched_setaffinity(0, sizeof(before), &before) == 0);
    return helpers;
}

/* Without huge pages there is nothing to help with. */
static int has_huge_pages(void) {
    int fd = memfd_create("bound", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, HUGE) == 0);
    char *room = mmap(NULL, 2 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED);
    char *place = room + (-(uintptr_t)room & (HUGE - 1));
    CHECK(mmap(place, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == place);
    *place = 1;
    int has = madvise(place, HUGE, COLLAPSE) == 0;
    munmap(room, 2 * HUGE);
    close(fd);
    return has;
}

static int has_one_node(void) {
    return access("/sys/devices/system/node/node0", F_OK) == 0 && access("/sys/devices/system/node/node1", F_OK) != 0;
}

static void helpers_of_bound_ranks_run_where_no_rank_is_bound(void) {
    cpu_set_t all = allowed();
    int processors = CPU_COUNT(&all);
    int sum = 0;
    if (test_agree_skip(processors < job.size, "there is no processor for each rank"))
        return;
    int share = (processors - job.size) / job.size;
    int wanted = job.size == 1 ? 0 : share < MOST_HELPERS ? share : MOST_HELPERS;
    int helpers = helpers_of_window(part_of(all, job.rank, 1), part_of(all, 0, job.size));
    MPI_Allreduce(&helpers, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum + job.size <= processors);
    CHECK(helpers <= wanted);
    if (has_one_node() && has_huge_pages())
        CHECK_EQUAL(helpers, wanted);
}

/* The same processor on all machines; so one machine of two processors is enough to see that there are helpers. */
static void a_rank_that_is_alone_on_its_machine_has_helpers_there(void) {
    cpu_set_t all = allowed();
    cpu_set_t one = part_of(all, 0, 1);
    int others = CPU_COUNT(&all) - 1;
    apart = 1;
    int helpers = helpers_of_window(one, one);
    apart = 0;
    CHECK(helpers <= others && helpers <= MOST_HELPERS);
    if (has_one_node() && has_huge_pages())
        CHECK_EQUAL(helpers, others < MOST_HELPERS ? others : MOST_HELPERS);
}

static void helpers_of_ranks_that_share_a_processor_stay_there(void) {
    CHECK_EQUAL(helpers_of_window(part_of(allowed(), 0, 1), allowed()), 0);
}

static const test_case cases[] = {
    TEST_CASE(helpers_of_bound_ranks_run_where_no_rank_is_bound, 1, 0),
    TEST_CASE(a_rank_that_is_alone_on_its_machine_has_helpers_there, 2, 0),
    TEST_CASE(helpers_of_ranks_that_share_a_processor_stay_there, 1, 0),
};

TEST_MAIN(cases)
