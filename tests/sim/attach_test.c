/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that the application has already: what becomes a segment, what is refused and how it is called.
 */
#include "apart.h"

static CUcontext context;

/* The application: its own context of device 0 is current. */
static void application(void) {
    app_start();
    CU(app.cuDevicePrimaryCtxRetain(&context, 0));
    CU(app.cuCtxSetCurrent(context));
}

static void application_end(void) {
    CU(app.cuCtxSetCurrent(NULL));
    CU(app.cuDevicePrimaryCtxRelease(0));
}

static void *at(CUdeviceptr address, size_t offset) {
    return (void *)(uintptr_t)(address + offset);
}

/* ---- the application's memory ---- */

static CUdeviceptr plain(size_t bytes) {
    CUdeviceptr address = 0;
    CU(app.cuMemAlloc(&address, bytes));
    return address;
}

/* Virtual memory of several allocations, all accessible or none, or with a hole where a size is 0. */
typedef struct {
    CUdeviceptr base;
    size_t reserved;
    int count;
    size_t sizes[4];
    CUmemGenericAllocationHandle handles[4];
} stretch;

static CUmemAllocationProp prop_of(CUmemLocationType where, unsigned types) {
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = where;
    prop.requestedHandleTypes = (CUmemAllocationHandleType)types;
    return prop;
}

static void open_access(CUdeviceptr address, size_t bytes, CUmemAccess_flags flags) {
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = flags;
    CU(app.cuMemSetAccess(address, bytes, &access, 1));
}

static stretch stretched(const size_t *sizes, int count, CUmemLocationType where, unsigned types) {
    stretch s = {.count = count};
    const CUmemAllocationProp prop = prop_of(where, types);
    for (int i = 0; i < count; i++)
        s.reserved += sizes[i] > 0 ? sizes[i] : 2 * MIB;
    CU(app.cuMemAddressReserve(&s.base, s.reserved, 0, 0, 0));
    CUdeviceptr next = s.base;
    for (int i = 0; i < count; i++) {
        s.sizes[i] = sizes[i];
        if (sizes[i] > 0) {
            CU(app.cuMemCreate(&s.handles[i], sizes[i], &prop, 0));
            CU(app.cuMemMap(next, sizes[i], 0, s.handles[i], 0));
            open_access(next, sizes[i], CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        }
        next += sizes[i] > 0 ? sizes[i] : 2 * MIB;
    }
    return s;
}

static void drop_stretch(stretch *s) {
    CUdeviceptr next = s->base;
    for (int i = 0; i < s->count; i++) {
        if (s->sizes[i] > 0) {
            CU(app.cuMemUnmap(next, s->sizes[i]));
            CU(app.cuMemRelease(s->handles[i]));
        }
        next += s->sizes[i] > 0 ? s->sizes[i] : 2 * MIB;
    }
    CU(app.cuMemAddressFree(s->base, s->reserved));
}

static CUmemoryPool pool_with(unsigned types) {
    CUmemoryPool pool = NULL;
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.handleTypes = (CUmemAllocationHandleType)types;
    CU(app.cuMemPoolCreate(&pool, &props));
    return pool;
}

static CUdeviceptr pooled(CUmemoryPool pool, size_t bytes) {
    CUdeviceptr address = 0;
    CU(app.cuMemAllocFromPoolAsync(&address, bytes, pool, NULL));
    CU(app.cuCtxSynchronize());
    return address;
}

enum { FD = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };

/* ---- what is attached ---- */

/*
 * Attaches [base + offset, + bytes), lets the peer read and write exactly those bytes, and looks whether anything
 * around them changed. The allocation has `size` bytes.
 */
static void share(pw_gpu *gpu, CUdeviceptr base, size_t size, size_t offset, size_t bytes, peerwin_handle kind,
                  int pieces) {
    pw_segment segment;
    size_t place = 0;
    OK(pw_gpu_zero(gpu, at(base, 0), size, SITE));
    fill(gpu, at(base, offset), bytes, 7);
    OK(pw_gpu_attach(gpu, at(base, offset), bytes, SITE, &segment, &place));
    CHECK(segment.ops->kind == kind && segment.attached == 1 && segment.id != 0 && segment.gpu == gpu);
    CHECK(segment.num_pieces == pieces && (char *)segment.base + place == at(base, offset));
    CHECK(place + bytes <= segment.mapped);
    OK(segment.ops->seal(&segment, 0, SITE));
    tell(&place, sizeof place);
    tell(&bytes, sizeof bytes);
    send_segment(&segment);
    segment.ops->exported(&segment);
    await();
    check_byte(gpu, at(base, 0), offset, 0);
    check_fill(gpu, at(base, offset), bytes, 8);
    check_byte(gpu, at(base, offset + bytes), size - offset - bytes, 0);
    step(); /* the peer unmaps */
    OK(segment.ops->release(&segment));
    check_byte(gpu, at(base, 0), offset, 0); /* it is all still there */
}

/* The peer of `share`, as often as it is called. */
static void take(pw_gpu *gpu) {
    size_t place = 0;
    size_t bytes = 0;
    hear(&place, sizeof place);
    hear(&bytes, sizeof bytes);
    apart_snapshot before = snapshot();
    pw_mapping mapping = receive_mapping(gpu, 0);
    check_fill(gpu, (char *)mapping.base + place, bytes, 7);
    fill(gpu, (char *)mapping.base + place, bytes, 8);
    step();
    OK(mapping.ops->unmap(&mapping));
    check_snapshot(&before, "the importer has unmapped");
    hand();
}

static void take_all(int count) {
    apart_snapshot nothing = snapshot();
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    for (int i = 0; i < count; i++)
        take(gpu);
    gpu_stop(gpu);
    check_snapshot(&nothing, "the importer has ended");
}

static void take_one(void) {
    take_all(1);
}

static void take_three(void) {
    take_all(3);
}

static void take_four(void) {
    take_all(4);
}

static void c4_inside_an_allocation(void) {
    application();
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_CURRENT);
    CUdeviceptr base = plain(8 * MIB);
    apart_snapshot before = snapshot();
    share(gpu, base, 8 * MIB, 768, 1000, PEERWIN_HANDLE_LEGACY, 1);
    share(gpu, base, 8 * MIB, 5 * MIB, 4096, PEERWIN_HANDLE_LEGACY, 1);
    share(gpu, base, 8 * MIB, 8 * MIB - 1, 1, PEERWIN_HANDLE_LEGACY, 1);
    check_snapshot(&before, "three windows over one allocation");
    CU(app.cuMemFree(base));
    base = plain(1000); /* no multiple of anything */
    share(gpu, base, 1000, 0, 1000, PEERWIN_HANDLE_LEGACY, 1);
    CU(app.cuMemFree(base));
    gpu_stop(gpu);
    application_end();
}

