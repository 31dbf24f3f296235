/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Each kind of memory between two processes: allocated here and written, mapped there, read and written back; and what
 * an importer does with handles that are not what they should be.
 */
#include "apart.h"

#include "base/fd.h"

#include <fcntl.h>
#include <sys/mman.h>

enum { BYTES = (5 << 20) + 123 };

/* ---- there and back ---- */

/* The owner's side, once for each kind of handle: the peer walks in step. */
static void own(peerwin_handle kind) {
    apart_snapshot nothing = snapshot();
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    apart_snapshot before = snapshot();
    pw_segment segment;
    const pw_memory_ops *ops = pw_memory_on_gpu(kind);
    CHECK(ops != NULL && ops->kind == kind && ops->size == sizeof *ops);
    OK(ops->alloc(gpu, &(pw_order){BYTES, 0, "peerwin-test", NULL}, SITE, &segment));
    CHECK(segment.ops == ops && segment.gpu == gpu && segment.num_pieces == 1 && !segment.attached);
    CHECK(segment.mapped >= BYTES && segment.mapped % ops->granularity(gpu) == 0);
    check_byte(gpu, segment.base, segment.mapped, 0);
    fill(gpu, segment.base, segment.mapped, 1);
    OK(ops->seal(&segment, 0, SITE));
    send_segment(&segment);
    ops->exported(&segment);
    CHECK(snapshot().live[APART_FDS] == before.live[APART_FDS] && segment.fd == -1);
    await();
    check_fill(gpu, segment.base, segment.mapped, 2); /* as the peer left it */
    step();                                           /* it unmaps */
    OK(ops->release(&segment));
    check_snapshot(&before, "the owner has released");
    gpu_stop(gpu);
    check_snapshot(&nothing, "the owner has ended");
}

static void import_on(int choice) {
    apart_snapshot nothing = snapshot();
    pw_gpu *gpu = gpu_start(choice);
    apart_snapshot before = snapshot();
    pw_mapping mapping = receive_mapping(gpu, 0);
    const pw_memory_ops *ops = mapping.ops;
    check_fill(gpu, mapping.base, mapping.mapped, 1);
    fill(gpu, mapping.base, mapping.mapped, 2);
    step();
    OK(ops->unmap(&mapping));
    CHECK(mapping.base == NULL);
    check_snapshot(&before, "the importer has unmapped");
    gpu_stop(gpu);
    check_snapshot(&nothing, "the importer has ended");
    hand();
}

static void import_here(void) {
    import_on(PEERWIN_DEVICE_SPREAD);
}

static void import_on_another_device(void) {
    import_on(PEERWIN_DEVICE(1));
}

static void own_legacy(void) {
    own(PEERWIN_HANDLE_LEGACY);
}

static void own_fd(void) {
    own(PEERWIN_HANDLE_FD);
}

static void own_fabric(void) {
    own(PEERWIN_HANDLE_FABRIC);
}

static void own_host(void) {
    own(PEERWIN_HANDLE_HOST);
}

static void windows_of_no_size(void) {
    static const peerwin_handle kinds[] = {PEERWIN_HANDLE_HOST, PEERWIN_HANDLE_LEGACY, PEERWIN_HANDLE_FD,
                                           PEERWIN_HANDLE_FABRIC};
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    apart_snapshot before = snapshot();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pw_segment segment;
        pw_handle handle;
        const pw_memory_ops *ops = pw_memory_on_gpu(kinds[i]);
        OK(ops->alloc(gpu, &(pw_order){0, 0, "peerwin-test", NULL}, SITE, &segment));
        CHECK(segment.mapped == 0 && segment.base == NULL);
        OK(ops->seal(&segment, PW_READ_ONLY, SITE));
        OK(ops->export_handle(&segment, 0, &handle, SITE));
        CHECK(handle.fd == -1 && handle.bytes == 0);
        pw_mapping mapping = {.ops = ops, .gpu = gpu};
        OK(ops->map(&mapping, &handle, 0, SITE));
        OK(ops->unmap(&mapping));
        OK(ops->release(&segment));
    }
    check_snapshot(&before, "segments of no size");
    gpu_stop(gpu);
}

static void sizes_beyond_memory(void) {
    static const peerwin_handle kinds[] = {PEERWIN_HANDLE_HOST, PEERWIN_HANDLE_LEGACY, PEERWIN_HANDLE_FD};
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    apart_snapshot before = snapshot();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        pw_segment segment;
        const pw_memory_ops *ops = pw_memory_on_gpu(kinds[i]);
        CHECK_STATUS(ops->alloc(gpu, &(pw_order){SIZE_MAX, 0, "x", NULL}, SITE, &segment), PEERWIN_ERR_NO_MEMORY);
        CHECK_STATUS(ops->alloc(gpu, &(pw_order){(size_t)1 << 45, 0, "x", NULL}, SITE, &segment),
                     PEERWIN_ERR_NO_MEMORY);
    }
    check_snapshot(&before, "memory that is not to be had");
    gpu_stop(gpu);
}

