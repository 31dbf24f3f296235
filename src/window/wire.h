/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The records that ranks exchange: fixed size, encoded field by field in little-endian order, decoded by pure functions
 * that check every field. Only a note carries a handle; it goes to one rank and is wiped.
 *
 * hello     once per context: who a rank is, where it can be reached, and its options
 * card      once per context that may use devices: the rank's device, or why it has none
 * announce  once per window: what a rank contributes
 * note      with each descriptor on a channel: which window and generation it belongs to
 */
#ifndef PW_WINDOW_WIRE_H
#define PW_WINDOW_WIRE_H

#include "memory/device.h"
#include "memory/memory.h"

enum {
    PW_WIRE_VERSION = 2,
    PW_HELLO_BYTES = 512,
    PW_ANNOUNCE_BYTES = 256,
    PW_NOTE_BYTES = 160,
    PW_CARD_BYTES = 384,
    PW_CARD_TEXT = 232,
    PW_MAX_PIECES = 65536,
    PW_MAX_RANKS = 1 << 20,
    PW_MAX_SIGNALS = 65536,
    PW_ADDRESS_BYTES = 108,
    PW_CPU_BYTES = 128,
    PW_NAME_BYTES = 64
};

/* Where a rank listens: a name of the abstract namespace (first byte 0) or a path; length 0 = nowhere. */
typedef struct {
    uint8_t length;
    char bytes[PW_ADDRESS_BYTES];
} pw_address;

/* Options that must be the same on all ranks. */
typedef struct {
    uint32_t version;
    uint32_t space;
    uint32_t handles;
    uint32_t barrier;
    int32_t timeout_ms;
    uint32_t flags;
    uint32_t node_ranks;
} pw_options;

typedef struct {
    pw_options options;
    int32_t pid;
    uint32_t uid;
    uint64_t start;             /* start time of the process */
    uint8_t boot[16];           /* boot id of the machine */
    uint64_t pid_ns;            /* PID namespace */
    uint64_t net_ns;            /* network namespace */
    uint64_t serial;            /* random, names the context in ids: rank 0's counts */
    uint8_t nonce[16];          /* whoever connects to me shows this */
    pw_address address;         /* where to connect */
    uint8_t cpus[PW_CPU_BYTES]; /* processors this rank may run on, one bit each */
    uint32_t fences_far;        /* 1: far fences reach this rank, and it makes one before it sleeps */
} pw_hello;

void pw_hello_encode(const pw_hello *hello, uint8_t bytes[PW_HELLO_BYTES]);

/* 0, or -1 if the bytes are not a hello of this wire version with every field in range. */
int pw_hello_decode(const uint8_t bytes[PW_HELLO_BYTES], pw_hello *hello_out);

typedef struct {
    uint32_t status;  /* peerwin_status of opening the device; the rest counts if it is OK */
    uint32_t handles; /* kinds that the device announces, mask of peerwin_handle */
    uint32_t events;  /* 1 if it has interprocess events */
    uint64_t mps;     /* tells the MPS servers of a machine apart, 0 = the rank is no client of one */
    uint32_t share;   /* of the device's threads that the rank may use, in thousandths of a percent */
    char uuid[PW_DEVICE_UUID];
    char pci[PW_DEVICE_PCI];
    char reason[PW_CARD_TEXT]; /* for a status that is not OK */
} pw_card;

void pw_card_encode(const pw_card *card, uint8_t bytes[PW_CARD_BYTES]);
int pw_card_decode(const uint8_t bytes[PW_CARD_BYTES], pw_card *card_out);

typedef struct {
    uint64_t id;
    uint64_t generation;
    uint64_t bytes;  /* size of the segment */
    uint64_t mapped; /* bytes to map: at least offset + bytes, a multiple of granularity */
    uint64_t offset; /* of the segment in what is mapped; 0 unless attached */
    uint64_t granularity;
    uint32_t kind;    /* peerwin_handle */
    uint32_t handles; /* mask that the caller allows */
    uint32_t read_only;
    uint32_t num_signals;
    uint64_t pad_offset; /* of the window's signals in the pad */
    uint64_t nonce;      /* for verification */
    uint32_t has_neighbors;
    uint64_t reserve_bytes;
    uint32_t attached;
    uint32_t num_pieces;
    uint64_t memory_id; /* names the memory at its owner, 0 = it has no name */
    uint64_t ends[2];   /* attached: the first and the last (up to) 8 bytes, for verification */
    char name[PW_NAME_BYTES];
} pw_announce;

void pw_announce_encode(const pw_announce *announce, uint8_t bytes[PW_ANNOUNCE_BYTES]);
int pw_announce_decode(const uint8_t bytes[PW_ANNOUNCE_BYTES], pw_announce *announce_out);

/* What a channel message is for. */
typedef enum {
    PW_NOTE_CONNECT = 1, /* shows the nonce of the rank connected to */
    PW_NOTE_ACCEPT = 2,  /* the answer, with the nonce of the rank that connects */
    PW_NOTE_HANDLE = 3,  /* with one descriptor, or none if status is not 0 or the segment is empty */
    PW_NOTE_ACK = 4      /* the answer, with what became of it */
} pw_note_kind;

typedef struct {
    uint32_t kind;    /* pw_note_kind */
    uint32_t rank;    /* of the sender */
    uint32_t status;  /* peerwin_status */
    uint32_t num_fds; /* descriptors in this message */
    uint64_t id;
    uint64_t generation;
    uint8_t nonce[16];
    uint32_t piece; /* of the segment */
    uint64_t bytes; /* of the piece */
    uint8_t token[PW_TOKEN_BYTES];
} pw_note;

void pw_note_encode(const pw_note *note, uint8_t bytes[PW_NOTE_BYTES]);
int pw_note_decode(const uint8_t bytes[PW_NOTE_BYTES], pw_note *note_out);

#endif
