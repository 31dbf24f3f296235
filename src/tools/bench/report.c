/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * CSV has one line per row and implementation, with the machine on each, so that files can be joined. JSON says
 * the same as one object. The table goes to stdout unless CSV or JSON does.
 */
#include "report.h"

#include "machine.h"
#include "plot.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct report {
    machine host;
    int ranks;
    int cpus;
    int repeats;
    bool cuda;
    bool peers;
    char device[128]; /* "" in host space */
    bool table;
    FILE *csv;  /* NULL = none; may be stdout */
    FILE *json; /* the same */
    plot *plot; /* NULL = none */
    int rows;   /* so far */
    int limits; /* so far, after which there are no more rows */
    bool terminal;
    double started;
    double last_progress;
};

/* What peerwin is compared with, and what else there is in a row. */
static const char *base_of(const report *r) {
    return r->peers ? "NVSHMEM" : r->cuda ? "cuMemcpyAsync" : "MPI";
}

static const char *floor_of(const report *r) {
    return r->cuda ? "kernel" : "memcpy";
}

static int ranks_of(const report *r, const measure_result *result) {
    return result->ranks > 0 ? result->ranks : r->ranks;
}

static const char *unit_of(measure_kind kind) {
    return kind == MEASURE_BANDWIDTH ? "MB/s" : "us";
}

/* ---------------------------------------------------------------------------------------------- table */

/* Four significant digits for small figures, no decimals for large ones. */
static void format_value(char *to, size_t size, double value) {
    const int decimals = value < 1.0 ? 4 : value < 10.0 ? 3 : value < 100.0 ? 2 : value < 1000.0 ? 1 : 0;
    snprintf(to, size, "%.*f", decimals, value);
}

static void format_stats(char *to, size_t size, const stats *s) {
    char median[24], min[24], max[24];
    if (!isfinite(s->median)) {
        snprintf(to, size, "-");
        return;
    }
    format_value(median, sizeof median, s->median);
    format_value(min, sizeof min, s->min);
    format_value(max, sizeof max, s->max);
    snprintf(to, size, "%s (%s..%s)", median, min, max);
}

/* A way that is not what the head of its column says is named. */
static void format_way(char *to, size_t size, const report *r, const measure_result *result, int way) {
    const char *const heads[MEASURE_MAX_WAYS] = {"peerwin", base_of(r), floor_of(r)};
    format_stats(to, size, &result->value[way]);
    const size_t used = strlen(to);
    if (strcmp(result->ways[way], heads[way]) != 0)
        snprintf(to + used, size - used, " %s", result->ways[way]);
}

static void print_machine(const report *r) {
    printf("peerwin-bench %d.%d.%d, ", PEERWIN_VERSION_MAJOR, PEERWIN_VERSION_MINOR, PEERWIN_VERSION_PATCH);
    if (r->peers)
        printf("beside NVSHMEM, %s\n", r->host.date);
    else
        printf("%s space, %d rank%s on %d CPU%s, %s\n", r->cuda ? "CUDA" : "host", r->ranks, r->ranks == 1 ? "" : "s",
               r->cpus, r->cpus == 1 ? "" : "s", r->host.date);
    printf("%s; %s; %s\n", r->host.cpu, r->host.mpi, r->host.kernel);
}

static void print_head(const report *r) {
    print_machine(r);
    if (r->peers)
        printf("up to %d alternating runs: median (min..max) of their medians; ratio = peerwin / NVSHMEM in each "
               "round\n\n",
               r->repeats);
    else
        printf("%d interleaved repetitions: median (min..max); ratio = peerwin / %s in each repetition\n\n", r->repeats,
               base_of(r));
    if (r->peers)
        printf("%-5s %-21s %8s  %-4s  %-30s %-30s %-24s %-30s %s\n", "ranks", "case", "bytes", "unit", "peerwin",
               base_of(r), "ratio", "NCCL", "ratio");
    else
        printf("%-*s%-20s %8s  %-4s  %-26s %-26s %-26s %s\n", r->cuda ? 7 : 0, r->cuda ? "kind" : "", "case", "bytes",
               "unit", "peerwin", base_of(r), floor_of(r), "ratio");
    fflush(stdout);
}

