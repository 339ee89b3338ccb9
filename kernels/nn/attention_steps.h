/* These are the common parts of the attention kernels: which keys a query sees, where the rows of
 * the operands are, and the arithmetic of the online softmax.
 *
 * The rows of a KV head are the queries of all query heads that share it: row r is query
 * r % queries of the group's head r / queries. Scores are in base 2: t = log2(e) · score. */
#ifndef TDM_ATTENTION_STEPS_H
#define TDM_ATTENTION_STEPS_H

#include "kernels/dialect/any_float.h"
#include "kernels/elementwise/strided_rows.h"
#include "attention_args.h"

#define TDM_ATTENTION_ARGUMENTS                                                                    \
    TDM_GLOBAL const void *q, long q_offset, TDM_GLOBAL const void *k, long k_offset,              \
        TDM_GLOBAL const void *v, long v_offset, TDM_GLOBAL void *y, long y_offset,                \
        TDM_GLOBAL const void *mask, long mask_offset, TDM_GLOBAL const tdm_s32 *lengths,          \
        long lengths_offset, TDM_GLOBAL const tdm_s32 *table, long table_offset,                   \
        TDM_GLOBAL const void *k_scale, long k_scale_offset, TDM_GLOBAL const void *v_scale,       \
        long v_scale_offset, TDM_GLOBAL float *parts, long parts_offset, tdm_attention_tensors at, \
        tdm_attention_options_arg more, tdm_attention_arg arg

#define TDM_LOG2_E 1.44269504088896341f
/* This is the maximum of no scores. It is finite, so that its difference to itself is 0. */
#define TDM_LOWEST_SCORE -1.7e38f

/* Returns the number of keys of a sequence. */
TDM_INLINE long tdm_attention_keys(TDM_GLOBAL const tdm_s32 *lengths, long offset, long batch,
                                   const tdm_attention_options_arg *more,
                                   const tdm_attention_arg *arg) {
    if (!arg->has_lengths)
        return arg->keys;
    const long length = tdm_int_s32(lengths, offset + batch * more->length);
    return length < 0 ? 0 : length > arg->keys ? arg->keys : length;
}

/* A query sees the keys first … end-1. No function of these kernels returns a struct: Oclgrind does
 * not support what inlining it leaves in the code. */
typedef struct {
    long first, end;
} tdm_attention_range;

TDM_INLINE void tdm_attention_visible(tdm_attention_range *range, const tdm_attention_arg *arg,
                                      long keys, long query) {
    const long position = query + (arg->first_query < 0 ? keys - arg->queries : arg->first_query);
    range->first = 0, range->end = keys;
    if (arg->window > 0) {
        range->first = position - arg->window + 1 > 0 ? position - arg->window + 1 : 0;
        range->end = position + arg->window < keys ? position + arg->window : keys;
    }
    if (arg->causal && position + 1 < range->end)
        range->end = position + 1;
}

/* Returns the offset of a row of q or y, or of the row of the mask that belongs to it. */
TDM_INLINE long tdm_attention_row(const tdm_attention_strides *strides, long batch, long kv_head,
                                  long row, const tdm_attention_arg *arg) {
    const long in_group = tdm_quotient(row, arg->queries);
    return batch * strides->batch + (kv_head * arg->group + in_group) * strides->head +
           (row - in_group * arg->queries) * strides->row;
}

/* This describes k or v of one KV head, with its scales. The batch strides are the distances of
 * pages. Without pages, the offsets are those of the sequence. */
typedef struct {
    TDM_GLOBAL const void *data, *scale;
    TDM_GLOBAL const tdm_s32 *table;
    long data_offset, scale_offset, table_offset, table_stride;
    tdm_attention_strides data_strides, scale_strides;
    long page_keys, pages;
    int type, scale_type, group, width;
} tdm_attention_side;

