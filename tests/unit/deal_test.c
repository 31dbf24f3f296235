/*
 * Copyright (c) 2026, the peerwin contributors.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How the moves of plans are dealt to the blocks of kernels: every item of every move to one warp, whose block works
 * for the move's target alone; and never more blocks that wait than may.
 */
#include <stdlib.h>

#include "halo/deal.h"
#include "unit/unit.h"

enum { TRIES = 2000, MOST_TARGETS = 6, MOST_MOVES = 5, PITCH = 4096 };

static uint64_t random_state = 20261130;

static size_t draw(size_t low, size_t high) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return low + (size_t)(random_state >> 33) % (high - low + 1);
}

/* A deal with the memory that it and its targets need. */
typedef struct {
    pw_deal deal;
    pw_target targets[MOST_TARGETS];
    pw_push_move laid[MOST_TARGETS * MOST_MOVES + 1];
    pw_moves moves[MOST_TARGETS];
    pw_move list[MOST_TARGETS][MOST_MOVES];
    pw_halo_neighbor neighbor;
} hand;

/* Addresses that nobody looks at. */
static char memory[64];

static void add_move(pw_moves *moves, size_t unit, size_t most) {
    peerwin_box to = {.count = {unit * draw(0, most), draw(1, most), draw(1, 9)}};
    peerwin_box from = to;
    to.stride[0] = to.count[0] + unit * draw(0, 9);
    to.stride[1] = to.count[1] * to.stride[0] + unit * draw(0, 9);
    from.stride[0] = from.count[0] + unit * draw(0, 1);
    from.stride[1] = from.count[1] * from.stride[0];
    pw_moves_add(moves, NULL, memory, &to, memory, &from);
}

static void draw_hand(hand *h) {
    const size_t most = draw(0, 3) == 0 ? 200 : 12;
    memset(h, 0, sizeof(*h));
    h->deal = (pw_deal){.targets = h->targets, .moves = h->laid, .unpacks = (int)draw(0, 1)};
    for (size_t t = draw(0, MOST_TARGETS); t > 0; t--) {
        const int words = draw(0, 3) == 0 ? 2 << draw(0, 1) : 0;
        h->moves[t - 1].list = h->list[t - 1];
        for (size_t m = draw(0, MOST_MOVES); m > 0; m--) {
            add_move(&h->moves[t - 1], words > 0 ? (size_t)words : draw(1, 16), most);
        }
        pw_deal_add(&h->deal, &h->moves[t - 1], &h->neighbor, words, PITCH);
    }
}

/* The parts of a target's blocks: each move's items once, one after the other; what is left over is empty. */
static void check_target(const pw_deal *d, const pw_target *t, const pw_push_part *parts, uint64_t count) {
    uint64_t dealt[MOST_MOVES] = {0};
    int over = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t move = parts[i].move - (uint32_t)(t->laid - d->moves);
        over |= parts[i].count == 0;
        if (over) {
            assert_int_equal(parts[i].count, 0);
            continue;
        }
        assert_true(move < (uint32_t)t->moves->count && parts[i].count <= d->per_part);
        assert_int_equal(parts[i].first, dealt[move]);
        dealt[move] += parts[i].count;
    }
    for (int m = 0; m < t->moves->count; m++) {
        assert_int_equal(dealt[m], pw_laid_items(&t->laid[m], &t->moves->list[m]));
    }
}

/* The table, as it is written for a device. */
static void check_table(pw_deal *d) {
    const size_t parts_bytes = (size_t)d->num_blocks * PW_PUSH_WARPS * sizeof(pw_push_part);
    char *table = calloc(1, parts_bytes + pw_deal_moves(d) * sizeof(pw_push_move) + 1);
    const pw_push_part *parts = (const pw_push_part *)(const void *)table;
    const pw_push_move *moves = (const pw_push_move *)(const void *)(table + parts_bytes);
    uint64_t first = 0;
    assert_non_null(table);
    d->parts = 0;
    d->laid = parts_bytes;
    for (uint32_t i = 0; i < d->num_targets; i++) {
        const uint64_t count = pw_deal_blocks(&d->targets[i], d->per_part) * PW_PUSH_WARPS;
        assert_true(first + count <= (uint64_t)d->num_blocks * PW_PUSH_WARPS);
        pw_deal_write_parts(d, &d->targets[i], (pw_push_part *)(void *)table + first);
        check_target(d, &d->targets[i], parts + first, count);
        first += count;
    }
    assert_int_equal(first, (uint64_t)d->num_blocks * PW_PUSH_WARPS);
    pw_deal_write_moves(d, table);
    for (uint64_t i = 0; i < first; i++) {
        if (parts[i].count > 0) {
            assert_memory_equal(&moves[d->apart ? i : parts[i].move], &d->moves[parts[i].move], sizeof(*moves));
        }
    }
    free(table);
}

static void every_item_is_dealt_once(void **state) {
    static const uint64_t shares[] = {0, 1, 2, 4, 33, 132};
    hand *h = malloc(sizeof(*h));
    int waiting = 0;
    int apart = 0;
    (void)state;
    assert_non_null(h);
    for (int i = 0; i < TRIES; i++) {
        const uint64_t share = shares[draw(0, 5)];
        const int may_wait = (int)draw(0, 1);
        draw_hand(h);
        pw_deal_settle(&h->deal, may_wait, share);
        assert_true(h->deal.per_part > 0 && h->deal.per_part % PW_PUSH_WARP == 0);
        assert_true(!h->deal.waits || (may_wait && h->deal.num_blocks < share));
        waiting += h->deal.waits;
        apart += h->deal.apart;
        check_table(&h->deal);
    }
    assert_in_range(waiting, TRIES / 10, TRIES * 9 / 10); /* either way was really tried */
    assert_in_range(apart, TRIES / 10, TRIES * 99 / 100);
    free(h);
}

/* Lanes count the items of a part in 32 bits, some rounds beyond its end. */
static void parts_of_huge_moves_can_be_counted(void **state) {
    static const uint64_t rows[] = {(uint64_t)1 << 33, (uint64_t)1 << 38, (uint64_t)48 << 32, ((uint64_t)1 << 44) - 1};
    hand *h = malloc(sizeof(*h));
    (void)state;
    assert_non_null(h);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const peerwin_box box = {.count = {1, rows[i], 1}, .stride = {2, 0}};
        memset(h, 0, sizeof(*h));
        h->deal = (pw_deal){.targets = h->targets, .moves = h->laid};
        h->moves[0].list = h->list[0];
        pw_moves_add(&h->moves[0], NULL, memory, &box, memory, &box);
        pw_deal_add(&h->deal, &h->moves[0], NULL, 0, 0);
        assert_true(h->laid[0].wide);
        pw_deal_settle(&h->deal, 0, 1);
        assert_in_range(h->deal.per_part, 1, (uint64_t)1 << 30);
        assert_true((uint64_t)h->deal.num_blocks * PW_PUSH_WARPS * h->deal.per_part >= rows[i]);
    }
    free(h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_dealt_once),
        cmocka_unit_test(parts_of_huge_moves_can_be_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
