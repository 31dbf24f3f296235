/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All kernels. The source is CUDA C++ and C11 alike: on devices kernels_device.h gives it its words, elsewhere whoever
 * includes it has done so before. What the launches fill in is in memory/kernels.h.
 *
 * Every access is as wide as its address is aligned, since a device faults where it is not. No byte outside of the
 * source is read, none outside of the target written. Loads and stores are plain ones: what a peer wrote and released
 * is visible to them because the stream waited for the release before the kernel began, and a kernel begins without
 * old lines in its caches. So nothing may be read through the cache that is never invalidated: no __ldg, and no
 * pointers to const that are marked as unaliased, from which a compiler makes the same. What the kernels store is
 * ordered before later work of the stream by the kernel's end, and before other devices' and processes' reads by the
 * release that follows on the stream: pw_kernel_word, or a memory operation.
 */
#ifdef __CUDACC__
#include "transfer/kernels_device.h"
#endif

#include "memory/kernels.h"
#include "peerwin/device/copy.h"
#include "peerwin/device/rounds.h"
#include "peerwin/device/words.h"

enum {
    LANES = PW_KERNEL_LANES,
    BOX_DEPTH = 4, /* loads in flight per lane */
    PART_DEPTH = 4,
    DISTANCE_DEPTH = 4
};

/* ---- COPY ---- */

static __device__ __forceinline__ void copy_edges(const pw_copy_args *a) {
    const uint64_t middle = 16 * a->vectors;
    SIMK_BLOCK_STRIDE(i, a->bytes - middle) {
        uint64_t at = i < a->head ? i : i + middle;
        a->to[at] = a->from[at];
    }
}

static __device__ __forceinline__ void copy_part_of(const pw_copy_args *a) {
    const uint64_t first = (uint64_t)blockIdx.x * a->per_block;
    if (blockIdx.x >= a->blocks) {
        copy_edges(a);
    } else {
        const uint32_t count = a->vectors - first < a->per_block ? (uint32_t)(a->vectors - first) : a->per_block;
        char *to = a->to + a->head + 16 * first;
        const char *from = a->from + a->head + 16 * first;
        const uint32_t shift = (uint32_t)((uintptr_t)from & 15);
        SIMK_EACH_LANE {
            if (shift == 0)
                pw_dev_copy_aligned(to, from, count, threadIdx.x, LANES, 1);
            else
                pw_dev_copy_cut(to, from - shift, shift, count, threadIdx.x, LANES, 1);
        }
    }
}

PW_KERNEL void __launch_bounds__(PW_KERNEL_LANES, PW_KERNEL_RESIDENT) pw_kernel_copy(pw_copy_args a) {
    copy_part_of(&a);
}
SIMK_KERNEL(pw_kernel_copy, pw_copy_args);

/* ---- COPY_SIGNAL ---- */

/*
 * A release of the whole copy and of what the stream did before. The block barrier orders the block's stores before its
 * first lane, whose fence and addition hand them on to the block that counts last: it has then seen every block's, and
 * its own fence, an acquire of them, orders all of them before the word. The ticket goes back to 0 after the word,
 * which somebody waits for. Acquires as for pw_kernel_word.
 */
PW_KERNEL void __launch_bounds__(PW_KERNEL_LANES, PW_KERNEL_RESIDENT) pw_kernel_copy_signal(pw_copy_signal_args a) {
    copy_part_of(&a.copy);
    __syncthreads();
    if (threadIdx.x == 0 && a.ticket) {
        int last = 1;
        if (gridDim.x > 1) {
            pw_dev_fence_release(a.one_device);
            last = pw_count_device(a.ticket) == gridDim.x - 1;
        }
        if (last && a.op == PW_WORD_ADD)
            pw_dev_publish_add(a.word, a.value, a.one_device);
        else if (last)
            pw_dev_publish(a.word, a.value, a.one_device);
        if (last && gridDim.x > 1)
            *a.ticket = 0;
    }
}
SIMK_KERNEL(pw_kernel_copy_signal, pw_copy_signal_args);

/* ---- BOX ---- */

/* Where an item is. `to` and `from` are a cell's own, or a slot's row's. */
struct place {
    uint64_t item, row;
    char *to;
    const char *from;
};

