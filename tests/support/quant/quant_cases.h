/*
 * The cases that quantization tests run for every variant: a pairwise sample of shapes, layouts,
 * block sizes and dtypes.
 */
#ifndef TANDEM_TESTS_SUPPORT_QUANT_QUANT_CASES_H
#define TANDEM_TESTS_SUPPORT_QUANT_QUANT_CASES_H

#include "common/op_elementwise.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/quant/quant_carrier.h"

typedef struct quant_case {
    const op_shape *shape;
    tdm_dtype codes; /* from the list that the test passes */
    quant_sharing sharing;
    test_placement x, y, parameters;
    tdm_dtype scale, zero;
    int last; /* level of the test's own factor */
} quant_case;

/*
 * Call test_every_variant for a sample whose first factor has `types` levels. The second function
 * also has a last factor with `own` levels, which the test interprets.
 */
void quant_every_variant(tdm_op op, int types, variant_case *run);
void quant_every_variant_and(tdm_op op, int types, int own, variant_case *run);

/* Converts a row of the sample to a case. Its first level is an index into `types`. */
void quant_case_read(quant_case *c, const int row[], const tdm_dtype *types);

/* Calls test_case_begin with a description of the case. */
bool quant_case_begin(const test_device *device, const tdm_variant *variant, const quant_case *c);

/*
 * Returns true if the variant must accept the case. A variant of one lane accepts all cases. Others
 * must accept dense arrays with rows of even length, and parameters per row or per tensor.
 */
bool quant_case_must_run(const tdm_variant *variant, const quant_case *c);

/* Returns true if the case has no elements. */
bool quant_case_is_empty(const quant_case *c);

#endif
