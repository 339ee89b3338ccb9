/* y = x in another dtype, each element rounded once.
 *
 * Defines: DT the source's type, N vector width, TDM_INTEGER for an integer DT. strided_rows.h
 * describes the rows. The target's type is the launch-time code `type`, plus TDM_CODE_NONTEMPORAL
 * for non-temporal stores. The switch on it is uniform. One program per source type is a sixth of
 * the programs that one for each pair of types would need.
 *
 * A float source passes through f32, which holds all of f16 and bf16; an integer source passes
 * through s32. s32 to bf16 by way of f32 would round twice, so that conversion rounds to odd first.
 * Both elements of a byte of s4 belong to one work-item, so span is even for s4. Offsets of s4
 * count elements. */
#include "kernels/dialect/dialect.h"
#include "kernels/dialect/prefetch.h"
#include "kernels/dialect/op_codes.h"
#include "kernels/dialect/nontemporal.h"
#include "strided_rows.h"

TDM_INT_PART_FUNCTIONS(s32)
TDM_INT_PART_FUNCTIONS(s8)
TDM_INT_PART_FUNCTIONS(u8)
TDM_INT_PART_FUNCTIONS(s4)
TDM_PART_FUNCTIONS(f32)
TDM_PART_FUNCTIONS(f16)
TDM_PART_FUNCTIONS(bf16)

#ifdef TDM_INTEGER
#define V TDM_S32(N)
#define LOAD_ONE(p, i) TDM_INT_SPLAT(N, TDM_CAT2(tdm_int_, DT)(p, i))
#define LOAD_WHOLE(p, i) TDM_INT_LOADV_GLOBAL(N, DT, p, i)
#define TO_S32(v) (v)
#define TO_F32(v) TDM_CAT4(f32x, N, _from_s32, )(v)
#define TO_F32_ODD(v) TDM_CAT2(TO_F32_ODD_, DT)(v)
#define TO_F32_ODD_s32(v) TDM_CAT4(f32x, N, _from_s32, _odd)(v)
#define TO_F32_ODD_s8(v) TO_F32(v)
#define TO_F32_ODD_u8(v) TO_F32(v)
#define TO_F32_ODD_s4(v) TO_F32(v)
#else
#define V TDM_F32(N)
#define LOAD_ONE(p, i) TDM_SPLAT(N, TDM_LOAD(DT, p, i))
#define LOAD_WHOLE(p, i) TDM_LOADV_GLOBAL(N, DT, p, i)
#define TO_S32(v) TDM_CAT4(s32x, N, _from_f32, _rte)(v)
#define TO_F32(v) (v)
#define TO_F32_ODD(v) (v)
#endif

