/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sections of one process about what runs in streams: memory operations, events, copies, kernels.
 */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "conformance.h"

/* The simulated driver takes any image and finds the kernel by its name; a real one takes this text. */
const char fill_ptx[] = ".version 7.0\n"
                        ".target sm_75\n"
                        ".address_size 64\n"
                        ".visible .entry conformance_fill(.param .align 8 .b8 args[16])\n"
                        "{\n"
                        "    .reg .pred %p<2>;\n"
                        "    .reg .b32 %r<7>;\n"
                        "    .reg .b64 %rd<5>;\n"
                        "    ld.param.u64 %rd1, [args];\n"
                        "    ld.param.u32 %r1, [args+8];\n"
                        "    ld.param.u32 %r2, [args+12];\n"
                        "    mov.u32 %r3, %ctaid.x;\n"
                        "    mov.u32 %r4, %ntid.x;\n"
                        "    mov.u32 %r5, %tid.x;\n"
                        "    mad.lo.s32 %r6, %r3, %r4, %r5;\n"
                        "    setp.ge.u32 %p1, %r6, %r2;\n"
                        "    @%p1 bra DONE;\n"
                        "    mul.wide.u32 %rd2, %r6, 4;\n"
                        "    add.s64 %rd3, %rd1, %rd2;\n"
                        "    st.global.u32 [%rd3], %r1;\n"
                        "DONE:\n"
                        "    ret;\n"
                        "}\n";

CUmodule fill_module(CUfunction *fill_out) {
    CUmodule module = NULL;
    *fill_out = NULL;
    if (result("module", cu.ModuleLoadData(&module, fill_ptx)) == CUDA_SUCCESS) {
        result("function", cu.ModuleGetFunction(fill_out, module, "conformance_fill"));
    }
    return module;
}

CUresult fill_launch(CUfunction fill, CUdeviceptr ptr, uint32_t value, uint32_t count, CUstream stream) {
    struct fill args = {ptr, value, count};
    void *params[1] = {&args};
    return cu.LaunchKernel(fill, (count + 127) / 128, 1, 1, 128, 1, 1, 0, stream, params, NULL);
}

