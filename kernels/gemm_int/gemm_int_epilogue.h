/* Epilogue of the integer GEMM kernels. It computes elements of a row of D from the sums
 * raw(i, j) = Σ_p A(i, p)·B(p, j).
 *
 * gemm_int_args.h has the formulas and the names: za and zb are zero points, sa, sb and sd are
 * scales. All integers are modulo 2^32. Terms that depend only on the column are computed once, for
 * up to TDM_INT_COLUMNS columns. The rows of these columns then follow, one at a time:
 *
 *   v(i, j) = raw(i, j) + base(j) − za(i)·net(j) − zb(j)·rowsum(i)
 *   net(j)  = Σ_p (B(p, j) − zb(j))
 *
 * base(j) includes a bias that depends on the column. If all rows of A have the same zero point,
 * base(j) also includes −za·net(j), and the separate term is omitted. A kernel may multiply A +
 * a_shift instead of A, and sum the rows of A + a_shift. The same formula then holds with za +
 * a_shift.
 *
 * The types of all operands are run-time values, uniform over a launch. A source includes this
 * after defining
 *   TDM_EPILOGUE_VECTOR   elements of a row that are finished at once: 4, 8 or 16
 *   TDM_INT_COLUMNS       columns whose terms are kept, a multiple of TDM_EPILOGUE_VECTOR, e.g. 64
 *   TDM_BUILT_IN_DIVIDE   only if the device's division is correctly rounded */
#ifndef TDM_GEMM_INT_EPILOGUE_H
#define TDM_GEMM_INT_EPILOGUE_H

#define TDM_DIVIDE_VECTOR TDM_EPILOGUE_VECTOR
#include "kernels/dialect/divide.h"
#include "kernels/gemm/gemm_epilogue.h"
#include "gemm_int_args.h"
#include "kernels/dialect/integers.h"

/* The parameter list of integer GEMM kernels. Kernels with other first parameters, such as tensor
 * maps, put TDM_INT_OTHER_ARGUMENTS after them. */
#define TDM_INT_ARGUMENTS                                                                          \
    TDM_GLOBAL const void *TDM_RESTRICT a, long a_offset, TDM_GLOBAL const void *TDM_RESTRICT b,   \
        long b_offset, TDM_INT_OTHER_ARGUMENTS
#define TDM_INT_OTHER_ARGUMENTS                                                                    \
    TDM_GLOBAL const void *a_scale, long a_scale_offset, TDM_GLOBAL const void *a_zero,            \
        long a_zero_offset, TDM_GLOBAL const void *b_scale, long b_scale_offset,                   \
        TDM_GLOBAL const void *b_zero, long b_zero_offset, TDM_GLOBAL const void *c,               \
        long c_offset, TDM_GLOBAL const void *bias, long bias_offset,                              \
        TDM_GLOBAL const void *residual, long r_offset, TDM_GLOBAL void *d, long d_offset,         \
        TDM_GLOBAL const void *d_scale, long d_scale_offset, TDM_GLOBAL const void *d_zero,        \
        long d_zero_offset, tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e, tdm_gemm_quant_arg q

/* Declares a const tdm_int_io `name` for batch entry z, from the kernel's parameters. */
#define TDM_INT_IO(name, z)                                                                        \
    const tdm_int_io name = {                                                                      \
        a_scale,                                                                                   \
        a_zero,                                                                                    \
        b_scale,                                                                                   \
        b_zero,                                                                                    \
        d_scale,                                                                                   \
        d_zero,                                                                                    \
        a_scale_offset + (z)*q.a_scale_batch,                                                      \
        a_zero_offset + (z)*q.a_zero_batch,                                                        \
        b_scale_offset + (z)*q.b_scale_batch,                                                      \
        b_zero_offset + (z)*q.b_zero_batch,                                                        \
        d_scale_offset,                                                                            \
        d_zero_offset,                                                                             \
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z)}

typedef struct {
    TDM_GLOBAL const void *a_scale, *a_zero, *b_scale, *b_zero, *d_scale, *d_zero;
    long a_scale_at, a_zero_at, b_scale_at, b_zero_at, d_scale_at, d_zero_at;
    tdm_epilogue_io out;
} tdm_int_io;

