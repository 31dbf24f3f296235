/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Which memory is where: the list of all ranges a pointer can fall into, and the address space that device memory is
 * taken from. That space is one reservation without access; what is mapped in it can be touched by stream threads only,
 * where the processor has protection keys, and nothing in it can once it is freed. Addresses come again late.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_BYTES ((size_t)1 << 38)

struct sim_range *sim_ranges;

struct span {
    struct span *next; /* by address */
    uintptr_t start;
    size_t size;
    bool outside; /* too large for the arena: a mapping of its own */
};
static struct span *spans;
static uintptr_t arena, cursor;

/* ---- ranges ---- */

struct sim_range *sim_range_at(uintptr_t address) {
    struct sim_range *best = NULL;
    for (struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        if (address >= r->start && address - r->start < r->size) {
            best = r;
            break;
        }
    }
    return best;
}

struct sim_range *sim_range_exact(uintptr_t address) {
    for (struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        if (r->start == address) {
            return r;
        }
    }
    return NULL;
}

struct sim_range *sim_range_add(enum sim_range_kind kind, uintptr_t start, size_t size) {
    struct sim_range *range = calloc(1, sizeof *range);
    if (range == NULL) {
        sim_die("out of host memory");
    }
    range->kind = kind;
    range->start = start;
    range->size = size;
    range->refs = 1;
    range->next = sim_ranges;
    sim_ranges = range;
    return range;
}

void sim_range_remove(struct sim_range *range) {
    for (struct sim_range **at = &sim_ranges; *at != NULL; at = &(*at)->next) {
        if (*at == range) {
            *at = range->next;
            free(range);
            return;
        }
    }
}

size_t sim_range_count(enum sim_range_kind kind) {
    size_t count = 0;
    for (const struct sim_range *r = sim_ranges; r != NULL; r = r->next) {
        count += r->kind == kind;
    }
    return count;
}

bool sim_range_imported(const struct sim_range *range) {
    return range->phys != NULL && range->phys->imported;
}

/* ---- the address space ---- */

static bool arena_ready(void) {
    if (arena == 0) {
        void *map = mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED) {
            return false;
        }
        (void)madvise(map, ARENA_BYTES, MADV_DONTDUMP);
        arena = (uintptr_t)map;
        cursor = arena;
    }
    return true;
}

bool sim_va_owns(uintptr_t address) {
    if (arena != 0 && address >= arena && address - arena < ARENA_BYTES) {
        return true;
    }
    for (const struct span *s = spans; s != NULL; s = s->next) {
        if (address >= s->start && address - s->start < s->size) {
            return true;
        }
    }
    return false;
}

static uintptr_t aligned(uintptr_t at, size_t alignment) {
    return (at + alignment - 1) / alignment * alignment;
}

/* First gap of that size at or after `from`; 0: none. */
static uintptr_t gap_from(uintptr_t from, size_t size, size_t alignment) {
    uintptr_t at = aligned(from, alignment);
    for (const struct span *s = spans; s != NULL; s = s->next) {
        if (s->start + s->size <= at) {
            continue;
        }
        if (s->start >= at + size) {
            break;
        }
        at = aligned(s->start + s->size, alignment);
    }
    return at + size <= arena + ARENA_BYTES ? at : 0;
}

static void insert_span(uintptr_t start, size_t size, bool outside) {
    struct span **at = &spans;
    while (*at != NULL && (*at)->start < start) {
        at = &(*at)->next;
    }
    struct span *span = malloc(sizeof *span);
    if (span == NULL) {
        sim_die("out of host memory");
    }
    *span = (struct span){*at, start, size, outside};
    *at = span;
}

static uintptr_t take_outside(size_t size, size_t alignment) {
    if (size > SIZE_MAX / 2 - alignment) {
        return 0;
    }
    void *map = mmap(NULL, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        return 0;
    }
    uintptr_t start = aligned((uintptr_t)map, alignment), head = start - (uintptr_t)map;
    if (head > 0) {
        munmap(map, head);
    }
    if (alignment > head) {
        munmap((void *)(start + size), alignment - head);
    }
    insert_span(start, size, true);
    return start;
}

