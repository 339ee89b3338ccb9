/*
 * A random GEMM is drawn from a seed: sizes, dtypes, layouts, quantization parameters, epilogue and
 * variant. The operands are filled so that sums are exact.
 */
#ifndef TANDEM_TESTS_SUPPORT_GEMM_RANDOM_GEMM_H
#define TANDEM_TESTS_SUPPORT_GEMM_RANDOM_GEMM_H

#include "tests/support/random_operand.h"

enum {
    RANDOM_GEMM_TEXT = 1400
};

typedef enum random_gemm_kind {
    RANDOM_FLOATS,
    RANDOM_INTEGERS,
    RANDOM_WEIGHTS
} random_gemm_kind;

typedef struct random_gemm {
    const test_device *device;
    uint64_t seed;
    test_random random;
    random_gemm_kind kind;
    int64_t m, n, k, entries;
    int64_t group; /* group size of the weights along K */
    random_batch batch;
    tdm_gemm_desc desc;
    random_operand a, b, c, d, residual; /* absent if it has no tensor */
    test_array bias;
    char variant[160];
    bool recorded;
    /* created by the caller, destroyed by random_gemm_drop */
    tdm_gemm_plan *plan;
    tdm_packed *packed;
    tdm_buffer *workspace;
} random_gemm;

bool random_gemm_has(const random_operand *o);
bool random_gemm_is_float(tdm_dtype dtype);

/* D is poison. The same seed and device give the same problem. */
void random_gemm_draw(random_gemm *p, const test_device *device, random_gemm_kind kind,
                      uint64_t seed);
void random_gemm_drop(random_gemm *p);

/* Describes the problem completely, beginning with the seed. */
const char *random_gemm_text(const random_gemm *p, char text[RANDOM_GEMM_TEXT]);

#endif
