/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The device of a context; see gpu.h.
 *
 * The CUDA context is the caller's current one where it is asked for, and else the primary context of the device, which
 * is retained until the end. It is current only between enter and leave, so a caller always finds its own again.
 */
#include "memory/gpu_cuda.h"

#include "base/log.h"
#include "memory/nvml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the choice of device ---- */

static peerwin_status check_ordinal(const pw_driver *driver, int ordinal, const pw_site *site) {
    if (ordinal >= 0 && ordinal < driver->devices)
        return PEERWIN_OK;
    return pw_fail(PEERWIN_ERR_ARG, site, "device %d does not exist: this process sees %d (CUDA_VISIBLE_DEVICES)",
                   ordinal, driver->devices);
}

/* The caller's current context, NULL if it has none. */
static peerwin_status current_context(const pw_driver *driver, const pw_site *site, CUcontext *context_out) {
    CUresult code = driver->cuCtxGetCurrent(context_out);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(driver, site, code, "cuCtxGetCurrent");
}

/* Ordinals are what the request speaks of, and devices what the driver does. */
static peerwin_status ordinal_of(const pw_driver *driver, CUdevice device, const pw_site *site, int *ordinal_out) {
    for (int ordinal = 0; ordinal < driver->devices; ordinal++) {
        CUdevice other = 0;
        CUresult code = driver->cuDeviceGet(&other, ordinal);
        if (code != CUDA_SUCCESS)
            return pw_fail_cuda(driver, site, code, "cuDeviceGet");
        if (other == device) {
            *ordinal_out = ordinal;
            return PEERWIN_OK;
        }
    }
    return pw_fail(PEERWIN_ERR_INTERNAL, site, "the current context is on a device that the driver does not list");
}

/* Joins the caller's current context. */
static peerwin_status join_context(pw_gpu *gpu, const pw_site *site) {
    CUresult code = gpu->driver->cuCtxGetDevice(&gpu->device);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuCtxGetDevice");
    return ordinal_of(gpu->driver, gpu->device, site, &gpu->ordinal);
}

static peerwin_status retain_primary(pw_gpu *gpu, int ordinal, const pw_site *site) {
    peerwin_status status = check_ordinal(gpu->driver, ordinal, site);
    if (status != PEERWIN_OK)
        return status;
    gpu->ordinal = ordinal;
    CUresult code = gpu->driver->cuDeviceGet(&gpu->device, ordinal);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuDeviceGet");
    code = gpu->driver->cuDevicePrimaryCtxRetain(&gpu->context, gpu->device);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuDevicePrimaryCtxRetain");
    gpu->retained = 1;
    return PEERWIN_OK;
}

static peerwin_status choose(pw_gpu *gpu, const pw_gpu_request *request, const pw_site *site) {
    if (request->choice > 0)
        return retain_primary(gpu, request->choice - 1, site);
    if (request->choice == PEERWIN_DEVICE_CURRENT) {
        peerwin_status status = current_context(gpu->driver, site, &gpu->context);
        if (status != PEERWIN_OK)
            return status;
        if (gpu->context)
            return join_context(gpu, site);
    }
    return retain_primary(gpu, request->node_rank % gpu->driver->devices, site);
}

/* Its handle may come again; this does not. */
static peerwin_status name_context(pw_gpu *gpu, const pw_site *site) {
    CUresult code = gpu->driver->cuCtxGetId(gpu->context, &gpu->context_id);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, "cuCtxGetId");
}

static void release_primary(pw_gpu *gpu, peerwin_status first) {
    if (gpu->retained)
        (void)pw_gpu_released(gpu, gpu->driver->cuDevicePrimaryCtxRelease(gpu->device), "cuDevicePrimaryCtxRelease",
                              first);
}

