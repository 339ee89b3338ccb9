/* Numbers that a format, or the type of their scales, has no room for: how many became 0 or were limited. */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_LOST_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_LOST_H

#include "cli/quantize/quantize_pass.h"

/* Count those of blocks of `bytes` bytes, which begin with a scale in f16 that small numbers make 0. */
void quantize_lost_in_blocks(const float *before, const void *encoded, size_t bytes, size_t blocks,
                             quantize_outcome *outcome);

/* Count those of a matrix of codes: under a scale that small numbers make 0, and beyond one that the type of scales limits. */
void quantize_lost_in_codes(const tdm_quant_spec *spec, const float *scales, const float *before,
                            const float *after, quantize_outcome *outcome);

#endif