/* Defines `side` for operand X of the kernel's arguments (k or v). */
#define TDM_ATTENTION_SIDE(side, X, row_width, batch, kv_head)                                     \
    tdm_attention_side side;                                                                       \
    side.data = X, side.scale = X##_scale, side.table = table;                                     \
    side.data_strides = at.X, side.scale_strides = more.X##_scale;                                 \
    side.data_offset =                                                                             \
        X##_offset + (kv_head)*at.X.head + (arg.page_keys > 0 ? 0 : (batch)*at.X.batch);           \
    side.scale_offset = X##_scale_offset + (kv_head)*more.X##_scale.head +                         \
                        (arg.page_keys > 0 ? 0 : (batch)*more.X##_scale.batch);                    \
    side.table_offset = table_offset + (batch)*more.table_row, side.table_stride = more.table_at;  \
    side.page_keys = arg.page_keys, side.pages = arg.pages;                                        \
    side.type = arg.X##_type, side.scale_type = arg.X##_scale_type;                                \
    side.group = arg.X##_group, side.width = row_width

/* A key is row `row` of page `page`. `page` is -1 if the table gives a page that k does not have,
 * and 0 without pages. */
typedef struct {
    long page, row; /* row: within the page */
} tdm_attention_place;

TDM_INLINE void tdm_attention_find(tdm_attention_place *place, const tdm_attention_side *side,
                                   long key) {
    place->page = 0, place->row = key;
    if (side->page_keys > 0) {
        const long index = tdm_quotient(key, side->page_keys);
        place->row = key - index * side->page_keys;
        place->page = tdm_int_s32(side->table, side->table_offset + index * side->table_stride);
        if (place->page < 0 || place->page >= side->pages)
            place->page = -1;
    }
}

/* Returns element `column` of a row of k or v. A wrong page gives NaN. */
TDM_INLINE float tdm_attention_element(const tdm_attention_side *side,
                                       const tdm_attention_place *place, long column) {
    const tdm_attention_strides *const s = &side->data_strides, *const t = &side->scale_strides;
    if (place->page < 0)
        return NAN;
    const long from =
        side->data_offset + place->page * s->batch + place->row * s->row + column * s->column;
    if (side->type != TDM_CODE_S8)
        return tdm_load_any(side->data, side->type, from);
    const long scale_at = side->scale_offset + place->page * t->batch + place->row * t->row +
                          column / side->group * t->column;
    return tdm_load_s8((TDM_GLOBAL const tdm_s8 *)side->data, from) *
           tdm_load_any(side->scale, side->scale_type, scale_at);
}

/* Returns the score t of a dot product that has the factor arg.scale, without the mask. */
TDM_INLINE float tdm_attention_score(float product, const tdm_attention_arg *arg) {
    return arg->cap > 0.0f ? arg->cap * TDM_LOG2_E * tdm_tanh(product) : product;
}

/* Kernels whose variants require hardware for it use tdm_fma. */
#ifndef TDM_ATTENTION_MAD
#define TDM_ATTENTION_MAD(a, b, c) tdm_mad(a, b, c)
#endif

#define s32x1_float(v) tdm_bits_float((uint)(v))

/* Defines tdm_exp2_N(x), which is 2^x for x ≤ 0 with a relative error below 2·10⁻⁷. Below 2^-126 it
 * is 0; a NaN stays NaN. The sum of x and 1.5·2^23 has the nearest whole number in its low bits,
 * which become the exponent. The polynomial is that of Taylor for |f| ≤ 1/2. */
#define TDM_DEFINE_EXP2(N) TDM_DEFINE_EXP2_(N)
#define TDM_DEFINE_EXP2_(N)                                                                        \
    TDM_INLINE f32x##N tdm_exp2_##N(f32x##N x) {                                                   \
        const f32x##N magic = f32x##N##_splat(12582912.0f);                                        \
        const f32x##N shifted = x + magic;                                                         \
        const f32x##N f = x - (shifted - magic);                                                   \
        const s32x##N exponent = tdm_add_wrap(N, f32x##N##_bits(shifted), s32x##N##_splat(127));   \
        const f32x##N power =                                                                      \
            s32x##N##_float(tdm_mul_wrap(N, exponent, s32x##N##_splat(1 << 23)));                  \
        f32x##N y = f32x##N##_splat(1.5403530e-4f);                                                \
        y = TDM_ATTENTION_MAD(y, f, f32x##N##_splat(1.3333558e-3f));                               \
        y = TDM_ATTENTION_MAD(y, f, f32x##N##_splat(9.6181291e-3f));                               \
        y = TDM_ATTENTION_MAD(y, f, f32x##N##_splat(5.5504109e-2f));                               \
        y = TDM_ATTENTION_MAD(y, f, f32x##N##_splat(2.4022651e-1f));                               \
        y = TDM_ATTENTION_MAD(y, f, f32x##N##_splat(6.9314718e-1f));                               \
        y = TDM_ATTENTION_MAD(y, f, f32x##N##_splat(1.0f));                                        \
        return f32x##N##_select_lt(x, f32x##N##_splat(-126.0f), f32x##N##_splat(0.0f), y * power); \
    }

#endif
