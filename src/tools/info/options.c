/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line, with getopt; it prints nothing itself, so that a mistake is reported once and in our words.
 */
#include "options.h"

#include <getopt.h>
#include <stdio.h>

static const char help_text[] =
    "Usage: peerwin-info [options]\n"
    "       mpirun -n RANKS peerwin-info [options]\n"
    "Tells what peerwin finds here: version and build, the machine, what the kernel allows, and which rank reaches\n"
    "which other one, and how. What is not direct is listed with its reason.\n"
    "\n"
    "  --env   list the environment variables: valid values, meaning, current value\n"
    "  --json  write JSON instead of text; together with --env too\n"
    "  --help  show this text and exit\n"
    "\n"
    "Exit status: 0; 1 if the ranks cannot make a context or the environment has a value that is not valid; 2 if the\n"
    "command line is wrong.\n";

static options bad(const char *what, const char *argument) {
    fprintf(stderr, "peerwin-info: %s '%s' (see peerwin-info --help)\n", what, argument);
    return (options){.action = OPTIONS_BAD};
}

enum { OPT_ENV = 1, OPT_JSON, OPT_HELP };

static const struct option known[] = {
    {"env", no_argument, NULL, OPT_ENV},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

options options_parse(int argc, char **argv) {
    options opt = {.action = OPTIONS_RUN};
    opterr = 0;
    for (;;) {
        const int at = optind;
        switch (getopt_long(argc, argv, ":", known, NULL)) {
        case OPT_ENV:
            opt.env = true;
            break;
        case OPT_JSON:
            opt.json = true;
            break;
        case OPT_HELP:
            fputs(help_text, stdout);
            return (options){.action = OPTIONS_DONE};
        case -1:
            if (optind < argc)
                return bad("unexpected argument", argv[optind]);
            return opt;
        default:
            return bad("unknown option", argv[at]);
        }
    }
}
