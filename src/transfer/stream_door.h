/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The way into a stream and out again, and what the stream_*.c files share.
 *
 * Between pw_stream_enter and pw_stream_leave the library's CUDA context is current, and driver calls of this thread
 * leave captures that are under way alone.
 */
#ifndef PW_TRANSFER_STREAM_DOOR_H
#define PW_TRANSFER_STREAM_DOOR_H

#include "memory/gpu_cuda.h"
#include "memory/launch.h"
#include "transfer/stream.h"

/*
 * Enters if `stream` is one that work may be given to: ARG for a stream of another context, STATE for the legacy
 * default stream while another stream captures. On failure nothing is entered.
 */
PEERWIN_MUST_USE peerwin_status pw_stream_enter(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site);

/*
 * A put, barrier or all-reduce on its way into a stream. Comes in as pw_stream_enter does, but for work that is only
 * enqueued; also when the stream captures.
 */
typedef struct {
    peerwin_ctx *ctx;
    peerwin_stream stream;
    const pw_site *site;
    uint64_t number;  /* of the stream; handles are used again, numbers are not */
    uint64_t capture; /* the number of the capture that it is in, 0 = none */
    int given;        /* some work is the driver's already, and cannot be taken back */
} pw_step;

PEERWIN_MUST_USE peerwin_status pw_step_in(pw_step *step, peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site);

/* Leaves and passes `status` on. A failure after something was given breaks the context: this rank is out of step. */
PEERWIN_MUST_USE peerwin_status pw_step_out(pw_step *step, peerwin_status status);

/* OK, or what a failed driver call of the step means. Notes that something was given. */
PEERWIN_MUST_USE peerwin_status pw_step_gave(pw_step *step, CUresult code, const char *call);

/* Leaves and passes `status` on; a lost CUDA context breaks the peerwin context first, at every rank. */
PEERWIN_MUST_USE peerwin_status pw_stream_leave(peerwin_ctx *ctx, peerwin_status status);

/*
 * The same for work that is only enqueued, and that no capture minds: fewer questions to the driver. The thread's
 * capture mode stays.
 */
PEERWIN_MUST_USE peerwin_status pw_stream_step_in(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site);
PEERWIN_MUST_USE peerwin_status pw_stream_step_out(peerwin_ctx *ctx, peerwin_status status);

/* OK, or what a failed driver call on a stream means: STATE if a capture is in the way. */
PEERWIN_MUST_USE peerwin_status pw_stream_result(const peerwin_ctx *ctx, CUresult code, const char *call,
                                                 const pw_site *site);

PEERWIN_MUST_USE peerwin_status pw_stream_is_capturing(const peerwin_ctx *ctx, peerwin_stream stream,
                                                       const pw_site *site, int *capturing_out);

/*
 * The ticket of a stream, by its number, for kernels that count their blocks, in my own arena: the kernels of a stream
 * run one after the other. Not for a stream that captures: a graph runs beside other work of the stream. NULL for
 * streams beyond the first PW_TICKETS of a context.
 */
uint32_t *pw_stream_ticket(peerwin_ctx *ctx, uint64_t number);

/*
 * Blocks until the stream is idle: TIMEOUT after the context's deadline, or the cause that broke the context, for
 * which the stream is then released. The stream does not capture.
 */
PEERWIN_MUST_USE peerwin_status pw_stream_drain(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site);

/* What a local pointer is to the device. */
typedef enum {
    PW_PLACE_PAGEABLE, /* host memory that the driver does not know */
    PW_PLACE_MAPPED,   /* kernels may use it */
    PW_PLACE_OTHER     /* the driver can copy it, kernels cannot use it: memory of a device out of reach */
} pw_place;

pw_place pw_place_of(const pw_gpu *gpu, const void *local);

typedef enum { PW_WAY_ENGINE, PW_WAY_KERNEL } pw_way;

/* Copies contiguous bytes; entered. Memory is device memory or host memory that the driver knows, or, by engine, any.
 */
PEERWIN_MUST_USE peerwin_status pw_stream_copy(const peerwin_ctx *ctx, void *to, const void *from, size_t bytes,
                                               pw_way way, peerwin_stream stream, const pw_site *site);

/* Copies a box by copy engine, whatever its strides; entered. stream_box.c. */
PEERWIN_MUST_USE peerwin_status pw_stream_engine_box(const peerwin_ctx *ctx, void *to_base, int to_pageable,
                                                     const peerwin_box *to, const void *from_base, int from_pageable,
                                                     const peerwin_box *from, peerwin_stream stream,
                                                     const pw_site *site);

/* Sends a signal; entered either way. stream_signal.c. */
PEERWIN_MUST_USE peerwin_status pw_stream_send(const peerwin_win *win, int rank, unsigned slot, peerwin_signal_op op,
                                               uint64_t value, peerwin_stream stream, const pw_site *site);

/*
 * What a wait on a stream needs to be an acquire: flags for the driver's wait, and afterwards work on the stream.
 * stream_signal.c.
 */
unsigned pw_stream_wait_flags(peerwin_ctx *ctx);
PEERWIN_MUST_USE peerwin_status pw_stream_acquire(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site);

static inline CUstream pw_cu_stream(peerwin_stream stream) {
    return (CUstream)stream;
}

#endif
