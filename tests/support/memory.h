/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory as the tests see it: buffers for sources and destinations, and the own segment of a window. Tests touch them
 * through these functions only, so that the same tests run where this memory is on a device. Contents are prepared
 * and compared in ordinary host arrays.
 *
 * Two patterns: "fill", where double i of rank r is r * 1e6 + i, and a byte pattern that differs by rank and seed.
 */
#ifndef PEERWIN_TESTS_MEMORY_H
#define PEERWIN_TESTS_MEMORY_H

#include <stddef.h>

#include "test.h"

#define TEST_GUARD 0xA5

/** A buffer of the space under test. In CUDA space these wait for the job's stream, so no peerwin call is under way. */
void *buffer_new(size_t bytes);
void buffer_free(void *buffer);
void buffer_store(void *buffer, size_t offset, const void *from, size_t bytes);
void buffer_load(const void *buffer, size_t offset, void *to, size_t bytes);
void buffer_set(void *buffer, int byte, size_t bytes);

/** The own segment of a window. */
void segment_store(peerwin_win *win, size_t offset, const void *from, size_t bytes);
void segment_load(peerwin_win *win, size_t offset, void *to, size_t bytes);
void segment_set(peerwin_win *win, int byte);

/** Fill: `count` doubles as rank `rank` has them, from element `first` on. */
void fill_segment(peerwin_win *win, size_t offset, int rank, size_t first, size_t count);
void fill_buffer(void *buffer, size_t offset, int rank, size_t first, size_t count);
void check_fill_segment(peerwin_win *win, size_t offset, int rank, size_t first, size_t count);
void check_fill_buffer(const void *buffer, size_t offset, int rank, size_t first, size_t count);

/** The byte pattern: byte `index` of rank `rank` under `seed`. */
unsigned char pattern_byte(int rank, unsigned seed, size_t index);
void pattern_write(unsigned char *to, int rank, unsigned seed, size_t bytes);
/** Fails, naming the first byte that differs. */
void check_bytes(const char *what, const unsigned char *got, const unsigned char *want, size_t bytes);
/** Fails unless all bytes are `byte`. */
void check_all(const char *what, const unsigned char *got, int byte, size_t bytes);

/** Malloc that cannot fail. */
void *host_new(size_t bytes);

#endif