static void there_are_no_other_kinds(void) {
    CHECK(pw_memory_on_gpu((peerwin_handle)0) == NULL);
    CHECK(pw_memory_on_gpu((peerwin_handle)3) == NULL);
    CHECK(pw_memory_on_gpu((peerwin_handle)32) == NULL);
}

static void pools_are_attached_only(void) {
    pw_segment segment;
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    REFUSED(pw_memory_on_gpu(PEERWIN_HANDLE_POOL)->alloc(gpu, &(pw_order){BYTES, 0, "x", NULL}, SITE, &segment),
            PEERWIN_ERR_UNSUPPORTED, "pool");
    gpu_stop(gpu);
}

/* The attribute says yes, and creating says no. */
static void fabric_without_a_channel(void) {
    pw_segment segment;
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    apart_snapshot before = snapshot();
    CHECK(pw_gpu_about(gpu)->handles & PEERWIN_HANDLE_FABRIC);
    REFUSED(pw_memory_on_gpu(PEERWIN_HANDLE_FABRIC)->alloc(gpu, &(pw_order){BYTES, 0, "x", NULL}, SITE, &segment),
            PEERWIN_ERR_PERMISSION, "IMEX");
    check_snapshot(&before, "a fabric handle that was denied");
    gpu_stop(gpu);
}

/* ---- read-only ---- */

static void own_read_only(peerwin_handle kind) {
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    pw_segment segment;
    const pw_memory_ops *ops = pw_memory_on_gpu(kind);
    OK(ops->alloc(gpu, &(pw_order){BYTES, 0, "peerwin-test", NULL}, SITE, &segment));
    fill(gpu, segment.base, BYTES, 1);
    OK(ops->seal(&segment, PW_READ_ONLY, SITE));
    send_segment(&segment);
    ops->exported(&segment);
    await();
    check_fill(gpu, segment.base, BYTES, 1);
    fill(gpu, segment.base, BYTES, 3); /* the owner still writes */
    step();
    OK(ops->release(&segment));
    gpu_stop(gpu);
}

static void own_fd_read_only(void) {
    own_read_only(PEERWIN_HANDLE_FD);
}

static void own_host_read_only(void) {
    own_read_only(PEERWIN_HANDLE_HOST);
}

static void import_read_only(void) {
    unsigned char byte = 0;
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    pw_mapping mapping = receive_mapping(gpu, PW_READ_ONLY);
    check_fill(gpu, mapping.base, BYTES, 1);
    /* What a driver says to a copy into registered memory is its own affair, as long as nothing arrives. */
    if (mapping.ops->kind == PEERWIN_HANDLE_FD)
        CHECK_STATUS(pw_gpu_write(gpu, mapping.base, &byte, 1, SITE), PEERWIN_ERR_CUDA);
    step();
    check_fill(gpu, mapping.base, BYTES, 3);
    OK(mapping.ops->unmap(&mapping));
    gpu_stop(gpu);
    hand();
}

static void kinds_without_read_only(void) {
    pw_segment segment;
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    const pw_memory_ops *legacy = pw_memory_on_gpu(PEERWIN_HANDLE_LEGACY);
    pw_mapping mapping = {.ops = legacy, .gpu = gpu, .mapped = BYTES, .flags = PW_READ_ONLY};
    pw_handle handle = {.kind = PEERWIN_HANDLE_LEGACY, .fd = -1, .bytes = BYTES};
    OK(legacy->alloc(gpu, &(pw_order){BYTES, 0, "x", NULL}, SITE, &segment));
    REFUSED(legacy->seal(&segment, PW_READ_ONLY, SITE), PEERWIN_ERR_UNSUPPORTED, "read-only");
    REFUSED(legacy->map(&mapping, &handle, 0, SITE), PEERWIN_ERR_UNSUPPORTED, "read-only");
    OK(legacy->release(&segment));
    const pw_memory_ops *pool = pw_memory_on_gpu(PEERWIN_HANDLE_POOL);
    segment = (pw_segment){.ops = pool, .gpu = gpu, .mapped = BYTES, .fd = -1};
    REFUSED(pool->seal(&segment, PW_READ_ONLY, SITE), PEERWIN_ERR_UNSUPPORTED, "read-only");
    gpu_stop(gpu);
}

