/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The wire decoder: what was encoded comes back, every field out of range is refused, and whatever it takes encodes to
 * the same bytes again.
 */
#include "unit/records.h"
#include "unit/unit.h"

#include "window/wire.h"

static int encodes_again(const uint8_t *bytes, size_t size) {
    uint8_t again[PW_HELLO_BYTES];
    pw_hello hello;
    pw_announce announce;
    pw_note note;
    pw_card card;
    if (size == PW_HELLO_BYTES && pw_hello_decode(bytes, &hello) == 0) {
        pw_hello_encode(&hello, again);
    } else if (size == PW_ANNOUNCE_BYTES && pw_announce_decode(bytes, &announce) == 0) {
        pw_announce_encode(&announce, again);
    } else if (size == PW_NOTE_BYTES && pw_note_decode(bytes, &note) == 0) {
        pw_note_encode(&note, again);
    } else if (size == PW_CARD_BYTES && pw_card_decode(bytes, &card) == 0) {
        pw_card_encode(&card, again);
    } else {
        return -1; /* refused */
    }
    assert_memory_equal(bytes, again, size);
    return 0;
}

static void what_was_encoded_comes_back(void **state) {
    pw_hello hello = record_hello();
    pw_announce announce = record_announce();
    uint8_t bytes[PW_HELLO_BYTES];
    pw_hello hello_back;
    pw_announce announce_back;
    (void)state;
    pw_hello_encode(&hello, bytes);
    assert_int_equal(pw_hello_decode(bytes, &hello_back), 0);
    assert_memory_equal(&hello.options, &hello_back.options, sizeof(hello.options));
    assert_int_equal(hello_back.pid, 4711);
    assert_int_equal(hello_back.uid, 1000);
    assert_int_equal(hello_back.start, 123456789);
    assert_int_equal(hello_back.serial, hello.serial);
    assert_int_equal(hello_back.pid_ns, hello.pid_ns);
    assert_int_equal(hello_back.net_ns, hello.net_ns);
    assert_memory_equal(&hello.address, &hello_back.address, sizeof(hello.address));
    assert_memory_equal(hello.boot, hello_back.boot, sizeof(hello.boot));
    assert_memory_equal(hello.nonce, hello_back.nonce, sizeof(hello.nonce));
    assert_memory_equal(hello.cpus, hello_back.cpus, sizeof(hello.cpus));
    pw_announce_encode(&announce, bytes);
    assert_int_equal(pw_announce_decode(bytes, &announce_back), 0);
    assert_int_equal(announce_back.id, announce.id);
    assert_int_equal(announce_back.bytes, announce.bytes);
    assert_int_equal(announce_back.pad_offset, announce.pad_offset);
    assert_string_equal(announce_back.name, "temperature");
    for (int kind = PW_NOTE_CONNECT; kind <= PW_NOTE_ACK; kind++) {
        pw_note note = record_note((pw_note_kind)kind);
        pw_note note_back;
        pw_note_encode(&note, bytes);
        assert_int_equal(pw_note_decode(bytes, &note_back), 0);
        assert_memory_equal(&note, &note_back, sizeof(note));
    }
}

static int takes_hello(const pw_hello *hello) {
    uint8_t bytes[PW_HELLO_BYTES];
    pw_hello back;
    pw_hello_encode(hello, bytes);
    return pw_hello_decode(bytes, &back) == 0;
}

