/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Verify; see verify.h.
 */
#include "window/verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t pw_verify_room(size_t bytes, int size) {
    size_t words = 2 * (size_t)size * sizeof(uint64_t);
    return bytes == 0 || bytes > words ? bytes : words;
}

/* The words of all writers: one block at the start, one at the end, in the order of ranks. */
static uint64_t *first_words(void *base) {
    return base;
}

static uint64_t *last_words(void *base, size_t mapped, int size) {
    return (uint64_t *)(void *)((char *)base + mapped) - size;
}

/* Differs for every writer, so that words in the wrong place are found. Never 0. */
static uint64_t expected(uint64_t nonce, int writer) {
    uint64_t value = nonce + 0x9e3779b97f4a7c15u * (uint64_t)(writer + 1);
    return value | 1;
}

/* ---- words of either space */

static peerwin_status write_words(peerwin_ctx *ctx, uint64_t *to, const uint64_t *values, size_t count,
                                  const pw_site *site) {
    if (ctx->gpu)
        return pw_gpu_write(ctx->gpu, to, values, count * sizeof *values, site);
    for (size_t i = 0; i < count; i++)
        atomic_store((_Atomic uint64_t *)to + i, values[i]);
    return PEERWIN_OK;
}

static peerwin_status read_words(peerwin_ctx *ctx, uint64_t *values, uint64_t *from, size_t count,
                                 const pw_site *site) {
    if (ctx->gpu)
        return pw_gpu_read(ctx->gpu, values, from, count * sizeof *values, site);
    for (size_t i = 0; i < count; i++)
        values[i] = atomic_load((_Atomic uint64_t *)from + i);
    return PEERWIN_OK;
}

/* ---- what is written, and read back */

static peerwin_status write_pair(peerwin_ctx *ctx, void *base, size_t mapped, int writer, uint64_t value,
                                 const pw_site *site) {
    peerwin_status status = write_words(ctx, first_words(base) + writer, &value, 1, site);
    if (status == PEERWIN_OK)
        status = write_words(ctx, last_words(base, mapped, ctx->size) + writer, &value, 1, site);
    return status;
}

peerwin_status pw_verify_prepare(peerwin_win *win, uint64_t nonce, const pw_site *site) {
    const pw_segment *segment = &win->segment;
    if (segment->mapped == 0)
        return PEERWIN_OK;
    return write_pair(win->ctx, segment->base, segment->mapped, 0, expected(nonce, 0), site);
}

peerwin_status pw_verify_ends(peerwin_ctx *ctx, const void *base, size_t bytes, const pw_site *site,
                              uint64_t ends_out[2]) {
    uint64_t ends[2] = {0, 0};
    size_t part = bytes < sizeof *ends ? bytes : sizeof *ends;
    if (bytes > 0) {
        peerwin_status status = pw_gpu_read(ctx->gpu, &ends[0], base, part, site);
        if (status == PEERWIN_OK)
            status = pw_gpu_read(ctx->gpu, &ends[1], (const char *)base + (bytes - part), part, site);
        if (status != PEERWIN_OK)
            return status;
    }
    memcpy(ends_out, ends, sizeof ends);
    return PEERWIN_OK;
}

static peerwin_status unreadable(const pw_site *site) {
    return pw_fail(PEERWIN_ERR_INTERNAL, site,
                   "what the owner has there cannot be read through the mapping of its segment");
}

static peerwin_status compare_ends(peerwin_win *win, const pw_announce *record, void *base, const pw_site *site) {
    uint64_t ends[2];
    peerwin_status status = pw_verify_ends(win->ctx, (char *)base + record->offset, (size_t)record->bytes, site, ends);
    if (status != PEERWIN_OK)
        return status;
    return memcmp(ends, record->ends, sizeof ends) == 0 ? PEERWIN_OK : unreadable(site);
}

static peerwin_status compare_pair(peerwin_win *win, const pw_announce *record, void *base, const pw_site *site) {
    uint64_t words[2] = {0, 0};
    peerwin_status status = read_words(win->ctx, &words[0], first_words(base), 1, site);
    if (status == PEERWIN_OK)
        status = read_words(win->ctx, &words[1], last_words(base, (size_t)record->mapped, win->ctx->size), 1, site);
    if (status != PEERWIN_OK)
        return status;
    uint64_t want = expected(record->nonce, 0);
    return words[0] == want && words[1] == want ? PEERWIN_OK : unreadable(site);
}

peerwin_status pw_verify_mappings(peerwin_win *win, const pw_assembly *assembly, const pw_site *site) {
    peerwin_ctx *ctx = win->ctx;
    peerwin_status status = PEERWIN_OK;
    for (int rank = 0; rank < ctx->size && status == PEERWIN_OK; rank++) {
        const pw_announce *record = &assembly->records[rank];
        pw_site there = *site;
        there.peer = rank;
        const pw_import *import = assembly->peers[rank].import;
        if (!import || !import->mapping.base)
            continue;
        void *base = import->mapping.base;
        if (record->attached)
            status = compare_ends(win, record, base, &there);
        else if (record->read_only)
            status = compare_pair(win, record, base, &there);
        else
            status =
                write_pair(ctx, base, (size_t)record->mapped, ctx->rank, expected(record->nonce, ctx->rank), &there);
    }
    return status;
}

static peerwin_status check_writers(const peerwin_win *win, const pw_assembly *assembly, const uint64_t *first,
                                    const uint64_t *last, const pw_site *site) {
    uint64_t nonce = assembly->records[win->ctx->rank].nonce;
    for (int rank = 0; rank < win->ctx->size; rank++) {
        pw_site there = *site;
        there.peer = rank;
        uint64_t want = expected(nonce, rank);
        if (assembly->peers[rank].wanted && (first[rank] != want || last[rank] != want))
            return pw_fail(PEERWIN_ERR_INTERNAL, &there, "what the peer wrote to this rank's segment did not arrive");
    }
    return PEERWIN_OK;
}

peerwin_status pw_verify_segment(peerwin_win *win, const pw_assembly *assembly, const pw_site *site) {
    peerwin_ctx *ctx = win->ctx;
    const pw_announce *mine = &assembly->records[ctx->rank];
    size_t count = (size_t)ctx->size;
    if (win->segment.mapped == 0 || mine->attached)
        return PEERWIN_OK;
    uint64_t *words = calloc(3 * count, sizeof *words);
    if (!words)
        return pw_fail_errno(site, ENOMEM, "calloc");
    uint64_t *zeros = words + 2 * count;
    uint64_t *first = first_words(win->segment.base);
    uint64_t *last = last_words(win->segment.base, win->segment.mapped, ctx->size);
    peerwin_status status = read_words(ctx, words, first, count, site);
    if (status == PEERWIN_OK)
        status = read_words(ctx, words + count, last, count, site);
    if (status == PEERWIN_OK && !mine->read_only)
        status = check_writers(win, assembly, words, words + count, site);
    if (status == PEERWIN_OK)
        status = write_words(ctx, first, zeros, count, site);
    if (status == PEERWIN_OK)
        status = write_words(ctx, last, zeros, count, site);
    free(words);
    return status;
}
