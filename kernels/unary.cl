/* y = op(x), element by element, for f32, f16 and bf16; computed in f32.
 *
 * Defines: DT storage type, N vector width, TDM_BUILT_IN_DIVIDE where the built-in square root
 * will do (it is correctly rounded, or DT is narrower than f32). Rows as strided_rows.h says; op
 * is TDM_CODE_NEG …, and TDM_CODE_PAST_CACHES. */
#include "dialect.h"
#include "op_codes.h"
#include "past_caches.h"
#include "strided_rows.h"

#define V TDM_F32(N)
#define K(constant) TDM_SPLAT(N, constant)

TDM_PART_FUNCTIONS(f32)
TDM_PART_FUNCTIONS(f16)
TDM_PART_FUNCTIONS(bf16)

/* x·Φ(x), with Φ from the upper tail h = erfc(|x|/√2)/2 so that large negative x keep their relative
 * accuracy, where 1 + erf would cancel. With t = |x|/√2 and s = 1/(1 + t/2),
 * erfc(t) = exp(-t²)·s·Q(s); Q is a minimax-like polynomial fitted in the project, relative error
 * 1.7·10⁻⁷ with f32 coefficients for t ≤ 14, beyond which exp(-t²) is 0. The built-in erfc of a CPU
 * implementation works lane by lane, ten times slower. */
TDM_DEVICE V tdm_gelu(V x) {
    const V s = K(1.0f) / (K(1.0f) + K(0.35355339059327376f) * tdm_abs(x));
    const V u = s - K(0.5f);
    V q = K(-0.05979175120592117f);
    q = q * u + K(0.048827413469552994f);
    q = q * u + K(0.095402292907238007f);
    q = q * u + K(-0.10309868305921555f);
    q = q * u + K(-0.1718667596578598f);
    q = q * u + K(0.14574649930000305f);
    q = q * u + K(0.5589390397071838f);
    q = q * u + K(0.6871609091758728f);
    q = q * u + K(0.5107913613319397f);
    const V tail = K(0.5f) * tdm_exp(K(-0.5f) * x * x) * s * q;
    return x * TDM_SELECT_LT(N, x, K(0.0f), tail, K(1.0f) - tail);
}

/* 1 / (1 + exp(-x)) times `factor`. With exp(-|x|) nothing overflows, and small results keep their digits. */
TDM_DEVICE V tdm_sigmoid_times(V factor, V x) {
    const V e = tdm_exp(-tdm_abs(x));
    return factor * TDM_SELECT_LT(N, x, K(0.0f), e, K(1.0f)) / (K(1.0f) + e);
}

/* The tanh form equals x·sigmoid(2u), which does not cancel. */
TDM_DEVICE V tdm_gelu_tanh(V x) {
    return tdm_sigmoid_times(x, K(1.5957691216057308f) * x * (K(1.0f) + K(0.044715f) * x * x));
}

/* Correctly rounded: where the driver does not promise that, one step of Newton's method on the
 * exact remainder; tiny x are scaled, because their remainder would underflow. Zero, infinity,
 * NaN and negative x have no usable remainder and keep the built-in's result. */
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

TDM_DEVICE V tdm_unary(V x, int op) {
    switch (op) {
    case TDM_CODE_NEG:
        return -x;
    case TDM_CODE_ABS:
        return tdm_abs(x);
    case TDM_CODE_RELU:
        return TDM_SELECT_LT(N, x, K(0.0f), K(0.0f), x);
    case TDM_CODE_GELU:
        return tdm_gelu(x);
    case TDM_CODE_GELU_TANH:
        return tdm_gelu_tanh(x);
    case TDM_CODE_SILU:
        return tdm_sigmoid_times(x, x);
    case TDM_CODE_SIGMOID:
        return tdm_sigmoid_times(K(1.0f), x);
    case TDM_CODE_TANH:
        return tdm_tanh(x);
    case TDM_CODE_EXP:
        return tdm_exp(x);
    case TDM_CODE_SQRT:
        return tdm_square_root(x);
    default:
        return tdm_rsqrt(x);
    }
}

/* The whole vectors of a row in a loop of its own for an operation of few instructions. */
#define WHOLE(code)                                                                                \
    case code:                                                                                     \
        for (; i + N <= stop; i += N) {                                                            \
            const V v = tdm_unary(TDM_LOADV_GLOBAL(N, DT, x, from + i), code);                     \
            TDM_STOREV_PAST(past, DT, v, y, to + i);                                               \
        }                                                                                          \
        break;

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) *x, long x_offset, TDM_GLOBAL TDM_TYPE(DT) *y, long y_offset,
 tdm_dims shape, tdm_dims x_strides, tdm_dims y_strides, int rank, long rows, long inner, long x_step,
 long y_step, long span, int op) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    const int streams = op >= TDM_CODE_PAST_CACHES;
    op %= TDM_CODE_PAST_CACHES;
    TDM_FEW_PASSES for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &shape);
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        const int past =
            tdm_row_past(streams, y, (to + start) * (int)sizeof *y, N * (int)sizeof *y);
        long i = start;
#if N == 16 && !defined(TDM_DIALECT_CXX) /* there an item has one vector of a row */
        if (x_step == 1)
            switch (op) {
                WHOLE(TDM_CODE_NEG)
                WHOLE(TDM_CODE_ABS)
                WHOLE(TDM_CODE_RELU)
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
            v = tdm_unary(v, op);
            if (left == N)
                TDM_STOREV_PAST(past, DT, v, y, to + i * y_step);
            else
                TDM_STORE_PART(DT, v, y, to + i, left);
        }
    }
    if (streams)
        tdm_stream_end();
}
