/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How the cells are shared out, and which of them go where.
 */
#include "stencil3d.h"

#include <stdio.h>

/* The step of a direction in one dimension: -1, 0 or 1. */
static int step(int direction, int dim) {
    static const int divisor[DIMS] = {9, 3, 1};
    return direction / divisor[dim] % 3 - 1;
}

bool block_needs(const struct block *b, int direction) {
    int away = 0;
    for (int d = 0; d < DIMS; d++)
        away += step(direction, d) != 0;
    return away == 1 || (away > 1 && b->points == DIRECTIONS);
}

static void find_neighbours(struct block *b, const int here[DIMS]) {
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        int there[DIMS];
        for (int d = 0; d < DIMS; d++)
            there[d] = here[d] + step(direction, d); /* periodic: MPI takes what is out of range */
        MPI_Cart_rank(b->cart, there, &b->neighbour[direction]);
    }
}

/* The first cell of a part, of as many as there are ranks in a direction. */
static int first_of(int cells, int part, int parts) {
    const int rest = cells % parts;
    return cells / parts * part + (part < rest ? part : rest);
}

static void lay_out(struct block *b) {
    enum { LINE = 8 };
    b->row = (ptrdiff_t)(ROW_START + b->cells[2] + 1 + LINE - 1) / LINE * LINE;
    b->plane = b->row * (b->cells[1] + 2);
    b->field = (size_t)b->plane * (size_t)(b->cells[0] + 2);
    b->buffer = b->field * (size_t)b->fields;
}

/* As it was given, or as MPI likes. */
static bool make_grid(const struct options *options, struct block *b, char *problem, size_t problem_size) {
    const int periodic[DIMS] = {1, 1, 1}, *given = options->grid;

    MPI_Comm_size(MPI_COMM_WORLD, &b->ranks);
    if (given[0] > 0 && (int64_t)given[0] * given[1] * given[2] != b->ranks) {
        snprintf(problem, problem_size, "--grid: %d x %d x %d is not %d ranks", given[0], given[1], given[2], b->ranks);
        return false;
    }
    for (int d = 0; d < DIMS; d++)
        b->grid[d] = given[d];
    MPI_Dims_create(b->ranks, DIMS, b->grid);
    MPI_Cart_create(MPI_COMM_WORLD, DIMS, b->grid, periodic, 0, &b->cart);
    MPI_Comm_rank(b->cart, &b->rank);
    return true;
}

bool block_make(const struct options *options, struct block *b, char *problem, size_t problem_size) {
    int here[DIMS];

    *b = (struct block){.cart = MPI_COMM_NULL, .fields = options->fields, .points = options->points};
    if (!make_grid(options, b, problem, problem_size))
        return false;
    MPI_Cart_coords(b->cart, b->rank, DIMS, here);
    find_neighbours(b, here);
    for (int d = 0; d < DIMS; d++) {
        b->size[d] = options->size[d] * (options->local ? b->grid[d] : 1);
        b->first[d] = first_of(b->size[d], here[d], b->grid[d]);
        b->cells[d] = first_of(b->size[d], here[d] + 1, b->grid[d]) - b->first[d];
        if (b->size[d] < b->grid[d]) {
            snprintf(problem, problem_size, "%d cells cannot be shared by %d ranks in a row", b->size[d], b->grid[d]);
            block_free(b);
            return false;
        }
    }
    lay_out(b);
    return true;
}

void block_free(struct block *b) {
    MPI_Comm_free(&b->cart);
}

/* ------------------------------------------------------------------------------------------------- boxes */

/* In a direction: the cells at this end of the block, or the ghosts beyond; all cells across. */
static struct box at_end(const struct block *b, int direction, int beyond) {
    struct box box;
    for (int d = 0; d < DIMS; d++) {
        const int s = step(direction, d);
        box.cells[d] = s == 0 ? b->cells[d] : 1;
        box.first[d] = s == 0 ? 0 : s < 0 ? -beyond : b->cells[d] - 1 + beyond;
    }
    return box;
}

struct box block_edge(const struct block *b, int direction) {
    return at_end(b, direction, 0);
}

struct box block_ghosts(const struct block *b, int direction) {
    return at_end(b, direction, 1);
}

struct box block_all(const struct block *b) {
    return at_end(b, CENTRE, 0);
}

struct box block_inside(const struct block *b) {
    struct box box;
    for (int d = 0; d < DIMS; d++) {
        box.first[d] = 1;
        box.cells[d] = b->cells[d] > 2 ? b->cells[d] - 2 : 0;
    }
    return box;
}

/* Peels both ends off in one direction after the other, until the inside is left. */
void block_shell(const struct block *b, struct box boxes[SHELL_BOXES], int *count_out) {
    struct box rest = block_all(b);
    int count = 0;

    for (int d = 0; d < DIMS; d++) {
        for (int end = 0; end < 2 && rest.cells[d] > 0; end++) {
            struct box peel = rest;
            peel.cells[d] = 1;
            peel.first[d] = end == 0 ? 0 : b->cells[d] - 1;
            if (cells_of(&peel) > 0)
                boxes[count++] = peel;
            rest.cells[d]--;
            rest.first[d] += end == 0;
        }
    }
    *count_out = count;
}

size_t block_bytes(const struct block *b) {
    size_t cells = 0;
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        const struct box edge = block_edge(b, direction);
        if (block_needs(b, direction) && b->neighbour[direction] != b->rank)
            cells += cells_of(&edge);
    }
    return cells * (size_t)b->fields * sizeof(double);
}