/* ---- declared devices ---- */

static void own_for_two(void) {
    own_fd();
}

static unsigned access_of(int device, void *at) {
    unsigned long long flags = 0;
    CUmemLocation location;
    memset(&location, 0, sizeof location);
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device;
    CU(app.cuMemGetAccess(&flags, &location, (CUdeviceptr)(uintptr_t)at));
    return (unsigned)flags;
}

/* Of four devices, 2 is the rank's, 0 and 2 again are declared, 1 and 3 are not. */
static void import_for_two(void) {
    static const int devices[] = {0, 2};
    pw_gpu *gpu = NULL;
    pw_gpu_request request = {.library = apart_library,
                              .choice = PEERWIN_DEVICE(2),
                              .devices = devices,
                              .num_devices = 2,
                              .timeout_ms = 20000};
    app_start();
    OK(pw_gpu_open(&request, SITE, &gpu));
    OK(pw_gpu_enter(gpu, SITE));
    pw_mapping mapping = receive_mapping(gpu, 0);
    CHECK(access_of(0, mapping.base) == 3 && access_of(2, mapping.base) == 3);
    CHECK(access_of(1, mapping.base) == 0 && access_of(3, mapping.base) == 0);
    fill(gpu, mapping.base, mapping.mapped, 2);
    step();
    OK(mapping.ops->unmap(&mapping));
    gpu_stop(gpu);
    hand();
}

/* ---- handles that are not what they should be ---- */

static void expect_no_map(pw_gpu *gpu, peerwin_handle kind, int fd, size_t piece, size_t mapped, size_t offset) {
    apart_snapshot before = snapshot();
    pw_handle handle = {.kind = kind, .fd = fd, .bytes = piece};
    pw_mapping mapping = {.ops = pw_memory_on_gpu(kind), .gpu = gpu, .mapped = mapped};
    peerwin_status status = mapping.ops->map(&mapping, &handle, offset, SITE);
    CHECK(status == PEERWIN_ERR_CUDA || status == PEERWIN_ERR_INTERNAL || status == PEERWIN_ERR_UNSUPPORTED);
    CHECK(mapping.base == NULL);
    check_snapshot(&before, "a handle that was refused");
}

static void strange_handles(void) {
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    int file = memfd_create("stranger", MFD_CLOEXEC);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(file >= 0 && null >= 0 && ftruncate(file, 4 << 20) == 0);
    static const peerwin_handle kinds[] = {PEERWIN_HANDLE_FD, PEERWIN_HANDLE_POOL, PEERWIN_HANDLE_HOST};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        expect_no_map(gpu, kinds[i], file, 4 * MIB, 4 * MIB, 0);
        expect_no_map(gpu, kinds[i], null, 4 * MIB, 4 * MIB, 0);
        if (kinds[i] != PEERWIN_HANDLE_HOST)
            expect_no_map(gpu, kinds[i], -1, 4 * MIB, 4 * MIB, 0);
    }
    expect_no_map(gpu, PEERWIN_HANDLE_LEGACY, -1, 4 * MIB, 4 * MIB, 0);
    expect_no_map(gpu, PEERWIN_HANDLE_FABRIC, -1, 4 * MIB, 4 * MIB, 0);
    pw_close(&file);
    pw_close(&null);
    gpu_stop(gpu);
}

/* The sizes announced are checked before anything is imported, and the driver checks them against the memory. */
static void own_small_pieces(void) {
    pw_segment segment;
    pw_handle handle;
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    const pw_memory_ops *ops = pw_memory_on_gpu(PEERWIN_HANDLE_FD);
    OK(ops->alloc(gpu, &(pw_order){4 * MIB, 0, "x", NULL}, SITE, &segment));
    OK(ops->export_handle(&segment, 0, &handle, SITE));
    CHECK_STATUS(ops->export_handle(&segment, 1, &handle, SITE), PEERWIN_ERR_INTERNAL);
    CHECK_STATUS(ops->export_handle(&segment, -1, &handle, SITE), PEERWIN_ERR_INTERNAL);
    tell_fd(handle.fd);
    OK(ops->release(&segment)); /* the peer's descriptor keeps it */
    const pw_memory_ops *legacy = pw_memory_on_gpu(PEERWIN_HANDLE_LEGACY);
    OK(legacy->alloc(gpu, &(pw_order){4 * MIB, 0, "x", NULL}, SITE, &segment));
    OK(legacy->export_handle(&segment, 0, &handle, SITE));
    tell(&handle, sizeof handle);
    await();
    OK(legacy->release(&segment));
    gpu_stop(gpu);
}

