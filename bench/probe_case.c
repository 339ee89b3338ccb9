#include "bench/probe_case.h"

#include <math.h>
#include <string.h>

#include "bench/random_fill.h"

const float probe_fma_a = -0.9990234375f;
const float probe_fma_b = 0.75f;

/* A multiply-add may round once or twice; the two drift apart by less than this over thousands of steps. */
static const double fma_tolerance = 1e-4;

enum {
    LADDER_CHECKS = 20000000 /* elements */
};

static const char *const kind_names[] = {"fma", "dot", "ladder", "read", "launch"};

const char *probe_kind_name(probe_kind kind) {
    return kind_names[kind];
}

int probe_kind_computes(probe_kind kind) {
    return kind == PROBE_FMA || kind == PROBE_DOT;
}

int probe_kind_parse(const char *name, probe_kind *kind) {
    for (int i = PROBE_FMA; i <= PROBE_LAUNCH; i++) {
        if (strcmp(name, kind_names[i]) != 0)
            continue;
        *kind = (probe_kind)i;
        return 0;
    }
    return -1;
}

void probe_case_write(const probe_case *item, worker_text *line) {
    worker_field_add(line, "suite", "probe");
    worker_field_add(line, "kind", probe_kind_name(item->kind));
    worker_field_add_integer(line, "bytes", item->bytes);
    worker_field_add_integer(line, "steps", item->steps);
    worker_field_add_integer(line, "share", item->share);
    worker_field_add_integer(line, "seed", (int64_t)item->seed);
}

int probe_case_read(const char *line, probe_case *item) {
    char kind[16];
    worker_field(line, "kind", kind, sizeof kind);
    item->bytes = worker_field_integer(line, "bytes", 0);
    item->steps = worker_field_integer(line, "steps", 0);
    item->share = worker_field_integer(line, "share", 0);
    item->seed = (uint64_t)worker_field_integer(line, "seed", 0);
    if (probe_kind_parse(kind, &item->kind) != 0)
        return -1;
    if (probe_kind_computes(item->kind))
        return item->steps >= 1 && item->steps <= INT32_MAX ? 0 : -1;
    if (item->kind == PROBE_LADDER) {
        const int64_t share = item->share;
        const int takes_part = item->steps == 0 && (share == 2 || share == 4 || share == 8);
        return item->bytes >= 1 && (takes_part || (item->steps >= 1 && share == 0)) &&
                       item->steps <= INT32_MAX
                   ? 0
                   : -1;
    }
    return item->bytes >= (item->kind == PROBE_READ) ? 0 : -1;
}

float probe_fma_start(const probe_case *item, int width, int chain, int lane) {
    float value;
    const int place = chain * width + lane;
    random_fill_numbers(TDM_F32, item->seed + (uint64_t)place, &value, 1);
    return value;
}

uint32_t probe_dot_start(const probe_case *item, int width, int chain, int lane) {
    const int place = chain * width + lane;
    return (uint32_t)random_bits(item->seed, (uint64_t)place);
}

uint32_t probe_dot_factor(const probe_case *item, int lane) {
    return (uint32_t)random_bits(item->seed + 1000, (uint64_t)lane);
}

float probe_ladder_element(const probe_case *item, uint64_t index) {
    return random_number(item->seed, index % PROBE_LADDER_PERIOD);
}

double probe_ladder_intensity(const probe_case *item) {
    return item->steps > 0 ? (double)item->steps / 2 : 0.5 / (double)item->share;
}

uint32_t probe_read_word(const probe_case *item, uint64_t index) {
    const uint64_t bits = random_bits(item->seed, index / 2);
    return (uint32_t)(index % 2 == 0 ? bits : bits >> 32);
}

int32_t probe_launch_value(const probe_case *item) {
    return (int32_t)(random_bits(item->seed, 0) >> 33);
}

/* The sum of a lane's chains, which is what an item stores for it. */
static float expected_sum(const probe_case *item, int width, int chains, int lane) {
    float sum = 0;
    for (int chain = 0; chain < chains; chain++) {
        float x = probe_fma_start(item, width, chain, lane);
        for (int64_t step = 0; step < item->steps; step++)
            x = fmaf(x, probe_fma_a, probe_fma_b);
        sum += x;
    }
    return sum;
}

static uint32_t expected_dot_sum(const probe_case *item, int width, int chains, int lane) {
    const uint32_t factor = probe_dot_factor(item, lane);
    uint32_t sum = 0;
    for (int chain = 0; chain < chains; chain++) {
        uint32_t x = probe_dot_start(item, width, chain, lane);
        for (int64_t step = 0; step < item->steps; step++) {
            int32_t products = 0;
            for (int byte = 0; byte < 32; byte += 8)
                products += (int32_t)(uint8_t)(x >> byte) * (int8_t)(uint8_t)(factor >> byte);
            x += (uint32_t)products;
        }
        sum += x;
    }
    return sum;
}

