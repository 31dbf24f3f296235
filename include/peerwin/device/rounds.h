/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Rounds: what one block of every rank does together, barrier and all-reduce. Part of peerwin/device.cuh, and of the
 * library's kernels. The n-th round of a series pairs with the n-th of every other rank; each series has lines, slots
 * and epochs of its own. A round that timed out is repeated under its old number.
 *
 * Every lane of the block calls, and every lane gets the same status. Lanes beyond the work only take part in the block
 * barriers; one lane per peer (barrier) or per word (all-reduce) is the fastest, and any number is right.
 */
#ifndef PEERWIN_DEVICE_ROUNDS_H
#define PEERWIN_DEVICE_ROUNDS_H

#include "peerwin/device/view.h"

/* ---- barrier ----
 *
 * Everyone's earlier work before anyone's later work.
 *
 * Release: the block barrier orders the work of all lanes before the lanes that publish; each of those fences, then
 * writes relaxed to a line of its peer that no other rank writes. Acquire: the lane that has seen the peer's epoch;
 * the block barrier after it passes that on to all lanes. Only own memory is polled. A peer may be one round ahead, so
 * the comparison is "has reached"; two ahead it cannot be, for that needs my next epoch.
 */

/*
 * On one device: a lane adds one to its peer's line. Which round this is it learns afterwards, from the second word of
 * the peer's line here, where this rank counts the rounds that it has waited for: the first look brings both. So
 * nothing is loaded before the fence, which would wait for it, and what is stored has arrived by the next round's.
 * A round that was given up is taken back; a peer that has seen it has gone on, and it counts when it is repeated.
 */
PW_DEV int pw_dev_await_next(uint64_t *line, const pw_dev_bound *bound) {
    pw_dev_watch watch = {0, 0};
    int status = PW_DEV_OK;
    uint64_t count, before;
    pw_dev_load_pair_acquire(line, &count, &before);
    pw_dev_store(line + 1, before + 1);
    while ((int64_t)(count - before) <= 0) {
        if (status != PW_DEV_OK)
            return status;
        status = pw_dev_look(bound, &watch);
        count = pw_dev_load_acquire(line);
    }
    return PW_DEV_OK;
}

PW_DEV int pw_dev_barrier_by_counts(const peerwin_view *view, unsigned series) {
    const uint32_t lane = pw_dev_block_lane(), lanes = pw_dev_block_lanes();
    const uint32_t size = (uint32_t)view->size, me = (uint32_t)view->rank;
    const uint64_t lines = view->barrier_lines[series], mine = lines + (uint64_t)me * PW_DEV_LINE;
    const pw_dev_bound bound = pw_dev_bound_of(view);
    const int has_peer = lane < size && lane != me;
    uint64_t *const there = has_peer ? pw_dev_word(view, (int)lane, mine) : NULL;
    int status = PW_DEV_OK;
    uint32_t next = lane; /* whom to wait for */
    pw_dev_block_sync();
    if (lane < size)
        pw_dev_fence_release(view->one_device);
    if (has_peer)
        pw_dev_add_released(there, 1);
    for (uint32_t peer = lane + lanes; peer < size; peer += lanes)
        if (peer != me)
            pw_dev_add_released(pw_dev_word(view, (int)peer, mine), 1);
    for (; next < size && status == PW_DEV_OK; next += lanes)
        if (next != me)
            status = pw_dev_await_next(pw_dev_own_word(view, lines + (uint64_t)next * PW_DEV_LINE), &bound);
    status = pw_dev_block_status(status, &bound);
    if (status == PW_DEV_OK)
        return status;
    for (uint32_t peer = lane; peer < size; peer += lanes) {
        if (peer == me)
            continue;
        (void)pw_dev_add64(pw_dev_word(view, (int)peer, mine), 0 - (uint64_t)1);
        if (peer < next)
            (void)pw_dev_add64(pw_dev_own_word(view, lines + (uint64_t)peer * PW_DEV_LINE) + 1, 0 - (uint64_t)1);
    }
    return status;
}

/*
 * Elsewhere: a lane stores the epoch, which need not have come over a link that has atomics, and comes back from none.
 * A fence waits for the loads before it. So the epoch is loaded by a lane of another warp than those that fence, if
 * there is one, and handed over in the block's own memory while they do.
 */
