/* y = condition ? a : b, element by element, bits unchanged.
 *
 * Defines: T the storage type of a, b and y (any of the element's size). strided_rows.h describes
 * the rows. */
#include "kernels/dialect/dialect.h"
#include "strided_rows.h"

/* Chooses elements start … stop-1 of a row. */
TDM_INLINE void tdm_where_row(TDM_GLOBAL const tdm_u8 *condition, TDM_GLOBAL const T *a,
                              TDM_GLOBAL const T *b, TDM_GLOBAL T *y, long start, long stop,
                              long condition_step, long a_step, long b_step, long y_step) {
    TDM_FEW_PASSES for (long i = start; i < stop; i++) {
        const T x = a[i * a_step], z = b[i * b_step];
        y[i * y_step] = condition[i * condition_step] != 0 ? x : z;
    }
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const tdm_u8 *condition, long condition_offset, TDM_GLOBAL const T *a, long a_offset,
 TDM_GLOBAL const T *b, long b_offset, TDM_GLOBAL T *y, long y_offset, tdm_dims shape,
 tdm_dims condition_strides, tdm_dims a_strides, tdm_dims b_strides, tdm_dims y_strides, int rank,
 long rows, long inner, long condition_step, long a_step, long b_step, long y_step, long span) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    TDM_FEW_PASSES for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &shape);
        TDM_GLOBAL const tdm_u8 *const c_row =
            condition + condition_offset + tdm_offset_along(&along, rank, &condition_strides);
        TDM_GLOBAL const T *const a_row = a + a_offset + tdm_offset_along(&along, rank, &a_strides);
        TDM_GLOBAL const T *const b_row = b + b_offset + tdm_offset_along(&along, rank, &b_strides);
        TDM_GLOBAL T *const y_row = y + y_offset + tdm_offset_along(&along, rank, &y_strides);
#ifndef TDM_DIALECT_CXX /* in C++ a work-item has one element of a row */
        if (condition_step == 1 && a_step == 1 && b_step == 1 && y_step == 1)
            tdm_where_row(c_row, a_row, b_row, y_row, start, stop, 1, 1, 1, 1);
        else
#endif
            tdm_where_row(c_row, a_row, b_row, y_row, start, stop, condition_step, a_step, b_step,
                          y_step);
    }
}
