/* y = x[indices] along an axis, or with SCATTER y[indices] = x, bits unchanged.
 *
 * Defines: T the storage type (any of the element's size), N vector width, SCATTER. strided_rows.h
 * describes the rows: of y, with SCATTER of x. The other tensor has a stride of 0 along the
 * dimensions of the indices, and the indices have one along all others. Usually a row has one index
 * (index_step 0). An index outside writes elements whose bits are all set, with SCATTER nothing.
 * streams: the tensors are larger than the caches, so y uses non-temporal stores. */
#include "kernels/dialect/dialect.h"
#include "kernels/elementwise/strided_rows.h"
#include "gather_index.h"

/* The index moves the place that is read, with SCATTER the place that is written. */
#ifdef SCATTER
#define MOVES_X 0
#define MOVES_Y 1
#else
#define MOVES_X 1
#define MOVES_Y 0
#endif
#define OUTSIDE ((T)-1)

#if N > 1 && defined(TDM_STREAM_COPYV)
#define STREAMED
#define PREFETCH_BYTES 4096
#define AHEAD (PREFETCH_BYTES / (long)sizeof(T))

/* Returns the offset of a row in x. If its index is outside, the result is 0: it is only
 * prefetched. */
TDM_DEVICE long tdm_gather_row(long row, int rank, const tdm_dims *shape, const tdm_dims *x_strides,
                               const tdm_dims *index_strides, TDM_GLOBAL const void *indices,
                               long indices_offset, tdm_gather_arg arg) {
    tdm_dims along;
    tdm_row_along(&along, row, rank, shape);
    const long position = tdm_gather_position(
        indices, indices_offset + tdm_offset_along(&along, rank, index_strides), arg);
    return position < 0
               ? 0
               : tdm_offset_along(&along, rank, x_strides) + MOVES_X * position * arg.stride;
}
#endif

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const T *x, long x_offset, TDM_GLOBAL const void *indices, long indices_offset,
 TDM_GLOBAL T *y, long y_offset, tdm_dims shape, tdm_dims x_strides, tdm_dims index_strides,
 tdm_dims y_strides, int rank, long rows, long inner, long x_step, long index_step, long y_step,
 long span, tdm_gather_arg arg) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    TDM_FEW_PASSES for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &shape);
        const long row_from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long at = indices_offset + tdm_offset_along(&along, rank, &index_strides);
        const long row_to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        long i = start;
        if (index_step != 0) {
            TDM_FEW_PASSES for (; i < stop; i++) {
                const long position = tdm_gather_position(indices, at + i * index_step, arg);
                const long moved = position * arg.stride;
                if (position >= 0)
                    y[row_to + i * y_step + MOVES_Y * moved] =
                        x[row_from + i * x_step + MOVES_X * moved];
                else if (MOVES_X)
                    y[row_to + i * y_step] = OUTSIDE;
            }
        } else {
            const long position = tdm_gather_position(indices, at, arg);
            const long from = row_from + MOVES_X * position * arg.stride;
            const long to = row_to + MOVES_Y * position * arg.stride;
            if (position < 0) {
                TDM_FEW_PASSES for (; MOVES_X && i < stop; i++) y[row_to + i * y_step] = OUTSIDE;
                i = stop;
            }
#ifdef STREAMED
            if (arg.streams && x_step == 1 && i < stop) {
                // If rows are short, several of them are ahead.
                const long rows_ahead = AHEAD > stop - start ? AHEAD / (stop - start) + 1 : 1;
                const long next_row = row + rows_ahead * tdm_global_size_y();
                const long next =
                    x_offset + start +
                    tdm_gather_row(next_row < rows ? next_row : row, rank, &shape, &x_strides,
                                   &index_strides, indices, indices_offset, arg);
                for (; i < stop && tdm_address(y + to + i) % (N * sizeof *y) != 0; i++)
                    y[to + i] = x[from + i];
                for (; i + N <= stop - AHEAD; i += N) {
                    tdm_prefetch_far((TDM_GLOBAL const char *)(x + from + i + AHEAD));
                    TDM_STREAM_COPYV(N, y, to + i, x, from + i);
                }
                // The rows that this work-item copies next are elsewhere in the table.
                TDM_GLOBAL const T *const ahead = x + next - i;
                for (; i + N <= stop; i += N) {
                    tdm_prefetch_far((TDM_GLOBAL const char *)(ahead + i));
                    TDM_STREAM_COPYV(N, y, to + i, x, from + i);
                }
            }
#endif
            if (N > 1 && x_step == 1) {
                TDM_FEW_PASSES for (; i + N <= stop; i += N) TDM_COPYV(N, y, to + i, x, from + i);
            }
            TDM_FEW_PASSES for (; i < stop; i++) y[to + i * y_step] = x[from + i * x_step];
        }
    }
#ifdef STREAMED
    if (arg.streams)
        tdm_stream_end();
#endif
}
