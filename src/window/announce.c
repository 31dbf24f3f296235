/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Announce and accept; see announce.h.
 */
#include "window/announce.h"

#include "window/verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

peerwin_status pw_assembly_create(pw_assembly *assembly, int size, const pw_site *site) {
    size_t count = (size_t)size;
    *assembly = (pw_assembly){
        .records = calloc(count, sizeof *assembly->records),
        .listed = calloc(count, sizeof *assembly->listed),
        .peers = calloc(count, sizeof *assembly->peers),
    };
    if (assembly->records && assembly->listed && assembly->peers)
        return PEERWIN_OK;
    pw_assembly_destroy(assembly);
    return pw_fail_errno(site, ENOMEM, "calloc");
}

void pw_assembly_destroy(pw_assembly *assembly) {
    free(assembly->records);
    free(assembly->listed);
    free(assembly->peers);
    *assembly = (pw_assembly){0};
}

static peerwin_status differs(const char *what, uint64_t zeros, uint64_t theirs, int rank, const pw_site *site) {
    if (zeros == theirs)
        return PEERWIN_OK;
    return pw_fail(PEERWIN_ERR_MISMATCH, site, "%s differs: %llu on rank 0, %llu on rank %d", what,
                   (unsigned long long)zeros, (unsigned long long)theirs, rank);
}

static peerwin_status fits(const pw_announce *zero, const pw_announce *other, int rank, const pw_site *site) {
    const struct {
        const char *what;
        uint64_t zeros, theirs;
    } rows[] = {
        {"the window's number", zero->id, other->id},
        {"the window's generation", zero->generation, other->generation},
        {"config.handles", zero->handles, other->handles},
        {"config.read_only", zero->read_only, other->read_only},
        {"attached memory (0 or 1)", zero->attached, other->attached},
        {"config.num_signals", zero->num_signals, other->num_signals},
        {"config.reserve_bytes", zero->reserve_bytes, other->reserve_bytes},
        {"the place of the signals", zero->pad_offset, other->pad_offset},
    };
    peerwin_status status = PEERWIN_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == PEERWIN_OK; i++)
        status = differs(rows[i].what, rows[i].zeros, rows[i].theirs, rank, site);
    if (status == PEERWIN_OK && strcmp(zero->name, other->name) != 0)
        status = pw_fail(PEERWIN_ERR_MISMATCH, site, "config.name differs: \"%s\" on rank 0, \"%s\" on rank %d",
                         zero->name, other->name, rank);
    return status;
}

peerwin_status pw_announce_accept(const pw_announce *records, int size, const pw_site *site) {
    peerwin_status status = PEERWIN_OK;
    for (int rank = 1; rank < size && status == PEERWIN_OK; rank++)
        status = fits(&records[0], &records[rank], rank, site);
    return status;
}

peerwin_status pw_neighbors_accept(const unsigned char *matrix, int size, const pw_site *site) {
    size_t n = (size_t)size;
    for (int a = 0; a < size; a++)
        for (int b = 0; b < size; b++)
            if (matrix[(size_t)a * n + (size_t)b] && !matrix[(size_t)b * n + (size_t)a])
                return pw_fail(
                    PEERWIN_ERR_MISMATCH, site,
                    "rank %d lists rank %d as a neighbour, but rank %d does not list rank %d: lists must be symmetric",
                    a, b, b, a);
    return PEERWIN_OK;
}

static void list_mine(const peerwin_ctx *ctx, const peerwin_win_config *config, unsigned char *listed) {
    if (!config->neighbors) {
        memset(listed, 1, (size_t)ctx->size);
        return;
    }
    memset(listed, 0, (size_t)ctx->size);
    listed[ctx->rank] = 1;
    for (int i = 0; i < config->num_neighbors; i++)
        listed[config->neighbors[i]] = 1;
}

static int anyone_lists(const pw_assembly *assembly, int size) {
    int any = 0;
    for (int rank = 0; rank < size; rank++)
        any |= assembly->records[rank].has_neighbors != 0;
    return any;
}

/* A further round, only if some rank has a list. */
static peerwin_status gather_neighbors(peerwin_ctx *ctx, pw_assembly *assembly, const pw_site *site) {
    void *matrix = NULL;
    if (!anyone_lists(assembly, ctx->size))
        return PEERWIN_OK;
    peerwin_status status = pw_ctx_gather(ctx, assembly->listed, (size_t)ctx->size, &matrix, site);
    if (status != PEERWIN_OK)
        return status;
    status = pw_neighbors_accept(matrix, ctx->size, site);
    free(matrix);
    return status;
}

/* The kind of a peer's memory in this process, or NULL if this space has none such. */
static const pw_memory_ops *ops_of(const peerwin_ctx *ctx, const pw_announce *record) {
    if (ctx->gpu)
        return pw_memory_on_gpu((peerwin_handle)record->kind);
    return record->kind == PEERWIN_HANDLE_HOST ? &pw_memory_host : NULL;
}

/* Verification writes into what is mapped: it must have the room for that. */
static int has_room(const peerwin_ctx *ctx, const pw_announce *record) {
    return record->attached || record->mapped >= pw_verify_room(record->bytes, ctx->size);
}

static peerwin_status decode(peerwin_ctx *ctx, const uint8_t *all, pw_assembly *assembly, const pw_site *site) {
    for (int rank = 0; rank < ctx->size; rank++) {
        pw_site there = *site;
        there.peer = rank;
        pw_announce *record = &assembly->records[rank];
        int valid = pw_announce_decode(all + (size_t)rank * PW_ANNOUNCE_BYTES, record) == 0;
        const pw_memory_ops *ops = valid ? ops_of(ctx, record) : NULL;
        if (!ops || !has_room(ctx, record))
            return pw_fail(PEERWIN_ERR_INTERNAL, &there, "the record received is not a valid announcement");
        assembly->peers[rank] = (pw_exchange_peer){.ops = ops,
                                                   .mapped = record->mapped,
                                                   .num_pieces = (int)record->num_pieces,
                                                   .memory_id = record->memory_id};
    }
    return pw_announce_accept(assembly->records, ctx->size, site);
}

peerwin_status pw_announce_run(peerwin_ctx *ctx, const pw_announce *mine, const peerwin_win_config *config,
                               pw_assembly *assembly, const pw_site *site) {
    uint8_t bytes[PW_ANNOUNCE_BYTES];
    void *all = NULL;
    pw_announce_encode(mine, bytes);
    list_mine(ctx, config, assembly->listed);
    peerwin_status status = pw_ctx_gather(ctx, bytes, sizeof bytes, &all, site);
    if (status != PEERWIN_OK)
        return status;
    status = decode(ctx, all, assembly, site);
    free(all);
    if (status == PEERWIN_OK)
        status = gather_neighbors(ctx, assembly, site);
    for (int rank = 0; rank < ctx->size; rank++)
        assembly->peers[rank].wanted = assembly->listed[rank] && ctx->peers[rank].path == PEERWIN_PATH_DIRECT;
    return status;
}