/* The only divisions, once per lane and launch; those of 64 bits take four times as long. */
static __device__ __forceinline__ struct place place_of(const pw_box_args *a, uint64_t index) {
    struct place p;
    uint64_t row, plane;
    if (a->items <= UINT32_MAX) {
        row = (uint32_t)index / (uint32_t)a->per_row;
        plane = (uint32_t)row / (uint32_t)a->per_plane;
    } else {
        row = index / a->per_row;
        plane = row / a->per_plane;
    }
    p.item = index - row * a->per_row;
    p.row = row - plane * a->per_plane;
    p.to = a->to + p.row * a->to_row + plane * a->to_plane;
    p.from = a->from + p.row * a->from_row + plane * a->from_plane;
    if (!a->slots) {
        p.to += p.item * a->cell;
        p.from += p.item * a->cell;
    }
    return p;
}

/* To the lane's next item. */
static __device__ __forceinline__ void step(const pw_box_args *a, struct place *p) {
    p->item += a->step_item;
    p->row += a->step_row;
    p->to += a->step_to;
    p->from += a->step_from;
    if (p->item >= a->per_row) {
        p->item -= a->per_row;
        p->row++;
        p->to += a->row_end_to;
        p->from += a->row_end_from;
    }
    if (p->row >= a->per_plane) {
        p->row -= a->per_plane;
        p->to += a->plane_end_to;
        p->from += a->plane_end_from;
    }
}

/* Called with constants for `cell`, so that each size has a loop without choices. */
static __device__ __forceinline__ void box_cells(const pw_box_args *a, uint64_t first, uint32_t count, uint32_t cell) {
    SIMK_EACH_LANE {
        struct place p = place_of(a, first + threadIdx.x);
        for (uint32_t i = threadIdx.x; i < count; i += BOX_DEPTH * LANES) {
            char *to[BOX_DEPTH];
            uint4 value[BOX_DEPTH];
            PW_UNROLL for (uint32_t k = 0; k < BOX_DEPTH; k++) {
                to[k] = p.to;
                value[k] = pw_dev_load_cell(p.from, cell);
                if (i + (k + 1) * LANES < count)
                    step(a, &p);
            }
            PW_UNROLL for (uint32_t k = 0; k < BOX_DEPTH; k++) {
                if (i + k * LANES < count)
                    pw_dev_store_cell(to[k], value[k], cell);
            }
        }
    }
}

/* What is in a slot: `bytes` bytes, 0 to 16. A vector is a slot that can be filled by one aligned store. */
struct slot {
    char *to;
    const char *from;
    uint32_t bytes, vector;
};

static __device__ __forceinline__ struct slot slot_at(uint64_t row_bytes, const struct place *p) {
    /* In bytes from the row's first: the slot begins before it where that is not aligned. */
    const int64_t begin = 16 * (int64_t)p->item - (int64_t)((uintptr_t)p->to & 15);
    const int64_t end = begin + 16 < (int64_t)row_bytes ? begin + 16 : (int64_t)row_bytes;
    const int64_t at = begin > 0 ? begin : 0;
    const int64_t low = at - (int64_t)((uintptr_t)(p->from + at) & 15);
    struct slot s;
    s.to = p->to + at;
    s.from = p->from + at;
    s.bytes = end > at ? (uint32_t)(end - at) : 0;
    /* Cutting a vector out of two reads the bytes around it, which must be the row's. */
    s.vector = s.bytes == 16 && (low == at || (low >= 0 && low + 32 <= (int64_t)row_bytes));
    return s;
}

static __device__ __forceinline__ uint4 load_vector(const char *from) {
    const uint32_t shift = (uint32_t)((uintptr_t)from & 15);
    const uint4 low = pw_dev_load16(from - shift);
    return shift == 0 ? low : pw_dev_cut(low, pw_dev_load16(from - shift + 16), shift);
}