enum { MANY = 20, SMALL = 512 };

static void c4_many_allocations_in_one_block(void) {
    CUdeviceptr bases[MANY];
    pw_segment segments[MANY];
    size_t place = 0;
    application();
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_CURRENT);
    for (int i = 0; i < MANY; i++)
        bases[i] = plain(SMALL);
    apart_snapshot before = snapshot();
    for (int i = 0; i < MANY; i++) {
        fill(gpu, at(bases[i], 0), SMALL, (unsigned)i);
        OK(pw_gpu_attach(gpu, at(bases[i], 0), SMALL, SITE, &segments[i], &place));
        CHECK(place == 0 && segments[i].mapped == SMALL);
        for (int k = 0; k < i; k++)
            CHECK(segments[k].id != segments[i].id);
        send_segment(&segments[i]);
    }
    await();
    for (int i = 0; i < MANY; i++) {
        check_fill(gpu, at(bases[i], 0), SMALL, 100 + (unsigned)i);
        OK(segments[i].ops->release(&segments[i]));
    }
    check_snapshot(&before, "twenty windows");
    for (int i = 0; i < MANY; i++)
        CU(app.cuMemFree(bases[i]));
    gpu_stop(gpu);
    application_end();
}

static void take_many(void) {
    pw_mapping mappings[MANY];
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    apart_snapshot before = snapshot();
    for (int i = 0; i < MANY; i++)
        mappings[i] = receive_mapping(gpu, 0);
    for (int i = 0; i < MANY; i++) {
        check_fill(gpu, mappings[i].base, SMALL, (unsigned)i);
        fill(gpu, mappings[i].base, SMALL, 100 + (unsigned)i);
    }
    for (int i = 0; i < MANY; i++)
        OK(mappings[i].ops->unmap(&mappings[i]));
    check_snapshot(&before, "twenty mappings");
    hand();
    gpu_stop(gpu);
}

