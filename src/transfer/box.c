/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Strided boxes: their geometry, and put and get of them: copied here in host space, by the stream in CUDA space.
 */
#include "transfer/box.h"

#include "transfer/door.h"
#include "transfer/stream.h"

#include <string.h>

/* a + n * stride, or -1 if it does not fit. */
static int add_product(size_t *sum, size_t n, size_t stride) {
    size_t product;
    return __builtin_mul_overflow(n, stride, &product) || __builtin_add_overflow(*sum, product, sum) ? -1 : 0;
}

static int has_countable_bytes(const peerwin_box *box) {
    size_t bytes;
    return !__builtin_mul_overflow(box->count[0], box->count[1], &bytes) &&
           !__builtin_mul_overflow(bytes, box->count[2], &bytes) && bytes <= PTRDIFF_MAX;
}

int pw_box_extent(const peerwin_box *box, size_t *extent_out) {
    size_t extent = box->count[0];
    if (pw_box_empty(box)) {
        *extent_out = 0;
        return 0;
    }
    if (!has_countable_bytes(box) || add_product(&extent, box->count[1] - 1, box->stride[0]) != 0 ||
        add_product(&extent, box->count[2] - 1, box->stride[1]) != 0)
        return -1;
    *extent_out = extent;
    return 0;
}

/*
 * Rows start at r * stride[0] + p * stride[1]. Planes that follow each other, or rows that do (planes interleaved), are
 * the usual cases; else for each distance of planes the nearest distance of rows decides.
 */
int pw_box_overlaps_itself(const peerwin_box *box) {
    size_t bytes = box->count[0];
    size_t rows = box->count[1];
    size_t planes = box->count[2];
    size_t row = box->stride[0];
    size_t plane = box->stride[1];
    if (pw_box_empty(box))
        return 0;
    if ((rows > 1 && row < bytes) || (planes > 1 && plane < bytes))
        return 1;
    if (rows == 1 || planes == 1)
        return 0;
    if (plane >= (rows - 1) * row + bytes || row >= (planes - 1) * plane + bytes)
        return 0;
    for (size_t p = 1; p < planes; p++) {
        size_t distance = p * plane; /* cannot overflow: the box has an extent */
        size_t below = distance / row;
        if (below < rows && distance - below * row < bytes)
            return 1;
        if (below + 1 < rows && (below + 1) * row - distance < bytes)
            return 1;
    }
    return 0;
}

void pw_box_copy(char *to_base, const peerwin_box *to, const char *from_base, const peerwin_box *from) {
    for (size_t plane = 0; plane < to->count[2]; plane++) {
        char *target = to_base + to->offset + plane * to->stride[1];
        const char *source = from_base + from->offset + plane * from->stride[1];
        for (size_t row = 0; row < to->count[1]; row++)
            memcpy(target + row * to->stride[0], source + row * from->stride[0], to->count[0]);
    }
}

static peerwin_status check_shapes(const peerwin_win *win, const char *call, const peerwin_box *to,
                                   const peerwin_box *from) {
    const pw_site *site = PW_SITE(call, NULL, win->ctx->rank, PW_NONE);
    for (int i = 0; i < 3; i++)
        if (to->count[i] != from->count[i])
            return pw_fail(PEERWIN_ERR_ARG, site,
                           "the boxes differ: count[%d] is %zu in the target and %zu in the source", i, to->count[i],
                           from->count[i]);
    if (pw_box_overlaps_itself(to))
        return pw_fail(PEERWIN_ERR_ARG, site,
                       "rows of the target box overlap: %zu bytes, %zu rows %zu apart, %zu planes %zu apart",
                       to->count[0], to->count[1], to->stride[0], to->count[2], to->stride[1]);
    return PEERWIN_OK;
}

/* Ranges first: `remote` is the box in the window, `local` the one in the caller's memory, whose size nobody knows. */
static peerwin_status check_ranges(const peerwin_win *win, const char *call, int rank, const peerwin_box *remote,
                                   const peerwin_box *local) {
    size_t extent = 0;
    if (!pw_win_reaches(win, rank))
        return pw_refuse_rank(win, call, rank);
    if (pw_box_extent(remote, &extent) != 0)
        return pw_refuse_range(win, call, rank, remote->offset, SIZE_MAX);
    if (!pw_in_range(&win->peers[rank], remote->offset, extent))
        return pw_refuse_range(win, call, rank, remote->offset, extent);
    if (pw_box_extent(local, &extent) != 0)
        return pw_fail(PEERWIN_ERR_RANGE, PW_SITE(call, NULL, win->ctx->rank, PW_NONE),
                       "the box in local memory, from offset %zu on, is larger than the address space", local->offset);
    return PEERWIN_OK;
}

static peerwin_status store_box(peerwin_win *win, const char *call, int rank, const peerwin_box *to, const void *src,
                                const peerwin_box *from, peerwin_stream stream) {
    peerwin_status status = check_ranges(win, call, rank, to, from);
    if (status == PEERWIN_OK)
        status = check_shapes(win, call, to, from);
    if (status != PEERWIN_OK)
        return status;
    if (win->peers[rank].read_only)
        return pw_refuse_store(win, call, rank);
    if (pw_box_empty(to))
        return PEERWIN_OK;
    if (!src)
        return pw_refuse_null(win, call, "src");
    if (pw_on_streams(win->ctx))
        return pw_stream_put_box(win, rank, to, src, from, stream, PW_SITE(call, NULL, win->ctx->rank, rank));
    pw_box_copy(win->peers[rank].base, to, src, from);
    return PEERWIN_OK;
}

static peerwin_status load_box(peerwin_win *win, const char *call, int rank, const peerwin_box *from, void *dst,
                               const peerwin_box *to, peerwin_stream stream) {
    peerwin_status status = check_ranges(win, call, rank, from, to);
    if (status == PEERWIN_OK)
        status = check_shapes(win, call, to, from);
    if (status != PEERWIN_OK || pw_box_empty(to))
        return status;
    if (!dst)
        return pw_refuse_null(win, call, "dst");
    if (pw_on_streams(win->ctx))
        return pw_stream_get_box(win, rank, from, dst, to, stream, PW_SITE(call, NULL, win->ctx->rank, rank));
    pw_box_copy(dst, to, win->peers[rank].base, from);
    return PEERWIN_OK;
}

peerwin_status peerwin_put_box(peerwin_win *win, int rank, const peerwin_box *to, const void *src,
                               const peerwin_box *from, peerwin_stream stream) {
    static const char call[] = "peerwin_put_box";
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    if (rank != MPI_PROC_NULL)
        status = to && from ? store_box(win, call, rank, to, src, from, stream) : pw_refuse_null(win, call, "a box");
    pw_ctx_leave(win->ctx);
    return status;
}

peerwin_status peerwin_get_box(peerwin_win *win, int rank, const peerwin_box *from, void *dst, const peerwin_box *to,
                               peerwin_stream stream) {
    static const char call[] = "peerwin_get_box";
    peerwin_status status = pw_win_enter(win, call);
    if (status != PEERWIN_OK)
        return status;
    if (rank != MPI_PROC_NULL)
        status = to && from ? load_box(win, call, rank, from, dst, to, stream) : pw_refuse_null(win, call, "a box");
    pw_ctx_leave(win->ctx);
    return status;
}
