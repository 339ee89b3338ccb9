/* y = a op b, element by element, for f32, f16 and bf16 (computed in f32) and for s32, s8 and u8
 * (computed in s32; s32 wraps, s8 and u8 saturate when stored).
 *
 * Defines: DT storage type, N vector width, TDM_INTEGER for an integer DT, TDM_BUILT_IN_DIVIDE
 * where the built-in division will do (it is correctly rounded, or DT is narrower than f32). Rows
 * as strided_rows.h says; op is one of TDM_CODE_ADD … */
#include "dialect.h"
#include "op_codes.h"
#include "strided_rows.h"

#ifdef TDM_INTEGER
#define V TDM_S32(N)
#define LOAD_ONE(p, i) TDM_INT_SPLAT(N, TDM_CAT2(tdm_int_, DT)(p, i))
#define LOAD_WHOLE(p, i) TDM_INT_LOADV(N, DT, p, i)
#define STORE_WHOLE(v, p, i) TDM_INT_STOREV(N, DT, v, p, i)
TDM_INT_PART_FUNCTIONS(s32)
TDM_INT_PART_FUNCTIONS(s8)
TDM_INT_PART_FUNCTIONS(u8)

TDM_DEVICE V tdm_binary(V a, V b, int op) {
    switch (op) {
    case TDM_CODE_ADD:
        return tdm_add_wrap(N, a, b);
    case TDM_CODE_SUB:
        return tdm_sub_wrap(N, a, b);
    case TDM_CODE_MUL:
        return tdm_mul_wrap(N, a, b);
    case TDM_CODE_MIN:
        return tdm_int_min(a, b);
    default:
        return tdm_int_max(a, b);
    }
}
#else
#define V TDM_F32(N)
#define LOAD_ONE(p, i) TDM_SPLAT(N, TDM_LOAD(DT, p, i))
#define LOAD_WHOLE(p, i) TDM_LOADV(N, DT, p, i)
#define STORE_WHOLE(v, p, i) TDM_STOREV(N, DT, v, p, i)
TDM_PART_FUNCTIONS(f32)
TDM_PART_FUNCTIONS(f16)
TDM_PART_FUNCTIONS(bf16)

#define K(constant) TDM_SPLAT(N, constant)

/* Correctly rounded: where the driver does not promise that, the quotient is corrected by its
 * exact remainder. With a zero, infinite or NaN operand, or an overflow, there is no usable
 * remainder and the plain quotient stands. Powers of two keep the remainder and its share from
 * underflowing: a' / b' is normal with digits to spare wherever a / b is normal, and the factor
 * that undoes them is exact. (Where a / b is below the normal numbers it is rounded a second
 * time.) */
TDM_DEVICE V tdm_divide(V a, V b) {
#ifdef TDM_BUILT_IN_DIVIDE
    return a / b;
#else
    const V size_a = tdm_abs(a), size_b = tdm_abs(b);
    const V up_a = TDM_SELECT_LT(N, size_a, K(0x1p-36f), K(0x1p63f), K(1.0f));
    const V undo_a = TDM_SELECT_LT(N, size_a, K(0x1p-36f), K(0x1p-63f), K(1.0f));
    const V down_b = TDM_SELECT_LT(N, size_a, K(0x1p60f), K(0x1p-63f), K(1.0f));
    const V large_b = TDM_SELECT_LT(N, K(0x1p37f), size_b, down_b, K(1.0f));
    const V scale_b = TDM_SELECT_LT(N, size_b, K(0x1p-60f), K(0x1p63f), large_b);
    const V n = a * up_a, d = b * scale_b;
    const V quotient = n / d;
    const V remainder = tdm_fma(-quotient, d, n);
    const V better = quotient + remainder / d;
    const V usable = TDM_SELECT_LT(N, K(0.0f), tdm_abs(remainder), better, quotient);
    const V result = TDM_SELECT_LT(N, tdm_abs(remainder), K(INFINITY), usable, quotient);
    return result * (undo_a * scale_b);
#endif
}

TDM_DEVICE V tdm_binary(V a, V b, int op) {
    switch (op) {
    case TDM_CODE_ADD:
        return a + b;
    case TDM_CODE_SUB:
        return a - b;
    case TDM_CODE_MUL:
        return a * b;
    case TDM_CODE_DIV:
        return tdm_divide(a, b);
    case TDM_CODE_MIN:
        return tdm_min_nan(a, b);
    default:
        return tdm_max_nan(a, b);
    }
}
#endif

TDM_DEVICE V tdm_operand(TDM_GLOBAL const TDM_TYPE(DT) *p, long row, long i, long step, int left) {
    if (N > 1 && step == 0)
        return LOAD_ONE(p, row);
    if (left == N)
        return LOAD_WHOLE(p, row + i * step);
    return TDM_LOAD_PART(DT, p, row + i, left, 1);
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) *a, long a_offset, TDM_GLOBAL const TDM_TYPE(DT) *b, long b_offset,
 TDM_GLOBAL TDM_TYPE(DT) *y, long y_offset, tdm_dims shape, tdm_dims a_strides, tdm_dims b_strides,
 tdm_dims y_strides, int rank, long rows, long inner, long a_step, long b_step, long y_step, long span,
 int op) {
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        const long a_row = a_offset + tdm_row_offset(row, rank, &shape, &a_strides);
        const long b_row = b_offset + tdm_row_offset(row, rank, &shape, &b_strides);
        const long y_row = y_offset + tdm_row_offset(row, rank, &shape, &y_strides);
        for (long i = start; i < stop; i += N) {
            const int left = (int)(stop - i < N ? stop - i : N);
            const V v = tdm_binary(tdm_operand(a, a_row, i, a_step, left),
                                   tdm_operand(b, b_row, i, b_step, left), op);
            if (left == N)
                STORE_WHOLE(v, y, y_row + i * y_step);
            else
                TDM_STORE_PART(DT, v, y, y_row + i, left);
        }
    }
}