static void virtual_memory(void) {
    static const size_t one[] = {6 << 20};
    static const size_t three[] = {2 << 20, 4 << 20, 2 << 20};
    application();
    apart_snapshot nothing = snapshot();
    stretch whole = stretched(one, 1, CU_MEM_LOCATION_TYPE_DEVICE, FD);
    stretch parts = stretched(three, 3, CU_MEM_LOCATION_TYPE_DEVICE, FD);
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_CURRENT);
    apart_snapshot before = snapshot();
    share(gpu, whole.base, 6 * MIB, 3 * MIB + 5, 1 * MIB, PEERWIN_HANDLE_FD, 1);
    share(gpu, parts.base, 8 * MIB, 0, 8 * MIB, PEERWIN_HANDLE_FD, 3);
    /* From the middle of the first into the second, and within the last. */
    share(gpu, parts.base, 8 * MIB, 1 * MIB, 3 * MIB, PEERWIN_HANDLE_FD, 2);
    share(gpu, parts.base, 8 * MIB, 6 * MIB + 1, 2 * MIB - 1, PEERWIN_HANDLE_FD, 1);
    check_snapshot(&before, "four windows over virtual memory");
    gpu_stop(gpu);
    drop_stretch(&whole);
    drop_stretch(&parts);
    check_snapshot(&nothing, "the application has freed its memory");
    application_end();
}

/* The same beginning with another continuation is other memory. */
static void stretches_have_names_of_their_own(void) {
    static const size_t sizes[] = {2 << 20, 2 << 20};
    const CUmemAllocationProp prop = prop_of(CU_MEM_LOCATION_TYPE_DEVICE, FD);
    uint64_t names[4];
    size_t place = 0;
    application();
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_CURRENT);
    stretch s = stretched(sizes, 2, CU_MEM_LOCATION_TYPE_DEVICE, FD);
    for (int i = 0; i < 4; i++) {
        pw_segment segment;
        if (i == 3) {
            CU(app.cuMemUnmap(s.base + 2 * MIB, 2 * MIB));
            CU(app.cuMemRelease(s.handles[1]));
            CU(app.cuMemCreate(&s.handles[1], 2 * MIB, &prop, 0));
            CU(app.cuMemMap(s.base + 2 * MIB, 2 * MIB, 0, s.handles[1], 0));
            open_access(s.base + 2 * MIB, 2 * MIB, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        }
        OK(pw_gpu_attach(gpu, at(s.base, 0), i == 0 ? 100 : 4 * MIB, SITE, &segment, &place));
        names[i] = segment.id;
        OK(segment.ops->release(&segment));
    }
    CHECK(names[0] != names[1] && names[1] == names[2] && names[2] != names[3] && names[3] != names[0]);
    drop_stretch(&s);
    gpu_stop(gpu);
    application_end();
}

static void c3_a_shareable_pool(void) {
    application();
    apart_snapshot nothing = snapshot();
    CUmemoryPool pool = pool_with(FD);
    CUdeviceptr first = pooled(pool, 3 * MIB);
    CUdeviceptr second = pooled(pool, 1000);
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_CURRENT);
    apart_snapshot before = snapshot();
    share(gpu, first, 3 * MIB, 0, 3 * MIB, PEERWIN_HANDLE_POOL, 1);
    share(gpu, first, 3 * MIB, 1 * MIB + 3, 1000, PEERWIN_HANDLE_POOL, 1);
    share(gpu, second, 1000, 10, 900, PEERWIN_HANDLE_POOL, 1);
    check_snapshot(&before, "three windows over pool memory");
    CU(app.cuMemFree(first));
    CU(app.cuMemFree(second));
    CU(app.cuMemPoolDestroy(pool));
    gpu_stop(gpu);
    check_snapshot(&nothing, "the application has freed its memory");
    application_end();
}

