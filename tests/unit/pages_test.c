/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pages of memory files: whether or not the kernel gives huge ones, whoever refuses what meanwhile, a file has all its
 * pages and no more, all zero, where it can be mapped by huge ones; no thread, mapping or descriptor is left, no
 * signal handler ran on a thread of the library's. Says whether huge pages were got: elsewhere half of this is moot.
 *
 * The linker sends the library's calls of f to __wrap_f, which counts them, and fails from a chosen one on.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "memory/memory.h"
#include "memory/pages.h"
#include "unit/unit.h"

#define MIB ((size_t)1 << 20)
enum { PAGE = 64 << 10, COLLAPSE = 25, MOST_THREADS = 4, TRIES = 3, FOREVER = 1 << 30 };

static const pw_site site = {"peerwin_win_alloc", "allocate", 0, PW_NONE};

/* ---- calls that fail: `failing` of them, from number `first` on, counted from 1; 0 = none */

typedef struct {
    _Atomic int calls;
    int first;
    int failing;
    int code;
} hook;

static hook creating, collapsing, allocating, mapping;
static _Atomic int masked, named;
static _Atomic int at_home, in_crew; /* threads that may run where the caller may, and where the crew may */
static cpu_set_t home;
static pw_crew crew;
static _Atomic int refusals; /* of the kernel's own: without memory for huge pages, or without huge pages */

static int strikes(hook *h) {
    int call = atomic_fetch_add(&h->calls, 1) + 1;
    if (h->first == 0 || call < h->first || call - h->first >= h->failing) {
        return 0;
    }
    errno = h->code;
    return 1;
}

static int reset(void **state) {
    (void)state;
    creating = (hook){0};
    collapsing = (hook){0};
    allocating = (hook){0};
    mapping = (hook){0};
    masked = named = refusals = at_home = in_crew = 0;
    crew = (pw_crew){0};
    sched_getaffinity(0, sizeof(home), &home);
    return 0;
}

typedef struct {
    void *(*run)(void *);
    void *argument;
} routine;

static routine routines[16];

static void *run_and_look(void *argument) {
    routine r = *(routine *)argument;
    sigset_t mask;
    cpu_set_t set;
    char name[16] = "";
    sched_getaffinity(0, sizeof(set), &set);
    at_home += CPU_EQUAL(&set, &home);
    in_crew += CPU_EQUAL(&set, &crew.where);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    masked += sigismember(&mask, SIGALRM) && sigismember(&mask, SIGTERM) && sigismember(&mask, SIGCHLD);
    void *result = r.run(r.argument);
    pthread_getname_np(pthread_self(), name, sizeof(name));
    named += strcmp(name, "peerwin-pages") == 0;
    return result;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument) {
    if (strikes(&creating)) {
        return creating.code;
    }
    routine *r = &routines[creating.calls % 16]; /* no memory of a thread's own, which the C library would keep */
    *r = (routine){run, argument};
    return __real_pthread_create(thread, how, run_and_look, r);
}

int __real_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice) {
    if (advice == COLLAPSE && strikes(&collapsing)) {
        return -1;
    }
    int result = __real_madvise(at, bytes, advice);
    refusals += advice == COLLAPSE && result != 0;
    return result;
}

int __real_fallocate(int fd, int mode, off_t offset, off_t length);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length) {
    return strikes(&allocating) ? -1 : __real_fallocate(fd, mode, offset, length);
}

void *__real_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset) {
    return strikes(&mapping) ? MAP_FAILED : __real_mmap(at, bytes, access, flags, fd, offset);
}

/* ---- what there is */

static size_t entries(const char *path) {
    size_t count = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        count += entry->d_name[0] != '.';
    }
    closedir(folder);
    return count;
}

/* A thread that was joined can stay listed for a moment. */
static void no_thread_is_left(size_t before) {
    for (int tries = 0; tries < 200 && entries("/proc/self/task") > before; tries++) {
        usleep(5000);
    }
    assert_int_equal(entries("/proc/self/task"), before);
}