#define STORE_CASE(code, to, store, store_part, value)                                             \
    case code:                                                                                     \
        if (left == N)                                                                             \
            store(N, to, value, (TDM_GLOBAL tdm_##to *)y, i);                                      \
        else                                                                                       \
            store_part(to, value, (TDM_GLOBAL tdm_##to *)y, i, left);                              \
        break;

/* TO_BYTE converts to an integer that saturates again when it is stored as s8, u8 or s4. Adding a
 * constant rounds, as in quant_steps.h. Large numbers become ±1024, which is outside of these
 * types. */
#ifdef TDM_INTEGER
#define TO_BYTE(v) (v)
#else
TDM_DEVICE TDM_S32(N) tdm_to_byte(V v) {
    const V most = TDM_SPLAT(N, 1024.0f), least = TDM_SPLAT(N, -1024.0f);
    const V number = TDM_NUMBER(N, v);
    const V below = TDM_SELECT_LT(N, number, most, number, most);
    const V between = TDM_SELECT_LT(N, least, below, below, least);
    return tdm_sub_wrap(N, TDM_BITS(N, between + TDM_SPLAT(N, 12582912.0f)),
                        TDM_INT_SPLAT(N, 0x4b400000));
}
#define TO_BYTE(v) tdm_to_byte(v)
#endif

/* Each target type has its own loop over the whole vectors of a row. `convert` returns a value of
 * type `vector`. The loop prefetches PREFETCH_BYTES bytes ahead. */
#define WHOLE(code, to_type, vector, store, convert)                                               \
    case code:                                                                                     \
        for (; i + N <= stop; i += N) {                                                            \
            tdm_prefetch_far((TDM_GLOBAL const char *)(x + PLACE_OF(from + i)) + PREFETCH_BYTES);  \
            const vector v = convert(LOAD_WHOLE(x, from + i));                                     \
            store(past, to_type, v, (TDM_GLOBAL tdm_##to_type *)y, to + i);                        \
        }                                                                                          \
        break;

/* Runs of whole vectors between s4 and bytes, in the dialect forms that have them: `move` converts
 * TDM_S4_RUN elements. Before non-temporal stores, single vectors come first, up to a multiple of
 * the size that a run stores. */
#if N == 16 && defined(TDM_S4_RUN)
#define AT_s8(i) (i)
#define AT_u8(i) (i)
#define AT_s4(i) ((i) >> 1)
#define RUNS(code, from_at, to_type, move)                                                         \
    case code: {                                                                                   \
        const long single = past ? i + tdm_to_next_run(y, to + i, tdm_bits_of(type)) : i;          \
        for (; i < single && i + N <= stop; i += N)                                                \
            TDM_INT_STOREV_GLOBAL(N, to_type, LOAD_WHOLE(x, from + i),                             \
                                  (TDM_GLOBAL tdm_##to_type *)y, to + i);                          \
        for (; i + TDM_S4_RUN <= stop; i += TDM_S4_RUN)                                            \
            move(x + from_at(from + i), (TDM_GLOBAL tdm_##to_type *)y + AT_##to_type(to + i),      \
                 past);                                                                            \
        break;                                                                                     \
    }
#define SOURCE_s8 1
#define SOURCE_u8 2
#define SOURCE_s4 3
#if TDM_CAT2(SOURCE_, DT) == SOURCE_s8
#define SOURCE_RUNS RUNS(TDM_CODE_S4, AT_s8, s4, tdm_s4_from_s8)
#elif TDM_CAT2(SOURCE_, DT) == SOURCE_u8
#define SOURCE_RUNS RUNS(TDM_CODE_S4, AT_u8, s4, tdm_s4_from_u8)
#elif TDM_CAT2(SOURCE_, DT) == SOURCE_s4
#define SOURCE_RUNS                                                                                \
    RUNS(TDM_CODE_S8, AT_s4, s8, tdm_s4_to_s8) RUNS(TDM_CODE_U8, AT_s4, u8, tdm_s4_to_u8)
#endif
#endif

TDM_DEVICE int tdm_bits_of(int type) {
    if (type == TDM_CODE_F32 || type == TDM_CODE_S32)
        return 32;
    return type == TDM_CODE_S4 ? 4 : type == TDM_CODE_S8 || type == TDM_CODE_U8 ? 8 : 16;
}

#if N == 16 && defined(TDM_S4_RUN)
/* Returns the number of elements from element i of p, where a vector may begin, to the next element
 * where a run may begin. */
TDM_DEVICE long tdm_to_next_run(TDM_GLOBAL const void *p, long i, int bits) {
    const long at = (long)tdm_address((TDM_GLOBAL const tdm_u8 *)p) * 8 + i * bits;
    return (-at & (TDM_S4_RUN * bits - 1)) / bits;
}
#endif

TDM_DEVICE void tdm_store_as(int type, V v, TDM_GLOBAL void *y, long i, int left) {
    switch (type) {
        STORE_CASE(TDM_CODE_F32, f32, TDM_STOREV_GLOBAL, TDM_STORE_PART, TO_F32(v))
        STORE_CASE(TDM_CODE_F16, f16, TDM_STOREV_GLOBAL, TDM_STORE_PART, TO_F32(v))
        STORE_CASE(TDM_CODE_BF16, bf16, TDM_STOREV_GLOBAL, TDM_STORE_PART, TO_F32_ODD(v))
        STORE_CASE(TDM_CODE_S32, s32, TDM_INT_STOREV_GLOBAL, TDM_STORE_PART, TO_S32(v))
        STORE_CASE(TDM_CODE_S8, s8, TDM_INT_STOREV_GLOBAL, TDM_STORE_PART, TO_BYTE(v))
        STORE_CASE(TDM_CODE_U8, u8, TDM_INT_STOREV_GLOBAL, TDM_STORE_PART, TO_BYTE(v))
        STORE_CASE(TDM_CODE_S4, s4, TDM_INT_STOREV_GLOBAL, TDM_STORE_PART, TO_BYTE(v))
    }
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) *x, long x_offset, TDM_GLOBAL void *y, long y_offset, tdm_dims shape,
 tdm_dims x_strides, tdm_dims y_strides, int rank, long rows, long inner, long x_step, long y_step,
 long span, int type) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    const int streams = type >= TDM_CODE_NONTEMPORAL;
    type %= TDM_CODE_NONTEMPORAL;
    TDM_ROW_SHARE(rows, first, last);
    TDM_FEW_PASSES for (long row = first; row < last; row++) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &shape);
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        long i = start;
#if N > 1 && !defined(TDM_DIALECT_CXX) /* in C++ a work-item has one vector of a row */
        const int bits = tdm_bits_of(type);
        const int past = tdm_row_past(streams, y, (to + start) * bits / 8, N * bits / 8);
#ifdef SOURCE_RUNS
        if (x_step == 1)
            switch (type) { SOURCE_RUNS }
#endif
        if (x_step == 1)
            switch (type) {
                WHOLE(TDM_CODE_F32, f32, TDM_F32(N), TDM_STOREV_PAST, TO_F32)
                WHOLE(TDM_CODE_F16, f16, TDM_F32(N), TDM_STOREV_PAST, TO_F32)
                WHOLE(TDM_CODE_BF16, bf16, TDM_F32(N), TDM_STOREV_PAST, TO_F32_ODD)
                WHOLE(TDM_CODE_S32, s32, TDM_S32(N), TDM_INT_STOREV_PAST, TO_S32)
                WHOLE(TDM_CODE_S8, s8, TDM_S32(N), TDM_INT_STOREV_PAST, TO_BYTE)
                WHOLE(TDM_CODE_U8, u8, TDM_S32(N), TDM_INT_STOREV_PAST, TO_BYTE)
                WHOLE(TDM_CODE_S4, s4, TDM_S32(N), TDM_INT_STOREV_PAST, TO_BYTE)
            }
#endif
        TDM_FEW_PASSES for (; i < stop; i += N) {
            const int left = (int)(stop - i < N ? stop - i : N);
            V v;
            if (N > 1 && x_step == 0)
                v = LOAD_ONE(x, from);
            else if (left == N)
                v = LOAD_WHOLE(x, from + i * x_step);
            else
                v = TDM_LOAD_PART(DT, x, from + i, left, 0);
            tdm_store_as(type, v, y, to + i * y_step, left);
        }
    }
    if (streams)
        tdm_stream_end();
}
