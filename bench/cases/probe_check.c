/* Whether a probe did what it was asked for. */
#include <math.h>
#include <string.h>

#include "bench/cases/probe_case.h"

/* A multiply-add may round once or twice; the two drift apart by less than this over thousands of steps. */
static const double fma_tolerance = 1e-4;

enum {
    LADDER_CHECKS = 20000000 /* words */
};

static float float_of(uint32_t word) {
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

/* Does it add up products of pairs of bf16? */
static int sums_pairs(const probe_case *item, size_t width) {
    return item->dtype == TDM_BF16 && width == PROBE_PAIR_LANES;
}

/* Are what its chains end at numbers of f32? */
static int sums_floats(const probe_case *item, size_t width) {
    return item->dtype == TDM_F32 || sums_pairs(item, width);
}

static uint32_t stepped_word(const probe_case *item, size_t width, uint32_t word, int64_t steps) {
    return sums_pairs(item, width) ? probe_pair_sum(item, word, steps)
           : steps == 0            ? word
                                   : probe_stepped_word(item, word, steps);
}

/* As the kernels add what their chains end at. */
static uint32_t add_words(int floats, uint32_t sum, uint32_t word) {
    if (!floats)
        return sum + word;
    const float both = float_of(sum) + float_of(word);
    memcpy(&sum, &both, sizeof sum);
    return sum;
}

static uint32_t value_at(const void *values, size_t index) {
    uint32_t value;
    memcpy(&value, (const char *)values + index * sizeof value, sizeof value);
    return value;
}

/* Value `index`, the sum of so many words, against what it should be. */
static int check_sum(int floats, size_t index, uint32_t got, uint32_t expected, double words,
                     double *max_error, worker_text *reason) {
    if (!floats) {
        if (got == expected)
            return 0;
        worker_text_set(reason, "sum %zu is %u, should be %u", index, got, expected);
        return -1;
    }
    const double error = fabs((double)float_of(got) - (double)float_of(expected)) / words;
    if (!(error <= *max_error))
        *max_error = error;
    if (error <= fma_tolerance) /* a NaN is not */
        return 0;
    worker_text_set(reason, "sum %zu is %.9g, should be %.9g", index, (double)float_of(got),
                    (double)float_of(expected));
    return -1;
}

/* The sum of a lane's chains, which is what an item stores for it. */
static uint32_t expected_end(const probe_case *item, int width, int chains, int lane) {
    uint32_t sum = 0;
    for (int chain = 0; chain < chains; chain++) {
        const uint32_t start = probe_word(item, (uint64_t)chain * (uint64_t)width + (uint64_t)lane);
        sum = add_words(sums_floats(item, (size_t)width), sum,
                        stepped_word(item, (size_t)width, start, item->steps));
    }
    return sum;
}

/* The same where lanes are the words of a tile. */
static uint32_t expected_word(const probe_case *item, int chains, int word) {
    uint32_t sum = 0;
    for (int chain = 0; chain < chains; chain++)
        sum += probe_word(item, (uint64_t)chain * PROBE_TILE_WORDS + (uint64_t)word);
    return sum + probe_tile_step(item, chains, word % PROBE_TILE_ROWS) * (uint32_t)item->steps *
                     (uint32_t)chains;
}

static int check_fma(const probe_case *item, const uint32_t *head, const void *values, size_t count,
                     double *max_error, worker_text *reason) {
    const int width = (int)head[0];
    const int chains = (int)head[1];
    const int in_tiles = width == PROBE_TILE_WORDS && item->dtype == TDM_S8;
    uint32_t expected[PROBE_TILE_WORDS];
    *max_error = 0;
    if (width < 1 || (width > PROBE_MAX_WIDTH && !in_tiles) || chains < 1 ||
        chains > PROBE_MAX_CHAINS || count == 0 || count % (size_t)width != 0) {
        worker_text_set(reason, "the output has a head of %d lanes and %d chains", width, chains);
        return -1;
    }
    for (int lane = 0; lane < width; lane++)
        expected[lane] =
            in_tiles ? expected_word(item, chains, lane) : expected_end(item, width, chains, lane);
    const int floats = sums_floats(item, (size_t)width);
    for (size_t i = 0; i < count; i++)
        if (check_sum(floats, i, value_at(values, i), expected[i % (size_t)width], chains,
                      max_error, reason) != 0)
            return -1;
    return 0;
}

/*
 * Sums modulo 2^32 in any order are exact, so lane by lane they say that every word was read once: a
 * word's lane is its place modulo the width.
 */
static int check_read(const probe_case *item, const uint32_t *head, const void *values,
                      size_t count, double *max_error, worker_text *reason) {
    const uint64_t width = head[0];
    const uint64_t words = head[1];
    uint32_t sums[PROBE_MAX_WIDTH] = {0};
    *max_error = 0;
    if (width < 1 || width > PROBE_MAX_WIDTH || count == 0 || 4 * words < (uint64_t)item->bytes) {
        worker_text_set(reason, "%llu words were read, %lld bytes are asked for",
                        (unsigned long long)words, (long long)item->bytes);
        return -1;
    }
    for (uint64_t i = 0; i < words; i++)
        sums[i % width] += probe_read_word(item, i);
    for (size_t i = 0; i < count; i++) {
        uint32_t got;
        memcpy(&got, (const char *)values + i * sizeof got, sizeof got);
        sums[i % width] -= got;
    }
    for (uint64_t lane = 0; lane < width; lane++) {
        if (sums[lane] == 0)
            continue;
        worker_text_set(reason, "the sum of lane %llu is wrong by %u", (unsigned long long)lane,
                        sums[lane]);
        return -1;
    }
    return 0;
}

/* Words after their steps, and as they were. */
typedef struct ladder_table {
    uint32_t stepped[PROBE_PERIOD];
    uint32_t plain[PROBE_PERIOD];
} ladder_table;

static void fill_table(const probe_case *item, size_t width, ladder_table *table) {
    const int64_t steps = item->steps > 0 ? item->steps : 1;
    for (uint64_t i = 0; i < PROBE_PERIOD; i++) {
        const uint32_t word = probe_word(item, i);
        table->plain[i] = stepped_word(item, width, word, 0);
        table->stepped[i] = stepped_word(item, width, word, steps);
    }
}

/* One lane of an item; what the head says of its walk is modulo the period. */
static uint32_t ladder_sum(const ladder_table *table, int floats, const uint32_t *walk,
                           uint64_t at) {
    uint32_t sum = 0;
    for (uint32_t pass = 0; pass < walk[PROBE_WALK_PASSES]; pass++) {
        for (uint32_t chain = 0; chain < walk[PROBE_WALK_CHAINS]; chain++) {
            const uint64_t place = (at + (uint64_t)chain * walk[PROBE_WALK_GAP]) % PROBE_PERIOD;
            sum = add_words(floats, sum,
                            chain < walk[PROBE_WALK_STEPPED] ? table->stepped[place]
                                                             : table->plain[place]);
        }
        at += walk[PROBE_WALK_STEP];
    }
    return sum;
}

/* Of many items some are looked at: the host has no time for all steps of all. */
static int check_ladder(const probe_case *item, const uint32_t *head, const void *values,
                        size_t count, double *max_error, worker_text *reason) {
    static ladder_table table;
    uint32_t walk[PROBE_WALK_WORDS];
    const size_t width = head[0];
    *max_error = 0;
    if (width < 1 || width > PROBE_MAX_WIDTH || count <= PROBE_WALK_WORDS ||
        4.0 * head[1] < (double)item->bytes) {
        worker_text_set(reason, "%u words were read, %lld bytes are asked for", head[1],
                        (long long)item->bytes);
        return -1;
    }
    memcpy(walk, values, sizeof walk);
    fill_table(item, width, &table);
    const int floats = sums_floats(item, width);
    const size_t sums = count - PROBE_WALK_WORDS;
    const double words = (double)walk[PROBE_WALK_PASSES] * walk[PROBE_WALK_CHAINS];
    const size_t apart = 1 + (size_t)((double)sums * words / LADDER_CHECKS);
    for (size_t i = sums - 1; i < sums; i -= apart) {
        const uint64_t at = (uint64_t)(i / width) * walk[PROBE_WALK_FIRST] + i % width;
        const uint32_t expected = ladder_sum(&table, floats, walk, at);
        if (check_sum(floats, i, value_at(values, PROBE_WALK_WORDS + i), expected, words, max_error,
                      reason) != 0)
            return -1;
    }
    return 0;
}

static int check_launch(const probe_case *item, const void *values, size_t count, double *max_error,
                        worker_text *reason) {
    int32_t got = 0;
    *max_error = 0;
    if (count == 1)
        memcpy(&got, values, sizeof got);
    if (count == 1 && got == probe_launch_value(item))
        return 0;
    worker_text_set(reason, "%zu words, the first is %d, should be %d", count, got,
                    probe_launch_value(item));
    return -1;
}

int probe_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                     worker_text *reason) {
    const probe_case *const item = user;
    uint32_t head[PROBE_HEAD_WORDS];
    *max_error = NAN;
    if (bytes < sizeof head || bytes % sizeof head[0] != 0) {
        worker_text_set(reason, "the output has %zu bytes", bytes);
        return -1;
    }
    memcpy(head, output, sizeof head);
    const void *const values = (const char *)output + sizeof head;
    const size_t count = (bytes - sizeof head) / sizeof head[0];
    switch (item->kind) {
    case PROBE_FMA:
        return check_fma(item, head, values, count, max_error, reason);
    case PROBE_LADDER:
        return check_ladder(item, head, values, count, max_error, reason);
    case PROBE_READ:
        return check_read(item, head, values, count, max_error, reason);
    default:
        return check_launch(item, values, count, max_error, reason);
    }
}
