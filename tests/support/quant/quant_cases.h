/*
 * The cases that the tests of quantization run for every variant: a pairwise sample of shapes, layouts, blocks and types.
 */
#ifndef TANDEM_TESTS_SUPPORT_QUANT_QUANT_CASES_H
#define TANDEM_TESTS_SUPPORT_QUANT_QUANT_CASES_H

#include "common/op_elementwise.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/quant/quant_carrier.h"

typedef struct quant_case {
    const op_shape *shape;
    tdm_dtype codes; /* of the list that the test names */
    quant_sharing sharing;
    test_placement x, y, parameters;
    tdm_dtype scale, zero;
    int last; /* the test's own factor */
} quant_case;

/* As test_every_variant; the sample's first factor has `types` levels, and a last one of `own` levels is the test's (1: none). */
void quant_every_variant(tdm_op op, int types, variant_case *run);
void quant_every_variant_and(tdm_op op, int types, int own, variant_case *run);

/* The case of a row of the sample; its first level picks from the list. */
void quant_case_read(quant_case *c, const int row[], const tdm_dtype *types);

/* test_case_begin with a text that tells the case. */
bool quant_case_begin(const test_device *device, const tdm_variant *variant, const quant_case *c);

/* Whether the variant may not refuse the case: one lane takes all, the others what is dense. */
bool quant_case_must_run(const tdm_variant *variant, const quant_case *c);

/* Whether there is nothing to do. */
bool quant_case_is_empty(const quant_case *c);

#endif