static size_t address_space(void) {
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Bytes of the mapping at `base` that are mapped by huge pages. */
static size_t mapped_huge(const void *base) {
    char line[512];
    size_t kilobytes = 0;
    int there = 0;
    FILE *file = fopen("/proc/self/smaps", "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned long start = 0;
        unsigned long end = 0;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
            there = start == (unsigned long)base;
        } else if (there && sscanf(line, "ShmemPmdMapped: %zu", &kilobytes) == 1) {
            break;
        }
    }
    fclose(file);
    return kilobytes * 1024;
}

/* So much of it is huge, unless the kernel refused. */
static void is_huge(const char *base, size_t bytes) {
    volatile char sum = 0;
    for (size_t at = 0; at < bytes; at += PW_HUGE_PAGE) {
        sum = (char)(sum + base[at]); /* maps it */
    }
    size_t huge = mapped_huge(base);
    assert_int_equal(huge % PW_HUGE_PAGE, 0);
    assert_true(huge <= bytes && (huge == bytes || refusals > 0));
}

static size_t file_memory(int fd) {
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    return (size_t)info.st_blocks * 512;
}

static int is_zero(const pw_segment *segment) {
    const char *at = segment->base;
    return at[0] == 0 && memcmp(at, at + 1, segment->mapped - 1) == 0;
}

static pw_segment make(size_t bytes) {
    pw_segment segment;
    assert_int_equal(pw_memory_host.alloc(NULL, &(pw_order){bytes, 0, "pages", NULL}, &site, &segment), PEERWIN_OK);
    assert_int_equal(segment.mapped, bytes);
    return segment;
}

static void end(pw_segment *segment) {
    assert_int_equal(pw_memory_host.release(segment), PEERWIN_OK);
}

/* All of it and no more, zero. Leaves it full of something else, so that the next one has dirty pages to be made of. */
static void check_and_end(pw_segment *segment) {
    assert_int_equal(file_memory(segment->fd), segment->mapped);
    assert_true(is_zero(segment));
    memset(segment->base, 0xa5, segment->mapped);
    assert_int_equal(file_memory(segment->fd), segment->mapped);
    end(segment);
}

static size_t processors(void) {
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    return (size_t)CPU_COUNT(&set);
}

/* ---- the promises */

static void a_file_has_all_its_pages_and_no_more_and_all_are_zero(void **state) {
    const size_t sizes[] = {PAGE,    MIB,      2 * MIB - PAGE,  2 * MIB,  2 * MIB + PAGE, 3 * MIB + PAGE,
                            4 * MIB, 11 * MIB, 38 * MIB - PAGE, 64 * MIB, 4 * MIB,        64 * MIB + PAGE,
                            3 * MIB};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        pw_segment segment = make(sizes[i]);
        check_and_end(&segment);
    }
}

static void whole_parts_are_huge_at_the_owner_and_at_a_peer(void **state) {
    const size_t sizes[] = {MIB, 2 * MIB, 3 * MIB, 64 * MIB + 5 * PAGE};
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        pw_segment segment = make(sizes[i]);
        size_t whole = sizes[i] / PW_HUGE_PAGE * PW_HUGE_PAGE;
        is_huge(segment.base, whole);
        char *peer = pw_pages_map(segment.fd, sizes[i], PROT_READ);
        assert_ptr_not_equal(peer, MAP_FAILED);
        assert_true(memcmp(peer, segment.base, sizes[i]) == 0);
        is_huge(peer, whole);
        assert_int_equal(munmap(peer, sizes[i]), 0);
        end(&segment);
    }
    printf("   huge pages: %s\n", refusals == 0 ? "all" : "the kernel refused some");
}

static void large_mappings_begin_where_huge_pages_do(void **state) {
    (void)state;
    for (size_t bytes = 2 * MIB; bytes <= 16 * MIB; bytes += MIB / 2) {
        pw_segment segment = make(bytes);
        assert_int_equal((uintptr_t)segment.base % PW_HUGE_PAGE, 0);
        end(&segment);
    }
}

