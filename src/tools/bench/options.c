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

enum { MIN_REPEATS = 9, MAX_REPEATS = 999, DEFAULT_REPEATS = 11, MAX_LARGEST = 4096, DEFAULT_LARGEST = 256 };

static const char help_text[] =
    "Usage: mpirun -n RANKS peerwin-bench [options]\n"
    "Measures peerwin against MPI and plain memory copies, side by side in one run.\n"
    "\n"
    "  --only CASE[,CASE...]  measure these cases only (--list names them)\n"
    "  --quick                fewer sizes and shorter batches: seconds instead of a minute\n"
    "  --repeats N            interleaved repetitions of each row, 9 to 999 (default 11, with --quick 9)\n"
    "  --space host|cuda      where the windows live (default host)\n"
    "  --kinds KIND[,KIND...] with --space cuda: legacy, fd, fabric, pool (attached), host (default all)\n"
    "  --largest MIB          with --space cuda: the largest size, 1 to 4096 (default 256, with --quick 1)\n"
    "  --csv FILE             write the figures as CSV too; with - to stdout, instead of the table\n"
    "  --json FILE            the same as JSON\n"
    "  --list                 list the cases and exit\n"
    "  --help                 show this text and exit\n"
    "\n"
    "Each row is measured in turns (peerwin, MPI, then MPI, peerwin, ...). Figures are medians over the repetitions\n"
    "with (min..max); the ratio is the median of peerwin / MPI within each repetition. In CUDA space MPI's place is\n"
    "taken by the driver's own copy, cuMemcpyAsync into the mapped memory.\n";

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

static options list_cases(bool cuda) {
    const bench_case_list cases = bench_cases(cuda);
    for (int i = 0; i < cases.count; i++)
        printf("%-10s %s\n", cases.list[i].name, cases.list[i].summary);
    return done();
}

/* The index of the case with this name, -1 if there is none. */
static int find_case(bench_case_list cases, const char *name, size_t length) {
    for (int i = 0; i < cases.count; i++)
        if (strlen(cases.list[i].name) == length && strncmp(cases.list[i].name, name, length) == 0)
            return i;
    return -1;
}

static bool parse_cases(const char *text, int ranks, options *opt) {
    const bench_case_list cases = bench_cases(opt->cuda);
    opt->cases = 0;
    for (const char *name = text;;) {
        const size_t length = strcspn(name, ",");
        const int i = find_case(cases, name, length);
        if (i < 0) {
            *opt = bad("there is no case '%.*s'; peerwin-bench --list names them", (int)length, name);
            return false;
        }
        if (ranks < cases.list[i].min_ranks) {
            *opt =
                bad("%s needs at least %d ranks, this run has %d", cases.list[i].name, cases.list[i].min_ranks, ranks);
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

static bool parse_kinds(const char *text, options *opt) {
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
            *opt = bad("there is no kind '%.*s': legacy, fd, fabric, pool, host", (int)length, name);
            return false;
        }
        opt->kinds |= kinds[i].bit;
        if (name[length] == '\0')
            return true;
        name += length + 1;
    }
}

static bool parse_largest(const char *text, options *opt) {
    char *end = NULL;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < 1 || number > MAX_LARGEST) {
        *opt = bad("--largest takes a number of MiB from 1 to %d, not '%s'", MAX_LARGEST, text);
        return false;
    }
    opt->largest = (size_t)number << 20;
    return true;
}

static bool parse_space(const char *text, options *opt) {
    opt->cuda = strcmp(text, "cuda") == 0;
    if (!opt->cuda && strcmp(text, "host") != 0)
        *opt = bad("--space takes host or cuda, not '%s'", text);
    else if (opt->cuda && bench_cases(true).count == 0)
        *opt = bad("--space cuda: this build is without CUDA");
    return opt->action == OPTIONS_RUN;
}

/* Fills in what depends on several options, and refuses what does not fit together. */
static options complete(options opt, const char *only, int ranks) {
    if (!opt.cuda && (opt.kinds != 0 || opt.largest != 0))
        return bad("--kinds and --largest go with --space cuda");
    if (only != NULL && !parse_cases(only, ranks, &opt))
        return opt;
    if (opt.csv != NULL && opt.json != NULL && strcmp(opt.csv, "-") == 0 && strcmp(opt.json, "-") == 0)
        return bad("only one of --csv and --json can have stdout");
    if (opt.repeats == 0)
        opt.repeats = opt.quick ? MIN_REPEATS : DEFAULT_REPEATS;
    if (opt.cases == 0)
        for (int i = 0; i < bench_cases(opt.cuda).count; i++)
            if (ranks >= bench_cases(opt.cuda).list[i].min_ranks)
                opt.cases |= 1u << i;
    if (opt.kinds == 0)
        opt.kinds = ~0u;
    if (opt.largest == 0)
        opt.largest = (size_t)(opt.quick ? 1 : DEFAULT_LARGEST) << 20;
    opt.batch_seconds = opt.quick ? 2e-3 : opt.cuda ? 8e-3 : 20e-3; /* one kind after the other takes long */
    return opt;
}

enum { OPT_ONLY = 1, OPT_QUICK, OPT_REPEATS, OPT_SPACE, OPT_KINDS, OPT_LARGEST, OPT_CSV, OPT_JSON, OPT_LIST, OPT_HELP };

static const struct option known[] = {
    {"only", required_argument, NULL, OPT_ONLY},
    {"quick", no_argument, NULL, OPT_QUICK},
    {"repeats", required_argument, NULL, OPT_REPEATS},
    {"space", required_argument, NULL, OPT_SPACE},
    {"kinds", required_argument, NULL, OPT_KINDS},
    {"largest", required_argument, NULL, OPT_LARGEST},
    {"csv", required_argument, NULL, OPT_CSV},
    {"json", required_argument, NULL, OPT_JSON},
    {"list", no_argument, NULL, OPT_LIST},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

options options_parse(int argc, char **argv, int ranks) {
    options opt = {.action = OPTIONS_RUN};
    const char *only = NULL;
    bool list = false;
    opterr = 0;
    for (;;) {
        const int at = optind;
        switch (getopt_long(argc, argv, ":", known, NULL)) {
        case OPT_ONLY:
            only = optarg;
            break;
        case OPT_QUICK:
            opt.quick = true;
            break;
        case OPT_REPEATS:
            if (!parse_repeats(optarg, &opt))
                return opt;
            break;
        case OPT_SPACE:
            if (!parse_space(optarg, &opt))
                return opt;
            break;
        case OPT_KINDS:
            if (!parse_kinds(optarg, &opt))
                return opt;
            break;
        case OPT_LARGEST:
            if (!parse_largest(optarg, &opt))
                return opt;
            break;
        case OPT_CSV:
            opt.csv = optarg;
            break;
        case OPT_JSON:
            opt.json = optarg;
            break;
        case OPT_LIST:
            list = true;
            break;
        case OPT_HELP:
            fputs(help_text, stdout);
            return done();
        case ':':
            return bad("%s needs a value", argv[at]);
        case -1:
            if (optind < argc)
                return bad("unexpected argument '%s'", argv[optind]);
            return list ? list_cases(opt.cuda) : complete(opt, only, ranks);
        default:
            return bad("unknown option '%s'", argv[at]);
        }
    }
}
