/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Boxes by copy engine, for memory that kernels cannot use.
 *
 * The driver copies rows and planes in one call if both ends have a pitch that is no shorter than a row, and planes
 * that begin a whole number of rows apart and do not interleave. Rows and planes may change places to get there.
 * Whatever does not fit is copied plane by plane, and at worst row by row.
 */
#include "transfer/stream_door.h"

#include <limits.h>

/* Pitches beyond this are refused (CU_DEVICE_ATTRIBUTE_MAX_PITCH on all devices). */
static const size_t max_pitch = INT_MAX;

/* So many steps, so far apart at both ends. */
typedef struct {
    size_t count;
    size_t to, from;
} steps;

typedef struct {
    const peerwin_ctx *ctx;
    CUstream stream;
    const pw_site *site;
    int to_pageable, from_pageable;
    size_t bytes; /* of a row */
} job;

static int has_pitch(const steps *rows, size_t bytes) {
    return rows->to >= bytes && rows->from >= bytes && rows->to <= max_pitch && rows->from <= max_pitch;
}

static int slices_fit(size_t plane, size_t pitch, size_t rows) {
    return plane % pitch == 0 && plane / pitch >= rows;
}

static int is_pitched(const steps *rows, const steps *planes, size_t bytes) {
    return has_pitch(rows, bytes) && (planes->count == 1 || (slices_fit(planes->to, rows->to, rows->count) &&
                                                             slices_fit(planes->from, rows->from, rows->count)));
}

static peerwin_status copy_row(const job *j, char *to, const char *from) {
    CUresult code =
        j->ctx->gpu->driver->cuMemcpyAsync(pw_device_address(to), pw_device_address(from), j->bytes, j->stream);
    return pw_stream_result(j->ctx, code, "cuMemcpyAsync", j->site);
}

static peerwin_status copy_pitched(const job *j, char *to, const char *from, const steps *rows, const steps *planes) {
    CUDA_MEMCPY3D copy = {
        .srcMemoryType = j->from_pageable ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED,
        .srcHost = from,
        .srcDevice = pw_device_address(from),
        .srcPitch = rows->from,
        .srcHeight = planes->count == 1 ? rows->count : planes->from / rows->from,
        .dstMemoryType = j->to_pageable ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED,
        .dstHost = to,
        .dstDevice = pw_device_address(to),
        .dstPitch = rows->to,
        .dstHeight = planes->count == 1 ? rows->count : planes->to / rows->to,
        .WidthInBytes = j->bytes,
        .Height = rows->count,
        .Depth = planes->count,
    };
    CUresult code = j->ctx->gpu->driver->cuMemcpy3DAsync(&copy, j->stream);
    return pw_stream_result(j->ctx, code, "cuMemcpy3DAsync", j->site);
}

static peerwin_status copy_plane(const job *j, char *to, const char *from, const steps *rows) {
    static const steps one = {.count = 1};
    peerwin_status status = PEERWIN_OK;
    if (has_pitch(rows, j->bytes))
        return copy_pitched(j, to, from, rows, &one);
    for (size_t row = 0; row < rows->count && status == PEERWIN_OK; row++)
        status = copy_row(j, to + row * rows->to, from + row * rows->from);
    return status;
}

peerwin_status pw_stream_engine_box(const peerwin_ctx *ctx, void *to_base, int to_pageable, const peerwin_box *to,
                                    const void *from_base, int from_pageable, const peerwin_box *from,
                                    peerwin_stream stream, const pw_site *site) {
    const job j = {.ctx = ctx,
                   .stream = pw_cu_stream(stream),
                   .site = site,
                   .to_pageable = to_pageable,
                   .from_pageable = from_pageable,
                   .bytes = to->count[0]};
    steps rows = {to->count[1], to->stride[0], from->stride[0]};
    steps planes = {to->count[2], to->stride[1], from->stride[1]};
    char *target = (char *)to_base + to->offset;
    const char *source = (const char *)from_base + from->offset;
    if (rows.count == 1 || (planes.count > 1 && !is_pitched(&rows, &planes, j.bytes) &&
                            (is_pitched(&planes, &rows, j.bytes) || !has_pitch(&rows, j.bytes)))) {
        steps swapped = rows;
        rows = planes;
        planes = swapped;
    }
    if (rows.count > 1 && is_pitched(&rows, &planes, j.bytes))
        return copy_pitched(&j, target, source, &rows, &planes);
    peerwin_status status = PEERWIN_OK;
    for (size_t plane = 0; plane < planes.count && status == PEERWIN_OK; plane++)
        status = copy_plane(&j, target + plane * planes.to, source + plane * planes.from, &rows);
    return status;
}
