/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernels of halo plans: a part of kernels.cu, with whose words and helpers it is written. What their tables say is
 * in memory/kernels.h.
 *
 * Who may overwrite what is settled by grants, who may read it by arrivals, or by the epoch in the words themselves.
 * Every lane that stores at a target has acquired the target's grant; what it stores is released by the last block of
 * that target. No block waits for a later one, so a plan whose blocks wait needs no more than its own share of a
 * device.
 */
#ifndef PW_TRANSFER_KERNELS_HALO_CUH
#define PW_TRANSFER_KERNELS_HALO_CUH

/* ---- PUSH ---- */

static __device__ __forceinline__ uint32_t divide(uint32_t n, pw_divisor by) {
    return (uint32_t)((uint64_t)n * by.factor >> by.shift);
}

/* Row and plane of an item at one side, and which item of the row it is. */
struct spot {
    uint64_t item, row, plane;
};

static __device__ __forceinline__ struct spot spot_of(const pw_push_side *s, uint64_t i, int wide) {
    struct spot at;
    if (wide) {
        const uint64_t rows = i / s->per_row;
        at.plane = rows / s->per_plane;
        at.item = i - rows * s->per_row;
        at.row = rows - at.plane * s->per_plane;
    } else {
        const uint32_t rows = divide((uint32_t)i, s->by_row);
        const uint32_t plane = divide(rows, s->by_plane);
        at.plane = plane;
        at.item = (uint32_t)i - rows * (uint32_t)s->per_row;
        at.row = rows - plane * (uint32_t)s->per_plane;
    }
    return at;
}

static __device__ __forceinline__ char *row_at(const pw_push_side *s, const struct spot *at) {
    return s->base + at->row * s->row + at->plane * s->plane;
}

/*
 * Called with constants for `cell`, `even` and `wide`, so that each has a loop without choices. What the loop needs of
 * the move is loaded before it, once: the stores might be to the table, for all that a compiler knows.
 */
static __device__ __forceinline__ void push_cells(const pw_push_move *m, const pw_push_part *part, uint32_t lane,
                                                  uint32_t cell, int even, int wide) {
    const uint32_t depth = even && !wide ? BOX_DEPTH : 1;
    const pw_push_side to = m->to;
    const pw_push_side from = m->from;
    for (uint32_t i = lane; i < part->count; i += depth * PW_PUSH_WARP) {
        char *place[BOX_DEPTH];
        uint4 value[BOX_DEPTH];
        PW_UNROLL for (uint32_t k = 0; k < depth; k++) {
            const uint32_t at = i + k * PW_PUSH_WARP;
            const uint64_t item = part->first + (at < part->count ? at : part->count - 1);
            const struct spot there = spot_of(&to, item, wide);
            const struct spot here = even ? there : spot_of(&from, item, wide);
            place[k] = row_at(&to, &there) + there.item * cell;
            value[k] = pw_dev_load_cell(row_at(&from, &here) + here.item * cell, cell);
        }
        PW_UNROLL for (uint32_t k = 0; k < depth; k++) {
            if (i + k * PW_PUSH_WARP < part->count)
                pw_dev_store_cell(place[k], value[k], cell);
        }
    }
}

static __device__ __forceinline__ struct slot slot_of(const pw_push_side *to, const pw_push_side *from,
                                                      uint64_t row_bytes, uint64_t item, int wide) {
    const struct spot there = spot_of(to, item, wide);
    struct place p;
    p.item = there.item;
    p.row = there.row;
    p.to = row_at(to, &there);
    p.from = row_at(from, &there);
    return slot_at(row_bytes, &p);
}

