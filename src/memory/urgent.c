/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Words written in spite of stuck streams; see urgent.h.
 */
#include "memory/urgent.h"

#include "base/clock.h"
#include "memory/gpu_cuda.h"

#include <errno.h>
#include <stdlib.h>

enum { BATCH = 64, CLOSE_MS = 1000 };

struct pw_urgent {
    const pw_gpu *gpu;
    CUstream stream;
};

peerwin_status pw_urgent_open(pw_gpu *gpu, const pw_site *site, pw_urgent **urgent_out) {
    const pw_driver *driver = gpu->driver;
    int lowest = 0;
    int highest = 0;
    pw_urgent *urgent = calloc(1, sizeof *urgent);
    if (!urgent)
        return pw_fail_errno(site, ENOMEM, "calloc");
    urgent->gpu = gpu;
    const char *call = "cuCtxGetStreamPriorityRange";
    CUresult code = driver->cuCtxGetStreamPriorityRange(&lowest, &highest);
    if (code == CUDA_SUCCESS) {
        call = "cuStreamCreateWithPriority";
        code = driver->cuStreamCreateWithPriority(&urgent->stream, CU_STREAM_NON_BLOCKING, highest);
    }
    if (code != CUDA_SUCCESS) {
        free(urgent);
        return pw_fail_cuda(driver, site, code, call);
    }
    *urgent_out = urgent;
    return PEERWIN_OK;
}

int pw_urgent_is_idle(const pw_urgent *urgent) {
    return urgent->gpu->driver->cuStreamQuery(urgent->stream) != CUDA_ERROR_NOT_READY;
}

void pw_urgent_close(pw_urgent *urgent) {
    if (!urgent)
        return;
    int64_t until = pw_now() + CLOSE_MS * PW_MS;
    while (!pw_urgent_is_idle(urgent) && pw_now() < until)
        (void)nanosleep(&(const struct timespec){.tv_nsec = 100000}, NULL);
    (void)urgent->gpu->driver->cuStreamDestroy(urgent->stream);
    free(urgent);
}

void pw_urgent_adopt_thread(const pw_urgent *urgent) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)urgent->gpu->driver->cuCtxSetCurrent(urgent->gpu->context);
    (void)urgent->gpu->driver->cuThreadExchangeStreamCaptureMode(&mode);
}

void pw_urgent_write(const pw_urgent *urgent, const pw_urgent_word *words, size_t count) {
    CUstreamBatchMemOpParams operations[BATCH] = {0};
    while (count > 0) {
        unsigned batch = count < BATCH ? (unsigned)count : BATCH;
        for (unsigned i = 0; i < batch; i++) {
            operations[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
            operations[i].writeValue.address = pw_device_address(words[i].at);
            operations[i].writeValue.value64 = words[i].value;
        }
        if (urgent->gpu->driver->cuStreamBatchMemOp(urgent->stream, batch, operations, 0) != CUDA_SUCCESS)
            return;
        words += batch;
        count -= batch;
    }
}
