/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The values of options: see options_values.h.
 */
#include "options_values.h"

#include "bench.h"
#include "halo_shape.h"
#include "peer_plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 1024 };

options options_bad(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("peerwin-bench: ", stderr);
    vfprintf(stderr, format, args);
    fputs(" (see peerwin-bench --help)\n", stderr);
    va_end(args);
    return (options){.action = OPTIONS_BAD};
}

options options_done(void) {
    return (options){.action = OPTIONS_DONE};
}

options options_list_cases(bool cuda) {
    const bench_case_list cases = bench_cases(cuda);
    for (int i = 0; i < cases.count; i++)
        printf("%-10s %s\n", cases.list[i].name, cases.list[i].summary);
    return options_done();
}

options options_list_rows(void) {
    for (int i = 0; i < PLAN_ROWS; i++)
        if (i == 0 || strcmp(plan_rows[i].name, plan_rows[i - 1].name) != 0)
            printf("%s\n", plan_rows[i].name);
    return options_done();
}

/* The index of the case with this name, -1 if there is none. */
static int find_case(bench_case_list cases, const char *name, size_t length) {
    for (int i = 0; i < cases.count; i++)
        if (strlen(cases.list[i].name) == length && strncmp(cases.list[i].name, name, length) == 0)
            return i;
    return -1;
}

bool options_parse_cases(const char *text, int ranks, options *opt) {
    const bench_case_list cases = bench_cases(opt->cuda);
    opt->cases = 0;
    for (const char *name = text;;) {
        const size_t length = strcspn(name, ",");
        const int i = find_case(cases, name, length);
        if (i < 0) {
            *opt = options_bad("there is no case '%.*s'; peerwin-bench --list names them", (int)length, name);
            return false;
        }
        if (ranks < cases.list[i].min_ranks) {
            *opt = options_bad("%s needs at least %d ranks, this run has %d", cases.list[i].name,
                               cases.list[i].min_ranks, ranks);
            return false;
        }
        opt->cases |= 1u << i;
        if (name[length] == '\0')
            return true;
        name += length + 1;
    }
}

/* A whole number from `least` to `most`, or a message about `option`. */
bool options_parse_number(const char *option, const char *text, long least, long most, long *number_out, options *opt) {
    char *end = NULL;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < least || number > most) {
        *opt = options_bad("%s takes a number from %ld to %ld, not '%s'", option, least, most, text);
        return false;
    }
    *number_out = number;
    return true;
}

/* With --peers, what is selected is what a row does: put-1 brings put-16. */
bool options_parse_works(const char *text, options *opt) {
    opt->works = 0;
    for (const char *name = text;; name++) {
        const size_t length = strcspn(name, ",");
        unsigned works = 0;
        for (int i = 0; i < PLAN_ROWS; i++)
            if (strlen(plan_rows[i].name) == length && strncmp(plan_rows[i].name, name, length) == 0)
                works |= 1u << plan_rows[i].work;
        if (works == 0) {
            *opt = options_bad("there is no row '%.*s' beside NVSHMEM; peerwin-bench --peers --list names them",
                               (int)length, name);
            return false;
        }
        opt->works |= works;
        name += length;
        if (*name == '\0')
            return true;
    }
}

bool options_parse_ranks(const char *text, options *opt) {
    int count = 0;
    for (const char *at = text;; at++) {
        char *end = NULL;
        const long ranks = strtol(at, &end, 10);
        if (end == at || (*end != '\0' && *end != ',') || ranks < 2 || ranks > MAX_RANKS ||
            count == OPTIONS_MAX_RANKS - 1) {
            *opt = options_bad("--ranks takes up to %d numbers from 2 to %d, with commas, not '%s'",
                               OPTIONS_MAX_RANKS - 1, MAX_RANKS, text);
            return false;
        }
        opt->ranks[count++] = (int)ranks;
        opt->ranks[count] = 0;
        at = end;
        if (*at == '\0')
            return true;
    }
}

bool options_parse_halo(const char *text, options *opt) {
    enum { MOST_CELLS = 1 << 20, MOST_DEPTH = 16, MOST_GIB = 4 };
    options_halo h = {.depth = 1, .fields = 1, .elem = 8};
    char end;
    const int found = sscanf(text, "%d,%d,%d,%d,%d%c", &h.dims, &h.cells, &h.depth, &h.fields, &h.elem, &end);
    double bytes = (double)h.elem * h.fields;
    for (int d = 0; d < h.dims && d < SHAPE_DIMS; d++)
        bytes *= h.cells + 2.0 * h.depth;
    const bool numbers =
        found >= 2 && found <= 5 && text[strspn(text, "0123456789,")] == '\0' && text[strlen(text) - 1] != ',';
    if (!numbers || h.dims < 1 || h.dims > SHAPE_DIMS || h.depth < 1 || h.depth > MOST_DEPTH || h.cells < h.depth ||
        h.cells > MOST_CELLS || h.fields < 1 || h.fields > SHAPE_MOST_FIELDS || h.elem < 1 ||
        h.elem > SHAPE_MOST_ELEM || bytes > MOST_GIB * 1073741824.0) {
        *opt = options_bad("--block takes DIMS,CELLS[,DEPTH[,FIELDS[,BYTES]]]: 1 to %d dimensions, cells of at least "
                           "the depth, a depth of at most %d, at most %d fields of elements of at most %d bytes, and "
                           "%d GiB in all, not '%s'",
                           SHAPE_DIMS, MOST_DEPTH, SHAPE_MOST_FIELDS, SHAPE_MOST_ELEM, MOST_GIB, text);
        return false;
    }
    opt->halo = h;
    return true;
}

bool options_parse_kinds(const char *text, options *opt) {
    static const struct {
        const char *name;
        unsigned bit;
    } kinds[] = {{"legacy", PEERWIN_HANDLE_LEGACY},
                 {"fd", PEERWIN_HANDLE_FD},
                 {"fabric", PEERWIN_HANDLE_FABRIC},
                 {"pool", PEERWIN_HANDLE_POOL},
                 {"host", PEERWIN_HANDLE_HOST}};
    for (const char *name = text;;) {
        const size_t length = strcspn(name, ",");
        size_t i = 0;
        while (i < sizeof kinds / sizeof *kinds &&
               (strlen(kinds[i].name) != length || strncmp(kinds[i].name, name, length) != 0))
            i++;
        if (i == sizeof kinds / sizeof *kinds) {
            *opt = options_bad("there is no kind '%.*s': legacy, fd, fabric, pool, host", (int)length, name);
            return false;
        }
        opt->kinds |= kinds[i].bit;
        if (name[length] == '\0')
            return true;
        name += length + 1;
    }
}

bool options_parse_place(const char *text, options *opt) {
    static const char *const names[] = {"none", "core", "spread"};
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            opt->place = (options_place)i;
            opt->placed = true;
            return true;
        }
    *opt = options_bad("--place takes none, core or spread, not '%s'", text);
    return false;
}

bool options_parse_space(const char *text, options *opt) {
    opt->cuda = strcmp(text, "cuda") == 0;
    if (!opt->cuda && strcmp(text, "host") != 0)
        *opt = options_bad("--space takes host or cuda, not '%s'", text);
    else if (opt->cuda && bench_cases(true).count == 0)
        *opt = options_bad("--space cuda: this build is without CUDA");
    return opt->action == OPTIONS_RUN;
}