/* The terms that depend only on the column. */
typedef struct {
    int base[TDM_INT_COLUMNS], net[TDM_INT_COLUMNS], zero[TDM_INT_COLUMNS];
    float scale[TDM_INT_COLUMNS];   /* sb(j), or the whole factor if A has one scale */
    float divisor[TDM_INT_COLUMNS]; /* sd(j) */
    float low[TDM_INT_COLUMNS], high[TDM_INT_COLUMNS];
    int d_zero[TDM_INT_COLUMNS];
} tdm_int_columns;

#define TDM_INT_V TDM_EPILOGUE_VECTOR
#define TDM_INT_S32 TDM_S32(TDM_INT_V)
#define TDM_INT_LOAD(p, i) TDM_INT_LOADV(TDM_INT_V, s32, p, i)

TDM_DEVICE float tdm_int_scale(TDM_GLOBAL const void *p, int type, long i) {
    return type == TDM_CODE_ABSENT ? 1.0f : tdm_load_any(p, type, i);
}

/* True if the epilogue needs the sums of B's columns. */
TDM_DEVICE int tdm_int_needs_column_sums(tdm_gemm_quant_arg q, int a_shift) {
    return q.a_zero_type != TDM_CODE_ABSENT || a_shift != 0;
}
/* True if the epilogue needs the sums of A's rows. */
TDM_DEVICE int tdm_int_needs_row_sums(tdm_gemm_quant_arg q) {
    return q.b_zero_type != TDM_CODE_ABSENT;
}

TDM_DEVICE int tdm_int_narrows(tdm_gemm_epilogue_arg e) {
    return e.d_type == TDM_CODE_S8 || e.d_type == TDM_CODE_U8;
}

/* Returns za(i) + a_shift. */
TDM_DEVICE int tdm_int_a_zero(const tdm_int_io *io, tdm_gemm_quant_arg q, long i, int a_shift) {
    const int zero = tdm_int_any(io->a_zero, q.a_zero_type, io->a_zero_at + i * q.a_zero_row);
    return tdm_add_wrap(1, zero, a_shift);
}

/* Computes the terms of `count` columns from j on. `sums` holds Σ_p B(p, j) for each column. It is
 * read only if tdm_int_needs_column_sums returns true. Columns past `count` repeat the last one. */
TDM_DEVICE void tdm_int_columns_begin(tdm_int_columns *to, const tdm_int_io *io,
                                      tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e,
                                      tdm_gemm_quant_arg q, const int *sums, int a_shift, long j,
                                      int count) {
    const int needs_sums = tdm_int_needs_column_sums(q, a_shift);
    const int common_zero = q.a_zero_row == 0 ? tdm_int_a_zero(io, q, 0, a_shift) : 0;
    const float common_scale =
        q.a_scale_row == 0 ? tdm_int_scale(io->a_scale, q.a_scale_type, io->a_scale_at) : 1.0f;
    const int has_bias = e.bias_type == TDM_CODE_S32 && e.bias_row == 0;
    for (int x = 0; x < TDM_INT_COLUMNS; x++) {
        const int piece = x < count ? x : count - 1;
        const long column = j + piece;
        const int zero =
            tdm_int_any(io->b_zero, q.b_zero_type, io->b_zero_at + column * q.b_zero_col);
        const int net =
            needs_sums ? tdm_sub_wrap(1, sums[piece], tdm_mul_wrap(1, (int)s.k, zero)) : 0;
        const int first = has_bias ? tdm_int_s32((TDM_GLOBAL const tdm_s32 *)io->out.bias,
                                                 io->out.bias_at + column * e.bias_col)
                                   : 0;
        to->zero[x] = zero;
        to->net[x] = net;
        to->base[x] = tdm_sub_wrap(1, first, tdm_mul_wrap(1, common_zero, net));
        to->scale[x] = common_scale * tdm_int_scale(io->b_scale, q.b_scale_type,
                                                    io->b_scale_at + column * q.b_scale_col);
        if (tdm_int_narrows(e)) {
            const int d_zero =
                tdm_int_any(io->d_zero, q.d_zero_type, io->d_zero_at + column * q.d_zero_col);
            const int low = tdm_sub_wrap(1, q.low, d_zero);
            const float divisor =
                tdm_int_scale(io->d_scale, q.d_scale_type, io->d_scale_at + column * q.d_scale_col);
            const int usable = tdm_abs(divisor) > 0.0f; /* false for NaN */
            to->d_zero[x] = d_zero;
            to->low[x] = !usable                             ? 0.0f
                         : e.activation == TDM_CODE_ACT_RELU ? tdm_float(tdm_int_max(low, 0))
                                                             : tdm_float(low);
            to->high[x] = usable ? tdm_float(tdm_sub_wrap(1, q.high, d_zero)) : 0.0f;
            to->divisor[x] = divisor;
        }
    }
    if (tdm_int_narrows(e) && q.a_scale_row == 0 && q.d_scale_type != TDM_CODE_ABSENT)
        for (int x = 0; x < TDM_INT_COLUMNS; x += TDM_INT_V)
            TDM_STOREV(TDM_INT_V, f32,
                       tdm_divide(TDM_LOADV(TDM_INT_V, f32, to->scale, x),
                                  TDM_LOADV(TDM_INT_V, f32, to->divisor, x)),
                       to->scale, x);
}

