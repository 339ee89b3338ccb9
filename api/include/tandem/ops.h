/*
 * Elementwise operations, comparisons and selection with broadcasting, reductions, softmax, gather,
 * scatter, concat.
 *
 * All operations enqueue on a stream and return. All tensors must be on the stream's device. Inputs
 * may have any strides. Elements of the output must not overlap each other. The output may be the
 * very same view as an input of the same shape (in place). Any other overlap with it is refused. A
 * scalar operand is a tensor of rank 0 (tdm_tensor_fill), which is broadcast.
 *
 * Common statuses: TDM_BAD_ARGUMENT (NULL, devices differ, overlap, unknown operation),
 * TDM_BAD_SHAPE, TDM_BAD_DTYPE (dtypes differ), TDM_UNSUPPORTED (no kernel for the dtype),
 * TDM_BUILD_FAILED, TDM_BAD_STATE (recording, and the kernel is not built), memory, the stream's
 * failure. Thread-safe. Since 0.1.
 */
#ifndef TANDEM_OPS_H
#define TANDEM_OPS_H

#include <tandem/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Columns: name, value, text, formula. x is f32; the result is rounded once to the output's dtype
 * (f32, f16, bf16). */
#define TDM_UNARY_LIST(X)                                                                          \
    X(TDM_NEG, 1, "neg", "-x")                                                                     \
    X(TDM_ABS, 2, "abs", "|x|")                                                                    \
    X(TDM_RELU, 3, "relu", "x < 0 ? 0 : x, NaN stays NaN")                                         \
    X(TDM_GELU, 4, "gelu", "x/2 * (1 + erf(x/sqrt(2)))")                                           \
    X(TDM_GELU_TANH, 5, "gelu_tanh", "x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))")          \
    X(TDM_SILU, 6, "silu", "x / (1 + exp(-x))")                                                    \
    X(TDM_SIGMOID, 7, "sigmoid", "1 / (1 + exp(-x))")                                              \
    X(TDM_TANH, 8, "tanh", "tanh(x)")                                                              \
    X(TDM_EXP, 9, "exp", "e^x")                                                                    \
    X(TDM_SQRT, 10, "sqrt", "square root, correctly rounded")                                      \
    X(TDM_RSQRT, 11, "rsqrt", "1 / square root")                                                   \
    X(TDM_LOG, 12, "log", "natural logarithm")                                                     \
    X(TDM_ERF, 13, "erf", "error function")                                                        \
    X(TDM_FLOOR, 14, "floor", "largest integer that is not above x")                               \
    X(TDM_ROUND, 15, "round", "nearest integer, ties to even")                                     \
    X(TDM_SIN, 16, "sin", "sine of x radians, |x| <= 2^24; NaN beyond")                            \
    X(TDM_COS, 17, "cos", "cosine of x radians, |x| <= 2^24; NaN beyond")

typedef enum tdm_unary {
#define TDM_UNARY_ENUM(name, value, text, formula) name = value,
    TDM_UNARY_LIST(TDM_UNARY_ENUM)
#undef TDM_UNARY_ENUM
} tdm_unary;

/*
 * Columns: name, value, text, formula. Floats are computed in f32 and rounded once. div is
 * correctly rounded in f32. For s32, add, sub and mul wrap modulo 2^32. For s8 and u8 they
 * saturate. Integer div and pow are unsupported. min and max of a NaN and a number give the NaN.
 */
#define TDM_BINARY_LIST(X)                                                                         \
    X(TDM_ADD, 1, "add", "a + b")                                                                  \
    X(TDM_SUB, 2, "sub", "a - b")                                                                  \
    X(TDM_MUL, 3, "mul", "a * b")                                                                  \
    X(TDM_DIV, 4, "div", "a / b")                                                                  \
    X(TDM_MIN, 5, "min", "the smaller")                                                            \
    X(TDM_MAX, 6, "max", "the larger")                                                             \
    X(TDM_POW, 7, "pow", "a to the power b, as pow of C")

typedef enum tdm_binary {
#define TDM_BINARY_ENUM(name, value, text, formula) name = value,
    TDM_BINARY_LIST(TDM_BINARY_ENUM)
#undef TDM_BINARY_ENUM
} tdm_binary;

/* Columns: name, value, text, formula. A comparison with a NaN is false, but for not_equal. */
#define TDM_COMPARISON_LIST(X)                                                                     \
    X(TDM_EQUAL, 1, "equal", "a == b")                                                             \
    X(TDM_NOT_EQUAL, 2, "not_equal", "a != b")                                                     \
    X(TDM_LESS, 3, "less", "a < b")                                                                \
    X(TDM_LESS_EQUAL, 4, "less_equal", "a <= b")                                                   \
    X(TDM_GREATER, 5, "greater", "a > b")                                                          \
    X(TDM_GREATER_EQUAL, 6, "greater_equal", "a >= b")

