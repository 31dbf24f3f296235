/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pages of memory files; see pages.h.
 *
 * What makes a huge page is MADV_COLLAPSE (Linux 6.1), which works whatever the machine's policy for shared memory is,
 * short of `deny`. It wants a page of the file to begin with, and lets the huge one be on that page's node: the caller
 * allocates these few itself, so memory is near the caller, or wherever its policy says. To clear the rest is most of
 * the work, and is shared with a few threads that live no longer than the call. They run where the caller may run, and
 * then, if there is work for more, on other processors that the crew may use: a launcher often binds a rank to one,
 * which all of them would have to share. The affinity of the caller stays what it is.
 *
 * A refusal, for whatever reason, is no failure and the last attempt: in the end fallocate gives the file whatever
 * pages it lacks, and says so if there are none. Nothing is ever touched: a lack of memory is a status, no signal.
 */
#include "memory/pages.h"

#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

/* MADV_COLLAPSE, which older headers lack. */
#define COLLAPSE 25

enum { LARGEST_PIECE = 256 << 20, SMALLEST_PIECE = 64 << 10 };

/* A worker takes PORTION huge pages at a time. */
enum { PORTION = 4, STACK_BYTES = 256 << 10, TRIES = 3 };

void *pw_pages_map(int fd, size_t bytes, int access) {
    char *place = NULL;
    if (bytes >= PW_HUGE_PAGE) {
        char *room = mmap(NULL, bytes + PW_HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room != MAP_FAILED) {
            place = room + (-(uintptr_t)room & (PW_HUGE_PAGE - 1));
            (void)munmap(room, bytes + PW_HUGE_PAGE);
        }
    }
    return mmap(place, bytes, access, MAP_SHARED, fd, 0); /* a place is a wish: nobody's mapping is replaced */
}

/*
 * Many kernels undo a whole fallocate for a signal, so that a timer of the program could keep a large one from ever
 * ending: in pieces, and smaller ones where signals come often. 0 or an errno.
 */
static int allocate(int fd, size_t first, size_t bytes) {
    size_t piece = LARGEST_PIECE;
    for (size_t done = 0; done < bytes;) {
        size_t length = bytes - done < piece ? bytes - done : piece;
        if (fallocate(fd, 0, (off_t)(first + done), (off_t)length) == 0)
            done += length;
        else if (errno != EINTR)
            return errno;
        else if (piece > SMALLEST_PIECE)
            piece /= 2;
    }
    return 0;
}

typedef struct {
    char *base;
    size_t count;        /* huge pages to make, ... */
    _Atomic size_t next; /* ... of which all before this one are somebody's */
    _Atomic size_t made;
    _Atomic int refused;
} work;

/* Pages that the kernel has in its hands for a moment are no reason to give up. */
static int collapse(void *at, size_t bytes) {
    int tries = TRIES;
    while (madvise(at, bytes, COLLAPSE) != 0)
        if (errno != EAGAIN || --tries == 0)
            return -1;
    return 0;
}

static void make_portion(work *w, size_t first) {
    size_t count = w->count - first < PORTION ? w->count - first : PORTION;
    if (collapse(w->base + first * PW_HUGE_PAGE, count * PW_HUGE_PAGE) == 0)
        atomic_fetch_add(&w->made, count);
    else
        atomic_store(&w->refused, 1);
}

static void make_pages(work *w) {
    while (!atomic_load(&w->refused)) {
        size_t first = atomic_fetch_add(&w->next, PORTION);
        if (first >= w->count)
            return;
        make_portion(w, first);
    }
}

static void *help(void *argument) {
    pw_thread_name("peerwin-pages");
    make_pages(argument);
    return NULL;
}

static int useful_threads(const work *w) {
    size_t portions = (w->count - w->next + PORTION - 1) / PORTION;
    return portions < PW_PAGES_THREADS ? (int)portions : PW_PAGES_THREADS;
}

/* Of the caller; 1 if the kernel does not tell. */
static int own_processors(void) {
    cpu_set_t sets[8]; /* machines have outgrown one */
    return sched_getaffinity(0, sizeof sets, sets) == 0 ? CPU_COUNT_S(sizeof sets, sets) : 1;
}

/*
 * Threads that run one after the other are of no use: no more than there are processors for them. One that cannot be
 * had leaves its work to the others. Returns how many there were.
 */
static int make_together(work *w, const pw_crew *crew) {
    pthread_t helpers[PW_PAGES_THREADS];
    int useful = useful_threads(w);
    int own = useful > 1 ? own_processors() : 1;
    int most = crew ? own + crew->helpers : own;
    int count = 0;
    while (count + 1 < useful && count + 1 < most) {
        const cpu_set_t *where = count + 1 < own ? NULL : &crew->where;
        if (pw_thread_start(&helpers[count], STACK_BYTES, where, help, w) != 0)
            break;
        count++;
    }
    make_pages(w);
    for (int i = 0; i < count; i++)
        (void)pthread_join(helpers[i], NULL);
    return count + 1;
}

/* The first huge page is made alone: if it is not to be had, that is all it costs. Returns how many there are. */
static size_t make_huge_pages(int fd, char *base, size_t count, const pw_crew *crew, int *threads_out) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    work w = {.base = base, .count = 1};
    if (count == 0 || ((uintptr_t)base & (PW_HUGE_PAGE - 1)) != 0 || allocate(fd, 0, page) != 0)
        return 0;
    make_pages(&w);
    if (w.refused)
        return 0;
    for (size_t i = 1; i < count; i++)
        if (allocate(fd, i * PW_HUGE_PAGE, page) != 0)
            return w.made;
    w.count = count;
    w.next = 1;
    *threads_out = make_together(&w, crew);
    return w.made;
}

int pw_pages_fill(int fd, void *base, size_t bytes, const pw_crew *crew, pw_pages *made_out) {
    made_out->threads = 1;
    made_out->huge = make_huge_pages(fd, base, bytes / PW_HUGE_PAGE, crew, &made_out->threads) * PW_HUGE_PAGE;
    return allocate(fd, 0, bytes);
}