/* Returns the factors of v for a vector of columns, from index x on. `scale` is that of the row. */
TDM_DEVICE TDM_EPILOGUE_F32 tdm_int_factor(const tdm_int_columns *columns, tdm_gemm_epilogue_arg e,
                                           tdm_gemm_quant_arg q, float scale, int x) {
    const TDM_EPILOGUE_F32 factor = TDM_LOADV(TDM_INT_V, f32, columns->scale, x);
    if (q.a_scale_row == 0)
        return factor;
    const TDM_EPILOGUE_F32 product = TDM_SPLAT(TDM_INT_V, scale) * factor;
    if (!tdm_int_narrows(e) || q.d_scale_type == TDM_CODE_ABSENT)
        return product;
    return tdm_divide(product, TDM_LOADV(TDM_INT_V, f32, columns->divisor, x));
}

/* Quantizes to an 8-bit D. A NaN is not clamped. It is converted to 0, and D is its zero point. */
TDM_DEVICE TDM_INT_S32 tdm_int_requantize(TDM_EPILOGUE_F32 real, const tdm_int_columns *columns,
                                          int x) {
    const TDM_EPILOGUE_F32 low = TDM_LOADV(TDM_INT_V, f32, columns->low, x),
                           high = TDM_LOADV(TDM_INT_V, f32, columns->high, x);
    const TDM_EPILOGUE_F32 raised = TDM_SELECT_LT(TDM_INT_V, real, low, low, real);
    const TDM_EPILOGUE_F32 clamped = TDM_SELECT_LT(TDM_INT_V, high, raised, high, raised);
    return tdm_add_wrap(TDM_INT_V, TDM_CAT4(s32x, TDM_INT_V, _from_f32, _rte)(clamped),
                        TDM_INT_LOAD(columns->d_zero, x));
}

/* Stores at most `left` elements of v to an integer D, at offsets `at`, `at` + `col`, … */
TDM_DEVICE void tdm_int_store(TDM_INT_S32 v, TDM_GLOBAL void *d, int type, long at, long col,
                              int left) {
    if (col == 1 && left >= TDM_INT_V) {
        if (type == TDM_CODE_S32)
            TDM_INT_STOREV(TDM_INT_V, s32, v, (TDM_GLOBAL tdm_s32 *)d, at);
        else if (type == TDM_CODE_S8)
            TDM_INT_STOREV(TDM_INT_V, s8, v, (TDM_GLOBAL tdm_s8 *)d, at);
        else
            TDM_INT_STOREV(TDM_INT_V, u8, v, (TDM_GLOBAL tdm_u8 *)d, at);
        return;
    }
    int one[TDM_INT_V];
    TDM_INT_STOREV(TDM_INT_V, s32, v, one, 0);
    for (int x = 0; x < TDM_INT_V && x < left; x++) {
        if (type == TDM_CODE_S32)
            tdm_store_int_s32(one[x], (TDM_GLOBAL tdm_s32 *)d, at + x * col);
        else if (type == TDM_CODE_S8)
            tdm_store_int_s8(one[x], (TDM_GLOBAL tdm_s8 *)d, at + x * col);
        else
            tdm_store_int_u8(one[x], (TDM_GLOBAL tdm_u8 *)d, at + x * col);
    }
}