PW_DEV int pw_dev_barrier_by_epochs(const peerwin_view *view, unsigned series) {
    const uint32_t lane = pw_dev_block_lane(), lanes = pw_dev_block_lanes();
    const uint32_t size = (uint32_t)view->size;
    const uint64_t lines = view->barrier_lines[series];
    const uint32_t loader = lanes > PW_DEV_WARP ? lanes - 1 : 0;
    const pw_dev_bound bound = pw_dev_bound_of(view);
    uint64_t *const done = pw_dev_own_word(view, view->barrier_epochs) + series;
    PW_DEV_BLOCK_SHARED(uint64_t, next); /* the epoch of this round */
    int status = PW_DEV_OK;
    uint64_t loaded = 0;
    if (lane == loader)
        loaded = pw_dev_load(done) + 1;
    pw_dev_block_sync();
    if (lane < size)
        pw_dev_fence_release(view->one_device);
    if (lane == loader)
        next = loaded;
    pw_dev_block_sync();
    const uint64_t epoch = next;
    for (uint32_t peer = lane; peer < size; peer += lanes)
        if (peer != (uint32_t)view->rank)
            pw_dev_store_released(pw_dev_word(view, (int)peer, lines + (uint64_t)(uint32_t)view->rank * PW_DEV_LINE),
                                  epoch);
    for (uint32_t peer = lane; peer < size && status == PW_DEV_OK; peer += lanes)
        if (peer != (uint32_t)view->rank)
            status = pw_dev_await(pw_dev_own_word(view, lines + (uint64_t)peer * PW_DEV_LINE), epoch, &bound);
    status = pw_dev_block_status(status, &bound);
    if (lane == loader && status == PW_DEV_OK)
        pw_dev_store(done, epoch); /* the same lane loads it in the next round of this block */
    return status;
}

PW_DEV int pw_dev_round_barrier(const peerwin_view *view, unsigned series) {
    return view->counts ? pw_dev_barrier_by_counts(view, series) : pw_dev_barrier_by_epochs(view, series);
}

/* ---- all-reduce ----
 *
 * A value travels in self-validating words: 32 bits of data, 32 bits of flag, compared for equality. What is seen is
 * whole and of this round, without a fence; so nothing else is ordered by it either.
 *
 * Two slots per writer, used alternately, are enough: a rank writes round n + 2 after it has seen everyone's words of
 * n + 1, which they write when they have done with n (a block barrier is between).
 *
 * A flag is 22 bits of the epoch and 10 of what is combined. Every round writes a slot's first word, so there ranks
 * whose arguments differ find out. A word that has not been written for 2^22 rounds would match again. So in the first
 * two of every 2^20 rounds all words of a slot are written, used or not.
 */
enum { PW_DEV_SWEEP = (1 << 20) - 1, PW_DEV_TAG_BITS = 10 };

/*
 * So many values of all ranks together go through the block's memory, a lane each: on an H200 that takes 0.9 us on 2 or
 * 4 ranks and 1.0 on 8, where lanes that fetch and combine all ranks' values themselves take 1.15 to 1.55. Of more they
 * fetch those of a few ranks together, as the registers of a user's kernel are dear.
 */
enum { PW_DEV_AT_HAND = 64, PW_DEV_GATHER = 4 };

/* Types and operations have the numbers of peerwin_type and peerwin_op. */
enum { PW_DEV_DOUBLE = 0, PW_DEV_FLOAT = 1, PW_DEV_INT64 = 2, PW_DEV_SUM = 0, PW_DEV_MIN = 1, PW_DEV_MAX = 2 };

/* Is the double, or float, of these bits a NaN? By its bits: compilers may be told that there are none. */
PW_DEV int pw_dev_is_nan(uint64_t bits, int type) {
    if (type == PW_DEV_FLOAT)
        return (bits & 0x7fffffffu) > 0x7f800000u;
    return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
}

PW_DEV double pw_dev_double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

PW_DEV float pw_dev_float_of(uint64_t bits) {
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

PW_DEV uint64_t pw_dev_sum(uint64_t a, uint64_t b, int type) {
    if (type == PW_DEV_INT64)
        return a + b;
    if (type == PW_DEV_DOUBLE) {
        const double sum = pw_dev_double_of(a) + pw_dev_double_of(b);
        memcpy(&a, &sum, sizeof a);
        return a;
    }
    uint32_t low;
#if defined(__CUDACC__)
    float sum; /* this form keeps denormals, whatever the compiler was told */
    asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(pw_dev_float_of(a)), "f"(pw_dev_float_of(b)));
#else
    const float sum = pw_dev_float_of(a) + pw_dev_float_of(b);
#endif
    memcpy(&low, &sum, sizeof low);
    return low;
}

