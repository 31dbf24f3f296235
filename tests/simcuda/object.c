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

static struct sim_object **objects;
static size_t num_objects, room;

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
    if (num_objects == room) {
        room = room == 0 ? 256 : 2 * room;
        objects = realloc(objects, room * sizeof *objects);
        if (objects == NULL) {
            sim_die("out of host memory");
        }
    }
    object->kind = kind;
    object->handle = HANDLE_TAG | (uint64_t)kind << 40 | num_objects;
    objects[num_objects++] = object;
}

void sim_object_remove(struct sim_object *object) {
    objects[index_of(object->handle)] = NULL;
}

void *sim_object_find(uint64_t handle, enum sim_kind kind, CUresult missing, CUresult dead, CUresult *rc_out) {
    *rc_out = missing;
    if (handle == 0) {
        return NULL;
    }
    if ((handle & 0xffff000000000000ULL) != HANDLE_TAG || index_of(handle) >= num_objects || kind_of(handle) != kind) {
        *rc_out = sim_misuse(missing, "0x%llx is no %s", (unsigned long long)handle, sim_kind_text(kind));
        return NULL;
    }
    if (objects[index_of(handle)] == NULL && dead == SIM_DEADLY) {
        sim_crash("%s %zu is used after its end", sim_kind_text(kind), index_of(handle));
    }
    if (objects[index_of(handle)] == NULL) {
        *rc_out = sim_misuse(dead, "%s %zu is used after its end", sim_kind_text(kind), index_of(handle));
        return NULL;
    }
    *rc_out = CUDA_SUCCESS;
    return objects[index_of(handle)];
}

size_t sim_object_count(enum sim_kind kind) {
    size_t count = 0;
    for (size_t i = 0; i < num_objects; i++) {
        count += objects[i] != NULL && objects[i]->kind == kind;
    }
    return count;
}

void sim_object_each(enum sim_kind kind, void (*visit)(struct sim_object *, void *), void *data) {
    for (size_t i = 0; i < num_objects; i++) {
        if (objects[i] != NULL && objects[i]->kind == kind) {
            visit(objects[i], data);
        }
    }
}
