/*
 * Quantizes one tensor, a tile at a time, so that little of it is in memory at once. Each tile is
 * read, checked, quantized, written and compared.
 */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_PASS_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_PASS_H

#include "cli/quantize/quantize_plan.h"
#include "formats/checkpoint/quantize_source.h"
#include "quant/error_measures.h"
#include "quant/schemes.h"

/* The destination of one output tensor. `put` returns 0, or -1 and the reason. */
typedef struct quantize_target {
    int (*put)(void *user, size_t entry, uint64_t offset, const void *bytes, size_t size,
               file_error *error);
    void *user;
    size_t data;       /* indices of entries of the output */
    size_t scale;      /* for quantized values only */
    size_t zero_point; /* for asymmetric quantized values only */
} quantize_target;

typedef struct quantize_pass {
    const quantize_tensor *tensor;
    const quantize_scheme *scheme;
    /* For quantized values: the tensor as a matrix with scales per tensor, row or row group. */
    tdm_quant_spec spec;
    quantize_target target;
} quantize_pass;

typedef struct quantize_outcome {
    tdm_quant_error errors;
    uint64_t saturated; /* finite numbers beyond the largest f16 or bf16 */
} quantize_outcome;

/* Returns the number of bytes of `count` quantized values. */
size_t quantize_code_bytes(tdm_dtype dtype, int64_t count);

/*
 * Returns 1 if the quantized values can be written piece by piece. They cannot if rows are so long
 * that they are cut, and a row ends within a byte.
 */
int quantize_pass_can_write(const quantize_pass *pass);

/*
 * Quantizes the tensor. Returns 0, or -1 and the reason. It fails on numbers that are not finite
 * (the message gives their index), and on numbers that q8_0 and q4_0 have no scale for. It also
 * fails if memory is short or the target fails.
 */
int quantize_pass_run(const quantize_pass *pass, quantize_outcome *outcome, file_error *error);

/* Copies the bytes of a tensor unchanged. */
int quantize_copy(const quantize_tensor *tensor, const quantize_target *target, file_error *error);

#endif
