/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * CUDA space: the device of this rank, and windows of the kind that is being measured.
 *
 * The bench works in the device's primary context, which stays current, through the library's own driver table and
 * kernels: so it needs no CUDA runtime, its context is there before peerwin_init is timed, and it runs on a simulated
 * driver too, where it proves that it works and nothing else.
 */
#ifndef PEERWIN_BENCH_CUDA_H
#define PEERWIN_BENCH_CUDA_H

#include "measure.h"

#include "memory/gpu_cuda.h"

struct bench_device {
    pw_gpu *gpu;
    pw_driver *driver;
    CUstream stream;
    CUmemoryPool pool; /* while the kind is POOL */
    unsigned kind;     /* a peerwin_handle */
    char name[PW_DEVICE_NAME + 32];
};

/** The device's primary context, current from here on; false on every rank, after messages, if one has none. */
bool bench_cuda_open(bench_device *d);
void bench_cuda_close(bench_device *d);

/** Ends the job if a driver call failed. */
void bench_cuda_check(CUresult code, const char *call);

/** Where the library's inner functions say that they are. */
extern const pw_site bench_cuda_site;

/** A context whose windows are of the kind that is being measured. */
peerwin_status bench_cuda_init(const bench *b, peerwin_ctx **ctx_out);

/** A window of the kind: allocated, or attached to memory of the pool. Every rank has `bytes` bytes. */
typedef struct {
    peerwin_win *win;
    CUdeviceptr attached; /* 0 if the window has its own memory */
} bench_window;

peerwin_status bench_cuda_window(const bench *b, peerwin_ctx *ctx, size_t bytes, bench_window *window_out);
void bench_cuda_free(const bench *b, bench_window *window);

/** The part of bench_cuda_window that is not the library's: memory to attach to, 0 where it allocates itself. */
CUdeviceptr bench_cuda_memory(const bench *b, size_t bytes);
void bench_cuda_give_back(const bench *b, CUdeviceptr memory);
peerwin_status bench_cuda_attach(peerwin_ctx *ctx, CUdeviceptr memory, size_t bytes, bench_window *window_out);

/** Device memory of this rank alone; ends the job if there is none. */
void *bench_cuda_alloc(const bench *b, size_t bytes);
void bench_cuda_release(const bench *b, void *memory);

/** The whole way once: init, window, put, barrier, and back. Seconds of the parts; what fails leaves nothing. */
enum { START_INIT, START_WINDOW, START_PUT, START_ALL, NUM_STARTS };
peerwin_status bench_cuda_start(const bench *b, double seconds_out[NUM_STARTS]);

void bench_cuda_case_start(const bench *b);
void bench_cuda_case_register(const bench *b);
void bench_cuda_case_first(const bench *b);
void bench_cuda_case_put(const bench *b);
void bench_cuda_case_get(const bench *b);
void bench_cuda_case_put_stream(const bench *b);
void bench_cuda_case_get_stream(const bench *b);
void bench_cuda_case_put_bandwidth(const bench *b);
void bench_cuda_case_get_bandwidth(const bench *b);
void bench_cuda_case_barrier(const bench *b);
void bench_cuda_case_pingpong(const bench *b);
void bench_cuda_case_halo(const bench *b);

#endif