uintptr_t sim_va_take(size_t size, size_t alignment) {
    if (size > ARENA_BYTES / 8 || alignment > ARENA_BYTES / 8) {
        return take_outside(size, alignment);
    }
    if (!arena_ready()) {
        return 0;
    }
    uintptr_t start = gap_from(cursor, size, alignment);
    if (start == 0) {
        start = gap_from(arena, size, alignment);
    }
    if (start != 0) {
        insert_span(start, size, false);
        cursor = start + size;
    }
    return start;
}

void sim_va_give(uintptr_t start, size_t size) {
    for (struct span **at = &spans; *at != NULL; at = &(*at)->next) {
        struct span *span = *at;
        if (span->start == start) {
            if (span->outside) {
                munmap((void *)start, size);
            } else {
                sim_va_unmap(start, size);
            }
            *at = span->next;
            free(span);
            return;
        }
    }
}

/* ---- mapping ---- */

static int protection_key = -1;

/* Before there are stream threads. */
void sim_protection_init(void) {
    protection_key = sim_env_on("SIMCUDA_NO_PKEYS", false) ? -1 : pkey_alloc(0, PKEY_DISABLE_ACCESS);
}

int sim_protection_key(void) {
    return protection_key;
}

void sim_va_protect(uintptr_t start, size_t size, int protection) {
    int key = sim_protection_key();
    if ((key >= 0 ? pkey_mprotect((void *)start, size, protection, key) : mprotect((void *)start, size, protection)) !=
        0) {
        sim_die("mprotect failed");
    }
}

bool sim_va_map(uintptr_t start, size_t size, const struct sim_phys *phys, size_t offset, int protection) {
    enum simcuda_writes mode = sim_write_mode();
    bool drop = phys->imported && (mode == SIMCUDA_WRITES_DROP || mode == SIMCUDA_WRITES_DROP_KERNELS);
    /* A private mapping keeps what kernels write to itself: the peer never sees it. */
    void *map =
        mmap((void *)start, size, PROT_NONE, (drop ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED, phys->fd, (off_t)offset);
    if (map == MAP_FAILED) {
        return false;
    }
    (void)madvise(map, size, MADV_DONTDUMP);
    if (protection != PROT_NONE) {
        sim_va_protect(start, size, protection);
    }
    return true;
}

void sim_va_unmap(uintptr_t start, size_t size) {
    if (mmap((void *)start, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
        MAP_FAILED) {
        sim_die("cannot unmap");
    }
}

/* ---- who may touch what ---- */

void sim_apply_access(struct sim_range *range, size_t bytes) {
    unsigned char best = 0;
    for (int d = 0; d < SIM_MAX_DEVICES; d++) {
        best = range->access[d] > best ? range->access[d] : best;
    }
    sim_va_protect(range->start, bytes, best == 3 ? PROT_READ | PROT_WRITE : best == 1 ? PROT_READ : PROT_NONE);
}

static bool range_accessible(const struct sim_range *range, int device, bool write) {
    switch (range->kind) {
    case SIM_RANGE_VMM:
    case SIM_RANGE_POOL:
    case SIM_RANGE_POOL_IN:
        return range->access[device] >= (write ? 3 : 1);
    case SIM_RANGE_DEVICE:
    case SIM_RANGE_LEGACY:
        return sim_can_access(device, range->device);
    default:
        return true;
    }
}

bool sim_accessible(int device, uintptr_t start, size_t size, bool write) {
    while (size > 0) {
        const struct sim_range *range = sim_range_at(start);
        if (range == NULL || !range_accessible(range, device, write)) {
            return false;
        }
        size_t here = range->size - (start - range->start);
        if (here >= size) {
            return true;
        }
        start += here;
        size -= here;
    }
    return true;
}
