/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line. It is the same on every rank, so every rank comes to the same verdict.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heat.h"

enum { MAX_COMPARE = 999 };

void options_usage(void) {
    printf(
        "usage: mpirun -n RANKS heat [options]\n"
        "\n"
        "Conduction of heat on a square of N x N cells, by conjugate gradients on all ranks.\n"
        "\n"
        "  --deck FILE        what to solve: an input deck, see below; options override it (a benchmark)\n"
        "  -n N               cells per direction, 1 to %d (250)\n"
        "  --steps S          time steps, 1 to %d (10)\n"
        "  --space host       fields in ordinary memory, swept by the processor (the default)\n"
        "  --space cuda       fields on the GPU\n"
        "  --graph WHEN       on the GPU: iterations are captured in a CUDA graph (yes), or calls each time (no);\n"
        "                     auto tries both (auto)\n"
        "  --comm peerwin     exchange halos and sums through windows (the default)\n"
        "  --comm mpi         exchange them by MPI messages\n"
        "  --compare R        run both ways R times in one job, step by step in turn, and print the medians\n"
        "  --csv              print a header and comma-separated values, one line for each run\n"
        "  --image FILE.png   draw the temperature field at the end\n"
        "  --help             print this\n"
        "\n"
        "A deck is a text with one statement a line, in any order; # begins a comment. What it does not say is as in\n"
        "the benchmark, whose regions are there unless it has its own. Later regions lie on top of earlier ones.\n",
        MAX_CELLS, MAX_STEPS);
    deck_usage();
    printf("FORMAT is text or csv. Examples are in examples/heat, *.deck.\n"
           "\n"
           "The result is compared with the published one for -n 10, 250 or 1000 with --steps 10, -n 512 with\n"
           "--steps 20, and -n 4000 with --steps 2 or 10, unless a deck says something else.\n"
           "Exit status: 0 fine, 1 the result differs or something failed, 2 the command line or the deck is wrong.\n");
}

static bool parse_count(const char *text, int max, int *count_out) {
    char *end = NULL;
    const long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < 1 || value > max)
        return false;
    *count_out = (int)value;
    return true;
}

static bool parse_comm(const char *text, bool *mpi_out) {
    *mpi_out = strcmp(text, "mpi") == 0;
    return *mpi_out || strcmp(text, "peerwin") == 0;
}

static bool parse_graph(const char *text, enum graph *graph_out) {
    static const char *const names[] = {[GRAPH_AUTO] = "auto", [GRAPH_YES] = "yes", [GRAPH_NO] = "no"};

    for (int k = GRAPH_AUTO; k <= GRAPH_NO; k++) {
        *graph_out = (enum graph)k;
        if (strcmp(text, names[k]) == 0)
            return true;
    }
    return false;
}

/* Long options have numbers that no short option has, so that a message can tell them apart. */
enum {
    OPTION_STEPS = 256,
    OPTION_SPACE,
    OPTION_COMM,
    OPTION_COMPARE,
    OPTION_DECK,
    OPTION_GRAPH,
    OPTION_CSV,
    OPTION_IMAGE
};

/* Takes one option; `argument` is NULL where there is none. */
static bool take(int option, const char *argument, struct options *options, char *problem, size_t problem_size) {
    switch (option) {
    case 'n':
        if (!parse_count(argument, MAX_CELLS, &options->n)) {
            snprintf(problem, problem_size, "-n %s: the number of cells is 1 to %d", argument, MAX_CELLS);
            return false;
        }
        return true;
    case OPTION_STEPS:
        if (!parse_count(argument, MAX_STEPS, &options->steps)) {
            snprintf(problem, problem_size, "--steps %s: the number of steps is 1 to %d", argument, MAX_STEPS);
            return false;
        }
        return true;
    case OPTION_COMM:
        if (!parse_comm(argument, &options->mpi)) {
            snprintf(problem, problem_size, "--comm %s: the choices are peerwin and mpi", argument);
            return false;
        }
        return true;
    case OPTION_SPACE:
        options->cuda = strcmp(argument, "cuda") == 0;
        if (!options->cuda && strcmp(argument, "host") != 0) {
            snprintf(problem, problem_size, "--space %s: it is host or cuda", argument);
            return false;
        }
        if (options->cuda && !space_cuda_available()) {
            snprintf(problem, problem_size, "--space cuda: this heat was built without CUDA (nvcc and its runtime)");
            return false;
        }
        return true;
    case OPTION_COMPARE:
        if (!parse_count(argument, MAX_COMPARE, &options->compare)) {
            snprintf(problem, problem_size, "--compare %s: the number of runs is 1 to %d", argument, MAX_COMPARE);
            return false;
        }
        return true;
    case OPTION_IMAGE:
        options->image = argument;
        if (strlen(argument) > MAX_FILE_NAME) {
            snprintf(problem, problem_size, "--image: a file's name has at most %d bytes", MAX_FILE_NAME);
            return false;
        }
        if (!picture_available()) {
            snprintf(problem, problem_size, "--image: this heat was built without libpng");
            return false;
        }
        return true;
    case OPTION_DECK:
        options->file = argument;
        return true;
    case OPTION_GRAPH:
        if (!parse_graph(argument, &options->graph)) {
            snprintf(problem, problem_size, "--graph %s: the choices are auto, yes and no", argument);
            return false;
        }
        return true;
    case OPTION_CSV:
        options->csv = true;
        return true;
    default:
        options->help = true;
        return true;
    }
}

