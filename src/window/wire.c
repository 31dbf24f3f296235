/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Records on the wire; see wire.h. One cursor walks the bytes; a record is padded with zeros, which are checked.
 */
#include "window/wire.h"

#include "base/env.h"

#include <string.h>

enum { HELLO_MAGIC = 0x48577031, ANNOUNCE_MAGIC = 0x41577031, NOTE_MAGIC = 0x4e577031, CARD_MAGIC = 0x43577031 };

typedef struct {
    uint8_t *at;
    uint8_t *end;
} writer;

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} reader;

static void put_bytes(writer *w, const void *bytes, size_t count) {
    memcpy(w->at, bytes, count);
    w->at += count;
}

static void put_u32(writer *w, uint32_t value) {
    for (int i = 0; i < 4; i++)
        *w->at++ = (uint8_t)(value >> 8 * i);
}

static void put_u64(writer *w, uint64_t value) {
    put_u32(w, (uint32_t)value);
    put_u32(w, (uint32_t)(value >> 32));
}

static void begin(writer *w, uint8_t *bytes, size_t size, uint32_t magic) {
    memset(bytes, 0, size);
    *w = (writer){bytes, bytes + size};
    put_u32(w, magic);
    put_u32(w, PW_WIRE_VERSION);
}

static void get_bytes(reader *r, void *bytes, size_t count) {
    memcpy(bytes, r->at, count);
    r->at += count;
}

static uint32_t get_u32(reader *r) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value |= (uint32_t)*r->at++ << 8 * i;
    return value;
}

static uint64_t get_u64(reader *r) {
    uint64_t low = get_u32(r);
    return low | (uint64_t)get_u32(r) << 32;
}

static int open_record(reader *r, const uint8_t *bytes, size_t size, uint32_t magic) {
    *r = (reader){bytes, bytes + size};
    return get_u32(r) == magic && get_u32(r) == PW_WIRE_VERSION ? 0 : -1;
}

/* Nothing may follow the last field. */
static int only_zeros_left(const reader *r) {
    for (const uint8_t *byte = r->at; byte < r->end; byte++)
        if (*byte != 0)
            return 0;
    return 1;
}

