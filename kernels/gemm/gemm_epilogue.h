/* The GEMM epilogue, shared by the kernel sources: D = act(alpha·acc + beta·C + bias + residual),
 * or with `gated` D = act(alpha·acc + beta·C + bias) · residual.
 *
 * The types of C, bias, residual and D are run-time values, so one program serves all combinations.
 * The branch on a type is uniform over a launch and is taken once per vector.
 *
 * A source includes this after defining
 *   TDM_EPILOGUE_VECTOR   elements of a row that are finished at once: 4, 8 or 16 */
#ifndef TDM_GEMM_EPILOGUE_H
#define TDM_GEMM_EPILOGUE_H

#include "kernels/elementwise/activations.h"
#include "kernels/dialect/any_float.h"
#include "gemm_args.h"

#define TDM_EPILOGUE_F32 TDM_F32(TDM_EPILOGUE_VECTOR)

/* Operands of one batch entry; the offsets are already added. */
typedef struct {
    TDM_GLOBAL const void *c;
    TDM_GLOBAL const void *bias;
    TDM_GLOBAL const void *residual;
    TDM_GLOBAL void *d;
    long c_at, bias_at, r_at, d_at;
} tdm_epilogue_io;

TDM_DEVICE TDM_EPILOGUE_F32 tdm_loadv_any(TDM_GLOBAL const void *p, int type, long i) {
    return TDM_LOADV_ANY(TDM_EPILOGUE_VECTOR, p, type, i);
}

TDM_DEVICE void tdm_storev_any(TDM_EPILOGUE_F32 x, TDM_GLOBAL void *p, int type, long i) {
    if (type == TDM_CODE_F16)
        TDM_STOREV(TDM_EPILOGUE_VECTOR, f16, x, (TDM_GLOBAL tdm_f16 *)p, i);
    else if (type == TDM_CODE_BF16)
        TDM_STOREV(TDM_EPILOGUE_VECTOR, bf16, x, (TDM_GLOBAL tdm_bf16 *)p, i);
    else
        TDM_STOREV(TDM_EPILOGUE_VECTOR, f32, x, (TDM_GLOBAL tdm_f32 *)p, i);
}

#define TDM_EPILOGUE_SPLAT(x) TDM_SPLAT(TDM_EPILOGUE_VECTOR, x)
#define TDM_ACTIVATEV(name) TDM_CAT2(name, TDM_EPILOGUE_VECTOR)

TDM_DEFINE_ACTIVATIONS(1)
TDM_DEFINE_ACTIVATIONS(TDM_EPILOGUE_VECTOR)

/* The scalar and the vector version keep a NaN in relu. */
TDM_DEVICE float tdm_activate(float x, int activation) {
    switch (activation) {
    case TDM_CODE_ACT_RELU:
        return x < 0.0f ? 0.0f : x;
    case TDM_CODE_ACT_GELU:
        return tdm_gelu_1(x);
    case TDM_CODE_ACT_GELU_TANH:
        return tdm_gelu_tanh_1(x);
    case TDM_CODE_ACT_SILU:
        return tdm_silu_1(x);
    default:
        return x;
    }
}

TDM_DEVICE TDM_EPILOGUE_F32 tdm_activatev(TDM_EPILOGUE_F32 x, int activation) {
    switch (activation) {
    case TDM_CODE_ACT_RELU:
        return TDM_SELECT_LT(TDM_EPILOGUE_VECTOR, x, TDM_EPILOGUE_SPLAT(0.0f),
                             TDM_EPILOGUE_SPLAT(0.0f), x);
    case TDM_CODE_ACT_GELU:
        return TDM_ACTIVATEV(tdm_gelu_)(x);
    case TDM_CODE_ACT_GELU_TANH:
        return TDM_ACTIVATEV(tdm_gelu_tanh_)(x);
    case TDM_CODE_ACT_SILU:
        return TDM_ACTIVATEV(tdm_silu_)(x);
    default:
        return x;
    }
}

TDM_DEVICE tdm_epilogue_io tdm_epilogue_begin(TDM_GLOBAL const void *c, long c_offset,
                                              TDM_GLOBAL const void *bias, long bias_offset,
                                              TDM_GLOBAL const void *residual, long r_offset,
                                              TDM_GLOBAL void *d, long d_offset,
                                              tdm_gemm_epilogue_arg e, long batch) {
    tdm_epilogue_io io;
    io.c = c;
    io.bias = bias;
    io.residual = residual;
    io.d = d;
    io.c_at = c_offset + batch * e.c_batch;
    io.bias_at = bias_offset;
    io.r_at = r_offset + batch * e.r_batch;
    io.d_at = d_offset + batch * e.d_batch;
    return io;
}