static void stream_section(int role) {
    (void)role;
    CUcontext ctx = start_device(), of = NULL;
    CUstream stream = NULL, high = NULL;
    int priority = 99;
    result("create_bad_flags", cu.StreamCreate(&stream, 8));
    result("create", cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    result("create_priority", cu.StreamCreateWithPriority(&high, CU_STREAM_NON_BLOCKING, -100));
    result("priority", cu.StreamGetPriority(high, &priority));
    fact("priority_clamped", "%d", priority);
    result("query_idle", cu.StreamQuery(stream));
    result("query_legacy", cu.StreamQuery(NULL));
    result("query_legacy_name", cu.StreamQuery(CU_STREAM_LEGACY));
    result("query_per_thread", cu.StreamQuery(CU_STREAM_PER_THREAD));
    result("sync_per_thread", cu.StreamSynchronize(CU_STREAM_PER_THREAD));
    result("ctx", cu.StreamGetCtx(stream, &of));
    fact("ctx_same", "%d", of == ctx);
    result("ctx_legacy", cu.StreamGetCtx(NULL, &of));
    fact("ctx_legacy_same", "%d", of == ctx);
    result("destroy", cu.StreamDestroy(high));
    result("destroy_null", cu.StreamDestroy(NULL));
    result("destroy_legacy", cu.StreamDestroy(CU_STREAM_LEGACY));
    result("destroy_per_thread", cu.StreamDestroy(CU_STREAM_PER_THREAD));
}

/* Does legacy stream work wait for other streams that are stuck, and they for it? */
static void implicit_order_section(int role) {
    (void)role;
    start_device();
    CUdeviceptr flag = 0;
    CUstream free_stream = NULL, blocking = NULL, helper = NULL;
    cu.MemAlloc(&flag, 4096);
    cu.MemsetD8Async(flag, 0, 4096, NULL);
    cu.CtxSynchronize();
    cu.StreamCreate(&free_stream, CU_STREAM_NON_BLOCKING);
    cu.StreamCreate(&helper, CU_STREAM_NON_BLOCKING);
    cu.StreamCreate(&blocking, CU_STREAM_DEFAULT);
    cu.StreamWaitValue32(free_stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ);
    result("legacy_beside_non_blocking", cu.StreamSynchronize(NULL));
    cu.StreamWaitValue32(blocking, flag, 1, CU_STREAM_WAIT_VALUE_GEQ);
    cu.MemsetD8Async(flag + 2048, 1, 4, NULL);
    usleep(100000);
    result("legacy_behind_blocking", cu.StreamQuery(NULL));
    result("non_blocking_query", cu.StreamQuery(free_stream));
    result("release", cu.StreamWriteValue32(helper, flag, 1, 0));
    result("release_sync", cu.StreamSynchronize(helper));
    result("all", cu.CtxSynchronize());
}

static void wait_fact(const char *name, CUstream stream, CUdeviceptr flag, uint64_t at, uint64_t value, unsigned how) {
    static uint64_t stuck_value;
    stuck_value = at;
    cu.MemcpyHtoD(flag, &stuck_value, sizeof stuck_value);
    cu.StreamSynchronize(CU_STREAM_LEGACY);
    CUresult rc = cu.StreamWaitValue64(stream, flag, value, how);
    CUresult query = CUDA_ERROR_NOT_READY;
    for (int i = 0; i < 30 && query == CUDA_ERROR_NOT_READY; i++) {
        usleep(10000);
        query = cu.StreamQuery(stream);
    }
    fact(name, "rc %d passes %d", (int)rc, query == CUDA_SUCCESS);
    if (query == CUDA_ERROR_NOT_READY) { /* awaited + 2^62 satisfies GEQ; the others get what they want */
        uint64_t freeing = how == CU_STREAM_WAIT_VALUE_GEQ   ? value + ((uint64_t)1 << 62)
                           : how == CU_STREAM_WAIT_VALUE_NOR ? 0
                                                             : value;
        cu.MemcpyHtoD(flag, &freeing, sizeof freeing);
        result(name, cu.StreamSynchronize(stream));
    }
}

static void memop_section(int role) {
    (void)role;
    start_device();
    CUdeviceptr flag = 0;
    CUstream stream = NULL;
    static CUstreamBatchMemOpParams ops[300];
    cu.MemAlloc(&flag, 8192);
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    wait_fact("geq_equal", stream, flag, 5, 5, CU_STREAM_WAIT_VALUE_GEQ);
    wait_fact("geq_less", stream, flag, 4, 5, CU_STREAM_WAIT_VALUE_GEQ);
    wait_fact("geq_wrapped", stream, flag, 3, UINT64_MAX - 3, CU_STREAM_WAIT_VALUE_GEQ);
    wait_fact("geq_all_ones", stream, flag, UINT64_MAX, 5, CU_STREAM_WAIT_VALUE_GEQ);
    wait_fact("geq_2_62", stream, flag, 5 + ((uint64_t)1 << 62), 5, CU_STREAM_WAIT_VALUE_GEQ);
    wait_fact("geq_2_63", stream, flag, 5 + ((uint64_t)1 << 63), 5, CU_STREAM_WAIT_VALUE_GEQ);
    wait_fact("eq_other", stream, flag, 6, 5, CU_STREAM_WAIT_VALUE_EQ);
    wait_fact("and_none", stream, flag, 2, 5, CU_STREAM_WAIT_VALUE_AND);
    wait_fact("and_some", stream, flag, 4, 5, CU_STREAM_WAIT_VALUE_AND);
    wait_fact("nor", stream, flag, UINT64_MAX - 7, 7, CU_STREAM_WAIT_VALUE_NOR);
    result("flush", cu.StreamWaitValue64(stream, flag, 0, CU_STREAM_WAIT_VALUE_FLUSH));
    result("flush_sync", cu.StreamSynchronize(stream));
    result("wait_bad_flags", cu.StreamWaitValue64(stream, flag, 0, 0x80));
    result("write_bad_flags", cu.StreamWriteValue64(stream, flag, 0, 0x80));
    result("write_no_barrier", cu.StreamWriteValue64(stream, flag, 9, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
    result("write64_odd", cu.StreamWriteValue64(stream, flag + 4, 0, 0));
    result("write32_odd", cu.StreamWriteValue32(stream, flag + 2, 0, 0));
    result("wait64_odd", cu.StreamWaitValue64(stream, flag + 4, 0, CU_STREAM_WAIT_VALUE_GEQ));
    result("write_null", cu.StreamWriteValue64(stream, 0, 0, 0));
    result("write_behind_end", cu.StreamWriteValue64(stream, flag + 8192, 0, 0));
    result("write_legacy_stream", cu.StreamWriteValue64(NULL, flag, 1, 0));
    result("sync", cu.CtxSynchronize());
    for (unsigned i = 0; i < 300; i++) {
        ops[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
        ops[i].writeValue.address = flag + (CUdeviceptr)8 * i;
        ops[i].writeValue.value64 = i;
    }
    result("batch_zero", cu.StreamBatchMemOp(stream, 0, ops, 0));
    result("batch_flags", cu.StreamBatchMemOp(stream, 1, ops, 1));
    result("batch_255", cu.StreamBatchMemOp(stream, 255, ops, 0));
    result("batch_256", cu.StreamBatchMemOp(stream, 256, ops, 0));
    result("batch_257", cu.StreamBatchMemOp(stream, 257, ops, 0));
    ops[1].operation = (CUstreamBatchMemOpType)77;
    result("batch_unknown", cu.StreamBatchMemOp(stream, 2, ops, 0));
    ops[0].operation = CU_STREAM_MEM_OP_BARRIER;
    ops[0].memoryBarrier.flags = CU_STREAM_MEMORY_BARRIER_TYPE_SYS;
    result("batch_barrier", cu.StreamBatchMemOp(stream, 1, ops, 0));
    ops[0].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
    ops[0].flushRemoteWrites.flags = 0;
    result("batch_flush", cu.StreamBatchMemOp(stream, 1, ops, 0));
    result("batch_sync", cu.StreamSynchronize(stream));
    fact("batch_wrote", "%u %u", peek(flag + 2032), peek(flag + 8));
}

/* A section of its own, since a driver may not survive it. */
static void memop_null_batch_section(int role) {
    (void)role;
    start_device();
    result("batch", cu.StreamBatchMemOp(NULL, 1, NULL, 0));
}

static void destroy_pending_section(int role) {
    (void)role;
    start_device();
    CUdeviceptr flag = 0;
    CUstream stream = NULL, other = NULL;
    CUevent event = NULL;
    cu.MemAlloc(&flag, 4096);
    poke(flag, 0);
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cu.StreamCreate(&other, CU_STREAM_NON_BLOCKING);
    cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
    cu.StreamWaitValue32(stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ);
    cu.StreamWriteValue32(stream, flag + 4, 9, 0);
    cu.EventRecord(event, stream);
    result("event_query", cu.EventQuery(event));
    result("stream_destroy", cu.StreamDestroy(stream));
    result("wait", cu.StreamWaitEvent(other, event, 0));
    result("event_destroy", cu.EventDestroy(event));
    result("other_query", cu.StreamQuery(other));
    poke(flag, 1);
    result("other_sync", cu.StreamSynchronize(other));
    fact("still_ran", "%u", peek(flag + 4));
}

static void event_section(int role) {
    (void)role;
    start_device();
    CUevent event = NULL, timed = NULL, end = NULL;
    CUstream stream = NULL;
    float ms = -1;
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    result("create_bad_flags", cu.EventCreate(&event, 0x80));
    cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
    cu.EventCreate(&timed, CU_EVENT_DEFAULT);
    cu.EventCreate(&end, CU_EVENT_DEFAULT);
    result("query_unrecorded", cu.EventQuery(event));
    result("sync_unrecorded", cu.EventSynchronize(event));
    result("wait_unrecorded", cu.StreamWaitEvent(stream, event, 0));
    result("wait_flags", cu.StreamWaitEvent(stream, event, 8));
    result("elapsed_unrecorded", cu.EventElapsedTime(&ms, timed, end));
    cu.EventRecord(timed, stream);
    cu.EventRecord(end, stream);
    cu.EventSynchronize(end);
    result("elapsed", cu.EventElapsedTime(&ms, timed, end));
    cu.EventRecord(event, stream);
    cu.EventSynchronize(event);
    result("elapsed_untimed", cu.EventElapsedTime(&ms, timed, event));
    result("record_external", cu.EventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL));
    result("wait_external", cu.StreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL));
    result("record_null", cu.EventRecord(NULL, stream));
    result("query_null", cu.EventQuery(NULL));
    result("destroy_null", cu.EventDestroy(NULL));
    result("destroy", cu.EventDestroy(event));
}

static void copy_box_facts(CUdeviceptr dev, const unsigned char *host) {
    CUDA_MEMCPY2D box;
    memset(&box, 0, sizeof box);
    box.srcMemoryType = CU_MEMORYTYPE_HOST;
    box.srcHost = host;
    box.srcPitch = 64;
    box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.dstDevice = dev;
    box.dstPitch = 48;
    box.WidthInBytes = 40;
    box.Height = 10;
    result("box", cu.Memcpy2DAsync(&box, NULL));
    fact("box_value", "%x", peek(dev + 48));
    box.dstPitch = 32;
    result("box_pitch_too_small", cu.Memcpy2DAsync(&box, NULL));
    box.dstPitch = 48;
    box.Height = 0;
    result("box_empty", cu.Memcpy2DAsync(&box, NULL));
    box.Height = 4;
    box.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    box.srcDevice = dev + 4096;
    result("box_unified", cu.Memcpy2DAsync(&box, NULL));
    CUDA_MEMCPY3D cube;
    memset(&cube, 0, sizeof cube);
    cube.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    cube.srcDevice = dev;
    cube.srcPitch = 16;
    cube.srcHeight = 4;
    cube.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    cube.dstDevice = dev + 8192;
    cube.dstPitch = 32;
    cube.dstHeight = 8;
    cube.WidthInBytes = 16;
    cube.Height = 4;
    cube.Depth = 3;
    result("cube", cu.Memcpy3DAsync(&cube, NULL));
    cube.srcHeight = 2;
    result("cube_height_too_small", cu.Memcpy3DAsync(&cube, NULL));
}

static void copy_section(int role) {
    (void)role;
    start_device();
    CUdeviceptr dev = 0;
    static unsigned char host[4096], back[4096];
    cu.MemAlloc(&dev, 2 * MIB);
    for (size_t i = 0; i < sizeof host; i++) {
        host[i] = (unsigned char)i;
    }
    result("zero_bytes", cu.MemcpyAsync(dev, dev + 64, 0, NULL));
    result("zero_bytes_null", cu.MemcpyAsync(0, 0, 0, NULL));
    result("null", cu.MemcpyAsync(dev, 0, 16, NULL));
    result("past_end", cu.MemcpyDtoDAsync(dev + 2 * MIB - 8, dev, 16, NULL));
    result("host_as_device", cu.MemcpyDtoDAsync((CUdeviceptr)(uintptr_t)host, dev, 16, NULL));
    result("device_as_host", cu.MemcpyHtoDAsync(dev, (void *)(uintptr_t)(dev + 4096), 16, NULL));
    result("unified_up", cu.MemcpyAsync(dev, (CUdeviceptr)(uintptr_t)host, sizeof host, NULL));
    result("unified_down", cu.MemcpyAsync((CUdeviceptr)(uintptr_t)back, dev, sizeof back, NULL));
    result("sync", cu.CtxSynchronize());
    fact("same", "%d", memcmp(host, back, sizeof host) == 0);
    result("memset32_odd", cu.MemsetD32Async(dev + 2, 7, 4, NULL));
    result("memset8_past_end", cu.MemsetD8Async(dev + 2 * MIB - 8, 7, 64, NULL));
    result("memset8_zero", cu.MemsetD8Async(dev, 7, 0, NULL));
    result("memset8_host", cu.MemsetD8Async((CUdeviceptr)(uintptr_t)host, 7, 16, NULL));
    copy_box_facts(dev, host);
    result("end", cu.CtxSynchronize());
}

static void kernel_section(int role) {
    (void)role;
    start_device();
    CUdeviceptr dev = 0;
    CUfunction fill = NULL, none = NULL;
    CUmodule bad = NULL;
    int value = -1;
    result("module_garbage_null", cu.ModuleLoadData(&bad, NULL));
    CUmodule module = fill_module(&fill);
    result("function_missing", cu.ModuleGetFunction(&none, module, "conformance_none"));
    result("load", cu.FuncLoad != NULL ? cu.FuncLoad(fill) : CUDA_ERROR_NOT_FOUND);
    result("max_threads", cu.FuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, fill));
    fact("max_threads_value", "%d", value);
    result("attribute_bad", cu.FuncGetAttribute(&value, (CUfunction_attribute)999, fill));
    cu.MemAlloc(&dev, 4096);
    cu.MemsetD8Async(dev, 0, 4096, NULL);
    result("launch", fill_launch(fill, dev, 5, 300, NULL));
    result("sync", cu.CtxSynchronize());
    fact("values", "%u %u %u", peek(dev), peek(dev + 1196), peek(dev + 1200));
    struct fill args = {dev, 6, 10};
    void *params[1] = {&args};
    result("no_blocks", cu.LaunchKernel(fill, 0, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    result("no_threads", cu.LaunchKernel(fill, 1, 1, 1, 0, 1, 1, 0, NULL, params, NULL));
    result("too_many_threads", cu.LaunchKernel(fill, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL));
    result("too_many_blocks_y", cu.LaunchKernel(fill, 1, 65536, 1, 128, 1, 1, 0, NULL, params, NULL));
    result("too_much_shared", cu.LaunchKernel(fill, 1, 1, 1, 128, 1, 1, 1 << 20, NULL, params, NULL));
    result("no_params", cu.LaunchKernel(fill, 1, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL));
    result("no_function", cu.LaunchKernel(NULL, 1, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    CUlaunchConfig config;
    CUlaunchAttribute attribute;
    memset(&config, 0, sizeof config);
    memset(&attribute, 0, sizeof attribute);
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 128;
    result("ex", cu.LaunchKernelEx(&config, fill, params, NULL));
    attribute.id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
    attribute.value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    config.attrs = &attribute;
    config.numAttrs = 1;
    result("ex_domain", cu.LaunchKernelEx(&config, fill, params, NULL));
    attribute.value.memSyncDomain = (CUlaunchMemSyncDomain)77;
    result("ex_domain_bad", cu.LaunchKernelEx(&config, fill, params, NULL));
    result("end", cu.CtxSynchronize());
    result("unload", cu.ModuleUnload(module));
}

static void module_garbage_section(int role) {
    (void)role;
    start_device();
    CUmodule module = NULL;
    static const char garbage[256] = "this is neither a fatbin nor PTX";
    result("load", cu.ModuleLoadData(&module, garbage));
    result("unload_null", cu.ModuleUnload(NULL));
}

static void CUDA_CB host_note(void *data) {
    *(int *)data += 1;
}

static void host_func_section(int role) {
    (void)role;
    start_device();
    static int calls;
    result("launch", cu.LaunchHostFunc(NULL, host_note, &calls));
    result("launch_null", cu.LaunchHostFunc(NULL, NULL, &calls));
    result("sync", cu.CtxSynchronize());
    fact("calls", "%d", calls);
}

const struct section stream_sections[] = {{"stream", stream_section, 1},
                                          {"implicit_order", implicit_order_section, 1},
                                          {"memop", memop_section, 1},
                                          {"memop_null_batch", memop_null_batch_section, 1},
                                          {"destroy_pending", destroy_pending_section, 1},
                                          {"event", event_section, 1},
                                          {"copy", copy_section, 1},
                                          {"kernel", kernel_section, 1},
                                          {"module_garbage", module_garbage_section, 1},
                                          {"host_func", host_func_section, 1},
                                          {NULL, NULL, 0}};