static int head_of_chains(const uint32_t *head, size_t count, worker_text *reason) {
    const int width = (int)head[0];
    const int chains = (int)head[1];
    if (width >= 1 && width <= PROBE_MAX_WIDTH && chains >= 1 && chains <= PROBE_MAX_CHAINS &&
        count > 0 && count % (size_t)width == 0)
        return 1;
    worker_text_set(reason, "the output has a head of %d lanes and %d chains", width, chains);
    return 0;
}

static int check_dot(const probe_case *item, const uint32_t *head, const void *values, size_t count,
                     double *max_error, worker_text *reason) {
    const int width = (int)head[0];
    uint32_t expected[PROBE_MAX_WIDTH];
    *max_error = 0;
    if (!head_of_chains(head, count, reason))
        return -1;
    for (int lane = 0; lane < width; lane++)
        expected[lane] = expected_dot_sum(item, width, (int)head[1], lane);
    for (size_t i = 0; i < count; i++) {
        uint32_t got;
        memcpy(&got, (const char *)values + i * sizeof got, sizeof got);
        if (got == expected[i % (size_t)width])
            continue;
        worker_text_set(reason, "lane %zu ends at %u, should be %u", i, got,
                        expected[i % (size_t)width]);
        return -1;
    }
    return 0;
}

static int check_fma(const probe_case *item, const uint32_t *head, const void *values, size_t count,
                     double *max_error, worker_text *reason) {
    const int width = (int)head[0];
    const int chains = (int)head[1];
    float expected[PROBE_MAX_WIDTH];
    if (!head_of_chains(head, count, reason))
        return -1;
    for (int lane = 0; lane < width; lane++)
        expected[lane] = expected_sum(item, width, chains, lane);
    *max_error = 0;
    for (size_t i = 0; i < count; i++) {
        float got;
        memcpy(&got, (const char *)values + i * sizeof got, sizeof got);
        const double error = fabs((double)got - (double)expected[i % (size_t)width]) / chains;
        if (!(error <= *max_error))
            *max_error = error;
        if (error <= fma_tolerance) /* a NaN is not */
            continue;
        worker_text_set(reason, "lane %zu ends at %.9g, should be %.9g", i, (double)got,
                        (double)expected[i % (size_t)width]);
        return -1;
    }
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

/* Elements after their steps, and as they were. */
typedef struct ladder_table {
    float stepped[PROBE_LADDER_PERIOD];
    float plain[PROBE_LADDER_PERIOD];
} ladder_table;

static void fill_table(const probe_case *item, ladder_table *table) {
    const int64_t steps = item->steps > 0 ? item->steps : 1;
    for (uint64_t i = 0; i < PROBE_LADDER_PERIOD; i++) {
        float x = probe_ladder_element(item, i);
        table->plain[i] = x;
        for (int64_t step = 0; step < steps; step++)
            x = fmaf(x, probe_fma_a, probe_fma_b);
        table->stepped[i] = x;
    }
}

/* One lane of an item; what the head says of its walk is modulo the period. */
static float ladder_sum(const ladder_table *table, const uint32_t *walk, uint64_t at) {
    float sum = 0;
    for (uint32_t pass = 0; pass < walk[PROBE_WALK_PASSES]; pass++) {
        for (uint32_t chain = 0; chain < walk[PROBE_WALK_CHAINS]; chain++) {
            const uint64_t place =
                (at + (uint64_t)chain * walk[PROBE_WALK_GAP]) % PROBE_LADDER_PERIOD;
            sum += chain < walk[PROBE_WALK_STEPPED] ? table->stepped[place] : table->plain[place];
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
    fill_table(item, &table);
    const size_t sums = count - PROBE_WALK_WORDS;
    const double elements = (double)walk[PROBE_WALK_PASSES] * walk[PROBE_WALK_CHAINS];
    const size_t apart = 1 + (size_t)((double)sums * elements / LADDER_CHECKS);
    for (size_t i = sums - 1; i < sums; i -= apart) {
        float got = 0;
        memcpy(&got, (const char *)values + sizeof walk + i * sizeof got, sizeof got);
        const uint64_t at = (uint64_t)(i / width) * walk[PROBE_WALK_FIRST] + i % width;
        const double expected = (double)ladder_sum(&table, walk, at);
        const double error = fabs((double)got - expected) / elements;
        if (!(error <= *max_error))
            *max_error = error;
        if (error <= fma_tolerance) /* a NaN is not */
            continue;
        worker_text_set(reason, "sum %zu is %.9g, should be %.9g", i, (double)got, expected);
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
    if (item->kind == PROBE_LAUNCH)
        return check_launch(item, values, count, max_error, reason);
    if (item->kind == PROBE_DOT)
        return check_dot(item, head, values, count, max_error, reason);
    if (item->kind == PROBE_LADDER)
        return check_ladder(item, head, values, count, max_error, reason);
    return item->kind == PROBE_FMA ? check_fma(item, head, values, count, max_error, reason)
                                   : check_read(item, head, values, count, max_error, reason);
}