static __device__ __forceinline__ void copy_part(const struct slot *s, uint32_t cell) {
    for (uint32_t i = 0; i < s->bytes; i += PART_DEPTH * cell) {
        uint4 value[PART_DEPTH];
        PW_UNROLL for (uint32_t k = 0; k < PART_DEPTH; k++) {
            uint32_t at = i + k * cell;
            value[k] = pw_dev_load_cell(s->from + (at < s->bytes ? at : i), cell);
        }
        PW_UNROLL for (uint32_t k = 0; k < PART_DEPTH; k++) {
            uint32_t at = i + k * cell;
            if (at < s->bytes)
                pw_dev_store_cell(s->to + at, value[k], cell);
        }
    }
}

static __device__ __forceinline__ void box_slots(const pw_box_args *a, uint64_t first, uint32_t count) {
    SIMK_EACH_LANE {
        struct place p = place_of(a, first + threadIdx.x);
        for (uint32_t i = threadIdx.x; i < count; i += BOX_DEPTH * LANES) {
            struct slot slots[BOX_DEPTH];
            uint4 value[BOX_DEPTH];
            PW_UNROLL for (uint32_t k = 0; k < BOX_DEPTH; k++) {
                const uint4 none = {0, 0, 0, 0};
                slots[k] = slot_at(a->row_bytes, &p);
                value[k] = slots[k].vector ? load_vector(slots[k].from) : none;
                if (i + (k + 1) * LANES < count)
                    step(a, &p);
            }
            PW_UNROLL for (uint32_t k = 0; k < BOX_DEPTH; k++) {
                if (i + k * LANES >= count)
                    break;
                if (slots[k].vector)
                    pw_dev_store16(slots[k].to, value[k]);
                else
                    copy_part(&slots[k], a->cell);
            }
        }
    }
}

/* Six blocks a multiprocessor: room for the registers of BOX_DEPTH slots. */
PW_KERNEL void __launch_bounds__(PW_KERNEL_LANES, 6) pw_kernel_box(pw_box_args a) {
    const uint64_t first = (uint64_t)blockIdx.x * a.per_block;
    const uint64_t left = first < a.items ? a.items - first : 0;
    const uint32_t count = left < a.per_block ? (uint32_t)left : a.per_block;
    if (a.slots)
        box_slots(&a, first, count);
    else if (a.cell == 16)
        box_cells(&a, first, count, 16);
    else if (a.cell == 8)
        box_cells(&a, first, count, 8);
    else if (a.cell == 4)
        box_cells(&a, first, count, 4);
    else if (a.cell == 2)
        box_cells(&a, first, count, 2);
    else
        box_cells(&a, first, count, 1);
}
SIMK_KERNEL(pw_kernel_box, pw_box_args);

/* ---- WORD ---- */

/*
 * A release at system scope of everything before it on the stream: earlier kernels and copies of the stream happened
 * before this kernel, and the fence orders what happened before it, by whichever thread, before the store or addition
 * that follows. The acquires that pair with it are those that see the word's new value: a stream's wait on the value,
 * a load with acquire on the host or by a kernel, or a fence after a relaxed load there. Additions continue a release
 * sequence: who sees the sum of two has both ranks' data.
 */
PW_KERNEL void __launch_bounds__(1) pw_kernel_word(pw_word_args a) {
    if (threadIdx.x == 0) {
        uint64_t *word = a.word;
        SIMK_ALIGNED(word, 8);
        pw_fence_system();
        if (a.op == PW_WORD_STORE)
            pw_store_system(word, a.value);
        else if (a.op == PW_WORD_ADD)
            pw_add_system(word, a.value);
    }
}
SIMK_KERNEL(pw_kernel_word, pw_word_args);

/* ---- DISTANCE ---- */

/* The clock of a chain of additions, each of which needs what the one before brought. The words are 0. */
static __device__ __forceinline__ uint64_t time_of_additions(uint64_t *word) {
    uint64_t before = pw_dev_add64(word, 0); /* the first one may have to fetch the line */
    const uint64_t began = pw_clock();
    PW_DEV_UNROLL for (int i = 0; i < DISTANCE_DEPTH; i++) {
        before = pw_dev_add64(word + (before >> 63), 0);
    }
    return pw_clock() - began + (before >> 63);
}

