/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line, with getopt; it prints nothing itself, so that a mistake is reported once and in our words.
 */
#include "bench.h"

#include "options_values.h"
#include "plot.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { MIN_REPEATS = 9, MAX_REPEATS = 999, DEFAULT_REPEATS = 11, MAX_LARGEST = 4096, DEFAULT_LARGEST = 256 };
enum { MAX_ROUNDS = 99, DEFAULT_ROUNDS = 5, DEFAULT_SECONDS = 200, MAX_SECONDS = 86400 };

static const char help_text[] =
    "Usage: mpirun -n RANKS peerwin-bench [options] [CASE]\n"
    "Measures peerwin against MPI and plain memory copies, side by side in one run.\n"
    "\n"
    "  --only CASE[,CASE...]  measure these cases only (--list names them)\n"
    "                         a single one may stand alone: peerwin-bench halo\n"
    "  --block D,N[,G[,F[,B]]] in the case halo: D dimensions of N cells, ghosts G deep, F fields, elements of B "
    "bytes\n"
    "                         (default: several such blocks; G, F, B are 1, 1, 8)\n"
    "  --quick                fewer sizes and shorter batches: seconds instead of a minute\n"
    "  --repeats N            interleaved repetitions of each row, 9 to 999 (default 11, with --quick 9)\n"
    "  --space host|cuda      where the windows live (default host)\n"
    "  --kinds KIND[,KIND...] with --space cuda: legacy, fd, fabric, pool (attached), host (default all)\n"
    "  --largest MIB          with --space cuda: the largest size, 1 to 4096 (default 256, with --quick 1)\n"
    "  --csv FILE             write the figures as CSV too; with - to stdout, instead of the table\n"
    "  --json FILE            the same as JSON\n"
    "  --plot FILE            charts of the figures, .svg or .png, drawn by gnuplot\n"
    "  --list                 list the cases and exit\n"
    "  --help                 show this text and exit\n"
    "\n"
    "Beside NVSHMEM, on GPUs: peerwin-bench --peers [options], without mpirun, since it starts jobs of its own. It "
    "builds\n"
    "an NVSHMEM program where NVSHMEM is installed, and runs both in turns; else peerwin's side alone. Where ranks "
    "share\n"
    "a GPU, MPS has to run.\n"
    "\n"
    "  --peers                do that; --only, --quick, --csv, --json, --plot as above, --repeats is rounds (5)\n"
    "  --ranks N[,N...]       numbers of ranks (default 2,4,8); all rows are measured on 2, some on any number\n"
    "  --place HOW            processors of the ranks: spread (several cores each, the default), core (one each), "
    "none\n"
    "                         (the launcher's choice, the default with --mpirun)\n"
    "  --limits               end with status 1 unless every promise of speed is kept; they are listed in any case\n"
    "  --seconds N            begin no round that might end later than that (default 200)\n"
    "  --logs DIR             where programs, their output and their figures go (default peerwin-bench-logs)\n"
    "  --mpirun COMMAND       how jobs are started, in one word (default: the mpirun that this was built with)\n"
    "  --nvshmem PROGRAM      use this program, built earlier, as NVSHMEM's side\n"
    "  --nccl LIBRARY         NCCL's library (default: found where that is usual), or none\n"
    "  --one-side FILE        what --peers starts: peerwin's side once, as a job of MPI, with its figures to that "
    "file\n"
    "\n"
    "Each row is measured in turns (peerwin, MPI, then MPI, peerwin, ...). Figures are medians over the repetitions\n"
    "with (min..max); the ratio is the median of peerwin / MPI within each repetition. In CUDA space MPI's place is\n"
    "taken by the driver's own copy, cuMemcpyAsync into the mapped memory.\n";

/* The cases of a run that is a job of MPI. */
static bool choose_cases(options *opt, int ranks) {
    const bench_case_list cases = bench_cases(opt->cuda);
    if (opt->only != NULL)
        return options_parse_cases(opt->only, ranks, opt);
    for (int i = 0; i < cases.count; i++)
        if (ranks >= cases.list[i].min_ranks)
            opt->cases |= 1u << i;
    return true;
}

