/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Words written to device memory while all other streams of the device are stuck: by a non-blocking stream of the
 * highest priority, which shares no queue with others.
 *
 * Implemented twice: on the driver (urgent.c), and for builds without the CUDA headers (urgent_absent.c).
 */
#ifndef PW_MEMORY_URGENT_H
#define PW_MEMORY_URGENT_H

#include "memory/gpu.h"

typedef struct pw_urgent pw_urgent;

typedef struct {
    void *at; /* 8 bytes, aligned */
    uint64_t value;
} pw_urgent_word;

/* Makes and ends the stream; the gpu's context is current. Closing waits for the words, for a second at most. */
PEERWIN_MUST_USE peerwin_status pw_urgent_open(pw_gpu *gpu, const pw_site *site, pw_urgent **urgent_out);
void pw_urgent_close(pw_urgent *urgent);

/* Prepares a thread of the library's own for pw_urgent_write, for good; other threads have entered the gpu. */
void pw_urgent_adopt_thread(const pw_urgent *urgent);

/* 1 unless earlier words are still on their way. Any thread, as the next. */
int pw_urgent_is_idle(const pw_urgent *urgent);

/*
 * Writes words, soon and without waiting. What fails is not told: the device is lost then, and nothing waits on it any
 * more.
 */
void pw_urgent_write(const pw_urgent *urgent, const pw_urgent_word *words, size_t count);

#endif
