/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See peer_rows.h. A ratio is taken within a round, whose two runs came one right after the other; rounds in which one
 * of the two has no figure count for the other's median only.
 */
#include "peer_rows.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 512 };

/* ------------------------------------------------------------------------------------------------- reading */

static void keep_text(char *to, size_t size, const char *text) {
    if (to[0] == '\0')
        text_format(to, size, "%s", text);
}

/* "NAME BYTES: REASON"; the sizes of a row share an entry. */
static void add_missing(peer_table *table, const char *prefix, const char *text, int ranks, int side) {
    const char *reason = strstr(text, ": ");
    char entry[PEER_TEXT];
    if (reason == NULL || table->num_missing[side] == PEER_MOST_MISSING)
        return;
    const int name = (int)strcspn(text, " :");
    text_format(entry, sizeof entry, "%s%.*s, %d ranks%s", prefix, name < PEER_NAME ? name : 0, text, ranks, reason);
    for (int i = 0; i < table->num_missing[side]; i++)
        if (strcmp(table->missing[side][i], entry) == 0)
            return;
    memcpy(table->missing[side][table->num_missing[side]++], entry, sizeof entry);
}

static void add_place(peer_table *table, const char *text, int ranks, int side) {
    char entry[PEER_TEXT];
    text_format(entry, sizeof entry, "%d ranks: %s", ranks, text);
    for (int i = 0; i < table->num_places[side]; i++)
        if (strcmp(table->places[side][i], entry) == 0)
            return;
    if (table->num_places[side] < PEER_MOST_PLACES)
        memcpy(table->places[side][table->num_places[side]++], entry, sizeof entry);
}

static void add_sample(peer_table *table, const peer_sample *sample) {
    if (table->count == table->room) {
        const int room = table->room == 0 ? 256 : 2 * table->room;
        peer_sample *more = realloc(table->samples, (size_t)room * sizeof *more);
        if (more == NULL)
            return; /* a figure less */
        table->samples = more;
        table->room = room;
    }
    table->samples[table->count++] = *sample;
}

/* "NAME BYTES UNIT VALUE" */
static bool parse_row(const char *text, const char *prefix, peer_sample *sample) {
    char name[PEER_NAME / 2], unit[8];
    char end;
    if (sscanf(text, "%23s %zu %7s %lf %c", name, &sample->bytes, unit, &sample->value, &end) != 4)
        return false;
    text_format(sample->name, sizeof sample->name, "%.*s%s", PEER_NAME / 2, prefix, name);
    sample->bandwidth = strcmp(unit, "MB/s") == 0;
    return (sample->bandwidth || strcmp(unit, "us") == 0) && isfinite(sample->value) && sample->value > 0.0;
}

bool peer_table_read(peer_table *table, FILE *file, const char *prefix, int ranks, int side, int round) {
    char line[LINE];
    bool done = false;
    table->at[0] = '\0';
    while (fgets(line, sizeof line, file) != NULL) {
        peer_sample sample = {.ranks = ranks, .side = side, .round = round};
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "row ", 4) == 0 || strncmp(line, "missing ", 8) == 0)
            table->at[0] = '\0';
        if (strncmp(line, "at ", 3) == 0)
            text_format(table->at, sizeof table->at, "%.*s", (int)strcspn(line + 3, " "), line + 3);
        else if (strncmp(line, "row ", 4) == 0 && parse_row(line + 4, prefix, &sample))
            add_sample(table, &sample);
        else if (strncmp(line, "missing ", 8) == 0)
            add_missing(table, prefix, line + 8, ranks, side);
        else if (strncmp(line, "cpus ", 5) == 0)
            add_place(table, line + 5, ranks, side);
        else if (strncmp(line, "version ", 8) == 0)
            keep_text(table->version[side], sizeof table->version[side], line + 8);
        else if (strncmp(line, "device ", 7) == 0)
            keep_text(table->device, sizeof table->device, line + 7);
        else if (strcmp(line, "done") == 0)
            done = true;
    }
    return done;
}

void peer_table_free(peer_table *table) {
    free(table->samples);
    *table = (peer_table){0};
}

