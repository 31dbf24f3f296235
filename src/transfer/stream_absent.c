/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Streams in a build without the CUDA headers: no context is in CUDA space, so nobody comes here; whoever does is told.
 */
#include "transfer/stream.h"

static peerwin_status absent(const pw_site *site) {
    return pw_fail(PEERWIN_ERR_INTERNAL, site, "this build of peerwin has no CUDA, and no streams");
}

peerwin_status pw_stream_put(peerwin_win *win, int rank, size_t offset, const void *local, size_t bytes,
                             peerwin_stream stream, const pw_site *site) {
    (void)win;
    (void)rank;
    (void)offset;
    (void)local;
    (void)bytes;
    (void)stream;
    return absent(site);
}

peerwin_status pw_stream_get(peerwin_win *win, int rank, size_t offset, void *local, size_t bytes,
                             peerwin_stream stream, const pw_site *site) {
    (void)win;
    (void)rank;
    (void)offset;
    (void)local;
    (void)bytes;
    (void)stream;
    return absent(site);
}

peerwin_status pw_stream_put_signal(peerwin_win *win, int rank, size_t offset, const void *local, size_t bytes,
                                    unsigned slot, peerwin_signal_op op, uint64_t value, peerwin_stream stream,
                                    const pw_site *site) {
    (void)win;
    (void)rank;
    (void)offset;
    (void)local;
    (void)bytes;
    (void)slot;
    (void)op;
    (void)value;
    (void)stream;
    return absent(site);
}

peerwin_status pw_stream_put_box(peerwin_win *win, int rank, const peerwin_box *to, const void *local,
                                 const peerwin_box *from, peerwin_stream stream, const pw_site *site) {
    (void)win;
    (void)rank;
    (void)to;
    (void)local;
    (void)from;
    (void)stream;
    return absent(site);
}

peerwin_status pw_stream_get_box(peerwin_win *win, int rank, const peerwin_box *from, void *local,
                                 const peerwin_box *to, peerwin_stream stream, const pw_site *site) {
    (void)win;
    (void)rank;
    (void)from;
    (void)local;
    (void)to;
    (void)stream;
    return absent(site);
}

peerwin_status pw_stream_signal(peerwin_win *win, int rank, unsigned slot, peerwin_signal_op op, uint64_t value,
                                peerwin_stream stream, const pw_site *site) {
    (void)win;
    (void)rank;
    (void)slot;
    (void)op;
    (void)value;
    (void)stream;
    return absent(site);
}

peerwin_status pw_stream_wait(peerwin_win *win, unsigned slot, uint64_t value, peerwin_stream stream,
                              const pw_site *site) {
    (void)win;
    (void)slot;
    (void)value;
    (void)stream;
    return absent(site);
}

peerwin_status pw_stream_consume(peerwin_win *win, unsigned slot, uint64_t count, peerwin_stream stream,
                                 const pw_site *site) {
    (void)win;
    (void)slot;
    (void)count;
    (void)stream;
    return absent(site);
}

peerwin_status pw_stream_read_signal(peerwin_win *win, unsigned slot, uint64_t *value_out, const pw_site *site) {
    (void)win;
    (void)slot;
    (void)value_out;
    return absent(site);
}

peerwin_status pw_stream_check_signal(const peerwin_win *win, int rank, peerwin_signal_op op, const pw_site *site) {
    (void)win;
    (void)rank;
    (void)op;
    return absent(site);
}

peerwin_status pw_stream_barrier(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    (void)ctx;
    (void)stream;
    return absent(site);
}

peerwin_status pw_stream_allreduce(peerwin_ctx *ctx, void *values, int count, peerwin_type type, peerwin_op op,
                                   peerwin_stream stream, const pw_site *site) {
    (void)ctx;
    (void)values;
    (void)count;
    (void)type;
    (void)op;
    (void)stream;
    return absent(site);
}

peerwin_status pw_stream_quiet(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    (void)ctx;
    (void)stream;
    return absent(site);
}

peerwin_status pw_stream_sync(peerwin_ctx *ctx, peerwin_stream stream, const pw_site *site) {
    (void)ctx;
    (void)stream;
    return absent(site);
}
