/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Opening the driver; see driver.h.
 */
#include "memory/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a code means for the caller. Those in the middle leave a context that fails for good. */
typedef struct {
    CUresult code;
    peerwin_status status;
    const char *hint;
} code_row;

static const code_row code_rows[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, PEERWIN_ERR_NO_MEMORY, "the device is out of memory"},
    {CUDA_ERROR_NOT_PERMITTED, PEERWIN_ERR_PERMISSION,
     "the system does not permit it (for fabric handles: an IMEX channel)"},
    {CUDA_ERROR_NOT_SUPPORTED, PEERWIN_ERR_UNSUPPORTED, "this device or driver does not support it"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, PEERWIN_ERR_UNSUPPORTED,
     "the library has no kernels for this device: build it anew"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, PEERWIN_ERR_UNSUPPORTED, "the driver is too old for the library's kernels"},
    {CUDA_ERROR_NO_DEVICE, PEERWIN_ERR_UNSUPPORTED, "no device is visible: see CUDA_VISIBLE_DEVICES"},
    {CUDA_ERROR_SYSTEM_NOT_READY, PEERWIN_ERR_UNSUPPORTED, "the fabric manager of this machine does not run"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, PEERWIN_ERR_UNSUPPORTED, "the driver's library and kernel module differ"},
    {CUDA_ERROR_MPS_CONNECTION_FAILED, PEERWIN_ERR_UNSUPPORTED, "the MPS daemon cannot be reached"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, PEERWIN_ERR_CONTEXT_LOST, "a kernel used an address that is not mapped"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, PEERWIN_ERR_CONTEXT_LOST, "a kernel used a misaligned address"},
    {CUDA_ERROR_INVALID_ADDRESS_SPACE, PEERWIN_ERR_CONTEXT_LOST, "a kernel used an address of another space"},
    {CUDA_ERROR_INVALID_PC, PEERWIN_ERR_CONTEXT_LOST, "a kernel jumped to nowhere"},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, PEERWIN_ERR_CONTEXT_LOST, "a kernel met an illegal instruction"},
    {CUDA_ERROR_HARDWARE_STACK_ERROR, PEERWIN_ERR_CONTEXT_LOST, "a kernel damaged its stack"},
    {CUDA_ERROR_LAUNCH_FAILED, PEERWIN_ERR_CONTEXT_LOST, "a kernel failed, here or at another client of MPS"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, PEERWIN_ERR_CONTEXT_LOST, "the CUDA context was destroyed under the library"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, PEERWIN_ERR_CONTEXT_LOST, "a kernel ran into the display's time limit"},
    {CUDA_ERROR_ASSERT, PEERWIN_ERR_CONTEXT_LOST, "an assertion in a kernel failed"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, PEERWIN_ERR_CONTEXT_LOST, "device memory is damaged"},
    {CUDA_ERROR_DEINITIALIZED, PEERWIN_ERR_STATE, "the driver is shutting down with the process"},
};

/* The driver does not say which system call failed. The one that users meet is about descriptors, and can be found out.
 */
static int out_of_descriptors(void) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE;
    close(fd);
    return 0;
}

peerwin_status pw_fail_cuda(const pw_driver *driver, const pw_site *site, CUresult code, const char *call) {
    const char *name = NULL;
    const char *text = NULL;
    if (driver->cuGetErrorName(code, &name) != CUDA_SUCCESS || !name)
        name = "unknown error";
    if (code == CUDA_ERROR_OPERATING_SYSTEM && out_of_descriptors())
        return pw_fail(PEERWIN_ERR_NO_MEMORY, site,
                       "%s failed with %s (%d): no file descriptor is left: raise the limit (ulimit -n)", call, name,
                       (int)code);
    for (size_t i = 0; i < sizeof code_rows / sizeof *code_rows; i++)
        if (code_rows[i].code == code)
            return pw_fail(code_rows[i].status, site, "%s failed with %s (%d): %s", call, name, (int)code,
                           code_rows[i].hint);
    if (driver->cuGetErrorString(code, &text) != CUDA_SUCCESS || !text)
        text = "no further text";
    return pw_fail(PEERWIN_ERR_CUDA, site, "%s failed with %s (%d): %s", call, name, (int)code, text);
}

