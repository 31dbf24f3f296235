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
#include "peerwin/device/words.h"

#include <string.h>

enum {
    LANES = PW_KERNEL_LANES,
    BOX_DEPTH = 4, /* loads in flight per lane */
    PART_DEPTH = 4
};

/* ---- COPY ---- */

static __device__ __forceinline__ void copy_edges(const pw_copy_args *a) {
    const uint64_t middle = 16 * a->vectors;
    SIMK_BLOCK_STRIDE(i, a->bytes - middle) {
        uint64_t at = i < a->head ? i : i + middle;
        a->to[at] = a->from[at];
    }
}

PW_KERNEL void __launch_bounds__(PW_KERNEL_LANES, PW_KERNEL_RESIDENT) pw_kernel_copy(pw_copy_args a) {
    const uint64_t first = (uint64_t)blockIdx.x * a.per_block;
    if (blockIdx.x >= a.blocks) {
        copy_edges(&a);
    } else {
        const uint32_t count = a.vectors - first < a.per_block ? (uint32_t)(a.vectors - first) : a.per_block;
        char *to = a.to + a.head + 16 * first;
        const char *from = a.from + a.head + 16 * first;
        const uint32_t shift = (uint32_t)((uintptr_t)from & 15);
        SIMK_EACH_LANE {
            if (shift == 0)
                pw_dev_copy_aligned(to, from, count, threadIdx.x, LANES, 1);
            else
                pw_dev_copy_cut(to, from - shift, shift, count, threadIdx.x, LANES, 1);
        }
    }
}
SIMK_KERNEL(pw_kernel_copy, pw_copy_args);

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