/* Returns the value of D at (i, j) in f32, before it is rounded to the type of D. */
TDM_DEVICE float tdm_epilogue_value(float acc, tdm_epilogue_io io, tdm_gemm_epilogue_arg e, long i,
                                    long j) {
    float x = e.alpha * acc;
    if (e.c_type != TDM_CODE_ABSENT)
        x = tdm_mad(e.beta, tdm_load_any(io.c, e.c_type, io.c_at + i * e.c_row + j * e.c_col), x);
    if (e.bias_type != TDM_CODE_ABSENT)
        x += tdm_load_any(io.bias, e.bias_type, io.bias_at + i * e.bias_row + j * e.bias_col);
    float r = 0.0f;
    if (e.r_type != TDM_CODE_ABSENT) {
        r = tdm_load_any(io.residual, e.r_type, io.r_at + i * e.r_row + j * e.r_col);
        if (!e.gated)
            x += r;
    }
    x = tdm_activate(x, e.activation);
    return e.gated ? x * r : x;
}

TDM_DEVICE void tdm_epilogue_element(float acc, tdm_epilogue_io io, tdm_gemm_epilogue_arg e, long i,
                                     long j) {
    tdm_store_any(tdm_epilogue_value(acc, io, e, i, j), io.d, e.d_type,
                  io.d_at + i * e.d_row + j * e.d_col);
}

/* True if every operand that is present is contiguous along its rows. */
TDM_DEVICE int tdm_epilogue_is_dense(tdm_gemm_epilogue_arg e) {
    return e.d_col == 1 && (e.c_type == TDM_CODE_ABSENT || e.c_col == 1) &&
           (e.bias_type == TDM_CODE_ABSENT || e.bias_col == 1) &&
           (e.r_type == TDM_CODE_ABSENT || e.r_col == 1);
}

/* True if D is the plain result A·B, in f32 and contiguous along its rows. */
TDM_DEVICE int tdm_epilogue_is_plain(tdm_gemm_epilogue_arg e) {
    return e.alpha == 1.0f && e.c_type == TDM_CODE_ABSENT && e.bias_type == TDM_CODE_ABSENT &&
           e.r_type == TDM_CODE_ABSENT && e.activation == TDM_CODE_ACT_NONE &&
           e.d_type == TDM_CODE_F32 && e.d_col == 1;
}

/* Returns TDM_EPILOGUE_VECTOR values of row i from column j on. Operands must be contiguous along
 * rows. */
TDM_DEVICE TDM_EPILOGUE_F32 tdm_epilogue_values(TDM_EPILOGUE_F32 acc, tdm_epilogue_io io,
                                                tdm_gemm_epilogue_arg e, long i, long j) {
    TDM_EPILOGUE_F32 x = TDM_EPILOGUE_SPLAT(e.alpha) * acc;
    if (e.c_type != TDM_CODE_ABSENT)
        x = tdm_mad(TDM_EPILOGUE_SPLAT(e.beta),
                    tdm_loadv_any(io.c, e.c_type, io.c_at + i * e.c_row + j), x);
    if (e.bias_type != TDM_CODE_ABSENT)
        x = x + tdm_loadv_any(io.bias, e.bias_type, io.bias_at + i * e.bias_row + j);
    TDM_EPILOGUE_F32 r = TDM_EPILOGUE_SPLAT(0.0f);
    if (e.r_type != TDM_CODE_ABSENT) {
        r = tdm_loadv_any(io.residual, e.r_type, io.r_at + i * e.r_row + j);
        if (!e.gated)
            x = x + r;
    }
    x = tdm_activatev(x, e.activation);
    if (e.gated)
        x = x * r;
    return x;
}

TDM_DEVICE void tdm_epilogue_piece(TDM_EPILOGUE_F32 acc, tdm_epilogue_io io,
                                   tdm_gemm_epilogue_arg e, long i, long j) {
    tdm_storev_any(tdm_epilogue_values(acc, io, e, i, j), io.d, e.d_type,
                   io.d_at + i * e.d_row + j);
}

/* Stores `count` elements of row i from column j on. It uses vectors if the operands are dense, and
 * single elements otherwise and for the remainder. */
TDM_DEVICE void tdm_epilogue_row(const float *acc, tdm_epilogue_io io, tdm_gemm_epilogue_arg e,
                                 long i, long j, int count, int dense) {
    int x = 0;
    if (dense)
        for (; x + TDM_EPILOGUE_VECTOR <= count; x += TDM_EPILOGUE_VECTOR)
            tdm_epilogue_piece(TDM_LOADV(TDM_EPILOGUE_VECTOR, f32, acc, x), io, e, i, j + x);
    for (; x < count; x++)
        tdm_epilogue_element(acc[x], io, e, i, j + x);
}

#endif
