/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The arenas of the kernels' test; see kernels_arena.h.
 */
#include "kernels_arena.h"

#include <string.h>

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes)   ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

enum { GUARD = 0xa5 };

pw_gpu *gpu;
CUdeviceptr source, target;
unsigned char *given, *wanted;
static unsigned char *got;
static CUdeviceptr reserved; /* three times ARENA, with the sources in the middle */

static void map_source(void) {
    const pw_driver *driver = gpu->driver;
    const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu->device};
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    const CUmemAccessDesc access = {.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = 0;
    CU(driver->cuMemAddressReserve(&reserved, 3 * ARENA, 0, 0, 0));
    source = reserved + ARENA;
    CU(driver->cuMemCreate(&handle, ARENA, &prop, 0));
    CU(driver->cuMemMap(source, ARENA, 0, handle, 0));
    CU(driver->cuMemRelease(handle));
    CU(driver->cuMemSetAccess(source, ARENA, &access, 1));
}

static void unmap_source(void) {
    CU(gpu->driver->cuMemUnmap(source, ARENA));
    CU(gpu->driver->cuMemAddressFree(reserved, 3 * ARENA));
}

void arenas_made(void) {
    uint32_t random = 1;
    given = malloc(ARENA);
    wanted = malloc(ARENA);
    got = malloc(ARENA);
    CHECK(given && wanted && got);
    for (size_t i = 0; i < ARENA; i++) {
        random = random * 1664525u + 1013904223u;
        given[i] = (unsigned char)(random >> 24);
    }
    map_source();
    CU(bare.cuMemAlloc(&target, ARENA));
    CU(bare.cuMemcpyHtoD(source, given, ARENA));
    CU(bare.cuCtxSynchronize());
}

void arenas_freed(void) {
    unmap_source();
    CU(bare.cuMemFree(target));
    free(given);
    free(wanted);
    free(got);
}

void forbid_sources(void) {
    ASAN_POISON_MEMORY_REGION(bare_pointer(source), ARENA);
}

void allow_source(size_t from, size_t bytes) {
    ASAN_UNPOISON_MEMORY_REGION(bare_pointer(source + from), bytes);
}

void allow_sources(void) {
    ASAN_UNPOISON_MEMORY_REGION(bare_pointer(source), ARENA);
}

void begin(size_t bytes) {
    memset(wanted, GUARD, bytes);
    CU(bare.cuMemsetD8(target, GUARD, bytes));
}

void compare(size_t bytes, size_t spacing, const char *what) {
    CU(bare.cuCtxSynchronize());
    CU(bare.cuMemcpyDtoH(got, target, bytes));
    if (memcmp(got, wanted, bytes) == 0)
        return;
    size_t at = 0;
    while (got[at] == wanted[at])
        at++;
    fprintf(stderr, "%s: transfer %zu, byte %zu: %02x instead of %02x\n", what, at / spacing, at % spacing, got[at],
            wanted[at]);
    exit(1);
}