/* This device first, then those declared that are others. */
static peerwin_status list_access(pw_gpu *gpu, const pw_gpu_request *request, const pw_site *site) {
    gpu->access = calloc((size_t)request->num_devices + 1, sizeof *gpu->access);
    gpu->contexts = calloc((size_t)request->num_devices + 1, sizeof *gpu->contexts);
    if (!gpu->access || !gpu->contexts)
        return pw_fail_errno(site, ENOMEM, "calloc");
    gpu->contexts[gpu->num_contexts++] = gpu->context;
    gpu->access[gpu->num_access++] = gpu->device;
    for (int i = 0; i < request->num_devices; i++) {
        int known = 0;
        peerwin_status status = check_ordinal(gpu->driver, request->devices[i], site);
        if (status != PEERWIN_OK)
            return status;
        CUresult code = gpu->driver->cuDeviceGet(&gpu->access[gpu->num_access], request->devices[i]);
        if (code != CUDA_SUCCESS)
            return pw_fail_cuda(gpu->driver, site, code, "cuDeviceGet");
        for (int k = 0; k < gpu->num_access; k++)
            known |= gpu->access[k] == gpu->access[gpu->num_access];
        gpu->num_access += !known;
    }
    return PEERWIN_OK;
}

peerwin_status pw_gpu_hold_contexts(pw_gpu *gpu, const pw_site *site) {
    for (; gpu->num_contexts < gpu->num_access; gpu->num_contexts++) {
        const int i = gpu->num_contexts;
        CUresult code = gpu->driver->cuDevicePrimaryCtxRetain(&gpu->contexts[i], gpu->access[i]);
        if (code != CUDA_SUCCESS)
            return pw_fail_cuda(gpu->driver, site, code, "cuDevicePrimaryCtxRetain");
    }
    return PEERWIN_OK;
}

static void release_contexts(pw_gpu *gpu) {
    while (gpu->num_contexts > 1)
        (void)pw_gpu_released(gpu, gpu->driver->cuDevicePrimaryCtxRelease(gpu->access[--gpu->num_contexts]),
                              "cuDevicePrimaryCtxRelease", PEERWIN_OK);
}

/* ---- its stream and staging memory ---- */

static peerwin_status make_stream(pw_gpu *gpu, const pw_site *site) {
    int least = 0;
    int greatest = 0;
    CUresult code = gpu->driver->cuCtxGetStreamPriorityRange(&least, &greatest);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuCtxGetStreamPriorityRange");
    code = gpu->driver->cuStreamCreateWithPriority(&gpu->stream, CU_STREAM_NON_BLOCKING, greatest);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuStreamCreateWithPriority");
    return PEERWIN_OK;
}

static void end_stream(pw_gpu *gpu, peerwin_status first) {
    (void)pw_gpu_released(gpu, gpu->driver->cuStreamDestroy(gpu->stream), "cuStreamDestroy", first);
}

static peerwin_status make_staging(pw_gpu *gpu, const pw_site *site) {
    CUresult code = gpu->driver->cuMemAllocHost(&gpu->staging, PW_STAGING_BYTES + PW_REPORT_BYTES);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuMemAllocHost");
    gpu->report = (uint64_t *)(void *)((char *)gpu->staging + PW_STAGING_BYTES);
    __atomic_store_n(gpu->report, 0, __ATOMIC_RELEASE);
    return PEERWIN_OK;
}

static peerwin_status make_joint(pw_gpu *gpu, const pw_site *site) {
    CUresult code = gpu->driver->cuEventCreate(&gpu->joint, CU_EVENT_DISABLE_TIMING);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, "cuEventCreate");
}

static void end_joint(pw_gpu *gpu, peerwin_status first) {
    (void)pw_gpu_released(gpu, gpu->driver->cuEventDestroy(gpu->joint), "cuEventDestroy", first);
}

static void end_staging(pw_gpu *gpu, peerwin_status first) {
    (void)pw_gpu_released(gpu, gpu->driver->cuMemFreeHost(gpu->staging), "cuMemFreeHost", first);
}

/* What lives inside the CUDA context, which is current. */
static peerwin_status equip(pw_gpu *gpu, const pw_site *site) {
    peerwin_status status = make_stream(gpu, site);
    if (status != PEERWIN_OK)
        return status;
    status = make_staging(gpu, site);
    if (status != PEERWIN_OK)
        goto end_stream;
    status = make_joint(gpu, site);
    if (status != PEERWIN_OK)
        goto end_staging;
    status = pw_kernels_load(gpu, site);
    if (status != PEERWIN_OK)
        goto end_joint;
    return PEERWIN_OK;

end_joint:
    end_joint(gpu, status);
end_staging:
    end_staging(gpu, status);
end_stream:
    end_stream(gpu, status);
    return status;
}

/* ---- open and close ---- */

static void forget(pw_gpu *gpu) {
    pw_driver_close(gpu->driver);
    free(gpu->access);
    free(gpu->contexts);
    free(gpu);
}