/* Words for what getopt does not like; it says ':' for a missing value. A short option may be part of a word. */
static void refuse(int option, const char *word, char *problem, size_t problem_size) {
    const char *complaint = option == ':' ? "needs a value" : "is not an option of heat";

    if (optopt > 0 && optopt < OPTION_STEPS)
        snprintf(problem, problem_size, "-%c %s", optopt, complaint);
    else
        snprintf(problem, problem_size, "%s %s", word, complaint);
}

bool options_parse(int argc, char **argv, struct options *options_out, char *problem, size_t problem_size) {
    static const struct option known[] = {
        {"steps", required_argument, NULL, OPTION_STEPS},
        {"space", required_argument, NULL, OPTION_SPACE},
        {"comm", required_argument, NULL, OPTION_COMM},
        {"compare", required_argument, NULL, OPTION_COMPARE},
        {"deck", required_argument, NULL, OPTION_DECK},
        {"graph", required_argument, NULL, OPTION_GRAPH},
        {"csv", no_argument, NULL, OPTION_CSV},
        {"image", required_argument, NULL, OPTION_IMAGE},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;

    memset(options_out, 0, sizeof(*options_out));
    opterr = 0; /* getopt would print on every rank */
    while ((option = getopt_long(argc, argv, ":n:h", known, NULL)) != -1) {
        if (option == ':' || option == '?') {
            refuse(option, argv[optind - 1], problem, problem_size);
            return false;
        }
        if (!take(option, optarg, options_out, problem, problem_size))
            return false;
    }
    if (optind < argc) {
        snprintf(problem, problem_size, "unexpected argument %s", argv[optind]);
        return false;
    }
    if (options_out->compare > 0 && options_out->image != NULL) {
        snprintf(problem, problem_size, "--compare draws no picture: leave --image out");
        return false;
    }
    return true;
}

/* On rank 0. */
static bool read_deck(const char *name, struct deck *deck_out, char *problem, size_t problem_size) {
    FILE *file = fopen(name, "r");

    if (file == NULL) {
        snprintf(problem, problem_size, "%s: %s", name, strerror(errno));
        return false;
    }
    const bool fine = deck_read(file, name, deck_out, problem, problem_size);
    fclose(file);
    return fine;
}

static void override(struct options *options) {
    struct deck *deck = &options->deck;

    if (options->n > 0)
        deck->n = options->n;
    if (options->steps > 0)
        deck->steps = options->steps;
    if (options->csv)
        deck->csv = true;
    if (options->image != NULL)
        memcpy(deck->image, options->image, strlen(options->image) + 1); /* it has been measured */
    if (options->compare > 0)
        deck->image[0] = '\0'; /* that draws none */
}

bool options_load(struct options *options, char *problem, size_t problem_size) {
    int rank, fine = true;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    deck_benchmark(&options->deck);
    if (rank == 0 && options->file != NULL)
        fine = read_deck(options->file, &options->deck, problem, problem_size);
    if (rank == 0 && fine && options->deck.image[0] != '\0' && !picture_available()) {
        snprintf(problem, problem_size, "%s: image: this heat was built without libpng", options->file);
        fine = false;
    }
    MPI_Bcast(&fine, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(&options->deck, (int)sizeof(options->deck), MPI_BYTE, 0, MPI_COMM_WORLD);
    override(options);
    return fine;
}
