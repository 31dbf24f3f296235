/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Makes a new context look as if its ranks had met almost as often as their epochs can count: 2^64 times at barriers,
 * 2^32 times, which is what their words carry, at all-reduces and with small messages. For programs that link the
 * library's internals; all others have no rig_age.
 */
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "window/context.h"

static const uint64_t BARRIERS = UINT64_MAX - 99, REDUCES = (UINT64_C(1) << 32) - 100,
                      MESSAGES = (UINT64_C(1) << 32) - 50;

enum { WORDS = PW_LINE / 8, REDUCE_WORDS = PW_ARENA_REDUCE_SLOT / 8, MESSAGE_WORDS = PW_MESSAGE_SLOT / 8 };

static uint64_t *words_at(char *image, size_t offset) {
    return (uint64_t *)(void *)(image + offset);
}

/* The first words of a line for each rank. */
static void age_lines(char *image, size_t offset, int size, uint64_t value, int words) {
    for (int rank = 0; rank < size; rank++) {
        for (int i = 0; i < words; i++) {
            words_at(image, offset)[rank * WORDS + i] = value;
        }
    }
}

/* Each slot has words of the last round that used it. */
static void age_reduce_slots(char *image, size_t offset, int size) {
    uint64_t *words = words_at(image, offset);
    for (int slot = 0; slot < 2 * size; slot++) {
        uint64_t last = REDUCES - ((REDUCES ^ (uint64_t)slot) & 1);
        for (int i = 0; i < REDUCE_WORDS; i++) {
            words[slot * REDUCE_WORDS + i] = last << (32 + PW_REDUCE_TAG_BITS);
        }
    }
}

static void age_messages(char *image, size_t offset, int size) {
    uint64_t *words = words_at(image, offset);
    for (int writer = 0; writer < size; writer++) {
        for (uint64_t number = MESSAGES - PW_MESSAGE_SLOTS; number < MESSAGES; number++) {
            size_t slot = (size_t)writer * PW_MESSAGE_SLOTS + number % PW_MESSAGE_SLOTS;
            for (int i = 0; i < MESSAGE_WORDS; i++) {
                words[slot * MESSAGE_WORDS + (size_t)i] = (number + 1) << 32;
            }
        }
    }
}

/* All of the arena up to the signals. */
static void age_arena(const peerwin_ctx *ctx) {
    const pw_arena_layout *layout = &ctx->arena_layout;
    char *image = calloc(1, layout->signals);
    CHECK(image != NULL);
    pw_arena_control *control = pw_arena_control_of(image, layout);
    age_lines(image, layout->barrier_lines, ctx->size, BARRIERS, 1);
    for (int series = 0; series < PW_NUM_SERIES; series++) {
        age_lines(image, layout->kernel_lines[series], ctx->size, BARRIERS, 2);
        age_reduce_slots(image, layout->reduce_slots[series], ctx->size);
        control->barrier_epoch[series] = BARRIERS;
        control->reduce_epoch[series] = REDUCES;
    }
    age_messages(image, layout->messages, ctx->size);
    age_lines(image, layout->message_credits, ctx->size, MESSAGES, 1);
    age_lines(image, layout->message_counts, ctx->size, MESSAGES, 3);
    device_copy(ctx->peers[ctx->rank].arena, image, layout->signals);
    free(image);
}

void rig_age(peerwin_ctx *ctx) {
    MPI_Barrier(MPI_COMM_WORLD);
    age_arena(ctx);
    for (int writer = 0; writer < ctx->size; writer++) {
        for (uint64_t epoch = BARRIERS - PW_BARRIER_TURNS + 1; epoch <= BARRIERS; epoch++) {
            pw_pad_barrier_line(ctx->pad, &ctx->layout, writer, epoch)->epoch = epoch;
        }
    }
    ctx->barrier.epoch = BARRIERS;
    ctx->sequence.lines = BARRIERS;
    ctx->sequence.barriers = BARRIERS;
    ctx->sequence.reduces = REDUCES;
    MPI_Barrier(MPI_COMM_WORLD);
}