/* The end of a row in which a third library has a place: the ratio to the second, its figure or why not, and the ratio
 * to it. */
static void print_third(char *cell, size_t size, const measure_result *result) {
    const stats *third = &result->value[MEASURE_MAX_WAYS - 1];
    printf(" %-24s", cell);
    if (!isfinite(third->median)) {
        printf(" %s\n", result->no_third);
        return;
    }
    format_stats(cell, size, third);
    printf(" %-30s", cell);
    format_stats(cell, size, &result->to_third);
    printf(" %s\n", cell);
}

static void print_row(const report *r, const measure_result *result) {
    const int ways = r->peers ? 2 : MEASURE_MAX_WAYS, width = r->peers ? 30 : 26;
    char bytes[32], cell[80];
    text_bytes(bytes, sizeof bytes, result->bytes);
    if (r->peers)
        printf("%-5d %-21s", ranks_of(r, result), result->name);
    else
        printf("%-*s%-20s", r->cuda ? 7 : 0, r->cuda ? result->memory : "", result->name);
    printf(" %8s  %-4s ", bytes, unit_of(result->kind));
    for (int way = 0; way < ways; way++) {
        if (way < result->num_ways)
            format_way(cell, sizeof cell, r, result, way);
        else
            snprintf(cell, sizeof cell, "-");
        printf(" %-*s", width, cell);
    }
    if (result->num_ways > 1)
        format_stats(cell, sizeof cell, &result->ratio[MEASURE_PEERWIN]);
    if (r->peers && (result->no_third != NULL || isfinite(result->value[MEASURE_MAX_WAYS - 1].median)))
        print_third(cell, sizeof cell, result);
    else
        printf(" %s\n", cell);
    fflush(stdout);
}

/* ---------------------------------------------------------------------------------------- CSV and JSON */

static void write_quoted(FILE *file, const char *text, const char *quote) {
    fputc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputs(quote, file);
        else if (*text == '\\' && quote[0] == '\\')
            fputs("\\\\", file);
        else if ((unsigned char)*text >= ' ')
            fputc(*text, file);
    }
    fputc('"', file);
}

static void write_csv_head(FILE *file) {
    fputs("case,bytes,ranks,implementation,unit,repeats,batch,median,min,q1,q3,max,ratio,ratio_min,ratio_q1,ratio_q3,"
          "ratio_max,kind,cpus,date,cpu,mpi,kernel,device\n",
          file);
}

static void write_csv_row(const report *r, const measure_result *result) {
    for (int way = 0; way < result->num_ways; way++) {
        const stats *v = &result->value[way];
        const stats *q = &result->ratio[way];
        if (!isfinite(v->median))
            continue;
        fprintf(r->csv, "%s,%zu,%d,%s,%s,%d,%ld", result->name, result->bytes, ranks_of(r, result), result->ways[way],
                unit_of(result->kind), result->repeats, result->batch[way]);
        fprintf(r->csv, ",%.9g,%.9g,%.9g,%.9g,%.9g", v->median, v->min, v->q1, v->q3, v->max);
        if (result->num_ways > 1 && isfinite(q->median))
            fprintf(r->csv, ",%.6g,%.6g,%.6g,%.6g,%.6g", q->median, q->min, q->q1, q->q3, q->max);
        else
            fputs(",,,,,", r->csv);
        fprintf(r->csv, ",%s,%d,%s,", result->memory, r->cpus, r->host.date);
        write_quoted(r->csv, r->host.cpu, "\"\"");
        fputc(',', r->csv);
        write_quoted(r->csv, r->host.mpi, "\"\"");
        fputc(',', r->csv);
        write_quoted(r->csv, r->host.kernel, "\"\"");
        fputc(',', r->csv);
        write_quoted(r->csv, r->device, "\"\"");
        fputc('\n', r->csv);
    }
    fflush(r->csv);
}

