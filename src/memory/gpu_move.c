/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Small transfers of the library itself, and its waits for the device.
 *
 * Everything goes through page-locked staging memory on the library's own stream. A copy from pageable memory returns
 * before the bytes are on the device, and one to pageable memory blocks without a deadline; and memory of the caller
 * must not be written by a copy that came too late. The stream is polled, so a device that is held by somebody costs
 * the deadline and no more.
 */
#include "memory/gpu_cuda.h"
#include "memory/launch.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

/* ---- waiting ---- */

/* Most of this work takes microseconds; what takes longer need not have a core. */
static void rest(unsigned turn) {
    const struct timespec nap = {0, 50000};
    if (turn < 500)
        pw_relax();
    else if (turn < 700)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

peerwin_status pw_gpu_settle(pw_gpu *gpu, const pw_site *site) {
    int64_t deadline = pw_deadline(gpu->timeout_ms);
    for (unsigned turn = 0;; turn++) {
        CUresult code = gpu->driver->cuStreamQuery(gpu->stream);
        if (code == CUDA_SUCCESS)
            return PEERWIN_OK;
        if (code != CUDA_ERROR_NOT_READY)
            return pw_fail_cuda(gpu->driver, site, code, "cuStreamQuery");
        if (pw_now() >= deadline)
            return pw_fail(PEERWIN_ERR_TIMEOUT, site,
                           "device %s did not get to the library's work within %d ms: a kernel or wait holds it",
                           gpu->about.uuid, gpu->timeout_ms);
        rest(turn);
    }
}

/* A single failure may be of earlier work; a context that is lost repeats it, and runs nothing any more. */
static int is_running(const pw_gpu *gpu) {
    CUresult code = gpu->driver->cuStreamQuery(gpu->stream);
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY)
        code = gpu->driver->cuStreamQuery(gpu->stream);
    return code == CUDA_ERROR_NOT_READY;
}

int pw_gpu_quiet(pw_gpu *gpu, const char *what, peerwin_status *status) {
    int64_t deadline = gpu->held ? 0 : pw_deadline(gpu->timeout_ms);
    char kept[PW_ERROR_TEXT];
    for (unsigned turn = 0; is_running(gpu); turn++) {
        if (pw_now() < deadline) {
            rest(turn);
            continue;
        }
        gpu->held = 1;
        memcpy(kept, peerwin_last_error(), sizeof kept);
        peerwin_status late = pw_fail(PEERWIN_ERR_TIMEOUT, PW_SITE(NULL, "release", gpu->rank, PW_NONE),
                                      "%s cannot be given back: device %s did not get to the library's work within %d "
                                      "ms",
                                      what, gpu->about.uuid, gpu->timeout_ms);
        pw_log(PW_LOG_WARN, gpu->rank, "%s", peerwin_last_error());
        *status = *status == PEERWIN_OK ? late : pw_error_adopt(*status, kept);
        return 0;
    }
    gpu->held = 0;
    return 1;
}

/* ---- moving ---- */

static size_t part_of(size_t left) {
    return left < PW_STAGING_BYTES ? left : PW_STAGING_BYTES;
}

/* Waits until an enqueued call is done. */
static peerwin_status complete(pw_gpu *gpu, CUresult code, const char *call, const pw_site *site) {
    return code == CUDA_SUCCESS ? pw_gpu_settle(gpu, site) : pw_fail_cuda(gpu->driver, site, code, call);
}

peerwin_status pw_gpu_write(pw_gpu *gpu, void *to, const void *host, size_t bytes, const pw_site *site) {
    peerwin_status status = pw_gpu_settle(gpu, site); /* a copy that was late may still use the staging memory */
    for (size_t done = 0; done < bytes && status == PEERWIN_OK; done += PW_STAGING_BYTES) {
        size_t part = part_of(bytes - done);
        memcpy(gpu->staging, (const char *)host + done, part);
        CUresult code = gpu->driver->cuMemcpyHtoDAsync(pw_device_address(to) + done, gpu->staging, part, gpu->stream);
        status = complete(gpu, code, "cuMemcpyHtoDAsync", site);
    }
    return status;
}

peerwin_status pw_gpu_read(pw_gpu *gpu, void *host, const void *from, size_t bytes, const pw_site *site) {
    peerwin_status status = pw_gpu_settle(gpu, site);
    for (size_t done = 0; done < bytes && status == PEERWIN_OK; done += PW_STAGING_BYTES) {
        size_t part = part_of(bytes - done);
        CUresult code = gpu->driver->cuMemcpyDtoHAsync(gpu->staging, pw_device_address(from) + done, part, gpu->stream);
        status = complete(gpu, code, "cuMemcpyDtoHAsync", site);
        if (status == PEERWIN_OK)
            memcpy((char *)host + done, gpu->staging, part);
    }
    return status;
}

peerwin_status pw_gpu_zero(pw_gpu *gpu, void *at, size_t bytes, const pw_site *site) {
    if (bytes == 0)
        return PEERWIN_OK;
    return complete(gpu, gpu->driver->cuMemsetD8Async(pw_device_address(at), 0, bytes, gpu->stream), "cuMemsetD8Async",
                    site);
}

peerwin_status pw_gpu_store(pw_gpu *gpu, void *at, uint64_t value, const pw_site *site) {
    peerwin_status status = pw_launch_store(gpu, gpu->stream, at, value, site);
    return status == PEERWIN_OK ? pw_gpu_settle(gpu, site) : status;
}

peerwin_status pw_gpu_keep(pw_gpu *gpu, const void *host, size_t bytes, const pw_site *site, void **at_out) {
    CUdeviceptr at = 0;
    CUresult code = gpu->driver->cuMemAlloc(&at, bytes);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuMemAlloc");
    peerwin_status status = pw_gpu_write(gpu, pw_device_pointer(at), host, bytes, site);
    if (status != PEERWIN_OK)
        return pw_gpu_drop(gpu, pw_device_pointer(at), status);
    *at_out = pw_device_pointer(at);
    return PEERWIN_OK;
}

peerwin_status pw_gpu_drop(pw_gpu *gpu, void *at, peerwin_status first) {
    if (pw_gpu_quiet(gpu, "memory", &first))
        first = pw_gpu_released(gpu, gpu->driver->cuMemFree(pw_device_address(at)), "cuMemFree", first);
    return first;
}

/* ---- failures that need more than a code ---- */

peerwin_status pw_gpu_released(const pw_gpu *gpu, CUresult code, const char *call, peerwin_status first) {
    char kept[PW_ERROR_TEXT];
    if (code == CUDA_SUCCESS)
        return first;
    memcpy(kept, peerwin_last_error(), sizeof kept);
    peerwin_status status = pw_fail_cuda(gpu->driver, PW_SITE(NULL, "release", gpu->rank, PW_NONE), code, call);
    pw_log(PW_LOG_WARN, gpu->rank, "%s", peerwin_last_error());
    return first == PEERWIN_OK ? status : pw_error_adopt(first, kept);
}

peerwin_status pw_fail_cuda_fd(const pw_driver *driver, const pw_site *site, CUresult code, const char *call) {
    int probe = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (probe < 0 && errno == EMFILE)
        return pw_fail_errno(site, EMFILE, call);
    if (probe >= 0)
        (void)close(probe);
    return pw_fail_cuda(driver, site, code, call);
}