/* Windows over two allocations of one pool, which the importer has once. */
static void one_pool_several_times(void) {
    pw_segment segments[3];
    size_t place = 0;
    application();
    CUmemoryPool pool = pool_with(FD);
    CUdeviceptr bases[2] = {pooled(pool, 3 * MIB), pooled(pool, 4096)};
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_CURRENT);
    fill(gpu, at(bases[0], 0), 3 * MIB, 1);
    fill(gpu, at(bases[1], 0), 4096, 2);
    for (int i = 0; i < 3; i++) {
        OK(pw_gpu_attach(gpu, at(bases[i % 2], 0), 4096, SITE, &segments[i], &place));
        send_segment(&segments[i]);
        segments[i].ops->exported(&segments[i]);
    }
    CHECK(segments[0].id == segments[2].id && segments[0].id != segments[1].id);
    await();
    for (int i = 0; i < 3; i++)
        OK(segments[i].ops->release(&segments[i]));
    CU(app.cuMemFree(bases[0]));
    CU(app.cuMemFree(bases[1]));
    CU(app.cuMemPoolDestroy(pool));
    gpu_stop(gpu);
    application_end();
}

static void take_one_pool_several_times(void) {
    pw_mapping mappings[3];
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    apart_snapshot before = snapshot();
    mappings[0] = receive_mapping(gpu, 0);
    mappings[1] = receive_mapping(gpu, 0);
    check_fill(gpu, mappings[0].base, 3 * MIB, 1);
    check_fill(gpu, mappings[1].base, 4096, 2);
    OK(mappings[0].ops->unmap(&mappings[0]));
    check_fill(gpu, mappings[1].base, 4096, 2); /* the pool is still there */
    mappings[2] = receive_mapping(gpu, 0);      /* the first one again */
    check_fill(gpu, mappings[2].base, 3 * MIB, 1);
    OK(mappings[1].ops->unmap(&mappings[1]));
    check_fill(gpu, mappings[2].base, 3 * MIB, 1);
    OK(mappings[2].ops->unmap(&mappings[2]));
    check_snapshot(&before, "the last pointer has gone, and the pool with it");
    hand();
    gpu_stop(gpu);
}

static void nothing_is_attached(void) {
    pw_segment segment;
    pw_handle handle;
    size_t place = 1;
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    OK(pw_gpu_attach(gpu, NULL, 0, SITE, &segment, &place));
    CHECK(segment.mapped == 0 && segment.base == NULL && place == 0 && segment.num_pieces == 1);
    OK(segment.ops->seal(&segment, PW_READ_ONLY, SITE));
    OK(segment.ops->export_handle(&segment, 0, &handle, SITE));
    segment.ops->exported(&segment);
    OK(segment.ops->release(&segment));
    gpu_stop(gpu);
}

/* ---- what is not ---- */

static void refused(pw_gpu *gpu, CUdeviceptr address, size_t bytes, peerwin_status wanted, const char *word) {
    pw_segment segment;
    size_t place = 0;
    apart_snapshot before = snapshot();
    REFUSED(pw_gpu_attach(gpu, at(address, 0), bytes, SITE, &segment, &place), wanted, word);
    check_snapshot(&before, word);
}

static void c2_c3_refusals_by_name(void) {
    static const size_t one[] = {2 << 20};
    static int on_the_stack_of_nobody;
    CUdeviceptr managed = 0;
    CUdeviceptr freed = 0;
    CUmemoryPool plain_pool = NULL;
    void *pinned = NULL;
    application();
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_CURRENT);
    CU(app.cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    refused(gpu, managed, 4096, PEERWIN_ERR_UNSUPPORTED, "managed");
    CU(app.cuMemFree(managed));
    CU(app.cuDeviceGetDefaultMemPool(&plain_pool, 0));
    CUdeviceptr ordered = pooled(plain_pool, 4096);
    refused(gpu, ordered, 4096, PEERWIN_ERR_UNSUPPORTED, "pool");
    CU(app.cuMemFree(ordered));
    CUmemoryPool closed = pool_with(CU_MEM_HANDLE_TYPE_NONE);
    ordered = pooled(closed, 4096);
    refused(gpu, ordered, 4096, PEERWIN_ERR_UNSUPPORTED, "pool");
    CU(app.cuMemFree(ordered));
    CU(app.cuMemPoolDestroy(closed));
    CU(app.cuMemAllocHost(&pinned, 4096));
    refused(gpu, (CUdeviceptr)(uintptr_t)pinned, 4096, PEERWIN_ERR_UNSUPPORTED, "host memory");
    CU(app.cuMemFreeHost(pinned));
    refused(gpu, (CUdeviceptr)(uintptr_t)&on_the_stack_of_nobody, 4, PEERWIN_ERR_UNSUPPORTED, "private host memory");
    freed = plain(4 * MIB);
    CU(app.cuMemFree(freed));
    refused(gpu, freed, 4096, PEERWIN_ERR_UNSUPPORTED, "freed");
    stretch closed_range = stretched(one, 1, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_HANDLE_TYPE_NONE);
    refused(gpu, closed_range.base, 4096, PEERWIN_ERR_UNSUPPORTED, "virtual memory");
    drop_stretch(&closed_range);
    stretch host_range = stretched(one, 1, CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_HANDLE_TYPE_NONE);
    refused(gpu, host_range.base, 4096, PEERWIN_ERR_UNSUPPORTED, "host memory");
    drop_stretch(&host_range);
    refused(gpu, 0, 1, PEERWIN_ERR_ARG, "NULL");
    gpu_stop(gpu);
    application_end();
}

