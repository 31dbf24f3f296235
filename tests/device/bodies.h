/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests of peerwin/device.cuh do inside kernels: bodies that compile for devices, for the simulated driver,
 * and as plain C11 for host windows, where a block is one thread. One block per rank runs one body.
 */
#ifndef PEERWIN_TESTS_DEVICE_BODIES_H
#define PEERWIN_TESTS_DEVICE_BODIES_H

#include "peerwin/device.cuh"

/* X(NAME, function) */
#define BODIES(X)                                                                                                      \
    X(COPY, body_copy)                                                                                                 \
    X(STEP, body_step)                                                                                                 \
    X(RING, body_ring)                                                                                                 \
    X(ATOMICS, body_atomics)                                                                                           \
    X(MAIL, body_mail)                                                                                                 \
    X(ROUNDS, body_rounds)                                                                                             \
    X(REDUCE, body_reduce)                                                                                             \
    X(CROSS, body_cross)

enum {
#define BODY_ENTRY(name, function) BODY_##name,
    BODIES(BODY_ENTRY)
#undef BODY_ENTRY
};

enum { BY_THREAD, BY_WARP, BY_BLOCK, NUM_SCOPES };

/* What one block has seen; memory of the space. */
typedef struct {
    int64_t status;               /* of the call that ended it, or of the last one */
    uint64_t done;                /* rounds */
    uint64_t wrong;               /* values that are not what they must be */
    uint64_t round, place, value; /* of the last of them */
} body_report;

/* The lengths that COPY moves, each to and from a slot of its own. */
#define BODY_LENGTHS                                                                                                   \
    { 0, 1, 2, 3, 4, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 47, 48, 63, 64, 65, 100, 127, 128, 129, 300, 4099 }
enum { NUM_LENGTHS = 28, LENGTH_SLOT = 4224 };

/* Single calls, for STEP. */
enum { STEP_WAIT, STEP_WAIT_BLOCK, STEP_SIGNAL, STEP_BARRIER, STEP_REDUCE, STEP_SEND, STEP_RECV, STEP_PTR };

typedef struct {
    peerwin_view view;
    body_report *report;
    void *memory;
    uint64_t rounds;
    uint64_t value;
    uint64_t offset;
    uint64_t bytes;
    uint64_t to, from; /* COPY: how far slots begin after a multiple of 16 */
    int32_t rank;      /* the other side */
    int32_t get;       /* COPY */
    uint32_t body, step, scope, slot, op, type, count;
    uint32_t gives_up; /* ROUNDS: ranks come at any time, and again when their time is up */
} body_args;

#if defined(__CUDACC__)
#define BODY_LANE  threadIdx.x
#define BODY_LANES blockDim.x
#define BODY_SYNC  __syncthreads()
PW_DEV void body_count(uint64_t *word, uint64_t value) {
    atomicAdd((unsigned long long *)word, (unsigned long long)value);
}
#else
#define BODY_LANE  0u
#define BODY_LANES 1u
#define BODY_SYNC  ((void)0)
PW_DEV void body_count(uint64_t *word, uint64_t value) {
    *word += value;
}
#endif

/* ---- pieces ---- */

PW_DEV void body_wrong(body_report *report, uint64_t round, uint64_t place, uint64_t value) {
    body_count(&report->wrong, 1);
    report->round = round;
    report->place = place;
    report->value = value;
}

