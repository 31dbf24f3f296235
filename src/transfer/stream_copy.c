/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Put and get on streams: which bytes go by copy engine and which by kernel.
 *
 * The window's side is always memory that this device reaches. The caller's side may be anything: what kernels cannot
 * use goes by copy engine. From and to pageable memory a driver copies while the caller waits, so the stream is drained
 * first, with the deadline that the driver's own wait would not have.
 */
#include "transfer/box.h"
#include "transfer/stream_door.h"
#include "window/sharing.h"

/*
 * From this size on a contiguous copy goes by kernel. Measured on an H200, 2 ranks under MPS, median of 11: on one
 * device a kernel takes 3.7 to 4.1 us up to 1 MiB where the copy engine takes 4.4 to 5.2 us, does as much at 16 MiB,
 * and 3 to 7 % more above. Over NVLink the copy engine is ahead: 64 KiB take 2.2 and 3.5 us, 256 MiB go at 394 and 370
 * GB/s; and so it is for memory of the host, 54 and 51 GB/s. Links that nobody has measured go by copy engine, too.
 */
static const size_t kernel_from[] = {
    [PEERWIN_LINK_NONE] = SIZE_MAX,   [PEERWIN_LINK_HOST] = SIZE_MAX, [PEERWIN_LINK_SAME_DEVICE] = 0,
    [PEERWIN_LINK_NVLINK] = SIZE_MAX, [PEERWIN_LINK_PCIE] = SIZE_MAX, [PEERWIN_LINK_FABRIC] = SIZE_MAX,
};

/* Up to this size a driver takes the bytes of pageable memory at once, and its caller does not wait. */
enum { TAKEN_AT_ONCE = 64 << 10 };

/* One side of a transfer is the window, at `remote`; the other is the caller's memory, at `local`. */
typedef struct {
    peerwin_ctx *ctx;
    int rank;
    peerwin_stream stream;
    const pw_site *site;
    int upload; /* the local side is the source */
} transfer;

peerwin_status pw_stream_copy(const peerwin_ctx *ctx, void *to, const void *from, size_t bytes, pw_way way,
                              peerwin_stream stream, const pw_site *site) {
    if (way == PW_WAY_KERNEL)
        return pw_launch_copy(ctx->gpu, stream, to, from, bytes, site);
    CUresult code =
        ctx->gpu->driver->cuMemcpyAsync(pw_device_address(to), pw_device_address(from), bytes, pw_cu_stream(stream));
    return pw_stream_result(ctx, code, "cuMemcpyAsync", site);
}

/* While capturing nothing is copied yet, so nobody waits. */
static peerwin_status drain_for_pageable(const transfer *t) {
    int capturing = 0;
    peerwin_status status = pw_stream_is_capturing(t->ctx, t->stream, t->site, &capturing);
    return status == PEERWIN_OK && !capturing ? pw_stream_drain(t->ctx, t->stream, t->site) : status;
}

static pw_way way_of(const transfer *t, size_t bytes) {
    return bytes >= kernel_from[t->ctx->peers[t->rank].link] ? PW_WAY_KERNEL : PW_WAY_ENGINE;
}

/* From wherever such bytes come, the copy engine's call neither waits nor needs to know what memory that is. */
static int taken_at_once(const transfer *t, size_t bytes) {
    return t->upload && bytes <= TAKEN_AT_ONCE && way_of(t, bytes) == PW_WAY_ENGINE;
}

static peerwin_status copy_flat(const transfer *t, void *to, const void *from, size_t bytes) {
    if (taken_at_once(t, bytes))
        return pw_stream_copy(t->ctx, to, from, bytes, PW_WAY_ENGINE, t->stream, t->site);
    pw_place place = pw_place_of(t->ctx->gpu, t->upload ? from : to);
    int waits = place == PW_PLACE_PAGEABLE && !(t->upload && bytes <= TAKEN_AT_ONCE);
    peerwin_status status = waits ? drain_for_pageable(t) : PEERWIN_OK;
    if (status != PEERWIN_OK)
        return status;
    pw_way way = place == PW_PLACE_MAPPED ? way_of(t, bytes) : PW_WAY_ENGINE;
    return pw_stream_copy(t->ctx, to, from, bytes, way, t->stream, t->site);
}

