/* The types that a GEMM case multiplies: --dtype names the rows of one table, and docs/benchmarks.md explains them. */
#ifndef TANDEM_BENCH_CASES_GEMM_TYPES_H
#define TANDEM_BENCH_CASES_GEMM_TYPES_H

#include <tandem/dtype.h>

#include "common/op_gemm.h"
#include "kernels/kernel_index.h"

/*
 * id; name; dtypes of A, B and D; whether A carries a scale and a zero point; dtype of B's scales, one for each column and, where
 * `group` is not 0, for each group of so many steps along K; whether rows of A are quantized in the call; whether the plan allows
 * 3xTF32. Without scales, the stored numbers are what is multiplied. A D of bytes carries a scale and a zero point.
 */
#define GEMM_TYPES_LIST(X)                                                                         \
    X(GEMM_F32, "f32", TDM_F32, TDM_F32, TDM_F32, 0, TDM_DTYPE_NONE, 0, 0, 0)                      \
    X(GEMM_3XTF32, "3xtf32", TDM_F32, TDM_F32, TDM_F32, 0, TDM_DTYPE_NONE, 0, 0, 1)                \
    X(GEMM_F16, "f16", TDM_F16, TDM_F16, TDM_F16, 0, TDM_DTYPE_NONE, 0, 0, 0)                      \
    X(GEMM_BF16, "bf16", TDM_BF16, TDM_BF16, TDM_BF16, 0, TDM_DTYPE_NONE, 0, 0, 0)                 \
    X(GEMM_S8, "s8", TDM_S8, TDM_S8, TDM_S32, 0, TDM_DTYPE_NONE, 0, 0, 0)                          \
    X(GEMM_U8S8, "u8s8", TDM_U8, TDM_S8, TDM_S32, 0, TDM_DTYPE_NONE, 0, 0, 0)                      \
    X(GEMM_S8S8S8, "s8s8s8", TDM_S8, TDM_S8, TDM_S8, 1, TDM_F32, 0, 0, 0)                          \
    X(GEMM_U8S8F32, "u8s8f32", TDM_U8, TDM_S8, TDM_F32, 1, TDM_F32, 0, 0, 0)                       \
    X(GEMM_U8S8U8, "u8s8u8", TDM_U8, TDM_S8, TDM_U8, 1, TDM_F32, 0, 0, 0)                          \
    X(GEMM_W8, "w8", TDM_F32, TDM_S8, TDM_F32, 0, TDM_F32, 0, 0, 0)                                \
    X(GEMM_W4, "w4", TDM_F32, TDM_S4, TDM_F32, 0, TDM_F16, 32, 0, 0)                               \
    X(GEMM_F16W8, "f16w8", TDM_F16, TDM_S8, TDM_F16, 0, TDM_F16, 0, 0, 0)                          \
    X(GEMM_F16W4, "f16w4", TDM_F16, TDM_S4, TDM_F16, 0, TDM_F16, 32, 0, 0)                         \
    X(GEMM_W8A8, "w8a8", TDM_F32, TDM_S8, TDM_F32, 0, TDM_F32, 0, 1, 0)                            \
    X(GEMM_W4A8, "w4a8", TDM_F32, TDM_S4, TDM_F32, 0, TDM_F16, 32, 1, 0)

typedef enum gemm_types {
    GEMM_NO_TYPES,
#define GEMM_TYPES_ENUM(id, ...) id,
    GEMM_TYPES_LIST(GEMM_TYPES_ENUM)
#undef GEMM_TYPES_ENUM
} gemm_types;

/* For the option table: names separated by '|'. */
extern const char *const gemm_types_choices;

/* GEMM_NO_TYPES when there are none of that name; and the name. */
gemm_types gemm_types_find(const char *name);
const char *gemm_types_name(gemm_types types);

/* Of A, B or D. */
tdm_dtype gemm_types_dtype(gemm_types types, op_gemm_operand operand);

/* Whether an operand carries parameters; the dtype of B's scales; steps of K that share one, 0: all. */
int gemm_types_quantized(gemm_types types, op_gemm_operand operand);
tdm_dtype gemm_types_scale(gemm_types types);
int64_t gemm_types_group(gemm_types types);

int gemm_types_dynamic(gemm_types types); /* rows of A are quantized in the call */
int gemm_types_allow_3xtf32(gemm_types types);
int gemm_types_exact(gemm_types types);       /* D is the sums themselves */
int gemm_types_requantized(gemm_types types); /* D is the sums brought to bytes */
int gemm_types_integer(gemm_types types);     /* what is multiplied are integers */

/* The same operands with sums that are requantized to A's type; types whose D is no sums stay what they are. */
gemm_types gemm_types_with_requantized(gemm_types types);

/* The operation whose kernel variants multiply them. */
tdm_op gemm_types_op(gemm_types types);

/* The combination that stands for this one in tuning data, which knows operations, A and B only: the first with these operands. */
gemm_types gemm_types_for_tuning(gemm_types types);

#endif