static int power_of_two(uint64_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

static void put_options(writer *w, const pw_options *options) {
    put_u32(w, options->version);
    put_u32(w, options->space);
    put_u32(w, options->handles);
    put_u32(w, options->barrier);
    put_u32(w, (uint32_t)options->timeout_ms);
    put_u32(w, options->flags);
    put_u32(w, options->node_ranks);
}

static void get_options(reader *r, pw_options *options) {
    options->version = get_u32(r);
    options->space = get_u32(r);
    options->handles = get_u32(r);
    options->barrier = get_u32(r);
    options->timeout_ms = (int32_t)get_u32(r);
    options->flags = get_u32(r);
    options->node_ranks = get_u32(r);
}

static int options_valid(const pw_options *options) {
    return options->version >= 1 && options->version < 1000000 && options->space <= PEERWIN_SPACE_CUDA &&
           options->handles < 32 && options->barrier <= PEERWIN_BARRIER_KERNEL && options->timeout_ms >= -1 &&
           options->flags < 8 && options->node_ranks <= PW_MAX_RANKS;
}

void pw_hello_encode(const pw_hello *hello, uint8_t bytes[PW_HELLO_BYTES]) {
    writer w;
    begin(&w, bytes, PW_HELLO_BYTES, HELLO_MAGIC);
    put_options(&w, &hello->options);
    put_u32(&w, (uint32_t)hello->pid);
    put_u32(&w, hello->uid);
    put_u64(&w, hello->start);
    put_bytes(&w, hello->boot, sizeof hello->boot);
    put_u64(&w, hello->pid_ns);
    put_u64(&w, hello->net_ns);
    put_u64(&w, hello->serial);
    put_bytes(&w, hello->nonce, sizeof hello->nonce);
    put_u32(&w, hello->address.length);
    put_bytes(&w, hello->address.bytes, sizeof hello->address.bytes);
    put_bytes(&w, hello->cpus, sizeof hello->cpus);
    put_u32(&w, hello->fences_far);
}

int pw_hello_decode(const uint8_t bytes[PW_HELLO_BYTES], pw_hello *hello_out) {
    reader r;
    pw_hello hello;
    memset(&hello, 0, sizeof hello);
    if (open_record(&r, bytes, PW_HELLO_BYTES, HELLO_MAGIC) != 0)
        return -1;
    get_options(&r, &hello.options);
    hello.pid = (int32_t)get_u32(&r);
    hello.uid = get_u32(&r);
    hello.start = get_u64(&r);
    get_bytes(&r, hello.boot, sizeof hello.boot);
    hello.pid_ns = get_u64(&r);
    hello.net_ns = get_u64(&r);
    hello.serial = get_u64(&r);
    get_bytes(&r, hello.nonce, sizeof hello.nonce);
    uint32_t length = get_u32(&r);
    get_bytes(&r, hello.address.bytes, sizeof hello.address.bytes);
    get_bytes(&r, hello.cpus, sizeof hello.cpus);
    hello.fences_far = get_u32(&r);
    if (!options_valid(&hello.options) || hello.pid <= 0 || length > PW_ADDRESS_BYTES || hello.fences_far > 1 ||
        !only_zeros_left(&r))
        return -1;
    hello.address.length = (uint8_t)length;
    *hello_out = hello;
    return 0;
}

void pw_announce_encode(const pw_announce *announce, uint8_t bytes[PW_ANNOUNCE_BYTES]) {
    writer w;
    begin(&w, bytes, PW_ANNOUNCE_BYTES, ANNOUNCE_MAGIC);
    put_u64(&w, announce->id);
    put_u64(&w, announce->generation);
    put_u64(&w, announce->bytes);
    put_u64(&w, announce->mapped);
    put_u64(&w, announce->offset);
    put_u64(&w, announce->granularity);
    put_u32(&w, announce->kind);
    put_u32(&w, announce->handles);
    put_u32(&w, announce->read_only);
    put_u32(&w, announce->num_signals);
    put_u64(&w, announce->pad_offset);
    put_u64(&w, announce->nonce);
    put_u32(&w, announce->has_neighbors);
    put_u64(&w, announce->reserve_bytes);
    put_u32(&w, announce->attached);
    put_u32(&w, announce->num_pieces);
    put_u64(&w, announce->memory_id);
    put_u64(&w, announce->ends[0]);
    put_u64(&w, announce->ends[1]);
    put_bytes(&w, announce->name, sizeof announce->name);
}

static int announce_valid(const pw_announce *a) {
    int sizes = power_of_two(a->granularity) && a->mapped % a->granularity == 0 && a->mapped <= PTRDIFF_MAX &&
                a->bytes <= a->mapped && a->offset <= a->mapped - a->bytes && a->reserve_bytes <= PTRDIFF_MAX;
    int kinds = power_of_two(a->kind) && a->kind <= PEERWIN_HANDLE_POOL && a->handles < 32;
    int flags = a->read_only <= 1 && a->has_neighbors <= 1 && a->attached <= 1 && (a->attached || a->offset == 0);
    int pieces = a->num_pieces >= 1 && a->num_pieces <= PW_MAX_PIECES;
    int signals = a->num_signals >= 1 && a->num_signals <= PW_MAX_SIGNALS && a->pad_offset % 8 == 0 &&
                  a->pad_offset <= PTRDIFF_MAX;
    return sizes && kinds && flags && pieces && signals && a->id != 0 && a->generation != 0;
}

/* Text is ended by a zero and filled up with zeros. */
static int text_valid(const char *text, size_t room) {
    size_t length = strnlen(text, room);
    for (size_t i = length; i < room; i++)
        if (text[i] != '\0')
            return 0;
    return length < room;
}

int pw_announce_decode(const uint8_t bytes[PW_ANNOUNCE_BYTES], pw_announce *announce_out) {
    reader r;
    pw_announce a;
    memset(&a, 0, sizeof a);
    if (open_record(&r, bytes, PW_ANNOUNCE_BYTES, ANNOUNCE_MAGIC) != 0)
        return -1;
    a.id = get_u64(&r);
    a.generation = get_u64(&r);
    a.bytes = get_u64(&r);
    a.mapped = get_u64(&r);
    a.offset = get_u64(&r);
    a.granularity = get_u64(&r);
    a.kind = get_u32(&r);
    a.handles = get_u32(&r);
    a.read_only = get_u32(&r);
    a.num_signals = get_u32(&r);
    a.pad_offset = get_u64(&r);
    a.nonce = get_u64(&r);
    a.has_neighbors = get_u32(&r);
    a.reserve_bytes = get_u64(&r);
    a.attached = get_u32(&r);
    a.num_pieces = get_u32(&r);
    a.memory_id = get_u64(&r);
    a.ends[0] = get_u64(&r);
    a.ends[1] = get_u64(&r);
    get_bytes(&r, a.name, sizeof a.name);
    if (!announce_valid(&a) || !text_valid(a.name, sizeof a.name) || !only_zeros_left(&r))
        return -1;
    *announce_out = a;
    return 0;
}

void pw_note_encode(const pw_note *note, uint8_t bytes[PW_NOTE_BYTES]) {
    writer w;
    begin(&w, bytes, PW_NOTE_BYTES, NOTE_MAGIC);
    put_u32(&w, note->kind);
    put_u32(&w, note->rank);
    put_u32(&w, note->status);
    put_u32(&w, note->num_fds);
    put_u64(&w, note->id);
    put_u64(&w, note->generation);
    put_bytes(&w, note->nonce, sizeof note->nonce);
    put_u32(&w, note->piece);
    put_u64(&w, note->bytes);
    put_bytes(&w, note->token, sizeof note->token);
}

int pw_note_decode(const uint8_t bytes[PW_NOTE_BYTES], pw_note *note_out) {
    reader r;
    pw_note note;
    memset(&note, 0, sizeof note);
    if (open_record(&r, bytes, PW_NOTE_BYTES, NOTE_MAGIC) != 0)
        return -1;
    note.kind = get_u32(&r);
    note.rank = get_u32(&r);
    note.status = get_u32(&r);
    note.num_fds = get_u32(&r);
    note.id = get_u64(&r);
    note.generation = get_u64(&r);
    get_bytes(&r, note.nonce, sizeof note.nonce);
    note.piece = get_u32(&r);
    note.bytes = get_u64(&r);
    get_bytes(&r, note.token, sizeof note.token);
    if (note.kind < PW_NOTE_CONNECT || note.kind > PW_NOTE_ACK || note.rank >= PW_MAX_RANKS ||
        !pw_status_name((int)note.status) || note.num_fds > 1 || note.piece >= PW_MAX_PIECES ||
        note.bytes > PTRDIFF_MAX || !only_zeros_left(&r))
        return -1;
    *note_out = note;
    return 0;
}

void pw_card_encode(const pw_card *card, uint8_t bytes[PW_CARD_BYTES]) {
    writer w;
    begin(&w, bytes, PW_CARD_BYTES, CARD_MAGIC);
    put_u32(&w, card->status);
    put_u32(&w, card->handles);
    put_u32(&w, card->events);
    put_u64(&w, card->mps);
    put_u32(&w, card->share);
    put_bytes(&w, card->uuid, sizeof card->uuid);
    put_bytes(&w, card->pci, sizeof card->pci);
    put_bytes(&w, card->reason, sizeof card->reason);
}

int pw_card_decode(const uint8_t bytes[PW_CARD_BYTES], pw_card *card_out) {
    reader r;
    pw_card card;
    memset(&card, 0, sizeof card);
    if (open_record(&r, bytes, PW_CARD_BYTES, CARD_MAGIC) != 0)
        return -1;
    card.status = get_u32(&r);
    card.handles = get_u32(&r);
    card.events = get_u32(&r);
    card.mps = get_u64(&r);
    card.share = get_u32(&r);
    get_bytes(&r, card.uuid, sizeof card.uuid);
    get_bytes(&r, card.pci, sizeof card.pci);
    get_bytes(&r, card.reason, sizeof card.reason);
    if (!pw_status_name((int)card.status) || card.handles >= 32 || card.events > 1 || card.share > PW_ENV_MPS_ALL ||
        !text_valid(card.uuid, sizeof card.uuid) || !text_valid(card.pci, sizeof card.pci) ||
        !text_valid(card.reason, sizeof card.reason) || !only_zeros_left(&r))
        return -1;
    *card_out = card;
    return 0;
}
