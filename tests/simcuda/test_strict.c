/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Misuse that a driver may let pass ends the process here, and says what was wrong.
 */
#define _GNU_SOURCE
#include "simtest.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simtest_kernels.h"

static void *entry(const char *name, int version, cuuint64_t flags) {
    void *found = NULL;
    cuGetProcAddress(name, &found, version, flags, NULL);
    return found;
}

static CUmemGenericAllocationHandle create(size_t bytes, unsigned types) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = device_prop(0, types);
    OK(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

/* ---- memory ---- */

static void odd_size(void) {
    start();
    create(4096, 0);
}

static void map_part(void) {
    CUdeviceptr ptr = 0;
    start();
    OK(cuMemAddressReserve(&ptr, 4 * MIB, 0, 0, 0));
    cuMemMap(ptr, 2 * MIB, 0, create(4 * MIB, 0), 0);
}

static void map_outside(void) {
    CUdeviceptr ptr = 0;
    start();
    OK(cuMemAddressReserve(&ptr, 4 * MIB, 0, 0, 0));
    cuMemMap(ptr + 2 * MIB, 4 * MIB, 0, create(4 * MIB, 0), 0);
}

static void unmap_hole(void) {
    CUdeviceptr ptr = 0;
    start();
    OK(cuMemAddressReserve(&ptr, 8 * MIB, 0, 0, 0));
    OK(cuMemMap(ptr, 2 * MIB, 0, create(2 * MIB, 0), 0));
    cuMemUnmap(ptr, 4 * MIB);
}

static void free_mapped(void) {
    CUdeviceptr ptr = 0;
    start();
    OK(map_whole(create(2 * MIB, 0), 2 * MIB, &ptr));
    cuMemAddressFree(ptr, 2 * MIB);
}

static void release_twice(void) {
    start();
    CUmemGenericAllocationHandle handle = create(2 * MIB, 0);
    OK(cuMemRelease(handle));
    cuMemRelease(handle);
}

static void released_handle(void) {
    CUdeviceptr ptr = 0;
    CUmemAllocationProp prop;
    start();
    CUmemGenericAllocationHandle handle = create(2 * MIB, 0);
    OK(map_whole(handle, 2 * MIB, &ptr));
    OK(cuMemRelease(handle));
    cuMemGetAllocationPropertiesFromHandle(&prop, handle);
}

static void free_twice(void) {
    CUdeviceptr ptr = 0;
    start();
    OK(cuMemAlloc(&ptr, 4096));
    OK(cuMemFree(ptr));
    cuMemFree(ptr);
}

static void use_after_free(void) {
    CUdeviceptr ptr = 0;
    start();
    OK(cuMemAlloc(&ptr, 4 * MIB));
    OK(cuMemFree(ptr));
    cuMemsetD8Async(ptr, 0, 16, NULL);
}

static void past_the_end(void) {
    CUdeviceptr ptr = 0;
    start();
    OK(cuMemAlloc(&ptr, 1000));
    cuMemsetD8Async(ptr, 0, 1001, NULL);
}

static void no_access(void) {
    CUdeviceptr ptr = 0;
    start();
    OK(cuMemAddressReserve(&ptr, 2 * MIB, 0, 0, 0));
    OK(cuMemMap(ptr, 2 * MIB, 0, create(2 * MIB, 0), 0));
    cuMemsetD8Async(ptr, 0, 16, NULL);
}

static void read_only(void) {
    CUdeviceptr ptr = 0;
    CUmemAccessDesc access = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_READ);
    start();
    OK(map_whole(create(2 * MIB, 0), 2 * MIB, &ptr));
    OK(cuMemSetAccess(ptr, 2 * MIB, &access, 1));
    cuStreamWriteValue32(NULL, ptr, 1, 0);
}

static void unregister_inner(void) {
    static char page[8192];
    start();
    OK(cuMemHostRegister(page, sizeof page, 0));
    cuMemHostUnregister(page + 4096);
}

static void fabric_pool(void) {
    CUmemPoolProps props;
    CUmemoryPool pool = NULL;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.handleTypes = FABRIC;
    start();
    cuMemPoolCreate(&pool, &props);
}

