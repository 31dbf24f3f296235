/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The temperature field as a picture, with a colour bar.
 *
 * A pixel is a square of cells (large fields), or a cell is a square of pixels (small ones). Rank 0 takes one
 * block after the other, so it never holds the whole field.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heat.h"

enum { MAX_SIDE = 2000, WANTED_SIDE = 750, MARGIN = 20, BAR_WIDTH = 28, GLYPH_WIDTH = 6, LABEL_GLYPHS = 6 };

/* The field as samples, each the mean of shrink x shrink cells. Row 0 is the south. */
struct samples {
    int n, shrink, side;
    double *value;
};

static int shorter(int a, int b) {
    return a < b ? a : b;
}

static void samples_add(struct samples *s, const struct block *b, const double *cells) {
    for (int j = 0; j < b->ny; j++) {
        for (int i = 0; i < b->nx; i++) {
            const int x = (b->x0 + i) / s->shrink, y = (b->y0 + j) / s->shrink;
            const int width = shorter(s->shrink, s->n - x * s->shrink),
                      height = shorter(s->shrink, s->n - y * s->shrink);
            s->value[(ptrdiff_t)y * s->side + x] += cells[(ptrdiff_t)j * b->nx + i] / ((double)width * height);
        }
    }
}

/* On rank 0: the samples. Elsewhere it only takes part. */
static bool samples_collect(struct samples *s, const struct block *mine, struct comm *comm) {
    const int ranks = mine->columns * mine->rows;
    struct block b;
    double *cells = NULL;

    s->n = mine->n;
    s->shrink = (s->n + MAX_SIDE - 1) / MAX_SIDE;
    s->side = (s->n + s->shrink - 1) / s->shrink;
    s->value = NULL;
    if (mine->rank == 0) {
        block_make(mine->n, 0, ranks, &b); /* none is larger than the first */
        cells = calloc((size_t)b.nx * (size_t)b.ny, sizeof(double));
        s->value = calloc((size_t)s->side * (size_t)s->side, sizeof(double));
    }
    const bool fine = agree(mine->rank != 0 || (cells != NULL && s->value != NULL));
    for (int rank = 0; fine && rank < ranks; rank++) {
        block_make(mine->n, rank, ranks, &b);
        comm->collect(comm, &b, cells);
        if (mine->rank == 0)
            samples_add(s, &b, cells);
    }
    free(cells);
    return fine;
}

/* Colours from dark to bright at an even pace for the eye: a polynomial fit of the "inferno" map (CC0). */
static void colour(double place, uint8_t rgb_out[3]) {
    const double t = fmin(fmax(place, 0), 1);
    static const double fit[7][3] = {
        {0.000219, 0.001651, -0.019481},     {0.106513, 0.563956, 3.932712},      {11.602493, -3.972854, -15.942394},
        {-41.703996, 17.436399, 44.354145},  {77.162936, -33.402359, -81.807309}, {-71.319428, 32.626064, 73.209520},
        {25.131126, -12.242669, -23.070325},
    };

    for (int k = 0; k < 3; k++) {
        double v = 0;
        for (int power = 6; power >= 0; power--)
            v = v * t + fit[power][k];
        rgb_out[k] = (uint8_t)(255 * fmin(fmax(v, 0), 1) + 0.5);
    }
}

/*
 * Colours show the rise of temperature over the coldest cell, by its logarithm: heat that has only begun to arrive
 * would not be seen otherwise. Eight decades are shown; below lies the noise of the solver.
 */
enum { DECADES = 8 };

struct scale {
    double cold; /* temperature of the coldest cell */
    double rise; /* of the hottest above it */
};

static struct scale scale_of(const struct samples *s) {
    double min = s->value[0], max = s->value[0];

    for (ptrdiff_t k = 1; k < (ptrdiff_t)s->side * s->side; k++) {
        min = fmin(min, s->value[k]);
        max = fmax(max, s->value[k]);
    }
    return (struct scale){min, max - min};
}

/* 1 at the highest rise, 0 at DECADES below it; less where it is lower still. */
static double scale_place(const struct scale *scale, double rise) {
    if (!(rise > 0 && scale->rise > 0))
        return -1;
    return 1 + log10(rise / scale->rise) / DECADES;
}

struct canvas {
    int width, height;
    uint8_t *rgb; /* row 0 is on top */
};

static void canvas_fill(struct canvas *c, int x, int y, int width, int height, const uint8_t rgb[3]) {
    for (int j = y; j < y + height; j++)
        for (int i = x; i < x + width; i++)
            if (i >= 0 && i < c->width && j >= 0 && j < c->height)
                memcpy(c->rgb + 3 * ((ptrdiff_t)j * c->width + i), rgb, 3);
}

static const uint8_t INK[3] = {40, 40, 40};

