/* y = one bit pattern, truncated to the element size.
 *
 * Defines: T the storage type (any of the element's size), N vector width: 1, or 16 for elements of
 * 4 bytes. strided_rows.h describes the rows. IS_S4: a byte of T holds two elements and the pattern
 * holds both; offsets and strides count elements. */
#include "kernels/dialect/dialect.h"
#include "fill_args.h"
#include "strided_rows.h"

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL T *y, long y_offset, tdm_dims shape, tdm_dims y_strides, int rank, long rows,
 long inner, long y_step, long span, tdm_fill_arg arg) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
#if N == 16
    const s32x16 v = s32x16_splat((int)arg.pattern);
#endif
    TDM_FEW_PASSES for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        const long to = y_offset + tdm_row_offset(row, rank, &shape, &y_strides);
        long i = start;
#if N == 16
        if (arg.streams) {
            for (; i < stop && tdm_address(y + to + i) % (N * sizeof *y) != 0; i++)
                y[to + i] = (T)arg.pattern;
            for (; i + N <= stop; i += N)
                TDM_STREAMV(N, s32x16_float(v), (TDM_GLOBAL tdm_f32 *)y, to + i);
        }
        for (; i + N <= stop; i += N)
            TDM_INT_STOREV_GLOBAL(N, s32, v, y, to + i);
#endif
#ifdef IS_S4
        // Both elements of a byte belong to one work-item: rows begin at whole bytes, and span is
        // even. A single element is the low half of its byte; the other half is kept.
        if (y_step == 1) {
            TDM_FEW_PASSES for (; i + 2 <= stop; i += 2)
                y[(to + i) / 2] = (T)arg.pattern;
        }
        TDM_FEW_PASSES for (; i < stop; i++) {
            const long at = (to + i * y_step) / 2;
            y[at] = (T)((y[at] & 0xF0) | (arg.pattern & 0x0F));
        }
#else
        TDM_FEW_PASSES for (; i < stop; i++)
            y[to + i * y_step] = (T)arg.pattern;
#endif
    }
    if (arg.streams)
        tdm_stream_end();
}
