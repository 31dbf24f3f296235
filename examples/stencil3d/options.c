/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line. It is the same on every rank, so every rank comes to the same verdict.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stencil3d.h"

enum { MAX_CELLS = 8192, MAX_RANKS = 100000, MAX_FIELDS = 32, MAX_STEPS = 1000000, MAX_ROUNDS = 999 };

static const char *const way_names[NUM_WAYS] = {"peerwin", "mpi", "staged"};

void options_usage(void) {
    printf(
        "usage: mpirun -n RANKS stencil3d [options]\n"
        "\n"
        "Fields on a periodic block of cells, smoothed step by step on all ranks.\n"
        "\n"
        "  --points 7|27      cells that a step takes the mean of (7); 27 needs ghosts at edges and corners too\n"
        "  --fields F         1 to %d (1); one exchange moves the ghosts of all of them\n"
        "  --size A[,B,C]     cells in each direction, 1 to %d (64); the last is contiguous in memory\n"
        "  --local A[,B,C]    the same, of each rank\n"
        "  --grid A,B,C       ranks in each direction (as MPI_Dims_create likes)\n"
        "  --steps S          1 to %d (20)\n"
        "  --space host       fields in ordinary memory, swept by the processor (the default)\n"
        "  --space cuda       fields on the GPU\n"
        "  --comm LIST        how ghosts travel, by turns in one job if there are several:\n"
        "                       peerwin  by halo plans (the default)\n"
        "                       mpi      by MPI messages; on GPUs from packed buffers, in GPU memory if MPI says\n"
        "                                that it takes that, else in page-locked host memory\n"
        "                       staged   on GPUs: always through host memory\n"
        "  --rounds R         run all of it R times, and print the medians (1)\n"
        "  --overlap on|off   sweep over the inside while ghosts travel (on)\n"
        "  --graph on|off     on GPUs: steps in CUDA graphs, where what they hold can be captured (on)\n"
        "  --csv              print a header and comma-separated values, one line for each way\n"
        "  --help             print this\n"
        "\n"
        "The answer is known, and compared. The checksum is of all bits of all cells: it is the same for any number\n"
        "of ranks, any way, and in both spaces. \"Exchange alone\" and \"sweep alone\" are measured after the steps.\n"
        "Exit status: 0 fine, 1 the answer is wrong or something failed, 2 the command line is wrong.\n",
        MAX_FIELDS, MAX_CELLS, MAX_STEPS);
}

/* One or several numbers, separated by commas. How many there are, 0 if they are not numbers from 1 to max. */
static int parse_numbers(const char *text, int max, int count, int *numbers_out) {
    for (int n = 0; n < count; n++) {
        char *end = NULL;
        const long value = strtol(text, &end, 10);
        if (end == text || value < 1 || value > max)
            return 0;
        numbers_out[n] = (int)value;
        if (*end == '\0')
            return n + 1;
        if (*end != ',')
            return 0;
        text = end + 1;
    }
    return 0;
}

static bool parse_count(const char *text, int max, int *count_out) {
    return parse_numbers(text, max, 1, count_out) == 1;
}

/* A single number is that of all directions. */
static bool parse_size(const char *text, int size[DIMS]) {
    const int count = parse_numbers(text, MAX_CELLS, DIMS, size);
    for (int d = 1; d < DIMS && count == 1; d++)
        size[d] = size[0];
    return count == 1 || count == DIMS;
}

static bool parse_switch(const char *text, bool *on_out) {
    *on_out = strcmp(text, "on") == 0;
    return *on_out || strcmp(text, "off") == 0;
}

