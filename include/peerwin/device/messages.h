/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of at most 64 bytes from one thread to another; part of peerwin/device.cuh.
 *
 * A message is 16 self-validating words: 32 bits of data, 32 bits of its number, compared for equality, so that the
 * flag travels with the data and no fence is needed. All 16 are written every time, those that carry data first: no
 * word that is older than the ring can match. The ring has 8 slots per writer; credits, which the receiver writes to
 * the sender's arena, keep the sender from overwriting what was not taken. Both poll their own memory only.
 *
 * That a slot is not overwritten before it was read rests on a control dependency: the receiver grants a credit after
 * the poll has returned the words, and the sender stores after the poll has returned the credit.
 */
#ifndef PEERWIN_DEVICE_MESSAGES_H
#define PEERWIN_DEVICE_MESSAGES_H

#include "peerwin/device/view.h"

/* What the owner of the line knows of its messages with one peer. */
enum { PW_DEV_SENT = 0, PW_DEV_TAKEN = 1, PW_DEV_CREDIT = 2 };

PW_DEV uint64_t *pw_dev_counts(const peerwin_view *view, int peer) {
    return pw_dev_own_word(view, view->message_counts + (uint64_t)(uint32_t)peer * PW_DEV_LINE);
}

/* The slot of message `number` of `writer` in the arena of its reader. */
PW_DEV uint64_t *pw_dev_slot(const peerwin_view *view, char *arena, int writer, uint64_t number) {
    const uint64_t index = (uint64_t)(uint32_t)writer * PW_DEV_MESSAGE_SLOTS + number % PW_DEV_MESSAGE_SLOTS;
    return (uint64_t *)(void *)(arena + view->messages + index * PW_DEV_MESSAGE_SLOT);
}

/* The 4 bytes of a message from `at` on; those past its end are 0. */
PW_DEV uint32_t pw_dev_piece(const unsigned char *data, uint32_t bytes, uint32_t at, int aligned) {
    uint32_t piece = 0;
    if (aligned && at + 4 <= bytes)
        return *(const pw_dev_any32 *)(const void *)(data + at);
    PW_DEV_UNROLL for (uint32_t k = 0; k < 4; k++) {
        if (at + k < bytes)
            piece |= (uint32_t)data[at + k] << 8 * k;
    }
    return piece;
}

PW_DEV void pw_dev_put_piece(unsigned char *data, uint32_t bytes, uint32_t at, int aligned, uint32_t piece) {
    if (aligned && at + 4 <= bytes) {
        *(pw_dev_any32 *)(void *)(data + at) = piece;
        return;
    }
    PW_DEV_UNROLL for (uint32_t k = 0; k < 4; k++) {
        if (at + k < bytes)
            data[at + k] = (unsigned char)(piece >> 8 * k);
    }
}

/* Waits until fewer than all slots are taken up at `peer`. */
PW_DEV int pw_dev_await_credit(const peerwin_view *view, int peer, uint64_t sent, uint64_t *credit) {
    const uint64_t *line = pw_dev_own_word(view, view->message_credits + (uint64_t)(uint32_t)peer * PW_DEV_LINE);
    const pw_dev_bound bound = pw_dev_bound_of(view);
    pw_dev_watch watch = {0, 0};
    int status = PW_DEV_OK;
    for (;;) {
        *credit = pw_dev_load(line);
        if (pw_dev_reached(*credit, sent + 1 - PW_DEV_MESSAGE_SLOTS))
            return PW_DEV_OK;
        if (status != PW_DEV_OK)
            return status;
        status = pw_dev_look(&bound, &watch);
    }
}

PW_DEV int pw_dev_send(const peerwin_view *view, int peer, const void *data_, uint32_t bytes) {
    const unsigned char *data = (const unsigned char *)data_;
    const int aligned = (uintptr_t)data % 4 == 0;
    uint64_t *const counts = pw_dev_counts(view, peer);
    const uint64_t sent = counts[PW_DEV_SENT];
    uint64_t credit = counts[PW_DEV_CREDIT];
    uint32_t pieces[PW_DEV_MESSAGE_WORDS]; /* all loads are made before anything waits for one of them */
    PW_DEV_UNROLL for (uint32_t i = 0; i < PW_DEV_MESSAGE_WORDS; i++) pieces[i] =
        pw_dev_piece(data, bytes, 4 * i, aligned);
    if (!pw_dev_reached(credit, sent + 1 - PW_DEV_MESSAGE_SLOTS)) {
        const int status = pw_dev_await_credit(view, peer, sent, &credit);
        if (status != PW_DEV_OK)
            return status;
        counts[PW_DEV_CREDIT] = credit;
    }
    uint64_t *const slot = pw_dev_slot(view, pw_dev_arena(view, peer), view->rank, sent);
    const uint64_t flag = (sent + 1) << 32;
    PW_DEV_UNROLL for (uint32_t i = 0; i < PW_DEV_MESSAGE_WORDS; i += 2)
        pw_dev_store_pair(slot + i, flag | pieces[i], flag | pieces[i + 1]);
    counts[PW_DEV_SENT] = sent + 1;
    return PW_DEV_OK;
}

/* Looks once; 1 if the words that carry `bytes` bytes are there. */
PW_DEV int pw_dev_message_look(const uint64_t *slot, uint32_t flag, uint32_t bytes, uint32_t *pieces) {
    int there = 1;
    PW_DEV_UNROLL for (uint32_t i = 0; i < PW_DEV_MESSAGE_WORDS; i += 2) {
        if (4 * i < bytes || i == 0) {
            uint64_t first, second;
            pw_dev_load_pair(slot + i, &first, &second);
            pieces[i] = (uint32_t)first;
            pieces[i + 1] = (uint32_t)second;
            there &= (uint32_t)(first >> 32) == flag && (uint32_t)(second >> 32) == flag;
        }
    }
    return there;
}

PW_DEV int pw_dev_recv(const peerwin_view *view, int peer, void *data_, uint32_t bytes) {
    unsigned char *data = (unsigned char *)data_;
    const int aligned = (uintptr_t)data % 4 == 0;
    uint64_t *const counts = pw_dev_counts(view, peer);
    const uint64_t taken = counts[PW_DEV_TAKEN];
    const uint64_t *const slot = pw_dev_slot(view, view->own.arena, peer, taken);
    const pw_dev_bound bound = pw_dev_bound_of(view);
    pw_dev_watch watch = {0, 0};
    int status = PW_DEV_OK;
    uint32_t pieces[PW_DEV_MESSAGE_WORDS];
    pw_dev_prefetch(counts); /* an answer to it will want the line, too */
    while (!pw_dev_message_look(slot, (uint32_t)(taken + 1), bytes, pieces)) {
        if (status != PW_DEV_OK)
            return status;
        status = pw_dev_look(&bound, &watch);
    }
    counts[PW_DEV_TAKEN] = taken + 1;
    pw_dev_store(pw_dev_word(view, peer, view->message_credits + (uint64_t)(uint32_t)view->rank * PW_DEV_LINE),
                 taken + 1);
    PW_DEV_UNROLL for (uint32_t i = 0; i < PW_DEV_MESSAGE_WORDS; i++) {
        if (4 * i < bytes)
            pw_dev_put_piece(data, bytes, 4 * i, aligned, pieces[i]);
    }
    return PW_DEV_OK;
}

#endif
