/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Kinds of memory behind one table of functions: a segment is memory of this process that peers may map, a mapping is a
 * peer's segment in this process, a handle is what travels between them.
 *
 * Every function that fails holds nothing afterwards; releasing functions always release. A segment or mapping of size
 * 0 has no memory and needs no release, though releasing it is fine.
 */
#ifndef PW_MEMORY_MEMORY_H
#define PW_MEMORY_MEMORY_H

#include "base/error.h"

#include <sched.h>
#include <stdint.h>

typedef struct pw_memory_ops pw_memory_ops;
typedef struct pw_gpu pw_gpu;

/*
 * A segment is handed out in pieces, one handle each: a range of virtual memory that is made of several allocations
 * has as many pieces, everything else has one.
 */
typedef struct {
    const pw_memory_ops *ops;
    pw_gpu *gpu;     /* the device it is used from, NULL for host memory that no device uses */
    void *base;      /* of the memory that is shared; an attached window may begin later in it */
    size_t mapped;   /* bytes of address space, a multiple of the granularity */
    int fd;          /* of the memory, until it was exported to everyone; -1 after */
    int attached;    /* the caller's memory: release leaves it alone */
    uint64_t id;     /* names the memory within this process for as long as it lives; 0 = it has no name */
    int num_pieces;  /* 1 or more */
    uint64_t native; /* the kind's own: a handle of the driver */
    void *details;   /* the kind's own, owned by the segment */
} pw_segment;

/* Begins as {.ops, .gpu, .mapped, .flags}; map fills in the rest. */
typedef struct {
    const pw_memory_ops *ops;
    pw_gpu *gpu;
    void *base;
    size_t mapped;
    unsigned flags;  /* PW_READ_ONLY, PW_SPARSE */
    uint64_t native; /* the kind's own */
    void *details;   /* the kind's own, owned by the mapping */
} pw_mapping;

enum { PW_TOKEN_BYTES = 64 };

/*
 * What an exporter hands out for one piece. The descriptor is borrowed from the segment at the exporter, owned at the
 * importer. The token is secret: it is wiped after use and never shown.
 */
typedef struct {
    peerwin_handle kind;
    int fd;       /* -1 if the kind has none */
    size_t bytes; /* of the piece */
    unsigned char token[PW_TOKEN_BYTES];
} pw_handle;

/* READ_ONLY: importers may only read. SPARSE: pages come with their first use (host memory only). */
enum { PW_READ_ONLY = 1, PW_SPARSE = 2 };

/* Threads that may help with the pages of host memory, beside those that share the caller's own processors. */
typedef struct {
    int helpers;
    cpu_set_t where; /* the processors for them; no matter if there are no helpers */
} pw_crew;

/* Memory to be made. */
typedef struct {
    size_t bytes; /* at least so many */
    unsigned flags;
    const char *name;    /* shows in /proc/self/maps where there is a place for it */
    const pw_crew *crew; /* NULL = none */
} pw_order;

/* `gpu` is NULL for pure host memory; else its context is current during all of these calls (pw_gpu_enter). */
struct pw_memory_ops {
    size_t size; /* of this struct */
    peerwin_handle kind;
    const char *name;
    int needs_fd; /* its handles carry a descriptor, so they cannot leave the machine */
    size_t (*granularity)(const pw_gpu *gpu);
    /* The memory is zeroed. */
    peerwin_status (*alloc)(pw_gpu *gpu, const pw_order *order, const pw_site *site, pw_segment *segment_out);
    /* Fixes the access that importers will have; called once, before the first export. */
    peerwin_status (*seal)(pw_segment *segment, unsigned flags, const pw_site *site);
    /* The handle of piece 0 .. num_pieces - 1; called once per importer and piece. */
    peerwin_status (*export_handle)(pw_segment *segment, int piece, pw_handle *handle_out, const pw_site *site);
    /* No more exports: gives up what they needed. */
    void (*exported)(pw_segment *segment);
    /*
     * Checks that the handle is what it should be and maps the piece at `offset` of the mapping: called for all pieces
     * in order, which together fill mapping->mapped. The handle stays the caller's. On failure the mapping holds
     * nothing any more.
     */
    peerwin_status (*map)(pw_mapping *mapping, const pw_handle *handle, size_t offset, const pw_site *site);
    /* These two always release. What they return is the first failure, which may be of earlier work on the device. */
    peerwin_status (*unmap)(pw_mapping *mapping);
    peerwin_status (*release)(pw_segment *segment);
};

/* Shared host memory: a sealed memfd. */
extern const pw_memory_ops pw_memory_host;

/* The kinds that need a driver. HOST is then shared host memory registered with the driver. NULL for other numbers. */
const pw_memory_ops *pw_memory_on_gpu(peerwin_handle kind);

/* Closes the descriptor of a received handle, if it has one, and wipes the token. */
void pw_handle_close(pw_handle *handle);

#endif