/* A number, 7 units high, in glyphs of 5 x 7. */
static void canvas_text(struct canvas *c, int x, int y, int unit, const char *text) {
    static const char known[] = "0123456789.-e+";
    static const uint8_t glyphs[][7] = {
        {0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e}, {0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e},
        {0x0e, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1f}, {0x1f, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0e},
        {0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02}, {0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e},
        {0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e}, {0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08},
        {0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e}, {0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c},
        {0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c}, {0x00, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x00},
        {0x00, 0x00, 0x0e, 0x11, 0x1f, 0x10, 0x0e}, {0x00, 0x04, 0x04, 0x1f, 0x04, 0x04, 0x00},
    };

    for (; *text != '\0'; text++, x += GLYPH_WIDTH * unit) {
        const char *found = strchr(known, *text);
        for (int bit = 0; found != NULL && bit < 35; bit++)
            if (glyphs[found - known][bit / 5] & (0x10 >> bit % 5))
                canvas_fill(c, x + bit % 5 * unit, y + bit / 5 * unit, unit, unit, INK);
    }
}

static void draw_field(struct canvas *c, const struct samples *s, const struct scale *scale, int grow) {
    uint8_t rgb[3];

    for (int y = 0; y < s->side; y++) {
        for (int x = 0; x < s->side; x++) {
            colour(scale_place(scale, s->value[(ptrdiff_t)y * s->side + x] - scale->cold), rgb);
            canvas_fill(c, MARGIN + x * grow, MARGIN + (s->side - 1 - y) * grow, grow, grow, rgb);
        }
    }
}

/* The edges of the regions, which the heat will follow: where the density changes. */
static void draw_edges(struct canvas *c, const struct deck *deck, const struct samples *s, int grow) {
    static const uint8_t wall[3] = {110, 110, 110};

    for (int y = 0; y < s->side; y++) {
        for (int x = 0; x < s->side; x++) {
            const int cx = x * s->shrink, cy = y * s->shrink;
            const int left = MARGIN + x * grow, top = MARGIN + (s->side - 1 - y) * grow;
            const double here = problem_density(deck, cx, cy);
            if (x + 1 < s->side && here != problem_density(deck, cx + s->shrink, cy))
                canvas_fill(c, left + grow - 1, top, 1, grow, wall);
            if (y + 1 < s->side && here != problem_density(deck, cx, cy + s->shrink))
                canvas_fill(c, left, top, grow, 1, wall);
        }
    }
}

/* The colours from bottom to top, with a tick at every power of ten. */
static void draw_bar(struct canvas *c, const struct scale *scale, int x, int height, int unit) {
    uint8_t rgb[3];

    for (int k = 0; k < height; k++) {
        colour(1 - (double)k / (height - 1), rgb);
        canvas_fill(c, x, MARGIN + k, BAR_WIDTH, 1, rgb);
    }
    for (int decade = -30; decade < 30; decade++) {
        const double rise = pow(10, decade), place = scale_place(scale, rise);
        const int y = MARGIN + (int)((1 - place) * (height - 1));
        char label[24];

        if (place < 0 || place > 1)
            continue;
        snprintf(label, sizeof(label), "%g", rise);
        canvas_fill(c, x + BAR_WIDTH, y - unit / 2, 3 * unit, unit, INK);
        canvas_text(c, x + BAR_WIDTH + 5 * unit, y - 7 * unit / 2, unit, label);
    }
}

/* Sizes the canvas and draws on it; the caller frees rgb. */
static bool draw(struct canvas *c, const struct deck *deck, const struct samples *s) {
    const int grow = s->side < WANTED_SIDE ? (WANTED_SIDE + s->side - 1) / s->side : 1, side = s->side * grow;
    const int unit = side < 1000 ? 2 : side / 500;
    const struct scale scale = scale_of(s);

    c->height = side + 2 * MARGIN;
    c->width = side + 3 * MARGIN + BAR_WIDTH + (5 + GLYPH_WIDTH * LABEL_GLYPHS) * unit;
    c->rgb = malloc(3 * (size_t)c->width * (size_t)c->height);
    if (c->rgb == NULL)
        return false;
    memset(c->rgb, 255, 3 * (size_t)c->width * (size_t)c->height);
    draw_field(c, s, &scale, grow);
    draw_edges(c, deck, s, grow);
    draw_bar(c, &scale, side + 2 * MARGIN, side, unit);
    return true;
}

#ifdef HEAT_HAVE_PNG
#include <png.h>

bool picture_available(void) {
    return true;
}

static bool encode(FILE *file, const struct canvas *c) {
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)c->width,
                       .height = (png_uint_32)c->height,
                       .format = PNG_FORMAT_RGB};

    if (png_image_write_to_stdio(&image, file, 0, c->rgb, 0, NULL) != 0 && fflush(file) == 0)
        return true;
    fprintf(stderr, "heat: the picture could not be written: %s\n", image.message);
    return false;
}
#else
bool picture_available(void) {
    return false;
}

static bool encode(FILE *file, const struct canvas *c) {
    (void)file;
    (void)c;
    return false;
}
#endif

bool picture_write(FILE *file, const struct deck *deck, const struct block *block, struct comm *comm) {
    struct samples samples;
    struct canvas canvas = {0, 0, NULL};
    bool fine = samples_collect(&samples, block, comm);

    if (fine && block->rank == 0) {
        fine = draw(&canvas, deck, &samples);
        if (fine)
            fine = encode(file, &canvas);
        else
            fprintf(stderr, "heat: out of memory for the picture\n");
    } else if (block->rank == 0) {
        fprintf(stderr, "heat: out of memory for the picture\n");
    }
    free(canvas.rgb);
    free(samples.value);
    return agree(fine);
}