typedef enum tdm_comparison {
#define TDM_COMPARISON_ENUM(name, value, text, formula) name = value,
    TDM_COMPARISON_LIST(TDM_COMPARISON_ENUM)
#undef TDM_COMPARISON_ENUM
} tdm_comparison;

/* Columns: name, value, text, meaning. */
#define TDM_REDUCE_LIST(X)                                                                         \
    X(TDM_REDUCE_SUM, 1, "sum", "sum; 0 for no elements")                                          \
    X(TDM_REDUCE_MEAN, 2, "mean", "sum / count; NaN for no elements")                              \
    X(TDM_REDUCE_MAX, 3, "max", "largest, NaN if any is NaN; needs at least one element")          \
    X(TDM_REDUCE_MIN, 4, "min", "smallest, NaN if any is NaN; needs at least one element")         \
    X(TDM_REDUCE_ARGMAX, 5, "argmax",                                                              \
      "index of the first largest; the first NaN counts as largest")                               \
    X(TDM_REDUCE_ARGMIN, 6, "argmin",                                                              \
      "index of the first smallest; the first NaN counts as smallest")

typedef enum tdm_reduction {
#define TDM_REDUCE_ENUM(name, value, text, meaning) name = value,
    TDM_REDUCE_LIST(TDM_REDUCE_ENUM)
#undef TDM_REDUCE_ENUM
} tdm_reduction;

/* y = op(x). y has x's shape (or a shape to which x broadcasts) and x's dtype. */
TDM_API tdm_status tdm_unary_op(tdm_stream *stream, tdm_unary op, const tdm_tensor *x,
                                tdm_tensor *y);

/*
 * y = x < low ? low : x > high ? high : x; a NaN in x stays a NaN. Shapes and dtypes are those of
 * tdm_unary_op. A bound may be infinite. TDM_BAD_ARGUMENT: a bound is NaN, or low is above high.
 * Since 0.2.
 */
TDM_API tdm_status tdm_clamp(tdm_stream *stream, const tdm_tensor *x, float low, float high,
                             tdm_tensor *y);

/* y = a op b, all of one dtype. a and b are broadcast to y's shape by the usual rule: shapes are
 * aligned at the last dimension, and a dimension of 1 (or a missing one) repeats. min and max of
 * bool are "and" and "or". */
TDM_API tdm_status tdm_binary_op(tdm_stream *stream, tdm_binary op, const tdm_tensor *a,
                                 const tdm_tensor *b, tdm_tensor *y);

/*
 * y = a op b, where y is bool, 0 or 1. a and b have one dtype: f32, f16, bf16, s32, s64, s8, u8 or
 * bool. They are broadcast to y's shape. A device may read f32 denormals as zero. y must not
 * overlap an input of another dtype. Since 0.2.
 */
TDM_API tdm_status tdm_compare(tdm_stream *stream, tdm_comparison op, const tdm_tensor *a,
                               const tdm_tensor *b, tdm_tensor *y);

/*
 * y = condition ? a : b, bits unchanged. condition is bool; a, b and y have one dtype, any but s4.
 * All three inputs are broadcast to y's shape. Since 0.2.
 */
TDM_API tdm_status tdm_where(tdm_stream *stream, const tdm_tensor *condition, const tdm_tensor *a,
                             const tdm_tensor *b, tdm_tensor *y);

/*
 * Reduce over `axis_count` distinct axes (0 ≤ axis < rank of x). axis_count = 0 with axes NULL
 * reduces over all. y has x's shape with the reduced dimensions either dropped or kept as 1.
 * Dtypes: f32, f16, bf16 (accumulated in f32, rounded once) and s32 (sum wraps; mean unsupported).
 * argmax and argmin write s32 and take one axis or all axes. The index over all axes is row-major.
 * argmin is there since 0.2. The order of additions is fixed, so every run gives the same bits. A
 * recorded reduction may add in another order.
 */
TDM_API tdm_status tdm_reduce(tdm_stream *stream, tdm_reduction op, const tdm_tensor *x,
                              const int *axes, int axis_count, tdm_tensor *y);

/*
 * y = softmax of x along one axis: exp(x - max) / sum of exp(x - max), in f32, rounded once. Rows
 * with only -inf, and rows with NaN or +inf, give NaN. Dtypes: f32, f16, bf16; y has x's shape and
 * dtype.
 */