/* The first call only looks for a good place. */
static void a_place_that_is_not_to_be_had_is_done_without(void **state) {
    size_t descriptors = entries("/proc/self/fd");
    size_t space = address_space();
    pw_segment segment;
    (void)state;
    mapping = (hook){.first = 1, .failing = 1, .code = ENOMEM};
    segment = make(32 * MIB);
    check_and_end(&segment);
    for (int first = 1; first <= 2; first++) {
        mapping = (hook){.first = first, .failing = FOREVER, .code = ENOMEM};
        assert_int_equal(pw_memory_host.alloc(NULL, &(pw_order){32 * MIB, 0, "pages", NULL}, &site, &segment),
                         PEERWIN_ERR_NO_MEMORY);
        assert_error_has("mmap");
    }
    mapping = (hook){0};
    assert_int_equal(entries("/proc/self/fd"), descriptors);
    assert_true(address_space() < space + 16 * MIB);
}

static void a_sparse_file_stays_sparse(void **state) {
    pw_segment segment;
    (void)state;
    assert_int_equal(pw_memory_host.alloc(NULL, &(pw_order){64 * MIB, PW_SPARSE, "pages", NULL}, &site, &segment),
                     PEERWIN_OK);
    assert_int_equal(file_memory(segment.fd), 0);
    end(&segment);
}

static void threads_are_named_mask_signals_and_are_no_more_than_processors(void **state) {
    size_t before = entries("/proc/self/task");
    size_t most = processors() < MOST_THREADS ? processors() : MOST_THREADS;
    (void)state;
    pw_segment segment = make(128 * MIB);
    no_thread_is_left(before);
    assert_true(creating.calls == (int)most - 1 || (refusals > 0 && creating.calls < (int)most));
    assert_int_equal(masked, creating.calls);
    assert_int_equal(named, creating.calls);
    check_and_end(&segment);
}