PW_DEV int pw_dev_less(uint64_t a, uint64_t b, int type) {
    if (type == PW_DEV_INT64)
        return (int64_t)a < (int64_t)b;
    if (type == PW_DEV_DOUBLE)
        return pw_dev_double_of(a) < pw_dev_double_of(b);
    return pw_dev_float_of(a) < pw_dev_float_of(b);
}

/* As pw_combine of the library: MIN and MAX return the first NaN, sums of integers wrap. */
PW_DEV uint64_t pw_dev_combine(uint64_t a, uint64_t b, int type, int op) {
    if (op == PW_DEV_SUM)
        return pw_dev_sum(a, b, type);
    if (type != PW_DEV_INT64 && (pw_dev_is_nan(a, type) || pw_dev_is_nan(b, type)))
        return pw_dev_is_nan(a, type) ? a : b;
    return (op == PW_DEV_MIN ? pw_dev_less(b, a, type) : pw_dev_less(a, b, type)) ? b : a;
}

PW_DEV uint32_t pw_dev_reduce_flag(uint64_t epoch, uint32_t count, int type, int op) {
    return (uint32_t)epoch << PW_DEV_TAG_BITS | (count - 1) << 4 | (uint32_t)type << 2 | (uint32_t)op;
}

/* What a round is about, the same on all lanes. */
typedef struct {
    const char *slots; /* of this round's parity, in my own arena; those of the writers are two slots apart */
    uint32_t size;     /* ranks */
    uint32_t flag;     /* of every word */
    int type, op;
    int acquires; /* whoever sees a word sees what came before it, if the writer released that */
    pw_dev_bound bound;
} pw_dev_reduction;

PW_DEV const uint64_t *pw_dev_reduce_words(const pw_dev_reduction *r, uint32_t rank) {
    return (const uint64_t *)(const void *)(r->slots + (uint64_t)rank * 2 * PW_DEV_REDUCE_SLOT);
}

/* Looks once for value `index` of a rank; 1 if it is there. */
PW_DEV int pw_dev_reduce_look(const pw_dev_reduction *r, uint32_t rank, uint32_t index, uint64_t *bits_out) {
    const uint64_t *words = pw_dev_reduce_words(r, rank);
    if (r->type == PW_DEV_FLOAT) {
        const uint64_t word = r->acquires ? pw_dev_load_acquire(words + index) : pw_dev_load(words + index);
        *bits_out = (uint32_t)word;
        return (uint32_t)(word >> 32) == r->flag;
    }
    uint64_t low, high;
    words += (size_t)2 * index;
    if (r->acquires)
        pw_dev_load_pair_acquire(words, &low, &high);
    else
        pw_dev_load_pair(words, &low, &high);
    *bits_out = high << 32 | (uint32_t)low;
    return (uint32_t)(low >> 32) == r->flag && (uint32_t)(high >> 32) == r->flag;
}

/* Whether some rank is in this round with other arguments. */
PW_DEV int pw_dev_reduce_differs(const pw_dev_reduction *r) {
    int differs = 0;
    PW_DEV_ROLLED for (uint32_t rank = 0; rank < r->size; rank++) {
        const uint32_t flag = (uint32_t)(pw_dev_load(pw_dev_reduce_words(r, rank)) >> 32);
        differs |= flag != r->flag && flag >> PW_DEV_TAG_BITS == r->flag >> PW_DEV_TAG_BITS;
    }
    return differs;
}

/* Between two looks: 0 to go on, else the status that ends the wait if the next look does not. */
PW_DEV int pw_dev_reduce_rest(const pw_dev_reduction *r, pw_dev_watch *watch) {
    const int status = pw_dev_look(&r->bound, watch);
    if (status == PW_DEV_OK && watch->turn % PW_DEV_LOOK_EVERY == 0 && pw_dev_reduce_differs(r))
        return PW_DEV_MISMATCH;
    return status;
}

/* Adds the values of `wide` ranks from `first` on to the result of those before, in rank order. */
PW_DEV void pw_dev_reduce_fold(const uint64_t *part, uint32_t wide, uint32_t first, uint32_t size, int type, int op,
                               uint64_t *result) {
    PW_DEV_UNROLL for (uint32_t k = 0; k < wide; k++) {
        if (first + k < size)
            *result = first + k == 0 ? part[k] : pw_dev_combine(*result, part[k], type, op);
    }
}

