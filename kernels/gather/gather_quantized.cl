/* y = scale · (q - zero) for the elements q of table[indices] along an axis, in f32, f16 or bf16.
 *
 * Defines: DT the table's type (s8, u8, s4), N vector width. The rows are those of gather.cl, and
 * parameters are one more pair of operands. `blocks` gives for each outer dimension, and block_step
 * for the row, how many elements share a parameter; both are at least 1. With N > 1, block_step is
 * a multiple of N or the whole row. */
#include "kernels/dialect/dialect.h"
#include "kernels/quantize/quant_steps.h"
#include "kernels/quantize/quantize_types.h"
#include "gather_index.h"

/* Divides the indices along the outer dimensions by the blocks. */
TDM_DEVICE void tdm_gather_blocks_along(tdm_dims *along, int rank, const tdm_dims *blocks) {
#define TDM_BLOCK_ALONG(d)                                                                         \
    if (rank > d)                                                                                  \
        along->v[d] = tdm_quotient(along->v[d], blocks->v[d]);
    TDM_REPEAT(8, TDM_BLOCK_ALONG)
#undef TDM_BLOCK_ALONG
}

/* Loads `left` quantized values, at most N. */
TDM_INLINE I tdm_gather_codes(TDM_GLOBAL const TDM_TYPE(DT) * table, long i, int left) {
    return left == N ? TDM_INT_LOADV_GLOBAL(N, DT, table, i) : TDM_LOAD_PART(DT, table, i, left, 0);
}

/* Makes the elements start … stop-1 of a row. Elements up to `end` have one index and one pair of
 * parameters. */
#define ROW(type)                                                                                  \
    {                                                                                              \
        long block = tdm_quotient(start, block_step), block_end = (block + 1) * block_step;        \
        TDM_FEW_PASSES for (long i = start; i < stop;) {                                           \
            if (index_step != 0)                                                                   \
                position = tdm_gather_position(indices, at + i * index_step, arg.gather);          \
            const long next = index_step != 0 ? i + 1 : block_end;                                 \
            const long end = next < stop ? next : stop;                                            \
            const long found = position < 0 ? 0 : position;                                        \
            const long from = row_from + found * arg.gather.stride;                                \
            F scale = K(NAN);                                                                      \
            I zero = TDM_INT_SPLAT(N, 0);                                                          \
            if (position >= 0) {                                                                   \
                const long axis_block = arg.block > 1 ? tdm_quotient(found, arg.block) : found;    \
                scale = tdm_scale_lanes(                                                           \
                    scales, row_scale + block * scale_step + axis_block * arg.scale_stride, 0, N,  \
                    arg.side.scale_type);                                                          \
                zero = tdm_zero_lanes(zeros,                                                       \
                                      row_zero + block * zero_step + axis_block * arg.zero_stride, \
                                      0, N, arg.side);                                             \
                TDM_FEW_PASSES for (; i + N <= end; i += N) {                                      \
                    const I code = tdm_gather_codes(table, from + i * table_step, N);              \
                    tdm_store_dequantized(type, tdm_real(code, scale, zero), y, to + i * y_step,   \
                                          N);                                                      \
                }                                                                                  \
            }                                                                                      \
            TDM_FEW_PASSES for (; i < end; i += N) {                                               \
                const int left = end - i < N ? (int)(end - i) : N;                                 \
                I code = zero;                                                                     \
                if (position >= 0)                                                                 \
                    code = tdm_gather_codes(table, from + i * table_step, left);                   \
                tdm_store_dequantized(type, tdm_real(code, scale, zero), y, to + i * y_step,       \
                                      left);                                                       \
            }                                                                                      \
            if (i >= block_end) {                                                                  \
                block++;                                                                           \
                block_end += block_step;                                                           \
            }                                                                                      \
        }                                                                                          \
    }

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * table, long table_offset, TDM_GLOBAL const void *indices,
 long indices_offset, TDM_GLOBAL const void *scales, long scales_offset,
 TDM_GLOBAL const void *zeros, long zeros_offset, TDM_GLOBAL void *y, long y_offset, tdm_dims shape,
 tdm_dims table_strides, tdm_dims index_strides, tdm_dims scale_strides, tdm_dims zero_strides,
 tdm_dims blocks, tdm_dims y_strides, int rank, long rows, long inner, long table_step,
 long index_step, long scale_step, long zero_step, long block_step, long y_step, long span,
 tdm_gather_quantized_arg arg) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    TDM_FEW_PASSES for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &shape);
        const long row_from = table_offset + tdm_offset_along(&along, rank, &table_strides);
        const long at = indices_offset + tdm_offset_along(&along, rank, &index_strides);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        if (arg.has_blocks)
            tdm_gather_blocks_along(&along, rank, &blocks);
        const long row_scale = scales_offset + tdm_offset_along(&along, rank, &scale_strides);
        const long row_zero = zeros_offset + tdm_offset_along(&along, rank, &zero_strides);
        const int to_type = tdm_store_type(y, to + start, arg.target_type, arg.gather.streams);
        long position = index_step == 0 ? tdm_gather_position(indices, at, arg.gather) : -1;
        BY_DEQUANTIZED(to_type, ROW)
    }
    if (arg.gather.streams)
        tdm_stream_end();
}
