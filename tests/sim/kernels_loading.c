/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Loading and launching kernels while calls of the driver fail, on the simulated driver.
 */
#include "kernels_arena.h"
#include "simcuda.h"

#include <string.h>

static size_t (*live)(enum simcuda_kind);
static void (*fail_call)(const char *, unsigned long, int, int);
static void (*forget_failures)(void);
static int (*injected)(void);

static void fetch_simcuda(const char *name, void *pointer) {
    void *entry = bare_simcuda(name);
    memcpy(pointer, &entry, sizeof entry);
}

static void snapshot(size_t counts[SIMCUDA_KINDS]) {
    for (int kind = 0; kind < SIMCUDA_KINDS; kind++)
        counts[kind] = live((enum simcuda_kind)kind);
}

/* Each call of the driver fails in turn, until a run has none left to fail. Ends with the kernels loaded again. */
static void loading_fails_without_a_trace(void) {
    size_t before[SIMCUDA_KINDS], after[SIMCUDA_KINDS];
    unsigned long runs = 0;
    pw_kernels_unload(gpu);
    snapshot(before);
    for (unsigned long n = 1;; n++) {
        fail_call(NULL, n, CUDA_ERROR_OUT_OF_MEMORY, 0);
        peerwin_status status = pw_kernels_load(gpu, &bare_site);
        const int failed = injected();
        forget_failures();
        if (!failed) {
            OK(status);
            break;
        }
        runs++;
        CHECK(status == PEERWIN_ERR_NO_MEMORY || status == PEERWIN_ERR_UNSUPPORTED);
        CHECK(strstr(peerwin_last_error(), "cu") || strstr(peerwin_last_error(), "without nvcc"));
        CHECK(!gpu->module && !gpu->kernels[0]);
        snapshot(after);
        CHECK(memcmp(before, after, sizeof before) == 0);
    }
    CHECK(runs >= 1 + 2 * PW_NUM_KERNELS);
    printf("%lu failures of loading\n", runs);
}

static void unloading_that_fails_unloads(void) {
    const size_t before = live(SIMCUDA_MODULES);
    fail_call("cuModuleUnload", 1, CUDA_ERROR_LAUNCH_FAILED, 0);
    pw_kernels_unload(gpu);
    forget_failures();
    CHECK(live(SIMCUDA_MODULES) == before - 1);
    OK(pw_kernels_load(gpu, &bare_site));
}

static void a_failed_launch_says_so(void) {
    fail_call("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_FAILED, 0);
    CHECK(pw_launch_add(gpu, NULL, NULL, 1, &bare_site) == PEERWIN_ERR_CONTEXT_LOST);
    CHECK(strstr(peerwin_last_error(), "cuLaunchKernel failed with CUDA_ERROR_LAUNCH_FAILED"));
    forget_failures();
}

/* The text in place of an image is what a real driver refuses, and the library must say why. */
static void an_image_for_no_driver_says_so(void) {
    pw_kernels_unload(gpu);
    fail_call("cuModuleLoadData", 1, CUDA_ERROR_INVALID_IMAGE, 0);
    peerwin_status status = pw_kernels_load(gpu, &bare_site);
    forget_failures();
#ifdef TEST_WITH_NVCC
    CHECK(status == PEERWIN_ERR_CUDA);
    CHECK(strstr(peerwin_last_error(), "cuModuleLoadData failed with CUDA_ERROR_INVALID_IMAGE"));
#else
    CHECK(status == PEERWIN_ERR_UNSUPPORTED);
    CHECK(strstr(peerwin_last_error(), "built without nvcc"));
#endif
    OK(pw_kernels_load(gpu, &bare_site));
}

void loading_is_right(void) {
    fetch_simcuda("simcuda_live", &live);
    fetch_simcuda("simcuda_fail", &fail_call);
    fetch_simcuda("simcuda_reset", &forget_failures);
    fetch_simcuda("simcuda_injected", &injected);
    loading_fails_without_a_trace();
    unloading_that_fails_unloads();
    an_image_for_no_driver_says_so();
    a_failed_launch_says_so();
}

void nothing_is_left(void) {
    for (int kind = 0; kind < SIMCUDA_KINDS; kind++)
        CHECK(live((enum simcuda_kind)kind) == 0);
}