static __device__ __forceinline__ struct slot slot_at(const pw_box_args *a, const struct place *p) {
    /* In bytes from the row's first: the slot begins before it where that is not aligned. */
    const int64_t begin = 16 * (int64_t)p->item - (int64_t)((uintptr_t)p->to & 15);
    const int64_t end = begin + 16 < (int64_t)a->row_bytes ? begin + 16 : (int64_t)a->row_bytes;
    const int64_t at = begin > 0 ? begin : 0;
    const int64_t low = at - (int64_t)((uintptr_t)(p->from + at) & 15);
    struct slot s;
    s.to = p->to + at;
    s.from = p->from + at;
    s.bytes = end > at ? (uint32_t)(end - at) : 0;
    /* Cutting a vector out of two reads the bytes around it, which must be the row's. */
    s.vector = s.bytes == 16 && (low == at || (low >= 0 && low + 32 <= (int64_t)a->row_bytes));
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
                slots[k] = slot_at(a, &p);
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

/* ---- meetings ---- */

/*
 * Epochs are compared cyclically. A lane that stores has fenced before, so that its store releases what the stream did
 * before the kernel; a lane that waits polls memory of its own device with acquire. What comes after the kernel on the
 * stream begins after the last lane's poll.
 */

/* Looked at now and then, since both words are far away from the polling. */
static __device__ __forceinline__ int gives_up(const pw_meeting *m, uint64_t since, uint32_t turn) {
    if (turn % 128 != 0)
        return 0;
    if (pw_load_system(m->broken) != 0)
        return 1;
    if (m->patience == 0 || pw_device_time() - since < m->patience)
        return 0;
    pw_store_system(m->broken, 1);
    pw_store_system(m->report, 1);
    return 1;
}

PW_KERNEL void __launch_bounds__(PW_MEETING_LANES) pw_kernel_barrier(pw_barrier_args a) {
    SIMK_EACH_LANE {
        for (uint32_t i = threadIdx.x; i < a.num_peers; i += blockDim.x) {
            pw_fence_system();
            pw_store_system((uint64_t *)a.peers[i], *a.meeting.epoch + 1);
        }
    }
    if (a.waits) {
        SIMK_EACH_LANE {
            const uint64_t epoch = *a.meeting.epoch + 1;
            const uint64_t since = pw_device_time();
            uint32_t turn = 0;
            for (uint32_t i = threadIdx.x; i < a.size; i += blockDim.x) {
                const uint64_t *line = (const uint64_t *)(a.lines + (size_t)i * PW_MEETING_LINE);
                while ((int64_t)(pw_load_acquire_system(line) - epoch) < 0 && !gives_up(&a.meeting, since, ++turn))
                    pw_poll_pause(turn);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0)
            *a.meeting.epoch += 1;
    }
}
SIMK_KERNEL(pw_kernel_barrier, pw_barrier_args);

/* ---- REDUCE ---- */

/*
 * A value travels in words of 64 bits, each with 32 bits of data and a mark of the epoch, so that a word that has the
 * mark has the data. Memory that was never written has mark 0, which no epoch has; a slot is used by every second
 * epoch, and the marks of neighbours among these differ.
 */
static __device__ __forceinline__ uint32_t mark_of(uint64_t epoch) {
    return (uint32_t)epoch != 0 ? (uint32_t)epoch : UINT32_MAX;
}

static __device__ __forceinline__ uint64_t *word_in(char *slots, uint64_t epoch, uint32_t word) {
    return (uint64_t *)(slots + (epoch & 1) * PW_MEETING_SLOT) + word;
}

static __device__ __forceinline__ uint32_t words_of(const pw_reduce_args *a) {
    return a->count * (a->type == PW_MEETING_FLOAT ? 1 : 2);
}

static __device__ __forceinline__ char *slots_of(const pw_reduce_args *a, uint32_t writer) {
    return a->slots + 2 * (size_t)writer * PW_MEETING_SLOT;
}

static __device__ __forceinline__ void publish(const pw_reduce_args *a) {
    const uint32_t words = words_of(a);
    SIMK_EACH_LANE {
        const uint64_t epoch = *a->meeting.epoch + 1;
        pw_fence_system();
        for (uint32_t i = threadIdx.x; i < a->num_peers * words; i += blockDim.x) {
            const uint32_t word = i % words;
            const uint64_t data = ((const uint32_t *)a->values)[word];
            pw_store_system(word_in(a->peers[i / words], epoch, word), (uint64_t)mark_of(epoch) << 32 | data);
        }
    }
}

#define PW_COMBINE(a, b, op)                                                                                           \
    ((op) == PW_MEETING_SUM ? (a) + (b) : (op) == PW_MEETING_MIN ? ((b) < (a) ? (b) : (a)) : ((b) > (a) ? (b) : (a)))

static __device__ __forceinline__ uint64_t combine_double(uint64_t x, uint64_t y, uint32_t op) {
    double a, b;
    memcpy(&a, &x, sizeof a);
    memcpy(&b, &y, sizeof b);
    if (op != PW_MEETING_SUM && (a != a || b != b))
        return a != a ? x : y;
    a = PW_COMBINE(a, b, op);
    memcpy(&x, &a, sizeof x);
    return x;
}

static __device__ __forceinline__ uint64_t combine_float(uint64_t x, uint64_t y, uint32_t op) {
    const uint32_t low_x = (uint32_t)x, low_y = (uint32_t)y;
    uint32_t low;
    float a, b;
    memcpy(&a, &low_x, sizeof a);
    memcpy(&b, &low_y, sizeof b);
    if (op != PW_MEETING_SUM && (a != a || b != b))
        return a != a ? x : y;
    a = PW_COMBINE(a, b, op);
    memcpy(&low, &a, sizeof low);
    return low;
}

static __device__ __forceinline__ uint64_t combine_int64(uint64_t x, uint64_t y, uint32_t op) {
    const int64_t a = (int64_t)x, b = (int64_t)y;
    return op == PW_MEETING_SUM ? x + y : (uint64_t)PW_COMBINE(a, b, op);
}

static __device__ __forceinline__ uint64_t combine(uint64_t x, uint64_t y, uint32_t type, uint32_t op) {
    return type == PW_MEETING_DOUBLE  ? combine_double(x, y, op)
           : type == PW_MEETING_FLOAT ? combine_float(x, y, op)
                                      : combine_int64(x, y, op);
}

/* What came of the first ranks is kept close by; more ranks than fit are read again. */
enum { NEAR_WORDS = 2048 };

static __device__ __forceinline__ uint32_t data_at(const pw_reduce_args *a, const uint32_t *near, uint64_t epoch,
                                                   uint32_t rank, uint32_t words, uint32_t word) {
    const uint32_t i = rank * words + word;
    return i < NEAR_WORDS ? near[i] : (uint32_t)pw_load_system(word_in(slots_of(a, rank), epoch, word));
}

static __device__ __forceinline__ uint64_t value_at(const pw_reduce_args *a, const uint32_t *near, uint64_t epoch,
                                                    uint32_t rank, uint32_t i) {
    if (a->type == PW_MEETING_FLOAT)
        return data_at(a, near, epoch, rank, a->count, i);
    return (uint64_t)data_at(a, near, epoch, rank, 2 * a->count, 2 * i + 1) << 32 |
           data_at(a, near, epoch, rank, 2 * a->count, 2 * i);
}

/* Waits for all words of all ranks; 1 in *gave_up if some did not come. */
static __device__ __forceinline__ void gather(const pw_reduce_args *a, uint32_t *near, int *gave_up) {
    const uint32_t words = words_of(a);
    SIMK_EACH_LANE {
        const uint64_t epoch = *a->meeting.epoch + 1;
        const uint64_t since = pw_device_time();
        uint32_t turn = 0;
        for (uint32_t i = threadIdx.x; i < a->size * words; i += blockDim.x) {
            const uint64_t *at = word_in(slots_of(a, i / words), epoch, i % words);
            uint64_t word = pw_load_acquire_system(at);
            while ((uint32_t)(word >> 32) != mark_of(epoch) && !gives_up(&a->meeting, since, ++turn)) {
                pw_poll_pause(turn);
                word = pw_load_acquire_system(at);
            }
            if ((uint32_t)(word >> 32) != mark_of(epoch))
                *gave_up = 1;
            if (i < NEAR_WORDS)
                near[i] = (uint32_t)word;
        }
    }
}

/* In rank order, so that every rank gets the same bits. */
static __device__ __forceinline__ void combine_all(const pw_reduce_args *a, const uint32_t *near) {
    SIMK_EACH_LANE {
        const uint64_t epoch = *a->meeting.epoch + 1;
        for (uint32_t i = threadIdx.x; i < a->count; i += blockDim.x) {
            uint64_t value = value_at(a, near, epoch, 0, i);
            for (uint32_t rank = 1; rank < a->size; rank++)
                value = combine(value, value_at(a, near, epoch, rank, i), a->type, a->op);
            if (a->type == PW_MEETING_FLOAT)
                ((uint32_t *)a->values)[i] = (uint32_t)value;
            else
                ((uint64_t *)a->values)[i] = value;
        }
    }
}

PW_KERNEL void __launch_bounds__(PW_MEETING_LANES) pw_kernel_reduce(pw_reduce_args a) {
    __shared__ uint32_t near[NEAR_WORDS];
    __shared__ int gave_up;
    if (threadIdx.x == 0)
        gave_up = 0;
    __syncthreads();
    if (a.parts & PW_REDUCE_PUBLISH)
        publish(&a);
    if (a.parts & PW_REDUCE_COMBINE) {
        gather(&a, near, &gave_up);
        __syncthreads();
        if (!gave_up)
            combine_all(&a, near);
        __syncthreads();
        if (threadIdx.x == 0)
            *a.meeting.epoch += 1;
    }
}
SIMK_KERNEL(pw_kernel_reduce, pw_reduce_args);
