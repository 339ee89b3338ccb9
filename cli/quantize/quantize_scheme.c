#include "cli/quantize/quantize_plan.h"

#include <string.h>

/* Columns: kind, name, dtype of floats, storage of blocks, rules. */
#define SCHEME_LIST(X)                                                                             \
    X(KEEP, "keep", TDM_DTYPE_NONE, PLAIN, 0)                                                      \
    X(FLOATS, "f32", TDM_F32, PLAIN, 0)                                                            \
    X(FLOATS, "f16", TDM_F16, PLAIN, 0)                                                            \
    X(FLOATS, "bf16", TDM_BF16, PLAIN, 0)                                                          \
    X(CODES, "s8-tensor", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_S8_TENSOR)                              \
    X(CODES, "s8-channel", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_S8_CHANNEL)                            \
    X(CODES, "s8-group", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_S8_GROUP)                                \
    X(CODES, "s8-tensor-zero", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_S8_ACTIVATION)                     \
    X(CODES, "s8-channel-zero", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_S8_ROW)                           \
    X(CODES, "s8-group-zero", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_S8_GROUP_ZERO)                      \
    X(CODES, "u8-tensor", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_U8_ACTIVATION)                          \
    X(CODES, "u8-channel", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_U8_ROW)                                \
    X(CODES, "u8-group", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_U8_GROUP)                                \
    X(CODES, "s4-tensor", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_S4_TENSOR)                              \
    X(CODES, "s4-channel", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_S4_CHANNEL)                            \
    X(CODES, "s4-group", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_S4_GROUP)                                \
    X(CODES, "s4-tensor-zero", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_S4_TENSOR_ZERO)                    \
    X(CODES, "s4-channel-zero", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_S4_CHANNEL_ZERO)                  \
    X(CODES, "s4-group-zero", TDM_DTYPE_NONE, PLAIN, TDM_QUANT_S4_GROUP_ZERO)                      \
    X(BLOCKS, "q8_0", TDM_DTYPE_NONE, Q8_0, TDM_QUANT_Q8_0)                                        \
    X(BLOCKS, "q4_0", TDM_DTYPE_NONE, Q4_0, TDM_QUANT_Q4_0)

static const quantize_scheme rows[] = {
#define SCHEME_ROW(kind, name, dtype, storage, rules)                                              \
    {name, QUANTIZE_##kind, dtype, QUANTIZE_##storage, (tdm_quant_scheme_id)(rules)},
    SCHEME_LIST(SCHEME_ROW)
#undef SCHEME_ROW
};

#define SCHEME_NAME(kind, name, dtype, storage, rules) "|" name
static const char names_after_bar[] = SCHEME_LIST(SCHEME_NAME);
#undef SCHEME_NAME

const char *quantize_scheme_names(void) {
    return names_after_bar + 1;
}

const quantize_scheme *quantize_scheme_find(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}