peerwin_status pw_gpu_open(const pw_gpu_request *request, const pw_site *site, pw_gpu **gpu_out) {
    pw_gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu)
        return pw_fail_errno(site, ENOMEM, "calloc");
    gpu->timeout_ms = request->timeout_ms;
    gpu->rank = request->rank;
    snprintf(gpu->library, sizeof gpu->library, "%s", request->library);
    peerwin_status status = pw_driver_open(request->library, site, &gpu->driver);
    if (status != PEERWIN_OK)
        goto forget;
    status = choose(gpu, request, site);
    if (status != PEERWIN_OK)
        goto forget;
    status = list_access(gpu, request, site);
    if (status == PEERWIN_OK)
        status = name_context(gpu, site);
    if (status == PEERWIN_OK)
        status = pw_device_describe(gpu->driver, gpu->ordinal, site, &gpu->about);
    if (status == PEERWIN_OK)
        status = pw_gpu_enter(gpu, site);
    if (status != PEERWIN_OK)
        goto release_primary;
    status = equip(gpu, site);
    pw_gpu_leave(gpu);
    if (status != PEERWIN_OK)
        goto release_primary;
    *gpu_out = gpu;
    return PEERWIN_OK;

release_primary:
    release_primary(gpu, status);
forget:
    forget(gpu);
    return status;
}

/* 0 if the device is held: it keeps what it may still use, and its context with it. */
static int unequip(pw_gpu *gpu) {
    peerwin_status status = PEERWIN_OK;
    if (!pw_gpu_quiet(gpu, "what the library has on the device", &status))
        return 0;
    pw_kernels_unload(gpu);
    pw_gpu_end_witnesses(gpu, status);
    end_joint(gpu, status);
    end_stream(gpu, status);
    end_staging(gpu, status);
    return 1;
}

void pw_gpu_close(pw_gpu *gpu) {
    if (!gpu)
        return;
    int answers = 1;
    const pw_site *site = PW_SITE("peerwin_finalize", "release", PW_NONE, PW_NONE);
    /* Nothing can be given back from outside, so a call that failed once is worth a second attempt. */
    peerwin_status status = pw_gpu_enter(gpu, site);
    if (status != PEERWIN_OK)
        status = pw_gpu_enter(gpu, site);
    if (status == PEERWIN_OK) {
        answers = unequip(gpu);
        pw_gpu_leave(gpu);
    } else {
        pw_log(PW_LOG_WARN, PW_NONE, "what the library holds on the device goes with its context: %s",
               peerwin_last_error());
    }
    if (answers) {
        release_contexts(gpu);
        release_primary(gpu, PEERWIN_OK);
    }
    forget(gpu);
}

/* ---- in and out ---- */

static void pop(pw_gpu *gpu, peerwin_status first) {
    CUcontext context = NULL;
    (void)pw_gpu_released(gpu, gpu->driver->cuCtxPopCurrent(&context), "cuCtxPopCurrent", first);
}

static void exchange_back(pw_gpu *gpu, CUstreamCaptureMode mode, peerwin_status first) {
    (void)pw_gpu_released(gpu, gpu->driver->cuThreadExchangeStreamCaptureMode(&mode),
                          "cuThreadExchangeStreamCaptureMode", first);
}

/*
 * The application may have ended the context, or reset the device, under the library. To make a destroyed context
 * current damages the driver, and in one that came anew the library's streams and memory are not there.
 */
