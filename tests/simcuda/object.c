/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The table behind every handle. A handle is a kind and a serial number at an address that no processor accepts, so
 * that a handle used as a pointer, or kept after its object went, is noticed.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define HANDLE_TAG 0xc0de000000000000ULL

/* A table for each kind, since whoever looks for all of a kind would go over many others. */
static struct table {
    struct sim_object **objects; /* by serial number; NULL: gone */
    size_t count, room;
} tables[SIM_EXEC + 1];

static size_t index_of(uint64_t handle) {
    return (size_t)(handle & 0xffffffffULL);
}

static enum sim_kind kind_of(uint64_t handle) {
    return (enum sim_kind)((handle >> 40) & 0xff);
}

const char *sim_kind_text(enum sim_kind kind) {
    static const char *const names[] = {"nothing",  "context", "stream",     "event", "module",
                                        "function", "pool",    "allocation", "graph", "executable graph"};
    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : names[0];
}

void sim_object_add(struct sim_object *object, enum sim_kind kind) {
    struct table *table = &tables[kind];
    if (table->count == table->room) {
        table->room = table->room == 0 ? 64 : 2 * table->room;
        table->objects = realloc(table->objects, table->room * sizeof(struct sim_object *));
        if (table->objects == NULL) {
            sim_die("out of host memory");
        }
    }
    object->kind = kind;
    object->handle = HANDLE_TAG | (uint64_t)kind << 40 | table->count;
    table->objects[table->count++] = object;
}

void sim_object_remove(struct sim_object *object) {
    tables[object->kind].objects[index_of(object->handle)] = NULL;
}

void *sim_object_find(uint64_t handle, enum sim_kind kind, CUresult missing, CUresult dead, CUresult *rc_out) {
    const struct table *table = &tables[kind];
    size_t index = index_of(handle);
    *rc_out = missing;
    if (handle == 0) {
        return NULL;
    }
    if ((handle & 0xffff000000000000ULL) != HANDLE_TAG || kind_of(handle) != kind || index >= table->count) {
        *rc_out = sim_misuse(missing, "0x%llx is no %s", (unsigned long long)handle, sim_kind_text(kind));
        return NULL;
    }
    if (table->objects[index] == NULL && dead == SIM_DEADLY) {
        sim_crash("%s %zu is used after its end", sim_kind_text(kind), index);
    }
    if (table->objects[index] == NULL) {
        *rc_out = sim_misuse(dead, "%s %zu is used after its end", sim_kind_text(kind), index);
        return NULL;
    }
    *rc_out = CUDA_SUCCESS;
    return table->objects[index];
}

size_t sim_object_count(enum sim_kind kind) {
    size_t count = 0;
    for (size_t i = 0; i < tables[kind].count; i++) {
        count += tables[kind].objects[i] != NULL;
    }
    return count;
}

/* A visit may make and remove objects, or give the lock away. */
void sim_object_each(enum sim_kind kind, void (*visit)(struct sim_object *, void *), void *data) {
    for (size_t i = 0; i < tables[kind].count; i++) {
        if (tables[kind].objects[i] != NULL) {
            visit(tables[kind].objects[i], data);
        }
    }
}