TDM_API tdm_status tdm_softmax(tdm_stream *stream, const tdm_tensor *x, int axis, tdm_tensor *y);

/*
 * The k best elements along one axis, from the best to the worst (ONNX's TopK, sorted):
 *
 *     values[o…, j] = x[o…, indices[o…, j]],   j = 0 … k - 1 along `axis`
 *
 * k is the size of values along the axis, 0 ≤ k ≤ x's size; k = that size sorts. All other sizes
 * are x's. largest is 1 (the largest elements are the best) or 0 (the smallest). Among equal
 * elements the lower index is first; -0 equals 0. A NaN counts as larger than +inf. values has x's
 * dtype, and indices is s32 and has the shape of values. Dtypes: f32, f16, bf16, s32. No two of x,
 * values and indices may overlap. TDM_UNSUPPORTED: another dtype, or more than 2^31 - 1 elements
 * along the axis. Since 0.2.
 */
TDM_API tdm_status tdm_top_k(tdm_stream *stream, const tdm_tensor *x, int axis, int largest,
                             tdm_tensor *values, tdm_tensor *indices);

/*
 * y = sums of x from the beginning of an axis to each element (ONNX's CumSum):
 *
 *     y[i] = x[0] + … + x[i],   with exclusive: x[0] + … + x[i - 1], 0 for i = 0
 *
 * exclusive and reverse are 0 or 1. With reverse the sums begin at the end of the axis. y has x's
 * shape and dtype and may be x. Dtypes: f32, f16, bf16 (added in f32, rounded once for each
 * element) and s32 (wraps). For n elements along the axis with magnitudes of sum S, the error
 * before the rounding is at most about (n + 2)·2^-24·S. The order of additions depends on the
 * device, but not on the run. A row is for one work-item on CPU cores and for one work-group
 * elsewhere. Since 0.2.
 */
TDM_API tdm_status tdm_cumulative_sum(tdm_stream *stream, const tdm_tensor *x, int axis,
                                      int exclusive, int reverse, tdm_tensor *y);

/*
 * y = the elements of table that indices select along one axis (ONNX's Gather). The shape of y is
 * that of table, with the dimension `axis` replaced by the shape of indices:
 *
 *     y[b…, i…, a…] = table[b…, indices[i…], a…],   b… and a… the dimensions before and after axis
 *
 * The rows of an embedding are axis 0. indices is s32 or s64, of any rank, and 0 is one index. With
 * n elements along the axis, an index is in [-n, n), and a negative one counts from the end. The
 * device cannot report any other index: it gives elements whose bits are all set (a NaN for floats,
 * -1 for signed integers, 255 for u8). Nothing outside of table is read.
 *
 * y has table's dtype, any but s4, and the bits are unchanged. If table carries quantization
 * parameters (quant.h), is s8, u8 or s4, and y is f32, f16 or bf16, then y is dequantized as by
 * tdm_tensor_dequantize, and an index outside gives NaN. y must not overlap table, its parameters
 * or indices. Since 0.2.
 */
TDM_API tdm_status tdm_gather(tdm_stream *stream, const tdm_tensor *table, int axis,
                              const tdm_tensor *indices, tdm_tensor *y);

/*
 * The reverse of tdm_gather: y[b…, indices[i…], a…] = x[b…, i…, a…]. x has the shape that
 * tdm_gather would give for y and these indices, and the dtype of y, any but s4. All other elements
 * of y stay as they are. An index outside of [-n, n) is skipped. If two indices are equal, each
 * element is one of those written to it, not always the same one, and not always of one row. y must
 * not overlap x or indices. Since 0.2.
 */
TDM_API tdm_status tdm_scatter(tdm_stream *stream, const tdm_tensor *x, int axis,
                               const tdm_tensor *indices, tdm_tensor *y);

/*
 * y = the parts joined along one axis, in their order (ONNX's Concat). There are `count` parts, at
 * least one, of y's dtype and rank, any dtype. Their shapes are y's but for the axis, where their
 * sizes add up to y's. One copy is enqueued for each part, so quantized values stay as they are
 * stored. A part may be the very view of y that it would be copied to, and otherwise must not
 * overlap y. Statuses: also those of tdm_tensor_slice (s4) and TDM_OUT_OF_HOST_MEMORY; if a copy
 * cannot be enqueued, earlier parts are in y. Since 0.2.
 */
TDM_API tdm_status tdm_concat(tdm_stream *stream, const tdm_tensor *const *parts, int count,
                              int axis, tdm_tensor *y);

#ifdef __cplusplus
}
#endif

#endif
