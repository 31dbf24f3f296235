/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * As a measure for puts between two devices: the driver's own copy from one to the other, by a process that drives
 * both, with memory of its own on each. Not to be had where ranks share a device, or see only their own.
 */
#include "peer_side.h"

#include <string.h>

/* The device with that UUID as this process numbers it; -1 if it cannot see it. */
static int find_device(const pw_driver *driver, const CUuuid *uuid) {
    int devices = 0;
    bench_cuda_check(driver->cuDeviceGetCount(&devices), "cuDeviceGetCount");
    for (int i = 0; i < devices; i++) {
        CUdevice device = 0;
        CUuuid its;
        if (driver->cuDeviceGet(&device, i) == CUDA_SUCCESS && driver->cuDeviceGetUuid(&its, device) == CUDA_SUCCESS &&
            memcmp(&its, uuid, sizeof its) == 0)
            return i;
    }
    return -1;
}

/* A copy between contexts that have no access to each other goes through the host. */
static bool reach(const peer_side *s, CUcontext context) {
    const CUresult code = s->b->device->driver->cuCtxEnablePeerAccess(context, 0);
    return code == CUDA_SUCCESS || code == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

static void open_device(peer_side *s, int ordinal) {
    const pw_driver *driver = s->b->device->driver;
    peer_other *o = &s->other;
    CUcontext context = NULL, before = NULL;
    bench_cuda_check(driver->cuDeviceGet(&o->device, ordinal), "cuDeviceGet");
    if (driver->cuDevicePrimaryCtxRetain(&context, o->device) != CUDA_SUCCESS)
        return;
    if (!reach(s, context)) {
        bench_cuda_check(driver->cuDevicePrimaryCtxRelease(o->device), "cuDevicePrimaryCtxRelease");
        return;
    }
    bench_cuda_check(driver->cuCtxPushCurrent(context), "cuCtxPushCurrent");
    bench_cuda_check(driver->cuMemAlloc(&o->memory, plan_largest(s->quick)), "cuMemAlloc");
    bench_cuda_check(driver->cuCtxPopCurrent(&before), "cuCtxPopCurrent");
    o->context = context;
}

/* Collective, once: both ranks look for the other's device. */
static void look(peer_side *s) {
    CUuuid mine, its;
    int ordinal = -1;
    s->other.looked_for = true;
    bench_cuda_check(s->b->device->driver->cuDeviceGetUuid(&mine, s->b->device->gpu->device), "cuDeviceGetUuid");
    MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, s->partner, 0, &its, sizeof its, MPI_BYTE, s->partner, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (memcmp(&mine, &its, sizeof mine) != 0)
        ordinal = find_device(s->b->device->driver, &its);
    if (ordinal >= 0 && s->more.cuMemcpyPeerAsync != NULL)
        open_device(s, ordinal);
}

void peer_copy_close(peer_side *s) {
    const pw_driver *driver = s->b->device->driver;
    CUcontext before = NULL;
    if (s->other.context == NULL)
        return;
    bench_cuda_check(driver->cuCtxPushCurrent(s->other.context), "cuCtxPushCurrent");
    bench_cuda_check(driver->cuMemFree(s->other.memory), "cuMemFree");
    bench_cuda_check(driver->cuCtxPopCurrent(&before), "cuCtxPopCurrent");
    bench_cuda_check(driver->cuDevicePrimaryCtxRelease(s->other.device), "cuDevicePrimaryCtxRelease");
    s->other.context = NULL;
}

static void copy(const peer_side *s, const plan_row *row, int times) {
    for (int i = 0; i < times; i++)
        bench_cuda_check(s->more.cuMemcpyPeerAsync(s->other.memory, s->other.context, pw_device_address(s->mine),
                                                   s->b->device->gpu->context, row->bytes, s->stream),
                         "cuMemcpyPeerAsync");
}

peerwin_status peer_copy_batch(peer_side *s, const plan_row *row, int iterations, double *us_out) {
    const int mine = s->b->rank == 0 || row->work == PLAN_BOTH_COPY ? iterations : 0;
    float ms = 0.0f;
    *us_out = 0.0;
    if (!s->other.looked_for)
        look(s);
    int could = s->other.context != NULL;
    MPI_Allreduce(MPI_IN_PLACE, &could, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!could)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, &bench_cuda_site, "no process drives two devices here");
    copy(s, row, mine > 0 ? 1 : 0);
    peer_wait(s);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_cuda_check(s->more.cuEventRecord(s->begin, s->stream), "cuEventRecord");
    copy(s, row, mine);
    bench_cuda_check(s->more.cuEventRecord(s->end, s->stream), "cuEventRecord");
    peer_wait(s);
    bench_cuda_check(s->more.cuEventElapsedTime(&ms, s->begin, s->end), "cuEventElapsedTime");
    *us_out = mine > 0 ? (double)ms * 1e3 / iterations : 0.0;
    return PEERWIN_OK;
}
