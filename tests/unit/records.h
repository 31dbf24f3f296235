/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Records as real jobs send them: for the tests of the decoder, and the beginning of its fuzzing corpus.
 */
#ifndef PEERWIN_TESTS_RECORDS_H
#define PEERWIN_TESTS_RECORDS_H

#include <string.h>

#include "window/wire.h"

static inline pw_hello record_hello(void) {
    pw_hello hello;
    memset(&hello, 0, sizeof(hello));
    hello.options = (pw_options){.version = PEERWIN_VERSION,
                                 .space = PEERWIN_SPACE_HOST,
                                 .handles = 31,
                                 .barrier = PEERWIN_BARRIER_AUTO,
                                 .timeout_ms = 60000,
                                 .flags = PEERWIN_STRICT,
                                 .node_ranks = 4};
    hello.pid = 4711;
    hello.uid = 1000;
    hello.start = 123456789;
    memset(hello.boot, 0xB0, sizeof(hello.boot));
    hello.pid_ns = 4026531836u;
    hello.net_ns = 4026531840u;
    hello.serial = 0x0123456789ABCDEFu;
    memset(hello.nonce, 0x4E, sizeof(hello.nonce));
    hello.address.length = 6;
    memcpy(hello.address.bytes, "\0abc12", 6);
    memset(hello.cpus, 0xFF, 2);
    return hello;
}

static inline pw_announce record_announce(void) {
    pw_announce announce;
    memset(&announce, 0, sizeof(announce));
    announce.id = 0x100000007u;
    announce.generation = 1;
    announce.bytes = 4097;
    announce.mapped = 8192;
    announce.granularity = 4096;
    announce.kind = PEERWIN_HANDLE_HOST;
    announce.handles = 31;
    announce.num_signals = 64;
    announce.pad_offset = 8192;
    announce.nonce = 0xFEDCBA9876543210u;
    announce.has_neighbors = 1;
    announce.num_pieces = 1;
    announce.memory_id = 12;
    memcpy(announce.name, "temperature", 11);
    return announce;
}

/* A stretch of two allocations that the caller had, in the middle of them. */
static inline pw_announce record_attached(void) {
    pw_announce announce = record_announce();
    announce.kind = PEERWIN_HANDLE_FD;
    announce.granularity = 2 << 20;
    announce.mapped = 4 << 20;
    announce.offset = 768;
    announce.attached = 1;
    announce.num_pieces = 2;
    announce.ends[0] = 0x1122334455667788u;
    announce.ends[1] = 0x99u;
    return announce;
}

static inline pw_card record_card(void) {
    pw_card card;
    memset(&card, 0, sizeof(card));
    card.handles = PEERWIN_HANDLE_FD | PEERWIN_HANDLE_LEGACY;
    card.events = 1;
    card.mps = 0x8877665544332211u;
    card.share = 50000;
    memcpy(card.uuid, "GPU-01234567-89ab-cdef-0123-456789abcdef", 40);
    memcpy(card.pci, "0000:04:00.0", 12);
    return card;
}

static inline pw_note record_note(pw_note_kind kind) {
    pw_note note;
    memset(&note, 0, sizeof(note));
    note.kind = (uint32_t)kind;
    note.rank = 3;
    note.status = kind == PW_NOTE_ACK ? PEERWIN_ERR_NO_MEMORY : PEERWIN_OK;
    note.num_fds = kind == PW_NOTE_HANDLE;
    note.id = 0x100000007u;
    note.generation = 1;
    memset(note.nonce, 0x4E, sizeof(note.nonce));
    if (kind == PW_NOTE_HANDLE) {
        note.piece = 2;
        note.bytes = 8192;
        memset(note.token, 0x7C, sizeof(note.token));
    }
    return note;
}

#endif
