/* y = one bit pattern, cut to the element.
 *
 * Defines: T the storage type (any of the element's size). Rows as strided_rows.h says, any step. */
#include "dialect.h"
#define N 1
#include "strided_rows.h"

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL T *y, long y_offset, tdm_dims shape, tdm_dims y_strides, int rank, long rows, long inner,
 long y_step, long span, long pattern) {
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    TDM_FEW_PASSES for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        const long to = y_offset + tdm_row_offset(row, rank, &shape, &y_strides);
        TDM_FEW_PASSES for (long i = start; i < stop; i++)
            y[to + i * y_step] = (T)pattern;
    }
}