PW_KERNEL void __launch_bounds__(1) pw_kernel_distance(pw_distance_args a) {
    for (uint32_t i = 0; i < a.count; i++) {
        uint64_t sum = 0;
        for (uint32_t k = 0; k < a.num_lines; k++)
            sum += time_of_additions((uint64_t *)(void *)(a.first + (uint64_t)i * a.step + a.lines[k]));
        a.out[i] = sum;
    }
}
SIMK_KERNEL(pw_kernel_distance, pw_distance_args);

/* ---- meetings ---- */

/*
 * Epochs are compared cyclically. A lane that stores publishes: its store releases what the stream did before the
 * kernel. A lane that waits polls memory of its own device with acquire. What comes after the kernel on the stream
 * begins after the last lane's poll.
 */

static __device__ __forceinline__ pw_dev_bound bound_of(const pw_meeting *m) {
    pw_dev_bound bound;
    bound.broken = m->broken;
    bound.timeout_ns = m->patience;
    bound.context = 0;
    return bound;
}

/* The same on all lanes. */
static __device__ __forceinline__ uint64_t epoch_in(const pw_meeting *m, uint32_t word) {
    return m->known ? m->next : pw_dev_load(m->epoch + word) + 1;
}

static __device__ __forceinline__ uint64_t epoch_of(const pw_meeting *m) {
    return epoch_in(m, 0);
}

/* Whoever has waited in vain and was not told to stop stops everyone, and tells the host. */
static __device__ __forceinline__ void give_up_for(const pw_meeting *m, int status) {
    if (pw_dev_load(m->broken) == 0) {
        pw_dev_store(m->broken, (uint64_t)(uint32_t)status << 32);
        pw_dev_store(m->report, (uint64_t)(uint32_t)status);
    }
}

static __device__ __forceinline__ void give_up(const pw_meeting *m) {
    give_up_for(m, PW_DEV_TIMEOUT);
}

/* After a block barrier. Streams other than this one may wait for the epoch, unless it is a graph's. */
static __device__ __forceinline__ void end_epoch(const pw_meeting *m, uint64_t epoch) {
    if (threadIdx.x == 0) {
        if (m->known)
            pw_release_device(m->epoch, epoch);
        else
            pw_dev_store(m->epoch, epoch);
    }
}

PW_KERNEL void __launch_bounds__(PW_MEETING_LANES) pw_kernel_barrier(pw_barrier_args a) {
    const uint64_t epoch = a.size > 0 ? epoch_of(&a.meeting) : 0;
    SIMK_EACH_LANE {
        for (uint32_t i = threadIdx.x; i < a.num_peers; i += blockDim.x)
            pw_dev_publish((uint64_t *)(void *)a.peers[i], epoch, a.meeting.one_device);
    }
    if (a.waits) {
        const pw_dev_bound bound = bound_of(&a.meeting);
        SIMK_EACH_LANE {
            for (uint32_t i = threadIdx.x; i < a.size; i += blockDim.x)
                if (pw_dev_await((const uint64_t *)(const void *)(a.lines + (size_t)i * PW_DEV_LINE), epoch, &bound))
                    give_up(&a.meeting);
        }
        __syncthreads();
        end_epoch(&a.meeting, epoch);
    }
}
SIMK_KERNEL(pw_kernel_barrier, pw_barrier_args);

/* ---- REDUCE ---- */

/*
 * Values travel as in pw_dev_round_reduce, with which this shares words, slots and arithmetic. In contrast to it this
 * orders like a barrier: each lane that stores a word fences first, and words are polled with acquire. Words that are
 * stored to wipe out old ones need no fence.
 *
 * A fence waits for the loads before it. So what is stored, and the epoch, are loaded by other warps than the first,
 * and combined there as well: it alone stores, unless there are more words than it has lanes.
 *
 * The way of a launch through the code is kept short: a kernel of so little work waits for its instructions, too. So
 * loops stay loops, nothing is divided, and the most used sum has a loop of its own.
 */
static __device__ __forceinline__ uint64_t *word_in(char *slots, uint64_t epoch, uint32_t word) {
    return (uint64_t *)(void *)(slots + (epoch & 1) * PW_DEV_REDUCE_SLOT) + word;
}

static __device__ __forceinline__ uint32_t words_of(const pw_reduce_args *a) {
    return a->count * (a->type == PW_DEV_FLOAT ? 1 : 2);
}

