/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Input decks: text, one statement a line, '#' begins a comment. Every statement has a form, which is what messages
 * show and what lines are matched with: a word in capitals stands for a number (or, if it is FILE or FORMAT, for a
 * word).
 *
 * A deck is read to its end or to its first mistake; nothing in it can make the reader do more than that.
 */
#include "deck.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 1000, MAX_WORDS = 16, MAX_VALUES = 6 };

/* A deck that is being read. */
struct reader {
    const char *name;
    int line;
    struct deck *deck;
    char *problem;
    size_t problem_size;
};

/* What a line says where its form has capitals. */
struct values {
    double number[MAX_VALUES];
    const char *word;
};

struct statement {
    const char *form;
    bool (*take)(struct reader *reader, const struct values *v);
    bool many; /* it may stand more than once */
};

/* ---- the benchmark */

void deck_benchmark(struct deck *deck_out) {
    static const struct region pipe[] = {
        {0.0, 1.0, 1.0, 2.0, {0.1, 25.0}},
        {1.0, 6.0, 1.0, 2.0, {0.1, 0.1}},
        {5.0, 6.0, 1.0, 8.0, {0.1, 0.1}},
        {5.0, 10.0, 7.0, 8.0, {0.1, 0.1}},
    };

    memset(deck_out, 0, sizeof(*deck_out));
    deck_out->n = 250;
    deck_out->steps = 10;
    deck_out->side = 10.0;
    deck_out->time_step = 0.004;
    deck_out->background = (struct material){100.0, 0.0001};
    deck_out->num_regions = sizeof(pipe) / sizeof(pipe[0]);
    memcpy(deck_out->regions, pipe, sizeof(pipe));
}

static bool same_material(const struct material *a, const struct material *b) {
    return a->density == b->density && a->energy == b->energy;
}

static bool same_region(const struct region *a, const struct region *b) {
    return a->xmin == b->xmin && a->xmax == b->xmax && a->ymin == b->ymin && a->ymax == b->ymax &&
           same_material(&a->material, &b->material);
}

bool deck_is_benchmark(const struct deck *deck) {
    struct deck benchmark;
    bool same;

    deck_benchmark(&benchmark);
    same = deck->side == benchmark.side && deck->time_step == benchmark.time_step &&
           same_material(&deck->background, &benchmark.background) && deck->num_regions == benchmark.num_regions;
    for (int k = 0; same && k < benchmark.num_regions; k++)
        same = same_region(&deck->regions[k], &benchmark.regions[k]);
    return same;
}

/* ---- what is wrong */

static bool wrong(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool wrong(struct reader *reader, const char *format, ...) {
    const int used = snprintf(reader->problem, reader->problem_size, "%s:%d: ", reader->name, reader->line);
    va_list arguments;

    va_start(arguments, format);
    if (used >= 0 && (size_t)used < reader->problem_size)
        vsnprintf(reader->problem + used, reader->problem_size - (size_t)used, format, arguments);
    va_end(arguments);
    return false;
}

static bool take_count(struct reader *reader, const char *what, double value, int max, int *count_out) {
    if (!(value >= 1 && value <= max && value == floor(value)))
        return wrong(reader, "%s %g: a whole number from 1 to %d is wanted", what, value, max);
    *count_out = (int)value;
    return true;
}

static bool take_length(struct reader *reader, const char *what, double value, double *length_out) {
    if (!(value > 0))
        return wrong(reader, "%s %g: a number above 0 is wanted", what, value);
    *length_out = value;
    return true;
}

static bool take_material(struct reader *reader, double density, double energy, struct material *material_out) {
    if (!(density > 0))
        return wrong(reader, "density %g: a number above 0 is wanted", density);
    if (!(energy >= 0))
        return wrong(reader, "energy %g: a number from 0 on is wanted", energy);
    *material_out = (struct material){density, energy};
    return true;
}

/* ---- statements */

static bool take_cells(struct reader *reader, const struct values *v) {
    return take_count(reader, "cells", v->number[0], MAX_CELLS, &reader->deck->n);
}

static bool take_steps(struct reader *reader, const struct values *v) {
    return take_count(reader, "steps", v->number[0], MAX_STEPS, &reader->deck->steps);
}

static bool take_side(struct reader *reader, const struct values *v) {
    return take_length(reader, "side", v->number[0], &reader->deck->side);
}

static bool take_time_step(struct reader *reader, const struct values *v) {
    return take_length(reader, "time-step", v->number[0], &reader->deck->time_step);
}

static bool take_background(struct reader *reader, const struct values *v) {
    return take_material(reader, v->number[0], v->number[1], &reader->deck->background);
}

static bool take_region(struct reader *reader, const struct values *v) {
    const double *n = v->number;
    struct region region = {n[0], n[1], n[2], n[3], {0, 0}};

    if (!(region.xmin < region.xmax))
        return wrong(reader, "x %g %g: the second number must be the larger one", region.xmin, region.xmax);
    if (!(region.ymin < region.ymax))
        return wrong(reader, "y %g %g: the second number must be the larger one", region.ymin, region.ymax);
    if (!take_material(reader, n[4], n[5], &region.material))
        return false;
    if (reader->deck->num_regions == MAX_REGIONS)
        return wrong(reader, "a deck has at most %d regions", MAX_REGIONS);
    reader->deck->regions[reader->deck->num_regions++] = region;
    return true;
}

static bool take_image(struct reader *reader, const struct values *v) {
    if (strlen(v->word) > MAX_FILE_NAME)
        return wrong(reader, "image: a file's name has at most %d bytes", MAX_FILE_NAME);
    memcpy(reader->deck->image, v->word, strlen(v->word) + 1);
    return true;
}

static bool take_output(struct reader *reader, const struct values *v) {
    reader->deck->csv = strcmp(v->word, "csv") == 0;
    if (!reader->deck->csv && strcmp(v->word, "text") != 0)
        return wrong(reader, "output %s: it is text or csv", v->word);
    return true;
}

static const struct statement statements[] = {
    {"cells N", take_cells, false},
    {"steps S", take_steps, false},
    {"side LENGTH", take_side, false},
    {"time-step TIME", take_time_step, false},
    {"background density D energy E", take_background, false},
    {"region x MIN MAX y MIN MAX density D energy E", take_region, true},
    {"image FILE", take_image, false},
    {"output FORMAT", take_output, false},
};
enum { NUM_STATEMENTS = sizeof(statements) / sizeof(statements[0]) };

void deck_usage(void) {
    for (int k = 0; k < NUM_STATEMENTS; k++)
        printf("  %s\n", statements[k].form);
}

/* ---- lines */

/* Cuts a line into words, up to a comment; too many are as wrong as one too many. */
static int cut_words(char *line, char *words[MAX_WORDS]) {
    int count = 0;

    for (char *at = strtok(line, " \t\r\n\v\f"); at != NULL && at[0] != '#' && count < MAX_WORDS;
         at = strtok(NULL, " \t\r\n\v\f"))
        words[count++] = at;
    return count;
}

static bool is_number(const char *text, double *number_out) {
    char *end = NULL;

    *number_out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*number_out);
}

