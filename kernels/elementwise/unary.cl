/* y = op(x), element by element, for f32, f16 and bf16; computed in f32.
 *
 * Defines: DT storage type, N vector width, TDM_BUILT_IN_DIVIDE if the built-in square root
 * suffices. It does if it is correctly rounded, or if DT is narrower than f32. strided_rows.h
 * describes the rows, and unary_args.h the operation. */
#include "kernels/dialect/dialect.h"
#include "activations.h"
#include "kernels/dialect/op_codes.h"
#include "kernels/dialect/nontemporal.h"
#include "strided_rows.h"
#include "unary_args.h"

#define V TDM_F32(N)
#define K(constant) TDM_SPLAT(N, constant)

TDM_PART_FUNCTIONS(f32)
TDM_PART_FUNCTIONS(f16)
TDM_PART_FUNCTIONS(bf16)

TDM_DEFINE_ACTIVATIONS(N)
#include "sine.h"

/* If |x| is at least this number, ±1 is the f32 nearest to tanh(x). Not every built-in function
 * returns it. A NaN stays a NaN. */
#define TANH_IS_ONE 9.010914f
TDM_DEVICE V tdm_hyperbolic_tangent(V x) {
    return TDM_SELECT_LT(N, K(TANH_IS_ONE), tdm_abs(x), tdm_copysign(K(1.0f), x), tdm_tanh(x));
}

/* Returns the correctly rounded square root. If the driver does not promise that, one step of
 * Newton's method on the exact remainder follows. Tiny x are scaled, because their remainder would
 * underflow. Zero, infinity, NaN and negative x have no usable remainder and keep the built-in's
 * result. */
TDM_DEVICE V tdm_square_root(V x) {
#ifdef TDM_BUILT_IN_DIVIDE
    return tdm_sqrt(x);
#else
    const V scaled = TDM_SELECT_LT(N, x, K(0x1p-60f), x * K(0x1p64f), x);
    const V root = tdm_sqrt(scaled);
    const V remainder = tdm_fma(-root, root, scaled);
    const V better = root + remainder / (root + root);
    const V usable = TDM_SELECT_LT(N, K(0.0f), tdm_abs(remainder), better, root);
    const V result = TDM_SELECT_LT(N, tdm_abs(remainder), K(INFINITY), usable, root);
    return TDM_SELECT_LT(N, x, K(0x1p-60f), result * K(0x1p-32f), result);
#endif
}

TDM_DEVICE V tdm_unary(V x, int op, tdm_unary_arg arg) {
    switch (op) {
    case TDM_CODE_NEG:
        return -x;
    case TDM_CODE_ABS:
        return tdm_abs(x);
    case TDM_CODE_RELU:
        return TDM_SELECT_LT(N, x, K(0.0f), K(0.0f), x);
    case TDM_CODE_GELU:
        return TDM_CAT2(tdm_gelu_, N)(x);
    case TDM_CODE_GELU_TANH:
        return TDM_CAT2(tdm_gelu_tanh_, N)(x);
    case TDM_CODE_SILU:
        return TDM_CAT2(tdm_silu_, N)(x);
    case TDM_CODE_SIGMOID:
        return TDM_CAT2(tdm_sigmoid_times_, N)(K(1.0f), x);
    case TDM_CODE_TANH:
        return tdm_hyperbolic_tangent(x);
    case TDM_CODE_EXP:
        return tdm_exp(x);
    case TDM_CODE_SQRT:
        return tdm_square_root(x);
    case TDM_CODE_LOG:
        return tdm_log(x);
    case TDM_CODE_ERF:
        return tdm_erf(x);
    case TDM_CODE_FLOOR:
        return tdm_floor(x);
    case TDM_CODE_ROUND:
        return tdm_rint(x);
    case TDM_CODE_SIN:
        return tdm_sine(x, K(0.0f));
    case TDM_CODE_COS:
        return tdm_sine(x, K(1.0f));
    case TDM_CODE_CLAMP: {
        const V low = K(arg.low), high = K(arg.high);
        return TDM_SELECT_LT(N, x, low, low, TDM_SELECT_LT(N, high, x, high, x));
    }
    default:
        return tdm_rsqrt(x);
    }
}

/* Operations of few instructions have their own loops over the whole vectors of a row. */
#define WHOLE(code)                                                                                \
    case code:                                                                                     \
        for (; i + N <= stop; i += N) {                                                            \
            const V v = tdm_unary(TDM_LOADV_GLOBAL(N, DT, x, from + i), code, arg);                \
            TDM_STOREV_PAST(past, DT, v, y, to + i);                                               \
        }                                                                                          \
        break;

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL TDM_TYPE(DT) * y, long y_offset,
 tdm_dims shape, tdm_dims x_strides, tdm_dims y_strides, int rank, long rows, long inner,
 long x_step, long y_step, long span, tdm_unary_arg arg) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    const int streams = arg.op >= TDM_CODE_NONTEMPORAL;
    const int op = arg.op % TDM_CODE_NONTEMPORAL;
    TDM_FEW_PASSES for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &shape);
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        const int past =
            tdm_row_past(streams, y, (to + start) * (int)sizeof *y, N * (int)sizeof *y);
        long i = start;
#if N == 16 && !defined(TDM_DIALECT_CXX) /* in C++ a work-item has one vector of a row */
        if (x_step == 1)
            switch (op) {
                WHOLE(TDM_CODE_NEG)
                WHOLE(TDM_CODE_ABS)
                WHOLE(TDM_CODE_RELU)
                WHOLE(TDM_CODE_FLOOR)
                WHOLE(TDM_CODE_ROUND)
                WHOLE(TDM_CODE_CLAMP)
            }
#endif
        TDM_FEW_PASSES for (; i < stop; i += N) {
            const int left = (int)(stop - i < N ? stop - i : N);
            V v;
            if (N > 1 && x_step == 0)
                v = K(TDM_LOAD(DT, x, from));
            else if (left == N)
                v = TDM_LOADV_GLOBAL(N, DT, x, from + i * x_step);
            else
                v = TDM_LOAD_PART(DT, x, from + i, left, 0.0f);
            v = tdm_unary(v, op, arg);
            if (left == N)
                TDM_STOREV_PAST(past, DT, v, y, to + i * y_step);
            else
                TDM_STORE_PART(DT, v, y, to + i, left);
        }
    }
    if (streams)
        tdm_stream_end();
}