/* Waits for value `index` of `wide` ranks from `first` on, whose loads are in flight together, and combines it. */
PW_DEV int pw_dev_reduce_some(const pw_dev_reduction *r, pw_dev_watch *watch, uint32_t first, uint32_t wide,
                              uint32_t index, uint64_t *result) {
    uint64_t part[PW_DEV_GATHER];
    int status = PW_DEV_OK;
    for (;;) {
        int there = 1;
        PW_DEV_UNROLL for (uint32_t k = 0; k < wide; k++) {
            const uint32_t rank = first + k < r->size ? first + k : r->size - 1;
            there &= pw_dev_reduce_look(r, rank, index, &part[k]);
        }
        if (there)
            break;
        if (status != PW_DEV_OK)
            return status;
        status = pw_dev_reduce_rest(r, watch);
    }
    if (r->type == PW_DEV_DOUBLE && r->op == PW_DEV_SUM) /* the most used has no branches on the way */
        pw_dev_reduce_fold(part, wide, first, r->size, PW_DEV_DOUBLE, PW_DEV_SUM, result);
    else
        pw_dev_reduce_fold(part, wide, first, r->size, r->type, r->op, result);
    return PW_DEV_OK;
}

/* Waits for value `index` of all ranks and combines it in rank order. */
PW_DEV int pw_dev_reduce_value(const pw_dev_reduction *r, uint32_t wide, uint32_t index, uint64_t *result_out) {
    pw_dev_watch watch = {0, 0};
    int status = PW_DEV_OK;
    for (uint32_t first = 0; first < r->size && status == PW_DEV_OK; first += wide)
        status = pw_dev_reduce_some(r, &watch, first, wide, index, result_out);
    return status;
}

/* Waits for value `index` of one rank. */
PW_DEV int pw_dev_reduce_one(const pw_dev_reduction *r, uint32_t rank, uint32_t index, uint64_t *bits_out) {
    pw_dev_watch watch = {0, 0};
    int status = PW_DEV_OK;
    while (!pw_dev_reduce_look(r, rank, index, bits_out)) {
        if (status != PW_DEV_OK)
            return status;
        status = pw_dev_reduce_rest(r, &watch);
    }
    return PW_DEV_OK;
}

/* Combines value `index` of all ranks, `count` of each, in rank order. */
PW_DEV uint64_t pw_dev_reduce_row(const uint64_t *parts, uint32_t count, uint32_t index, uint32_t size, int type,
                                  int op) {
    uint64_t result = parts[index];
    for (uint32_t rank = 1; rank < size; rank++)
        result = pw_dev_combine(result, parts[rank * count + index], type, op);
    return result;
}

PW_DEV uint64_t pw_dev_value(const void *values, uint32_t index, int type) {
    return type == PW_DEV_FLOAT ? ((const pw_dev_any32 *)values)[index] : ((const pw_dev_any64 *)values)[index];
}

/* Where the slots of round `epoch` are in every arena, before those of the writers are told apart. */
PW_DEV uint64_t pw_dev_reduce_place(const peerwin_view *view, unsigned series, uint64_t epoch) {
    return view->reduce_slots[series] + (epoch & 1) * PW_DEV_REDUCE_SLOT;
}

/*
 * Writes my values into my slot at every rank: each lane a word, at all of them. `before`, the number of the last
 * round, may still be on its way from memory, so the first value is asked for first.
 */
PW_DEV void pw_dev_reduce_send(const peerwin_view *view, unsigned series, const void *values, uint32_t count, int type,
                               int op, uint64_t before) {
    const uint32_t lane = pw_dev_block_lane(), lanes = pw_dev_block_lanes();
    const uint32_t per_value = type == PW_DEV_FLOAT ? 1 : 2;
    const uint32_t used = count * per_value;
    uint64_t bits = lane < used ? pw_dev_value(values, lane / per_value, type) : 0;
    const uint64_t epoch = pw_dev_after(before) + 1;
    const uint64_t flag = (uint64_t)pw_dev_reduce_flag(epoch, count, type, op) << 32;
    const uint64_t mine =
        pw_dev_reduce_place(view, series, epoch) + (uint64_t)(uint32_t)view->rank * 2 * PW_DEV_REDUCE_SLOT;
    const uint32_t written = (epoch & PW_DEV_SWEEP) < 2 ? (uint32_t)PW_DEV_REDUCE_WORDS : used;
    for (uint32_t i = lane; i < written; i += lanes) {
        if (i != lane)
            bits = i < used ? pw_dev_value(values, i / per_value, type) : 0;
        const uint32_t data = (uint32_t)(i % per_value == 0 ? bits : bits >> 32);
        for (int rank = 0; rank < view->size; rank++)
            pw_dev_store(pw_dev_word(view, rank, mine) + i, flag | data);
    }
}

