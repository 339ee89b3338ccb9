/*
 * One tensor through its scheme, a tile at a time, so that little of it is in memory at once: read, check, quantize, write, compare.
 */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_PASS_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_PASS_H

#include "cli/quantize/quantize_plan.h"
#include "formats/checkpoint/quantize_source.h"
#include "quant/error_measures.h"
#include "quant/schemes.h"

/* Where the pieces of one output tensor go. 0, or -1 with the reason. */
typedef struct quantize_target {
    int (*put)(void *user, size_t entry, uint64_t offset, const void *bytes, size_t size,
               file_error *error);
    void *user;
    size_t data;       /* entries of the output */
    size_t scale;      /* of codes only */
    size_t zero_point; /* of asymmetric codes only */
} quantize_target;

typedef struct quantize_pass {
    const quantize_tensor *tensor;
    const quantize_scheme *scheme;
    tdm_quant_spec
        spec; /* of codes: the tensor as a matrix with scales per tensor, row or group of a row */
    quantize_target target;
} quantize_pass;

typedef struct quantize_outcome {
    tdm_quant_error errors;
    uint64_t saturated; /* finite numbers beyond the largest of f16 or bf16 */
} quantize_outcome;

/* Bytes of `count` codes. */
size_t quantize_code_bytes(tdm_dtype dtype, int64_t count);

/* Whether codes can be written piece by piece: not where a row is so long that it is cut, and ends within a byte. */
int quantize_pass_can_write(const quantize_pass *pass);

/*
 * Quantize. 0, or -1 with the reason: numbers that are not finite (their place is named), numbers that q8_0 and q4_0 have no scale
 * for, no memory, or what the target said.
 */
int quantize_pass_run(const quantize_pass *pass, quantize_outcome *outcome, file_error *error);

/* Copy the bytes of a tensor as they are. */
int quantize_copy(const quantize_tensor *tensor, const quantize_target *target, file_error *error);

#endif
