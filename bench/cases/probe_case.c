#include "bench/cases/probe_case.h"

#include <math.h>
#include <string.h>

#include "bench/cases/case_fields.h"
#include "common/random_fill.h"
#include "quant/number_formats.h"

enum {
    MAX_COMMANDS = 4096,
    MAX_WIDTH = 16,
    MAX_CHAINS = 16,
    PAIR_LANES = 16 /* the width of a bf16 variant that adds products of pairs to f32 sums */
};

/*
 * A multiply-add may round once or twice. The two results differ by less than this over thousands
 * of steps.
 */
static const double fma_tolerance = 1e-4;

static const case_field fields[] = {
    CASE_FIELD(probe_case, kind, PROBE_FMA, PROBE_LAUNCH),
    CASE_FIELD(probe_case, dtype, 0, INT32_MAX),
    CASE_FIELD(probe_case, steps, 0, INT32_MAX),
    CASE_FIELD(probe_case, commands, 0, MAX_COMMANDS),
    CASE_FIELD(probe_case, seed, INT64_MIN, INT64_MAX),
};

void probe_case_write(const probe_case *item, worker_text *line) {
    case_fields_write(fields, sizeof fields / sizeof *fields, item, line);
}

int probe_case_read(const char *line, probe_case *item) {
    return case_fields_read(fields, sizeof fields / sizeof *fields, line, item);
}

const char *probe_kind_name(probe_kind kind) {
    static const char *const names[] = {"fma", "launch"};
    return names[kind];
}

const char *probe_arithmetic_name(tdm_dtype dtype) {
    return dtype == TDM_S8 ? "dot" : "fma";
}

int probe_word_operations(tdm_dtype dtype) {
    return dtype == TDM_S8 ? 8 : dtype == TDM_F32 ? 2 : 4;
}

/* ---- words and steps ---- */

/*
 * The constants of x ← x·a + b have no more bits than the dtype holds. If a step is missing, x ends
 * far from the expected value.
 */
static const double step_b = 0.75;

static double step_a(tdm_dtype dtype) {
    return dtype == TDM_BF16 ? -0.99609375 : -0.9990234375;
}

static uint32_t pair_of(tdm_dtype dtype, double low, double high) {
    uint16_t halves[2];
    tdm_number_set(dtype, halves, 0, low);
    tdm_number_set(dtype, halves, 1, high);
    return halves[0] | (uint32_t)halves[1] << 16;
}

