#include "cli/quantize/quantize_ranging.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

struct quantize_ranging {
    int round; /* 0, 1 */
    tdm_quant_bounds seen;
    union {
        tdm_quant_histogram histogram;
        struct {
            tdm_quant_parameters candidates[TDM_QUANT_MSE_CANDIDATES];
            double errors[TDM_QUANT_MSE_CANDIDATES];
        } mse;
    } of;
};

static int has_histogram(const quantize_rule *rule) {
    return rule->kind == TDM_QUANT_OBSERVE_PERCENTILE || rule->kind == TDM_QUANT_OBSERVE_KL;
}

size_t quantize_ranging_bytes(const quantize_rule *rule) {
    enum {
        ALIGNMENT = _Alignof(quantize_ranging)
    };
    size_t bytes = offsetof(quantize_ranging, of);
    if (has_histogram(rule))
        bytes += sizeof(tdm_quant_histogram);
    else if (rule->kind == TDM_QUANT_OBSERVE_MSE)
        bytes += sizeof(((quantize_ranging *)NULL)->of.mse);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int quantize_ranging_rounds(const quantize_rule *rule) {
    return rule->kind == TDM_QUANT_OBSERVE_MSE ? 2 : 1;
}

void quantize_ranging_begin(const quantize_rule *rule, quantize_ranging *ranging) {
    ranging->round = 0;
    ranging->seen = (tdm_quant_bounds){HUGE_VALF, -HUGE_VALF};
    if (has_histogram(rule))
        tdm_quant_histogram_clear(&ranging->of.histogram);
}

static tdm_quant_bounds joined(tdm_quant_bounds a, tdm_quant_bounds b) {
    return (tdm_quant_bounds){b.minimum < a.minimum ? b.minimum : a.minimum,
                              b.maximum > a.maximum ? b.maximum : a.maximum};
}

void quantize_ranging_see(const quantize_rule *rule, quantize_ranging *ranging, const float *x,
                          int64_t count) {
    tdm_quant_bounds seen = ranging->seen;
    if (ranging->round == 1) {
        tdm_quant_mse_add(ranging->of.mse.candidates, rule->range, x, (size_t)count,
                          ranging->of.mse.errors);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        seen = joined(seen, (tdm_quant_bounds){x[i], x[i]});
    ranging->seen = seen;
    if (has_histogram(rule))
        tdm_quant_histogram_add(&ranging->of.histogram, x, (size_t)count);
}

void quantize_ranging_merge(const quantize_rule *rule, quantize_ranging *into,
                            const quantize_ranging *from) {
    if (into->round == 1) {
        for (int c = 0; c < TDM_QUANT_MSE_CANDIDATES; c++)
            into->of.mse.errors[c] += from->of.mse.errors[c];
        return;
    }
    into->seen = joined(into->seen, from->seen);
    if (has_histogram(rule))
        tdm_quant_histogram_merge(&into->of.histogram, &from->of.histogram);
}

void quantize_ranging_next(const quantize_rule *rule, quantize_ranging *ranging) {
    ranging->round = 1;
    memset(ranging->of.mse.errors, 0, sizeof ranging->of.mse.errors);
    tdm_quant_mse_candidates(rule->symmetry, ranging->seen, rule->range, rule->scale_dtype,
                             ranging->of.mse.candidates);
}

/* The part of a histogram that the rule keeps; nothing seen is {0, 0}. */
static tdm_quant_bounds kept(const quantize_rule *rule, const quantize_ranging *ranging) {
    const tdm_quant_histogram *const histogram = &ranging->of.histogram;
    const tdm_quant_bounds seen = ranging->seen;
    if (seen.minimum > seen.maximum)
        return (tdm_quant_bounds){0.0f, 0.0f};
    if (rule->kind == TDM_QUANT_OBSERVE_PERCENTILE)
        return tdm_quant_bounds_percentile(histogram, seen, rule->symmetry, rule->percent);
    if (rule->kind == TDM_QUANT_OBSERVE_KL)
        return tdm_quant_bounds_kl(histogram, seen, rule->symmetry, rule->range);
    return seen;
}

tdm_quant_parameters quantize_ranging_end(const quantize_rule *rule,
                                          const quantize_ranging *ranging) {
    if (ranging->round == 1)
        return ranging->of.mse
            .candidates[tdm_quant_mse_best(ranging->of.mse.candidates, ranging->of.mse.errors)];
    return tdm_quant_derive_kept(rule->symmetry, kept(rule, ranging), rule->range,
                                 rule->scale_dtype);
}

/* ---- blocks in memory ---- */

/* A block of a matrix: rows of numbers that lie `stride` apart. */
typedef struct block {
    const float *x;
    int64_t rows, columns, stride;
} block;

/* Pieces of a column are collected, so that loops over numbers are not over pieces of one. */
static void see_block(const quantize_rule *rule, quantize_ranging *ranging, const block *b) {
    float column[128];
    if (b->columns > 1) {
        for (int64_t i = 0; i < b->rows; i++)
            quantize_ranging_see(rule, ranging, b->x + i * b->stride, b->columns);
        return;
    }
    for (int64_t i = 0; i < b->rows;) {
        int64_t n = 0;
        for (; n < 128 && i < b->rows; n++, i++)
            column[n] = b->x[i * b->stride];
        quantize_ranging_see(rule, ranging, column, n);
    }
}

void quantize_ranging_blocks(const quantize_rule *rule, const tdm_quant_spec *spec, const float *x,
                             quantize_ranging *ranging, float *scales, int32_t *zero_points) {
    const int64_t rows = spec->shape[0], columns = spec->shape[1];
    const int64_t high = spec->blocks[0] > 0 ? spec->blocks[0] : rows;
    const int64_t wide = spec->blocks[1] > 0 ? spec->blocks[1] : columns;
    int64_t scale = 0;
    for (int64_t row = 0; row < rows; row += high) {
        for (int64_t column = 0; column < columns; column += wide, scale++) {
            const block b = {x + row * columns + column, rows - row < high ? rows - row : high,
                             columns - column < wide ? columns - column : wide, columns};
            quantize_ranging_begin(rule, ranging);
            see_block(rule, ranging, &b);
            if (quantize_ranging_rounds(rule) == 2) {
                quantize_ranging_next(rule, ranging);
                see_block(rule, ranging, &b);
            }
            const tdm_quant_parameters parameters = quantize_ranging_end(rule, ranging);
            scales[scale] = parameters.scale;
            if (zero_points)
                zero_points[scale] = parameters.zero_point;
        }
    }
}
