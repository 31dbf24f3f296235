/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See held.h. A program's malloc is the one that its shared libraries call; glibc's own has a second name. A block is
 * the library's if the call came from the library's text, whoever frees it. There are a few hundred of them, so a list
 * does. Where the library is linked statically the program's own blocks count, too.
 */
#include "held.h"

#include "test.h"

#if defined(__GLIBC__) && !TEST_SANITIZED

#include <link.h>
#include <malloc.h>
#include <pthread.h>

enum { MOST_BLOCKS = 1 << 14 };

/* Visible, or the library would call glibc's. */
#define VISIBLE __attribute__((visibility("default")))

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void __libc_free(void *block);
VISIBLE void *malloc(size_t bytes);
VISIBLE void *calloc(size_t count, size_t bytes);
VISIBLE void *realloc(void *block, size_t bytes);
VISIBLE void free(void *block);

static struct {
    pthread_mutex_t lock;
    uintptr_t begin, end; /* the library in memory; 0 before held_begin */
    size_t count, bytes, lost;
    void *blocks[MOST_BLOCKS];
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The object that has a function of the library. */
static int find_library(struct dl_phdr_info *info, size_t size, void *unused) {
    uintptr_t begin = UINTPTR_MAX;
    uintptr_t end = 0;
    (void)size;
    (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD) {
            begin = at < begin ? at : begin;
            end = at + part->p_memsz > end ? at + part->p_memsz : end;
        }
    }
    if ((uintptr_t)peerwin_init < begin || (uintptr_t)peerwin_init >= end)
        return 0;
    held.begin = begin;
    held.end = end;
    return 1;
}

void held_begin(void) {
    pthread_mutex_lock(&held.lock);
    held.count = held.bytes = held.lost = 0;
    pthread_mutex_unlock(&held.lock);
    CHECK(dl_iterate_phdr(find_library, NULL) == 1);
}

held_heap held_by_library(void) {
    pthread_mutex_lock(&held.lock);
    held_heap now = {held.count, held.bytes};
    size_t lost = held.lost;
    pthread_mutex_unlock(&held.lock);
    CHECK_EQUAL(lost, 0);
    return now;
}

/* Read without the lock: it is set before the library is called, and malloc in dl_iterate_phdr is not the library's. */
static int is_librarys(const void *caller) {
    return (uintptr_t)caller >= held.begin && (uintptr_t)caller < held.end;
}

static void *add(void *block, const void *caller) {
    if (block != NULL && is_librarys(caller)) {
        pthread_mutex_lock(&held.lock);
        if (held.count < MOST_BLOCKS)
            held.blocks[held.count++] = block;
        else
            held.lost++;
        held.bytes += malloc_usable_size(block);
        pthread_mutex_unlock(&held.lock);
    }
    return block;
}

/* The youngest is the likeliest to go. */
static void take(void *block) {
    pthread_mutex_lock(&held.lock);
    for (size_t i = held.count; i-- > 0;) {
        if (held.blocks[i] == block) {
            held.blocks[i] = held.blocks[--held.count];
            held.bytes -= malloc_usable_size(block);
            break;
        }
    }
    pthread_mutex_unlock(&held.lock);
}

void *malloc(size_t bytes) {
    return add(__libc_malloc(bytes), __builtin_return_address(0));
}

void *calloc(size_t count, size_t bytes) {
    return add(__libc_calloc(count, bytes), __builtin_return_address(0));
}

void *realloc(void *block, size_t bytes) {
    take(block);
    return add(__libc_realloc(block, bytes), __builtin_return_address(0));
}

void free(void *block) {
    if (block != NULL) {
        take(block);
        __libc_free(block);
    }
}

#else

void held_begin(void) {
}

held_heap held_by_library(void) {
    return (held_heap){0, 0};
}

#endif
