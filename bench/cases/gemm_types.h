/*
 * The type combinations of GEMM cases. --dtype takes the names of this table's rows;
 * docs/benchmarks.md explains them.
 */
#ifndef TANDEM_BENCH_CASES_GEMM_TYPES_H
#define TANDEM_BENCH_CASES_GEMM_TYPES_H

#include <tandem/dtype.h>

#include "common/op_gemm.h"
#include "kernels/kernel_index.h"

/*
 * The columns are:
 *   id, name, dtypes of A, B and D
 *   whether A has a scale and a zero point, and the dtype of B's scales
 *   `group`: the steps along K that share a scale of B; 0: all
 *   whether the call quantizes the rows of A
 *   whether the plan allows 3xTF32
 * B has one scale per column and group. Types without scales multiply the stored numbers. If D
 * has type s8 or u8, it has a scale and a zero point.
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

/* Lists the names for the option table, separated by '|'. */
extern const char *const gemm_types_choices;

/* Returns the types of that name, or GEMM_NO_TYPES. The second function returns the name. */
gemm_types gemm_types_find(const char *name);
const char *gemm_types_name(gemm_types types);

/* Returns the dtype of A, B or D. */
tdm_dtype gemm_types_dtype(gemm_types types, op_gemm_operand operand);

/*
 * The first function returns 1 if the operand has quantization parameters. The second one returns
 * the dtype of B's scales. The third one returns how many steps of K share a scale (0: all).
 */
int gemm_types_quantized(gemm_types types, op_gemm_operand operand);
tdm_dtype gemm_types_scale(gemm_types types);
int64_t gemm_types_group(gemm_types types);

int gemm_types_dynamic(gemm_types types); /* the call quantizes rows of A */
int gemm_types_allow_3xtf32(gemm_types types);
int gemm_types_exact(gemm_types types);       /* D holds the integer sums themselves */
int gemm_types_requantized(gemm_types types); /* D holds the sums requantized to bytes */
int gemm_types_integer(gemm_types types);     /* the multiplied values are integers */

/*
 * Returns the combination with the same operands whose sums are requantized to A's type. Types
 * whose D is not the integer sums are returned unchanged.
 */
gemm_types gemm_types_with_requantized(gemm_types types);

/* Returns the operation whose kernel variants multiply these types. */
tdm_op gemm_types_op(gemm_types types);

/*
 * Returns the combination that represents this one in tuning data. It is the first one with equal
 * types of A and B and equal last two columns. Tuning data does not distinguish other columns.
 */
gemm_types gemm_types_for_tuning(gemm_types types);

#endif
