/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sections of one process about virtual memory management: creating, reserving, mapping, access, and the wrong ways.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "conformance.h"

static CUresult create(const char *name, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags) {
    CUmemGenericAllocationHandle handle = 0;
    CUresult rc = result(name, cu.MemCreate(&handle, bytes, prop, flags));
    if (rc == CUDA_SUCCESS) {
        cu.MemRelease(handle);
    }
    return rc;
}

static void vmm_create_section(int role) {
    (void)role;
    start_device();
    CUmemAllocationProp prop = vmm_prop(FD);
    create("zero", 0, &prop, 0);
    create("page", 4096, &prop, 0);
    create("granule_and_half", 3 * MIB, &prop, 0);
    create("flags", 2 * MIB, &prop, 1);
    create("huge", (size_t)1 << 50, &prop, 0);
    prop.location.id = 99;
    create("bad_device", 2 * MIB, &prop, 0);
    prop = vmm_prop(FD);
    prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    create("bad_type", 2 * MIB, &prop, 0);
    prop = vmm_prop(FD);
    prop.location.type = CU_MEM_LOCATION_TYPE_INVALID;
    create("bad_location", 2 * MIB, &prop, 0);
    prop = vmm_prop(FABRIC);
    create("fabric", 2 * MIB, &prop, 0);
    prop = vmm_prop(FD | FABRIC);
    create("fd_and_fabric", 2 * MIB, &prop, 0);
    prop = vmm_prop(0x40);
    create("unknown_handle_type", 2 * MIB, &prop, 0);
    prop = vmm_prop(CU_MEM_HANDLE_TYPE_WIN32);
    create("win32", 2 * MIB, &prop, 0);
    prop = vmm_prop(0);
    create("unshareable", 2 * MIB, &prop, 0);
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    create("host_numa", 2 * MIB, &prop, 0);
    prop = vmm_prop(FD);
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
    create("host_shareable", 2 * MIB, &prop, 0);
}

static void import_fact(const char *name, int fd) {
    CUmemGenericAllocationHandle handle = 0;
    CUresult rc = result(name, cu.MemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, FD));
    if (rc == CUDA_SUCCESS) {
        cu.MemRelease(handle);
    }
}