/* Returns v plus at most `left` elements of an s32 C, at offsets `at`, `at` + `col`, … */
TDM_DEVICE TDM_INT_S32 tdm_int_add_c(TDM_INT_S32 v, TDM_GLOBAL const void *c, long at, long col,
                                     int left) {
    int one[TDM_INT_V];
    if (col == 1 && left >= TDM_INT_V)
        return tdm_add_wrap(TDM_INT_V, v,
                            TDM_INT_LOADV(TDM_INT_V, s32, (TDM_GLOBAL const tdm_s32 *)c, at));
    for (int x = 0; x < TDM_INT_V; x++)
        one[x] = x < left ? tdm_int_s32((TDM_GLOBAL const tdm_s32 *)c, at + x * col) : 0;
    return tdm_add_wrap(TDM_INT_V, v, TDM_INT_LOAD(one, 0));
}

/* Computes and stores `count` elements of row i of D. They begin at column j, which is the first of
 * `columns`. `raw` must be readable up to the next multiple of TDM_EPILOGUE_VECTOR. `row_sum` is
 * the sum of A's row. It is read only if tdm_int_needs_row_sums returns true. */
TDM_DEVICE void tdm_int_row(const int *raw, int row_sum, const tdm_int_columns *columns,
                            const tdm_int_io *io, tdm_gemm_epilogue_arg e, tdm_gemm_quant_arg q,
                            int a_shift, long i, long j, int count) {
    const int a_zero = q.a_zero_row == 0 ? 0 : tdm_int_a_zero(io, q, i, a_shift);
    const float scale =
        tdm_int_scale(io->a_scale, q.a_scale_type, io->a_scale_at + i * q.a_scale_row);
    const int row_bias = e.bias_type == TDM_CODE_S32 && e.bias_row != 0
                             ? tdm_int_s32((TDM_GLOBAL const tdm_s32 *)io->out.bias,
                                           io->out.bias_at + i * e.bias_row)
                             : 0;
    float real[TDM_INT_COLUMNS];
    for (int x = 0; x < count; x += TDM_INT_V) {
        TDM_INT_S32 v =
            tdm_add_wrap(TDM_INT_V, TDM_INT_LOAD(raw, x), TDM_INT_LOAD(columns->base, x));
        if (q.a_zero_row != 0)
            v = tdm_sub_wrap(TDM_INT_V, v,
                             tdm_mul_wrap(TDM_INT_V, TDM_INT_SPLAT(TDM_INT_V, a_zero),
                                          TDM_INT_LOAD(columns->net, x)));
        if (tdm_int_needs_row_sums(q))
            v = tdm_sub_wrap(TDM_INT_V, v,
                             tdm_mul_wrap(TDM_INT_V, TDM_INT_SPLAT(TDM_INT_V, row_sum),
                                          TDM_INT_LOAD(columns->zero, x)));
        if (row_bias != 0)
            v = tdm_add_wrap(TDM_INT_V, v, TDM_INT_SPLAT(TDM_INT_V, row_bias));
        if (e.c_type == TDM_CODE_S32)
            v = tdm_int_add_c(v, io->out.c, io->out.c_at + i * e.c_row + (j + x) * e.c_col, e.c_col,
                              count - x);
        if (e.d_type != TDM_CODE_S32) {
            const TDM_EPILOGUE_F32 product =
                TDM_CAT4(f32x, TDM_INT_V, _from_s32, )(v) * tdm_int_factor(columns, e, q, scale, x);
            TDM_STOREV(TDM_INT_V, f32, product, real, x);
            if (tdm_int_narrows(e))
                v = tdm_int_requantize(product, columns, x);
        }
        if (e.d_type == TDM_CODE_S32 || tdm_int_narrows(e))
            tdm_int_store(v, io->out.d, e.d_type, io->out.d_at + i * e.d_row + (j + x) * e.d_col,
                          e.d_col, count - x);
    }
    if (e.d_type != TDM_CODE_S32 && !tdm_int_narrows(e)) {
        /* A copy is changed, because rusticl 22.3 makes a change of a parameter visible to the
         * caller. */
        tdm_gemm_epilogue_arg rest = e;
        if (rest.bias_type == TDM_CODE_S32) /* v includes it already */
            rest.bias_type = TDM_CODE_ABSENT;
        tdm_epilogue_row(real, io->out, rest, i, j, count, tdm_epilogue_is_dense(rest));
    }
}

#endif