static uint32_t float_word(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static float float_of(uint32_t word) {
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

int probe_constants(const probe_case *item, uint32_t constants[PROBE_CONSTANTS]) {
    const tdm_dtype dtype = item->dtype;
    const double a = step_a(dtype);
    if (dtype == TDM_S8) {
        constants[0] = (uint32_t)random_bits(item->seed + 1000, 0) & 0x7f7f7f7f;
        return 1;
    }
    constants[0] = dtype == TDM_F32 ? float_word((float)a) : pair_of(dtype, a, a);
    constants[1] = dtype == TDM_F32 ? float_word((float)step_b) : pair_of(dtype, step_b, step_b);
    return 2;
}

uint32_t probe_word(const probe_case *item, uint64_t index) {
    const uint64_t place = index % PROBE_PERIOD;
    if (item->dtype == TDM_S8)
        return (uint32_t)random_bits(item->seed, place);
    if (item->dtype == TDM_F32)
        return float_word(random_number(item->seed, place));
    return pair_of(item->dtype, random_number(item->seed, 2 * place),
                   random_number(item->seed, 2 * place + 1));
}

int32_t probe_launch_value(const probe_case *item) {
    return (int32_t)(random_bits(item->seed, 0) >> 33);
}

static uint32_t stepped_float(uint32_t word, int64_t steps) {
    float x = float_of(word);
    for (int64_t step = 0; step < steps; step++)
        x = fmaf(x, (float)step_a(TDM_F32), (float)step_b);
    return float_word(x);
}

/*
 * Applies steps to an f16 or bf16 number. Its multiply-add is exact in a double, and is rounded
 * once afterwards.
 */
static double stepped_half(tdm_dtype dtype, double x, int64_t steps) {
    for (int64_t step = 0; step < steps; step++) {
        const double exact = x * step_a(dtype) + step_b;
        x = (double)(dtype == TDM_F16 ? tdm_f32_from_f16(tdm_f16_from_f64(exact))
                                      : tdm_f32_from_bf16(tdm_bf16_from_f64(exact)));
    }
    return x;
}

static uint32_t stepped_bytes(const probe_case *item, uint32_t x, int64_t steps) {
    uint32_t factors[PROBE_CONSTANTS] = {0};
    probe_constants(item, factors);
    for (int64_t step = 0; step < steps; step++) {
        int32_t products = 0;
        for (int byte = 0; byte < 32; byte += 8)
            products += (int8_t)(uint8_t)(x >> byte) * (int8_t)(uint8_t)(factors[0] >> byte);
        x += (uint32_t)products;
    }
    return x;
}

/* True if the kernel adds products of pairs of bf16. */
static int sums_pairs(const probe_case *item, size_t width) {
    return item->dtype == TDM_BF16 && width == PAIR_LANES;
}

/* True if the kernel's chains end in f32 numbers. */
static int sums_floats(const probe_case *item, size_t width) {
    return item->dtype == TDM_F32 || sums_pairs(item, width);
}

/*
 * Applies steps to a word. A pair variant starts from the word's low six bits and computes
 * x ← x + b·b + b·b. The result is exact for as many steps as a device takes.
 */
static uint32_t stepped_word(const probe_case *item, size_t width, uint32_t word, int64_t steps) {
    const uint16_t halves[2] = {(uint16_t)word, (uint16_t)(word >> 16)};
    if (sums_pairs(item, width))
        return float_word((float)((double)(word & 63) + (double)steps * 2 * step_b * step_b));
    if (item->dtype == TDM_S8)
        return stepped_bytes(item, word, steps);
    if (item->dtype == TDM_F32)
        return stepped_float(word, steps);
    return steps == 0
               ? word
               : pair_of(item->dtype,
                         stepped_half(item->dtype, tdm_number_get(item->dtype, halves, 0), steps),
                         stepped_half(item->dtype, tdm_number_get(item->dtype, halves, 1), steps));
}

/* ---- checks ---- */

/* Adds two words in the way in which the kernels add the final values of their chains. */
static uint32_t add_words(int floats, uint32_t sum, uint32_t word) {
    return floats ? float_word(float_of(sum) + float_of(word)) : sum + word;
}

/* Checks value `index`, the sum of `words` words, against the expected value. */
static int check_sum(int floats, size_t index, uint32_t got, uint32_t expected, double words,
                     double *max_error, worker_text *reason) {
    if (!floats)
        return got == expected
                   ? 0
                   : CASE_WRONG(reason, "sum %zu is %u, should be %u", index, got, expected);
    const double error = fabs((double)float_of(got) - (double)float_of(expected)) / words;
    if (!(error <= *max_error))
        *max_error = error;
    if (error <= fma_tolerance) /* false for a NaN */
        return 0;
    return CASE_WRONG(reason, "sum %zu is %.9g, should be %.9g", index, (double)float_of(got),
                      (double)float_of(expected));
}

/* Returns the sum of a lane's chains, which is what a work-item stores for it. */
static uint32_t expected_end(const probe_case *item, size_t width, size_t chains, size_t lane) {
    uint32_t sum = 0;
    for (size_t chain = 0; chain < chains; chain++)
        sum = add_words(
            sums_floats(item, width), sum,
            stepped_word(item, width, probe_word(item, chain * width + lane), item->steps));
    return sum;
}

/*
 * Returns the expected sum of word `word` if the kernel computes in tiles. A step adds
 * PROBE_TILE_ROWS dot products to each word. Each multiplies the bytes of the constant a by a quad:
 * four bytes of the tile B, in the word's column. B follows the chains' start words.
 */
static uint32_t expected_word(const probe_case *item, size_t chains, size_t word) {
    uint32_t sum = 0, step = 0;
    for (size_t chain = 0; chain < chains; chain++)
        sum += probe_word(item, chain * PROBE_TILE_WORDS + word);
    for (size_t row = 0; row < PROBE_TILE_ROWS; row++) {
        const uint32_t quad = probe_word(item, chains * PROBE_TILE_WORDS + row * PROBE_TILE_ROWS +
                                                   word % PROBE_TILE_ROWS);
        step += stepped_bytes(item, quad, 1) - quad;
    }
    return sum + step * (uint32_t)item->steps * (uint32_t)chains;
}

static int check_fma(const probe_case *item, const uint32_t *head, const uint32_t *values,
                     size_t count, double *max_error, worker_text *reason) {
    const size_t width = head[0], chains = head[1];
    const int in_tiles = width == PROBE_TILE_WORDS && item->dtype == TDM_S8;
    uint32_t expected[PROBE_TILE_WORDS];
    if (width < 1 || (width > MAX_WIDTH && !in_tiles) || chains < 1 || chains > MAX_CHAINS ||
        count == 0 || count % width != 0)
        return CASE_WRONG(reason, "the output has a head of %zu lanes and %zu chains", width,
                          chains);
    for (size_t lane = 0; lane < width; lane++)
        expected[lane] =
            in_tiles ? expected_word(item, chains, lane) : expected_end(item, width, chains, lane);
    for (size_t i = 0; i < count; i++)
        if (check_sum(sums_floats(item, width), i, values[i], expected[i % width], (double)chains,
                      max_error, reason) != 0)
            return -1;
    return 0;
}

int probe_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                     worker_text *reason) {
    const probe_case *const item = user;
    const uint32_t *const head = output, *const values = head + PROBE_HEAD_WORDS;
    *max_error = NAN;
    if (bytes < PROBE_HEAD_WORDS * sizeof *head || bytes % sizeof *head != 0)
        return CASE_WRONG(reason, "the output has %zu bytes", bytes);
    const size_t count = bytes / sizeof *head - PROBE_HEAD_WORDS;
    *max_error = 0;
    if (item->kind == PROBE_FMA)
        return check_fma(item, head, values, count, max_error, reason);
    return count == 1 && values[0] == (uint32_t)probe_launch_value(item)
               ? 0
               : CASE_WRONG(reason, "%zu words, not one of %d", count, probe_launch_value(item));
}
