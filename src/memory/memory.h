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

typedef struct pw_memory_ops pw_memory_ops;

typedef struct {
    const pw_memory_ops *ops;
    void *base;
    size_t mapped; /* bytes of address space, a multiple of the granularity */
    int fd;        /* of the memory, until it was exported to everyone; -1 after */
} pw_segment;

typedef struct {
    const pw_memory_ops *ops;
    void *base;
    size_t mapped;
} pw_mapping;

/* What an exporter hands out. The descriptor is borrowed from the segment at the exporter, owned at the importer. */
typedef struct {
    peerwin_handle kind;
    int fd;
} pw_handle;

/* READ_ONLY: importers may only read. SPARSE: pages come with their first use. */
enum { PW_READ_ONLY = 1, PW_SPARSE = 2 };

struct pw_memory_ops {
    size_t size; /* of this struct */
    peerwin_handle kind;
    const char *name;
    size_t (*granularity)(void);
    /* Zeroed memory of at least `bytes` bytes; `name` shows in /proc/self/maps. */
    peerwin_status (*alloc)(size_t bytes, unsigned flags, const char *name, const pw_site *site,
                            pw_segment *segment_out);
    /* Fixes the access that importers will have; called once, before the first export. */
    peerwin_status (*seal)(pw_segment *segment, unsigned flags, const pw_site *site);
    peerwin_status (*export_handle)(const pw_segment *segment, pw_handle *handle_out, const pw_site *site);
    /* No more exports: gives up what they needed. */
    void (*exported)(pw_segment *segment);
    /* Checks that the handle is what `mapped` and `flags` promise and maps it. The handle stays the caller's. */
    peerwin_status (*map)(const pw_handle *handle, size_t mapped, unsigned flags, const pw_site *site,
                          pw_mapping *mapping_out);
    void (*unmap)(pw_mapping *mapping);
    void (*release)(pw_segment *segment);
};

/* Shared host memory: a sealed memfd. */
extern const pw_memory_ops pw_memory_host;

/* Closes the descriptor of a received handle, if it has one. */
void pw_handle_close(pw_handle *handle);

#endif
