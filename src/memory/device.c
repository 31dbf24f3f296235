/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Devices as the driver describes them; see device.h.
 */
#include "memory/driver.h"

#include <stdio.h>
#include <string.h>

/* Asks for attributes into ints, in one go: {attribute, where}. */
typedef struct {
    CUdevice_attribute attribute;
    int *value;
} attribute_row;

/* Headers and drivers of 12.0 do not know the attribute: then nobody can tell, and 0 is said. */
static int find_mps(const pw_driver *driver, CUdevice device) {
    const CUdevice_attribute mps_enabled = (CUdevice_attribute)133;
    int enabled = 0;
    return driver->cuDeviceGetAttribute(&enabled, mps_enabled, device) == CUDA_SUCCESS ? enabled : 0;
}

static peerwin_status ask(const pw_driver *driver, CUdevice device, const attribute_row *rows, size_t count,
                          const pw_site *site) {
    for (size_t i = 0; i < count; i++) {
        CUresult code = driver->cuDeviceGetAttribute(rows[i].value, rows[i].attribute, device);
        if (code != CUDA_SUCCESS)
            return pw_fail_cuda(driver, site, code, "cuDeviceGetAttribute");
    }
    return PEERWIN_OK;
}

static void print_uuid(const CUuuid *uuid, int mig, char text[PW_DEVICE_UUID]) {
    const unsigned char *b = (const unsigned char *)uuid->bytes;
    snprintf(text, PW_DEVICE_UUID, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             mig ? "MIG" : "GPU", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
             b[13], b[14], b[15]);
}

static peerwin_status identify(const pw_driver *driver, CUdevice device, const pw_site *site, pw_device *d) {
    CUuuid uuid;
    CUresult code = driver->cuDeviceGetName(d->name, PW_DEVICE_NAME, device);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuDeviceGetName");
    code = driver->cuDeviceGetUuid(&uuid, device);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuDeviceGetUuid");
    code = driver->cuDeviceGetPCIBusId(d->pci, PW_DEVICE_PCI, device);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuDeviceGetPCIBusId");
    code = driver->cuDeviceTotalMem(&d->memory, device);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuDeviceTotalMem");
    print_uuid(&uuid, strstr(d->name, " MIG ") != NULL, d->uuid); /* the driver marks instances in the name only */
    return PEERWIN_OK;
}

peerwin_status pw_device_describe(const pw_driver *driver, int ordinal, const pw_site *site, pw_device *device_out) {
    pw_device d = {0};
    CUdevice device = 0;
    int vmm = 0;
    int fd = 0;
    int fabric = 0;
    int pool_types = 0;
    const attribute_row rows[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &d.compute_major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &d.compute_minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &d.multiprocessors},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &vmm},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, &fd},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, &fabric},
        {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, &pool_types},
        {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, &d.ipc_events},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, &d.stream_waits},
        {CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, &d.flush_remote},
    };
    CUresult code = driver->cuDeviceGet(&device, ordinal);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuDeviceGet");
    peerwin_status status = identify(driver, device, site, &d);
    if (status == PEERWIN_OK)
        status = ask(driver, device, rows, sizeof rows / sizeof *rows, site);
    if (status != PEERWIN_OK)
        return status;
    d.handles = PEERWIN_HANDLE_HOST | PEERWIN_HANDLE_LEGACY;
    d.handles |= vmm && fd ? PEERWIN_HANDLE_FD : 0u;
    d.handles |= vmm && fabric ? PEERWIN_HANDLE_FABRIC : 0u;
    d.mps = find_mps(driver, device);
    d.handles |= pool_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? PEERWIN_HANDLE_POOL : 0u;
    *device_out = d;
    return PEERWIN_OK;
}

peerwin_status pw_device_reaches(const pw_driver *driver, int from, int to, const pw_site *site, int *reaches_out) {
    CUdevice a = 0;
    CUdevice b = 0;
    int reaches = from == to;
    CUresult code = driver->cuDeviceGet(&a, from);
    if (code == CUDA_SUCCESS)
        code = driver->cuDeviceGet(&b, to);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuDeviceGet");
    code = from == to ? CUDA_SUCCESS : driver->cuDeviceCanAccessPeer(&reaches, a, b);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuDeviceCanAccessPeer");
    *reaches_out = reaches;
    return PEERWIN_OK;
}