static void vmm_export_section(int role) {
    (void)role;
    start_device();
    struct vmm vmm = vmm_make(2 * MIB, FD), plain = vmm_make(2 * MIB, 0);
    CUmemFabricHandle fabric;
    int fd = -1, again = -1;
    result("plain_fd", cu.MemExportToShareableHandle(&fd, plain.handle, FD, 0));
    result("fd_flags", cu.MemExportToShareableHandle(&fd, vmm.handle, FD, 1));
    result("fd_as_fabric", cu.MemExportToShareableHandle(&fabric, vmm.handle, FABRIC, 0));
    result("fd_none", cu.MemExportToShareableHandle(&fd, vmm.handle, CU_MEM_HANDLE_TYPE_NONE, 0));
    result("fd", cu.MemExportToShareableHandle(&fd, vmm.handle, FD, 0));
    result("fd_again", cu.MemExportToShareableHandle(&again, vmm.handle, FD, 0));
    fact("fd_again_other", "%d", fd != again);
    fact("fd_cloexec", "%d", (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CUmemGenericAllocationHandle own = 0;
    result("import_own", cu.MemImportFromShareableHandle(&own, (void *)(intptr_t)fd, FD));
    fact("import_own_other", "%d", own != vmm.handle);
    struct vmm alias = {own, 0, 2 * MIB};
    result("import_own_map", vmm_map(&alias, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    poke(vmm.ptr, 41);
    fact("import_own_sees", "%u", peek(alias.ptr));
    int reexport = -1;
    result("import_own_export", cu.MemExportToShareableHandle(&reexport, own, FD, 0));
    vmm_drop(&alias);
    import_fact("import_minus_one", -1);
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC), memory_fd = memfd_create("conformance", MFD_CLOEXEC);
    import_fact("import_dev_null", null_fd);
    import_fact("import_memfd", memory_fd);
    close(fd);
    import_fact("import_closed", fd);
    memset(&fabric, 0x5a, sizeof fabric);
    CUmemGenericAllocationHandle handle = 0;
    result("import_fabric_garbage", cu.MemImportFromShareableHandle(&handle, &fabric, FABRIC));
    memset(&fabric, 0, sizeof fabric);
    result("import_fabric_zero", cu.MemImportFromShareableHandle(&handle, &fabric, FABRIC));
    vmm_drop(&vmm);
    vmm_drop(&plain);
}

static void reserve_fact(const char *name, size_t bytes, size_t alignment, unsigned long long flags) {
    CUdeviceptr ptr = 0;
    CUresult rc = result(name, cu.MemAddressReserve(&ptr, bytes, alignment, 0, flags));
    if (rc == CUDA_SUCCESS) {
        fact(name, "aligned %d %d", ptr % (2 * MIB) == 0, alignment == 0 || ptr % alignment == 0);
        result(name, cu.MemAddressFree(ptr, bytes));
    }
}

static void vmm_reserve_section(int role) {
    (void)role;
    start_device();
    CUdeviceptr ptr = 0;
    reserve_fact("zero", 0, 0, 0);
    reserve_fact("odd", 4097, 0, 0);
    reserve_fact("page", 4096, 0, 0);
    reserve_fact("granule", 2 * MIB, 0, 0);
    reserve_fact("alignment_odd", 2 * MIB, 3, 0);
    reserve_fact("alignment_page", 2 * MIB, 4096, 0);
    reserve_fact("alignment_1g", 2 * MIB, 1024 * MIB, 0);
    reserve_fact("flags", 2 * MIB, 0, 1);
    reserve_fact("tib", (size_t)1 << 40, 0, 0);
    result("reserve", cu.MemAddressReserve(&ptr, 8 * MIB, 0, 0, 0));
    result("free_part", cu.MemAddressFree(ptr, 4 * MIB));
    result("free_inner", cu.MemAddressFree(ptr + 2 * MIB, 6 * MIB));
    pointer_facts("reserved_attributes", ptr, NULL);
    result("free", cu.MemAddressFree(ptr, 8 * MIB));
    result("free_twice", cu.MemAddressFree(ptr, 8 * MIB));
    result("free_null", cu.MemAddressFree(0, 0));
}

static CUmemAccessDesc access_for(int device, CUmemAccess_flags flags) {
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = flags;
    return access;
}

static void get_access_fact(const char *name, CUdeviceptr ptr) {
    CUmemLocation location;
    memset(&location, 0, sizeof location);
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    unsigned long long flags = 99;
    CUresult rc = cu.MemGetAccess(&flags, &location, ptr);
    fact(name, "rc %d flags %llu", (int)rc, flags);
}

/* A reservation of 16 MiB, an allocation of 4 MiB and one of 2. */
struct map_world {
    CUcontext ctx;
    CUmemGenericAllocationHandle handle, other;
    CUdeviceptr va;
};

static struct map_world make_map_world(void) {
    struct map_world w;
    CUmemAllocationProp prop = vmm_prop(FD);
    memset(&w, 0, sizeof w);
    w.ctx = start_device();
    cu.MemCreate(&w.handle, 4 * MIB, &prop, 0);
    cu.MemCreate(&w.other, 2 * MIB, &prop, 0);
    cu.MemAddressReserve(&w.va, 16 * MIB, 0, 0, 0);
    return w;
}

static void vmm_map_wrong_section(int role) {
    (void)role;
    struct map_world w = make_map_world();
    CUmemAccessDesc rw = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    result("larger", cu.MemMap(w.va, 6 * MIB, 0, w.handle, 0));
    result("smaller", cu.MemMap(w.va, 2 * MIB, 0, w.handle, 0));
    result("offset", cu.MemMap(w.va, 2 * MIB, 2 * MIB, w.handle, 0));
    result("odd_address", cu.MemMap(w.va + 4096, 4 * MIB, 0, w.handle, 0));
    result("odd_size", cu.MemMap(w.va, 4096, 0, w.handle, 0));
    result("zero", cu.MemMap(w.va, 0, 0, w.handle, 0));
    result("flags", cu.MemMap(w.va, 4 * MIB, 0, w.handle, 1));
    result("unreserved", cu.MemMap(w.va + ((size_t)1 << 40), 4 * MIB, 0, w.handle, 0));
    result("no_handle", cu.MemMap(w.va, 4 * MIB, 0, 0, 0));
    result("access_unmapped", cu.MemSetAccess(w.va, 4 * MIB, &rw, 1));
    get_access_fact("get_access_unmapped", w.va);
    result("unmap_nothing", cu.MemUnmap(w.va, 4 * MIB));
    result("free", cu.MemAddressFree(w.va, 16 * MIB));
}

/* A section of its own, since drivers let it pass, and then nothing fits any more. */
static void vmm_map_past_end_section(int role) {
    (void)role;
    struct map_world w = make_map_world();
    result("map", cu.MemMap(w.va + 14 * MIB, 4 * MIB, 0, w.handle, 0));
}

static void vmm_access_section(int role) {
    (void)role;
    struct map_world w = make_map_world();
    CUmemAccessDesc rw = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    result("map", cu.MemMap(w.va, 4 * MIB, 0, w.handle, 0));
    result("map_over", cu.MemMap(w.va, 2 * MIB, 0, w.other, 0));
    result("map_over_tail", cu.MemMap(w.va + 2 * MIB, 2 * MIB, 0, w.other, 0));
    pointer_facts("no_access_attributes", w.va, w.ctx);
    range_fact("no_access_range", w.va);
    get_access_fact("get_access_mapped", w.va);
    result("access_past_end", cu.MemSetAccess(w.va, 6 * MIB, &rw, 1));
    result("access_part", cu.MemSetAccess(w.va, 2 * MIB, &rw, 1));
    get_access_fact("get_access_part_first", w.va);
    get_access_fact("get_access_part_second", w.va + 2 * MIB);
    result("access_odd", cu.MemSetAccess(w.va, 4096, &rw, 1));
    result("access_zero_descs", cu.MemSetAccess(w.va, 4 * MIB, &rw, 0));
    CUmemAccessDesc bad = access_for(99, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    result("access_bad_device", cu.MemSetAccess(w.va, 4 * MIB, &bad, 1));
    bad = access_for(0, (CUmemAccess_flags)2);
    result("access_bad_flags", cu.MemSetAccess(w.va, 4 * MIB, &bad, 1));
    result("access", cu.MemSetAccess(w.va, 4 * MIB, &rw, 1));
    get_access_fact("get_access", w.va + 4096);
    pointer_facts("attributes", w.va + 4096, w.ctx);
    CUmemAccessDesc none = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CUmemGenericAllocationHandle back = 0;
    result("access_none", cu.MemSetAccess(w.va, 4 * MIB, &none, 1));
    range_fact("access_none_range", w.va);
    pointer_facts("access_none_attributes", w.va, w.ctx);
    result("access_none_retain", cu.MemRetainAllocationHandle(&back, (void *)(uintptr_t)w.va));
    fact("access_none_retain_same", "%d", back == w.handle);
}

static void vmm_map_section(int role) {
    (void)role;
    struct map_world w = make_map_world();
    CUmemAccessDesc rw = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemAllocationProp got;
    CUmemGenericAllocationHandle back = 0;
    result("map", cu.MemMap(w.va, 4 * MIB, 0, w.handle, 0));
    result("map_second", cu.MemMap(w.va + 4 * MIB, 2 * MIB, 0, w.other, 0));
    result("access_both", cu.MemSetAccess(w.va, 6 * MIB, &rw, 1));
    range_fact("range", w.va + 4 * MIB + 100);
    pointer_facts("second_attributes", w.va + 4 * MIB + 100, w.ctx);
    result("retain", cu.MemRetainAllocationHandle(&back, (void *)(uintptr_t)(w.va + 4096)));
    fact("retain_same", "%d", back == w.handle);
    result("retain_release", cu.MemRelease(back));
    result("retain_unmapped", cu.MemRetainAllocationHandle(&back, (void *)(uintptr_t)(w.va + 8 * MIB)));
    memset(&got, 0x5a, sizeof got);
    result("props", cu.MemGetAllocationPropertiesFromHandle(&got, w.handle));
    fact("props_values", "type %d handles %d location %d %d", (int)got.type, (int)got.requestedHandleTypes,
         (int)got.location.type, got.location.id);
    poke(w.va + 4 * MIB - 4, 1);
    poke(w.va + 4 * MIB, 2);
    uint32_t words[2] = {0, 0};
    result("copy_across", cu.MemcpyDtoH(words, w.va + 4 * MIB - 4, sizeof words));
    fact("copy_across_values", "%u %u", words[0], words[1]);
    CUipcMemHandle legacy;
    result("legacy", cu.IpcGetMemHandle(&legacy, w.va));
    result("mem_free", cu.MemFree(w.va));
    result("free_mapped", cu.MemAddressFree(w.va, 16 * MIB));
    result("unmap_part", cu.MemUnmap(w.va, 2 * MIB));
    result("unmap_inner", cu.MemUnmap(w.va + 2 * MIB, 2 * MIB));
    result("unmap_with_hole", cu.MemUnmap(w.va, 8 * MIB));
    result("unmap_twice", cu.MemUnmap(w.va, 6 * MIB));
    pointer_facts("unmapped_attributes", w.va, w.ctx);
    result("free", cu.MemAddressFree(w.va, 16 * MIB));
}

static void vmm_release_section(int role) {
    (void)role;
    struct map_world w = make_map_world();
    CUmemGenericAllocationHandle back = 0;
    result("map", cu.MemMap(w.va + 8 * MIB, 4 * MIB, 0, w.handle, 0));
    result("release", cu.MemRelease(w.handle));
    result("map_again", cu.MemMap(w.va, 4 * MIB, 0, w.handle, 0));
    result("retain", cu.MemRetainAllocationHandle(&back, (void *)(uintptr_t)(w.va + 8 * MIB)));
    fact("retain_same", "%d", back == w.handle);
    result("retain_release", cu.MemRelease(back));
    result("unmap_again", cu.MemUnmap(w.va, 4 * MIB));
    result("unmap", cu.MemUnmap(w.va + 8 * MIB, 4 * MIB));
    result("release_other", cu.MemRelease(w.other));
    result("release_null", cu.MemRelease(0));
    CUmemAllocationProp got;
    result("props_null", cu.MemGetAllocationPropertiesFromHandle(&got, 0));
    result("free", cu.MemAddressFree(w.va, 16 * MIB));
}

/* Host memory from the same calls: nothing that may be attached. */
static void vmm_host_section(int role) {
    (void)role;
    CUcontext ctx = start_device();
    CUmemAllocationProp prop = vmm_prop(0);
    struct vmm vmm = {0, 0, 2 * MIB};
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    result("create", cu.MemCreate(&vmm.handle, vmm.bytes, &prop, 0));
    result("map", vmm_map(&vmm, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    pointer_facts("attributes", vmm.ptr, ctx);
    memset(&prop, 0, sizeof prop);
    result("props", cu.MemGetAllocationPropertiesFromHandle(&prop, vmm.handle));
    fact("props_values", "type %d handles %d location %d %d", (int)prop.type, (int)prop.requestedHandleTypes,
         (int)prop.location.type, prop.location.id);
    vmm_drop(&vmm);
}

/* Use of a dead handle: a driver may not survive it, so each has a section. */
static CUmemGenericAllocationHandle dead_handle(void) {
    start_device();
    CUmemAllocationProp prop = vmm_prop(FD);
    CUmemGenericAllocationHandle handle = 0;
    cu.MemCreate(&handle, 2 * MIB, &prop, 0);
    cu.MemRelease(handle);
    return handle;
}

static void dead_handle_export_section(int role) {
    (void)role;
    CUmemGenericAllocationHandle handle = dead_handle();
    int fd = -1;
    result("export", cu.MemExportToShareableHandle(&fd, handle, FD, 0));
}

static void dead_handle_release_section(int role) {
    (void)role;
    result("release_twice", cu.MemRelease(dead_handle()));
}

static void vmm_alias_section(int role) {
    (void)role;
    start_device();
    struct vmm a = vmm_make(2 * MIB, FD), b = {a.handle, 0, a.bytes};
    result("second", vmm_map(&b, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    poke(a.ptr + 64, 77);
    fact("sees", "%u", peek(b.ptr + 64));
    unsigned long long ida = 0, idb = 0;
    cu.PointerGetAttribute(&ida, CU_POINTER_ATTRIBUTE_BUFFER_ID, a.ptr);
    cu.PointerGetAttribute(&idb, CU_POINTER_ATTRIBUTE_BUFFER_ID, b.ptr);
    fact("same_id", "%d", ida == idb);
    CUmemAccessDesc read = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_READ);
    result("read_only", cu.MemSetAccess(b.ptr, b.bytes, &read, 1));
    get_access_fact("read_only_access", b.ptr);
    fact("read_only_read", "%u", peek(b.ptr + 64));
    CUmemAccessDesc none = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    result("back_to_none", cu.MemSetAccess(b.ptr, b.bytes, &none, 1));
    get_access_fact("back_to_none_access", b.ptr);
    b.handle = 0;
    vmm_drop(&b);
    vmm_drop(&a);
}

/* A process that has no descriptor left. */
static void descriptors_section(int role) {
    (void)role;
    int held[64], count = 0, fd = -1, pool_fd = -1;
    struct rlimit few = {48, 48};
    CUmemoryPool pool = NULL;
    CUmemGenericAllocationHandle imported = 0;
    CUmemPoolProps props;
    start_device();
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.handleTypes = FD;
    cu.MemPoolCreate(&pool, &props);
    struct vmm vmm = vmm_make(2 * MIB, FD);
    cu.MemExportToShareableHandle(&fd, vmm.handle, FD, 0);
    setrlimit(RLIMIT_NOFILE, &few);
    while (count < 64 && (held[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        count++;
    }
    int none = -1;
    result("export", cu.MemExportToShareableHandle(&none, vmm.handle, FD, 0));
    result("pool_export", cu.MemPoolExportToShareableHandle(&pool_fd, pool, FD, 0));
    result("import", cu.MemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, FD));
    while (count > 0) {
        close(held[--count]);
    }
    result("export_again", cu.MemExportToShareableHandle(&none, vmm.handle, FD, 0));
    result("pool_export_again", cu.MemPoolExportToShareableHandle(&pool_fd, pool, FD, 0));
}

const struct section vmm_sections[] = {{"vmm_create", vmm_create_section, 1},
                                       {"vmm_export", vmm_export_section, 1},
                                       {"vmm_reserve", vmm_reserve_section, 1},
                                       {"vmm_map_wrong", vmm_map_wrong_section, 1},
                                       {"vmm_map_past_end", vmm_map_past_end_section, 1},
                                       {"vmm_access", vmm_access_section, 1},
                                       {"vmm_map", vmm_map_section, 1},
                                       {"vmm_release", vmm_release_section, 1},
                                       {"descriptors", descriptors_section, 1},
                                       {"vmm_host", vmm_host_section, 1},
                                       {"dead_handle_export", dead_handle_export_section, 1},
                                       {"dead_handle_release", dead_handle_release_section, 1},
                                       {"vmm_alias", vmm_alias_section, 1},
                                       {NULL, NULL, 0}};
