#include "bench/cases/probe_case.h"

#include <math.h>
#include <string.h>

#include <tandem/tandem.h>

#include "bench/cases/case_fields.h"
#include "common/random_fill.h"
#include "quant/number_formats.h"

enum {
    MAX_COMMANDS = 4096
};

/* x ← x·a + b: a step too few is far from the end. As many bits as the dtype has. */
typedef struct step_numbers {
    double a, b;
} step_numbers;

static const char *const kind_names[] = {"fma", "ladder", "read", "launch"};

const char *probe_kind_name(probe_kind kind) {
    return kind_names[kind];
}

int probe_kind_computes(probe_kind kind) {
    return kind == PROBE_FMA;
}

const char *probe_arithmetic_name(tdm_dtype dtype) {
    return dtype == TDM_S8 ? "dot" : "fma";
}

int probe_word_operations(tdm_dtype dtype) {
    return dtype == TDM_S8 ? 8 : dtype == TDM_F32 ? 2 : 4;
}

static const case_field fields[] = {
    CASE_FIELD(probe_case, kind, PROBE_FMA, PROBE_LAUNCH),
    CASE_FIELD(probe_case, dtype, 0, INT32_MAX),
    CASE_FIELD(probe_case, bytes, 0, INT64_MAX),
    CASE_FIELD(probe_case, steps, 0, INT32_MAX),
    CASE_FIELD(probe_case, share, 0, 8),
    CASE_FIELD(probe_case, commands, 0, MAX_COMMANDS),
    CASE_FIELD(probe_case, seed, INT64_MIN, INT64_MAX),
};

void probe_case_write(const probe_case *item, worker_text *line) {
    case_fields_write(fields, sizeof fields / sizeof *fields, item, line);
}

int probe_case_read(const char *line, probe_case *item) {
    return case_fields_read(fields, sizeof fields / sizeof *fields, line, item);
}

static step_numbers numbers_of(tdm_dtype dtype) {
    return (step_numbers){dtype == TDM_BF16 ? -0.99609375 : -0.9990234375, 0.75};
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

int probe_constants(const probe_case *item, uint32_t constants[PROBE_CONSTANTS]) {
    const step_numbers numbers = numbers_of(item->dtype);
    if (item->dtype == TDM_S8) {
        constants[0] = (uint32_t)random_bits(item->seed + 1000, 0) & 0x7f7f7f7f;
        return 1;
    }
    if (item->dtype == TDM_F32) {
        constants[0] = float_word((float)numbers.a);
        constants[1] = float_word((float)numbers.b);
    } else {
        constants[0] = pair_of(item->dtype, numbers.a, numbers.a);
        constants[1] = pair_of(item->dtype, numbers.b, numbers.b);
    }
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

static float stepped_float(uint32_t word, int64_t steps) {
    const step_numbers numbers = numbers_of(TDM_F32);
    const float a = (float)numbers.a;
    const float b = (float)numbers.b;
    float x;
    memcpy(&x, &word, sizeof x);
    for (int64_t step = 0; step < steps; step++)
        x = fmaf(x, a, b);
    return x;
}

/* Such a number's multiply-add is exact in a double, and rounded once behind it. */
static double stepped_half(tdm_dtype dtype, double x, int64_t steps) {
    const step_numbers numbers = numbers_of(dtype);
    for (int64_t step = 0; step < steps; step++) {
        const double exact = x * numbers.a + numbers.b;
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

uint32_t probe_pair_sum(const probe_case *item, uint32_t word, int64_t steps) {
    const step_numbers numbers = numbers_of(item->dtype);
    const double products = 2.0 * numbers.b * numbers.b;
    return float_word((float)((double)(word & 63) + (double)steps * products));
}

uint32_t probe_tile_step(const probe_case *item, int chains, int column) {
    uint32_t sum = 0;
    for (int row = 0; row < PROBE_TILE_ROWS; row++) {
        const int place = chains * PROBE_TILE_WORDS + row * PROBE_TILE_ROWS + column;
        const uint32_t quad = probe_word(item, (uint64_t)place);
        sum += stepped_bytes(item, quad, 1) - quad;
    }
    return sum;
}

uint32_t probe_stepped_word(const probe_case *item, uint32_t word, int64_t steps) {
    const uint16_t halves[2] = {(uint16_t)word, (uint16_t)(word >> 16)};
    if (item->dtype == TDM_S8)
        return stepped_bytes(item, word, steps);
    if (item->dtype == TDM_F32)
        return float_word(stepped_float(word, steps));
    return pair_of(item->dtype,
                   stepped_half(item->dtype, tdm_number_get(item->dtype, halves, 0), steps),
                   stepped_half(item->dtype, tdm_number_get(item->dtype, halves, 1), steps));
}

double probe_ladder_intensity(const probe_case *item) {
    const double of_step = probe_word_operations(item->dtype) / 4.0;
    return item->steps > 0 ? of_step * (double)item->steps : of_step / (double)item->share;
}

uint32_t probe_read_word(const probe_case *item, uint64_t index) {
    const uint64_t bits = random_bits(item->seed, index / 2);
    return (uint32_t)(index % 2 == 0 ? bits : bits >> 32);
}

int32_t probe_launch_value(const probe_case *item) {
    return (int32_t)(random_bits(item->seed, 0) >> 33);
}
