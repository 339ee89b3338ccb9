/* Definitions for kernels of CPU cores with AVX-512 that read rows of Bᵀ in chunks of 64 bytes.
 * They find the scales and zero points of a chunk, and the addresses to prefetch.
 *
 * A step is one index of K. A lane is four bytes of a chunk: 4 steps of s8 or 8 of s4. A
 * quantization group is a whole number of chunks, or a chunk is a whole number of groups. A kernel
 * source includes this after gemm_weights_rows.h, and defines
 *   IS_S4        1 if weights are s4, 0 if s8
 *   NT           rows of Bᵀ that are multiplied at a time, e.g. 4
 *   MOST_STEPS   most steps of K whose scales are gathered at once, e.g. 16384 */
#ifndef TDM_GEMM_WEIGHTS_CHUNKS_H
#define TDM_GEMM_WEIGHTS_CHUNKS_H

#include "gemm_weights_order.h"

#define LANES 16
#define LINE_BYTES 64
#define PARTS (IS_S4 ? 2 : 1) /* steps of K in a byte */
#define CHUNK (LINE_BYTES * PARTS)
#define MOST_GROUPS 8 /* most groups of a chunk */

typedef int16 ints;
typedef int16 ints_anywhere __attribute__((aligned(1)));
typedef float16 floats;
typedef float16 floats_anywhere __attribute__((aligned(4)));
typedef char8 bytes8_anywhere __attribute__((aligned(1)));
typedef char16 bytes16_anywhere __attribute__((aligned(1)));

/* This describes neighbouring rows of Bᵀ: the address of the first, the stride in bytes, and the
 * address to prefetch while row n is multiplied. */
typedef struct {
    const char *first;
    long stride;
    const char *prefetch[NT];
} some_lines;

/* This describes the scales and zero points of neighbouring rows of Bᵀ. Rows are `pitch` entries
 * apart, and each chunk has `groups` entries. `zero` is NULL if there are no zero points. Lane l of
 * a chunk belongs to entry lane_group[l] of the chunk. */
typedef struct {
    const float *scale;
    const int *zero;
    int groups, pitch;
    ints lane_group;
} line_groups;

/* Entries for a row of Bᵀ, with room to load a vector from the last one. */
#define PITCH (MOST_STEPS / CHUNK * MOST_GROUPS + LANES)

/* These values are common to all rows of Bᵀ. Offsets (*_at) are in elements, for one batch entry;
 * b_col is the stride of rows of Bᵀ. */
typedef struct {
    TDM_GLOBAL const char *b;
    TDM_GLOBAL const void *scale, *zero;
    long b_at, b_col, scale_at, zero_at, k;
    tdm_gemm_weights_arg w;
    int groups;                  /* groups of a chunk; 0: one group for all of K */
    ints lane_group, rest_group; /* of a whole chunk; of an incomplete last chunk */
} lines_of_b;

/* This describes the groups of a block of K. `first` is the group of the block's first step; it
 * begins `lead` chunks before the block. `repeats` is the number of chunks of a group, or 1 if
 * groups are smaller than chunks. `there` is the number of the block's groups that begin within K.
 * `count` is the number of entries: one for each group of each chunk. */
typedef struct {
    long first;
    int lead, repeats, there, count;
} block_groups;

/* Returns the groups of the block of `chunks` chunks that begins at step p0. */
TDM_DEVICE block_groups groups_of_block(const lines_of_b *l, long p0, int chunks) {
    block_groups b;
    const long last = (l->k - 1) / l->w.group;
    b.first = p0 / l->w.group;
    b.repeats = l->w.group <= CHUNK ? 1 : (int)(l->w.group / CHUNK);
    b.lead = (int)(p0 / CHUNK % b.repeats);
    b.count = chunks * l->groups;
    const int wanted = l->groups ? (b.lead + b.count + b.repeats - 1) / b.repeats : 1;
    b.there = last - b.first + 1 < wanted ? (int)(last - b.first + 1) : wanted;
    return b;
}

/* Gathers the `count` scales and zero points of row j of Bᵀ, one entry for each group of each
 * chunk. `zero` is unused if there are no zero points. */
TDM_DEVICE void gather_parameters(const lines_of_b *l, const block_groups *b, long j, float *scale,
                                  int *zero) {
    const long scale_at = l->scale_at + j * l->w.scale_col + b->first * l->w.scale_row;
    const long zero_at = l->zero_at + j * l->w.zero_col + b->first * l->w.zero_row;
    float apart[PITCH], *const own = b->repeats == 1 ? scale : apart;
    load_scales(l->scale, l->w.scale_type, scale_at, l->w.scale_row, b->there, own);
    /* Groups past K get the scale 0. They multiply only quantized values of 0. */
    for (int x = b->there; x < b->count && b->repeats == 1; x++)
        scale[x] = 0.0f;
    for (int x = 0, g = 0, left = b->repeats - b->lead; x < b->count && b->repeats > 1;
         g++, left = b->repeats)
        for (; left > 0 && x < b->count; left--, x++)
            scale[x] = own[g];
    if (l->w.zero_type == TDM_CODE_ABSENT)
        return;
    for (int x = 0, g = 0, left = b->repeats - b->lead; x < b->count; g++, left = b->repeats) {
        const int own_zero =
            g < b->there ? tdm_int_any(l->zero, l->w.zero_type, zero_at + g * l->w.zero_row) : 0;
        for (; left > 0 && x < b->count; left--, x++)
            zero[x] = own_zero;
    }
}

/* Prefetches the scales of `lines` rows of Bᵀ, from row j + SCALES_AHEAD on. */
TDM_DEVICE void prefetch_lines(const lines_of_b *l, const block_groups *b, long j, int lines) {
    for (int n = 0; n < lines; n++)
        prefetch_scales(l->scale, l->w.scale_type,
                        l->scale_at + b->first * l->w.scale_row +
                            (j + SCALES_AHEAD + n) * l->w.scale_col,
                        l->w.scale_row, b->there);
}

/* Returns for each lane of a chunk the index of its group in the chunk. Lanes from step `steps` on
 * get `groups`, the index after the last group. `group` is the size of a group. */
TDM_DEVICE ints lane_groups(long group, int groups, int steps) {
    ints lanes;
    int of[LANES];
    for (int x = 0; x < LANES; x++)
        of[x] = x * (CHUNK / LANES) >= steps ? groups
                : groups > 1                 ? x * (CHUNK / LANES) / (int)group
                                             : 0;
    lanes = *(const ints_anywhere *)of;
    return lanes;
}

/* Returns the values that are common to all rows of Bᵀ. Offsets are for one batch entry; `groups`
 * is the number of groups of a chunk. */
TDM_DEVICE lines_of_b lines_of_launch(TDM_GLOBAL const void *b, long b_at,
                                      TDM_GLOBAL const void *scale, long scale_at,
                                      TDM_GLOBAL const void *zero, long zero_at,
                                      tdm_gemm_shape_arg s, tdm_gemm_weights_arg w, int groups) {
    const lines_of_b l = {(TDM_GLOBAL const char *)b,
                          scale,
                          zero,
                          b_at,
                          s.b_col,
                          scale_at,
                          zero_at,
                          s.k,
                          w,
                          groups,
                          lane_groups(w.group, groups, CHUNK),
                          lane_groups(w.group, groups, (int)(s.k % CHUNK))};
    return l;
}

#endif
