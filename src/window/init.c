/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * peerwin_init: settle the options, meet the other ranks, find out who can reach whom, map the pads.
 *
 * Each stage ends in an agreed status, so all ranks go on or unwind together. What a stage acquires goes into the
 * context at once, and pw_ctx_release frees whatever is there: a failed init and finalize take the same way out.
 */
#include "window/context.h"

#include "base/farfence.h"
#include "base/fd.h"
#include "base/log.h"
#include "window/config.h"
#include "window/crew.h"
#include "window/exchange.h"
#include "window/lifetime.h"
#include "window/space.h"
#include "window/topology.h"
#include "window/watchdog.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char call_name[] = "peerwin_init";

/* What cannot be agreed on, because without it there is nobody to agree with. */
static peerwin_status check_mpi(MPI_Comm comm, const pw_site *site) {
    int initialized = 0;
    int finalized = 0;
    int inter = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!initialized)
        return pw_fail(PEERWIN_ERR_STATE, site, "MPI is not initialized: call MPI_Init first");
    if (finalized)
        return pw_fail(PEERWIN_ERR_STATE, site, "MPI is finalized already");
    if (comm == MPI_COMM_NULL)
        return pw_fail(PEERWIN_ERR_ARG, site, "the communicator is MPI_COMM_NULL");
    MPI_Comm_test_inter(comm, &inter);
    if (inter)
        return pw_fail(PEERWIN_ERR_ARG, site, "an intercommunicator cannot be used; merge it with MPI_Intercomm_merge");
    return PEERWIN_OK;
}

static peerwin_status make_tables(peerwin_ctx *ctx, const pw_site *site) {
    size_t count = (size_t)ctx->size;
    ctx->hellos = calloc(count, sizeof *ctx->hellos);
    ctx->peers = calloc(count, sizeof *ctx->peers);
    if (!ctx->hellos || !ctx->peers)
        return pw_fail_errno(site, ENOMEM, "calloc");
    for (int rank = 0; rank < ctx->size; rank++)
        ctx->peers[rank].socket = -1;
    return pw_liveness_create(&ctx->live, ctx->size, site);
}

static peerwin_status decode_hellos(peerwin_ctx *ctx, const uint8_t *all, const pw_site *site) {
    for (int rank = 0; rank < ctx->size; rank++) {
        pw_site there = *site;
        there.peer = rank;
        if (pw_hello_decode(all + (size_t)rank * PW_HELLO_BYTES, &ctx->hellos[rank]) != 0)
            return pw_fail(PEERWIN_ERR_MISMATCH, &there,
                           "the record received is not one of this version: all ranks must use the same library");
    }
    return pw_options_compare(ctx->hellos, ctx->size, site);
}

/* Everyone tells everyone who it is and what it was asked to do. */
static peerwin_status meet(peerwin_ctx *ctx, const pw_options *options, const pw_address *address,
                           const pw_site *site) {
    uint8_t mine[PW_HELLO_BYTES];
    void *all = NULL;
    pw_hello hello;
    memset(&hello, 0, sizeof hello);
    peerwin_status status = pw_ctx_agree(ctx, pw_topology_describe_self(&hello, site), site);
    if (status != PEERWIN_OK)
        return status;
    hello.options = *options;
    hello.address = *address;
    hello.fences_far = options->space == PEERWIN_SPACE_HOST && pw_far_fence_register();
    pw_hello_encode(&hello, mine);
    status = pw_ctx_gather(ctx, mine, sizeof mine, &all, site);
    if (status != PEERWIN_OK)
        return status;
    status = decode_hellos(ctx, all, site);
    free(all);
    ctx->serial = (uint32_t)ctx->hellos[0].serial | 1u;
    return pw_ctx_agree(ctx, status, site);
}

/*
 * Nodes, liveness, channels. The listener lives only as long as others may still connect. Its queue is long, because
 * anybody on the machine may stand in it until this rank looks.
 */
