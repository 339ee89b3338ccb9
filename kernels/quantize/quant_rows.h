/* The kernel of quantize, dequantize, requantize and fake_quantize. strided_rows.h describes the
 * rows. The parameters are operands with strides of their own (0 along dimensions that share them).
 * Both elements of a byte of s4 belong to one work-item, so span is even for s4.
 *
 * A kernel source defines these before it includes this file:
 *
 *   DT                source type
 *   N                 vector width
 *   TDM_SOURCE_CODES  the source holds quantized values
 *   TDM_TARGET_CODES  quantized values are written
 *   TDM_BOUND_DEQUANTIZED
 *                     bounds apply to scale · (quantized value - zero), not to the second factor
 *   TDM_MASK          there is a mask
 *
 * After it, the source defines tdm_made_code if quantized values are written, otherwise tdm_put and
 * tdm_made_real. If DEQUANTIZED_BY_PRODUCTS is defined, it also defines tdm_made_masked.
 *
 * With 16 lanes on CPU cores, slow steps are done once for many vectors, as follows. Fallback
 * variants (TDM_STANDS_BY in quant_steps.h) do not have this:
 *
 *   parameters along the row    They are widened to arrays for STRIP columns. ROWS_BLOCK rows use
 *                               them, or all rows that share them, as groups along columns do. If
 *                               the data is not in the caches, TOGETHER rows are processed by cells
 *                               of CELL columns. The parameters of a cell stay in the first-level
 *                               cache, and each row of it is read and stored in one run. Rows of
 *                               more than NARROW floats are processed one by one. The next rows are
 *                               prefetched in memory order, into the second-level cache. Data in
 *                               the caches is processed in tiles of TILE rows, which read
 *                               parameters once.
 *   short rows: groups          The parameters of SHORT_ROWS rows are loaded at a time.
 *   stores                      64 quantized values are packed and stored at once. So are f16 and
 *                               bf16 values, and a mask of 64 elements.
 *   quotients                   They are products with the reciprocal of the scale, if
 *                               quant_steps.h has functions for that. */
#ifndef TDM_QUANT_ROWS_H
#define TDM_QUANT_ROWS_H

#include "quant_traversal_strips.h"

/* The rows of a work-item: elements start … stop-1 of rows first … last-1 of `inner` elements each.
 * It holds the offsets of operands and parameters, and the sizes and strides of the outer
 * dimensions. */
typedef struct {
    tdm_place offset;
    tdm_dims shape, x_strides, scale_strides, zero_strides, y_strides;
#ifdef TDM_TWO_SIDES
    tdm_dims from_scale_strides, from_zero_strides;
#endif
#ifdef TDM_MASK
    tdm_dims mask_strides;
#endif
    int rank;
    long start, stop, first, last, inner;
} tdm_rows;

#ifdef TDM_MASK
#define MASK_BUFFER TDM_GLOBAL tdm_u8 *mask, long mask_offset,
#define MASK_STRIDES tdm_dims mask_strides,
#define MASK_STEP long mask_step,
#define MASK_OF_CALL                                                                               \
    w.mask = mask, w.mask_step = mask_step,                                                        \
    w.mask_streams = MASK_STRIDES_WHOLE &&                                                         \
                     tdm_store_type(mask, mask_offset, TDM_CODE_U8, arg.streams) != TDM_CODE_U8,   \
    r.offset.mask = mask_offset, r.mask_strides = mask_strides
#define MASK_STRIDES_WHOLE (rank == 0 || (rank == 1 && mask_strides.v[0] % N == 0))
#define MASK_PLACE(at, along)                                                                      \
    (at).mask = r->offset.mask + tdm_offset_along(along, r->rank, &r->mask_strides)
#define MASK_STRIDE(at) (at).mask = NEIGHBOUR(r->mask_strides)
#else
#define MASK_BUFFER
#define MASK_STRIDES
#define MASK_STEP
#define MASK_OF_CALL w.mask = 0, w.mask_step = 0, w.mask_streams = 0, r.offset.mask = 0
#define MASK_PLACE(at, along) (at).mask = 0
#define MASK_STRIDE(at) (at).mask = 0
#endif

/* The stride along the last of up to three outer dimensions, in which rows are neighbours. */
#define NEIGHBOUR(dims) (r->rank == 3 ? (dims).v[2] : r->rank == 2 ? (dims).v[1] : (dims).v[0])

/* With two sides, the source's parameters come first. */
#ifdef TDM_TWO_SIDES
#define FROM_BUFFERS                                                                               \
    TDM_GLOBAL const void *from_scale, long from_scale_offset, TDM_GLOBAL const void *from_zero,   \
        long from_zero_offset,
#define FROM_STRIDES tdm_dims from_scale_strides, tdm_dims from_zero_strides,
#define FROM_STEPS long from_scale_step, long from_zero_step,
#define FROM_OF_CALL                                                                               \
    w.from_scale = from_scale, w.from_zero = from_zero, w.step.from_scale = from_scale_step,       \
    w.step.from_zero = from_zero_step, r.offset.entry.from_scale = from_scale_offset,              \
    r.offset.entry.from_zero = from_zero_offset, r.from_scale_strides = from_scale_strides,        \
    r.from_zero_strides = from_zero_strides
