/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The matrix of pairs as text; see pairs.h.
 */
#include "show.h"

#include "info.h"
#include "pairs.h"
#include "ranges.h"

#include <stdlib.h>
#include <string.h>

enum { WHOLE = 32 }; /* more ranks than this: ranges instead of a matrix */

/* ---- words */

static const char *word(const char *const *words, int count, int index) {
    return index >= 0 && index < count ? words[index] : "unknown";
}

const char *show_path(int path) {
    static const char *const words[] = {"none", "self", "direct", "mpi"};
    return word(words, sizeof words / sizeof *words, path);
}

const char *show_link(int link) {
    static const char *const words[] = {"none", "host", "same device", "nvlink", "pcie", "fabric"};
    return word(words, sizeof words / sizeof *words, link);
}

/* What a cell shows: the link if the path is direct, else the path. */
static const char *short_word(pair_kind kind) {
    static const char *const links[] = {"?", "host", "same", "nvl", "pcie", "fab"};
    if (kind.path == PEERWIN_PATH_DIRECT)
        return word(links, sizeof links / sizeof *links, kind.link);
    return kind.path == PEERWIN_PATH_NONE ? "-" : show_path(kind.path);
}

static bool same_kind(pair_kind a, pair_kind b) {
    return a.path == b.path && a.link == b.link;
}

static pair_kind kind_of(const pair_matrix *m, int from, int to) {
    return m->kinds[(size_t)from * (size_t)m->n + (size_t)to];
}

/* ---- whole */

static void print_whole(const pair_matrix *m, FILE *file) {
    fprintf(file, "  %8s", "from\\to");
    for (int to = 0; to < m->n; to++)
        fprintf(file, " %4d", to);
    fputc('\n', file);
    for (int from = 0; from < m->n; from++) {
        fprintf(file, "  %8d", from);
        for (int to = 0; to < m->n; to++)
            fprintf(file, " %4s", short_word(kind_of(m, from, to)));
        fputc('\n', file);
    }
}

/* ---- condensed: rows that say the same are one, whatever a rank says of itself */

static int rows_agree(const pair_matrix *m, int a, int b) {
    if (!same_kind(kind_of(m, a, b), kind_of(m, b, a)))
        return 0;
    for (int to = 0; to < m->n; to++)
        if (to != a && to != b && !same_kind(kind_of(m, a, to), kind_of(m, b, to)))
            return 0;
    return 1;
}

/* What the rows first..last have for `to`; for a rank of their own, what the others say of it. */
static pair_kind common_kind(const pair_matrix *m, int first, int last, int to) {
    return kind_of(m, to == first && last > first ? last : first, to);
}

static void print_rows(const pair_matrix *m, int first, int last, FILE *file) {
    unsigned char *shown = info_alloc((size_t)m->n, 1);
    unsigned char *set = info_alloc((size_t)m->n, 1);
    char text[RANGES_BYTES];
    if (last > first)
        fprintf(file, "  from %d-%d to", first, last);
    else
        fprintf(file, "  from %d to", first);
    const char *separator = "";
    for (int to = 0; to < m->n; to++) {
        if (shown[to])
            continue;
        const pair_kind kind = common_kind(m, first, last, to);
        for (int other = 0; other < m->n; other++) {
            set[other] = same_kind(common_kind(m, first, last, other), kind);
            shown[other] |= set[other];
        }
        ranges_format(text, set, m->n);
        fprintf(file, "%s %s: %s", separator, text, short_word(kind));
        separator = ";";
    }
    fputc('\n', file);
    free(set);
    free(shown);
}

static void print_condensed(const pair_matrix *m, FILE *file) {
    for (int first = 0; first < m->n; first++) {
        int last = first;
        while (last + 1 < m->n && rows_agree(m, first, last + 1) && rows_agree(m, last, last + 1))
            last++;
        print_rows(m, first, last, file);
        first = last;
    }
}

/* ---- reasons */

/* The ranks that `from` does not reach directly, for the reason `text`; returns their number. */
static int targets(const pair_matrix *m, int text, int from, unsigned char *set) {
    int count = 0;
    for (int to = 0; to < m->n; to++) {
        set[to] = m->reasons[(size_t)from * (size_t)m->n + (size_t)to] == text;
        count += set[to];
    }
    return count;
}

/* One line for every set of targets: the ranks that have it. */
static void print_reason(const pair_matrix *m, int text, FILE *file) {
    const size_t n = (size_t)m->n;
    unsigned char *done = info_alloc(3 * n, 1);
    unsigned char *mine = info_alloc(n, 1);
    unsigned char *theirs = done + n;
    unsigned char *from = done + 2 * n;
    char sources[RANGES_BYTES];
    char others[RANGES_BYTES];
    fprintf(file, "  %s:\n", m->texts[text]);
    for (int first = 0; first < m->n; first++) {
        if (done[first] || targets(m, text, first, mine) == 0)
            continue;
        memset(from, 0, n);
        for (int other = first; other < m->n; other++) {
            targets(m, text, other, theirs);
            from[other] = memcmp(mine, theirs, n) == 0;
            done[other] |= from[other];
        }
        ranges_format(sources, from, m->n);
        ranges_format(others, mine, m->n);
        fprintf(file, "    from %s to %s\n", sources, others);
    }
    free(mine);
    free(done);
}

void pairs_print_reasons(const pair_matrix *m, FILE *file) {
    for (int text = 0; text < m->num_texts; text++)
        print_reason(m, text, file);
}

void pairs_print(const pair_matrix *m, FILE *file) {
    fprintf(file,
            "\npairs (self; direct through host memory: host, one GPU: same, NVLink: nvl, PCIe: pcie, fabric: fab;\n"
            "  mpi: by messages; -: no path)\n");
    if (m->n <= WHOLE)
        print_whole(m, file);
    else
        print_condensed(m, file);
    if (m->num_texts > 0)
        fprintf(file, "\nnot direct, because\n");
    pairs_print_reasons(m, file);
}