static void write_json_text(FILE *file, const char *name, const char *text) {
    fprintf(file, "  \"%s\": ", name);
    write_quoted(file, text, "\\\"");
    fputs(",\n", file);
}

static void write_json_head(const report *r) {
    fprintf(r->json, "{\n  \"tool\": \"peerwin-bench\",\n  \"version\": \"%d.%d.%d\",\n  \"space\": \"%s\",\n",
            PEERWIN_VERSION_MAJOR, PEERWIN_VERSION_MINOR, PEERWIN_VERSION_PATCH, r->cuda ? "cuda" : "host");
    write_json_text(r->json, "date", r->host.date);
    write_json_text(r->json, "cpu", r->host.cpu);
    write_json_text(r->json, "mpi", r->host.mpi);
    write_json_text(r->json, "kernel", r->host.kernel);
    fprintf(r->json, "  \"cpus\": %d,\n  \"ranks\": %d,\n  \"repeats\": %d,\n  \"rows\": [", r->cpus, r->ranks,
            r->repeats);
}

static void write_json_stats(FILE *file, const char *name, const stats *s) {
    fprintf(file, ", \"%s\": {\"median\": %.9g, \"min\": %.9g, \"q1\": %.9g, \"q3\": %.9g, \"max\": %.9g}", name,
            s->median, s->min, s->q1, s->q3, s->max);
}

static void write_json_row(const report *r, const measure_result *result) {
    int written = 0;
    fprintf(r->json, "%s\n    {\"case\": \"%s\", \"kind\": \"%s\", \"bytes\": %zu, \"ranks\": %d, \"unit\": \"%s\", ",
            r->rows == 0 ? "" : ",", result->name, result->memory, result->bytes, ranks_of(r, result),
            unit_of(result->kind));
    fputs("\"implementations\": [", r->json);
    for (int way = 0; way < result->num_ways; way++) {
        if (!isfinite(result->value[way].median))
            continue;
        fprintf(r->json, "%s\n      {\"name\": \"%s\", \"batch\": %ld", written++ == 0 ? "" : ",", result->ways[way],
                result->batch[way]);
        write_json_stats(r->json, "value", &result->value[way]);
        if (result->num_ways > 1 && isfinite(result->ratio[way].median))
            write_json_stats(r->json, "ratio", &result->ratio[way]);
        fputc('}', r->json);
    }
    fputs("]}", r->json);
}

/* ------------------------------------------------------------------------------------------- life cycle */

/* Opens a file of the given name, "-" for stdout, NULL for none. */
static bool open_output(const char *name, FILE **file_out) {
    *file_out = NULL;
    if (name == NULL)
        return true;
    *file_out = strcmp(name, "-") == 0 ? stdout : fopen(name, "we");
    if (*file_out == NULL)
        fprintf(stderr, "peerwin-bench: cannot write %s: %s\n", name, strerror(errno));
    return *file_out != NULL;
}

/* Closes a file and tells whether all of it was written. stdout stays open, to be closed by the system. */
static bool close_output(FILE *file) {
    if (file == NULL)
        return true;
    const bool bad = ferror(file) != 0;
    const int status = file == stdout ? fflush(file) : fclose(file);
    return !bad && status == 0;
}

report *report_open(const options *opt, int ranks, int cpus) {
    report *r = calloc(1, sizeof *r);
    if (r == NULL) {
        fputs("peerwin-bench: out of memory\n", stderr);
        return NULL;
    }
    if (!open_output(opt->csv, &r->csv))
        goto free_report;
    if (!open_output(opt->json, &r->json))
        goto close_csv;
    if (opt->plot != NULL && (r->plot = plot_open(opt->plot)) == NULL)
        goto close_json;
    r->host = machine_describe();
    r->ranks = ranks;
    r->cpus = cpus;
    r->repeats = opt->repeats;
    r->cuda = opt->cuda;
    r->peers = opt->peers;
    r->table = r->csv != stdout && r->json != stdout;
    r->terminal = isatty(STDERR_FILENO) == 1;
    r->started = bench_seconds();
    r->last_progress = r->started;
    if (r->table)
        print_head(r);
    if (r->csv != NULL)
        write_csv_head(r->csv);
    if (r->json != NULL)
        write_json_head(r);
    return r;

close_json:
    close_output(r->json);
close_csv:
    close_output(r->csv);
free_report:
    free(r);
    return NULL;
}

