/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line, with getopt; it prints nothing itself, so that a mistake is reported once and in our words.
 */
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_REPEATS = 9, MAX_REPEATS = 999, DEFAULT_REPEATS = 11 };

static const char help_text[] =
    "Usage: mpirun -n RANKS peerwin-bench [options]\n"
    "Measures peerwin against MPI and plain memory copies, side by side in one run.\n"
    "\n"
    "  --only CASE[,CASE...]  measure these cases only (--list names them)\n"
    "  --quick                fewer sizes and shorter batches: seconds instead of a minute\n"
    "  --repeats N            interleaved repetitions of each row, 9 to 999 (default 11, with --quick 9)\n"
    "  --space host           where the windows live; this version measures host memory\n"
    "  --csv FILE             write the figures as CSV too; with - to stdout, instead of the table\n"
    "  --json FILE            the same as JSON\n"
    "  --list                 list the cases and exit\n"
    "  --help                 show this text and exit\n"
    "\n"
    "Each row is measured in turns (peerwin, MPI, then MPI, peerwin, ...). Figures are medians over the repetitions\n"
    "with (min..max); the ratio is the median of peerwin / MPI within each repetition.\n";

/* Says what is wrong with the command line. */
static options bad(const char *format, ...) __attribute__((format(printf, 1, 2)));
static options bad(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("peerwin-bench: ", stderr);
    vfprintf(stderr, format, args);
    fputs(" (see peerwin-bench --help)\n", stderr);
    va_end(args);
    return (options){.action = OPTIONS_BAD};
}

static options done(void) {
    return (options){.action = OPTIONS_DONE};
}

static options list_cases(void) {
    for (int i = 0; i < bench_num_cases; i++)
        printf("%-10s %s\n", bench_cases[i].name, bench_cases[i].summary);
    return done();
}

/* The index of the case with this name, -1 if there is none. */
static int find_case(const char *name, size_t length) {
    for (int i = 0; i < bench_num_cases; i++)
        if (strlen(bench_cases[i].name) == length && strncmp(bench_cases[i].name, name, length) == 0)
            return i;
    return -1;
}

static bool parse_cases(const char *text, int ranks, options *opt) {
    opt->cases = 0;
    for (const char *name = text;;) {
        const size_t length = strcspn(name, ",");
        const int i = find_case(name, length);
        if (i < 0) {
            *opt = bad("there is no case '%.*s'; peerwin-bench --list names them", (int)length, name);
            return false;
        }
        if (ranks < bench_cases[i].min_ranks) {
            *opt = bad("%s needs at least %d ranks, this run has %d", bench_cases[i].name, bench_cases[i].min_ranks,
                       ranks);
            return false;
        }
        opt->cases |= 1u << i;
        if (name[length] == '\0')
            return true;
        name += length + 1;
    }
}

static bool parse_repeats(const char *text, options *opt) {
    char *end = NULL;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < MIN_REPEATS || number > MAX_REPEATS) {
        *opt = bad("--repeats takes a number from %d to %d, not '%s'", MIN_REPEATS, MAX_REPEATS, text);
        return false;
    }
    opt->repeats = (int)number;
    return true;
}

/* Fills in what depends on several options, and refuses what does not fit together. */
static options complete(options opt, int ranks) {
    if (opt.csv != NULL && opt.json != NULL && strcmp(opt.csv, "-") == 0 && strcmp(opt.json, "-") == 0)
        return bad("only one of --csv and --json can have stdout");
    if (opt.repeats == 0)
        opt.repeats = opt.quick ? MIN_REPEATS : DEFAULT_REPEATS;
    if (opt.cases == 0)
        for (int i = 0; i < bench_num_cases; i++)
            if (ranks >= bench_cases[i].min_ranks)
                opt.cases |= 1u << i;
    opt.batch_seconds = opt.quick ? 2e-3 : 20e-3;
    return opt;
}

enum { OPT_ONLY = 1, OPT_QUICK, OPT_REPEATS, OPT_SPACE, OPT_CSV, OPT_JSON, OPT_LIST, OPT_HELP };

static const struct option known[] = {
    {"only", required_argument, NULL, OPT_ONLY},
    {"quick", no_argument, NULL, OPT_QUICK},
    {"repeats", required_argument, NULL, OPT_REPEATS},
    {"space", required_argument, NULL, OPT_SPACE},
    {"csv", required_argument, NULL, OPT_CSV},
    {"json", required_argument, NULL, OPT_JSON},
    {"list", no_argument, NULL, OPT_LIST},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

options options_parse(int argc, char **argv, int ranks) {
    options opt = {.action = OPTIONS_RUN};
    opterr = 0;
    for (;;) {
        const int at = optind;
        switch (getopt_long(argc, argv, ":", known, NULL)) {
        case OPT_ONLY:
            if (!parse_cases(optarg, ranks, &opt))
                return opt;
            break;
        case OPT_QUICK:
            opt.quick = true;
            break;
        case OPT_REPEATS:
            if (!parse_repeats(optarg, &opt))
                return opt;
            break;
        case OPT_SPACE:
            if (strcmp(optarg, "host") != 0)
                return bad("--space %s: this version measures host memory only (--space host)", optarg);
            break;
        case OPT_CSV:
            opt.csv = optarg;
            break;
        case OPT_JSON:
            opt.json = optarg;
            break;
        case OPT_LIST:
            return list_cases();
        case OPT_HELP:
            fputs(help_text, stdout);
            return done();
        case ':':
            return bad("%s needs a value", argv[at]);
        case -1:
            if (optind < argc)
                return bad("unexpected argument '%s'", argv[optind]);
            return complete(opt, ranks);
        default:
            return bad("unknown option '%s'", argv[at]);
        }
    }
}