static void import_wrong_sizes(void) {
    pw_handle handle;
    int fd = hear_fd();
    pw_gpu *gpu = gpu_start(PEERWIN_DEVICE_SPREAD);
    const size_t whole = 4 * MIB;
    hear(&handle, sizeof handle);
    expect_no_map(gpu, PEERWIN_HANDLE_FD, fd, 0, whole, 0);
    expect_no_map(gpu, PEERWIN_HANDLE_FD, fd, 4096, whole, 0);
    expect_no_map(gpu, PEERWIN_HANDLE_FD, fd, whole, whole - 1, 0);
    expect_no_map(gpu, PEERWIN_HANDLE_FD, fd, whole, 2 * MIB, 0);         /* the piece is larger than the whole */
    expect_no_map(gpu, PEERWIN_HANDLE_FD, fd, whole, 2 * whole, 2 * MIB); /* it does not begin where it should */
    expect_no_map(gpu, PEERWIN_HANDLE_FD, fd, SIZE_MAX / MIB * MIB, whole, 0);
    expect_no_map(gpu, PEERWIN_HANDLE_FD, fd, 2 * MIB, 2 * MIB, 0);
    expect_no_map(gpu, PEERWIN_HANDLE_FD, fd, 8 * MIB, 8 * MIB, 0);
    apart_snapshot before = snapshot();
    pw_mapping mapping = {.ops = pw_memory_on_gpu(PEERWIN_HANDLE_LEGACY), .gpu = gpu, .mapped = 6 * MIB};
    REFUSED(mapping.ops->map(&mapping, &handle, 0, SITE), PEERWIN_ERR_INTERNAL, "smaller");
    check_snapshot(&before, "a legacy handle that was refused");
    pw_close(&fd);
    gpu_stop(gpu);
    hand();
}

int main(int argc, char **argv) {
    static const apart_case cases[] = {
        {"legacy_there_and_back", own_legacy, import_here, NULL, NULL, 0},
        {"fd_there_and_back", own_fd, import_here, NULL, NULL, 0},
        {"host_there_and_back", own_host, import_here, NULL, NULL, 0},
        {"fabric_there_and_back", own_fabric, import_here, "SIMCUDA_IMEX=1", NULL, 1},
        {"legacy_to_another_device", own_legacy, import_on_another_device, "SIMCUDA_TOPOLOGY=nvswitch:2", NULL, 1},
        {"fd_to_another_device", own_fd, import_on_another_device, "SIMCUDA_TOPOLOGY=nvswitch:2", NULL, 1},
        {"host_to_another_device", own_host, import_on_another_device, "SIMCUDA_TOPOLOGY=pcie-no-peer:2", NULL, 1},
        {"fabric_to_another_device", own_fabric, import_on_another_device, "SIMCUDA_TOPOLOGY=nvswitch:2 SIMCUDA_IMEX=1",
         NULL, 1},
        {"legacy_to_a_device_of_ones_own", own_legacy, import_here, "SIMCUDA_TOPOLOGY=nvswitch:2",
         "CUDA_VISIBLE_DEVICES=1", 1},
        {"fd_to_a_device_of_ones_own", own_fd, import_here, "SIMCUDA_TOPOLOGY=nvswitch:2", "CUDA_VISIBLE_DEVICES=1", 1},
        {"windows_of_no_size", windows_of_no_size, NULL, NULL, NULL, 0},
        {"sizes_beyond_memory", sizes_beyond_memory, NULL, NULL, NULL, 0},
        {"there_are_no_other_kinds", there_are_no_other_kinds, NULL, NULL, NULL, 0},
        {"pools_are_attached_only", pools_are_attached_only, NULL, NULL, NULL, 0},
        {"c19_fabric_without_a_channel", fabric_without_a_channel, NULL, NULL, NULL, 0},
        {"fd_read_only", own_fd_read_only, import_read_only, "SIMCUDA_STRICT=0", NULL, 1},
        {"host_read_only", own_host_read_only, import_read_only, NULL, NULL, 0},
        {"kinds_without_read_only", kinds_without_read_only, NULL, NULL, NULL, 0},
        {"access_for_declared_devices", own_for_two, import_for_two, "SIMCUDA_TOPOLOGY=nvswitch:4", NULL, 1},
        {"strange_handles", strange_handles, NULL, NULL, NULL, 0},
        {"wrong_sizes", own_small_pieces, import_wrong_sizes, "SIMCUDA_STRICT=0", NULL, 0},
        {NULL, NULL, NULL, NULL, NULL, 0},
    };
    return apart_main(argc, argv, cases);
}
