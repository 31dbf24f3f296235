/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * See plot.h. The script goes to gnuplot as its standard input, with the data in it, so that no file is left but the
 * picture.
 */
#define _GNU_SOURCE
#include "plot.h"

#include "child.h"
#include "report.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLOT_LIMIT_S = 60, PLOT_COLUMNS = 3, PLOT_NAME = 48 };

typedef struct {
    char name[PLOT_NAME], memory[16];
    int ranks;
    measure_result result;
} plot_row;

struct plot {
    char *file;
    plot_row *rows;
    int count;
};

static bool ends_in(const char *text, const char *end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

bool plot_name_is_good(const char *file) {
    return ends_in(file, ".svg") || ends_in(file, ".png");
}

plot *plot_open(const char *file) {
    char path[4096];
    if (!child_find("gnuplot", path, sizeof path)) {
        fputs("peerwin-bench: --plot needs gnuplot, and there is none; install it (Debian and Ubuntu: "
              "apt-get install gnuplot-nox; Fedora: dnf install gnuplot-minimal)\n",
              stderr);
        return NULL;
    }
    FILE *probe = fopen(file, "we");
    if (probe == NULL) {
        fprintf(stderr, "peerwin-bench: cannot write %s\n", file);
        return NULL;
    }
    fclose(probe);
    plot *p = calloc(1, sizeof *p);
    if (p != NULL)
        p->file = strdup(file);
    if (p == NULL || p->file == NULL) {
        free(p);
        fputs("peerwin-bench: out of memory\n", stderr);
        return NULL;
    }
    return p;
}

void plot_add(plot *p, const measure_result *result, int ranks) {
    plot_row *rows = realloc(p->rows, ((size_t)p->count + 1) * sizeof *rows);
    if (rows == NULL)
        return; /* a point less */
    p->rows = rows;
    plot_row *row = &rows[p->count++];
    text_format(row->name, sizeof row->name, "%s", result->name);
    text_format(row->memory, sizeof row->memory, "%s", result->memory);
    row->ranks = ranks;
    row->result = *result;
}

/* ---------------------------------------------------------------------------------------------- the script */

static bool same_chart(const plot_row *a, const plot_row *b) {
    return a->ranks == b->ranks && strcmp(a->name, b->name) == 0 && strcmp(a->memory, b->memory) == 0;
}

static int first_of_chart(const plot *p, int i) {
    int first = 0;
    while (!same_chart(&p->rows[first], &p->rows[i]))
        first++;
    return first;
}

static int sizes_of_chart(const plot *p, int i) {
    int sizes = 0;
    for (int k = 0; k < p->count; k++)
        sizes += same_chart(&p->rows[k], &p->rows[i]);
    return sizes;
}

/* Text between quotes of a script; names are ours, but a file's is not. */
static void write_text(FILE *script, const char *text) {
    fputc('\'', script);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputc('\'', script);
        if ((unsigned char)*text >= ' ')
            fputc(*text, script);
    }
    fputc('\'', script);
}

/* One way of one case: lines of size, median, least, most. */
static void write_way(FILE *script, const plot *p, int first, int way) {
    fprintf(script, "$data_%d_%d << EOD\n", first, way);
    for (int i = first; i < p->count; i++) {
        const measure_result *r = &p->rows[i].result;
        if (same_chart(&p->rows[i], &p->rows[first]) && way < r->num_ways && isfinite(r->value[way].median))
            fprintf(script, "%zu %.9g %.9g %.9g\n", r->bytes, r->value[way].median, r->value[way].min,
                    r->value[way].max);
    }
    fputs("EOD\n", script);
}

static bool has_way(const plot *p, int first, int way) {
    for (int i = first; i < p->count; i++) {
        const measure_result *r = &p->rows[i].result;
        if (same_chart(&p->rows[i], &p->rows[first]) && way < r->num_ways && isfinite(r->value[way].median))
            return true;
    }
    return false;
}

static void write_lines(FILE *script, const plot *p, int first) {
    const plot_row *row = &p->rows[first];
    char title[128];
    for (int way = 0; way < row->result.num_ways; way++)
        write_way(script, p, first, way);
    text_format(title, sizeof title, "%s, %s, %d ranks", row->name, row->memory, row->ranks);
    fputs("set title ", script);
    write_text(script, title);
    fprintf(script,
            "\nset logscale xy 2\nset format x '%%.0b %%BB'\nset logscale y 10\nset xlabel 'size'\nset ylabel '%s'\n"
            "set key top left reverse Left\nset auto\nset xtics auto rotate by -30\nset style data yerrorlines\nplot ",
            row->result.kind == MEASURE_BANDWIDTH ? "MB/s" : "us");
    const char *separator = "";
    for (int way = 0; way < row->result.num_ways; way++) {
        if (!has_way(p, first, way))
            continue;
        fprintf(script, "%s$data_%d_%d using 1:2:3:4 linecolor %d pointtype 7 pointsize 0.5 title ", separator, first,
                way, way + 1);
        write_text(script, row->result.ways[way]);
        separator = ", ";
    }
    fputs("\n", script);
}