static bool parse_ways(const char *text, bool way[NUM_WAYS]) {
    memset(way, 0, NUM_WAYS * sizeof(*way));
    for (;;) {
        const size_t length = strcspn(text, ",");
        int found = NUM_WAYS;
        for (int w = 0; w < NUM_WAYS; w++)
            if (strlen(way_names[w]) == length && strncmp(text, way_names[w], length) == 0)
                found = w;
        if (found == NUM_WAYS)
            return false;
        way[found] = true;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}

static bool parse_space(const char *text, bool *cuda_out) {
    *cuda_out = strcmp(text, "cuda") == 0;
    return *cuda_out || strcmp(text, "host") == 0;
}

static bool parse_points(const char *text, int *points_out) {
    return parse_count(text, DIRECTIONS, points_out) && (*points_out == 7 || *points_out == DIRECTIONS);
}

/* Numbers that no short option has. */
enum { POINTS = 256, FIELDS, SIZE, LOCAL, GRID, STEPS, SPACE, COMM, ROUNDS, OVERLAP, GRAPH, CSV };

static const struct option known[] = {
    {"points", required_argument, NULL, POINTS},
    {"fields", required_argument, NULL, FIELDS},
    {"size", required_argument, NULL, SIZE},
    {"local", required_argument, NULL, LOCAL},
    {"grid", required_argument, NULL, GRID},
    {"steps", required_argument, NULL, STEPS},
    {"space", required_argument, NULL, SPACE},
    {"comm", required_argument, NULL, COMM},
    {"rounds", required_argument, NULL, ROUNDS},
    {"overlap", required_argument, NULL, OVERLAP},
    {"graph", required_argument, NULL, GRAPH},
    {"csv", no_argument, NULL, CSV},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* Takes one option; NULL if it is fine, else what is wanted. */
static const char *take(int option, const char *argument, struct options *o) {
    switch (option) {
    case POINTS:
        return parse_points(argument, &o->points) ? NULL : "it is 7 or 27";
    case FIELDS:
        return parse_count(argument, MAX_FIELDS, &o->fields) ? NULL : "the number of fields is 1 to 32";
    case SIZE:
    case LOCAL:
        o->local = option == LOCAL;
        return parse_size(argument, o->size) ? NULL : "one number of cells is wanted, or three, from 1 to 8192";
    case GRID:
        return parse_numbers(argument, MAX_RANKS, DIMS, o->grid) == DIMS ? NULL : "three numbers of ranks are wanted";
    case STEPS:
        return parse_count(argument, MAX_STEPS, &o->steps) ? NULL : "the number of steps is 1 to 1000000";
    case SPACE:
        return parse_space(argument, &o->cuda) ? NULL : "it is host or cuda";
    case COMM:
        return parse_ways(argument, o->way) ? NULL : "the choices are peerwin, mpi and staged";
    case ROUNDS:
        return parse_count(argument, MAX_ROUNDS, &o->rounds) ? NULL : "the number of rounds is 1 to 999";
    case OVERLAP:
        return parse_switch(argument, &o->overlap) ? NULL : "it is on or off";
    case GRAPH:
        return parse_switch(argument, &o->graphs) ? NULL : "it is on or off";
    case CSV:
        o->csv = true;
        return NULL;
    default:
        o->help = true;
        return NULL;
    }
}

/* What the options together cannot be. */
static const char *check(const struct options *o) {
    if (o->cuda && !space_cuda_available())
        return "--space cuda: this stencil3d was built without CUDA (nvcc and its runtime)";
    if (o->way[WAY_STAGED] && !o->cuda)
        return "--comm staged: that is for --space cuda";
    return NULL;
}

bool options_parse(int argc, char **argv, struct options *options_out, char *problem, size_t problem_size) {
    struct options o = {.size = {64, 64, 64}, .points = 7, .fields = 1, .steps = 20, .rounds = 1};
    const char *wrong = NULL;
    int option, index = 0;

    o.way[WAY_PEERWIN] = o.overlap = o.graphs = true;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "h", known, &index)) != -1) {
        if (option == '?') {
            snprintf(problem, problem_size, "%s is no option, or lacks its value", argv[optind - 1]);
            return false;
        }
        wrong = take(option, optarg, &o);
        if (wrong != NULL) {
            snprintf(problem, problem_size, "--%s %s: %s", known[index].name, optarg, wrong);
            return false;
        }
    }
    if (optind < argc)
        snprintf(problem, problem_size, "%s is no option", argv[optind]);
    else if ((wrong = check(&o)) != NULL)
        snprintf(problem, problem_size, "%s", wrong);
    *options_out = o;
    return optind == argc && wrong == NULL;
}
