/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Verify; see verify.h.
 */
#include "window/verify.h"

typedef _Atomic uint64_t word;

size_t pw_verify_room(size_t bytes, int size) {
    size_t words = 2 * (size_t)size * sizeof(uint64_t);
    return bytes == 0 || bytes > words ? bytes : words;
}

static word *first_word(void *base, int writer) {
    return (word *)base + writer;
}

static word *last_word(void *base, size_t mapped, int writer) {
    return (word *)(void *)((char *)base + mapped) - 1 - writer;
}

/* Differs for every writer, so that words in the wrong place are found. Never 0. */
static uint64_t expected(uint64_t nonce, int writer) {
    uint64_t value = nonce + 0x9e3779b97f4a7c15u * (uint64_t)(writer + 1);
    return value | 1;
}

void pw_verify_prepare(pw_segment *segment, uint64_t nonce) {
    if (segment->mapped == 0)
        return;
    atomic_store(first_word(segment->base, 0), expected(nonce, 0));
    atomic_store(last_word(segment->base, segment->mapped, 0), expected(nonce, 0));
}

static peerwin_status read_words(void *base, size_t mapped, uint64_t nonce, const pw_site *site) {
    if (atomic_load(first_word(base, 0)) == expected(nonce, 0) &&
        atomic_load(last_word(base, mapped, 0)) == expected(nonce, 0))
        return PEERWIN_OK;
    return pw_fail(PEERWIN_ERR_INTERNAL, site,
                   "what the owner wrote cannot be read through the mapping of its segment");
}

peerwin_status pw_verify_mappings(peerwin_win *win, const pw_assembly *assembly, const pw_site *site) {
    int me = win->ctx->rank;
    for (int rank = 0; rank < win->ctx->size; rank++) {
        const pw_announce *record = &assembly->records[rank];
        pw_site there = *site;
        there.peer = rank;
        void *base = win->peers[rank].mapping.base;
        if (!base)
            continue;
        if (record->read_only) {
            peerwin_status status = read_words(base, record->mapped, record->nonce, &there);
            if (status != PEERWIN_OK)
                return status;
            continue;
        }
        atomic_store(first_word(base, me), expected(record->nonce, me));
        atomic_store(last_word(base, record->mapped, me), expected(record->nonce, me));
    }
    return PEERWIN_OK;
}

static peerwin_status check_writer(peerwin_win *win, uint64_t nonce, int writer, const pw_site *site) {
    pw_site there = *site;
    there.peer = writer;
    word *first = first_word(win->segment.base, writer);
    word *last = last_word(win->segment.base, win->segment.mapped, writer);
    int arrived = atomic_load(first) == expected(nonce, writer) && atomic_load(last) == expected(nonce, writer);
    atomic_store(first, 0);
    atomic_store(last, 0);
    return arrived ? PEERWIN_OK
                   : pw_fail(PEERWIN_ERR_INTERNAL, &there, "what the peer wrote to this rank's segment did not arrive");
}

peerwin_status pw_verify_segment(peerwin_win *win, const pw_assembly *assembly, const pw_site *site) {
    const pw_announce *mine = &assembly->records[win->ctx->rank];
    peerwin_status status = PEERWIN_OK;
    if (win->segment.mapped == 0)
        return PEERWIN_OK;
    if (mine->read_only) {
        atomic_store(first_word(win->segment.base, 0), 0);
        atomic_store(last_word(win->segment.base, win->segment.mapped, 0), 0);
        return PEERWIN_OK;
    }
    for (int rank = 0; rank < win->ctx->size; rank++) {
        if (!assembly->wanted[rank])
            continue;
        peerwin_status one = check_writer(win, mine->nonce, rank, site);
        if (status == PEERWIN_OK)
            status = one;
    }
    return status;
}