static bool take_word(struct reader *reader, const char *form, const char *want, const char *word, struct values *v,
                      int *numbers) {
    if (strcmp(want, "FILE") == 0 || strcmp(want, "FORMAT") == 0) {
        v->word = word;
        return true;
    }
    if (isupper((unsigned char)want[0])) {
        if (is_number(word, &v->number[(*numbers)++]))
            return true;
        return wrong(reader, "'%.40s' is not a number: it is '%s'", word, form);
    }
    if (strcmp(want, word) == 0)
        return true;
    return wrong(reader, "'%.40s' stands where '%s' is wanted: it is '%s'", word, want, form);
}

/* A line whose first word is that of the statement. */
static bool take_line(struct reader *reader, const struct statement *statement, char *const words[], int count) {
    char form[100];
    char *wants[MAX_WORDS];
    struct values v = {.word = ""};
    int numbers = 0;

    snprintf(form, sizeof(form), "%s", statement->form);
    const int wanted = cut_words(form, wants);
    for (int k = 1; k < wanted && k < count; k++)
        if (!take_word(reader, statement->form, wants[k], words[k], &v, &numbers))
            return false;
    if (count != wanted)
        return wrong(reader, "%s: it is '%s'", count < wanted ? "something is missing" : "there is too much",
                     statement->form);
    return statement->take(reader, &v);
}

/* The statement that begins with this word, or -1 and a message with all of them. */
static int find_statement(struct reader *reader, const char *word) {
    char known[200] = "";

    for (int k = 0; k < NUM_STATEMENTS; k++) {
        const size_t length = strcspn(statements[k].form, " ");
        if (strlen(word) == length && strncmp(word, statements[k].form, length) == 0)
            return k;
        snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%.*s", k > 0 ? ", " : "", (int)length,
                 statements[k].form);
    }
    wrong(reader, "'%.40s' begins no statement: they are %s", word, known);
    return -1;
}

/* False at the end of the file, or if the line is none: then there is a problem. */
static bool next_line(struct reader *reader, FILE *file, char line[MAX_LINE]) {
    if (fgets(line, MAX_LINE, file) == NULL) {
        if (ferror(file))
            wrong(reader, "it cannot be read on");
        return false;
    }
    reader->line++;
    const size_t length = strlen(line);
    if (length + 1 == MAX_LINE && line[length - 1] != '\n')
        return wrong(reader, "a line has at most %d bytes", MAX_LINE - 2);
    for (size_t k = 0; k < length; k++)
        if (iscntrl((unsigned char)line[k]) && !isspace((unsigned char)line[k]))
            return wrong(reader, "this is no text");
    if ((length == 0 || line[length - 1] != '\n') && !feof(file))
        return wrong(reader, "this is no text"); /* a byte 0 */
    return true;
}

bool deck_read(FILE *file, const char *name, struct deck *deck_out, char *problem, size_t problem_size) {
    struct deck deck;
    struct reader reader = {name, 0, &deck, problem, problem_size};
    int line_of[NUM_STATEMENTS] = {0};
    char line[MAX_LINE], *words[MAX_WORDS];

    deck_benchmark(&deck);
    const int regions = deck.num_regions;
    deck.num_regions = 0;
    problem[0] = '\0';
    while (next_line(&reader, file, line)) {
        const int count = cut_words(line, words);
        const int which = count > 0 ? find_statement(&reader, words[0]) : 0;
        if (count == 0)
            continue;
        if (which < 0)
            return false;
        if (line_of[which] > 0 && !statements[which].many)
            return wrong(&reader, "'%s' stands in line %d already", words[0], line_of[which]);
        if (!take_line(&reader, &statements[which], words, count))
            return false;
        line_of[which] = reader.line;
    }
    if (problem[0] != '\0')
        return false;
    if (deck.num_regions == 0)
        deck.num_regions = regions; /* which are still there */
    *deck_out = deck;
    return true;
}
