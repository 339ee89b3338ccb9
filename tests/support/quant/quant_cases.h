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
    int last; /* the test's own factor */
} quant_case;

/*
 * Like test_every_variant. The sample's first factor has `types` levels. The last factor, with
 * `own` levels, is the test's own (1: none).
 */
void quant_every_variant(tdm_op op, int types, variant_case *run);
void quant_every_variant_and(tdm_op op, int types, int own, variant_case *run);

/* Reads the case of a sample row. Its first level picks from `types`. */
void quant_case_read(quant_case *c, const int row[], const tdm_dtype *types);

/* Calls test_case_begin with a description of the case. */
bool quant_case_begin(const test_device *device, const tdm_variant *variant, const quant_case *c);

/*
 * Returns true if the variant must accept the case. A variant of one lane accepts all cases. Others
 * must accept dense rows of even length whose elements share parameters by row or as a whole.
 */
bool quant_case_must_run(const tdm_variant *variant, const quant_case *c);

/* Returns true if the case has no elements. */
bool quant_case_is_empty(const quant_case *c);

#endif