static __device__ __forceinline__ uint32_t flag_of(const pw_reduce_args *a, uint64_t epoch) {
    return pw_dev_reduce_flag(epoch, a->count, (int)a->type, (int)a->op);
}

/* Lanes, the first warp's last. */
static __device__ __forceinline__ uint32_t lane_from_second_warp(void) {
    return threadIdx.x >= 32 ? threadIdx.x - 32 : threadIdx.x + blockDim.x - 32;
}

/* Everything that does not wait for anything: values and epoch into the block's memory, and the fences. */
static __device__ __forceinline__ void prepare(const pw_reduce_args *a, uint64_t *epoch, uint32_t *words) {
    const uint32_t used = a->parts & PW_REDUCE_PUBLISH ? words_of(a) : 0;
    SIMK_EACH_LANE {
        const uint32_t lane = lane_from_second_warp();
        if (lane == 0)
            *epoch = epoch_of(&a->meeting);
        PW_DEV_ROLLED for (uint32_t i = lane; i < used; i += blockDim.x) words[i] =
            ((const pw_dev_any32 *)a->values)[i];
        if (threadIdx.x < used)
            pw_dev_fence_release(a->meeting.one_device);
    }
}

static __device__ __forceinline__ void publish(const pw_reduce_args *a, uint64_t epoch, const uint32_t *words) {
    const uint64_t flag = (uint64_t)flag_of(a, epoch) << 32;
    const uint32_t used = words_of(a);
    const uint32_t written = (epoch & PW_DEV_SWEEP) < 2 ? (uint32_t)PW_DEV_REDUCE_WORDS : used;
    SIMK_EACH_LANE {
        PW_DEV_ROLLED for (uint32_t i = threadIdx.x; i < written; i += blockDim.x) {
            const uint64_t word = flag | (i < used ? words[i] : 0);
            for (uint32_t peer = 0; peer < a->num_peers; peer++)
                pw_dev_store_released(word_in(a->peers[peer], epoch, i), word);
        }
    }
}

static __device__ __forceinline__ pw_dev_reduction reduction_of(const pw_reduce_args *a, uint64_t epoch) {
    pw_dev_reduction r;
    r.slots = (const char *)word_in(a->slots, epoch, 0);
    r.size = a->size;
    r.flag = flag_of(a, epoch);
    r.type = (int)a->type;
    r.op = (int)a->op;
    r.acquires = 1;
    r.bound = bound_of(&a->meeting);
    return r;
}

/* What comes of the first ranks is kept at hand; what does not fit is read again. */
enum { NEAR_WORDS = 1024 };
union near_memory {
    uint64_t aligned;
    uint32_t words[NEAR_WORDS];
};

static __device__ __forceinline__ uint32_t data_at(const pw_dev_reduction *r, const uint32_t *near_words, uint32_t used,
                                                   uint32_t rank, uint32_t word) {
    const uint32_t i = rank * used + word;
    return i < NEAR_WORDS ? near_words[i] : (uint32_t)pw_dev_load(pw_dev_reduce_words(r, rank) + word);
}

static __device__ __forceinline__ uint64_t value_at(const pw_dev_reduction *r, const uint32_t *near_words,
                                                    uint32_t used, uint32_t rank, uint32_t i) {
    if (r->type == PW_DEV_FLOAT)
        return data_at(r, near_words, used, rank, i);
    const uint64_t high = data_at(r, near_words, used, rank, 2 * i + 1);
    return high << 32 | data_at(r, near_words, used, rank, 2 * i);
}

/* Waits until a word has come. */
static __device__ __forceinline__ int take_word(const pw_dev_reduction *r, const uint64_t *at, uint32_t *data_out) {
    pw_dev_watch watch = {0, 0};
    int status = PW_DEV_OK;
    for (;;) {
        const uint64_t word = pw_dev_load_acquire(at);
        *data_out = (uint32_t)word;
        if ((uint32_t)(word >> 32) == r->flag)
            return PW_DEV_OK;
        if (status != PW_DEV_OK)
            return status;
        status = pw_dev_reduce_rest(r, &watch);
    }
}

