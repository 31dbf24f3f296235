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

static void vmm_map_section(int role) {
    (void)role;
    CUcontext ctx = start_device();
    CUmemAllocationProp prop = vmm_prop(FD), got;
    CUmemAccessDesc rw = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemGenericAllocationHandle handle = 0, other = 0, back = 0;
    CUdeviceptr va = 0;
    cu.MemCreate(&handle, 4 * MIB, &prop, 0);
    cu.MemCreate(&other, 2 * MIB, &prop, 0);
    cu.MemAddressReserve(&va, 16 * MIB, 0, 0, 0);
    result("map_larger", cu.MemMap(va, 6 * MIB, 0, handle, 0));
    result("map_smaller", cu.MemMap(va, 2 * MIB, 0, handle, 0));
    cu.MemUnmap(va, 2 * MIB);
    result("map_offset", cu.MemMap(va, 2 * MIB, 2 * MIB, handle, 0));
    cu.MemUnmap(va, 2 * MIB);
    result("map_odd_address", cu.MemMap(va + 4096, 4 * MIB, 0, handle, 0));
    result("map_odd_size", cu.MemMap(va, 4096, 0, handle, 0));
    result("map_zero", cu.MemMap(va, 0, 0, handle, 0));
    result("map_flags", cu.MemMap(va, 4 * MIB, 0, handle, 1));
    result("map_unreserved", cu.MemMap(va + 1024 * 1024 * MIB, 4 * MIB, 0, handle, 0));
    result("map_past_end", cu.MemMap(va + 14 * MIB, 4 * MIB, 0, handle, 0));
    result("map_no_handle", cu.MemMap(va, 4 * MIB, 0, 0, 0));
    result("access_unmapped", cu.MemSetAccess(va, 4 * MIB, &rw, 1));
    get_access_fact("get_access_unmapped", va);
    result("map", cu.MemMap(va, 4 * MIB, 0, handle, 0));
    result("map_over", cu.MemMap(va, 2 * MIB, 0, other, 0));
    result("map_over_tail", cu.MemMap(va + 2 * MIB, 2 * MIB, 0, other, 0));
    pointer_facts("no_access_attributes", va, ctx);
    get_access_fact("get_access_mapped", va);
    result("access_past_end", cu.MemSetAccess(va, 6 * MIB, &rw, 1));
    result("access_part", cu.MemSetAccess(va, 2 * MIB, &rw, 1));
    get_access_fact("get_access_part_first", va);
    get_access_fact("get_access_part_second", va + 2 * MIB);
    result("access_odd", cu.MemSetAccess(va, 4096, &rw, 1));
    result("access_zero_descs", cu.MemSetAccess(va, 4 * MIB, &rw, 0));
    CUmemAccessDesc bad = access_for(99, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    result("access_bad_device", cu.MemSetAccess(va, 4 * MIB, &bad, 1));
    bad = access_for(0, (CUmemAccess_flags)2);
    result("access_bad_flags", cu.MemSetAccess(va, 4 * MIB, &bad, 1));
    result("access", cu.MemSetAccess(va, 4 * MIB, &rw, 1));
    get_access_fact("get_access", va + 4096);
    pointer_facts("attributes", va + 4096, ctx);
    result("map_second", cu.MemMap(va + 4 * MIB, 2 * MIB, 0, other, 0));
    result("access_both", cu.MemSetAccess(va, 6 * MIB, &rw, 1));
    CUdeviceptr base = 0;
    size_t size = 0;
    result("range", cu.MemGetAddressRange(&base, &size, va + 4 * MIB + 100));
    fact("range_values", "offset %lld size %zu", (long long)(base - va), size);
    result("retain", cu.MemRetainAllocationHandle(&back, (void *)(uintptr_t)(va + 4096)));
    fact("retain_same", "%d", back == handle);
    result("retain_release", cu.MemRelease(back));
    CUresult rc = cu.MemRetainAllocationHandle(&back, (void *)(uintptr_t)(va + 8 * MIB));
    result("retain_unmapped", rc);
    memset(&got, 0x5a, sizeof got);
    result("props", cu.MemGetAllocationPropertiesFromHandle(&got, handle));
    fact("props_values", "type %d handles %d location %d %d", (int)got.type, (int)got.requestedHandleTypes,
         (int)got.location.type, got.location.id);
    poke(va + 4 * MIB - 4, 1);
    poke(va + 4 * MIB, 2);
    uint32_t words[2] = {0, 0};
    result("copy_across", cu.MemcpyDtoH(words, va + 4 * MIB - 4, sizeof words));
    fact("copy_across_values", "%u %u", words[0], words[1]);
    CUipcMemHandle legacy;
    result("legacy", cu.IpcGetMemHandle(&legacy, va));
    result("mem_free", cu.MemFree(va));
    result("free_mapped", cu.MemAddressFree(va, 16 * MIB));
    result("unmap_part", cu.MemUnmap(va, 2 * MIB));
    result("unmap_inner", cu.MemUnmap(va + 2 * MIB, 2 * MIB));
    result("unmap_hole", cu.MemUnmap(va, 8 * MIB));
    result("unmap_both", cu.MemUnmap(va, 6 * MIB));
    result("unmap_twice", cu.MemUnmap(va, 6 * MIB));
    pointer_facts("unmapped_attributes", va, ctx);
    result("remap", cu.MemMap(va + 8 * MIB, 4 * MIB, 0, handle, 0));
    result("release_mapped", cu.MemRelease(handle));
    result("remap_released", cu.MemMap(va, 4 * MIB, 0, handle, 0));
    result("retain_released", cu.MemRetainAllocationHandle(&back, (void *)(uintptr_t)(va + 8 * MIB)));
    fact("retain_released_same", "%d", back == handle);
    result("retain_released_release", cu.MemRelease(back));
    result("unmap_last", cu.MemUnmap(va + 8 * MIB, 4 * MIB));
    result("release_other", cu.MemRelease(other));
    result("free", cu.MemAddressFree(va, 16 * MIB));
}

static void vmm_handle_section(int role) {
    (void)role;
    start_device();
    CUmemAllocationProp prop = vmm_prop(FD), got;
    CUmemGenericAllocationHandle handle = 0;
    cu.MemCreate(&handle, 2 * MIB, &prop, 0);
    result("release", cu.MemRelease(handle));
    result("release_null", cu.MemRelease(0));
    result("props_null", cu.MemGetAllocationPropertiesFromHandle(&got, 0));
}

/* Use of a dead handle comes last and alone: a driver may not survive it. */
static void vmm_dead_handle_section(int role) {
    (void)role;
    start_device();
    CUmemAllocationProp prop = vmm_prop(FD), got;
    CUmemGenericAllocationHandle handle = 0;
    cu.MemCreate(&handle, 2 * MIB, &prop, 0);
    cu.MemRelease(handle);
    int fd = -1;
    result("props", cu.MemGetAllocationPropertiesFromHandle(&got, handle));
    result("export", cu.MemExportToShareableHandle(&fd, handle, FD, 0));
    result("release_twice", cu.MemRelease(handle));
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

const struct section vmm_sections[] = {
    {"vmm_create", vmm_create_section, 1},   {"vmm_export", vmm_export_section, 1},
    {"vmm_reserve", vmm_reserve_section, 1}, {"vmm_map", vmm_map_section, 1},
    {"vmm_handle", vmm_handle_section, 1},   {"vmm_dead_handle", vmm_dead_handle_section, 1},
    {"vmm_alias", vmm_alias_section, 1},     {NULL, NULL, 0}};
