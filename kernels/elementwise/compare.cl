/* y = a op b as 0 or 1, element by element.
 *
 * Defines: DT the type of a and b, TDM_INTEGER for an integer DT. strided_rows.h describes the
 * rows. op is one of TDM_CODE_EQUAL …. Each one has its own loop, and in OpenCL others for
 * contiguous rows, which compilers for CPU cores vectorize. */
#include "kernels/dialect/dialect.h"
#include "kernels/dialect/op_codes.h"
#include "s64.h"
#include "strided_rows.h"

#ifdef TDM_INTEGER
#define LOAD(p, i) TDM_CAT2(tdm_int_, DT)(p, i)
#else
#define LOAD(p, i) TDM_LOAD(DT, p, i)
#endif

#define ROW(code, op)                                                                              \
    case code:                                                                                     \
        TDM_FEW_PASSES for (long i = start; i < stop; i++)                                         \
            y[i * y_step] = LOAD(a, i * a_step) op LOAD(b, i * b_step) ? 1 : 0;                    \
        break;

/* Compares elements start … stop-1 of a row. */
TDM_INLINE void tdm_compare_row(TDM_GLOBAL const TDM_TYPE(DT) *a, TDM_GLOBAL const TDM_TYPE(DT) *b,
                                TDM_GLOBAL tdm_u8 *y, long start, long stop, long a_step,
                                long b_step, long y_step, int op) {
    switch (op) {
        ROW(TDM_CODE_EQUAL, ==)
        ROW(TDM_CODE_NOT_EQUAL, !=)
        ROW(TDM_CODE_LESS, <)
        ROW(TDM_CODE_LESS_EQUAL, <=)
        ROW(TDM_CODE_GREATER, >)
        ROW(TDM_CODE_GREATER_EQUAL, >=)
    }
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * a, long a_offset, TDM_GLOBAL const TDM_TYPE(DT) * b, long b_offset,
 TDM_GLOBAL tdm_u8 *y, long y_offset, tdm_dims shape, tdm_dims a_strides, tdm_dims b_strides,
 tdm_dims y_strides, int rank, long rows, long inner, long a_step, long b_step, long y_step,
 long span, int op) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    TDM_FEW_PASSES for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &shape);
        TDM_GLOBAL const TDM_TYPE(DT) *const a_row =
            a + a_offset + tdm_offset_along(&along, rank, &a_strides);
        TDM_GLOBAL const TDM_TYPE(DT) *const b_row =
            b + b_offset + tdm_offset_along(&along, rank, &b_strides);
        TDM_GLOBAL tdm_u8 *const y_row = y + y_offset + tdm_offset_along(&along, rank, &y_strides);
#ifndef TDM_DIALECT_CXX /* in C++ a work-item has one element of a row */
        if (a_step == 1 && b_step == 1 && y_step == 1)
            tdm_compare_row(a_row, b_row, y_row, start, stop, 1, 1, 1, op);
        else if (a_step == 1 && b_step == 0 && y_step == 1)
            tdm_compare_row(a_row, b_row, y_row, start, stop, 1, 0, 1, op);
        else
#endif
            tdm_compare_row(a_row, b_row, y_row, start, stop, a_step, b_step, y_step, op);
    }
}