#define FROM_PLACE(at, along)                                                                      \
    (at).entry.from_scale =                                                                        \
        r->offset.entry.from_scale + tdm_offset_along(along, r->rank, &r->from_scale_strides),     \
    (at).entry.from_zero =                                                                         \
        r->offset.entry.from_zero + tdm_offset_along(along, r->rank, &r->from_zero_strides)
#define FROM_STRIDE(at)                                                                            \
    (at).entry.from_scale = NEIGHBOUR(r->from_scale_strides),                                      \
    (at).entry.from_zero = NEIGHBOUR(r->from_zero_strides)
#else
#define FROM_BUFFERS
#define FROM_STRIDES
#define FROM_STEPS
#define FROM_OF_CALL (void)0
#define FROM_PLACE(at, along) (void)0
#define FROM_STRIDE(at) (void)0
#endif

#define PLACE(at, row)                                                                             \
    tdm_place at;                                                                                  \
    tdm_dims at##_along;                                                                           \
    tdm_row_along(&at##_along, row, r->rank, &r->shape);                                           \
    at.x = r->offset.x + tdm_offset_along(&at##_along, r->rank, &r->x_strides);                    \
    at.entry.scale =                                                                               \
        r->offset.entry.scale + tdm_offset_along(&at##_along, r->rank, &r->scale_strides);         \
    at.entry.zero =                                                                                \
        r->offset.entry.zero + tdm_offset_along(&at##_along, r->rank, &r->zero_strides);           \
    at.y = r->offset.y + tdm_offset_along(&at##_along, r->rank, &r->y_strides);                    \
    MASK_PLACE(at, &at##_along);                                                                   \
    FROM_PLACE(at, &at##_along)

/* OWN processes elements from … to-1 of rows row … end-1 through tdm_own. With 16 lanes this is
 * rare, so all types share the code. */
#if N == 16
#define OWN_TYPES(call) call(w.arg.target_type);
#else
#define OWN_TYPES(call) BY_TYPE(w.arg.target_type, call)
#endif
#define OWN_CALL(T) tdm_own(w, own, own_from, own_to, T)
#define OWN_ROW(at, from, to)                                                                      \
    {                                                                                              \
        const tdm_place own = at;                                                                  \
        const long own_from = from, own_to = to;                                                   \
        OWN_TYPES(OWN_CALL)                                                                        \
    }
#define OWN(row, end, from, to)                                                                    \
    for (long one = row; one < (end); one++) {                                                     \
        PLACE(one_at, one);                                                                        \
        OWN_ROW(one_at, from, to)                                                                  \
    }

TDM_BODY void tdm_do_rows(const tdm_traversal *traversal, const tdm_rows *r) {
    const tdm_traversal w = *traversal;
    const long start = r->start, stop = r->stop, first = r->first, last = r->last;
    const int varies = tdm_entries_apart(w.step) != 0;
#ifdef MANY_AT_ONCE
    tdm_widened widened;
    tdm_place strides;
    strides.x = NEIGHBOUR(r->x_strides), strides.y = NEIGHBOUR(r->y_strides);
    strides.entry.scale = NEIGHBOUR(r->scale_strides);
    strides.entry.zero = NEIGHBOUR(r->zero_strides);
    MASK_STRIDE(strides);
    FROM_STRIDE(strides);
    const long apart = tdm_entries_apart(strides.entry);
    if (varies && w.x_step == 1) {
        const int alike = r->rank <= 3 && apart == 0;
        const int zeros = tdm_zeros_differ(w);
        tdm_parameters shared;
        const long rows_block = stop - start <= STRIP ? last - first : ROWS_BLOCK;
        for (long block = first; block < last; block += rows_block) {
            const long block_end = block + rows_block < last ? block + rows_block : last;
            PLACE(block_at, block);
            for (long from = start; from < stop; from += STRIP) {
                const long count = from + STRIP < stop ? STRIP : stop - from;
                const int row_by_row = w.arg.streams && count > (sizeof *w.x < 4 ? STRIP : NARROW);
                const int all_plain = (1 << (count + CELL - 1) / CELL) - 1;
                tdm_entries held;
                int is_held = 0;
                int plain = 0; /* one bit per cell */
                for (long row = block; row < block_end;) {
                    PLACE(at, row);
                    const int fresh = !is_held || tdm_entries_differ(at.entry, held);
                    if (fresh && !zeros)
                        tdm_zeros_at(&shared, w, at.entry, tdm_no_steps(), N);
                    plain = fresh ? 0 : plain;
                    held = at.entry;
                    is_held = 1;
                    tdm_place on = at;
                    on.x += from;
                    on.y += from;
                    on.mask += from;
                    const int together =
                        alike && !row_by_row
                            ? tdm_rows_together(block_end - row,
                                                NEIGHBOUR(r->shape) - NEIGHBOUR(at_along))
                            : 1;
                    const long after = row + together < block_end ? on.x + together * strides.x
                                       : from + STRIP < stop      ? block_at.x + from + STRIP
                                                             : at.x + together * strides.x + start;
                    const int type = together == 1 || strides.y % N == 0 ? tdm_row_type(w, on.y)
                                                                         : w.arg.target_type;
                    const long cell =
                        (w.arg.streams && !row_by_row) || plain != all_plain ? CELL : count;
                    for (long i = 0; i < count; i += cell) {
                        const long end = i + cell < count ? i + cell : count;
                        const int bit = 1 << i / CELL;
                        if (fresh && tdm_widen(w, tdm_entries_on(at.entry, w.step, from), w.step, i,
                                               end, zeros, &widened))
                            plain |= bit;
#define CALL(T) tdm_strip(w, on, strides, together, i, end, count, after, &widened, 0, shared, T)
#define CALL_ZEROS(T)                                                                              \
    tdm_strip(w, on, strides, together, i, end, count, after, &widened, 1, shared, T)
                        if (!(plain & bit)) {
                            OWN(row, row + together, from + i, from + end)
                        } else if (zeros) {
                            BY_TYPE(type, CALL_ZEROS)
                        } else {
                            BY_TYPE(type, CALL)
                        }
#undef CALL
#undef CALL_ZEROS
                    }
                    row += together;
                }
            }
        }
    } else if (!varies && w.x_step == 1 && r->rank <= 1 && r->inner % N == 0 &&
               r->inner <= SHORT_ROW && stop - start == r->inner && apart <= 1) {
        const int zeros = tdm_has_zeros(w);
        tdm_parameters shared;
        if (!zeros)
            tdm_zeros_at(&shared, w, tdm_no_steps(), tdm_no_steps(), N);
        for (long row = first; row < last; row += SHORT_ROWS) {
            const int left = (int)(last - row < SHORT_ROWS ? last - row : SHORT_ROWS);
            PLACE(at, row);
            if (!tdm_widen(w, at.entry, strides.entry, 0, left, zeros, &widened)) {
                OWN(row, row + left, start, stop)
                continue;
            }
            const int type = strides.y % N == 0 ? tdm_row_type(w, at.y) : w.arg.target_type;
#define CALL(T) tdm_short_rows(w, at, strides, left, (int)r->inner, &widened, 0, shared, T)
#define CALL_ZEROS(T) tdm_short_rows(w, at, strides, left, (int)r->inner, &widened, 1, shared, T)
            if (zeros) {
                BY_TYPE_AND_PAST(type, CALL_ZEROS)
            } else {
                BY_TYPE_AND_PAST(type, CALL)
            }
#undef CALL
#undef CALL_ZEROS
        }
    } else
#endif
        TDM_FEW_PASSES for (long row = first; row < last; row++) {
            PLACE(at, row);
            tdm_parameters p;
            if (!varies)
                tdm_parameters_of_row(&p, w, at.entry);
#define CALL(T) tdm_alike(w, at, p, start, stop, T)
            if (varies || p.products != PRODUCTS) {
                OWN_ROW(at, start, stop)
            } else {
                BY_TYPE(tdm_row_type(w, at.y), CALL)
            }
#undef CALL
        }
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, FROM_BUFFERS TDM_GLOBAL const void *scale,
 long scale_offset, TDM_GLOBAL const void *zero, long zero_offset, MASK_BUFFER TDM_GLOBAL void *y,
 long y_offset, tdm_dims shape, tdm_dims x_strides, FROM_STRIDES tdm_dims scale_strides,
 tdm_dims zero_strides, MASK_STRIDES tdm_dims y_strides, int rank, long rows, long inner,
 long x_step, FROM_STEPS long scale_step, long zero_step, MASK_STEP long y_step, long span,
 tdm_quant_arg arg) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    TDM_ROW_SHARE(rows, first, last);
    tdm_traversal w;
    tdm_rows r;
    w.x = x, w.scale = scale, w.zero = zero, w.y = y;
    w.x_step = x_step, w.step.scale = scale_step, w.step.zero = zero_step, w.y_step = y_step;
    w.arg = arg;
    r.offset.x = x_offset, r.offset.y = y_offset;
    r.offset.entry.scale = scale_offset, r.offset.entry.zero = zero_offset;
    r.shape = shape, r.x_strides = x_strides, r.y_strides = y_strides;
    r.scale_strides = scale_strides, r.zero_strides = zero_strides, r.rank = rank;
    r.start = start, r.stop = start + span < inner ? start + span : inner;
    r.first = first, r.last = last, r.inner = inner;
    FROM_OF_CALL;
    MASK_OF_CALL;
    tdm_do_rows(&w, &r);
    if (arg.streams)
        tdm_stream_end();
}

#endif
