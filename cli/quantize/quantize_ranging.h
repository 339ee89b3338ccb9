/*
 * Which range of a weight's numbers is quantized: the numbers that share a scale pass through, in pieces, once or twice, and their scale and
 * zero point come out.
 *
 *     minmax       their extremes
 *     percentile   without the outermost tails, from a histogram
 *     mse          the least squared error of tdm_quant_mse_candidates, over the numbers themselves; they pass twice
 *     kl           the least divergence, from a histogram
 *
 * Not thread-safe: one for each thread, then merge.
 */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_RANGING_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_RANGING_H

#include "quant/observer.h"

typedef struct quantize_rule {
    tdm_quant_observer_kind kind; /* any but moving-average */
    double percent;               /* of percentile */
    tdm_quant_symmetry symmetry;
    tdm_quant_range range;
    tdm_dtype scale_dtype;
} quantize_rule;

typedef struct quantize_ranging quantize_ranging;

/* Bytes that one takes, in an array too. */
size_t quantize_ranging_bytes(const quantize_rule *rule);

/* How often the numbers have to pass: 1 or 2. */
int quantize_ranging_rounds(const quantize_rule *rule);

/* Make it empty. Its memory may be anything. */
void quantize_ranging_begin(const quantize_rule *rule, quantize_ranging *ranging);

/* Finite numbers. */
void quantize_ranging_see(const quantize_rule *rule, quantize_ranging *ranging, const float *x,
                          int64_t count);

/* What another has seen in the same round. */
void quantize_ranging_merge(const quantize_rule *rule, quantize_ranging *into,
                            const quantize_ranging *from);

/* All have passed once: the second round. */
void quantize_ranging_next(const quantize_rule *rule, quantize_ranging *ranging);

/* All have passed as often as they must. */
tdm_quant_parameters quantize_ranging_end(const quantize_rule *rule,
                                          const quantize_ranging *ranging);

/* Whole blocks of numbers in memory, contiguous and row-major; `ranging` is scratch. zero_points may be NULL where the rule is symmetric. */
void quantize_ranging_blocks(const quantize_rule *rule, const tdm_quant_spec *spec, const float *x,
                             quantize_ranging *ranging, float *scales, int32_t *zero_points);

#endif