/* What --peers and the jobs that it starts have in common. */
static options complete_peers(options opt, int ranks) {
    if (opt.peers && ranks > 0)
        return options_bad("--peers starts jobs of its own: give it in full, and without mpirun");
    if (bench_cases(true).count == 0)
        return options_bad("--peers: this build is without CUDA");
    if (opt.kinds != 0 || opt.largest != 0 || opt.halo.dims != 0 || opt.peers == (opt.peer_run != NULL))
        return options_bad("--kinds, --largest, --block and --one-side do not go with --peers");
    if (opt.only != NULL && !options_parse_works(opt.only, &opt))
        return opt;
    if (opt.only == NULL)
        opt.works = ~0u;
    if (opt.repeats > MAX_ROUNDS)
        return options_bad("--repeats is at most %d with --peers", MAX_ROUNDS);
    if (opt.repeats == 0)
        opt.repeats = DEFAULT_ROUNDS;
    if (opt.seconds == 0)
        opt.seconds = DEFAULT_SECONDS;
    if (opt.ranks[0] == 0)
        memcpy(opt.ranks, (const int[]){2, 4, 8, 0}, 4 * sizeof(int));
    if (!opt.placed)
        opt.place = opt.mpirun != NULL ? PLACE_NONE : PLACE_SPREAD;
    if (opt.logs == NULL)
        opt.logs = "peerwin-bench-logs";
    opt.cuda = true;
    return opt;
}

/* Fills in what depends on several options, and refuses what does not fit together. */
static options complete(options opt, int ranks) {
    if (opt.csv != NULL && opt.json != NULL && strcmp(opt.csv, "-") == 0 && strcmp(opt.json, "-") == 0)
        return options_bad("only one of --csv and --json can have stdout");
    if (opt.plot != NULL && !plot_name_is_good(opt.plot))
        return options_bad("--plot takes a file that ends in .svg or .png, not '%s'", opt.plot);
    if (opt.peers || opt.peer_run != NULL)
        return complete_peers(opt, ranks);
    if (opt.limits || opt.seconds != 0 || opt.logs != NULL || opt.mpirun != NULL || opt.program != NULL ||
        opt.nccl != NULL || opt.ranks[0] != 0 || opt.placed)
        return options_bad("--limits, --seconds, --logs, --mpirun, --nvshmem, --nccl, --place and --ranks go with "
                           "--peers");
    if (!opt.cuda && (opt.kinds != 0 || opt.largest != 0))
        return options_bad("--kinds and --largest go with --space cuda");
    if (!choose_cases(&opt, ranks))
        return opt;
    if (opt.repeats == 0)
        opt.repeats = opt.quick ? MIN_REPEATS : DEFAULT_REPEATS;
    if (opt.repeats < MIN_REPEATS)
        return options_bad("--repeats takes a number from %d to %d, not '%d'", MIN_REPEATS, MAX_REPEATS, opt.repeats);
    if (opt.kinds == 0)
        opt.kinds = ~0u;
    if (opt.largest == 0)
        opt.largest = (size_t)(opt.quick ? 1 : DEFAULT_LARGEST) << 20;
    opt.batch_seconds = opt.quick ? 2e-3 : opt.cuda ? 8e-3 : 20e-3; /* one kind after the other takes long */
    return opt;
}

enum {
    OPT_ONLY = 1,
    OPT_BLOCK,
    OPT_QUICK,
    OPT_REPEATS,
    OPT_SPACE,
    OPT_KINDS,
    OPT_LARGEST,
    OPT_CSV,
    OPT_JSON,
    OPT_PLOT,
    OPT_LIST,
    OPT_HELP,
    OPT_PEERS,
    OPT_RANKS,
    OPT_PLACE,
    OPT_LIMITS,
    OPT_SECONDS,
    OPT_LOGS,
    OPT_MPIRUN,
    OPT_NVSHMEM,
    OPT_NCCL,
    OPT_ONE_SIDE
};