static void clear_progress(const report *r) {
    if (r->terminal)
        fputs("\r\033[K", stderr);
}

void report_progress(report *r, const char *name, size_t bytes) {
    const double quiet_seconds = 5.0;
    const double now = bench_seconds();
    if (!r->terminal && now - r->last_progress < quiet_seconds)
        return;
    char size[32] = "";
    if (bytes > 0)
        text_bytes(size, sizeof size, bytes);
    clear_progress(r);
    fprintf(stderr, "peerwin-bench: %.0f s, %d rows done, now %s%s%s%s", now - r->started, r->rows, name,
            bytes > 0 ? " " : "", size, r->terminal ? "" : "\n");
    fflush(stderr);
    r->last_progress = now;
}

void report_add(report *r, const measure_result *result) {
    clear_progress(r);
    if (r->table)
        print_row(r, result);
    if (r->csv != NULL)
        write_csv_row(r, result);
    if (r->json != NULL)
        write_json_row(r, result);
    if (r->plot != NULL)
        plot_add(r->plot, result, ranks_of(r, result));
    r->rows++;
}

void report_limit(report *r, const char *what, const char *limit, double measured, const char *outcome) {
    char value[24] = "-";
    clear_progress(r);
    if (isfinite(measured))
        format_value(value, sizeof value, measured);
    if (r->table && r->limits == 0)
        printf("\n%-9s %-36s %-26s %s\n", "limit", "of", "is", "measured");
    if (r->table)
        printf("%-9s %-36s %-26s %s\n", outcome, what, limit, value);
    if (r->json != NULL) {
        fprintf(r->json, "%s\n    {\"of\": \"%s\", \"limit\": \"%s\", \"measured\": ",
                r->limits == 0 ? "\n  ],\n  \"limits\": [" : ",", what, limit);
        if (isfinite(measured))
            fprintf(r->json, "%.6g", measured);
        else
            fputs("null", r->json);
        fprintf(r->json, ", \"outcome\": \"%s\"}", outcome);
    }
    r->limits++;
}

void report_note(report *r, const char *name, const char *text) {
    clear_progress(r);
    if (r->table)
        printf("%s: %s\n", name, text);
    else
        fprintf(stderr, "peerwin-bench: %s: %s\n", name, text);
}

void report_device(report *r, const char *device) {
    snprintf(r->device, sizeof r->device, "%s", device);
    if (r->table)
        printf("device: %s\n", device);
}

void report_missing(report *r, const char *kind, const char *reason) {
    clear_progress(r);
    if (r->table)
        printf("%-7snot to be had: %s\n", kind, reason);
    else
        fprintf(stderr, "peerwin-bench: %s is not to be had: %s\n", kind, reason);
    if (r->json != NULL) {
        fprintf(r->json, "%s\n    {\"kind\": \"%s\", \"missing\": ", r->rows++ == 0 ? "" : ",", kind);
        write_quoted(r->json, reason, "\\\"");
        fputc('}', r->json);
    }
}

bool report_close(report *r) {
    clear_progress(r);
    if (r->json != NULL) {
        fputs("\n  ],\n  \"device\": ", r->json);
        write_quoted(r->json, r->device, "\\\"");
        fputs("\n}\n", r->json);
    }
    const bool plotted = r->plot == NULL || plot_close(r->plot, r->device);
    const bool csv_written = close_output(r->csv);
    const bool json_written = close_output(r->json);
    const bool table_written = close_output(r->table ? stdout : NULL);
    free(r);
    if (csv_written && json_written && table_written)
        return plotted;
    fputs("peerwin-bench: the results could not be written completely\n", stderr);
    return false;
}
