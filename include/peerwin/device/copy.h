/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Moving bytes with the lanes of a thread, warp or block; part of peerwin/device.cuh, and of the library's kernels.
 *
 * Every access is as wide as its address is aligned, since a device faults where it is not. The middle of a range is
 * moved by vectors of 16 bytes, aligned at the target; where the source is not aligned there, each is cut out of two
 * aligned ones that lie within the source. A lane has several loads in flight, and makes them all before it stores.
 * No byte outside of the source is read, none outside of the target written.
 *
 * Loads and stores are plain ones; source and target must not overlap. A processor's memcpy knows all this already.
 */
#ifndef PEERWIN_DEVICE_COPY_H
#define PEERWIN_DEVICE_COPY_H

#include "peerwin/device/words.h"

#if defined(__CUDACC__) || defined(SIMCUDA_SIMKERNEL_H)

/* Loads in flight per lane; those that are cut make two loads for each. */
enum { PW_DEV_DEPTH = 8, PW_DEV_CUT_DEPTH = 4 };

/* So many vectors are counted in 32 bits at most. */
enum { PW_DEV_PART = 1 << 30 };

PW_DEV uint4 pw_dev_load16(const char *at) {
    PW_DEV_ALIGNED(at, 16);
    return *(const uint4 *)(const void *)at;
}

PW_DEV void pw_dev_store16(char *at, uint4 value) {
    PW_DEV_ALIGNED(at, 16);
    *(uint4 *)(void *)at = value;
}

/* 16, 8, 4, 2 bytes or 1, in the lowest bytes of the value. */
PW_DEV uint4 pw_dev_load_cell(const char *at, uint32_t cell) {
    uint4 value = {0, 0, 0, 0};
    if (cell == 16)
        return pw_dev_load16(at);
    PW_DEV_ALIGNED(at, cell);
    if (cell == 8) {
        uint64_t both = *(const pw_dev_any64 *)(const void *)at;
        value.x = (uint32_t)both;
        value.y = (uint32_t)(both >> 32);
    } else if (cell == 4) {
        value.x = *(const pw_dev_any32 *)(const void *)at;
    } else if (cell == 2) {
        value.x = *(const pw_dev_any16 *)(const void *)at;
    } else {
        value.x = *(const unsigned char *)at;
    }
    return value;
}

PW_DEV void pw_dev_store_cell(char *at, uint4 value, uint32_t cell) {
    if (cell == 16) {
        pw_dev_store16(at, value);
        return;
    }
    PW_DEV_ALIGNED(at, cell);
    if (cell == 8)
        *(pw_dev_any64 *)(void *)at = (uint64_t)value.y << 32 | value.x;
    else if (cell == 4)
        *(pw_dev_any32 *)(void *)at = value.x;
    else if (cell == 2)
        *(pw_dev_any16 *)(void *)at = (uint16_t)value.x;
    else
        *(unsigned char *)at = (unsigned char)value.x;
}

/* The lower word of (high:low) >> bits, bits < 32. */
PW_DEV uint32_t pw_dev_funnel(uint32_t low, uint32_t high, uint32_t bits) {
#if defined(__CUDACC__)
    return __funnelshift_r(low, high, bits);
#else
    return (uint32_t)(((uint64_t)high << 32 | low) >> bits);
#endif
}

/* Bytes shift .. shift + 15 of the 32 bytes a, b; shift < 16. By halves, not by an index: registers have none. */
PW_DEV uint4 pw_dev_cut(uint4 a, uint4 b, uint32_t shift) {
    uint32_t bits = 8 * (shift & 3);
    uint4 out;
    if (shift & 8) {
        a.x = a.z;
        a.y = a.w;
        a.z = b.x;
        a.w = b.y;
        b.x = b.z;
        b.y = b.w;
    }
    if (shift & 4) {
        a.x = a.y;
        a.y = a.z;
        a.z = a.w;
        a.w = b.x;
        b.x = b.y;
    }
    out.x = pw_dev_funnel(a.x, a.y, bits);
    out.y = pw_dev_funnel(a.y, a.z, bits);
    out.z = pw_dev_funnel(a.z, a.w, bits);
    out.w = pw_dev_funnel(a.w, b.x, bits);
    return out;
}

/* Keeps a compiler from working out all addresses of a round in advance, which costs a register or two for each. */
PW_DEV uint32_t pw_dev_late(uint32_t index, int constant) {
#if defined(__CUDACC__)
    if (!constant)
        asm volatile("" : "+r"(index));
#else
    (void)constant;
#endif
    return index;
}

/*
 * `count` vectors, at most PW_DEV_PART, both sides aligned. Loads past the end repeat the last one: no branch stands
 * between the loads. `constant`: the number of lanes is a constant, and addresses are offsets that cost nothing.
 */
PW_DEV void pw_dev_copy_aligned(char *to, const char *from, uint32_t count, uint32_t lane, uint32_t lanes,
                                int constant) {
    if (count <= lanes) { /* short ones should not pay for long ones */
        if (lane < count)
            pw_dev_store16(to + 16 * (uint64_t)lane, pw_dev_load16(from + 16 * (uint64_t)lane));
        return;
    }
    for (uint32_t i = lane; i < count; i += PW_DEV_DEPTH * lanes) {
        uint4 value[PW_DEV_DEPTH];
        PW_DEV_UNROLL for (uint32_t k = 0; k < PW_DEV_DEPTH; k++) {
            const uint32_t at = pw_dev_late(i + k * lanes, constant);
            value[k] = pw_dev_load16(from + 16 * (uint64_t)(at < count ? at : count - 1));
        }
        PW_DEV_UNROLL for (uint32_t k = 0; k < PW_DEV_DEPTH; k++) {
            const uint32_t at = pw_dev_late(i + k * lanes, constant);
            if (at < count)
                pw_dev_store16(to + 16 * (uint64_t)at, value[k]);
        }
    }
}

