/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Buffers are heap memory in host space and memory of the device in CUDA space; the own segment is at peerwin_win_ptr.
 * What is done to memory of the device is ordered in the job's stream, behind the calls of the test.
 */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "device.h"

static int on_device(void) {
    return job.space == PEERWIN_SPACE_CUDA;
}

static void copy(void *to, const void *from, size_t bytes) {
    if (on_device()) {
        device_copy(to, from, bytes);
    } else if (bytes > 0) {
        memcpy(to, from, bytes);
    }
}

static void set(void *at, int byte, size_t bytes) {
    if (on_device()) {
        device_set(at, byte, bytes);
    } else if (bytes > 0) {
        memset(at, byte, bytes);
    }
}

void *host_new(size_t bytes) {
    void *memory = malloc(bytes > 0 ? bytes : 1);
    CHECK(memory != NULL);
    return memory;
}

static unsigned char *own(peerwin_win *win, size_t *bytes_out) {
    /* The window knows the rank of its context only by its segments, so the own rank comes from the path. */
    for (int rank = 0;; rank++) {
        if (peerwin_win_path(win, rank) == PEERWIN_PATH_SELF) {
            *bytes_out = peerwin_win_bytes(win, rank);
            return peerwin_win_ptr(win, rank);
        }
        CHECK(rank < job.size);
    }
}

void *buffer_new(size_t bytes) {
    return on_device() ? device_new(bytes) : host_new(bytes);
}

void buffer_free(void *buffer) {
    if (on_device()) {
        device_stream_sync(job.stream);
        device_free(buffer);
    } else {
        free(buffer);
    }
}

void buffer_store(void *buffer, size_t offset, const void *from, size_t bytes) {
    copy((unsigned char *)buffer + offset, from, bytes);
}

void buffer_load(const void *buffer, size_t offset, void *to, size_t bytes) {
    copy(to, (const unsigned char *)buffer + offset, bytes);
}

void buffer_set(void *buffer, int byte, size_t bytes) {
    set(buffer, byte, bytes);
}

void segment_store(peerwin_win *win, size_t offset, const void *from, size_t bytes) {
    size_t size = 0;
    unsigned char *segment = own(win, &size);
    CHECK(offset <= size && bytes <= size - offset);
    if (bytes > 0) {
        copy(segment + offset, from, bytes);
    }
}

void segment_load(peerwin_win *win, size_t offset, void *to, size_t bytes) {
    size_t size = 0;
    const unsigned char *segment = own(win, &size);
    CHECK(offset <= size && bytes <= size - offset);
    if (bytes > 0) {
        copy(to, segment + offset, bytes);
    }
}

void segment_set(peerwin_win *win, int byte) {
    size_t size = 0;
    unsigned char *segment = own(win, &size);
    set(segment, byte, size);
}

static double *fill_new(int rank, size_t first, size_t count) {
    double *values = host_new(count * sizeof(*values));
    for (size_t i = 0; i < count; i++) {
        values[i] = (double)rank * 1e6 + (double)(first + i);
    }
    return values;
}

void fill_segment(peerwin_win *win, size_t offset, int rank, size_t first, size_t count) {
    double *values = fill_new(rank, first, count);
    segment_store(win, offset, values, count * sizeof(*values));
    free(values);
}

void fill_buffer(void *buffer, size_t offset, int rank, size_t first, size_t count) {
    double *values = fill_new(rank, first, count);
    buffer_store(buffer, offset, values, count * sizeof(*values));
    free(values);
}

static void check_fill(const double *got, int rank, size_t first, size_t count) {
    double *want = fill_new(rank, first, count);
    for (size_t i = 0; i < count; i++) {
        if (memcmp(&got[i], &want[i], sizeof(*got)) != 0) {
            test_fail(__FILE__, __LINE__, "element %zu of rank %d: got %.17g, want %.17g", first + i, rank, got[i],
                      want[i]);
        }
    }
    free(want);
}

void check_fill_segment(peerwin_win *win, size_t offset, int rank, size_t first, size_t count) {
    double *got = host_new(count * sizeof(*got));
    segment_load(win, offset, got, count * sizeof(*got));
    check_fill(got, rank, first, count);
    free(got);
}

void check_fill_buffer(const void *buffer, size_t offset, int rank, size_t first, size_t count) {
    double *got = host_new(count * sizeof(*got));
    buffer_load(buffer, offset, got, count * sizeof(*got));
    check_fill(got, rank, first, count);
    free(got);
}

static inline unsigned char byte_at(uint32_t index, uint32_t start) {
    uint32_t x = index * 2654435761u + start;
    return (unsigned char)((x >> 16) ^ (x >> 5));
}

static uint32_t pattern_start(int rank, unsigned seed) {
    return (uint32_t)rank * 40503u + seed * 97u + 1u;
}

unsigned char pattern_byte(int rank, unsigned seed, size_t index) {
    return byte_at((uint32_t)index, pattern_start(rank, seed));
}

void pattern_write(unsigned char *to, int rank, unsigned seed, size_t bytes) {
    const uint32_t start = pattern_start(rank, seed);
    for (size_t i = 0; i < bytes; i++) {
        to[i] = byte_at((uint32_t)i, start);
    }
}

void check_bytes(const char *what, const unsigned char *got, const unsigned char *want, size_t bytes) {
    if (bytes == 0 || memcmp(got, want, bytes) == 0) {
        return;
    }
    size_t i = 0;
    while (got[i] == want[i]) {
        i++;
    }
    test_fail(__FILE__, __LINE__, "%s: byte %zu of %zu: got 0x%02x, want 0x%02x", what, i, bytes, got[i], want[i]);
}

void check_all(const char *what, const unsigned char *got, int byte, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (got[i] != (unsigned char)byte) {
            test_fail(__FILE__, __LINE__, "%s: byte %zu of %zu: got 0x%02x, want 0x%02x", what, i, bytes, got[i],
                      (unsigned)byte);
        }
    }
}