/* ---- a few driver calls ----
 *
 * What is only enqueued needs less asking than what may wait for a stream: see pw_stream_step_in. That is so where
 * kernels can use the caller's side, and where the driver takes the bytes at once. Everything else goes the long way.
 */
static int is_only_enqueued(const transfer *t, const void *local, size_t bytes) {
    return taken_at_once(t, bytes) || pw_place_of(t->ctx->gpu, local) == PW_PLACE_MAPPED;
}

/* Returns 1, and how it went, if the copy needs nothing but to be enqueued. */
static int copied_quickly(const transfer *t, void *to, const void *from, size_t bytes, peerwin_status *status) {
    pw_step step;
    *status = pw_step_in(&step, t->ctx, t->stream, t->site);
    if (*status != PEERWIN_OK)
        return 1;
    const int quick = is_only_enqueued(t, t->upload ? from : to, bytes);
    if (quick)
        *status = pw_stream_copy(t->ctx, to, from, bytes, way_of(t, bytes), t->stream, t->site);
    *status = pw_step_out(&step, *status);
    return quick;
}

static peerwin_status copy(const transfer *t, void *to, const void *from, size_t bytes) {
    peerwin_status status = PEERWIN_OK;
    if (copied_quickly(t, to, from, bytes, &status))
        return status;
    status = pw_stream_enter(t->ctx, t->stream, t->site);
    return status == PEERWIN_OK ? pw_stream_leave(t->ctx, copy_flat(t, to, from, bytes)) : status;
}

peerwin_status pw_stream_put(peerwin_win *win, int rank, size_t offset, const void *local, size_t bytes,
                             peerwin_stream stream, const pw_site *site) {
    const transfer t = {.ctx = win->ctx, .rank = rank, .stream = stream, .site = site, .upload = 1};
    return copy(&t, win->peers[rank].base + offset, local, bytes);
}

peerwin_status pw_stream_get(peerwin_win *win, int rank, size_t offset, void *local, size_t bytes,
                             peerwin_stream stream, const pw_site *site) {
    const transfer t = {.ctx = win->ctx, .rank = rank, .stream = stream, .site = site};
    return copy(&t, local, win->peers[rank].base + offset, bytes);
}

/* ---- a put and its signal ---- */

typedef struct {
    peerwin_win *win;
    unsigned slot;
    peerwin_signal_op op;
    uint64_t value;
} notice;

static peerwin_status send(const transfer *t, const notice *n) {
    return pw_stream_send(n->win, t->rank, n->slot, n->op, n->value, t->stream, t->site);
}

/* One kernel for both, which is as fast as that for the data alone; 0 where it cannot be. */
static int fuse(const transfer *t, const pw_step *step, size_t bytes, pw_launch_signal *signal) {
    const peerwin_ctx *ctx = t->ctx;
    if (step->capture || ctx->peers[t->rank].link != PEERWIN_LINK_SAME_DEVICE ||
        ctx->memory_of_arenas->kind == PEERWIN_HANDLE_HOST || bytes < kernel_from[PEERWIN_LINK_SAME_DEVICE])
        return 0;
    signal->one_device = pw_on_one_device(ctx);
    signal->ticket = pw_stream_ticket(t->ctx, step->number);
    return signal->ticket != NULL;
}

static peerwin_status put_signal_enqueued(const transfer *t, const pw_step *step, void *to, const void *local,
                                          size_t bytes, const notice *n) {
    pw_launch_signal signal = {
        .word = &n->win->peers[t->rank].slots[n->slot], .value = n->value, .add = n->op == PEERWIN_SIGNAL_ADD};
    if (fuse(t, step, bytes, &signal))
        return pw_launch_copy_signal(t->ctx->gpu, t->stream, to, local, bytes, &signal, t->site);
    peerwin_status status = pw_stream_copy(t->ctx, to, local, bytes, way_of(t, bytes), t->stream, t->site);
    return status == PEERWIN_OK ? send(t, n) : status;
}