/* peerwin's part of what it is compared with, where that is defined: rows in which lines say nothing. */
static bool in_bars(const plot *p, int i) {
    const measure_result *r = &p->rows[i].result;
    return sizes_of_chart(p, i) < 2 && r->num_ways > 1 && isfinite(r->ratio[MEASURE_PEERWIN].median);
}

static int count_bars(const plot *p) {
    int bars = 0;
    for (int i = 0; i < p->count; i++)
        bars += in_bars(p, i);
    return bars;
}

static void write_bars(FILE *script, const plot *p) {
    char title[128];
    fputs("$bars << EOD\n", script);
    for (int i = 0; i < p->count; i++) {
        const plot_row *row = &p->rows[i];
        if (in_bars(p, i))
            fprintf(script, "\"%s (%d)\" %.6g\n", row->name, row->ranks, row->result.ratio[MEASURE_PEERWIN].median);
    }
    text_format(title, sizeof title, "peerwin / %s, (ranks)", p->rows[0].result.ways[MEASURE_BASE]);
    fputs("EOD\nset title ", script);
    write_text(script, title);
    fputs("\nunset logscale\nset format x '%s'\nset xlabel ''\nset ylabel 'median of ratios'\nset yrange [0:*]\nset "
          "key off\n"
          "set xtics rotate by -40\nset style data histograms\nset style fill solid 0.6\n"
          "plot $bars using 2:xtic(1) linecolor 1, 1 with lines dashtype 2 linecolor 'black'\n",
          script);
}

static void write_script(FILE *script, const plot *p, const char *title) {
    int charts = 0;
    for (int i = 0; i < p->count; i++)
        charts += first_of_chart(p, i) == i && sizes_of_chart(p, i) > 1;
    const int bars = count_bars(p) > 0;
    const int all = charts + bars, columns = all < PLOT_COLUMNS ? all : PLOT_COLUMNS;
    const int lines = columns == 0 ? 0 : (all + columns - 1) / columns;
    if (ends_in(p->file, ".svg"))
        fprintf(script, "set terminal svg size %d,%d\n", 520 * columns, 380 * lines + 40);
    else
        fprintf(script,
                "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) set terminal pngcairo size %d,%d\n"
                "if (!strstrt(GPVAL_TERMINALS, 'pngcairo')) set terminal png size %d,%d\n",
                520 * columns, 380 * lines + 40, 520 * columns, 380 * lines + 40);
    fputs("set output ", script);
    write_text(script, p->file);
    fprintf(script, "\nset encoding utf8\nset grid\nset multiplot layout %d,%d title ", lines, columns);
    write_text(script, title);
    fputs("\n", script);
    for (int i = 0; i < p->count; i++)
        if (first_of_chart(p, i) == i && sizes_of_chart(p, i) > 1)
            write_lines(script, p, i);
    if (bars != 0)
        write_bars(script, p);
    fputs("unset multiplot\nset output\n", script);
}

/* ------------------------------------------------------------------------------------------------- drawing */

static void show_log(FILE *log) {
    char line[256];
    rewind(log);
    for (int i = 0; i < 4 && fgets(line, sizeof line, log) != NULL; i++)
        fprintf(stderr, "gnuplot: %s%s", line, strchr(line, '\n') != NULL ? "" : "\n");
}

/* gnuplot's complaints go to a file of their own, since it says nothing else. */
static bool draw(const plot *p, const char *title) {
    char log_name[64];
    child_command command = {.count = 0};
    bool good = false;
    FILE *script = tmpfile(), *log = tmpfile();
    if (script != NULL && log != NULL) {
        write_script(script, p, title);
        fflush(script);
        rewind(script);
        text_format(log_name, sizeof log_name, "/proc/self/fd/%d", fileno(log));
        child_word(&command, "gnuplot");
        const child_job job = {.command = &command, .log = log_name, .in = fileno(script), .limit_s = PLOT_LIMIT_S};
        good = child_run(&job) == 0;
        if (!good)
            show_log(log);
    }
    if (log != NULL)
        fclose(log);
    if (script != NULL)
        fclose(script);
    return good;
}

bool plot_close(plot *p, const char *title) {
    bool good = true;
    if (p->count == 0)
        fprintf(stderr, "peerwin-bench: there is nothing to draw in %s\n", p->file);
    else
        good = draw(p, title[0] != '\0' ? title : "peerwin-bench");
    if (!good)
        fprintf(stderr, "peerwin-bench: gnuplot did not draw %s\n", p->file);
    free(p->rows);
    free(p->file);
    free(p);
    return good;
}
