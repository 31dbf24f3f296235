/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Signals on streams. SET is a write of the stream, which waits for all that the stream did before; ADD is a kernel,
 * because streams have no atomic operation; a wait is the stream's own and takes no processor.
 *
 * What a wait is an acquire of: between devices that share memory or NVLink, the writer's stream has waited for the
 * acknowledgement of its earlier writes, so they are in memory when the signal is. Over PCIe writes are posted: there
 * the wait flushes what is on its way, if the device can, or a kernel after it does.
 */
#include "transfer/stream_door.h"
#include "window/watchdog.h"

enum { ACQUIRE_BY_WAIT = 1, ACQUIRE_BY_FLUSH, ACQUIRE_BY_KERNEL };

static int settle_acquire(const peerwin_ctx *ctx) {
    int over_pcie = 0;
    for (int rank = 0; rank < ctx->size; rank++)
        over_pcie |= ctx->peers[rank].link == PEERWIN_LINK_PCIE;
    if (!over_pcie || ctx->memory_of_arenas->kind == PEERWIN_HANDLE_HOST)
        return ACQUIRE_BY_WAIT;
    return pw_gpu_about(ctx->gpu)->flush_remote ? ACQUIRE_BY_FLUSH : ACQUIRE_BY_KERNEL;
}

unsigned pw_stream_wait_flags(peerwin_ctx *ctx) {
    if (ctx->stream_acquire == 0)
        ctx->stream_acquire = settle_acquire(ctx);
    unsigned flush = ctx->stream_acquire == ACQUIRE_BY_FLUSH ? CU_STREAM_WAIT_VALUE_FLUSH : 0u;
    return CU_STREAM_WAIT_VALUE_GEQ | flush;
}

/* Adding nothing to my own barrier line changes nothing, and comes with the fences of every addition. */
peerwin_status pw_stream_acquire(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    if (ctx->stream_acquire != ACQUIRE_BY_KERNEL)
        return PEERWIN_OK;
    uint64_t *line = pw_arena_line(ctx->peers[ctx->rank].arena, &ctx->arena_layout, ctx->rank);
    return pw_launch_add(ctx->gpu, stream, line, 0, site);
}

peerwin_status pw_stream_check_signal(const peerwin_win *win, int rank, peerwin_signal_op op, const pw_site *site) {
    const peerwin_ctx *ctx = win->ctx;
    if (op == PEERWIN_SIGNAL_SET)
        return PEERWIN_OK;
    if (ctx->memory_of_arenas->kind == PEERWIN_HANDLE_HOST)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "signals of this context are in host memory, the only kind that it may use, and devices have no "
                       "atomics there: use SET, or allow other kinds (PEERWIN_HANDLES)");
    if (rank != ctx->rank && !ctx->peers[rank].native_atomics)
        return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                       "the link to that rank has no atomics: use SET, with a slot for each sender");
    return PEERWIN_OK;
}

peerwin_status pw_stream_send(const peerwin_win *win, int rank, unsigned slot, peerwin_signal_op op, uint64_t value,
                              peerwin_stream stream, const pw_site *site) {
    uint64_t *word = &win->peers[rank].slots[slot];
    if (op == PEERWIN_SIGNAL_ADD)
        return pw_launch_add(win->ctx->gpu, stream, word, value, site);
    CUresult code =
        win->ctx->gpu->driver->cuStreamWriteValue64(pw_cu_stream(stream), pw_device_address(word), value, 0);
    return pw_stream_result(win->ctx, code, "cuStreamWriteValue64", site);
}

peerwin_status pw_stream_signal(peerwin_win *win, int rank, unsigned slot, peerwin_signal_op op, uint64_t value,
                                peerwin_stream stream, const pw_site *site) {
    peerwin_status status = pw_stream_check_signal(win, rank, op, site);
    if (status == PEERWIN_OK)
        status = pw_stream_step_in(win->ctx, stream, site);
    if (status != PEERWIN_OK)
        return status;
    return pw_stream_step_out(win->ctx, pw_stream_send(win, rank, slot, op, value, stream, site));
}

/* What is awaited is noted first: from then on the watchdog can end the wait. */
static peerwin_status await(const peerwin_win *win, unsigned slot, uint64_t value, peerwin_stream stream,
                            const pw_site *site) {
    peerwin_ctx *ctx = win->ctx;
    uint64_t *word = &win->peers[ctx->rank].slots[slot];
    unsigned flags = pw_stream_wait_flags(ctx);
    pw_watchdog_expect_signal(ctx, word, value);
    CUresult code = ctx->gpu->driver->cuStreamWaitValue64(pw_cu_stream(stream), pw_device_address(word), value, flags);
    peerwin_status status = pw_stream_result(ctx, code, "cuStreamWaitValue64", site);
    return status == PEERWIN_OK ? pw_stream_acquire(ctx, stream, site) : status;
}

peerwin_status pw_stream_wait(peerwin_win *win, unsigned slot, uint64_t value, peerwin_stream stream,
                              const pw_site *site) {
    peerwin_status status = pw_stream_step_in(win->ctx, stream, site);
    if (status != PEERWIN_OK)
        return status;
    return pw_stream_step_out(win->ctx, await(win, slot, value, stream, site));
}

peerwin_status pw_stream_consume(peerwin_win *win, unsigned slot, uint64_t count, peerwin_stream stream,
                                 const pw_site *site) {
    peerwin_ctx *ctx = win->ctx;
    peerwin_status status = pw_stream_check_signal(win, ctx->rank, PEERWIN_SIGNAL_ADD, site);
    if (status == PEERWIN_OK)
        status = pw_stream_step_in(ctx, stream, site);
    if (status != PEERWIN_OK)
        return status;
    status = await(win, slot, count, stream, site);
    if (status == PEERWIN_OK)
        status = pw_launch_add(ctx->gpu, stream, &win->peers[ctx->rank].slots[slot], 0 - count, site);
    return pw_stream_step_out(ctx, status);
}

peerwin_status pw_stream_read_signal(peerwin_win *win, unsigned slot, uint64_t *value_out, const pw_site *site) {
    peerwin_ctx *ctx = win->ctx;
    uint64_t value = 0;
    peerwin_status status = pw_gpu_enter(ctx->gpu, site);
    if (status != PEERWIN_OK)
        return status;
    status = pw_gpu_read(ctx->gpu, &value, &win->peers[ctx->rank].slots[slot], sizeof value, site);
    if (status == PEERWIN_OK)
        *value_out = value;
    return pw_stream_leave(ctx, status);
}