static int signalled_quickly(const transfer *t, void *to, const void *local, size_t bytes, const notice *n,
                             peerwin_status *status) {
    pw_step step;
    *status = pw_step_in(&step, t->ctx, t->stream, t->site);
    if (*status != PEERWIN_OK)
        return 1;
    const int quick = is_only_enqueued(t, local, bytes);
    if (quick)
        *status = put_signal_enqueued(t, &step, to, local, bytes, n);
    *status = pw_step_out(&step, *status);
    return quick;
}

peerwin_status pw_stream_put_signal(peerwin_win *win, int rank, size_t offset, const void *local, size_t bytes,
                                    unsigned slot, peerwin_signal_op op, uint64_t value, peerwin_stream stream,
                                    const pw_site *site) {
    const transfer t = {.ctx = win->ctx, .rank = rank, .stream = stream, .site = site, .upload = 1};
    const notice n = {.win = win, .slot = slot, .op = op, .value = value};
    char *to = win->peers[rank].base + offset;
    peerwin_status status = PEERWIN_OK;
    if (signalled_quickly(&t, to, local, bytes, &n, &status))
        return status;
    status = pw_stream_enter(win->ctx, stream, site);
    if (status != PEERWIN_OK)
        return status;
    status = copy_flat(&t, to, local, bytes);
    return pw_stream_leave(win->ctx, status == PEERWIN_OK ? send(&t, &n) : status);
}

/* ---- boxes */

/* Both ends of the box are looked at: a kernel that runs off mapped memory would cost the whole CUDA context. */
static pw_place place_of_box(const pw_gpu *gpu, const void *local, const peerwin_box *box) {
    size_t extent = 0;
    const char *first = (const char *)local + box->offset;
    pw_place place = pw_place_of(gpu, first);
    if (place != PW_PLACE_MAPPED || pw_box_extent(box, &extent) != 0 || extent < 2)
        return place;
    return pw_place_of(gpu, first + extent - 1);
}

static int is_flat(const peerwin_box *box) {
    return (box->count[1] == 1 || (box->stride[0] == box->count[0])) &&
           (box->count[2] == 1 || (box->stride[1] == box->count[0] * box->count[1]));
}

static size_t bytes_of(const peerwin_box *box) {
    return box->count[0] * box->count[1] * box->count[2]; /* fits: the rows of a target do not overlap */
}

static peerwin_status copy_box(const transfer *t, void *to_base, const peerwin_box *to, const void *from_base,
                               const peerwin_box *from) {
    if (is_flat(to) && is_flat(from))
        return copy_flat(t, (char *)to_base + to->offset, (const char *)from_base + from->offset, bytes_of(to));
    pw_place place = place_of_box(t->ctx->gpu, t->upload ? from_base : to_base, t->upload ? from : to);
    if (place == PW_PLACE_MAPPED)
        return pw_launch_box(t->ctx->gpu, t->stream, to_base, to, from_base, from, t->site);
    int pageable = place == PW_PLACE_PAGEABLE;
    peerwin_status status = pageable ? drain_for_pageable(t) : PEERWIN_OK;
    if (status != PEERWIN_OK)
        return status;
    return pw_stream_engine_box(t->ctx, to_base, pageable && !t->upload, to, from_base, pageable && t->upload, from,
                                t->stream, t->site);
}

peerwin_status pw_stream_put_box(peerwin_win *win, int rank, const peerwin_box *to, const void *local,
                                 const peerwin_box *from, peerwin_stream stream, const pw_site *site) {
    const transfer t = {.ctx = win->ctx, .rank = rank, .stream = stream, .site = site, .upload = 1};
    peerwin_status status = pw_stream_enter(win->ctx, stream, site);
    if (status != PEERWIN_OK)
        return status;
    return pw_stream_leave(win->ctx, copy_box(&t, win->peers[rank].base, to, local, from));
}

peerwin_status pw_stream_get_box(peerwin_win *win, int rank, const peerwin_box *from, void *local,
                                 const peerwin_box *to, peerwin_stream stream, const pw_site *site) {
    const transfer t = {.ctx = win->ctx, .rank = rank, .stream = stream, .site = site};
    peerwin_status status = pw_stream_enter(win->ctx, stream, site);
    if (status != PEERWIN_OK)
        return status;
    return pw_stream_leave(win->ctx, copy_box(&t, local, to, win->peers[rank].base, from));
}
