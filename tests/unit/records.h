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
    memcpy(announce.name, "temperature", 11);
    return announce;
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
    return note;
}

#endif
