/* CPU cores copy a block of keys of k or v to local memory as f32. Rows there are TDM_PITCH floats
 * apart, which is a constant, so that one address with displacements reaches the rows of a tile. */
#ifndef TDM_ATTENTION_BLOCK_H
#define TDM_ATTENTION_BLOCK_H

#include "kernels/dialect/long_functions.h"

#if VW >= 8
#define TDM_ATTENTION_MAD(a, b, c) tdm_fma(a, b, c)
#endif
#include "attention_steps.h"

#define TDM_BLOCK_KEYS 64
#define TDM_PITCH 272

/* Copies `count` rows that are contiguous along the columns, and prefetches those of the next
 * block. */
#define TDM_COPY_ROWS(DT)                                                                          \
    const long next = TDM_BLOCK_KEYS * side->data_strides.row;                                     \
    for (int j = 0; j < count; j++) {                                                              \
        TDM_GLOBAL const TDM_TYPE(DT) *const row =                                                 \
            (TDM_GLOBAL const TDM_TYPE(DT) *)side->data + from + j * side->data_strides.row;       \
        TDM_LOCAL float *const target = to + j * TDM_PITCH;                                        \
        int d = 0;                                                                                 \
        for (; d + 16 <= width; d += 16) {                                                         \
            tdm_prefetch_far((TDM_GLOBAL const char *)(row + next + d));                           \
            f32x16_store_f32(TDM_LOADV(16, DT, row, d), target, d);                                \
        }                                                                                          \
        for (; d < width; d++)                                                                     \
            target[d] = TDM_LOAD(DT, row, d);                                                      \
    }

/* Loads `count` neighbouring scales as f32. */
TDM_INLINE void tdm_load_scales(const tdm_attention_side *side, long from, int count,
                                float *scales) {
    int i = 0;
    for (; i + 16 <= count; i += 16)
        f32x16_store_f32(TDM_LOADV_ANY(16, side->scale, side->scale_type, from + i), scales, i);
    for (; i < count; i++)
        scales[i] = tdm_load_any(side->scale, side->scale_type, from + i);
}

/* Copies `count` quantized rows that are contiguous along the columns, in groups of at least 32
 * columns whose scales are contiguous. */
TDM_INLINE void tdm_copy_quantized(const tdm_attention_side *side, long from, long scale_from,
                                   int count, TDM_LOCAL float *to) {
    const int width = side->width, group = side->group, groups = (width + group - 1) / group;
    const long row_stride = side->data_strides.row, scale_row = side->scale_strides.row;
    const long next = TDM_BLOCK_KEYS * row_stride;
    float scales[TDM_BLOCK_KEYS * 8];
    if (scale_row == groups)
        tdm_load_scales(side, scale_from, count * groups, scales);
    else
        for (int j = 0; j < count; j++)
            tdm_load_scales(side, scale_from + j * scale_row, groups, scales + j * groups);
    for (int j = 0; j < count; j++) {
        TDM_GLOBAL const tdm_s8 *const row =
            (TDM_GLOBAL const tdm_s8 *)side->data + from + j * row_stride;
        TDM_LOCAL float *const target = to + j * TDM_PITCH;
        for (int d = 0; d < width; d += 64)
            tdm_prefetch_far((TDM_GLOBAL const char *)(row + next + d));
        for (int g = 0; g < groups; g++) {
            const int end = (g + 1) * group < width ? (g + 1) * group : width;
            const float scale = scales[j * groups + g];
            int d = g * group;
            for (; d + 16 <= end; d += 16)
                f32x16_store_f32(TDM_LOADV(16, s8, row, d) * f32x16_splat(scale), target, d);
            for (; d < end; d++)
                target[d] = tdm_load_s8(row, d) * scale;
        }
    }
}

/* Copies `count` keys of one page from `key` on. */
TDM_INLINE void tdm_copy_within_page(const tdm_attention_side *side, long key, int count,
                                     TDM_LOCAL float *to) {
    tdm_attention_place place;
    tdm_attention_find(&place, side, key);
    const int width = side->width;
    if (side->data_strides.column != 1 || place.page < 0 ||
        (side->type == TDM_CODE_S8 && (side->group < 32 || side->scale_strides.column != 1))) {
        for (int j = 0; j < count; j++)
            for (int d = 0; d < width; d++) {
                const tdm_attention_place row = {place.page, place.row + j};
                to[j * TDM_PITCH + d] = tdm_attention_element(side, &row, d);
            }
        return;
    }
    const long from = side->data_offset + place.page * side->data_strides.batch +
                      place.row * side->data_strides.row;
    if (side->type == TDM_CODE_F16) {
        TDM_COPY_ROWS(f16)
    } else if (side->type == TDM_CODE_BF16) {
        TDM_COPY_ROWS(bf16)
    } else if (side->type == TDM_CODE_S8) {
        tdm_copy_quantized(side, from,
                           side->scale_offset + place.page * side->scale_strides.batch +
                               place.row * side->scale_strides.row,
                           count, to);
    } else {
        TDM_COPY_ROWS(f32)
    }
}

/* Copies keys key … key + count - 1. Columns from the width up to `padded` become zeros. */
TDM_BODY void tdm_copy_keys(const tdm_attention_side *side, long key, int count, int padded,
                            TDM_LOCAL float *to) {
    for (int j = 0; j < count;) {
        int length = count - j;
        if (side->page_keys > 0) {
            const long left = side->page_keys - (key + j) % side->page_keys;
            length = left < length ? (int)left : length;
        }
        tdm_copy_within_page(side, key + j, length, to + j * TDM_PITCH);
        j += length;
    }
    for (int j = 0; j < count && side->width < padded; j++)
        for (int d = side->width; d < padded; d++)
            to[j * TDM_PITCH + d] = 0.0f;
}

#endif