/* The n-th processor that this process may use. */
static cpu_set_t processor(size_t n) {
    cpu_set_t all;
    cpu_set_t one;
    size_t cpu = 0;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    for (; !CPU_ISSET(cpu, &all) || n-- > 0; cpu++) {
        assert_true(cpu < CPU_SETSIZE);
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return one;
}

/* A segment of a process that is bound to its first processor meanwhile, with the crew's help. */
static pw_segment make_bound(size_t bytes) {
    cpu_set_t before = home;
    cpu_set_t after;
    pw_segment segment;
    home = processor(0);
    assert_int_equal(sched_setaffinity(0, sizeof(home), &home), 0);
    assert_int_equal(pw_memory_host.alloc(NULL, &(pw_order){bytes, 0, "pages", &crew}, &site, &segment), PEERWIN_OK);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_true(CPU_EQUAL(&after, &home));
    home = before;
    return segment;
}

static void on_one_processor_there_are_no_threads(void **state) {
    (void)state;
    pw_segment segment = make_bound(64 * MIB);
    assert_int_equal(creating.calls, 0);
    is_huge(segment.base, 64 * MIB);
    check_and_end(&segment);
}

static void a_bound_process_has_helpers_where_its_crew_may_run(void **state) {
    size_t threads = entries("/proc/self/task");
    (void)state;
    if (processors() < 2) {
        skip();
    }
    for (int helpers = 0; helpers <= MOST_THREADS; helpers++) {
        int most = helpers < MOST_THREADS ? helpers : MOST_THREADS - 1;
        reset(NULL);
        crew = (pw_crew){.helpers = helpers, .where = processor(1)};
        pw_segment segment = make_bound(64 * MIB);
        no_thread_is_left(threads);
        assert_true(creating.calls == most || (refusals > 0 && creating.calls < most));
        assert_int_equal(in_crew, creating.calls);
        assert_int_equal(at_home, 0);
        assert_int_equal(masked, creating.calls);
        is_huge(segment.base, 64 * MIB);
        check_and_end(&segment);
    }
}

/* As many as before run on processors of the caller's own, and the crew adds to these. */
static void helpers_run_on_the_own_processors_first(void **state) {
    size_t own = processors() < MOST_THREADS ? processors() : MOST_THREADS;
    size_t most = own < MOST_THREADS ? own + 1 : own;
    pw_segment segment;
    (void)state;
    if (processors() < 2) {
        skip();
    }
    crew = (pw_crew){.helpers = 1, .where = processor(1)};
    assert_int_equal(pw_memory_host.alloc(NULL, &(pw_order){64 * MIB, 0, "pages", &crew}, &site, &segment), PEERWIN_OK);
    assert_true(creating.calls == (int)most - 1 || (refusals > 0 && creating.calls < (int)most));
    assert_true(refusals > 0 || (at_home == (int)own - 1 && in_crew == (int)(most - own)));
    is_huge(segment.base, 64 * MIB);
    check_and_end(&segment);
}

static void a_small_file_has_no_crew(void **state) {
    (void)state;
    crew = (pw_crew){.helpers = 3, .where = processor(0)};
    for (size_t bytes = 2 * MIB; bytes <= 10 * MIB; bytes += 2 * MIB) {
        pw_segment segment = make_bound(bytes);
        assert_int_equal(creating.calls, 0);
        check_and_end(&segment);
    }
}

/* As for a cpuset that the kernel keeps the process in: it has none of these processors, and says so. */
static void a_crew_that_may_not_run_is_done_without(void **state) {
    size_t threads = entries("/proc/self/task");
    (void)state;
    if (sysconf(_SC_NPROCESSORS_CONF) >= CPU_SETSIZE) {
        skip();
    }
    crew = (pw_crew){.helpers = 3};
    CPU_SET(CPU_SETSIZE - 1, &crew.where);
    pw_segment segment = make_bound(64 * MIB);
    assert_true(creating.calls == 1 || refusals > 0);
    no_thread_is_left(threads);
    assert_int_equal(in_crew, 0);
    is_huge(segment.base, 64 * MIB);
    check_and_end(&segment);
}

static void threads_that_cannot_be_had_are_done_without(void **state) {
    (void)state;
    for (int first = 1; first <= MOST_THREADS; first++) {
        creating = (hook){.first = first, .failing = FOREVER, .code = EAGAIN};
        pw_segment segment = make(32 * MIB);
        is_huge(segment.base, 32 * MIB);
        check_and_end(&segment);
    }
}

static void a_process_without_huge_pages_is_asked_once(void **state) {
    (void)state;
    assert_int_equal(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
    pw_segment segment = make(64 * MIB);
    assert_int_equal(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
    assert_int_equal(collapsing.calls, 1);
    assert_int_equal(creating.calls, 0);
    check_and_end(&segment);
}

/* For the reasons a kernel may have, at any moment. */
static void a_refusal_is_no_failure_and_the_end_of_asking(void **state) {
    const int codes[] = {EINVAL, EAGAIN, ENOMEM, EBUSY, ENOSYS, EPERM};
    (void)state;
    for (int first = 1; first <= 6; first++) {
        collapsing = (hook){.first = first, .failing = FOREVER, .code = codes[first - 1]};
        pw_segment segment = make(64 * MIB);
        assert_true(collapsing.calls < first + TRIES * MOST_THREADS);
        check_and_end(&segment);
    }
}

static void what_is_busy_for_a_moment_is_tried_again(void **state) {
    (void)state;
    for (int first = 1; first <= 6; first++) {
        collapsing = (hook){.first = first, .failing = TRIES - 1, .code = EAGAIN};
        pw_segment segment = make(64 * MIB);
        is_huge(segment.base, 64 * MIB);
        check_and_end(&segment);
    }
}

/* The pages that huge ones begin with need not be had; all pages must. */
static void a_lack_of_memory_is_a_status(void **state) {
    size_t descriptors = entries("/proc/self/fd");
    size_t space = address_space();
    (void)state;
    for (int first = 1; first <= 14; first++) {
        pw_segment segment;
        allocating = (hook){.first = first, .failing = FOREVER, .code = ENOSPC};
        peerwin_status status = pw_memory_host.alloc(NULL, &(pw_order){24 * MIB, 0, "pages", NULL}, &site, &segment);
        int struck = allocating.calls >= first;
        assert_int_equal(status, struck ? PEERWIN_ERR_NO_MEMORY : PEERWIN_OK);
        if (status == PEERWIN_OK) {
            check_and_end(&segment);
        } else {
            assert_error_has("fallocate");
        }
    }
    for (int first = 1; first <= 4; first++) {
        allocating = (hook){.first = first, .failing = first, .code = EINTR};
        pw_segment segment = make(24 * MIB);
        check_and_end(&segment);
    }
    assert_int_equal(entries("/proc/self/fd"), descriptors);
    assert_true(address_space() < space + 16 * MIB);
}

static _Atomic int alarms, elsewhere;

static void on_alarm(int number) {
    (void)number;
    alarms++;
    elsewhere += gettid() != getpid();
}

static void signals_all_the_time_do_no_harm(void **state) {
    struct sigaction before;
    const struct sigaction action = {.sa_handler = on_alarm}; /* without SA_RESTART */
    const struct itimerval often = {{0, 150}, {0, 150}};
    const struct itimerval never = {{0, 0}, {0, 0}};
    (void)state;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    for (int round = 0; round < 6; round++) {
        pw_segment segment = make(32 * MIB + PAGE);
        check_and_end(&segment);
    }
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_true(alarms > 0);
    assert_int_equal(elsewhere, 0);
}

static void nothing_is_left_of_many(void **state) {
    (void)state;
    pw_segment first = make(24 * MIB + PAGE); /* the C library keeps stacks of threads for the next ones */
    end(&first);
    size_t descriptors = entries("/proc/self/fd");
    size_t threads = entries("/proc/self/task");
    size_t space = address_space();
    for (int round = 0; round < 40; round++) {
        pw_segment segment = make(24 * MIB + (size_t)round * PAGE);
        end(&segment);
    }
    no_thread_is_left(threads);
    assert_int_equal(entries("/proc/self/fd"), descriptors);
    assert_true(address_space() < space + 16 * MIB);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_file_has_all_its_pages_and_no_more_and_all_are_zero, reset),
        cmocka_unit_test_setup(whole_parts_are_huge_at_the_owner_and_at_a_peer, reset),
        cmocka_unit_test_setup(large_mappings_begin_where_huge_pages_do, reset),
        cmocka_unit_test_setup(a_place_that_is_not_to_be_had_is_done_without, reset),
        cmocka_unit_test_setup(a_sparse_file_stays_sparse, reset),
        cmocka_unit_test_setup(threads_are_named_mask_signals_and_are_no_more_than_processors, reset),
        cmocka_unit_test_setup(on_one_processor_there_are_no_threads, reset),
        cmocka_unit_test_setup(a_bound_process_has_helpers_where_its_crew_may_run, reset),
        cmocka_unit_test_setup(helpers_run_on_the_own_processors_first, reset),
        cmocka_unit_test_setup(a_small_file_has_no_crew, reset),
        cmocka_unit_test_setup(a_crew_that_may_not_run_is_done_without, reset),
        cmocka_unit_test_setup(threads_that_cannot_be_had_are_done_without, reset),
        cmocka_unit_test_setup(a_process_without_huge_pages_is_asked_once, reset),
        cmocka_unit_test_setup(a_refusal_is_no_failure_and_the_end_of_asking, reset),
        cmocka_unit_test_setup(what_is_busy_for_a_moment_is_tried_again, reset),
        cmocka_unit_test_setup(a_lack_of_memory_is_a_status, reset),
        cmocka_unit_test_setup(signals_all_the_time_do_no_harm, reset),
        cmocka_unit_test_setup(nothing_is_left_of_many, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
