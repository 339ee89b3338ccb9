/*
 * Defines GEMM once for tests and benchmarks: the description of a case, its work and its error
 * bound.
 *
 *     D = act(alpha * op(A) * op(B) + beta * C + bias + residual)
 *     D = act(alpha * op(A) * op(B) + beta * C + bias) * residual     if gated
 *
 * This file is header-only. It needs only the public headers and the C library.
 */
#ifndef TANDEM_COMMON_OP_GEMM_H
#define TANDEM_COMMON_OP_GEMM_H

#include <math.h>

#include <tandem/gemm.h>

#define OP_GEMM_MAX_BATCH 3

/* The operands, as indices. */
typedef enum op_gemm_operand {
    OP_GEMM_A,
    OP_GEMM_B,
    OP_GEMM_C,
    OP_GEMM_D,
    OP_GEMM_BIAS,
    OP_GEMM_RESIDUAL,
    OP_GEMM_OPERANDS
} op_gemm_operand;

/* One case. TDM_DTYPE_NONE means that there is no such operand; A, B and D always exist. */
typedef struct op_gemm_case {
    int64_t m, n, k;
    tdm_dtype dtype[OP_GEMM_OPERANDS];
    int transpose_a, transpose_b;
    float alpha, beta;
    tdm_activation activation;
    int gated; /* the residual is a factor */
    int batch_rank;
    int64_t batch[OP_GEMM_MAX_BATCH];
    unsigned shared[OP_GEMM_OPERANDS]; /* bit i: the operand has size 1 in batch dimension i */
    /*
     * Not 0: operands hold small integers. Their sums are exact in f32 and are rounded once, to D's
     * type.
     */
    int exact;
    int allow_3xtf32; /* not 0: f32 products may be made of three tf32 products */
    uint64_t seed;
} op_gemm_case;

/* Returns the number of batch entries of D. */
static inline int64_t op_gemm_batch_count(const op_gemm_case *item) {
    int64_t count = 1;
    for (int i = 0; i < item->batch_rank; i++)
        count *= item->batch[i];
    return count;
}

/* Returns the number of multiplications and additions of the GEMM. The epilogue is not counted. */
static inline double op_gemm_flops(const op_gemm_case *item) {
    return 2.0 * (double)item->m * (double)item->n * (double)item->k *
           (double)op_gemm_batch_count(item);
}

/* Fills in the shape of an operand's tensor: batch, then rows and columns. Returns the rank. */
static inline int op_gemm_shape(const op_gemm_case *item, op_gemm_operand operand,
                                int64_t shape[TDM_MAX_RANK]) {
    if (operand == OP_GEMM_BIAS) {
        shape[0] = item->n;
        return 1;
    }
    const int flipped =
        (operand == OP_GEMM_A && item->transpose_a) || (operand == OP_GEMM_B && item->transpose_b);
    const int64_t rows = operand == OP_GEMM_B ? item->k : item->m;
    const int64_t columns = operand == OP_GEMM_A ? item->k : item->n;
    for (int i = 0; i < item->batch_rank; i++)
        shape[i] = item->shared[operand] >> i & 1u ? 1 : item->batch[i];
    shape[item->batch_rank] = flipped ? columns : rows;
    shape[item->batch_rank + 1] = flipped ? rows : columns;
    return item->batch_rank + 2;
}

/* Returns the index of the operand's matrix (0, 1, …) that batch entry `entry` of D uses. */
static inline int64_t op_gemm_entry_of(const op_gemm_case *item, op_gemm_operand operand,
                                       int64_t entry) {
    int64_t index = 0, step = 1;
    for (int i = item->batch_rank - 1; i >= 0; i--) {
        if (!(item->shared[operand] >> i & 1u)) {
            index += entry % item->batch[i] * step;
            step *= item->batch[i];
        }
        entry /= item->batch[i];
    }
    return index;
}

/* Computes an activation in double precision. */
static inline double op_gemm_activate(double x, tdm_activation activation) {
    switch (activation) {
    case TDM_ACT_RELU:
        return x > 0 ? x : 0 * x;
    case TDM_ACT_GELU:
        return 0.5 * x * erfc(-x * sqrt(0.5));
    case TDM_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case TDM_ACT_SILU:
        return x / (1 + exp(-x));
    default:
        return x;
    }
}

/* Returns the Lipschitz constant of an activation, rounded up. */
static inline double op_gemm_lipschitz(tdm_activation activation) {
    return activation == TDM_ACT_NONE || activation == TDM_ACT_RELU ? 1.0 : 1.13;
}

/*
 * Returns the unit roundoff of D's type. op_gemm_min_normal returns the type's smallest normal
 * number.
 */
static inline double op_gemm_roundoff(tdm_dtype dtype) {
    return dtype == TDM_F16 ? 0x1p-11 : dtype == TDM_BF16 ? 0x1p-8 : 0x1p-24;
}
static inline double op_gemm_min_normal(tdm_dtype dtype) {
    return dtype == TDM_F16 ? 0x1p-14 : 0x1p-126;
}

/*
 * The bound of |d - d64| is half an ulp of the result, plus the accumulated error of f32 sums of
 * random data. That error grows with the square root of the sums' length. A bound linear in K would
 * not detect a missing iteration over k. `size` is |alpha||A||B| + |beta C| + |bias| + |residual|,
 * or the other three multiplied by |residual| if gated.
 * With 3xTF32, each product may have a relative error of OP_GEMM_SPLIT_BOUND, whatever the length
 * (docs/numerics.md).
 */
#define OP_GEMM_BOUND_FACTOR 4.0
#define OP_GEMM_SPLIT_BOUND (1.001 * 0x1p-21)
static inline double op_gemm_bound(const op_gemm_case *item, double d64, double size) {
    const double terms = (double)(item->k > 1 ? item->k : 1);
    return op_gemm_roundoff(item->dtype[OP_GEMM_D]) *
               fmax(fabs(d64), op_gemm_min_normal(item->dtype[OP_GEMM_D])) +
           op_gemm_lipschitz(item->activation) * size *
               (OP_GEMM_BOUND_FACTOR * sqrt(terms) * 0x1p-24 +
                (item->allow_3xtf32 ? OP_GEMM_SPLIT_BOUND : 0.0));
}

#endif
