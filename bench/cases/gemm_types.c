#include "bench/cases/gemm_types.h"

#include <string.h>

typedef struct types_row {
    const char *name;
    tdm_dtype dtype[OP_GEMM_OPERANDS];
    int a_scaled;
    tdm_dtype b_scale;
    int group;
    int dynamic;
    int allows_3xtf32;
} types_row;

static const types_row rows[] = {[GEMM_NO_TYPES] = {.name = ""},
#define TYPES_ROW(id, text, a, b, d, scaled, scale, steps, in_call, splits)                        \
    [id] = {text,   {[OP_GEMM_A] = (a), [OP_GEMM_B] = (b), [OP_GEMM_D] = (d)},                     \
            scaled, scale,                                                                         \
            steps,  in_call,                                                                       \
            splits},
                                 GEMM_TYPES_LIST(TYPES_ROW)
#undef TYPES_ROW
};

#define TYPES_CHOICE(id, text, ...) "|" text
static const char choices[] = GEMM_TYPES_LIST(TYPES_CHOICE);
#undef TYPES_CHOICE

const char *const gemm_types_choices = choices + 1;

gemm_types gemm_types_find(const char *name) {
    for (size_t i = GEMM_NO_TYPES + 1; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return (gemm_types)i;
    }
    return GEMM_NO_TYPES;
}

const char *gemm_types_name(gemm_types types) {
    return rows[types].name;
}

tdm_dtype gemm_types_dtype(gemm_types types, op_gemm_operand operand) {
    return rows[types].dtype[operand];
}

int gemm_types_quantized(gemm_types types, op_gemm_operand operand) {
    const types_row *const row = &rows[types];
    if (operand == OP_GEMM_A)
        return row->a_scaled;
    if (operand == OP_GEMM_D)
        return gemm_types_requantized(types);
    return operand == OP_GEMM_B && row->b_scale != TDM_DTYPE_NONE;
}

tdm_dtype gemm_types_scale(gemm_types types) {
    return rows[types].b_scale;
}

int64_t gemm_types_group(gemm_types types) {
    return rows[types].group;
}

int gemm_types_dynamic(gemm_types types) {
    return rows[types].dynamic;
}

int gemm_types_allow_3xtf32(gemm_types types) {
    return rows[types].allows_3xtf32;
}

int gemm_types_exact(gemm_types types) {
    return rows[types].dtype[OP_GEMM_D] == TDM_S32;
}

int gemm_types_requantized(gemm_types types) {
    const tdm_dtype dtype = rows[types].dtype[OP_GEMM_D];
    return dtype == TDM_U8 || dtype == TDM_S8;
}

gemm_types gemm_types_with_requantized(gemm_types types) {
    return types == GEMM_S8 ? GEMM_S8S8S8 : types == GEMM_U8S8 ? GEMM_U8S8U8 : types;
}

static int is_integer(tdm_dtype dtype) {
    return tdm_dtype_info(dtype)->kind != TDM_CLASS_FLOAT;
}

int gemm_types_integer(gemm_types types) {
    const tdm_dtype *const dtype = rows[types].dtype;
    return (rows[types].dynamic || is_integer(dtype[OP_GEMM_A])) && is_integer(dtype[OP_GEMM_B]);
}

tdm_op gemm_types_op(gemm_types types) {
    const tdm_dtype *const dtype = rows[types].dtype;
    if (!is_integer(dtype[OP_GEMM_B]))
        return TDM_OP_GEMM;
    return is_integer(dtype[OP_GEMM_A]) ? TDM_OP_GEMM_INT : TDM_OP_GEMM_WEIGHTS;
}

gemm_types gemm_types_for_tuning(gemm_types types) {
    const types_row *const own = &rows[types];
    for (size_t i = GEMM_NO_TYPES + 1; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].dtype[OP_GEMM_A] == own->dtype[OP_GEMM_A] &&
            rows[i].dtype[OP_GEMM_B] == own->dtype[OP_GEMM_B] && rows[i].dynamic == own->dynamic &&
            rows[i].allows_3xtf32 == own->allows_3xtf32)
            return (gemm_types)i;
    }
    return GEMM_NO_TYPES;
}