/*
 * All words of all ranks, a lane each: so it takes as long for many ranks as for two. The loop is short on purpose. One
 * lane per value with the ranks' words in flight together, unrolled, costs 0.2 to 0.5 us more a launch on an H200.
 */
static __device__ __forceinline__ void gather(const pw_reduce_args *a, const pw_dev_reduction *r, uint32_t *near_words,
                                              int *gave_up) {
    const uint32_t used = words_of(a);
    SIMK_EACH_LANE {
        PW_DEV_ROLLED for (uint32_t i = lane_from_second_warp(); i < a->size * used; i += blockDim.x) {
            const uint32_t rank = used > 1 ? (uint32_t)((uint64_t)i * a->per_word >> 32) : i;
            uint32_t data;
            const int status = take_word(r, pw_dev_reduce_words(r, rank) + (i - rank * used), &data);
            if (status != PW_DEV_OK) {
                give_up_for(&a->meeting, status);
                *gave_up = 1;
            }
            if (i < NEAR_WORDS)
                near_words[i] = data;
        }
    }
}

/* The sum of doubles whose words are all at hand. The next one is loaded while one is added. */
static __device__ __forceinline__ void add_up(const pw_reduce_args *a, const uint32_t *near_words) {
    const pw_dev_any64 *near_values = (const pw_dev_any64 *)(const void *)near_words;
    SIMK_EACH_LANE {
        PW_DEV_ROLLED for (uint32_t i = lane_from_second_warp(); i < a->count; i += blockDim.x) {
            uint64_t value = near_values[i];
            uint64_t next = near_values[a->count + i];
            PW_DEV_ROLLED for (uint32_t rank = 1; rank < a->size; rank++) {
                const uint64_t this_one = next;
                next = near_values[(rank + 1) * a->count + i];
                value = pw_dev_sum(value, this_one, PW_DEV_DOUBLE);
            }
            ((pw_dev_any64 *)a->values)[i] = value;
        }
    }
}

/* In rank order, so that every rank gets the same bits. */
static __device__ __forceinline__ void combine(const pw_reduce_args *a, const pw_dev_reduction *r,
                                               const uint32_t *near_words) {
    const uint32_t used = words_of(a);
    SIMK_EACH_LANE {
        PW_DEV_ROLLED for (uint32_t i = lane_from_second_warp(); i < a->count; i += blockDim.x) {
            uint64_t value = value_at(r, near_words, used, 0, i);
            PW_DEV_ROLLED for (uint32_t rank = 1; rank < a->size; rank++) value =
                pw_dev_combine(value, value_at(r, near_words, used, rank, i), r->type, r->op);
            if (a->type == PW_DEV_FLOAT)
                ((pw_dev_any32 *)a->values)[i] = (uint32_t)value;
            else
                ((pw_dev_any64 *)a->values)[i] = value;
        }
    }
}

PW_KERNEL void __launch_bounds__(PW_MEETING_LANES) pw_kernel_reduce(pw_reduce_args a) {
    __shared__ uint64_t epoch;
    __shared__ uint32_t words[PW_DEV_REDUCE_WORDS];
    __shared__ union near_memory at_hand;
    __shared__ int gave_up;
    if (threadIdx.x == 0)
        gave_up = 0;
    if (a.parts != 0)
        prepare(&a, &epoch, words);
    __syncthreads();
    if (a.parts & PW_REDUCE_PUBLISH)
        publish(&a, epoch, words);
    if (a.parts & PW_REDUCE_COMBINE) {
        const pw_dev_reduction r = reduction_of(&a, epoch);
        gather(&a, &r, at_hand.words, &gave_up);
        __syncthreads();
        if (!gave_up && r.type == PW_DEV_DOUBLE && r.op == PW_DEV_SUM && (a.size + 1) * words_of(&a) <= NEAR_WORDS)
            add_up(&a, at_hand.words);
        else if (!gave_up)
            combine(&a, &r, at_hand.words);
        __syncthreads();
        end_epoch(&a.meeting, epoch);
    }
}
SIMK_KERNEL(pw_kernel_reduce, pw_reduce_args);

/* ---- PUSH and AWAIT ---- */

#include "transfer/kernels_halo.cuh"
