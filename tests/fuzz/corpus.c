/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Writes the corpus: real records from the encoder, one file each, into the directory given. Run it again when the wire
 * format changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/records.h"

static void write_file(const char *dir, const char *name, const uint8_t *bytes, size_t size) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void write_hellos(const char *dir) {
    uint8_t bytes[PW_HELLO_BYTES];
    pw_hello hello = record_hello();
    pw_hello_encode(&hello, bytes);
    write_file(dir, "hello", bytes, sizeof(bytes));
    hello.address.length = 40;
    memset(hello.address.bytes, 'd', 40);
    hello.options.timeout_ms = -1;
    hello.options.flags = 7;
    pw_hello_encode(&hello, bytes);
    write_file(dir, "hello-path", bytes, sizeof(bytes));
    memset(&hello.address, 0, sizeof(hello.address));
    pw_hello_encode(&hello, bytes);
    write_file(dir, "hello-nowhere", bytes, sizeof(bytes));
}

static void write_announces(const char *dir) {
    uint8_t bytes[PW_ANNOUNCE_BYTES];
    pw_announce announce = record_announce();
    pw_announce_encode(&announce, bytes);
    write_file(dir, "announce", bytes, sizeof(bytes));
    announce.bytes = 0;
    announce.mapped = 0;
    announce.name[0] = '\0';
    memset(announce.name, 0, sizeof(announce.name));
    announce.read_only = 1;
    announce.num_signals = PW_MAX_SIGNALS;
    pw_announce_encode(&announce, bytes);
    write_file(dir, "announce-empty", bytes, sizeof(bytes));
}

static void write_devices(const char *dir) {
    uint8_t bytes[PW_ANNOUNCE_BYTES];
    uint8_t card_bytes[PW_CARD_BYTES];
    pw_announce announce = record_attached();
    pw_announce_encode(&announce, bytes);
    write_file(dir, "announce-attached", bytes, sizeof(bytes));
    pw_card card = record_card();
    pw_card_encode(&card, card_bytes);
    write_file(dir, "card", card_bytes, sizeof(card_bytes));
    card.status = PEERWIN_ERR_UNSUPPORTED;
    memcpy(card.reason, "there is no CUDA driver", 23);
    pw_card_encode(&card, card_bytes);
    write_file(dir, "card-without", card_bytes, sizeof(card_bytes));
}

static void write_notes(const char *dir) {
    static const char *const names[] = {"", "note-connect", "note-accept", "note-handle", "note-ack"};
    uint8_t bytes[PW_NOTE_BYTES];
    for (int kind = PW_NOTE_CONNECT; kind <= PW_NOTE_ACK; kind++) {
        pw_note note = record_note((pw_note_kind)kind);
        pw_note_encode(&note, bytes);
        write_file(dir, names[kind], bytes, sizeof(bytes));
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s directory\n", argv[0]);
        return 2;
    }
    write_hellos(argv[1]);
    write_announces(argv[1]);
    write_devices(argv[1]);
    write_notes(argv[1]);
    return 0;
}