/* What is no vector, at the ends of rows, is worked out once more rather than kept. */
static __device__ __forceinline__ void push_slots(const pw_push_move *m, const pw_push_part *part, uint32_t lane,
                                                  int wide) {
    const uint32_t depth = wide ? 1 : BOX_DEPTH;
    const pw_push_side to = m->to;
    const pw_push_side from = m->from;
    const uint64_t row_bytes = m->row_bytes;
    const uint32_t cell = m->cell;
    for (uint32_t i = lane; i < part->count; i += depth * PW_PUSH_WARP) {
        char *vector[BOX_DEPTH];
        uint4 value[BOX_DEPTH];
        PW_UNROLL for (uint32_t k = 0; k < depth; k++) {
            const uint32_t at = i + k * PW_PUSH_WARP;
            const uint4 none = {0, 0, 0, 0};
            const struct slot s =
                slot_of(&to, &from, row_bytes, part->first + (at < part->count ? at : part->count - 1), wide);
            vector[k] = s.vector ? s.to : NULL;
            value[k] = s.vector ? load_vector(s.from) : none;
        }
        PW_UNROLL for (uint32_t k = 0; k < depth; k++) {
            const uint32_t at = i + k * PW_PUSH_WARP;
            if (at >= part->count)
                break;
            if (vector[k]) {
                pw_dev_store16(vector[k], value[k]);
            } else {
                const struct slot s = slot_of(&to, &from, row_bytes, part->first + at, wide);
                copy_part(&s, cell);
            }
        }
    }
}

/* What is rare shares one loop. */
static __device__ __forceinline__ void push_part(const pw_push_move *m, const pw_push_part *part, uint32_t lane) {
    if (m->wide) {
        if (m->slots)
            push_slots(m, part, lane, 1);
        else
            push_cells(m, part, lane, m->cell, 0, 1);
    } else if (m->slots) {
        push_slots(m, part, lane, 0);
    } else if (!m->even) {
        push_cells(m, part, lane, m->cell, 0, 0);
    } else if (m->cell == 16) {
        push_cells(m, part, lane, 16, 1, 0);
    } else if (m->cell == 8) {
        push_cells(m, part, lane, 8, 1, 0);
    } else if (m->cell == 4) {
        push_cells(m, part, lane, 4, 1, 0);
    } else if (m->cell == 2) {
        push_cells(m, part, lane, 2, 1, 0);
    } else {
        push_cells(m, part, lane, 1, 1, 0);
    }
}

/* What a block knows of its target. */
struct target {
    const uint64_t *grant;
    uint64_t *arrival;
    uint32_t *ticket;
    uint32_t blocks, behind;
};

static __device__ __forceinline__ struct target target_of(const pw_push_args *a, uint32_t index) {
    const pw_push_block *block = &a->blocks[index];
    struct target t;
    t.grant = a->waits ? block->grant : NULL;
    t.arrival = block->arrival;
    t.ticket = a->tickets + block->ticket;
    t.blocks = block->blocks;
    t.behind = block->behind;
    return t;
}

/* 1 if the target lets this lane push. Acquire: what the target did before its grant comes before what follows. */
static __device__ __forceinline__ int may_push(const pw_push_args *a, const struct target *t, uint64_t epoch) {
    const pw_dev_bound bound = bound_of(&a->meeting);
    if (!t->grant || pw_dev_await(t->grant, epoch - t->behind, &bound) == PW_DEV_OK)
        return 1;
    give_up(&a->meeting);
    return 0;
}

/* A move to or from words. Loaded before the epoch, so that both are on their way together. */
struct carried {
    pw_push_side box;
    char *words;
    uint64_t half;
    uint32_t cell, is;
};

static __device__ __forceinline__ struct carried carried_by(const pw_push_move *m, int takes) {
    const pw_push_side *words = takes ? &m->from : &m->to;
    struct carried c;
    c.box = takes ? m->to : m->from;
    c.words = words->base;
    c.half = words->plane;
    c.cell = m->cell;
    c.is = m->words;
    return c;
}

static __device__ __forceinline__ char *cell_of(const struct carried *c, uint64_t item) {
    const struct spot at = spot_of(&c->box, item, 0);
    return row_at(&c->box, &at) + at.item * c->cell;
}

/* The words of a cell are side by side. */
static __device__ __forceinline__ uint64_t *words_of_cell(const struct carried *c, uint64_t item, uint64_t epoch) {
    return (uint64_t *)(void *)(c->words + (epoch & 1) * c->half + (c->cell == 8 ? 16 : 8) * item);
}