static void ranges_that_leave_their_memory(void) {
    static const size_t three[] = {2 << 20, 0, 2 << 20};
    application();
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_CURRENT);
    CUdeviceptr base = plain(3 * MIB);
    refused(gpu, base, 3 * MIB + 1, PEERWIN_ERR_RANGE, "leave");
    refused(gpu, base + MIB, 2 * MIB + 1, PEERWIN_ERR_RANGE, "leave");
    refused(gpu, base + MIB, SIZE_MAX, PEERWIN_ERR_RANGE, "leave");
    refused(gpu, base, SIZE_MAX / 2, PEERWIN_ERR_RANGE, "leave");
    CU(app.cuMemFree(base));
    CUmemoryPool pool = pool_with(FD);
    base = pooled(pool, 1000);
    refused(gpu, base + 1, 1000, PEERWIN_ERR_RANGE, "leave");
    CU(app.cuMemFree(base));
    CU(app.cuMemPoolDestroy(pool));
    stretch s = stretched(three, 3, CU_MEM_LOCATION_TYPE_DEVICE, FD);
    refused(gpu, s.base, 2 * MIB + 1, PEERWIN_ERR_RANGE, "leave");
    refused(gpu, s.base, 6 * MIB, PEERWIN_ERR_RANGE, "leave");
    refused(gpu, s.base + 4 * MIB, 2 * MIB + 1, PEERWIN_ERR_RANGE, "leave");
    drop_stretch(&s);
    gpu_stop(gpu);
    application_end();
}

static void virtual_memory_that_cannot_be_touched(void) {
    static const size_t two[] = {2 << 20, 2 << 20};
    application();
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_CURRENT);
    stretch s = stretched(two, 2, CU_MEM_LOCATION_TYPE_DEVICE, FD);
    open_access(s.base + 2 * MIB, 2 * MIB, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    refused(gpu, s.base, 4 * MIB, PEERWIN_ERR_ARG, "cuMemSetAccess");
    refused(gpu, s.base + 3 * MIB, 4096, PEERWIN_ERR_ARG, "cuMemSetAccess");
    drop_stretch(&s);
    gpu_stop(gpu);
    application_end();
}

/* C15: the pointer is on a device that is not current, and not the context's. */
static void c15_memory_of_another_device(void) {
    static const int declared[] = {0};
    CUcontext now = NULL;
    pw_gpu *gpu = NULL;
    pw_gpu_request request = {.library = apart_library, .choice = PEERWIN_DEVICE(1), .timeout_ms = 20000};
    application();
    CUdeviceptr base = plain(4096);
    OK(pw_gpu_open(&request, SITE, &gpu));
    OK(pw_gpu_enter(gpu, SITE));
    refused(gpu, base, 4096, PEERWIN_ERR_ARG, "device 0");
    gpu_stop(gpu);
    CU(app.cuCtxGetCurrent(&now));
    CHECK(now == context);
    request.devices = declared;
    request.num_devices = 1;
    OK(pw_gpu_open(&request, SITE, &gpu));
    OK(pw_gpu_enter(gpu, SITE));
    pw_segment segment;
    size_t place = 0;
    OK(pw_gpu_attach(gpu, at(base, 0), 4096, SITE, &segment, &place)); /* from now on it is within reach */
    OK(segment.ops->release(&segment));
    share(gpu, base, 4096, 96, 4000, PEERWIN_HANDLE_LEGACY, 1);
    CUmemoryPool pool = pool_with(FD); /* its owner decides who has access */
    CUdeviceptr far = pooled(pool, 4096);
    refused(gpu, far, 4096, PEERWIN_ERR_ARG, "cudaMemPoolSetAccess");
    CU(app.cuMemFree(far));
    CU(app.cuMemPoolDestroy(pool));
    refused(gpu, base, 4097, PEERWIN_ERR_RANGE, "leave");
    gpu_stop(gpu);
    CU(app.cuMemFree(base));
    application_end();
}

