/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Interprocess events, two of each rank, in the shape of a kind of memory: so they are handed out, opened, and given
 * back by the same steps as segments. A "segment" has two pieces, an event each, of one byte. There is no memory: base
 * is where the events stand.
 */
#ifndef PW_MEMORY_EVENTS_H
#define PW_MEMORY_EVENTS_H

#include "memory/gpu.h"

enum { PW_EVENTS = 2 };

/* NULL in builds without the CUDA headers. */
const pw_memory_ops *pw_events(void);

/* Records an event of `events` (the base of a segment or mapping) in a stream, and makes a stream wait for what was
 * recorded last. The context is current. */
PEERWIN_MUST_USE peerwin_status pw_event_record(pw_gpu *gpu, void *events, unsigned which, peerwin_stream stream,
                                                const pw_site *site);
PEERWIN_MUST_USE peerwin_status pw_event_await(pw_gpu *gpu, void *events, unsigned which, peerwin_stream stream,
                                               const pw_site *site);

#endif
