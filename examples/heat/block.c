/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How the square is cut: a grid of ranks as square as their number allows, blocks that differ by at most one cell
 * per direction. Any rank can compute the block of any other, so no geometry is ever sent.
 */
#include <string.h>

#include "heat.h"

/* Part `index` of n cells cut into `parts`. */
static void cut(int n, int parts, int index, int *first_out, int *count_out) {
    const int base = n / parts, extra = n % parts;

    *first_out = index * base + (index < extra ? index : extra);
    *count_out = base + (index < extra ? 1 : 0);
}

bool block_make(int n, int rank, int size, struct block *block_out) {
    int dims[2] = {0, 0};
    MPI_Dims_create(size, 2, dims);

    /* The larger number cuts the rows: edges along a row are contiguous, and those across are not. */
    struct block b = {.n = n, .rank = rank, .columns = dims[1], .rows = dims[0]};
    if (b.columns > n || b.rows > n)
        return false;

    const int column = rank % b.columns, row = rank / b.columns;
    cut(n, b.columns, column, &b.x0, &b.nx);
    cut(n, b.rows, row, &b.y0, &b.ny);
    b.pitch = (ptrdiff_t)(ROW_START + b.nx + 1 + 7) / 8 * 8;
    b.neighbour[WEST] = column > 0 ? rank - 1 : MPI_PROC_NULL;
    b.neighbour[EAST] = column < b.columns - 1 ? rank + 1 : MPI_PROC_NULL;
    b.neighbour[SOUTH] = row > 0 ? rank - b.columns : MPI_PROC_NULL;
    b.neighbour[NORTH] = row < b.rows - 1 ? rank + b.columns : MPI_PROC_NULL;
    *block_out = b;
    return true;
}

/*
 * Whole pages plus seven cache lines. Fields that lay about a multiple of 4 KiB apart would have equal cells fall into
 * the same cache set, and make the processor mistake loads of one field for stores to another. Nine fields are spread
 * evenly so.
 */
size_t block_field_stride(const struct block *b) {
    const size_t page = 512, lines = 56;

    return ((size_t)(cell(b, b->nx, b->ny) + 1) + page - 1) / page * page + lines;
}

void block_pack_column(const struct block *b, const double *field, int i, double *column) {
    const double *from = field + cell(b, i, 0);

    for (int j = 0; j < b->ny; j++)
        column[j] = from[j * b->pitch];
}

void block_unpack_column(const struct block *b, double *field, int i, const double *column) {
    double *to = field + cell(b, i, 0);

    for (int j = 0; j < b->ny; j++)
        to[j * b->pitch] = column[j];
}

void block_copy_cells(const struct block *b, const double *field, double *cells) {
    for (int j = 0; j < b->ny; j++)
        memcpy(cells + (size_t)j * (size_t)b->nx, field + cell(b, 0, j), (size_t)b->nx * sizeof(double));
}