/* What came from another process cannot go on to a third. */
static void lend(void) {
    static const peerwin_handle kinds[] = {PEERWIN_HANDLE_LEGACY, PEERWIN_HANDLE_FD};
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pw_segment segment;
        const pw_memory_ops *ops = pw_memory_on_gpu(kinds[i]);
        OK(ops->alloc(gpu, &(pw_order){4096, 0, "x", NULL}, SITE, &segment));
        send_segment(&segment);
        await();
        OK(ops->release(&segment));
    }
    gpu_stop(gpu);
}

static void borrow(void) {
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    for (int i = 0; i < 2; i++) {
        pw_mapping mapping = receive_mapping(gpu, 0);
        refused(gpu, (CUdeviceptr)(uintptr_t)mapping.base, 4096, PEERWIN_ERR_UNSUPPORTED, "another process");
        OK(mapping.ops->unmap(&mapping));
        hand();
    }
    gpu_stop(gpu);
}

/* C8, C9: memory that comes and goes at the same addresses. */
enum { ROUNDS = 200 };

static void c8_memory_comes_and_goes(void) {
    application();
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_CURRENT);
    apart_snapshot before = snapshot();
    for (unsigned round = 0; round < ROUNDS; round++) {
        pw_segment segment;
        size_t place = 0;
        CUdeviceptr base = plain(4 * MIB);
        fill(gpu, at(base, 0), 5000, round);
        OK(pw_gpu_attach(gpu, at(base, 0), 4 * MIB, SITE, &segment, &place));
        send_segment(&segment);
        segment.ops->exported(&segment);
        await();
        OK(segment.ops->release(&segment));
        CU(app.cuMemFree(base));
        check_snapshot(&before, "a round");
    }
    gpu_stop(gpu);
    application_end();
}

static void c8_follow(void) {
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    apart_snapshot before = snapshot();
    for (unsigned round = 0; round < ROUNDS; round++) {
        pw_mapping mapping = receive_mapping(gpu, 0);
        check_fill(gpu, mapping.base, 5000, round);
        OK(mapping.ops->unmap(&mapping));
        check_snapshot(&before, "a round");
        hand();
    }
    gpu_stop(gpu);
}

int main(int argc, char **argv) {
    static const apart_case cases[] = {
        {"c4_inside_an_allocation", c4_inside_an_allocation, take_four, NULL, NULL, 0},
        {"c4_many_allocations_in_one_block", c4_many_allocations_in_one_block, take_many, NULL, NULL, 0},
        {"virtual_memory", virtual_memory, take_four, NULL, NULL, 0},
        {"stretches_have_names_of_their_own", stretches_have_names_of_their_own, NULL, NULL, NULL, 0},
        {"c3_a_shareable_pool", c3_a_shareable_pool, take_three, NULL, NULL, 0},
        {"one_pool_several_times", one_pool_several_times, take_one_pool_several_times, NULL, NULL, 0},
        {"nothing_is_attached", nothing_is_attached, NULL, NULL, NULL, 0},
        {"c2_c3_refusals_by_name", c2_c3_refusals_by_name, NULL, NULL, NULL, 0},
        {"ranges_that_leave_their_memory", ranges_that_leave_their_memory, NULL, NULL, NULL, 0},
        {"virtual_memory_that_cannot_be_touched", virtual_memory_that_cannot_be_touched, NULL, NULL, NULL, 0},
        {"c15_memory_of_another_device", c15_memory_of_another_device, take_one, "SIMCUDA_TOPOLOGY=nvswitch:2", NULL,
         1},
        {"memory_of_another_process", lend, borrow, NULL, NULL, 0},
        {"c8_memory_comes_and_goes", c8_memory_comes_and_goes, c8_follow, NULL, NULL, 0},
        {NULL, NULL, NULL, NULL, NULL, 0},
    };
    return apart_main(argc, argv, cases);
}