static CUmemoryPool shared_pool(CUdeviceptr *ptr_out, CUmemPoolPtrExportData *data_out, int *fd_out) {
    CUmemPoolProps props;
    CUmemoryPool pool = NULL;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(ptr_out, 4096, pool, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemPoolExportToShareableHandle(fd_out, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemPoolExportPointer(data_out, *ptr_out));
    return pool;
}

static void full_pool(void) {
    CUdeviceptr ptr = 0;
    CUmemPoolPtrExportData data;
    int fd = -1;
    start();
    cuMemPoolDestroy(shared_pool(&ptr, &data, &fd));
}

/* ---- between processes: the case exports and errs, or imports and errs ---- */

struct offer {
    CUipcMemHandle memory;
    CUipcEventHandle event;
    CUmemPoolPtrExportData pointer;
};

static void opener(void) {
    struct offer offer;
    CUdeviceptr ptr = 0, ordered = 0;
    CUevent event = NULL;
    CUmemoryPool pool = NULL;
    start();
    hear(&offer, sizeof offer);
    int fd = hear_fd();
    OK(cuIpcOpenMemHandle(&ptr, offer.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuIpcOpenEventHandle(&event, offer.event));
    OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemPoolImportPointer(&ordered, pool, &offer.pointer));
    step();
    (void)peek(ptr);
}

struct shared {
    CUdeviceptr ptr, ordered;
    CUevent event;
};

static struct shared share(void) {
    struct shared s = {0, 0, NULL};
    struct offer offer;
    int fd = -1;
    start();
    OK(cuMemAlloc(&s.ptr, 4096));
    OK(cuEventCreate(&s.event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    shared_pool(&s.ordered, &offer.pointer, &fd);
    OK(cuIpcGetMemHandle(&offer.memory, s.ptr));
    OK(cuIpcGetEventHandle(&offer.event, s.event));
    tell(&offer, sizeof offer);
    tell_fd(fd);
    await();
    return s;
}

static void free_open_memory(void) {
    cuMemFree(share().ptr);
}

static void free_open_pool_memory(void) {
    cuMemFree(share().ordered);
}

static void destroy_open_event(void) {
    cuEventDestroy(share().event);
}

static void exporter(void) {
    share();
}

static void import_twice(void) {
    struct offer offer;
    CUdeviceptr ptr = 0;
    CUmemoryPool pool = NULL;
    start();
    hear(&offer, sizeof offer);
    OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)hear_fd(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                          0));
    OK(cuMemPoolImportPointer(&ptr, pool, &offer.pointer));
    cuMemPoolImportPointer(&ptr, pool, &offer.pointer);
}

static void close_too_often(void) {
    struct offer offer;
    CUdeviceptr ptr = 0;
    start();
    hear(&offer, sizeof offer);
    OK(cuIpcOpenMemHandle(&ptr, offer.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuIpcCloseMemHandle(ptr));
    cuIpcCloseMemHandle(ptr);
}

static void open_own(void) {
    CUdeviceptr ptr = 0, again = 0;
    CUipcMemHandle handle;
    start();
    OK(cuMemAlloc(&ptr, 4096));
    OK(cuIpcGetMemHandle(&handle, ptr));
    cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

/* ---- contexts ---- */

static void free_without_context(void) {
    CUdeviceptr ptr = 0;
    start();
    OK(cuMemAlloc(&ptr, 4096));
    OK(cuCtxSetCurrent(NULL));
    cuMemFree(ptr);
}

static void context_leftovers(void) {
    CUdeviceptr ptr = 0;
    start();
    OK(cuMemAlloc(&ptr, 4096));
    cuDevicePrimaryCtxRelease(0);
}

static void foreign_event(void) {
    CUresult (*create_context)(CUcontext *, unsigned, CUdevice) = NULL;
    CUcontext other = NULL;
    CUevent event = NULL;
    start();
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    void *found = entry("cuCtxCreate", 3020, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    memcpy(&create_context, &found, sizeof found);
    OK(create_context(&other, 0, 0));
    cuEventRecord(event, NULL);
}

static void in_child(void) {
    start();
    pid_t pid = fork();
    if (pid == 0) {
        int count = 0;
        cuDeviceGetCount(&count);
        _exit(0);
    }
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* ---- streams and entry points ---- */

static void dead_stream(void) {
    CUstream stream = NULL;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamDestroy(stream));
    cuStreamQuery(stream);
}

static void dead_event(void) {
    CUevent event = NULL;
    start();
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventDestroy(event));
    cuEventDestroy(event);
}

static void wrong_kind(void) {
    CUevent event = NULL;
    start();
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    cuStreamQuery((CUstream)(void *)event);
}

static void odd_word(void) {
    CUdeviceptr ptr = 0;
    start();
    OK(cuMemAlloc(&ptr, 4096));
    cuStreamWriteValue64(NULL, ptr + 4, 1, 0);
}

static void pool_word(void) {
    CUdeviceptr ptr = 0;
    start();
    OK(cuMemAllocAsync(&ptr, 4096, NULL));
    cuStreamWriteValue32(NULL, ptr, 1, 0);
}

static void legacy_stream_in_capture(void) {
    CUdeviceptr ptr = 0;
    CUstream stream = NULL;
    start();
    OK(cuMemAlloc(&ptr, 4096));
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    cuMemsetD8Async(ptr, 0, 16, NULL);
}

static void captured_event_after(void) {
    CUstream stream = NULL;
    CUevent event = NULL;
    CUgraph graph = NULL;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(event, stream));
    OK(cuStreamEndCapture(stream, &graph));
    cuEventQuery(event);
}

static void CUDA_CB call_from_stream(void *data) {
    cuCtxGetCurrent(data);
}

static void driver_in_host_function(void) {
    CUcontext ctx = NULL;
    start();
    OK(cuLaunchHostFunc(NULL, call_from_stream, &ctx));
    cuCtxSynchronize();
}

static void old_form(void) {
    entry("cuStreamWaitValue64", 9000, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
}

static void per_thread_form(void) {
    entry("cuMemcpyAsync", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

/* ---- kernels ---- */

static void misaligned_kernel(void) {
    CUmodule module = NULL;
    CUdeviceptr ptr = 0;
    start();
    OK(cuMemAlloc(&ptr, 4096));
    struct simtest_add args = {ptr + 2, 1, 16};
    void *params[1] = {&args};
    OK(cuLaunchKernel(kernel(&module, "simtest_add"), 1, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    cuCtxSynchronize();
}

static void lazy_loading(void) {
    CUmodule module = NULL;
    CUdeviceptr ptr = 0;
    CUfunction late = NULL;
    CUstream stream = NULL;
    start();
    OK(cuMemAlloc(&ptr, 4096));
    OK(cuMemsetD8(ptr, 0, 4096));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    struct simtest_spin spin = {ptr, 5000000000u, 1};
    struct simtest_add add = {ptr, 1, 1};
    void *params[1] = {&spin};
    OK(cuLaunchKernel(kernel(&module, "simtest_spin"), 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    usleep(100000);
    OK(cuModuleGetFunction(&late, module, "simtest_add"));
    params[0] = &add;
    cuLaunchKernel(late, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
}

/* Host code that touches device memory dies, where the processor can see to it. */
static void host_access(void) {
    CUdeviceptr ptr = 0;
    int status = 0;
    start();
    OK(cuMemAlloc(&ptr, 4096));
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile unsigned char *)(uintptr_t)ptr == 0xcb ? 0 : 1);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, simcuda_protects() ? SIGSEGV : 0);
    OK(cuMemFree(ptr));
    pid = fork();
    if (pid == 0) { /* freed memory is gone in any case */
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile unsigned char *)(uintptr_t)ptr);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, SIGSEGV);
}

#define DIES(function, text)                                                                                           \
    { #function, function, NULL, NULL, NULL, SIGABRT, text }

#define DIES_WITH(function, peer, text)                                                                                \
    { #function, function, peer, NULL, NULL, SIGABRT, text }

static const struct simtest tests[] = {
    DIES(odd_size, "cuMemCreate: size 4096 is no multiple of the granularity"),
    DIES(map_part, "only all of it can be mapped"),
    DIES(map_outside, "the address range is not reserved"),
    DIES(unmap_hole, "has holes"),
    DIES(free_mapped, "with mappings in it"),
    DIES(release_twice, "used after its end"),
    DIES(released_handle, "used after its release"),
    DIES(free_twice, "no live allocation"),
    DIES(use_after_free, "is not mapped"),
    DIES(past_the_end, "past the end of an allocation"),
    DIES(no_access, "has no write access"),
    DIES(read_only, "no write access"),
    DIES(unregister_inner, "not the start of a registration"),
    DIES(fabric_pool, "without an IMEX channel"),
    DIES(full_pool, "a pool ends with 1 allocations in it"),
    DIES_WITH(free_open_memory, opener, "cuMemFree: memory is freed while another process has it open"),
    DIES_WITH(free_open_pool_memory, opener, "pool memory is freed while another process has it open"),
    DIES_WITH(destroy_open_event, opener, "an event is destroyed while another process has it open"),
    DIES_WITH(import_twice, exporter, "imported twice"),
    DIES_WITH(close_too_often, exporter, "was not opened"),
    DIES(open_own, "a process opens its own handle"),
    DIES(free_without_context, "no current context"),
    DIES(context_leftovers, "context ends with 1 allocations"),
    DIES(foreign_event, "different contexts"),
    {"in_child", in_child, NULL, NULL, NULL, 0, "called in a forked child"},
    DIES(dead_stream, "stream 0 is used after its end"),
    DIES(dead_event, "used after its end"),
    DIES(wrong_kind, "is no stream"),
    DIES(odd_word, "not aligned to 8 bytes"),
    DIES(pool_word, "no memory for stream operations"),
    DIES(legacy_stream_in_capture, "while a stream captures"),
    DIES(captured_event_after, "a capture that has ended"),
    DIES(driver_in_host_function, "called from a host function"),
    DIES(old_form, "that form is not simulated"),
    DIES(per_thread_form, "without the legacy-stream flag"),
    {"misaligned_kernel", misaligned_kernel, NULL, NULL, NULL, SIGBUS, NULL},
    DIES(lazy_loading, "loaded by its first launch while something spins"),
    {"host_access", host_access, NULL, NULL, NULL, 0, NULL},
    {NULL, NULL, NULL, NULL, NULL, 0, NULL}};

int main(int argc, char **argv) {
    return simtest_main(argc, argv, tests);
}