/* ------------------------------------------------------------------------------------------------- merging */

static bool same_row(const peer_sample *a, const peer_sample *b) {
    return a->ranks == b->ranks && a->bytes == b->bytes && strcmp(a->name, b->name) == 0;
}

static bool is_first(const peer_table *table, int i) {
    for (int k = 0; k < i; k++)
        if (same_row(&table->samples[k], &table->samples[i]))
            return false;
    return true;
}

static stats stats_or_none(double *values, int count) {
    if (count > 0)
        return stats_of(values, count);
    return (stats){NAN, NAN, NAN, NAN, NAN};
}

typedef struct {
    double by_round[PEER_SIDES][PEER_MAX_ROUNDS]; /* 0 = none */
} row_figures;

static row_figures gather(const peer_table *table, const peer_sample *first) {
    row_figures f = {{{0}}};
    for (int i = 0; i < table->count; i++) {
        const peer_sample *s = &table->samples[i];
        if (same_row(s, first) && s->round >= 0 && s->round < PEER_MAX_ROUNDS)
            f.by_round[s->side][s->round] = s->value;
    }
    return f;
}

static stats values_of(const row_figures *f, int side, int *count_out) {
    double values[PEER_MAX_ROUNDS];
    *count_out = 0;
    for (int round = 0; round < PEER_MAX_ROUNDS; round++)
        if (f->by_round[side][round] > 0.0)
            values[(*count_out)++] = f->by_round[side][round];
    return stats_or_none(values, *count_out);
}

static stats ratios_of(const row_figures *f, int side, int base) {
    double ratios[PEER_MAX_ROUNDS];
    int both = 0;
    for (int round = 0; round < PEER_MAX_ROUNDS; round++)
        if (f->by_round[side][round] > 0.0 && f->by_round[base][round] > 0.0)
            ratios[both++] = f->by_round[side][round] / f->by_round[base][round];
    return stats_or_none(ratios, both);
}

/* The row of which `first` is the first sample. */
static measure_result merge_row(const peer_table *table, const peer_sample *first) {
    const row_figures figures = gather(table, first);
    measure_result result = {.name = first->name,
                             .memory = "device",
                             .bytes = first->bytes,
                             .ranks = first->ranks,
                             .kind = first->bandwidth ? MEASURE_BANDWIDTH : MEASURE_LATENCY,
                             .num_ways = PEER_SIDES,
                             .ways = {"peerwin", "NVSHMEM", "NCCL"},
                             .batch = {1, 1, 1}};
    for (int side = 0; side < PEER_SIDES; side++) {
        int count = 0;
        result.value[side] = values_of(&figures, side, &count);
        result.repeats = count > result.repeats ? count : result.repeats;
        result.ratio[side] = ratios_of(&figures, side, PEER_THEIRS);
    }
    result.ratio[PEER_THEIRS] = (stats){1.0, 1.0, 1.0, 1.0, 1.0};
    result.to_third = ratios_of(&figures, PEER_OURS, PEER_NCCLS);
    return result;
}

peer_row *peer_table_merge(const peer_table *table, int *count_out) {
    peer_row *rows = calloc((size_t)table->count + 1, sizeof *rows);
    int count = 0, ranks = 0;
    if (rows == NULL)
        return NULL;
    for (int next = 0; next >= 0; ranks = next) { /* from each number of ranks to the next higher one */
        next = -1;
        for (int i = 0; i < table->count; i++) {
            const peer_sample *s = &table->samples[i];
            if (s->ranks == ranks && is_first(table, i))
                rows[count++].result = merge_row(table, s);
            if (s->ranks > ranks && (next < 0 || s->ranks < next))
                next = s->ranks;
        }
    }
    *count_out = count;
    if (count == 0) {
        free(rows);
        return NULL;
    }
    return rows;
}

const measure_result *peer_find(const peer_row *rows, int count, const char *name, size_t bytes, int ranks) {
    for (int i = 0; i < count; i++) {
        const measure_result *r = &rows[i].result;
        if (r->ranks == ranks && r->bytes == bytes && strcmp(r->name, name) == 0)
            return r;
    }
    return NULL;
}
