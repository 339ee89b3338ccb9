#include "tests/support/quant/quant_cases.h"

enum {
    F_TYPE,
    F_SHAPE,
    F_SHARING,
    F_X,
    F_Y,
    F_PARAMETERS,
    F_SCALE,
    F_ZERO,
    F_OWN,
    FACTORS
};

static const tdm_dtype scales[] = {TDM_F32, TDM_F16, TDM_BF16};
static const tdm_dtype zeros[] = {TDM_DTYPE_NONE, TDM_S32, TDM_S8, TDM_U8};

void quant_every_variant_and(tdm_op op, int types, int own, variant_case *run) {
    const int levels[FACTORS] = {types,
                                 test_is_small() ? OP_ELEMENTWISE_SMALL_SHAPES
                                                 : OP_ELEMENTWISE_SHAPES,
                                 SHARINGS,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 3,
                                 4,
                                 own};
    test_every_variant(op, FACTORS, levels, run);
}

void quant_every_variant(tdm_op op, int types, variant_case *run) {
    quant_every_variant_and(op, types, 1, run);
}

void quant_case_read(quant_case *c, const int row[], const tdm_dtype *types) {
    *c = (quant_case){.shape = &op_elementwise_shapes[row[F_SHAPE]],
                      .codes = types[row[F_TYPE]],
                      .sharing = (quant_sharing)row[F_SHARING],
                      .x = (test_placement)row[F_X],
                      .y = (test_placement)row[F_Y],
                      .parameters = (test_placement)row[F_PARAMETERS],
                      .scale = scales[row[F_SCALE]],
                      .zero = zeros[row[F_ZERO]],
                      .last = row[F_OWN]};
}

bool quant_case_begin(const test_device *device, const tdm_variant *variant, const quant_case *c) {
    char text[128];
    return test_case_begin(
        device, variant->name, "%s%s share %s x %s y %s parameters %s %s %s %d",
        tdm_dtype_name(c->codes), test_shape_text(c->shape->rank, c->shape->shape, text),
        quant_sharing_name(c->sharing), test_placement_name(c->x), test_placement_name(c->y),
        test_placement_name(c->parameters), tdm_dtype_name(c->scale),
        c->zero == TDM_DTYPE_NONE ? "none" : tdm_dtype_name(c->zero), c->last);
}

bool quant_case_must_run(const tdm_variant *variant, const quant_case *c) {
    const int rank = c->shape->rank;
    const int64_t *const shape = c->shape->shape;
    const bool dense = c->x == TEST_DENSE && c->y == TEST_DENSE && c->parameters == TEST_DENSE;
    const bool even = rank == 0 || shape[rank - 1] % 2 == 0;
    return variant->parameters[1] == 1 ||
           (dense && even && !test_has_gaps(rank, shape, TEST_DENSE) &&
            (c->sharing == SHARE_ALL || c->sharing == SHARE_ROWS));
}

bool quant_case_is_empty(const quant_case *c) {
    for (int d = 0; d < c->shape->rank; d++)
        if (c->shape->shape[d] == 0)
            return true;
    return false;
}