PW_DEV void pw_dev_reduce_keep(void *values, uint32_t index, int type, uint64_t result) {
    if (type == PW_DEV_FLOAT)
        ((pw_dev_any32 *)values)[index] = (uint32_t)result;
    else
        ((pw_dev_any64 *)values)[index] = result;
}

/* Each lane waits for whole values. */
PW_DEV int pw_dev_reduce_by_lanes(const pw_dev_reduction *r, void *values, uint32_t count) {
    const uint32_t lane = pw_dev_block_lane(), lanes = pw_dev_block_lanes();
    uint64_t result = 0;
    int status = PW_DEV_OK;
    for (uint32_t i = lane; i < count && status == PW_DEV_OK; i += lanes)
        status = pw_dev_reduce_value(r, PW_DEV_GATHER, i, &result);
    status = pw_dev_block_status(status, &r->bound); /* and all have been read */
    for (uint32_t i = lane; i < count && status == PW_DEV_OK; i += lanes) {
        if (count > lanes) /* only the last result was kept; the words are still there */
            (void)pw_dev_reduce_value(r, PW_DEV_GATHER, i, &result);
        pw_dev_reduce_keep(values, i, r->type, result);
    }
    return status;
}

/* Each lane waits for one rank's part of a value, and puts it into the block's memory. */
PW_DEV int pw_dev_reduce_by_parts(const pw_dev_reduction *r, void *values, uint32_t count) {
    PW_DEV_BLOCK_ARRAY(uint64_t, parts, PW_DEV_AT_HAND);
    const uint32_t lane = pw_dev_block_lane();
    int status = PW_DEV_OK;
    if (lane < count * r->size)
        status = pw_dev_reduce_one(r, lane / count, lane % count, &parts[lane]);
    status = pw_dev_block_status(status, &r->bound); /* and all have been read */
    if (status == PW_DEV_OK && lane < count)
        pw_dev_reduce_keep(values, lane, r->type,
                           r->type == PW_DEV_DOUBLE && r->op == PW_DEV_SUM
                               ? pw_dev_reduce_row(parts, count, lane, r->size, PW_DEV_DOUBLE, PW_DEV_SUM)
                               : pw_dev_reduce_row(parts, count, lane, r->size, r->type, r->op));
    return status;
}

PW_DEV int pw_dev_reduce_fits_parts(uint32_t size, uint32_t count) {
    return count * size <= PW_DEV_AT_HAND && count * size <= pw_dev_block_lanes();
}

/*
 * Combines `count` (1..64) values of every rank in rank order, in place: the same bits everywhere. `values` is memory
 * of the block: shared, or global and used by nobody else meanwhile. A repeated call has to bring the same values.
 */
PW_DEV int pw_dev_round_reduce(const peerwin_view *view, unsigned series, void *values, uint32_t count, int type,
                               int op) {
    uint64_t *const done = pw_dev_own_word(view, view->reduce_epochs) + series;
    const uint64_t before = pw_dev_load(done);
    pw_dev_reduction r;

    pw_dev_block_sync(); /* the values are there */
    pw_dev_reduce_send(view, series, values, count, type, op, before);
    const uint64_t epoch = before + 1;
    r.slots = view->own.arena + pw_dev_reduce_place(view, series, epoch);
    r.size = (uint32_t)view->size;
    r.flag = pw_dev_reduce_flag(epoch, count, type, op);
    r.type = type;
    r.op = op;
    r.acquires = 0;
    r.bound = pw_dev_bound_of(view);
    const int status = pw_dev_reduce_fits_parts(r.size, count) ? pw_dev_reduce_by_parts(&r, values, count)
                                                               : pw_dev_reduce_by_lanes(&r, values, count);
    if (status != PW_DEV_OK)
        return status;
    if (pw_dev_block_lane() == 0)
        pw_dev_store(done, epoch);
    pw_dev_block_sync();
    return PW_DEV_OK;
}

#endif
