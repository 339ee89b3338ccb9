/* y = x, bits unchanged.
 *
 * Defines: T the storage type (any of the element's size), N vector width. strided_rows.h describes
 * the rows. streams: the tensors are larger than the caches, so y uses non-temporal stores;
 * ordinary stores would first read each of its cache lines. */
#include "kernels/dialect/dialect.h"
#include "strided_rows.h"

#if N > 1 && defined(TDM_STREAM_COPYV)
#define STREAMED
#define PREFETCH_BYTES 4096
#endif

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const T *x, long x_offset, TDM_GLOBAL T *y, long y_offset, tdm_dims shape,
 tdm_dims x_strides, tdm_dims y_strides, int rank, long rows, long inner, long x_step, long y_step,
 long span, int streams) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    TDM_FEW_PASSES for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &shape);
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        long i = start;
#ifdef STREAMED
        if (streams && x_step == 1) {
            for (; i < stop && tdm_address(y + to + i) % (N * sizeof *y) != 0; i++)
                y[to + i] = x[from + i];
            for (; i + N <= stop; i += N) {
                tdm_prefetch_far((TDM_GLOBAL const char *)(x + from + i) + PREFETCH_BYTES);
                TDM_STREAM_COPYV(N, y, to + i, x, from + i);
            }
        }
#endif
        if (N > 1 && x_step == 1) {
            TDM_FEW_PASSES for (; i + N <= stop; i += N)
                TDM_COPYV(N, y, to + i, x, from + i);
        }
        TDM_FEW_PASSES for (; i < stop; i++)
            y[to + i * y_step] = x[from + i * x_step];
    }
#ifdef STREAMED
    if (streams)
        tdm_stream_end();
#endif
}
