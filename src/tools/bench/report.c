/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * CSV has one line per row and implementation, with the machine on each, so that files can be joined. JSON says
 * the same as one object. The table goes to stdout unless CSV or JSON does.
 */
#include "report.h"

#include "machine.h"

#include <errno.h>
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
    char device[128]; /* "" in host space */
    bool table;
    FILE *csv;  /* NULL = none; may be stdout */
    FILE *json; /* the same */
    int rows;   /* so far */
    bool terminal;
    double started;
    double last_progress;
};

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
    format_value(median, sizeof median, s->median);
    format_value(min, sizeof min, s->min);
    format_value(max, sizeof max, s->max);
    snprintf(to, size, "%s (%s..%s)", median, min, max);
}

static void format_bytes(char *to, size_t size, size_t bytes) {
    if (bytes >= 1u << 20 && bytes % (1u << 20) == 0)
        snprintf(to, size, "%zu MiB", bytes >> 20);
    else if (bytes >= 1u << 10 && bytes % (1u << 10) == 0)
        snprintf(to, size, "%zu KiB", bytes >> 10);
    else
        snprintf(to, size, "%zu B", bytes);
}

static void print_head(const report *r) {
    printf("peerwin-bench %d.%d.%d, %s space, %d rank%s on %d CPU%s, %s\n", PEERWIN_VERSION_MAJOR,
           PEERWIN_VERSION_MINOR, PEERWIN_VERSION_PATCH, r->cuda ? "CUDA" : "host", r->ranks, r->ranks == 1 ? "" : "s",
           r->cpus, r->cpus == 1 ? "" : "s", r->host.date);
    printf("%s; %s; %s\n", r->host.cpu, r->host.mpi, r->host.kernel);
    printf("%d interleaved repetitions: median (min..max); ratio = peerwin / %s in each repetition\n\n", r->repeats,
           r->cuda ? "cuMemcpyAsync" : "MPI");
    if (r->cuda)
        printf("%-7s", "kind");
    printf("%-10s %8s  %-4s  %-26s %-26s %-26s %s\n", "case", "bytes", "unit", "peerwin",
           r->cuda ? "cuMemcpyAsync" : "MPI", r->cuda ? "kernel" : "memcpy", "ratio");
    fflush(stdout);
}

static void print_row(const report *r, const measure_result *result) {
    char bytes[32], cell[80];
    format_bytes(bytes, sizeof bytes, result->bytes);
    if (r->cuda)
        printf("%-7s", result->memory);
    printf("%-10s %8s  %-4s ", result->name, bytes, unit_of(result->kind));
    for (int way = 0; way < MEASURE_MAX_WAYS; way++) {
        if (way < result->num_ways)
            format_stats(cell, sizeof cell, &result->value[way]);
        else
            snprintf(cell, sizeof cell, "-");
        printf(" %-26s", cell);
    }
    if (result->num_ways > 1)
        format_stats(cell, sizeof cell, &result->ratio[MEASURE_PEERWIN]);
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
        fprintf(r->csv, "%s,%zu,%d,%s,%s,%d,%ld", result->name, result->bytes, r->ranks, result->ways[way],
                unit_of(result->kind), result->repeats, result->batch[way]);
        fprintf(r->csv, ",%.9g,%.9g,%.9g,%.9g,%.9g", v->median, v->min, v->q1, v->q3, v->max);
        if (result->num_ways > 1)
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
    fprintf(r->json, "%s\n    {\"case\": \"%s\", \"kind\": \"%s\", \"bytes\": %zu, \"unit\": \"%s\", ",
            r->rows == 0 ? "" : ",", result->name, result->memory, result->bytes, unit_of(result->kind));
    fputs("\"implementations\": [", r->json);
    for (int way = 0; way < result->num_ways; way++) {
        fprintf(r->json, "%s\n      {\"name\": \"%s\", \"batch\": %ld", way == 0 ? "" : ",", result->ways[way],
                result->batch[way]);
        write_json_stats(r->json, "value", &result->value[way]);
        if (result->num_ways > 1)
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
    r->host = machine_describe();
    r->ranks = ranks;
    r->cpus = cpus;
    r->repeats = opt->repeats;
    r->cuda = opt->cuda;
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
    char size[32];
    format_bytes(size, sizeof size, bytes);
    clear_progress(r);
    fprintf(stderr, "peerwin-bench: %.0f s, %d rows done, now %s %s%s", now - r->started, r->rows, name, size,
            r->terminal ? "" : "\n");
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
    r->rows++;
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
    const bool csv_written = close_output(r->csv);
    const bool json_written = close_output(r->json);
    const bool table_written = close_output(r->table ? stdout : NULL);
    free(r);
    if (csv_written && json_written && table_written)
        return true;
    fputs("peerwin-bench: the results could not be written completely\n", stderr);
    return false;
}
