/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzz target for the wire decoder. Whatever the bytes are: no access outside them, and what is taken has every field
 * in range and encodes to the same bytes again. Input is cut or filled with zeros to each record's size, so that one
 * corpus serves all three.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "window/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition) {
    if (!condition) {
        abort();
    }
}

/* A block of exactly the record's size, so that the sanitizer sees a read past its end. */
static uint8_t *record_of(const uint8_t *data, size_t size, size_t record) {
    uint8_t *bytes = calloc(1, record);
    must(bytes != NULL);
    if (size > 0) {
        memcpy(bytes, data, size < record ? size : record);
    }
    return bytes;
}

static void try_hello(const uint8_t *data, size_t size) {
    uint8_t *bytes = record_of(data, size, PW_HELLO_BYTES);
    uint8_t again[PW_HELLO_BYTES];
    pw_hello hello;
    if (pw_hello_decode(bytes, &hello) == 0) {
        must(hello.pid > 0 && hello.address.length <= PW_ADDRESS_BYTES);
        must(hello.options.timeout_ms >= -1 && hello.options.node_ranks <= PW_MAX_RANKS);
        pw_hello_encode(&hello, again);
        must(memcmp(bytes, again, sizeof(again)) == 0);
    }
    free(bytes);
}

static void try_announce(const uint8_t *data, size_t size) {
    uint8_t *bytes = record_of(data, size, PW_ANNOUNCE_BYTES);
    uint8_t again[PW_ANNOUNCE_BYTES];
    pw_announce announce;
    if (pw_announce_decode(bytes, &announce) == 0) {
        must(announce.bytes <= announce.mapped && announce.offset <= announce.mapped - announce.bytes);
        must(announce.mapped % announce.granularity == 0 && announce.num_pieces >= 1);
        must(announce.num_signals >= 1 && announce.num_signals <= PW_MAX_SIGNALS);
        must(memchr(announce.name, '\0', sizeof(announce.name)) != NULL);
        pw_announce_encode(&announce, again);
        must(memcmp(bytes, again, sizeof(again)) == 0);
    }
    free(bytes);
}

static void try_card(const uint8_t *data, size_t size) {
    uint8_t *bytes = record_of(data, size, PW_CARD_BYTES);
    uint8_t again[PW_CARD_BYTES];
    pw_card card;
    if (pw_card_decode(bytes, &card) == 0) {
        must(memchr(card.uuid, '\0', sizeof(card.uuid)) != NULL && memchr(card.pci, '\0', sizeof(card.pci)) != NULL);
        must(memchr(card.reason, '\0', sizeof(card.reason)) != NULL && pw_status_name((int)card.status) != NULL);
        pw_card_encode(&card, again);
        must(memcmp(bytes, again, sizeof(again)) == 0);
    }
    free(bytes);
}

static void try_note(const uint8_t *data, size_t size) {
    uint8_t *bytes = record_of(data, size, PW_NOTE_BYTES);
    uint8_t again[PW_NOTE_BYTES];
    pw_note note;
    if (pw_note_decode(bytes, &note) == 0) {
        must(note.num_fds <= 1 && note.rank < PW_MAX_RANKS && pw_status_name((int)note.status) != NULL);
        pw_note_encode(&note, again);
        must(memcmp(bytes, again, sizeof(again)) == 0);
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_hello(data, size);
    try_announce(data, size);
    try_note(data, size);
    try_card(data, size);
    return 0;
}