#define REFUSES_HELLO(change)                                                                                          \
    do {                                                                                                               \
        pw_hello h = record_hello();                                                                                   \
        change;                                                                                                        \
        if (takes_hello(&h)) {                                                                                         \
            fail_msg("taken: " #change);                                                                               \
        }                                                                                                              \
    } while (0)

static void a_hello_out_of_range_is_refused(void **state) {
    (void)state;
    REFUSES_HELLO(h.options.version = 0);
    REFUSES_HELLO(h.options.version = 4000000000u);
    REFUSES_HELLO(h.options.space = 3);
    REFUSES_HELLO(h.options.handles = 32);
    REFUSES_HELLO(h.options.barrier = 4);
    REFUSES_HELLO(h.options.timeout_ms = -2);
    REFUSES_HELLO(h.options.flags = 8);
    REFUSES_HELLO(h.options.node_ranks = PW_MAX_RANKS + 1);
    REFUSES_HELLO(h.pid = 0);
    REFUSES_HELLO(h.pid = -5);
    REFUSES_HELLO(h.address.length = PW_ADDRESS_BYTES + 1);
}

static int takes_announce(const pw_announce *announce) {
    uint8_t bytes[PW_ANNOUNCE_BYTES];
    pw_announce back;
    pw_announce_encode(announce, bytes);
    return pw_announce_decode(bytes, &back) == 0;
}

#define REFUSES_ANNOUNCE(change)                                                                                       \
    do {                                                                                                               \
        pw_announce a = record_announce();                                                                             \
        change;                                                                                                        \
        if (takes_announce(&a)) {                                                                                      \
            fail_msg("taken: " #change);                                                                               \
        }                                                                                                              \
    } while (0)

static void an_announce_out_of_range_is_refused(void **state) {
    (void)state;
    REFUSES_ANNOUNCE(a.id = 0);
    REFUSES_ANNOUNCE(a.generation = 0);
    REFUSES_ANNOUNCE(a.bytes = 8193);
    REFUSES_ANNOUNCE(a.bytes = UINT64_MAX);
    REFUSES_ANNOUNCE(a.mapped = 8191);
    REFUSES_ANNOUNCE(a.mapped = UINT64_C(1) << 63);
    REFUSES_ANNOUNCE(a.granularity = 0);
    REFUSES_ANNOUNCE(a.granularity = 3);
    REFUSES_ANNOUNCE(a.kind = 0);
    REFUSES_ANNOUNCE(a.kind = 3);
    REFUSES_ANNOUNCE(a.kind = 32);
    REFUSES_ANNOUNCE(a.handles = 32);
    REFUSES_ANNOUNCE(a.read_only = 2);
    REFUSES_ANNOUNCE(a.has_neighbors = 2);
    REFUSES_ANNOUNCE(a.num_signals = 0);
    REFUSES_ANNOUNCE(a.num_signals = PW_MAX_SIGNALS + 1);
    REFUSES_ANNOUNCE(a.pad_offset = 4);
    REFUSES_ANNOUNCE(a.pad_offset = UINT64_MAX - 7);
    REFUSES_ANNOUNCE(a.reserve_bytes = UINT64_MAX);
    REFUSES_ANNOUNCE(a.offset = 8); /* only attached memory begins later */
    REFUSES_ANNOUNCE(a.attached = 2);
    REFUSES_ANNOUNCE(a.num_pieces = 0);
    REFUSES_ANNOUNCE(a.num_pieces = PW_MAX_PIECES + 1);
    REFUSES_ANNOUNCE(a = record_attached(); a.offset = a.mapped - a.bytes + 1);
    REFUSES_ANNOUNCE(a = record_attached(); a.offset = UINT64_MAX);
    REFUSES_ANNOUNCE(memset(a.name, 'n', sizeof(a.name)));
    REFUSES_ANNOUNCE(a.name[40] = 'n');
}

static int takes_note(const pw_note *note) {
    uint8_t bytes[PW_NOTE_BYTES];
    pw_note back;
    pw_note_encode(note, bytes);
    return pw_note_decode(bytes, &back) == 0;
}

#define REFUSES_NOTE(change)                                                                                           \
    do {                                                                                                               \
        pw_note n = record_note(PW_NOTE_HANDLE);                                                                       \
        change;                                                                                                        \
        if (takes_note(&n)) {                                                                                          \
            fail_msg("taken: " #change);                                                                               \
        }                                                                                                              \
    } while (0)

static void a_note_out_of_range_is_refused(void **state) {
    (void)state;
    REFUSES_NOTE(n.kind = 0);
    REFUSES_NOTE(n.kind = 5);
    REFUSES_NOTE(n.rank = PW_MAX_RANKS);
    REFUSES_NOTE(n.rank = UINT32_MAX);
    REFUSES_NOTE(n.status = 5);
    REFUSES_NOTE(n.status = UINT32_MAX);
    REFUSES_NOTE(n.num_fds = 2);
    REFUSES_NOTE(n.piece = PW_MAX_PIECES);
    REFUSES_NOTE(n.bytes = UINT64_MAX);
}

static int takes_card(const pw_card *card) {
    uint8_t bytes[PW_CARD_BYTES];
    pw_card back;
    pw_card_encode(card, bytes);
    return pw_card_decode(bytes, &back) == 0;
}

#define REFUSES_CARD(change)                                                                                           \
    do {                                                                                                               \
        pw_card c = record_card();                                                                                     \
        change;                                                                                                        \
        if (takes_card(&c)) {                                                                                          \
            fail_msg("taken: " #change);                                                                               \
        }                                                                                                              \
    } while (0)

static void a_card_out_of_range_is_refused(void **state) {
    pw_card card = record_card();
    (void)state;
    assert_true(takes_card(&card));
    REFUSES_CARD(c.status = 5);
    REFUSES_CARD(c.handles = 32);
    REFUSES_CARD(c.events = 2);
    REFUSES_CARD(c.share = 100001);
    REFUSES_CARD(memset(c.uuid, 'u', sizeof(c.uuid)));
    REFUSES_CARD(memset(c.pci, 'p', sizeof(c.pci)));
    REFUSES_CARD(memset(c.reason, 'r', sizeof(c.reason)));
    REFUSES_CARD(c.reason[7] = 'r'); /* something after the end of the text */
}

/* Every single bit turned: refused, or a record that encodes to exactly these bytes. Nothing in between. */
static void turn_every_bit(uint8_t *bytes, size_t size) {
    int refused = 0;
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        refused += encodes_again(bytes, size) != 0;
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(encodes_again(bytes, size), 0);
    assert_true(refused >= 64); /* magic and version, at least */
}

static void whatever_is_taken_encodes_to_the_same_bytes(void **state) {
    pw_hello hello = record_hello();
    pw_announce announce = record_announce();
    pw_note note = record_note(PW_NOTE_HANDLE);
    uint8_t bytes[PW_HELLO_BYTES];
    (void)state;
    pw_hello_encode(&hello, bytes);
    turn_every_bit(bytes, PW_HELLO_BYTES);
    pw_announce_encode(&announce, bytes);
    turn_every_bit(bytes, PW_ANNOUNCE_BYTES);
    pw_note_encode(&note, bytes);
    turn_every_bit(bytes, PW_NOTE_BYTES);
    pw_announce attached = record_attached();
    pw_announce_encode(&attached, bytes);
    turn_every_bit(bytes, PW_ANNOUNCE_BYTES);
    pw_card card = record_card();
    pw_card_encode(&card, bytes);
    turn_every_bit(bytes, PW_CARD_BYTES);
}

static void other_records_and_other_versions_are_refused(void **state) {
    pw_note note = record_note(PW_NOTE_ACK);
    uint8_t bytes[PW_HELLO_BYTES] = {0};
    pw_hello hello;
    pw_announce announce;
    (void)state;
    assert_int_equal(pw_hello_decode(bytes, &hello), -1);
    pw_note_encode(&note, bytes);
    assert_int_equal(pw_announce_decode(bytes, &announce), -1);
    assert_int_equal(pw_hello_decode(bytes, &hello), -1);
    bytes[4]++; /* the version */
    assert_int_equal(pw_note_decode(bytes, &note), -1);
}

static void nothing_is_written_when_refused(void **state) {
    uint8_t bytes[PW_HELLO_BYTES] = {0};
    pw_note note = record_note(PW_NOTE_ACK);
    pw_note before = note;
    (void)state;
    assert_int_equal(pw_note_decode(bytes, &note), -1);
    assert_memory_equal(&note, &before, sizeof(note));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_encoded_comes_back),
        cmocka_unit_test(a_hello_out_of_range_is_refused),
        cmocka_unit_test(an_announce_out_of_range_is_refused),
        cmocka_unit_test(a_note_out_of_range_is_refused),
        cmocka_unit_test(a_card_out_of_range_is_refused),
        cmocka_unit_test(whatever_is_taken_encodes_to_the_same_bytes),
        cmocka_unit_test(other_records_and_other_versions_are_refused),
        cmocka_unit_test(nothing_is_written_when_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