/* The same for a source that is not aligned: `from` is the aligned address below it, and it begins `shift` bytes later.
 */
PW_DEV void pw_dev_copy_cut(char *to, const char *from, uint32_t shift, uint32_t count, uint32_t lane, uint32_t lanes,
                            int constant) {
    for (uint32_t i = lane; i < count; i += PW_DEV_CUT_DEPTH * lanes) {
        uint4 low[PW_DEV_CUT_DEPTH], high[PW_DEV_CUT_DEPTH];
        PW_DEV_UNROLL for (uint32_t k = 0; k < PW_DEV_CUT_DEPTH; k++) {
            const uint32_t at = pw_dev_late(i + k * lanes, constant);
            const char *address = from + 16 * (uint64_t)(at < count ? at : count - 1);
            low[k] = pw_dev_load16(address);
            high[k] = pw_dev_load16(address + 16);
        }
        PW_DEV_UNROLL for (uint32_t k = 0; k < PW_DEV_CUT_DEPTH; k++) {
            const uint32_t at = pw_dev_late(i + k * lanes, constant);
            if (at < count)
                pw_dev_store16(to + 16 * (uint64_t)at, pw_dev_cut(low[k], high[k], shift));
        }
    }
}

/*
 * How many vectors there are, and how many bytes are before the first: where the target is aligned and the vector that
 * the source lies in is within the source.
 */
PW_DEV uint64_t pw_dev_middle(const char *to, const char *from, uint64_t bytes, uint64_t *head_out) {
    uint64_t head = -(uint64_t)(uintptr_t)to & 15;
    const uint64_t shift = ((uint64_t)(uintptr_t)from + head) & 15;
    if (head < shift)
        head += 16;
    *head_out = bytes;
    if (bytes <= head)
        return 0;
    uint64_t rest = bytes - head;
    if (shift != 0) /* the last vector's upper half ends 16 - shift bytes after it */
        rest = rest + shift < 16 ? 0 : rest + shift - 16;
    if (rest < 16)
        return 0;
    *head_out = head;
    return rest / 16;
}

/* The pieces that what is not in the middle is made of. */
PW_DEV uint32_t pw_dev_cell_of(const char *to, const char *from, uint64_t bytes) {
    const uint64_t bits = (uint64_t)(uintptr_t)to | (uint64_t)(uintptr_t)from | bytes;
    return bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : bits % 2 == 0 ? 2 : 1;
}

/* A lane's part of any copy. The first piece of its edges is loaded before the middle and stored after it. */
PW_DEV void pw_dev_copy_any(char *to, const char *from, uint64_t bytes, uint32_t lane, uint32_t lanes) {
    uint64_t head;
    const uint64_t count = pw_dev_middle(to, from, bytes, &head);
    const uint32_t cell = pw_dev_cell_of(to, from, bytes);
    const uint64_t edges = bytes - 16 * count;
    uint64_t at = (uint64_t)lane * cell;
    uint64_t place = at < head ? at : at + 16 * count;
    uint4 value = {0, 0, 0, 0};
    if (at < edges)
        value = pw_dev_load_cell(from + place, cell);
    const uint32_t shift = (uint32_t)((uintptr_t)(from + head) & 15);
    for (uint64_t done = 0; done < count; done += PW_DEV_PART) {
        const uint32_t part = count - done < PW_DEV_PART ? (uint32_t)(count - done) : (uint32_t)PW_DEV_PART;
        const uint64_t begin = head + 16 * done;
        if (shift == 0)
            pw_dev_copy_aligned(to + begin, from + begin, part, lane, lanes, 0);
        else
            pw_dev_copy_cut(to + begin, from + begin - shift, shift, part, lane, lanes, 0);
    }
    while (at < edges) {
        pw_dev_store_cell(to + place, value, cell);
        at += (uint64_t)lanes * cell;
        place = at < head ? at : at + 16 * count;
        if (at < edges)
            value = pw_dev_load_cell(from + place, cell);
    }
}

/*
 * A lane's part of a copy. What is aligned goes by a short way: a small put takes no longer than its store, so that
 * even working out where its middle lies would show.
 */
PW_DEV void pw_dev_copy(void *to_, const void *from_, uint64_t bytes, uint32_t lane, uint32_t lanes) {
    char *to = (char *)to_;
    const char *from = (const char *)from_;
    const uint64_t bits = (uint64_t)(uintptr_t)to | (uint64_t)(uintptr_t)from | bytes;
    if (bits % 8 == 0 && bytes <= 8 * (uint64_t)lanes) {
        if (8 * (uint64_t)lane < bytes)
            pw_dev_store_cell(to + 8 * lane, pw_dev_load_cell(from + 8 * lane, 8), 8);
    } else if (bits % 16 == 0 && bytes <= 16 * (uint64_t)PW_DEV_PART) {
        pw_dev_copy_aligned(to, from, (uint32_t)(bytes / 16), lane, lanes, 0);
    } else {
        pw_dev_copy_any(to, from, bytes, lane, lanes);
    }
}

#else

PW_DEV void pw_dev_copy(void *to, const void *from, uint64_t bytes, uint32_t lane, uint32_t lanes) {
    (void)lanes;
    if (lane == 0 && bytes > 0)
        memcpy(to, from, bytes);
}

#endif

#endif