static peerwin_status find_peers(peerwin_ctx *ctx, const pw_settings *settings) {
    const pw_site *site = PW_SITE(call_name, "meet", ctx->rank, PW_NONE);
    pw_address address = {0};
    int listener = -1;
    peerwin_status status = pw_channel_listen(settings->socket_dir, SOMAXCONN, site, &listener, &address);
    status = pw_ctx_agree(ctx, status, site);
    if (status == PEERWIN_OK)
        status = meet(ctx, &settings->options, &address, site);
    if (status == PEERWIN_OK)
        status = pw_topology_nodes(ctx, site);
    if (status == PEERWIN_OK) {
        ctx->agree.live = &ctx->live; /* from here on a death is noticed at once */
        status = pw_ctx_agree(ctx, pw_topology_watch(ctx, site), site);
    }
    if (status == PEERWIN_OK)
        status = pw_topology_connect(ctx, listener, PW_SITE(call_name, "connect", ctx->rank, PW_NONE));
    pw_channel_unlink(&address);
    pw_close(&listener);
    return status;
}

/* Strict mode: the lowest pair without a direct path, the same answer on every rank. */
static peerwin_status check_strict(peerwin_ctx *ctx) {
    peerwin_status status = PEERWIN_OK;
    for (int rank = 0; rank < ctx->size && status == PEERWIN_OK; rank++) {
        const pw_peer *peer = &ctx->peers[rank];
        if (peer->path == PEERWIN_PATH_NONE)
            status = pw_fail(PEERWIN_ERR_UNREACHABLE, PW_SITE(call_name, "connect", ctx->rank, rank),
                             "strict mode (PEERWIN_STRICT) and no direct path: %s", peer->reason);
    }
    return pw_ctx_agree(ctx, status, PW_SITE(call_name, "connect", ctx->rank, PW_NONE));
}

static void settle(peerwin_ctx *ctx, const pw_settings *settings) {
    ctx->rank = ctx->agree.rank;
    ctx->size = ctx->agree.size;
    pw_gate_init(&ctx->gate, ctx->wiped);
    ctx->alive = 1;
    ctx->pid = getpid();
    ctx->space = PEERWIN_SPACE_HOST;
    ctx->arena_layout = pw_arena_layout_of(ctx->size);
    ctx->arena_segment.fd = -1;
    ctx->events.fd = -1;
    MPI_Query_thread(&ctx->mpi_threads);
    ctx->flags = settings->options.flags;
    ctx->timeout_ms = settings->options.timeout_ms;
    ctx->halo_pack = settings->halo_pack;
    ctx->layout = pw_pad_layout_of(ctx->size);
    ctx->series_request = MPI_REQUEST_NULL;
    ctx->node_comm = ctx->direct_comm = ctx->series_comm = MPI_COMM_NULL;
    ctx->keyval = MPI_KEYVAL_INVALID;
    ctx->pad_segment.fd = -1;
}

/* Barriers and all-reduces by MPI need room; it is taken here, where a failure can be agreed on. */
static peerwin_status make_series(peerwin_ctx *ctx, const pw_site *site) {
    MPI_Request request = MPI_REQUEST_NULL;
    ctx->gathered = calloc((size_t)ctx->size + 1, sizeof *ctx->gathered);
    peerwin_status status = pw_ctx_agree(ctx, ctx->gathered ? PEERWIN_OK : pw_fail_errno(site, ENOMEM, "calloc"), site);
    if (status != PEERWIN_OK)
        return status;
    int code = MPI_Comm_idup(ctx->agree.comm, &ctx->series_comm, &request);
    if (code != MPI_SUCCESS) {
        ctx->series_comm = MPI_COMM_NULL;
        return pw_ctx_not_started(ctx, code, "MPI_Comm_idup", site);
    }
    status = pw_ctx_wait(ctx, &request, "MPI_Comm_idup", site);
    return status == PEERWIN_OK ? pw_ctx_agree(ctx, status, site) : status;
}

static void say_ready(const peerwin_ctx *ctx) {
    int direct = 0;
    const pw_peer *first = NULL;
    for (int rank = 0; rank < ctx->size; rank++) {
        direct += ctx->peers[rank].path != PEERWIN_PATH_NONE;
        if (!first && ctx->peers[rank].path == PEERWIN_PATH_NONE)
            first = &ctx->peers[rank];
    }
    pw_log(PW_LOG_INFO, ctx->rank, "ready: %s space%s%s, %d of %d ranks reached directly", ctx->gpu ? "CUDA" : "host",
           ctx->gpu ? ", memory " : "", ctx->gpu ? ctx->memory_of_arenas->name : "", direct, ctx->size);
    if (first && ctx->rank == 0)
        pw_log(PW_LOG_WARN, ctx->rank, "not every rank is reached directly: %s", first->reason);
}