static const struct option known[] = {
    {"only", required_argument, NULL, OPT_ONLY},
    {"block", required_argument, NULL, OPT_BLOCK},
    {"quick", no_argument, NULL, OPT_QUICK},
    {"repeats", required_argument, NULL, OPT_REPEATS},
    {"space", required_argument, NULL, OPT_SPACE},
    {"kinds", required_argument, NULL, OPT_KINDS},
    {"largest", required_argument, NULL, OPT_LARGEST},
    {"csv", required_argument, NULL, OPT_CSV},
    {"json", required_argument, NULL, OPT_JSON},
    {"plot", required_argument, NULL, OPT_PLOT},
    {"list", no_argument, NULL, OPT_LIST},
    {"help", no_argument, NULL, OPT_HELP},
    {"peers", no_argument, NULL, OPT_PEERS},
    {"ranks", required_argument, NULL, OPT_RANKS},
    {"place", required_argument, NULL, OPT_PLACE},
    {"limits", no_argument, NULL, OPT_LIMITS},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"logs", required_argument, NULL, OPT_LOGS},
    {"mpirun", required_argument, NULL, OPT_MPIRUN},
    {"nccl", required_argument, NULL, OPT_NCCL},
    {"nvshmem", required_argument, NULL, OPT_NVSHMEM},
    {"one-side", required_argument, NULL, OPT_ONE_SIDE},
    {NULL, 0, NULL, 0},
};

bool options_ask_for_peers(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--peers") == 0)
            return true;
    return false;
}

/* Options with a number; false after a message. */
static bool take_number(int option, const char *text, options *opt) {
    long number = 0;
    switch (option) {
    case OPT_REPEATS:
        if (!options_parse_number("--repeats", text, 1, MAX_REPEATS, &number, opt))
            return false;
        opt->repeats = (int)number;
        return true;
    case OPT_SECONDS:
        if (!options_parse_number("--seconds", text, 1, MAX_SECONDS, &number, opt))
            return false;
        opt->seconds = (int)number;
        return true;
    default:
        if (!options_parse_number("--largest", text, 1, MAX_LARGEST, &number, opt))
            return false;
        opt->largest = (size_t)number << 20;
        return true;
    }
}

/* Options whose value is kept as it is. */
static const char **text_of(int option, options *opt) {
    switch (option) {
    case OPT_ONLY:
        return &opt->only;
    case OPT_CSV:
        return &opt->csv;
    case OPT_JSON:
        return &opt->json;
    case OPT_PLOT:
        return &opt->plot;
    case OPT_LOGS:
        return &opt->logs;
    case OPT_MPIRUN:
        return &opt->mpirun;
    case OPT_NVSHMEM:
        return &opt->program;
    case OPT_NCCL:
        return &opt->nccl;
    case OPT_ONE_SIDE:
        return &opt->peer_run;
    default:
        return NULL;
    }
}

/* One option; false if the parsing ends here, with what opt->action says. */
static bool take(int option, const char *value, options *opt) {
    if (text_of(option, opt) != NULL) {
        *text_of(option, opt) = value;
        return true;
    }
    switch (option) {
    case OPT_QUICK:
        opt->quick = true;
        return true;
    case OPT_PEERS:
        opt->peers = true;
        return true;
    case OPT_LIMITS:
        opt->limits = true;
        return true;
    case OPT_SPACE:
        return options_parse_space(value, opt);
    case OPT_BLOCK:
        return options_parse_halo(value, opt);
    case OPT_KINDS:
        return options_parse_kinds(value, opt);
    case OPT_PLACE:
        return options_parse_place(value, opt);
    case OPT_RANKS:
        return options_parse_ranks(value, opt);
    case OPT_HELP:
        fputs(help_text, stdout);
        *opt = options_done();
        return false;
    default:
        return take_number(option, value, opt);
    }
}

options options_parse(int argc, char **argv, int ranks) {
    options opt = {.action = OPTIONS_RUN};
    bool list = false;
    opterr = 0;
    for (;;) {
        const int at = optind;
        const int option = getopt_long(argc, argv, ":", known, NULL);
        switch (option) {
        case OPT_LIST:
            list = true;
            break;
        case ':':
            return options_bad("%s needs a value", argv[at]);
        case '?':
            return options_bad("unknown option '%s'", argv[at]);
        case -1:
            if (optind < argc && opt.only == NULL)
                opt.only = argv[optind++];
            if (optind < argc)
                return options_bad("unexpected argument '%s'", argv[optind]);
            if (list)
                return opt.peers ? options_list_rows() : options_list_cases(opt.cuda);
            return complete(opt, ranks);
        default:
            if (!take(option, optarg, &opt))
                return opt;
        }
    }
}
