/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Collecting the matrix of pairs, and its JSON; see pairs.h.
 */
#include "pairs.h"

#include "info.h"
#include "show.h"

#include <stdlib.h>
#include <string.h>

enum { REASON_BYTES = 256 };

/* One pair on its way to rank 0. */
typedef struct {
    pair_kind kind;
    char reason[REASON_BYTES];
} cell;

/* ---- the matrix */

pair_matrix *pairs_new(int n) {
    const size_t cells = (size_t)n * (size_t)n;
    pair_matrix *m = info_alloc(1, sizeof *m);
    m->n = n;
    m->kinds = info_alloc(cells, sizeof *m->kinds);
    m->reasons = info_alloc(cells, sizeof *m->reasons);
    return m;
}

void pairs_free(pair_matrix *m) {
    if (m == NULL)
        return;
    for (int i = 0; i < m->num_texts; i++)
        free(m->texts[i]);
    free(m->texts);
    free(m->reasons);
    free(m->kinds);
    free(m);
}

/* Copies `from` to `to` with every "rank NUMBER" replaced; what does not fit is cut off. */
static void generalise(char to[REASON_BYTES], const char *from, int number, const char *name) {
    char wanted[24];
    const int length = snprintf(wanted, sizeof wanted, "rank %d", number);
    size_t used = 0;
    while (*from != '\0' && used + 1 < REASON_BYTES) {
        const int after = strncmp(from, wanted, (size_t)length) == 0 ? from[length] : '0';
        if (after >= '0' && after <= '9') {
            to[used++] = *from++;
            continue;
        }
        used += (size_t)snprintf(to + used, REASON_BYTES - used, "%s", name);
        from += length;
    }
    to[used < REASON_BYTES ? used : REASON_BYTES - 1] = '\0';
}

static int text_number(pair_matrix *m, const char *text) {
    for (int i = 0; i < m->num_texts; i++)
        if (strcmp(m->texts[i], text) == 0)
            return i;
    char **texts = realloc(m->texts, ((size_t)m->num_texts + 1) * sizeof *texts);
    if (texts == NULL)
        info_fail("out of memory");
    m->texts = texts;
    m->texts[m->num_texts] = info_alloc(strlen(text) + 1, 1);
    memcpy(m->texts[m->num_texts], text, strlen(text));
    return m->num_texts++;
}

/* Past the place that a whole sentence of the library begins with: the pair is the place here. */
static const char *without_place(const char *reason, int to) {
    char peer[32];
    snprintf(peer, sizeof peer, ", peer %d: ", to);
    const char *end = strncmp(reason, "peerwin_", 8) == 0 ? strstr(reason, peer) : NULL;
    return end != NULL ? end + strlen(peer) : reason;
}

void pairs_set(pair_matrix *m, int from, int to, pair_kind kind, const char *reason) {
    const size_t at = (size_t)from * (size_t)m->n + (size_t)to;
    m->kinds[at] = kind;
    m->reasons[at] = -1;
    if (reason[0] == '\0')
        return;
    char halfway[REASON_BYTES];
    char text[REASON_BYTES];
    generalise(halfway, without_place(reason, to), to, "the other rank");
    generalise(text, halfway, from, "this rank");
    m->reasons[at] = text_number(m, text);
}

/* ---- collecting */

static cell *my_row(const peerwin_ctx *ctx, int size) {
    cell *row = info_alloc((size_t)size, sizeof *row);
    for (int to = 0; to < size; to++) {
        peerwin_peer peer = {.size = sizeof peer};
        const peerwin_status status = peerwin_peer_query(ctx, to, &peer);
        if (status != PEERWIN_OK)
            info_fail("peerwin_peer_query: %s: %s", peerwin_strerror(status), peerwin_last_error());
        row[to].kind = (pair_kind){(unsigned char)peer.path, (unsigned char)peer.link, peer.native_atomics != 0};
        snprintf(row[to].reason, sizeof row[to].reason, "%s", peer.reason);
    }
    return row;
}

/* Row by row, so that rank 0 never holds more than one row of whole sentences. */
pair_matrix *pairs_collect(const peerwin_ctx *ctx) {
    const int size = peerwin_size(ctx);
    const int rank = peerwin_rank(ctx);
    const int bytes = size * (int)sizeof(cell);
    cell *row = my_row(ctx, size);
    pair_matrix *m = NULL;
    if (rank != 0) {
        MPI_Send(row, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    } else {
        m = pairs_new(size);
        for (int from = 0; from < size; from++) {
            if (from != 0)
                MPI_Recv(row, bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int to = 0; to < size; to++)
                pairs_set(m, from, to, row[to].kind, row[to].reason);
        }
    }
    free(row);
    return m;
}

/* ---- JSON */

void pairs_write_one(const pair_matrix *m, int from, int to, json *j) {
    const size_t at = (size_t)from * (size_t)m->n + (size_t)to;
    json_open(j, NULL, '{');
    json_number(j, "from", from);
    json_number(j, "to", to);
    json_text(j, "path", show_path(m->kinds[at].path));
    json_text(j, "link", show_link(m->kinds[at].link));
    json_bool(j, "native_atomics", m->kinds[at].atomics);
    json_text(j, "reason", m->reasons[at] < 0 ? NULL : m->texts[m->reasons[at]]);
    json_close(j, '}');
}

void pairs_write(const pair_matrix *m, json *j) {
    json_open(j, "pairs", '[');
    for (int from = 0; from < m->n; from++)
        for (int to = 0; to < m->n; to++)
            pairs_write_one(m, from, to, j);
    json_close(j, ']');
}