/* A word that differs by writer, round and place. */
PW_DEV uint64_t body_mix(uint64_t writer, uint64_t round, uint64_t place) {
    uint64_t x = writer * 0x9e3779b97f4a7c15u + round * 0xc2b2ae3d27d4eb4fu + place;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

PW_DEV void body_end(const body_args *a, peerwin_status status, uint64_t rounds) {
    if (BODY_LANE == 0) {
        a->report->status = status;
        a->report->done = rounds;
    }
}

/* ---- COPY: every length once, all with the same alignments ---- */

PW_DEV void body_copy_one(const body_args *a, uint64_t offset, char *local, uint64_t bytes) {
    const peerwin_view *view = &a->view;
    if (a->scope == BY_BLOCK) {
        if (a->get)
            peerwin_dev_get_block(view, a->rank, offset, local, bytes);
        else
            peerwin_dev_put_block(view, a->rank, offset, local, bytes);
    } else if (a->scope == BY_WARP && BODY_LANE < 32) {
        if (a->get)
            peerwin_dev_get_warp(view, a->rank, offset, local, bytes);
        else
            peerwin_dev_put_warp(view, a->rank, offset, local, bytes);
    } else if (a->scope == BY_THREAD && BODY_LANE == 0) {
        if (a->get)
            peerwin_dev_get_thread(view, a->rank, offset, local, bytes);
        else
            peerwin_dev_put_thread(view, a->rank, offset, local, bytes);
    }
}

PW_DEV void body_copy(const body_args *a) {
    const uint32_t lengths[NUM_LENGTHS] = BODY_LENGTHS;
    for (uint32_t i = 0; i < NUM_LENGTHS; i++) {
        const uint64_t remote = i * LENGTH_SLOT + 16 + (a->get ? a->from : a->to);
        const uint64_t local = i * LENGTH_SLOT + 16 + (a->get ? a->to : a->from);
        body_copy_one(a, remote, (char *)a->memory + local, lengths[i]);
    }
    body_end(a, PEERWIN_OK, NUM_LENGTHS);
}

/* ---- STEP: one call ---- */

PW_DEV peerwin_status body_step_one(const body_args *a) {
    const peerwin_view *view = &a->view;
    switch (a->step) {
    case STEP_WAIT:
        return BODY_LANE == 0 ? peerwin_dev_wait(view, a->slot, a->value) : PEERWIN_OK;
    case STEP_WAIT_BLOCK:
        return peerwin_dev_wait_block(view, a->slot, a->value);
    case STEP_BARRIER:
        return peerwin_dev_barrier_block(view);
    case STEP_REDUCE:
        return peerwin_dev_allreduce_block(view, a->memory, (int)a->count, (peerwin_type)a->type, (peerwin_op)a->op);
    case STEP_SEND:
        return BODY_LANE == 0 ? peerwin_dev_send(view, a->rank, a->memory, a->bytes) : PEERWIN_OK;
    case STEP_RECV:
        return BODY_LANE == 0 ? peerwin_dev_recv(view, a->rank, a->memory, a->bytes) : PEERWIN_OK;
    case STEP_PTR:
        if (BODY_LANE == 0)
            a->report->value = (uint64_t)(uintptr_t)peerwin_dev_ptr(view, a->rank, a->offset);
        return PEERWIN_OK;
    default:
        if (BODY_LANE == 0)
            peerwin_dev_signal(view, a->rank, a->slot, (peerwin_signal_op)a->op, a->value);
        return PEERWIN_OK;
    }
}

PW_DEV void body_step(const body_args *a) {
    const peerwin_status status = body_step_one(a);
    body_end(a, status, 1);
}

/* ---- RING: data and signal to the right, "taken" to the left ---- */

PW_DEV void body_ring_put(const body_args *a, int right, uint64_t round) {
    const peerwin_view *view = &a->view;
    if (a->scope == BY_BLOCK)
        peerwin_dev_put_signal_block(view, right, a->offset, a->memory, a->bytes, 0, PEERWIN_SIGNAL_SET, round);
    else if (a->scope == BY_WARP && BODY_LANE < 32)
        peerwin_dev_put_signal_warp(view, right, a->offset, a->memory, a->bytes, 0, PEERWIN_SIGNAL_SET, round);
    else if (a->scope == BY_THREAD && BODY_LANE == 0)
        peerwin_dev_put_signal_thread(view, right, a->offset, a->memory, a->bytes, 0, PEERWIN_SIGNAL_SET, round);
}

/* Rounds begin after `value`, which both signals have already. */
PW_DEV void body_ring(const body_args *a) {
    const peerwin_view *view = &a->view;
    const int right = (view->rank + 1) % view->size, left = (view->rank + view->size - 1) % view->size;
    const uint64_t words = a->bytes / 8;
    uint64_t *const mine = (uint64_t *)a->memory;
    const uint64_t *const got = (const uint64_t *)peerwin_dev_ptr(view, view->rank, a->offset);
    peerwin_status status = PEERWIN_OK;
    uint64_t round = a->value;
    while (status == PEERWIN_OK && round - a->value < a->rounds) {
        round++;
        for (uint64_t i = BODY_LANE; i < words; i += BODY_LANES)
            mine[i] = body_mix((uint64_t)view->rank, round, i);
        BODY_SYNC;
        body_ring_put(a, right, round);
        status = peerwin_dev_wait_block(view, 0, round);
        for (uint64_t i = BODY_LANE; i < words && status == PEERWIN_OK; i += BODY_LANES)
            if (got[i] != body_mix((uint64_t)left, round, i))
                body_wrong(a->report, round, i, got[i]);
        BODY_SYNC;
        if (BODY_LANE == 0 && status == PEERWIN_OK)
            peerwin_dev_signal(view, left, 1, PEERWIN_SIGNAL_SET, round);
        if (status == PEERWIN_OK)
            status = peerwin_dev_wait_block(view, 1, round);
    }
    body_end(a, status, round - a->value);
}

/* ---- ATOMICS: all threads of all ranks on words of rank a->rank: 64 bits at 0, 8, 16, 32 bits at 24, 28, 32 ---- */

PW_DEV void body_atomics(const body_args *a) {
    const peerwin_view *view = &a->view;
    const int there = a->rank;
    uint64_t handed = 0; /* by swap: what came back less what was given */
    for (uint64_t i = 0; i < a->rounds; i++) {
        (void)peerwin_dev_fetch_add(view, there, 0, (uint64_t)3);
        (void)peerwin_dev_fetch_add(view, there, 24, (uint32_t)5);
        uint64_t old = peerwin_dev_cas(view, there, 8, (uint64_t)0, (uint64_t)0), seen;
        while ((seen = peerwin_dev_cas(view, there, 8, old, old + 2)) != old)
            old = seen;
        uint32_t old32 = peerwin_dev_cas(view, there, 28, (uint32_t)0, (uint32_t)0), seen32;
        while ((seen32 = peerwin_dev_cas(view, there, 28, old32, old32 + 7)) != old32)
            old32 = seen32;
        const uint64_t token = ((uint64_t)view->rank + 1) * 1000 + i;
        handed += token - peerwin_dev_swap(view, there, 16, token);
        handed += (uint32_t)token - (uint64_t)peerwin_dev_swap(view, there, 32, (uint32_t)token);
    }
    body_count(&a->report->value, handed);
    body_end(a, PEERWIN_OK, a->rounds);
}

/* ---- MAIL: messages to the right, of all lengths, in bursts of up to a ring's slots ---- */

PW_DEV unsigned char body_letter(uint64_t writer, uint64_t number, uint64_t place) {
    return (unsigned char)body_mix(writer, number, place);
}

PW_DEV peerwin_status body_mail_send(const body_args *a, int right, uint64_t number) {
    unsigned char letter[PEERWIN_MESSAGE_BYTES + 4];
    const uint64_t bytes = number % (PEERWIN_MESSAGE_BYTES + 1);
    unsigned char *at = letter + number % 3;
    for (uint64_t i = 0; i < bytes; i++)
        at[i] = body_letter((uint64_t)a->view.rank, number, i);
    return peerwin_dev_send(&a->view, right, at, bytes);
}

PW_DEV peerwin_status body_mail_recv(const body_args *a, int left, uint64_t number) {
    unsigned char letter[PEERWIN_MESSAGE_BYTES + 8];
    const uint64_t bytes = number % (PEERWIN_MESSAGE_BYTES + 1);
    const uint64_t more = PEERWIN_MESSAGE_BYTES - bytes;
    const uint64_t asked = bytes + (number % 5 < more ? number % 5 : more);
    unsigned char *at = letter + number % 4;
    for (uint64_t i = 0; i < sizeof letter; i++)
        letter[i] = 0xa5;
    const peerwin_status status = peerwin_dev_recv(&a->view, left, at, asked);
    if (status != PEERWIN_OK)
        return status;
    for (uint64_t i = 0; i < asked; i++) {
        const unsigned char want = i < bytes ? body_letter((uint64_t)left, number, i) : 0;
        if (at[i] != want)
            body_wrong(a->report, number, i, at[i]);
    }
    if (at[asked] != 0xa5)
        body_wrong(a->report, number, asked, at[asked]);
    return PEERWIN_OK;
}

PW_DEV void body_mail(const body_args *a) {
    const int right = (a->view.rank + 1) % a->view.size, left = (a->view.rank + a->view.size - 1) % a->view.size;
    peerwin_status status = PEERWIN_OK;
    uint64_t sent = 0, taken = 0;
    while (BODY_LANE == 0 && taken < a->rounds && status == PEERWIN_OK) {
        const uint64_t burst = sent + 1 + sent % PEERWIN_MESSAGE_SLOTS;
        while (sent < burst && sent < a->rounds && status == PEERWIN_OK)
            status = body_mail_send(a, right, sent++);
        while (taken < sent && status == PEERWIN_OK)
            status = body_mail_recv(a, left, taken++);
    }
    body_end(a, status, taken);
}

/* ---- ROUNDS: publish the round, barrier, look at the others' ---- */

/* The wait of a rank that is given up is taken back and made again, maybe many times. */
PW_DEV peerwin_status body_meet(const body_args *a, uint64_t round) {
    const uint64_t delay = a->gives_up ? (round * 0x9e3779b97f4a7c15u + (uint32_t)a->view.rank * 0x85ebca6bu) >> 40 : 0;
    for (uint64_t i = 0; i < delay % 8 * (delay / 8 % 128); i++)
        (void)pw_dev_rest(NULL, 0);
    peerwin_status status = peerwin_dev_barrier_block(&a->view);
    for (uint32_t i = 0; i < a->gives_up && status == PEERWIN_ERR_TIMEOUT; i++)
        status = peerwin_dev_barrier_block(&a->view);
    return status;
}

PW_DEV void body_rounds(const body_args *a) {
    const peerwin_view *view = &a->view;
    peerwin_status status = PEERWIN_OK;
    uint64_t round = a->value;
    while (status == PEERWIN_OK && round - a->value < a->rounds) {
        round++;
        /* Every lane publishes: all of the block's work is before the barrier. */
        for (uint64_t i = BODY_LANE; i < a->count; i += BODY_LANES)
            *(uint64_t *)peerwin_dev_ptr(view, view->rank, a->offset + 8 * i) = round;
        status = body_meet(a, round);
        for (uint64_t i = BODY_LANE; i < a->count * (uint32_t)view->size && status == PEERWIN_OK; i += BODY_LANES) {
            const int rank = (int)(i / a->count);
            const uint64_t seen = *(const uint64_t *)peerwin_dev_ptr(view, rank, a->offset + 8 * (i % a->count));
            if (seen < round || seen > round + 1)
                body_wrong(a->report, round, i, seen);
        }
    }
    body_end(a, status, round - a->value);
}

/* ---- REDUCE: `rounds` all-reduces one after the other in memory, the counts as they come ---- */

PW_DEV void body_reduce(const body_args *a) {
    const uint64_t size = a->type == PEERWIN_FLOAT ? 4 : 8;
    peerwin_status status = PEERWIN_OK;
    uint64_t round = 0;
    for (uint64_t at = 0; round < a->rounds && status == PEERWIN_OK; round++) {
        const int count = a->count != 0 ? (int)a->count : (int)(1 + round * 7 % 64);
        status = peerwin_dev_allreduce_block(&a->view, (char *)a->memory + at, count, (peerwin_type)a->type,
                                             (peerwin_op)a->op);
        at += size * (uint64_t)count;
    }
    body_end(a, status, round);
}

/* ---- CROSS: ranks 0 and 1 store to each other, fence, and look; what each saw is in its memory, a byte a round ----
 */

PW_DEV void body_cross(const body_args *a) {
    const peerwin_view *view = &a->view;
    const int other = 1 - view->rank;
    peerwin_status status = PEERWIN_OK;
    uint64_t round = 0;
    for (; round < a->rounds && status == PEERWIN_OK; round++) {
        status = peerwin_dev_barrier_block(view); /* so that both are here at the same time */
        if (BODY_LANE == 0 && (other == 0 || other == 1) && status == PEERWIN_OK) {
            pw_dev_store((uint64_t *)peerwin_dev_ptr(view, other, 8 * round), 1);
            peerwin_dev_fence();
            ((unsigned char *)a->memory)[round] =
                (unsigned char)pw_dev_load((const uint64_t *)peerwin_dev_ptr(view, view->rank, 8 * round));
        }
    }
    body_end(a, status, round);
}

PW_DEV void body_run(const body_args *a) {
#define BODY_CALL(name, function)                                                                                      \
    if (a->body == BODY_##name)                                                                                        \
        function(a);
    BODIES(BODY_CALL)
#undef BODY_CALL
}

#endif