static peerwin_status check_alive(const pw_gpu *gpu, const pw_site *site) {
    unsigned long long id = 0;
    CUresult code = gpu->driver->cuCtxGetId(gpu->context, &id);
    if (code == CUDA_SUCCESS && id == gpu->context_id)
        return PEERWIN_OK;
    if (code == CUDA_SUCCESS || code == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return pw_fail(PEERWIN_ERR_CONTEXT_LOST, site,
                       "the CUDA context of device %s was destroyed or reset under the library", gpu->about.uuid);
    return pw_fail_cuda(gpu->driver, site, code, "cuCtxGetId");
}

peerwin_status pw_gpu_enter(pw_gpu *gpu, const pw_site *site) {
    peerwin_status alive = check_alive(gpu, site);
    if (alive != PEERWIN_OK)
        return alive;
    CUresult code = gpu->driver->cuCtxPushCurrent(gpu->context);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuCtxPushCurrent");
    if (gpu->depth == 0) {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        code = gpu->driver->cuThreadExchangeStreamCaptureMode(&mode);
        if (code != CUDA_SUCCESS) {
            peerwin_status status = pw_fail_cuda(gpu->driver, site, code, "cuThreadExchangeStreamCaptureMode");
            if (mode != CU_STREAM_CAPTURE_MODE_RELAXED) /* it has exchanged, and reports an earlier failure */
                exchange_back(gpu, mode, status);
            pop(gpu, status);
            return status;
        }
        gpu->capture_mode = mode;
    }
    gpu->depth++;
    return PEERWIN_OK;
}

void pw_gpu_leave(pw_gpu *gpu) {
    if (--gpu->depth == 0)
        exchange_back(gpu, gpu->capture_mode, PEERWIN_OK);
    pop(gpu, PEERWIN_OK);
}

peerwin_status pw_gpu_step_in(pw_gpu *gpu, const pw_site *site) {
    CUcontext current = NULL;
    peerwin_status alive = check_alive(gpu, site);
    if (alive != PEERWIN_OK)
        return alive;
    CUresult code = gpu->driver->cuCtxGetCurrent(&current);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(gpu->driver, site, code, "cuCtxGetCurrent");
    gpu->pushed = current != gpu->context;
    if (!gpu->pushed)
        return PEERWIN_OK;
    code = gpu->driver->cuCtxPushCurrent(gpu->context);
    return code == CUDA_SUCCESS ? PEERWIN_OK : pw_fail_cuda(gpu->driver, site, code, "cuCtxPushCurrent");
}

void pw_gpu_step_out(pw_gpu *gpu) {
    if (gpu->pushed)
        pop(gpu, PEERWIN_OK);
}

/* ---- what is known of it ---- */

peerwin_status pw_gpu_gave_up(const pw_gpu *gpu) {
    return (peerwin_status)__atomic_load_n(gpu->report, __ATOMIC_ACQUIRE);
}

const pw_device *pw_gpu_about(const pw_gpu *gpu) {
    return &gpu->about;
}

/* The device with that UUID, if this process sees it. */
static int find_device(const pw_gpu *gpu, const char *uuid, CUdevice *device_out) {
    const pw_site *site = PW_SITE(NULL, NULL, PW_NONE, PW_NONE);
    for (int ordinal = 0; ordinal < gpu->driver->devices; ordinal++) {
        pw_device device;
        if (pw_device_describe(gpu->driver, ordinal, site, &device) == PEERWIN_OK && strcmp(device.uuid, uuid) == 0)
            return gpu->driver->cuDeviceGet(device_out, ordinal) == CUDA_SUCCESS;
    }
    return 0;
}

static peerwin_link link_to_hidden(const pw_gpu *gpu, const char *uuid, int *native_atomics_out) {
    pw_nvml *nvml = pw_nvml_open(gpu->library);
    pw_nvml_pair pair = {0};
    if (!pw_nvml_pair_of(nvml, gpu->about.uuid, uuid, &pair))
        pw_log(PW_LOG_INFO, PW_NONE, "device %s is hidden from this process, and NVML does not know it: %s", uuid,
               "taken for one without atomics");
    pw_nvml_close(nvml);
    *native_atomics_out = pair.nvlink && pair.atomics;
    return pair.nvlink ? PEERWIN_LINK_NVLINK : PEERWIN_LINK_PCIE;
}

peerwin_link pw_gpu_link(const pw_gpu *gpu, const char *uuid, int *native_atomics_out) {
    CUdevice peer = 0;
    int atomics = 0;
    if (strcmp(uuid, gpu->about.uuid) == 0) {
        *native_atomics_out = 1;
        return PEERWIN_LINK_SAME_DEVICE;
    }
    if (!find_device(gpu, uuid, &peer))
        return link_to_hidden(gpu, uuid, native_atomics_out);
    if (gpu->driver->cuDeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, gpu->device,
                                             peer) != CUDA_SUCCESS)
        atomics = 0;
    *native_atomics_out = atomics != 0;
    /* The bus between devices has no atomics; links that have them are NVLink. */
    return atomics ? PEERWIN_LINK_NVLINK : PEERWIN_LINK_PCIE;
}