/* The first cell is loaded before the grant is looked at: it has mostly been given long ago. */
static __device__ __forceinline__ void push_words(const pw_push_args *a, const struct target *t,
                                                  const struct carried *c, const pw_push_part *part, uint32_t lane,
                                                  uint64_t epoch) {
    const uint64_t flag = epoch << 32;
    for (uint32_t i = lane; i < part->count; i += PW_PUSH_WARP) {
        const uint64_t item = part->first + i;
        const uint4 value = pw_dev_load_cell(cell_of(c, item), c->cell);
        uint64_t *words = words_of_cell(c, item, epoch);
        if (i == lane && !may_push(a, t, epoch))
            return;
        if (c->cell == 8)
            pw_dev_store_pair(words, flag | value.x, flag | value.y);
        else
            pw_dev_store(words, flag | value.x);
    }
}

/* Where this block looks for the epoch. */
static __device__ __forceinline__ uint32_t word_of(const pw_push_args *a) {
    return a->apiece ? blockIdx.x : 0;
}

/*
 * A lane of each warp's part, when the target lets it: every lane that stores has seen the grant itself. At least one
 * lane of the block waits, even where there is nothing to move, since the arrival overwrites one that must have been
 * taken. Returns the epoch.
 */
static __device__ __forceinline__ uint64_t push_lane(const pw_push_args *a, const struct target *t, uint32_t index,
                                                     int *gave_up) {
    const uint32_t number = index * PW_PUSH_WARPS + threadIdx.x / PW_PUSH_WARP;
    const pw_push_part part = a->parts[number];
    const pw_push_move *move = &a->moves[a->apart ? number : part.move];
    const struct carried carried = carried_by(move, 0);
    const uint64_t epoch = epoch_in(&a->meeting, word_of(a));
    if (part.count > 0 && carried.is)
        push_words(a, t, &carried, &part, threadIdx.x % PW_PUSH_WARP, epoch);
    else if ((part.count > 0 || threadIdx.x == 0) && !may_push(a, t, epoch))
        *gave_up = 1;
    else if (part.count > 0)
        push_part(move, &part, threadIdx.x % PW_PUSH_WARP);
    return epoch;
}

/*
 * Release, by the first lane after a block barrier, which orders the block's stores before it. Its fence and the
 * addition hand them on to the block of this target that counts last: that one has seen every block's, and its own
 * fence orders all of them before the word. Whoever acquires the word has the whole face. The ticket goes back to 0
 * after the word, which somebody waits for.
 */
static __device__ __forceinline__ void arrive(const struct target *t, uint64_t epoch, uint32_t one_device) {
    int last = 1;
    if (t->blocks > 1) {
        pw_dev_fence_release(one_device);
        last = pw_count_device(t->ticket) == t->blocks - 1;
    }
    if (last)
        pw_dev_publish(t->arrival, epoch, one_device);
    if (last && t->blocks > 1)
        *t->ticket = 0;
}

static __device__ __forceinline__ int is_of(uint64_t word, uint64_t epoch) {
    return (uint32_t)(word >> 32) == (uint32_t)epoch;
}

/* The words of a cell, when they are there; 0 if they do not come. */
static __device__ __forceinline__ int take_cell(const uint64_t *words, uint32_t cell, uint64_t epoch,
                                                const pw_dev_bound *bound, uint4 *value_out) {
    pw_dev_watch watch = {0, 0};
    int status = PW_DEV_OK;
    for (;;) {
        uint64_t low, high;
        if (cell == 8)
            pw_dev_load_pair(words, &low, &high);
        else
            low = high = pw_dev_load(words);
        value_out->x = (uint32_t)low;
        value_out->y = (uint32_t)high;
        if (is_of(low, epoch) && is_of(high, epoch))
            return 1;
        if (status != PW_DEV_OK)
            return 0;
        status = pw_dev_look(bound, &watch);
    }
}

/*
 * A lane of each warp's part. Returns the epoch. Nothing is acquired: the words are the data. They are overwritten
 * after the grant of the next exchange, which this rank gives in a later kernel, so after these loads.
 */
static __device__ __forceinline__ uint64_t take_lane(const pw_meeting *m, const pw_push_part *parts,
                                                     const pw_push_move *moves, uint32_t apart, uint32_t index,
                                                     uint32_t word) {
    const uint32_t number = index * PW_PUSH_WARPS + threadIdx.x / PW_PUSH_WARP;
    const pw_push_part part = parts[number];
    const struct carried c = carried_by(&moves[apart ? number : part.move], 1);
    const uint64_t epoch = epoch_in(m, word);
    const pw_dev_bound bound = bound_of(m);
    for (uint32_t i = threadIdx.x % PW_PUSH_WARP; i < part.count; i += PW_PUSH_WARP) {
        const uint64_t item = part.first + i;
        uint4 value = {0, 0, 0, 0};
        if (!take_cell(words_of_cell(&c, item, epoch), c.cell, epoch, &bound, &value)) {
            give_up(m);
            break;
        }
        pw_dev_store_cell(cell_of(&c, item), value, c.cell);
    }
    return epoch;
}

