/* The kernel computes y = a op b, element by element. f32, f16 and bf16 are computed in f32; s32,
 * s8 and u8 are computed in s32. s32 results wrap around. s8 and u8 results saturate when they are
 * stored.
 *
 * Defines: DT storage type, N vector width, TDM_INTEGER for an integer DT, TDM_BUILT_IN_DIVIDE if
 * the built-in division suffices. It suffices if it is correctly rounded, or if DT is narrower than
 * f32. strided_rows.h explains how work-items traverse the rows. The argument `op` is an operation
 * code (TDM_CODE_ADD …), plus TDM_CODE_NONTEMPORAL for non-temporal stores. */
#define TDM_DIVIDE_VECTOR N
#include "kernels/dialect/dialect.h"
#include "kernels/dialect/divide.h"
#include "kernels/dialect/op_codes.h"
#include "kernels/dialect/nontemporal.h"
#include "power.h"
#include "strided_rows.h"

#ifdef TDM_INTEGER
#define V TDM_S32(N)
#define LOAD_ONE(p, i) TDM_INT_SPLAT(N, TDM_CAT2(tdm_int_, DT)(p, i))
#define LOAD_WHOLE(p, i) TDM_INT_LOADV_GLOBAL(N, DT, p, i)
#define STORE_WHOLE(past, v, p, i) TDM_INT_STOREV_PAST(past, DT, v, p, i)
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
#define LOAD_WHOLE(p, i) TDM_LOADV_GLOBAL(N, DT, p, i)
#define STORE_WHOLE(past, v, p, i) TDM_STOREV_PAST(past, DT, v, p, i)
TDM_PART_FUNCTIONS(f32)
TDM_PART_FUNCTIONS(f16)
TDM_PART_FUNCTIONS(bf16)

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
    case TDM_CODE_MAX:
        return tdm_max_nan(a, b);
    default:
        return tdm_pow(a, b);
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

/* Each operation has its own loop over the full vectors of a row. */
#define WHOLE(code)                                                                                \
    case code:                                                                                     \
        for (; i + N <= stop; i += N) {                                                            \
            const V v = tdm_binary(LOAD_WHOLE(a, a_row + i), LOAD_WHOLE(b, b_row + i), code);      \
            STORE_WHOLE(past, v, y, y_row + i);                                                    \
        }                                                                                          \
        break;

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * a, long a_offset, TDM_GLOBAL const TDM_TYPE(DT) * b, long b_offset,
 TDM_GLOBAL TDM_TYPE(DT) * y, long y_offset, tdm_dims shape, tdm_dims a_strides, tdm_dims b_strides,
 tdm_dims y_strides, int rank, long rows, long inner, long a_step, long b_step, long y_step,
 long span, int op) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    const int streams = op >= TDM_CODE_NONTEMPORAL;
    op %= TDM_CODE_NONTEMPORAL;
    TDM_FEW_PASSES for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &shape);
        const long a_row = a_offset + tdm_offset_along(&along, rank, &a_strides);
        const long b_row = b_offset + tdm_offset_along(&along, rank, &b_strides);
        const long y_row = y_offset + tdm_offset_along(&along, rank, &y_strides);
        const int past =
            tdm_row_past(streams, y, (y_row + start) * (int)sizeof *y, N * (int)sizeof *y);
        long i = start;
#if N == 16 && !defined(TDM_DIALECT_CXX) /* a C++ work-item has one vector per row */
        if (a_step == 1 && b_step == 1)
            switch (op) {
                WHOLE(TDM_CODE_ADD)
                WHOLE(TDM_CODE_SUB)
                WHOLE(TDM_CODE_MUL)
#ifndef TDM_INTEGER
                WHOLE(TDM_CODE_DIV)
#endif
                WHOLE(TDM_CODE_MIN)
                WHOLE(TDM_CODE_MAX)
            }
#endif
        TDM_FEW_PASSES for (; i < stop; i += N) {
            const int left = (int)(stop - i < N ? stop - i : N);
            const V v = tdm_binary(tdm_operand(a, a_row, i, a_step, left),
                                   tdm_operand(b, b_row, i, b_step, left), op);
            if (left == N)
                STORE_WHOLE(past, v, y, y_row + i * y_step);
            else
                TDM_STORE_PART(DT, v, y, y_row + i, left);
        }
    }
    if (streams)
        tdm_stream_end();
}