/* The driver's own look-up, or NULL and why. The library is never closed once it has it: see pw_driver_close. */
static PFN_cuGetProcAddress_v12000 open_library(const char *library, const pw_site *site, peerwin_status *status_out) {
    const char *path = library[0] ? library : "libcuda.so.1";
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        *status_out = pw_fail(PEERWIN_ERR_UNSUPPORTED, site, "there is no CUDA driver: %s", dlerror());
        return NULL;
    }
    void *entry = dlsym(handle, "cuGetProcAddress_v2");
    if (!entry) {
        dlclose(handle);
        *status_out = pw_fail(PEERWIN_ERR_UNSUPPORTED, site, "the CUDA driver in %s is older than 12.0", path);
    }
    return (PFN_cuGetProcAddress_v12000)(uintptr_t)entry;
}

/* Success with a null pointer means absent. `pointer` is of a function, NULL where there is none; 1 if there is one. */
static int look_up(PFN_cuGetProcAddress_v12000 get, const char *name, int version, void *pointer) {
    void *entry = NULL;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (get(name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) != CUDA_SUCCESS)
        entry = NULL;
    memcpy(pointer, &entry, sizeof entry);
    return entry != NULL;
}

static peerwin_status fetch(PFN_cuGetProcAddress_v12000 get, const char *name, int version, void *pointer,
                            const pw_site *site) {
    if (!look_up(get, name, version, pointer))
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site, "the CUDA driver has no %s of version %d", name, version);
    return PEERWIN_OK;
}

static peerwin_status fill_table(PFN_cuGetProcAddress_v12000 get, pw_driver *driver, const pw_site *site) {
    peerwin_status status = PEERWIN_OK;
#define FETCH(name, version_)                                                                                          \
    if (status == PEERWIN_OK)                                                                                          \
        status = fetch(get, #name, version_, &driver->name, site);
    PW_DRIVER_CALLS(FETCH)
#undef FETCH
#define FETCH(name, version_, type) (void)look_up(get, #name, version_, &driver->name);
    PW_DRIVER_OPTIONAL_CALLS(FETCH)
#undef FETCH
    return status;
}

static peerwin_status start(pw_driver *driver, const pw_site *site) {
    CUresult code = driver->cuInit(0);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuInit");
    code = driver->cuDriverGetVersion(&driver->version);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuDriverGetVersion");
    code = driver->cuDeviceGetCount(&driver->devices);
    if (code != CUDA_SUCCESS)
        return pw_fail_cuda(driver, site, code, "cuDeviceGetCount");
    if (driver->devices == 0)
        return pw_fail_cuda(driver, site, CUDA_ERROR_NO_DEVICE, "cuDeviceGetCount");
    return PEERWIN_OK;
}

peerwin_status pw_driver_open(const char *library, const pw_site *site, pw_driver **driver_out) {
    peerwin_status status = PEERWIN_OK;
    PFN_cuGetProcAddress_v12000 get = open_library(library, site, &status);
    if (!get)
        return status;
    pw_driver *driver = calloc(1, sizeof *driver);
    if (!driver)
        return pw_fail_errno(site, ENOMEM, "calloc");
    status = fill_table(get, driver, site);
    if (status == PEERWIN_OK)
        status = start(driver, site);
    if (status != PEERWIN_OK) {
        pw_driver_close(driver);
        return status;
    }
    *driver_out = driver;
    return PEERWIN_OK;
}

void pw_driver_close(pw_driver *driver) {
    free(driver);
}

int pw_driver_version(const pw_driver *driver) {
    return driver->version;
}

int pw_driver_devices(const pw_driver *driver) {
    return driver->devices;
}
