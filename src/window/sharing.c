/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that share a device; see sharing.h.
 *
 * A kernel that waits for another rank's must not keep that one from running. On a device of its own it cannot. On a
 * shared one it can, unless MPS runs the ranks side by side and each has threads of its own: all are clients of one
 * server, and their shares of the threads add up to no more than the device ("full MPS"). Without that the device is
 * given to one rank after the other, and a kernel that waits holds it for milliseconds.
 *
 * The choice between kinds was measured on an H200: on 2 ranks that share it, memory operations take 2.7 us and a
 * kernel 3.7; each further rank adds two operations of 1 to 2 us, so that on 4 ranks they take 11.3 us. Between
 * devices a kernel is ahead, 3.8 to 5.7 us.
 */
#include "window/sharing.h"

#include "base/env.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static uint64_t hash(const void *bytes, size_t count, uint64_t value) {
    for (size_t i = 0; i < count; i++)
        value = (value ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return value;
}

/* Servers are told apart by the directory where they are found: by what it is, whatever each rank calls it. */
static uint64_t name_server(const char *directory) {
    struct stat info;
    uint64_t value = 0xcbf29ce484222325u;
    if (stat(directory, &info) == 0) {
        value = hash(&info.st_dev, sizeof info.st_dev, value);
        value = hash(&info.st_ino, sizeof info.st_ino, value);
    } else {
        value = hash(directory, strlen(directory), value);
    }
    return value | 1;
}

void pw_sharing_fill_card(const pw_device *about, pw_card *card) {
    pw_env_mps mps = pw_env_read_mps();
    card->events = about->ipc_events != 0;
    card->mps = about->mps ? name_server(mps.directory) : 0;
    card->share = mps.share;
}

static int share_a_device(const peerwin_ctx *ctx, int a, int b) {
    return strcmp(ctx->peers[a].device, ctx->peers[b].device) == 0;
}

/* The ranks on the device of `rank`, and whether they run side by side there. */
static int count_sharers(const peerwin_ctx *ctx, int rank, int *side_by_side_out) {
    int count = 0;
    uint64_t shares = 0;
    *side_by_side_out = ctx->cards[rank].mps != 0;
    for (int other = 0; other < ctx->size; other++) {
        if (!share_a_device(ctx, rank, other))
            continue;
        count++;
        shares += ctx->cards[other].share;
        *side_by_side_out &= ctx->cards[other].mps == ctx->cards[rank].mps;
    }
    *side_by_side_out &= shares <= PW_ENV_MPS_ALL;
    return count;
}

static peerwin_status check_events(const peerwin_ctx *ctx, const pw_site *site) {
    for (int rank = 0; rank < ctx->size; rank++) {
        if (ctx->peers[rank].node != ctx->peers[0].node)
            return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                           "barriers of kind EVENT are for ranks of one machine, and rank %d is on another than rank "
                           "0: use MEMOP or KERNEL",
                           rank);
        if (!ctx->cards[rank].events)
            return pw_fail(PEERWIN_ERR_UNSUPPORTED, site,
                           "barriers of kind EVENT need interprocess events, which the device of rank %d has not: use "
                           "MEMOP or KERNEL",
                           rank);
    }
    return PEERWIN_OK;
}

static peerwin_barrier_kind choose(const peerwin_ctx *ctx) {
    if (!ctx->kernels_wait || (ctx->most_on_device > 1 && ctx->size == 2))
        return PEERWIN_BARRIER_MEMOP;
    return PEERWIN_BARRIER_KERNEL;
}

peerwin_status pw_sharing_settle(peerwin_ctx *ctx, peerwin_barrier_kind asked, const pw_site *site) {
    ctx->kernels_wait = 1;
    ctx->most_on_device = 1;
    for (int rank = 0; rank < ctx->size; rank++) {
        int side_by_side = 0;
        int count = count_sharers(ctx, rank, &side_by_side);
        if (count > ctx->most_on_device)
            ctx->most_on_device = count;
        ctx->kernels_wait &= count == 1 || side_by_side;
    }
    ctx->barrier_kind = asked == PEERWIN_BARRIER_AUTO ? choose(ctx) : asked;
    return asked == PEERWIN_BARRIER_EVENT ? check_events(ctx, site) : PEERWIN_OK;
}

/* ---- what is said of it */

static void say_shared_devices(const peerwin_ctx *ctx) {
    for (int rank = 1; rank < ctx->size; rank++)
        for (int other = 0; other < rank; other++)
            if (share_a_device(ctx, rank, other)) {
                pw_log(ctx->kernels_wait ? PW_LOG_INFO : PW_LOG_WARN, ctx->rank,
                       "ranks %d and %d share device %s, and perhaps others do%s", other, rank, ctx->peers[rank].device,
                       ctx->kernels_wait ? ", side by side under MPS"
                                         : "; without MPS (one server, thread percentages of 100 at most in all) no "
                                           "kernel of the library waits for a peer there");
                return;
            }
}

void pw_sharing_say(const peerwin_ctx *ctx) {
    static const char *const names[] = {"AUTO", "EVENT", "MEMOP", "KERNEL"};
    if (ctx->rank != 0)
        return;
    say_shared_devices(ctx);
    pw_log(PW_LOG_INFO, ctx->rank, "barriers on streams are of kind %s; in graphs they are %s",
           names[ctx->barrier_kind],
           ctx->barrier_kind == PEERWIN_BARRIER_EVENT ? "refused"
           : pw_kernels_meet(ctx)                     ? "kernels"
                                                      : "memory operations in two phases");
    if (ctx->barrier_kind == PEERWIN_BARRIER_KERNEL && !ctx->kernels_wait)
        pw_log(PW_LOG_WARN, ctx->rank,
               "barriers are kernels that wait, as asked for, though ranks take turns on a device: each may take "
               "milliseconds");
}