/* A release of all that the stream did before this kernel, by every lane that stores. */
static __device__ __forceinline__ void tell_all(uint64_t *const *words, uint32_t count, uint64_t epoch,
                                                uint32_t one_device) {
    SIMK_EACH_LANE {
        for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
            pw_dev_publish(words[i], epoch, one_device);
    }
}

/* For the kernels of the graph's next step, none of which begins before this one ends. */
static __device__ __forceinline__ void count(uint64_t *words, uint32_t number, uint64_t epoch) {
    SIMK_EACH_LANE {
        for (uint32_t i = threadIdx.x; i < number; i += blockDim.x)
            pw_dev_store(&words[i], epoch);
    }
}

/*
 * Blocks that wait come after the one that grants, and those that take after those that push: no block waits for a
 * later one, here or at another rank.
 */
PW_KERNEL void __launch_bounds__(PW_PUSH_LANES, PW_PUSH_RESIDENT) pw_kernel_push(pw_push_args a) {
    __shared__ int gave_up;
    const uint32_t granting = a.num_grants > 0;
    const uint32_t index = blockIdx.x - granting;
    uint64_t epoch = 0;
    if (threadIdx.x == 0)
        gave_up = 0;
    __syncthreads();
    if (blockIdx.x < granting) {
        epoch = epoch_in(&a.meeting, word_of(&a));
        tell_all(a.grants, a.num_grants, epoch, a.meeting.one_device);
    } else if (index < a.num_blocks) {
        const struct target t = target_of(&a, index);
        SIMK_EACH_LANE {
            epoch = push_lane(&a, &t, index, &gave_up);
        }
        __syncthreads();
        if (threadIdx.x == 0 && t.arrival && !gave_up)
            arrive(&t, epoch, a.meeting.one_device);
    } else if (index < a.num_blocks + a.num_takes) {
        SIMK_EACH_LANE {
            epoch = take_lane(&a.meeting, a.take_parts, a.take_moves, a.take_apart, index - a.num_blocks, word_of(&a));
        }
    }
    if (a.over && blockIdx.x == 0)
        count(a.over, a.num_over, epoch - a.behind);
    if (a.apiece) {
        __syncthreads(); /* all lanes have looked */
        if (threadIdx.x == 0)
            pw_dev_store(&a.meeting.epoch[blockIdx.x], epoch);
    }
}
SIMK_KERNEL(pw_kernel_push, pw_push_args);

/* ---- AWAIT ---- */

static __device__ __forceinline__ void await_words(const pw_await_args *a, uint64_t epoch) {
    const pw_dev_bound bound = bound_of(&a->meeting);
    SIMK_EACH_LANE {
        for (uint32_t i = threadIdx.x; i < a->num_waits; i += blockDim.x)
            if (pw_dev_await(a->waits[i], epoch, &bound))
                give_up(&a->meeting);
    }
}

/* What comes after the kernel on the stream begins after the last lane's poll, and so has what was released to it. */
PW_KERNEL void __launch_bounds__(PW_PUSH_LANES) pw_kernel_await(pw_await_args a) {
    if (blockIdx.x == 0 && a.meeting.epoch) {
        const uint64_t epoch = epoch_of(&a.meeting);
        tell_all(a.stores, a.num_stores, epoch, a.meeting.one_device);
        await_words(&a, epoch);
        if (a.over)
            count(a.over, a.num_over, epoch - a.behind);
    } else if (blockIdx.x > 0 && blockIdx.x <= a.num_blocks) {
        SIMK_EACH_LANE {
            (void)take_lane(&a.meeting, a.parts, a.moves, a.apart, blockIdx.x - 1, 0);
        }
    }
}
SIMK_KERNEL(pw_kernel_await, pw_await_args);

#endif
