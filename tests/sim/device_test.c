/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The driver table on the simulated driver. The simulator reads once from the environment what it pretends to be, so
 * every case is a process of its own.
 */
#include "memory/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const pw_site site = {.call = "device_test", .rank = PW_NONE, .peer = PW_NONE};
static const char *library;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, peerwin_last_error());      \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static pw_driver *opened(void) {
    pw_driver *driver = NULL;
    CHECK(pw_driver_open(library, &site, &driver) == PEERWIN_OK);
    CHECK(driver != NULL);
    return driver;
}

static void one_gpu_is_described(void) {
    pw_device device;
    int reaches = 0;
    pw_driver *driver = opened();
    CHECK(pw_driver_version(driver) == 13000);
    CHECK(pw_driver_devices(driver) == 1);
    CHECK(pw_device_describe(driver, 0, &site, &device) == PEERWIN_OK);
    CHECK(strncmp(device.uuid, "GPU-", 4) == 0 && strlen(device.uuid) == 40);
    CHECK(strchr(device.pci, ':') != NULL);
    CHECK(device.name[0] != '\0' && device.memory > 0 && device.multiprocessors > 0 && device.compute_major >= 7);
    CHECK(device.ipc_events == 1 && device.stream_waits == 1);
    /* Fabric is announced, as on machines whose system then refuses it. */
    CHECK(device.handles == (PEERWIN_HANDLE_HOST | PEERWIN_HANDLE_LEGACY | PEERWIN_HANDLE_FD | PEERWIN_HANDLE_FABRIC |
                             PEERWIN_HANDLE_POOL));
    CHECK(pw_device_reaches(driver, 0, 0, &site, &reaches) == PEERWIN_OK && reaches == 1);
    CHECK(pw_device_describe(driver, 1, &site, &device) == PEERWIN_ERR_CUDA);
    CHECK(strstr(peerwin_last_error(), "CUDA_ERROR_INVALID_DEVICE") != NULL);
    pw_driver_close(driver);
}

static void eight_gpus_differ_and_reach_each_other(void) {
    pw_device first;
    pw_device other;
    pw_driver *driver = opened();
    CHECK(pw_driver_devices(driver) == 8);
    CHECK(pw_device_describe(driver, 0, &site, &first) == PEERWIN_OK);
    for (int i = 1; i < 8; i++) {
        int reaches = 0;
        CHECK(pw_device_describe(driver, i, &site, &other) == PEERWIN_OK);
        CHECK(strcmp(first.uuid, other.uuid) != 0 && strcmp(first.pci, other.pci) != 0);
        CHECK(pw_device_reaches(driver, 0, i, &site, &reaches) == PEERWIN_OK && reaches == 1);
    }
    pw_driver_close(driver);
}

static void without_peer_access_it_says_so(void) {
    int reaches = 1;
    pw_driver *driver = opened();
    CHECK(pw_device_reaches(driver, 0, 1, &site, &reaches) == PEERWIN_OK && reaches == 0);
    pw_driver_close(driver);
}

static void hidden_devices_are_not_counted(void) {
    pw_driver *driver = opened();
    CHECK(pw_driver_devices(driver) == 1);
    pw_driver_close(driver);
}

static void an_instance_of_mig_is_one(void) {
    pw_device device;
    pw_driver *driver = opened();
    CHECK(pw_device_describe(driver, 0, &site, &device) == PEERWIN_OK);
    CHECK(strncmp(device.uuid, "MIG-", 4) == 0);
    pw_driver_close(driver);
}

static void refused(peerwin_status wanted, const char *path, const char *word) {
    pw_driver *driver = NULL;
    CHECK(pw_driver_open(path, &site, &driver) == wanted);
    CHECK(driver == NULL);
    CHECK(strstr(peerwin_last_error(), word) != NULL);
}

static void a_driver_without_device_is_refused(void) {
    refused(PEERWIN_ERR_UNSUPPORTED, library, "no device is visible");
}

static void a_missing_library_is_refused(void) {
    refused(PEERWIN_ERR_UNSUPPORTED, "/nonexistent/libcuda.so.1", "there is no CUDA driver");
}

static void a_library_that_is_no_driver_is_refused(void) {
    refused(PEERWIN_ERR_UNSUPPORTED, "libm.so.6", "older than 12.0");
}

static const struct {
    const char *name;
    void (*run)(void);
    const char *variable, *value;
} cases[] = {
    {"one_gpu_is_described", one_gpu_is_described, "SIMCUDA_TOPOLOGY", "same-gpu"},
    {"eight_gpus_differ_and_reach_each_other", eight_gpus_differ_and_reach_each_other, "SIMCUDA_TOPOLOGY",
     "nvswitch:8"},
    {"without_peer_access_it_says_so", without_peer_access_it_says_so, "SIMCUDA_TOPOLOGY", "pcie-no-peer:2"},
    {"hidden_devices_are_not_counted", hidden_devices_are_not_counted, "CUDA_VISIBLE_DEVICES", "0"},
    {"an_instance_of_mig_is_one", an_instance_of_mig_is_one, "SIMCUDA_MIG", "1"},
    {"a_driver_without_device_is_refused", a_driver_without_device_is_refused, "SIMCUDA_NO_DEVICE", "1"},
    {"a_missing_library_is_refused", a_missing_library_is_refused, NULL, NULL},
    {"a_library_that_is_no_driver_is_refused", a_library_that_is_no_driver_is_refused, NULL, NULL},
};

/* Runs one case in a child, which has not touched the driver yet. */
static int run_in_child(size_t i) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (cases[i].variable)
            setenv(cases[i].variable, cases[i].value, 1);
        cases[i].run();
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 1;
    printf("%s %s\n", status == 0 ? "ok" : "FAILED", cases[i].name);
    return status != 0;
}

int main(int argc, char **argv) {
    int failed = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: %s LIBRARY\n", argv[0]);
        return 2;
    }
    library = argv[1];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        failed += run_in_child(i);
    return failed != 0;
}