/* What streams need: arenas, and the watchdog that ends their waits. */
static peerwin_status bring_up_device(peerwin_ctx *ctx) {
    const pw_site *site = PW_SITE(call_name, "arenas", ctx->rank, PW_NONE);
    peerwin_status entered = pw_space_enter(ctx, site);
    peerwin_status status = pw_ctx_agree(ctx, entered, site);
    if (status == PEERWIN_OK)
        status = pw_arenas_map(ctx, site);
    if (status == PEERWIN_OK && ctx->barrier_kind == PEERWIN_BARRIER_EVENT)
        status = pw_events_map(ctx, PW_SITE(call_name, "events", ctx->rank, PW_NONE));
    if (entered == PEERWIN_OK)
        pw_space_leave(ctx);
    return status;
}

static void settle_crew(peerwin_ctx *ctx) {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    pw_crew_settle(ctx, ranks);
}

/* Everything that needs the other ranks. */
static peerwin_status bring_up(peerwin_ctx *ctx, const pw_settings *settings) {
    const pw_site *site = PW_SITE(call_name, NULL, ctx->rank, PW_NONE);
    peerwin_status status = pw_ctx_agree(ctx, make_tables(ctx, site), site);
    if (status == PEERWIN_OK)
        status = find_peers(ctx, settings);
    if (status == PEERWIN_OK)
        settle_crew(ctx);
    if (status == PEERWIN_OK)
        status = pw_space_settle(ctx, settings, PW_SITE(call_name, "space", ctx->rank, PW_NONE));
    if (status == PEERWIN_OK)
        status = pw_pads_map(ctx, PW_SITE(call_name, "pads", ctx->rank, PW_NONE));
    if (status == PEERWIN_OK && ctx->gpu)
        status = bring_up_device(ctx);
    if (status == PEERWIN_OK && (ctx->flags & PEERWIN_STRICT))
        status = check_strict(ctx);
    if (status == PEERWIN_OK)
        status = pw_topology_domain(ctx, site);
    if (status == PEERWIN_OK)
        status = pw_ctx_agree(ctx, pw_lifetime_watch_mpi(ctx, site), site);
    if (status == PEERWIN_OK && !ctx->all_direct)
        status = make_series(ctx, site);
    ctx->host_direct = ctx->all_direct && !ctx->gpu;
    if (status == PEERWIN_OK && ctx->gpu)
        status = pw_ctx_agree(ctx, pw_watchdog_start(ctx, site), site);
    return status;
}

peerwin_status peerwin_init(MPI_Comm comm, const peerwin_config *config, peerwin_ctx **ctx_out) {
    pw_site site = {.call = call_name, .rank = PW_NONE, .peer = PW_NONE};
    peerwin_status status = check_mpi(comm, &site);
    if (status != PEERWIN_OK)
        return status;
    MPI_Comm_rank(comm, &site.rank);
    pw_settings settings;
    peerwin_status local = pw_settings_read(config, &site, &settings);
    if (!ctx_out)
        local = pw_fail(PEERWIN_ERR_ARG, &site, "ctx_out is NULL");
    peerwin_ctx *ctx = pw_ctx_new();
    if (!ctx)
        return pw_fail_errno(&site, ENOMEM, "mmap");
    status = pw_agree_create(&ctx->agree, comm, settings.options.timeout_ms, &site);
    if (status != PEERWIN_OK) {
        pw_ctx_delete(ctx);
        return status;
    }
    settle(ctx, &settings);
    status = pw_ctx_agree_enter(ctx, PW_CALL_INIT, 0, local, &site);
    if (status == PEERWIN_OK)
        status = bring_up(ctx, &settings);
    if (status != PEERWIN_OK) {
        pw_ctx_unmap_together(ctx, &site);
        pw_ctx_release(ctx);
        return status;
    }
    ctx->patience = pw_topology_patience(ctx);
    ctx->fences_far = pw_topology_fence_far(ctx);
    say_ready(ctx);
    *ctx_out = ctx;
    return PEERWIN_OK;
}
